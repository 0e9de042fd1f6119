"""Stores that keep files outside their own folder."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from rocksdict import DBPath, Options, Rdict

from kstoolkit.errors import InputError
from kstoolkit.rocksdb.faults import MissingFileError
from kstoolkit.rocksdb.files.finding import MissingFolderError
from kstoolkit.rocksdb.log.storelog import read_log
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import appearance, key_of

if TYPE_CHECKING:
    from collections.abc import Callable
FLUSHED, IN_WAL = 2_000, 100
FAST_BYTES = 20_000
"""Room in the first of two folders for SST files: less than they take."""

RUNNING = ("compaction-pending", "num-running-compactions")


class Spread(NamedTuple):
    """A store, and its folders."""

    path: Path
    wal: Path
    fast: Path
    slow: Path
    logs: Path

    def rows(self, folders: list[Path] | None = None) -> int:
        with open_store(self.path, other_folders=folders) as opened:
            return sum(1 for _ in opened.iter_rows())


def until_compacted(writer: Rdict) -> None:
    end = time.monotonic() + 60
    while any(writer.property_int_value(f"rocksdb.{each}") for each in RUNNING):
        assert time.monotonic() < end
        time.sleep(0.01)


def make_spread(parent: Path, change: Callable[[Options, Spread], None]) -> Spread:
    """Leave a store as a killed writer would, in the folders that ``change`` sets."""
    spread = Spread(*(parent / name for name in ("store", "my #wal", "fast", "slow", "logs")))
    for each in spread[1:]:
        each.mkdir(parents=True)
    options = Options(raw_mode=True)
    options.set_level_zero_file_num_compaction_trigger(3)
    change(options, spread)
    writer = Rdict(str(spread.path), options)
    for start in range(4):  # overlapping, so that compacting writes files anew, and elsewhere
        for number in range(start, FLUSHED, 4):
            writer[key_of(number)] = key_of(number) * 9
        writer.flush()
        until_compacted(writer)
    for number in range(FLUSHED, FLUSHED + IN_WAL):
        writer[key_of(number)] = b"new"
    writer.flush_wal()
    kept = parent.with_name(f"{parent.name}-kept")
    shutil.copytree(parent, kept)
    writer.close()
    shutil.rmtree(parent)
    kept.rename(parent)
    return spread


def all_apart(options: Options, to: Spread) -> None:
    options.set_wal_dir(str(to.wal))
    options.set_db_log_dir(str(to.logs))
    options.set_db_paths([DBPath(str(to.fast), FAST_BYTES), DBPath(str(to.slow), 1 << 40)])


@pytest.fixture
def spread(tmp_path: Path) -> Spread:
    """A store with its WAL, its SST files and its log in four folders beside its own."""
    return make_spread(tmp_path / "spread", all_apart)


def test_a_store_in_five_folders_is_read_whole_and_none_of_them_changes(spread: Spread) -> None:
    """Closing it crashed: RocksDB looks up where a file lay by a number that it does not check."""
    assert list(spread.wal.glob("*.log"))
    assert list(spread.slow.glob("*.sst"))
    assert not list(spread.path.glob("*.sst"))
    before = appearance(spread.path.parent)
    with open_store(spread.path) as opened:
        assert sum(1 for _ in opened.iter_rows()) == FLUSHED + IN_WAL
        assert {each.name for each in opened.ssts()} <= {
            each.name for folder in (spread.fast, spread.slow) for each in folder.iterdir()
        }
        summary = opened.summary()
        assert summary.wal_bytes == sum(each.stat().st_size for each in spread.wal.iterdir())
        assert summary.apparent_bytes > summary.sst_bytes > 0
        log = opened.log()
        assert (log.num_files, log.rocksdb_version) == (1, "9.8.4")
        assert len(log.flushes()) == len(opened.log().flushes()) == 4
    assert appearance(spread.path.parent) == before


def test_a_wal_that_is_not_there_is_no_empty_wal(spread: Spread, tmp_path: Path) -> None:
    moved = spread.wal.rename(tmp_path / "moved")
    with pytest.raises(MissingFolderError, match=f"WAL in {spread.wal}") as caught:
        open_store(spread.path)
    assert isinstance(caught.value, InputError)
    assert "other_folders=[...]" in str(caught.value.hint)
    assert spread.rows([moved, spread.fast, spread.slow]) == FLUSHED + IN_WAL
    assert spread.rows([spread.fast, spread.slow]) == FLUSHED


def test_a_path_that_is_relative_to_where_the_writer_ran_is_not_taken_for_one_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_spread(tmp_path / "made", lambda _, __: None)
    (options,) = made.path.glob("OPTIONS-*")
    options.write_text(options.read_text().replace("[DBOptions]", "[DBOptions]\n  wal_dir=my wal"))
    (tmp_path / "my wal").mkdir()
    monkeypatch.chdir(tmp_path)
    assert made.rows() == FLUSHED + IN_WAL
    for each in made.path.glob("*.log"):
        each.rename(tmp_path / "my wal" / each.name)
    with pytest.raises(MissingFolderError, match=r"WAL in my wal \(wal_dir\)"):
        open_store(made.path)
    assert made.rows([tmp_path / "my wal"]) == FLUSHED + IN_WAL


def test_a_folder_of_rows_that_is_not_there_is_named(spread: Spread, tmp_path: Path) -> None:
    moved = spread.slow.rename(tmp_path / "moved")
    with pytest.raises(MissingFolderError, match=f"has files in {spread.slow}, which is not"):
        open_store(spread.path)
    assert spread.rows([spread.wal, spread.fast, moved]) == FLUSHED + IN_WAL


def test_without_a_log_nothing_tells_where_rows_lie_and_the_hint_says_how_to_tell(
    spread: Spread,
) -> None:
    shutil.rmtree(spread.logs)
    with pytest.raises(MissingFileError, match="missing") as caught:
        open_store(spread.path)
    assert "other_folders=[...]" in str(caught.value.hint)
    assert spread.rows([spread.wal, spread.fast, spread.slow]) == FLUSHED + IN_WAL


def test_a_folder_given_by_mistake_is_named(spread: Spread, tmp_path: Path) -> None:
    with pytest.raises(MissingFolderError, match="There is no folder"):
        open_store(spread.path, other_folders=[tmp_path / "nowhere"])


def test_a_log_kept_elsewhere_that_is_gone_is_said_where_it_was(spread: Spread) -> None:
    (log,) = spread.logs.iterdir()
    assert log.name.endswith("_spread_store_LOG")
    renamed = log.rename(spread.logs / "the_only_one_LOG")
    assert read_log(spread.path).files[0].path == str(renamed)
    (spread.logs / "a_second_LOG").touch()
    with pytest.raises(InputError, match="db_log_dir") as caught:
        read_log(spread.path)
    assert "a_second_LOG" in str(caught.value.hint)
    shutil.rmtree(spread.logs)
    with pytest.raises(InputError, match="can't be read"):
        read_log(spread.path)


def test_a_copy_of_a_store_takes_nothing_from_the_store_that_it_is_a_copy_of(
    tmp_path: Path,
) -> None:
    """RocksDB before 6.23 writes a store's own folder as its wal_dir."""
    made = make_spread(tmp_path / "made", lambda _, __: None)
    (options,) = made.path.glob("OPTIONS-*")
    text = options.read_text()
    options.write_text(text.replace("[DBOptions]\n", f"[DBOptions]\n  wal_dir={made.path}\n"))
    copy = made._replace(path=Path(shutil.copytree(made.path, tmp_path / "copy")))
    for each in copy.path.glob("*.log"):
        each.unlink()
    assert made.rows() == FLUSHED + IN_WAL
    assert copy.rows() == FLUSHED
    shutil.rmtree(made.path)
    assert copy.rows() == FLUSHED, "its log names the same folder for its rows"


def test_a_store_moved_with_its_wal_needs_no_folder_of_before(spread: Spread) -> None:
    for each in (*spread.wal.iterdir(), *spread.fast.iterdir(), *spread.slow.iterdir()):
        each.rename(spread.path / each.name)
    for folder in spread[1:]:
        shutil.rmtree(folder)
    assert spread.rows() == FLUSHED + IN_WAL
