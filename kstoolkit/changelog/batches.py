"""Where a run keeps what each micro-batch wrote: ``<kind>/epoch=<e>/batch=<n>/``.

A batch's folder counts once its done-marker is there, which is written last. Spark repeats a batch
that it is not sure of, under the same number: the folder is then emptied and written again, with
the same content. Readers take marked batches only, in the order of their numbers; the newest value
of a key wins. Spark and pandas pass over names with a leading underscore or dot; DuckDB does if its
pattern says so.

A compaction writes the fold of many batches into the folder of the newest of them, then a
fold-marker, and only then takes away what the fold covers.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


DONE = "_done"
FOLD = "_fold"
_NUMBERED = re.compile(r"(epoch|batch)=(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Batch:
    """A marked batch: which one, and its files, parts in the order of their names."""

    epoch: int
    number: int
    folder: Path

    def files(self, suffix: str) -> list[Path]:
        """Return the batch's files; of a folded one, just the fold."""
        parts = sorted(self.folder.glob(f"part-*{suffix}"))
        # Asked afterwards: parts are taken away only once the marker is there.
        if not (self.folder / FOLD).exists():
            return parts
        return sorted(self.folder.glob(f"fold-*{suffix}"))


@dataclass(frozen=True, slots=True)
class BatchFolders:
    """The batches of one kind: of a run's changelog, its findings, and so on.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folders = BatchFolders(Path(tempfile.mkdtemp()))
    >>> size = (folders.begin(0, 7) / "part-00000.parquet").write_bytes(b"PAR1")
    >>> len(folders.marked())
    0
    >>> folders.mark(0, 7)
    >>> [(batch.epoch, batch.number) for batch in folders.marked()]
    [(0, 7)]
    """

    root: Path

    def folder(self, epoch: int, number: int) -> Path:
        """Return where a batch lies."""
        return self.root / f"epoch={epoch}" / f"batch={number}"

    def begin(self, epoch: int, number: int) -> Path:
        """Return the batch's folder, empty and without a marker."""
        folder = self.folder(epoch, number)
        (folder / DONE).unlink(missing_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        return folder

    def mark(self, epoch: int, number: int) -> None:
        """Say that the batch is whole. What it wrote is on disk before its marker is.

        If it wrote nothing, nothing is left of it: a live run has many such batches.
        """
        folder = self.folder(epoch, number)
        if not any(folder.iterdir()):
            folder.rmdir()
            return
        for path in folder.iterdir():
            if path.is_file():
                sync(path)
        (folder / DONE).touch()
        sync(folder)

    def marked(self) -> list[Batch]:
        """Return the batches that count, the oldest first."""
        found = [
            Batch(epoch, number, folder)
            for epoch, below in _numbered(self.root, "epoch")
            for number, folder in _numbered(below, "batch")
            if (folder / DONE).exists()
        ]
        return sorted(found)


def sync(path: Path) -> None:
    """Have the kernel write a file or folder to disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _numbered(root: Path, name: str) -> list[tuple[int, Path]]:
    if not root.is_dir():
        return []
    matches = ((_NUMBERED.fullmatch(path.name), path) for path in root.iterdir())
    return sorted((int(match[2]), path) for match, path in matches if match and match[1] == name)
