"""Compaction: many batches of a changelog become one, which holds the latest counts alone.

Of each epoch the marked batches are folded into the folder of the newest among them::

    batch=<n>/.fold-00000                  being written; a hidden name
    batch=<n>/fold-00000.parquet           whole and on disk, but nobody reads it yet
    batch=<n>/_fold                        from here on it counts, and part-* no longer does
    batch=<m>/ for m < n, batch=<n>/part-* taken away

Ended at any point, however hard, it leaves either the old batches or the fold to be read; the next
compaction finishes the rest. The newest batch of all is left alone, as Spark may repeat it, and so
are unmarked ones: a run may go on meanwhile. The fold keeps the highest number that it covers, so
whoever follows the changelog by number goes on as before.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import (
    DONE,
    FOLD,
    BatchFolders,
    Changelog,
    buckets_among,
    latest,
    locked,
    replace_text,
    sync,
)
from kstoolkit.changelog.countsfile import ChangelogWriter, CountsFile, joined_span
from kstoolkit.errors import OutputError
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from kstoolkit.changelog.changelog import Batch

_LOCK = ".compact.lock"
_NAME = "fold-00000"


@dataclass(frozen=True, slots=True, repr=False)
class CompactionResult:
    """What a compaction came to.

    Parameters
    ----------
    batches_folded
        How many batches became part of a fold; 0 if there was nothing to fold.
    records_before, records_after
        Counts that these batches held, and that the folds hold.
    bytes_before, bytes_after
        Size of their files, and of the folds.

    Examples
    --------
    >>> CompactionResult(120, 90_000, 7_000, 1 << 20, 81_920)
    CompactionResult(120 batches folded: 90,000 → 7,000 records, 1.0 MiB → 80.0 KiB)
    >>> CompactionResult(0, 0, 0, 0, 0)
    CompactionResult(nothing to fold)
    """

    batches_folded: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int

    def __add__(self, other: CompactionResult) -> CompactionResult:
        """Return what both came to together."""
        sums = (getattr(self, name) + getattr(other, name) for name in self.__slots__)
        return CompactionResult(*sums)

    def __repr__(self) -> str:
        if not self.batches_folded:
            return "CompactionResult(nothing to fold)"
        records = (
            f"{format_count(self.records_before)} → {format_count(self.records_after)} records"
        )
        size = f"{format_bytes(self.bytes_before)} → {format_bytes(self.bytes_after)}"
        folded = f"{format_count(self.batches_folded)} batches folded"
        return f"CompactionResult({folded}: {records}, {size})"


def compact(path: str | os.PathLike[str]) -> CompactionResult:
    """Fold a changelog to its latest counts, and return what that saved.

    A run may write to the changelog, and others may read it, at the same time.

    Parameters
    ----------
    path
        A run's output folder, or its changelog folder.

    Raises
    ------
    InputError
        If there is no changelog.
    OutputError
        If another compaction is at work on it, or it can't be written.
    FormatError
        If one of its files is damaged; nothing is folded then.
    """
    folder = Changelog.open(Path(path)).path
    try:
        busy = f"Another compaction is at work on {str(folder)!r}."
        with locked(folder / _LOCK, busy, "Wait for it to end; it does the same work."):
            return _compacted(folder)
    except OSError as error:
        message = f"The changelog {str(folder)!r} can't be compacted: {error.strerror or error}."
        raise OutputError(
            message, hint="Its counts are as they were. Mend that, and compact again."
        ) from error


def _compacted(folder: Path) -> CompactionResult:
    marked = BatchFolders(folder).marked()
    for batch in marked:
        _take_away_what_is_folded(batch)
    done = CompactionResult(0, 0, 0, 0, 0)
    # Spark may repeat the newest batch; its beginning says that all before it are settled.
    settled = [batch for batch in marked[:-1] if (batch.folder / DONE).exists()]
    for _, batches in groupby(settled, key=lambda batch: batch.epoch):
        done += _fold(list(batches))
    return done


def _fold(batches: Sequence[Batch]) -> CompactionResult:
    """Fold the batches of one epoch into the folder of the last."""
    if len(batches) == 1:
        return CompactionResult(0, 0, 0, 0, 0)
    files = [CountsFile.open(path) for batch in batches for path in batch.files(".parquet")]
    target = batches[-1]
    hidden, place = target.folder / f".{_NAME}", target.folder / f"{_NAME}.parquet"
    try:
        _write(files, hidden)
        hidden.replace(place)
    finally:
        hidden.unlink(missing_ok=True)  # half a fold would fill a full disk
    done = CompactionResult(
        batches_folded=len(batches),
        records_before=sum(file.num_rows for file in files),
        records_after=CountsFile.open(place).num_rows,
        bytes_before=sum(file.path.stat().st_size for file in files),
        bytes_after=place.stat().st_size,
    )
    sync(target.folder)  # the fold is there, before it counts
    covered = {"covers": [batch.number for batch in batches]}
    replace_text(target.folder / FOLD, json.dumps(covered))
    _take_away_what_is_folded(target)
    return done


def _write(files: Sequence[CountsFile], path: Path) -> None:
    """Write the latest counts of some files, given in the order of their age, into one."""
    buckets = buckets_among(files)
    lengths_ms = sorted({length for file in files for length in file.window_lengths_ms()})
    span = joined_span(file.span_ms("changed_at") for file in files)
    writer = ChangelogWriter(path, buckets=buckets, changed_ms=span[1] if span else 0)
    try:
        for bucket in range(buckets):
            for length_ms in lengths_ms:
                parts = (file.read(length_ms, bucket=(bucket, buckets)) for file in files)
                writer.write(bucket, length_ms, latest(chain.from_iterable(parts)))
    finally:
        writer.close()
    sync(path)


def _take_away_what_is_folded(batch: Batch) -> None:
    """Take away the batches that a fold stands for, marker first, and what it was made of."""
    marker = batch.folder / FOLD
    if not marker.exists():
        return
    for number in json.loads(marker.read_text(encoding="utf-8"))["covers"]:
        older = batch.folder.with_name(f"batch={number}")
        if older != batch.folder and older.exists():
            (older / DONE).unlink(missing_ok=True)
            shutil.rmtree(older)
    for part in batch.folder.glob("part-*"):
        part.unlink()
