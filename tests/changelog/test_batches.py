from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kstoolkit.changelog.batches import DONE, FOLD, BatchFolders

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folders(tmp_path: Path) -> BatchFolders:
    return BatchFolders(tmp_path / "kind")


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def put(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).write_text(name)


def test_a_kind_without_any_batch_has_none(folders: BatchFolders) -> None:
    assert folders.marked() == []


def test_a_batch_counts_once_it_is_marked(folders: BatchFolders) -> None:
    put(folders.begin(0, 1), "part-00000.parquet")
    assert folders.marked() == []
    folders.mark(0, 1)
    assert [(batch.epoch, batch.number) for batch in folders.marked()] == [(0, 1)]


def test_batches_come_by_epoch_and_number_not_by_name(folders: BatchFolders) -> None:
    for epoch, number in [(10, 0), (9, 2), (9, 10), (0, 1)]:
        put(folders.begin(epoch, number), "part-00000.parquet")
        folders.mark(epoch, number)
    found = [(batch.epoch, batch.number) for batch in folders.marked()]
    assert found == [(0, 1), (9, 2), (9, 10), (10, 0)]


def test_a_batch_that_begins_again_is_empty_and_does_not_count(folders: BatchFolders) -> None:
    put(folders.begin(0, 1), "part-00000.parquet", ".7-00001.parquet")
    folders.mark(0, 1)
    folder = folders.begin(0, 1)
    assert (list(folder.iterdir()), folders.marked()) == ([], [])


def test_nothing_is_left_of_a_batch_that_wrote_nothing(folders: BatchFolders) -> None:
    folder = folders.begin(0, 1)
    folders.mark(0, 1)
    assert (folder.exists(), folders.marked()) == (False, [])


def test_folders_of_other_names_are_passed_over(folders: BatchFolders) -> None:
    put(folders.begin(0, 1), "part-00000.parquet")
    folders.mark(0, 1)
    for name in ("epoch=0/batch=x", "epoch=0/batch=2.old", "epoch=", "batch=3", "epoch=0/epoch=1"):
        (folders.root / name).mkdir(parents=True)
        put(folders.root / name, DONE)
    assert [batch.number for batch in folders.marked()] == [1]


def test_files_are_the_parts_of_a_kind_in_the_order_of_their_names(folders: BatchFolders) -> None:
    folder = folders.begin(0, 1)
    put(folder, "part-00001.parquet", "part-00000.parquet", "part-00000.json")
    put(folder, ".9-00002.parquet", "other.parquet", "fold-00000.parquet")
    folders.mark(0, 1)
    (batch,) = folders.marked()
    assert names(batch.files(".parquet")) == ["part-00000.parquet", "part-00001.parquet"]
    assert names(batch.files(".json")) == ["part-00000.json"]


def test_of_a_folded_batch_the_fold_alone_is_read(folders: BatchFolders) -> None:
    put(folders.begin(0, 1), "part-00000.parquet", "fold-00000.parquet", FOLD)
    folders.mark(0, 1)
    (batch,) = folders.marked()
    assert names(batch.files(".parquet")) == ["fold-00000.parquet"]


def test_a_marker_that_comes_after_the_batch_was_listed_is_seen(folders: BatchFolders) -> None:
    folder = folders.begin(0, 1)
    put(folder, "part-00000.parquet", "fold-00000.parquet")
    folders.mark(0, 1)
    (batch,) = folders.marked()
    put(folder, FOLD)
    (folder / "part-00000.parquet").unlink()
    assert names(batch.files(".parquet")) == ["fold-00000.parquet"]


FOLDED_WHILE_ASKED = """
import sys
from pathlib import Path
from kstoolkit.changelog.batches import FOLD, BatchFolders

(batch,) = BatchFolders(Path(sys.argv[1])).marked()
left = list(batch.folder.glob("part-*"))

def fold(event, args):
    while left and event == "os.scandir":
        (batch.folder / FOLD).touch()
        left.pop().unlink()

sys.addaudithook(fold)
print(*(path.name for path in batch.files(".parquet")))
"""


def test_parts_that_are_folded_while_they_are_listed_are_not_missed(folders: BatchFolders) -> None:
    put(folders.begin(0, 1), "part-00000.parquet", "part-00001.parquet", "fold-00000.parquet")
    folders.mark(0, 1)
    program = [sys.executable, "-c", FOLDED_WHILE_ASKED, str(folders.root)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fold-00000.parquet"]
