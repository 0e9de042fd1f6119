from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, FormatError
from kstoolkit.rocksdb.faults import NoStoreError, StoreClosedError
from kstoolkit.stores.rows.replicalevel import ReplicaLevel
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.rows.statestore import StateStore
from tests.changelog.changelogs import MINUTE, write
from tests.rocksdb.madestores import appearance
from tests.stores.replicas import restored
from tests.stores.streamsstores import START_MS, int64, write_minutes, write_store

if TYPE_CHECKING:
    from pathlib import Path


def test_one_rocksdb_is_read_and_looked_into(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", default={b"a": int64(1), b"b": int64(2)})
    before = appearance(path)
    with kst.open_store(path) as store:
        assert isinstance(store, StateStore)
        assert (store.name, store.kind) == ("kv", "key-value")
        assert [(row.key, row.value) for row in store.rows()] == [("a", 1), ("b", 2)]
        assert store.summary().num_entries == 2
        assert [each.num_entries for each in store.levels()] == [2]
    assert appearance(path) == before
    assert repr(store).startswith("StateStore(")


def test_the_folder_of_segments_is_one_store(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna", "Bo"])
    before = appearance(path)
    with kst.open_store(path, window_size="60 seconds") as store:
        assert isinstance(store, SegmentedStore)
        assert (store.name, store.kind) == ("minutes", "window")
        assert list(store.segments) == [START_MS + each * 3_600_000 for each in range(3)]
        assert store.segment_interval_ms == 3_600_000
        row = next(iter(store.rows(key="Bo")))
        assert (row.window_start_ms, row.window_end_ms) == (START_MS, START_MS + 60_000)
        assert store.rows().count() == 36
        assert store.segments[START_MS].summary().num_entries == 12
    assert appearance(path) == before


def test_a_single_segment_is_a_store_of_the_same_name(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"])
    with kst.open_store(path / f"minutes.{START_MS}") as store:
        assert (store.name, store.kind, store.rows().count()) == ("minutes", "window", 6)


def test_a_level_of_a_replica_is_a_store_of_counts(tmp_path: Path) -> None:
    told = {MINUTE: {(0, "Anna", "x"): 3, (0, "Anna", "y"): 1, (MINUTE, "Bo", "x"): 2}}
    write(tmp_path / "changelog", 0, told)
    with restored(tmp_path / "changelog", tmp_path / "replica"):
        pass
    with kst.open_store(tmp_path / "replica" / str(MINUTE)) as store:
        assert isinstance(store, ReplicaLevel)
        assert store.name == "1 minute"
        found = {(row.key, row.window_start_ms): row.value for row in store.rows()}
        assert found == {("Anna", 0): {"x": 3, "y": 1}, ("Bo", MINUTE): {"x": 2}}
        assert [row.window_end_ms for row in store.rows(key="Bo")] == [2 * MINUTE]
    with kst.open_store(tmp_path / "replica" / str(MINUTE) / f"{MINUTE}.0") as segment:
        assert isinstance(segment, StateStore)
        assert {row.key for row in segment.rows()} == {"Anna", "Bo"}
        assert segment.summary().num_entries > 0
    [found_segment] = kst.discover(tmp_path / "replica" / str(MINUTE) / f"{MINUTE}.0")
    assert (found_segment.engine, found_segment.store) == ("kstoolkit", "1 minute")


def test_what_the_user_says_is_believed(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", default={b"a" * 12: int64(1), b"b" * 20: b"xy"})
    with kst.open_store(path, kind="window", key_serde="bytes", value_serde="string") as store:
        assert store.kind == "window"
        assert {row.key for row in store.rows()} == {b"", b"b" * 8}
        assert isinstance(store, StateStore)
        assert store.recognised.reasons
    with pytest.raises(ConfigurationError, match="no kind of store 'windoww'"):
        kst.open_store(path, kind="windoww")


@pytest.mark.parametrize("asked", ["window", "session", "versioned"])
def test_rows_that_are_not_of_the_kind_are_shown_whole_and_said_why(
    tmp_path: Path, asked: str
) -> None:
    path = write_store(tmp_path / "kv", default={b"short": int64(1)})
    with kst.open_store(path, kind=asked, key_serde="string") as store:
        [row] = store.rows()
    assert row.problem
    assert (row.key_bytes, row.value_bytes) == (b"short", int64(1))


def test_large_values_are_not_all_taken_to_recognise_a_store(tmp_path: Path) -> None:
    mib = 1 << 20
    path = write_store(tmp_path / "kv", default={b"%02d" % at: bytes(mib) for at in range(40)})
    with kst.open_store(path) as store:
        tracemalloc.start()
        assert store.kind == "key-value"
        assert store.key_serde.name == "string"
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 25 * mib


def test_no_store_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoStoreError):
        kst.open_store(tmp_path)
    with pytest.raises(NoStoreError):
        kst.open_store(tmp_path / "absent")


def test_one_damaged_segment_closes_the_others(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"])
    [manifest] = (path / f"minutes.{START_MS + 2 * 3_600_000}").glob("MANIFEST-*")
    manifest.write_bytes(b"\xff" * 10)
    with pytest.raises(FormatError):
        kst.open_store(path)


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = kst.open_store(write_minutes(tmp_path / "minutes", ["Anna"]))
    rows = store.rows()
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        list(rows)
