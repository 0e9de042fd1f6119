from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

import kstoolkit as kst
from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import ColumnFamilyError, NoStoreError, StoreClosedError
from kstoolkit.stores.growth.growth import growth
from kstoolkit.stores.rows.readable import LeftOutWarning, ReadAs
from kstoolkit.stores.rows.segmentedstore import SegmentedStore, segment_folders
from tests.rocksdb.madestores import appearance
from tests.stores.strangers import open_to_others
from tests.stores.streamsstores import (
    HOUR_MS,
    START_MS,
    int64,
    window_key,
    write_minutes,
    write_store,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NUM_SEGMENTS, ROWS_EACH = 24, 12
FEW = 16


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    return write_minutes(folder / "minutes", ["Anna", "Bo"], segments=NUM_SEGMENTS)


@pytest.fixture
def many(written: Path, tmp_path: Path) -> Path:
    """Return a store of many segments, which the test may spoil."""
    return shutil.copytree(written, tmp_path / "minutes")


def opened(path: Path) -> SegmentedStore:
    store = kst.open_store(path)
    assert isinstance(store, SegmentedStore)
    return store


def num_open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_many_segments_are_opened_one_after_the_other_and_few_stay_open(written: Path) -> None:
    touched = appearance(written)
    before = num_open_files()
    with opened(written) as store:
        assert num_open_files() == before
        most = 0
        for rows in store.rows().batches():
            assert len(rows) == ROWS_EACH
            most = max(most, num_open_files())
        assert most - before <= FEW * 8
        assert f"{NUM_SEGMENTS}, of which {FEW} are open" in repr(store.segments)
        assert store.rows().count() == NUM_SEGMENTS * ROWS_EACH
    assert num_open_files() == before
    assert appearance(written) == touched


def test_of_one_window_only_its_segment_is_opened(written: Path) -> None:
    with kst.open_store(written, kind="window", key_serde="string", value_serde="long") as store:
        assert store.rows(window=START_MS + 5 * HOUR_MS).count() == 2
        assert isinstance(store, SegmentedStore)
        # One has the rows; the largest, the first of equals, told which kind of window.
        assert "of which 2 are open" in repr(store.segments)


def test_a_segment_that_somebody_holds_stays_open(written: Path) -> None:
    with opened(written) as store:
        held = store.segments[START_MS]
        assert store.rows().count() == NUM_SEGMENTS * ROWS_EACH
        assert store.segments[START_MS] is held
        assert held.summary().num_entries == ROWS_EACH
    with pytest.raises(StoreClosedError):
        held.summary()


@pytest.fixture
def few_files() -> Iterator[None]:
    """Let this process open no more than a hundred files beside those that it has open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (num_open_files() + 100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
def test_fewer_stay_open_where_a_process_may_open_few_files(written: Path) -> None:
    with opened(written) as store:
        assert store.rows().count() == NUM_SEGMENTS * ROWS_EACH
        [is_open] = [int(each) for each in repr(store.segments).split() if each.isdigit()][-1:]
        assert 0 < is_open < FEW


def test_segments_that_expire_meanwhile_are_left_out(many: Path) -> None:
    with opened(many) as store:
        assert store.kind == "window"
        for number in range(3):
            shutil.rmtree(many / f"minutes.{START_MS + number * HOUR_MS}")
        assert store.rows().count() == (NUM_SEGMENTS - 3) * ROWS_EACH
        assert sum(each.num_entries for each in store.levels()) == (NUM_SEGMENTS - 3) * ROWS_EACH
        assert len(store.memory()) == NUM_SEGMENTS - 3
        with pytest.raises(NoStoreError):
            store.segments[START_MS]


def test_a_segment_that_goes_while_a_store_is_opened_is_left_out(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna", "Bo"])
    listed = segment_folders(path)
    assert listed is not None
    shutil.rmtree(listed.by_start[START_MS])
    with SegmentedStore(path, listed, ReadAs()) as store:
        assert store.rows().count() == 2 * ROWS_EACH
        assert growth(store).num_rows == 2 * ROWS_EACH


def test_a_damaged_segment_is_left_out_and_said_once(many: Path) -> None:
    damaged = many / f"minutes.{START_MS}"
    [table] = damaged.glob("*.sst")
    table.unlink()
    with opened(many) as store:
        with pytest.warns(
            LeftOutWarning, match=rf"{table.name}, which it needs, is missing"
        ) as said:
            assert store.rows().count() == (NUM_SEGMENTS - 1) * ROWS_EACH
        assert len(said) == 1
        assert store.rows().count() == (NUM_SEGMENTS - 1) * ROWS_EACH
        assert [each.path for each in store.left_out] == [damaged]
        assert growth(store).num_rows == (NUM_SEGMENTS - 1) * ROWS_EACH


@pytest.mark.parametrize(
    ("lost", "words"),
    [("CURRENT", "it has no CURRENT file"), ("MANIFEST-*", "which CURRENT names, is missing")],
)
def test_a_segment_that_lost_what_tells_its_files_is_left_out_and_said_once(
    many: Path, lost: str, words: str
) -> None:
    damaged = many / f"minutes.{START_MS}"
    [file] = damaged.glob(lost)
    file.unlink()
    before = appearance(many)

    def read_again_and_again() -> None:
        with opened(many) as store:
            assert store.rows().count() == (NUM_SEGMENTS - 1) * ROWS_EACH
            assert store.rows().count() == (NUM_SEGMENTS - 1) * ROWS_EACH
            assert [each.path for each in store.left_out] == [damaged]
            assert str(growth(store).left_out[0]).startswith(str(damaged))

    with pytest.warns(LeftOutWarning, match=words) as said:
        read_again_and_again()
    assert len(said) == 1
    assert appearance(many) == before


def test_a_segment_of_several_files_is_read_without_one_of_them(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"], segments=2)
    segment = path / f"minutes.{START_MS}"
    again = Rdict(str(segment), Options(raw_mode=True))
    again[window_key(b"Bo", START_MS)] = int64(1)
    again.close()
    (segment / "rocksdict-config.json").unlink()
    max(segment.glob("*.sst")).unlink()
    with pytest.warns(LeftOutWarning, match=r"goes: 1 of 2 SST files is missing"):
        store = opened(path)
    with store:
        assert {row.key for row in store.rows()} == {"Anna"}
        assert store.rows().count() == 12


def test_rows_around_the_damage_in_a_segment_are_read(tmp_path: Path) -> None:
    for number in range(3):
        start_ms = START_MS + number * HOUR_MS
        rows = {window_key(b"u%05d" % at, start_ms): bytes(40) for at in range(20_000)}
        write_store(tmp_path / "w" / f"w.{start_ms}", default=rows)
    [table] = (tmp_path / "w" / f"w.{START_MS + HOUR_MS}").glob("*.sst")
    torn = bytearray(table.read_bytes())
    middle = len(torn) // 2
    torn[middle : middle + 4096] = bytes(4096)
    table.write_bytes(torn)
    with opened(tmp_path / "w") as store:
        with pytest.warns(
            LeftOutWarning, match=rf"blocks of {table.name} .* can't be read"
        ) as said:
            count = store.rows().count()
        assert len(said) == 1
        assert 59_000 < count < 60_000
        [left_out] = store.left_out
        assert left_out.path == table.parent
        assert store.rows().count() == count
        assert store.rows(since=START_MS + 2 * HOUR_MS).count() == 20_000


def test_of_damaged_segments_alone_the_fault_is_told(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"], segments=2)
    for table in path.glob("*/*.sst"):
        table.write_bytes(table.read_bytes()[:-1])
    with (
        pytest.warns(LeftOutWarning),
        opened(path) as store,
        pytest.raises(FormatError, match="encrypted, or damaged"),
    ):
        store.rows()


def test_a_store_whose_segments_are_all_gone_says_so(many: Path) -> None:
    with opened(many) as store:
        for each in many.iterdir():
            shutil.rmtree(each)
        with pytest.raises(NoStoreError, match="all gone"):
            store.rows()


def test_what_rocksdb_tells_of_all_segments_is_put_together(written: Path) -> None:
    with opened(written) as store:
        [level] = store.levels()
        assert (level.level, level.num_files) == (0, NUM_SEGMENTS)
        assert level.num_entries == NUM_SEGMENTS * ROWS_EACH
        each = store.segments[START_MS].levels()[0]
        assert level.smallest_key == each.smallest_key
        assert store.levels("default").to_dicts() == store.levels().to_dicts()
        parts = store.memory()
        assert [part.path for part in parts] == [
            str(written / f"minutes.{start_ms}") for start_ms in store.segments
        ]
        assert all(part.formula_bytes for part in parts)
        logs = store.log()
        assert list(logs.stores) == [f"minutes.{start_ms}" for start_ms in store.segments]
        assert logs[0].options()
        with pytest.raises(ColumnFamilyError, match="No column family 'x'"):
            store.levels("x")


def test_a_family_that_only_newer_segments_have_is_no_mistake(tmp_path: Path) -> None:
    write_store(tmp_path / "w" / f"w.{START_MS}", default={window_key(b"a", START_MS): b"1"})
    stamped = {window_key(b"a", START_MS + HOUR_MS): int64(START_MS) + b"1"}
    write_store(
        tmp_path / "w" / f"w.{START_MS + HOUR_MS}", default={}, keyValueWithTimestamp=stamped
    )
    with opened(tmp_path / "w") as store:
        assert [each.num_entries for each in store.levels("keyValueWithTimestamp")] == [1]


def test_to_ask_whether_there_is_a_segment_opens_none(written: Path) -> None:
    with opened(written) as store:
        assert START_MS in store.segments
        assert START_MS + 1 not in store.segments
        assert "of which 0 are open" in repr(store.segments)


def test_a_folder_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    """Asked by a user whom it is closed to: root may read everything."""
    path = write_minutes(tmp_path / "minutes", ["Anna"], segments=1)
    script = f"""
import os
import kstoolkit as kst
from kstoolkit.rocksdb.faults import StorePermissionError
kst.open_store  # what it imports, while it may be read
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    kst.open_store({str(path)!r})
except StorePermissionError as error:
    print(error)
"""
    open_to_others(tmp_path)
    path.chmod(0)
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    path.chmod(0o755)
    assert "may not be read" in told.stdout, told.stderr


def test_after_closing_no_segment_can_be_asked_for(written: Path) -> None:
    store = opened(written)
    store.close()
    with pytest.raises(StoreClosedError):
        store.segments[START_MS]
    assert len(store.segments) == NUM_SEGMENTS


def test_names_that_tell_minutes_alone_hide_no_rows(tmp_path: Path) -> None:
    """Segments of 90 s, as the oldest releases called them: each name is cut to the minute."""
    first, length = START_MS, 90_000
    for start in range(first, first + 4 * length, length):
        minute = datetime.fromtimestamp(start / 1000, UTC).strftime("%Y%m%d%H%M")
        rows = {window_key(b"a", start + 80_000): int64(1)}
        write_store(tmp_path / "w" / f"w-{minute}", default=rows)
    with kst.open_store(tmp_path / "w", kind="window") as store:
        assert isinstance(store, SegmentedStore)
        assert store.segment_interval_ms is None
        for start in range(first, first + 4 * length, length):
            assert store.rows(since=start + 75_000, until=start + 85_000).count() == 1
            assert store.rows(window=start + 80_000, key="a").count() == 1


def test_many_emptied_folders_are_waited_for_together(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"], segments=1)
    for number in range(1, 101):
        (path / f"minutes.{START_MS + number * HOUR_MS}").mkdir()
    began = time.monotonic()
    found = segment_folders(path)
    assert time.monotonic() - began < 2
    assert found is not None
    assert (len(found.by_start), len(found.left_out)) == (1, 100)
