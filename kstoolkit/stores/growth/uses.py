"""Who takes a store's room: which keys, which beginnings of keys, which windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.decoded import Undecoded
from kstoolkit.formats.guessing import guess_serde
from kstoolkit.formats.serdes import serde_of
from kstoolkit.rocksdb.records import Records
from kstoolkit.stores.growth.clock import Clock
from kstoolkit.stores.growth.heavyhitters import HeavyHitters
from kstoolkit.stores.growth.records import KeyUse, PrefixUse, WindowUse

if TYPE_CHECKING:
    from kstoolkit.formats.serdes import Serde
    from kstoolkit.stores.growth.tallies import Tallies

__all__ = ["keys_of", "num_windows", "prefix_text", "prefixes_of", "share_of", "windows_of"]


def keys_of(tallies: Tallies, top: int, serde: Serde | None) -> Records[KeyUse]:
    """Return the keys that take most, read by a serde, or by the one that they look like."""
    hitters = tallies.keys
    totals = hitters.top(top)
    raw = ByteColumn.from_arrow(totals.keys)
    chosen = serde_of(guess_serde(raw).serde) if serde is None else serde
    rows = zip(
        chosen.decode(raw).to_list(raw),
        raw.to_list(),
        totals.num_rows.tolist(),
        totals.data_bytes.tolist(),
        strict=True,
    )
    uses = [
        KeyUse(
            _readable(value),
            key,
            num_rows,
            size,
            share_of(size, tallies),
            hitters.error_rows,
            hitters.error_bytes,
        )
        for value, key, num_rows, size in rows
    ]
    return Records(uses, "keys")


def prefixes_of(tallies: Tallies, top: int) -> Records[PrefixUse]:
    """Return the beginnings of keys that take most."""
    tally = tallies.prefixes
    totals = tally.top(top)
    if totals is None:
        return Records((), "prefixes")
    bounds = (tally.error_rows, tally.error_bytes) if isinstance(tally, HeavyHitters) else (0, 0)
    rows = zip(
        totals.keys.to_pylist(), totals.num_rows.tolist(), totals.data_bytes.tolist(), strict=True
    )
    uses = [
        PrefixUse(
            prefix_text(raw or b""), raw or b"", num_rows, size, share_of(size, tallies), *bounds
        )
        for raw, num_rows, size in rows
    ]
    return Records(uses, "prefixes")


def windows_of(tallies: Tallies, top: int) -> Records[WindowUse]:
    """Return the window starts that take most; none of a store without windows, or of sessions."""
    if tallies.clock is not Clock.WINDOW_START:
        return Records((), "windows")
    spans = tallies.times.spans()
    order = (-spans.data_bytes).argsort(kind="stable")[:top]
    uses = [
        WindowUse(
            int(spans.number[at]) * spans.length_ms,
            spans.length_ms,
            int(spans.num_rows[at]),
            int(spans.data_bytes[at]),
            share_of(int(spans.data_bytes[at]), tallies),
        )
        for at in order
    ]
    return Records(uses, "windows")


def num_windows(tallies: Tallies) -> int | None:
    """Return how many window starts there are, or spans of them; None of a store without."""
    return len(tallies.times.spans()) if tallies.clock is Clock.WINDOW_START else None


def prefix_text(raw: bytes) -> str:
    r"""Return the beginning of a key for people: text if it can be printed, else hex.

    Examples
    --------
    >>> prefix_text(b"user-"), prefix_text("zoë".encode()[:3]), prefix_text(b"\x00\x01")
    ('user-', 'zo', '0x0001')
    """
    text = raw.decode(errors="ignore")  # a character may be cut in two
    is_text = text.isprintable() and len(raw) - len(text.encode()) < 4  # noqa: PLR2004 - UTF-8's
    return text if is_text and (text or not raw) else f"0x{raw.hex()}"


def _readable(value: Any) -> Any:
    return value.raw if isinstance(value, Undecoded) else value


def share_of(size_bytes: int, tallies: Tallies) -> float:
    """Return which share of all keys' and values' bytes some bytes are."""
    return size_bytes / tallies.data_bytes if tallies.data_bytes else 0.0
