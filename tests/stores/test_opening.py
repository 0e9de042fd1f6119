from __future__ import annotations

import shutil
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.cli.terminal import in_flags
from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.faults import MissingFileError, NoStoreError, StoreClosedError
from kstoolkit.stores.growth.growth import growth
from kstoolkit.stores.rows.counts import ReplicaLevel
from kstoolkit.stores.rows.readable import LeftOutWarning
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.rows.statestore import StateStore
from tests.changelog.changelogs import MINUTE, write
from tests.replica.replicas import restored
from tests.rocksdb.madestores import appearance
from tests.stores.streamsstores import START_MS, int64, window_key, write_minutes, write_store

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.stores.rows.readable import Buffer


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


@pytest.mark.parametrize("way", ["copied", "linked", "renamed"])
def test_the_segments_of_a_store_say_whose_they_are_wherever_they_lie(
    tmp_path: Path, way: str
) -> None:
    path = write_minutes(tmp_path / "app" / "0_0" / "minutes", ["Anna", "Bo"])
    other = tmp_path / "copies" / "seg"
    other.parent.mkdir()
    match way:
        case "copied":
            shutil.copytree(path, other)
        case "linked":
            other.symlink_to(path, target_is_directory=True)
        case "renamed":
            path.rename(other)
    with kst.open_store(other, key_serde="string", value_serde="long") as store:
        assert isinstance(store, SegmentedStore)
        assert (store.name, store.kind, store.rows().count()) == ("minutes", "window", 36)
        first = next(iter(store.rows()))
        assert (first.key, first.window_start_ms) == ("Anna", START_MS)
        is_sure = way == "linked"
        assert (store.recognised.confidence > 0.9) == is_sure
        assert any("lie in 'seg'" in each for each in store.recognised.reasons) != is_sure
    with kst.open_store(other / f"minutes.{START_MS}") as segment:
        assert (segment.name, segment.kind, segment.rows().count()) == ("minutes", "window", 12)
        assert {row.key for row in segment.rows()} == {"Anna", "Bo"}


def test_a_segment_alone_is_one_by_its_name_and_its_rows(tmp_path: Path) -> None:
    rows = {window_key(b"a", START_MS): int64(1)}
    write_store(tmp_path / "any" / f"w.{START_MS}", default=rows)
    write_store(tmp_path / "any" / "w-202311142300", default=rows)
    for name in (f"w.{START_MS}", "w-202311142300"):
        with kst.open_store(tmp_path / "any" / name) as store:
            assert (store.name, store.kind) == ("w", "window")
            assert isinstance(store, StateStore)
            assert store.recognised.confidence < 0.9
            [row] = store.rows()
            assert (row.key, row.window_start_ms) == ("a", START_MS)


def test_a_number_in_its_name_makes_no_segment_of_what_has_other_rows(tmp_path: Path) -> None:
    for start_ms in (START_MS, START_MS + 1):
        path = write_store(tmp_path / "any" / f"backup.{start_ms}", default={b"a": int64(1)})
        with kst.open_store(path) as store:
            assert (store.name, store.kind) == (path.name, "key-value")


def test_segments_of_several_stores_in_one_folder_are_told_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(
            write_minutes(tmp_path / name, ["Anna"]), tmp_path / "both", dirs_exist_ok=True
        )
    with pytest.raises(NoStoreError, match="segments of 2 stores: a, b"):
        kst.open_store(tmp_path / "both")
    found = {each.store: each for each in kst.discover(tmp_path / "both")}
    assert [len(each.segments) for each in found.values()] == [3, 3]


def test_folders_that_are_left_out_are_said(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"])
    (path / f"minutes.{START_MS - 3_600_000}").mkdir()
    (path / f"minutes.{START_MS}").rename(path / f"others.{START_MS}")
    old = write_store(path / "minutes-202311150100", default={})
    with pytest.warns(LeftOutWarning, match="3 parts of the store") as said:
        store = kst.open_store(path)
    assert len(said) == 1
    told = str(said[0].message)
    assert f"others.{START_MS}: it is no segment of 'minutes'." in told
    assert f"minutes.{START_MS - 3_600_000}: it has no CURRENT file." in told
    assert f"{old.name}: minutes.{START_MS + 2 * 3_600_000} is the same segment." in told
    with store:
        assert isinstance(store, SegmentedStore)
        assert store.rows().count() == 12
        assert len(store.left_out) == 3
        assert sum("left out" in each for each in growth(store).verdict) == 1


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


@pytest.mark.parametrize(
    "told", [{"kind": "session"}, {"window_size": "1 hour"}, {"column_family": "x"}]
)
def test_what_a_level_of_a_replica_contradicts_is_not_ignored(
    tmp_path: Path, told: dict[str, str]
) -> None:
    write(tmp_path / "changelog", 0, {MINUTE: {(0, "Anna", "x"): 3}})
    with restored(tmp_path / "changelog", tmp_path / "replica"):
        pass
    level = tmp_path / "replica" / str(MINUTE)
    (tmp_path / "link").symlink_to(level, target_is_directory=True)
    for path in (level, level / f"{MINUTE}.0", tmp_path / "link"):
        with pytest.raises(ConfigurationError, match=f"{next(iter(told))}=.* windows of 1 minute"):
            kst.open_store(path, **told)
        with kst.open_store(path, kind="window", window_size="60 seconds") as store:
            assert [row.key for row in store.rows()] == ["Anna"]
            assert growth(store).size_bytes


@pytest.mark.parametrize(
    "told", [{"kind": 5}, {"window_size": 1.5}, {"window_size": [1]}, {"column_family": 5}]
)
def test_what_is_told_in_a_wrong_type_is_refused_in_a_sentence(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    path = write_store(tmp_path / "kv", default={b"a": b"1"})
    with pytest.raises(ConfigurationError, match=next(iter(told))):
        kst.open_store(path, **told)


def test_what_is_no_path_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigurationError, match="None is no path"):
        kst.open_store(None)  # type: ignore[arg-type] # on purpose


@pytest.mark.parametrize("key", [b"bo", bytearray(b"bo"), memoryview(b"bo")])
def test_a_key_may_be_any_bytes(tmp_path: Path, key: Buffer) -> None:
    path = write_store(tmp_path / "kv", default={b"bo": b"1", b"bob": b"2"})
    with kst.open_store(path) as store:
        assert [row.key for row in store.rows(key=key)] == ["bo"]
        assert store.rows(prefix=key).count() == 2


@pytest.mark.parametrize("key", [5, ["bo"], object(), 1.5, "\ud800"])
def test_a_key_that_is_none_is_refused(tmp_path: Path, key: Any) -> None:
    with kst.open_store(write_store(tmp_path / "kv", default={b"bo": b"x"})) as store:
        with pytest.raises(ConfigurationError):
            store.rows(key=key)
        with pytest.raises(ConfigurationError):
            store.rows(prefix=key)


@pytest.mark.parametrize("limit", [1.5, "5", -1, True])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, limit: Any) -> None:
    with kst.open_store(write_store(tmp_path / "kv", default={b"bo": b"x"})) as store:
        with pytest.raises(ConfigurationError, match=f"limit is {limit!r}"):
            store.rows(limit=limit)
        with pytest.raises(ConfigurationError, match=f"limit is {limit!r}"):
            store.rows().to_pandas(limit=limit)


def test_a_missing_file_is_named_with_what_there_is_to_do(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", default={b"a": b"1"})
    [table] = path.glob("*.sst")
    table.unlink()
    with pytest.raises(MissingFileError, match=f"{table.name}, which it needs, is missing") as said:
        kst.open_store(path)
    assert "backup" in str(said.value.hint)
    assert "other_folders=[...]" in in_flags(str(said.value.hint))


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


def test_one_damaged_segment_is_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"])
    [table] = (path / f"minutes.{START_MS + 2 * 3_600_000}").glob("*.sst")
    table.write_bytes(b"\xff" * 10)
    with (
        pytest.warns(LeftOutWarning, match=r"One part of the store .* is left out\. minutes"),
        kst.open_store(path) as store,
    ):
        assert store.rows().count() == 12


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = kst.open_store(write_minutes(tmp_path / "minutes", ["Anna"]))
    rows = store.rows()
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        list(rows)


@pytest.mark.parametrize("size", ["99999999999999999 days", 10**18])
def test_no_window_is_longer_than_all_of_time(tmp_path: Path, size: str | int) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"])
    with pytest.raises(ConfigurationError, match="longer than all of time until the year 10000"):
        kst.open_store(path, window_size=size)
