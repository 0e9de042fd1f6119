"""A checkpoint of a streaming query of Spark's: which micro-batches are done, and its operators.

::

    <checkpoint>/offsets/<batch>    the batch's settings and watermark
    <checkpoint>/commits/<batch>    there once the batch is done
    <checkpoint>/state/<operator>/<partition>/[<store>/]

The state after batch 6 is version 7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import CheckpointError
from kstoolkit.formats.spark.logs import read_commit_log, read_offset_log
from kstoolkit.stores.spark.readfile import read_with

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.formats.spark.logs import CommitLogEntry, OffsetLogEntry


_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint, by its folder.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> Checkpoint(pathlib.Path(tempfile.mkdtemp())).batches()
    []
    """

    path: Path

    def batches(self) -> list[int]:
        """Return the micro-batches that are done and whose settings are there, oldest first."""
        started = set(numbers_in(self.path / "offsets"))
        return [each for each in numbers_in(self.path / "commits") if each in started]

    def latest_batch(self) -> int:
        """Return the latest micro-batch that is done.

        Raises
        ------
        CheckpointError
            If none is.
        """
        batches = self.batches()
        if not batches:
            message = f"No micro-batch of the checkpoint {self.path} is committed."
            hint = "State is there to be read once a batch is done: a number in commits/."
            raise CheckpointError(message, hint=hint)
        return batches[-1]

    def operators(self) -> list[int]:
        """Return the numbers of the stateful operators."""
        return numbers_in(self.path / "state")

    def offset_log(self, batch: int) -> OffsetLogEntry:
        """Return what was noted before a batch ran.

        Raises
        ------
        FormatError
            If it is missing or damaged.
        """
        return read_with(self.path / "offsets" / str(batch), read_offset_log)

    def commit_log(self, batch: int) -> CommitLogEntry:
        """Return what was noted when a batch was done.

        Raises
        ------
        FormatError
            If it is missing or damaged.
        """
        return read_with(self.path / "commits" / str(batch), read_commit_log)


def checkpoint_of(path: Path) -> Checkpoint | None:
    """Return the checkpoint that a path is, or lies in the state of; None if it is in none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("offsets", "state/0/1"):
    ...     (root / name).mkdir(parents=True)
    >>> checkpoint_of(root / "state" / "0" / "1").path == root
    True
    """
    for each in (path, *path.parents[:4]):
        inside = path.relative_to(each).parts
        if inside[:1] in {(), ("state",)} and _is_checkpoint(each):
            return Checkpoint(each)
    return None


def numbers_in(folder: Path) -> list[int]:
    """Return the names in a folder that are numbers, in order; none if there is no folder."""
    try:
        names = [each.name for each in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def _is_checkpoint(folder: Path) -> bool:
    return all((folder / name).is_dir() for name in ("offsets", "state"))
