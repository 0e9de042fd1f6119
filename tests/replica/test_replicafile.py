"""A replica goes on with its own changelog alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.changelog.compaction import compact
from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.errors import FormatError, InputError, OutputError
from kstoolkit.replica.windowstore import WindowStore
from tests.changelog.changelogs import HOUR, MINUTE, counters, newest, write
from tests.replica.replicas import Told, held, restored, segment

if TYPE_CHECKING:
    from pathlib import Path

TOLD: Told = {HOUR: {(0, "Anna", "read"): 3}}
LATER: Told = {HOUR: {(0, "Bo", "read"): 1}}


@pytest.fixture
def replica(tmp_path: Path) -> Path:
    write(tmp_path / "c", 1, TOLD)
    restored(tmp_path / "c", tmp_path / "r").close()
    return tmp_path / "r"


def at_another_time(root: Path, number: int, told: Told, ahead_ms: int = 17) -> None:
    """Write a batch with another clock than other tests' of the same number."""
    folders = BatchFolders(root)
    path = folders.begin(0, number) / "part-00000.parquet"
    writer = ChangelogWriter(path, buckets=4, changed_ms=1_000 * number + ahead_ms)
    for window_ms, rows in told.items():
        for bucket, part in counters(rows).by_bucket(4):
            writer.write(bucket, window_ms, part)
    writer.close()
    folders.mark(0, number)


def refuses(replica: Path, root: Path, words: str) -> None:
    """Check that nothing is taken from a changelog, nor mended from it."""
    with WindowStore.open(replica) as store:
        before = held(store)
        with pytest.raises(InputError, match=words):
            store.follow(root)
    (segment(replica, HOUR) / "CURRENT").rename(replica / "kept")
    with pytest.raises(InputError, match=words):
        restored(root, replica)
    (replica / "kept").rename(segment(replica, HOUR) / "CURRENT")
    with WindowStore.open(replica) as store:
        assert held(store) == before


def test_batches_of_the_same_numbers_at_another_time_are_another_changelog(
    replica: Path, tmp_path: Path
) -> None:
    for number in (1, 2):
        at_another_time(tmp_path / "other", number, TOLD)
    refuses(replica, tmp_path / "other", "holds batch 1 of epoch 0 as of 1970-01-01T00:00:01")


def test_other_windows_are_another_changelog(replica: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / "other", number, {5 * MINUTE: {(0, "Anna", "read"): 3}})
    refuses(replica, tmp_path / "other", "windows of 1 hour, of which .* tells nothing")


def test_a_new_window_in_the_same_changelog_is_taken_in(replica: Path, tmp_path: Path) -> None:
    minutes: Told = {MINUTE: {(0, "Anna", "read"): 3}}
    write(tmp_path / "c", 2, minutes)
    with restored(tmp_path / "c", replica) as store:
        assert held(store) == newest(TOLD, minutes)


def test_a_compacted_changelog_is_still_the_same(replica: Path, tmp_path: Path) -> None:
    for number in (2, 3, 4):
        write(tmp_path / "c", number, LATER)
    compact(tmp_path / "c")
    with restored(tmp_path / "c", replica) as store:
        assert held(store) == newest(TOLD, LATER)
    compact(tmp_path / "c")
    restored(tmp_path / "c", replica).close()


def test_a_clock_that_was_set_back_does_not_make_another_changelog(tmp_path: Path) -> None:
    at_another_time(tmp_path / "c", 1, TOLD, ahead_ms=9_000)
    write(tmp_path / "c", 2, LATER)
    restored(tmp_path / "c", tmp_path / "r").close()
    write(tmp_path / "c", 3, TOLD)
    compact(tmp_path / "c")  # what is batch 2 now has the clock of batch 1
    with restored(tmp_path / "c", tmp_path / "r") as store:
        assert held(store) == newest(TOLD, LATER)


def test_a_batch_that_is_not_marked_yet_is_left_until_it_is(replica: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "c", 2, LATER, marked=False)
    with restored(tmp_path / "c", replica) as store:
        assert held(store) == TOLD
    (folder / "_done").touch()
    (folder.with_name("batch=1") / "_done").unlink()  # and one that is written once more
    with restored(tmp_path / "c", replica) as store:
        assert held(store) == newest(TOLD, LATER)


def test_what_is_no_changelog_is_told_by_its_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "c", 0, TOLD)
    (folder / "part-00000.parquet").write_bytes(b"PAR1 and then something else PAR1")
    with pytest.raises(FormatError, match=r"part-00000\.parquet is damaged"):
        restored(tmp_path / "c", tmp_path / "r")
    (folder / "part-00000.parquet").unlink()
    (folder / "part-00000.parquet").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError):
        restored(tmp_path / "c", tmp_path / "r")
    for path in (tmp_path / "nowhere", folder / "_done"):
        with pytest.raises(InputError, match="No changelog in"):
            restored(path, tmp_path / "r")


def test_a_file_in_the_place_of_a_replica_is_told(tmp_path: Path) -> None:
    write(tmp_path / "c", 0, TOLD)
    (tmp_path / "r").write_text("a letter")
    with pytest.raises(OutputError, match="can't be written: File exists"):
        restored(tmp_path / "c", tmp_path / "r")
    assert (tmp_path / "r").read_text() == "a letter"
