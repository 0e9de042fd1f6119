from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.stores.growth.files import StoreFiles, deletions_of
from kstoolkit.stores.growth.growth import _measured_growth
from kstoolkit.stores.rows.statestore import StreamSource
from tests.stores.growth.listedrows import found
from tests.stores.streamsstores import open_part

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN, DELETED, REWRITTEN = 100, 40, 10


def write(folder: Path, *, deleted: int = DELETED) -> Path:
    """Write rows, then delete and rewrite some of them, without a compaction in between."""
    options = Options(raw_mode=True)
    options.set_disable_auto_compactions(True)
    store = Rdict(str(folder), options)
    offsets = store.create_column_family("offsets", Options(raw_mode=True))
    for number in range(WRITTEN):
        store[b"user-%03d" % number] = bytes(50)
    store.flush()
    for number in range(deleted):
        del store[b"user-%03d" % number]
    for number in range(deleted, deleted + REWRITTEN):
        store[b"user-%03d" % number] = bytes(60)
    store.flush()
    offsets[b"status"] = bytes(8)
    offsets.flush()
    offsets.close()
    store.close()
    return folder


def test_tombstones_and_what_they_stand_for_are_counted(tmp_path: Path) -> None:
    with open_store(write(tmp_path / "counts")) as store:
        told = deletions_of([StoreFiles.of(store)], num_on_disk=WRITTEN - DELETED)
    assert told.num_entries == WRITTEN + DELETED + REWRITTEN
    assert told.num_deletions == DELETED
    assert told.num_obsolete == DELETED + REWRITTEN
    assert told.tombstone_density == DELETED / told.num_entries
    assert told.num_range_deletions == 0
    [level] = told.levels
    assert (level.level, level.num_files, level.num_deletions) == (0, 2, DELETED)


def test_the_verdict_speaks_of_many_tombstones(tmp_path: Path) -> None:
    with open_store(write(tmp_path / "counts")) as store:
        source = StreamSource("counts", Kind.KEY_VALUE, [open_part(store)])
        measured = _measured_growth(source, found=found("key-value"), opened=[store])
    assert measured.num_rows == WRITTEN - DELETED
    told = "40 of 150 entries in its files are tombstones (27 %): they and what they stand for go"
    assert any(each.startswith(told) for each in measured.verdict)


def test_the_verdict_says_when_nothing_was_deleted(tmp_path: Path) -> None:
    with open_store(write(tmp_path / "counts", deleted=0)) as store:
        source = StreamSource("counts", Kind.KEY_VALUE, [open_part(store)])
        measured = _measured_growth(source, found=found("key-value"), opened=[store])
    assert measured.deletions.num_deletions == 0
    assert any("there is no sign that a key is ever deleted" in each for each in measured.verdict)


def test_the_size_is_held_against_what_is_live(tmp_path: Path) -> None:
    with open_store(write(tmp_path / "counts")) as store:
        told = deletions_of([StoreFiles.of(store)], num_on_disk=WRITTEN - DELETED)
        summary = store.summary("default")
    assert summary.estimated_live_bytes
    assert told.space_amplification == pytest.approx(
        summary.sst_bytes / summary.estimated_live_bytes
    )


def test_files_that_overlap_are_not_taken_for_room_that_is_not_live(tmp_path: Path) -> None:
    """RocksDB's estimate leaves them out; but each of their entries is a row."""
    options = Options(raw_mode=True)
    options.set_disable_auto_compactions(True)
    store = Rdict(str(tmp_path / "counts"), options)
    for start in range(4):
        for number in range(start, 400, 4):
            store[b"user-%03d" % number] = bytes(50)
        store.flush()
    store.close()
    with open_store(tmp_path / "counts") as opened:
        source = StreamSource("counts", Kind.KEY_VALUE, [open_part(opened)])
        measured = _measured_growth(source, found=found("key-value"), opened=[opened])
    assert measured.deletions.num_obsolete == 0
    assert measured.deletions.space_amplification
    assert measured.deletions.space_amplification > 2
    assert not any("estimates to be live" in each for each in measured.verdict)


def test_segments_have_tombstones_of_their_own(tmp_path: Path) -> None:
    folders = [write(tmp_path / f"counts.{at}", deleted=at) for at in (0, 7)]
    with open_store(folders[0]) as first, open_store(folders[1]) as second:
        told = deletions_of([StoreFiles.of(first), StoreFiles.of(second)], num_on_disk=193)
        assert (told.num_deletions, told.num_obsolete) == (7, 27)
        assert [each.num_files for each in told.levels] == [4]


def test_a_store_without_files_has_no_figures_but_reasons(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    Rdict(str(folder), Options(raw_mode=True)).close()
    with open_store(folder) as store:
        told = deletions_of([StoreFiles.of(store)], num_on_disk=0)
    assert (told.num_entries, told.tombstone_density, told.space_amplification) == (0, None, None)
    assert {"tombstone_density", "space_amplification"} <= told.unknown.keys()
