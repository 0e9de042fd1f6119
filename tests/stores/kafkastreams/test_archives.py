"""The project's own stores of Kafka Streams: there, small, and with the rows that are expected."""

from __future__ import annotations

import struct
import tarfile
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.rocksdb.opening import open_store
from tests.formats.streams.realstores import as_on_disk
from tests.stores.kafkastreams.archives import (
    MADE_AT,
    RELEASES,
    State,
    archive_of,
    states,
    unpacked,
)

if TYPE_CHECKING:
    from pathlib import Path

ALL_STATES = [state for release in RELEASES for state in states(release)]
WITHOUT_ITERATOR = {"price-join-Buffer"}

IN_EVERY_RELEASE = {
    "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000029",
    "actions-1m",
    "actions-hop",
    "actions-slide",
    "click-imp-left-outer-other-join-store",
    "click-imp-left-this-join-store",
    "click-imp-other-join-store",
    "click-imp-this-join-store",
    "config-global",
    "customers-table",
    "final-1m",
    "kv-bytes",
    "kv-int-json",
    "kv-nolog",
    "kv-plain",
    "kv-short-double",
    "kv-ts",
    "kv-uuid",
    "orders-enriched",
    "orders-table",
    "sensor-max",
    "sess-plain",
    "user-count",
    "user-count-plain",
    "user-sessions",
    "win-dups",
    "win-plain",
}
SINCE_3_6 = {
    "click-imp-left-left-shared-join-store",
    "emit-1m",
    "emit-sessions",
    "emit-slide",
    "price-history",
    "price-join-Buffer",
}
WITH_HEADERS = {
    "emit-1m",
    "h-1m",
    "h-count",
    "h-dsl-sess",
    "h-join-left-shared-join-store",
    "h-join-outer-other-join-store",
    "h-join-this-join-store",
    "h-kv",
    "h-sess",
    "h-win",
}
STORES = {
    ("2.8.2", "clean"): IN_EVERY_RELEASE,
    ("3.9.2", "clean"): IN_EVERY_RELEASE | SINCE_3_6,
    ("4.3.1", "clean"): IN_EVERY_RELEASE | SINCE_3_6,
    ("4.3.1", "headers-clean"): WITH_HEADERS,
}

Rows = list[tuple[bytes, bytes]]
Expected = dict[str, Any]


def on_disk(directory: Path) -> dict[tuple[str, str], Rows]:
    """Return the rows of each store, by task and name, of all its segments and column families."""
    rows: defaultdict[tuple[str, str], Rows] = defaultdict(list)
    for current in directory.rglob("CURRENT"):
        path = current.parent
        name = path.name if path.parent.name == "rocksdb" else path.parent.name
        with open_store(path) as store:
            found = rows[path.parents[1].name, name]
            for family in set(store.column_families) - {"offsets"}:
                found.extend(store.iter_rows(cf=family))
    return dict(rows)


def missing(expected: Expected, rows: Rows) -> list[Expected]:
    """Return the expected rows that are not on disk, or not as often as they are expected."""
    classes = expected["classes"]
    if "ListValueStore" in classes or "Versioned" in classes:  # several rows in one value on disk
        return [row for row in expected["rows"] if not any(is_part(row, cell) for cell in rows)]
    left = defaultdict(list)
    for key, value in rows:
        left[value].append(key)
    absent = []
    # A user's name may be a part of another's: the longest first, each takes away its own.
    for row in sorted(expected["rows"], key=lambda row: -len(row["key_hex"])):
        keys = left[as_on_disk(row["value_hex"], classes)]
        start = struct.pack(">q", row["start"]) if "start" in row else b""
        fitting = (at for at, key in enumerate(keys) if key_of(row) in key and start in key)
        at = next(fitting, None)
        if at is None:
            absent.append(row)
        else:
            keys.pop(at)
    return absent


def is_part(row: Expected, cell: tuple[bytes, bytes]) -> bool:
    value = bytes.fromhex(row["value_hex"]) if "value_hex" in row else row["value"].encode()
    return key_of(row) in cell[0] and value in cell[1]


def key_of(row: Expected) -> bytes:
    return bytes.fromhex(row["key_hex"]) if "key_hex" in row else row["key"].encode()


@pytest.mark.parametrize("state", ALL_STATES, ids=str)
def test_every_row_that_the_application_read_is_on_disk(
    state: State, tmp_path_factory: pytest.TempPathFactory
) -> None:
    disk = on_disk(state.directory(tmp_path_factory))
    compared = 0
    for expected in state.stores(tmp_path_factory):
        if not expected["persistent"] or expected["store"] in WITHOUT_ITERATOR:
            continue
        rows = disk[expected["task"], expected["store"]]
        assert rows
        assert not missing(expected, rows), expected["store"]
        compared += len(expected["rows"])
    assert compared > 250


@pytest.mark.parametrize(("release", "name"), STORES)
def test_an_archive_of_ours_has_a_store_of_each_kind_of_its_release(
    release: str, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    disk = on_disk(unpacked(tmp_path_factory, release) / name)
    assert {store for _, store in disk} == STORES[release, name]
    assert all(disk.values())


@pytest.mark.parametrize("release", RELEASES)
def test_users_with_odd_names_are_in_the_stores(
    release: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (folder,) = unpacked(tmp_path_factory, release).glob("clean/*/0_0/rocksdb/user-count")
    with open_store(folder) as store:
        found = {key for key, _ in store.iter_rows(cf="keyValueWithTimestamp")}
    assert {b"user|17", "zoë".encode(), "名前".encode(), b"a\0b", b""} <= found


@pytest.mark.parametrize("release", RELEASES)
def test_an_archive_of_ours_is_small_sorted_and_knows_no_machine(release: str) -> None:
    archive = archive_of(release)
    assert archive.stat().st_size < 150_000
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
        told = b"".join(
            read.read()
            for each in members
            if each.name.rpartition("/")[2].startswith(("LOG", "OPTIONS-"))
            and (read := packed.extractfile(each)) is not None
        )
    assert [each.name for each in members] == sorted(each.name for each in members)
    assert {(each.mtime, each.uid, each.gid, each.uname) for each in members} == {
        (MADE_AT, 0, 0, "")
    }
    assert b"/var/lib/kafka-streams/small-main-" in told or release != "2.8.2"
    assert b"kstoolkit-streams-" not in told
