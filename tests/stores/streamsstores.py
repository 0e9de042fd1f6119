"""Stores as Kafka Streams lays them out, written by rocksdict: small, and of known content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocksdict import Options, Rdict

from kstoolkit.stores.rows.statestore import StorePart

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.rocksdb.store import Store

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
START_MS = 1_700_002_800_000 // HOUR_MS * HOUR_MS


def int64(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def window_key(key: bytes, start_ms: int) -> bytes:
    return key + int64(start_ms) + bytes(4)


def write_store(folder: Path, **families: dict[bytes, bytes]) -> Path:
    """Write a store of some column families, of which ``default`` is always one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    store = Rdict(str(folder), Options(raw_mode=True))
    for name, rows in families.items():
        new = name != "default"
        family = store.create_column_family(name, Options(raw_mode=True)) if new else store
        for key, value in rows.items():
            family[key] = value
        family.flush()
        if new:
            family.close()
    store.close()
    (folder / "rocksdict-config.json").unlink()
    return folder


def write_minutes(folder: Path, users: list[str], *, segments: int = 3) -> Path:
    """Write a window store of hourly segments in which each user has each tenth minute."""
    for start_ms in range(START_MS, START_MS + segments * HOUR_MS, HOUR_MS):
        rows = {
            window_key(user.encode(), at): int64(at // MINUTE_MS)
            for user in users
            for at in range(start_ms, start_ms + HOUR_MS, 10 * MINUTE_MS)
        }
        write_store(folder / f"{folder.name}.{start_ms}", default=rows)
    return folder


def open_part(store: Store, span_ms: range | None = None) -> StorePart:
    """Return an open RocksDB as a part of a store's rows; ``span_ms`` as of a segment's windows."""
    return StorePart(lambda: store, lambda rows: rows, span_ms)
