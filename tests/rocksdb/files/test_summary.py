from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kstoolkit.records import Source
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import LIVE, NUM_ROWS, largest_sst, make_store

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.rocksdb.files.summary import StoreSummary


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("summary") / "store")


def summed_up(folder: Path, cf: str | None = None) -> StoreSummary:
    with open_store(folder) as opened:
        return opened.summary(cf)


def test_a_store_is_told_at_a_glance(made: Path) -> None:
    told = summed_up(made)
    assert told.column_families == ("default", "other")
    assert told.num_files == 4
    assert told.sst_bytes == sum(each.stat().st_size for each in made.glob("*.sst"))
    assert told.wal_bytes == sum(each.stat().st_size for each in made.glob("*.log")) > 0
    assert told.wal_entries_replayed == 2
    assert told.num_entries == NUM_ROWS + told.num_deletions
    assert told.rocksdb_version == "9.8.4"
    assert told.format_versions == (6,)
    assert told.num_unlisted_ssts == 0
    assert "2 column families, 4 files" in repr(told)


def test_the_estimate_of_rows_is_rocksdb_s_own(made: Path) -> None:
    assert summed_up(made, "default").estimated_rows == len(LIVE)
    assert summed_up(made, "other").estimated_rows == 2


def test_each_figure_says_whose_it_is(made: Path) -> None:
    whose = {each.name: each.source for each in summed_up(made).figures()}
    assert whose["sst_bytes"] is Source.STORE
    assert whose["rocksdb_version"] is Source.OPTIONS
    assert whose["wal_entries_replayed"] is whose["table_readers_bytes"] is Source.OPENER
    assert whose["unflushed_entries"] is Source.METRICS


def test_what_only_the_writer_knows_is_unknown_and_not_zero(made: Path) -> None:
    told = summed_up(made)
    assert told.unflushed_entries is None
    (figure,) = [each for each in told.figures() if each.name == "unflushed_entries"]
    assert figure.text == f"unknown ({told.unknown['unflushed_entries']})"


def test_room_that_was_set_aside_is_told_apart_from_what_is_written(
    made: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(made, tmp_path / "store")
    (manifest,) = copy.glob("MANIFEST-*")
    before = summed_up(copy)
    with manifest.open("r+b") as file:
        file.truncate(manifest.stat().st_size + (8 << 20))
    told = summed_up(copy)
    assert told.apparent_bytes - before.apparent_bytes == 8 << 20
    assert told.disk_bytes - before.disk_bytes < 1 << 20


def test_a_file_that_the_manifest_does_not_know_is_counted(made: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(made, tmp_path / "store")
    shutil.copy(largest_sst(copy), copy / "009999.sst")
    told = summed_up(copy)
    assert (told.num_files, told.num_unlisted_ssts) == (4, 1)
    assert summed_up(copy, "other").num_unlisted_ssts == 1


def test_an_empty_column_family_has_no_density(made: Path) -> None:
    told = summed_up(made, "other")
    assert told.tombstone_density is None
    assert told.unknown["tombstone_density"] == "there are no SST files"
