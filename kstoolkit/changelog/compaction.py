"""Compaction: many batches of one kind become one; of a changelog, with the latest counts alone.

Of each epoch some marked batches are folded into the folder of the newest among them::

    batch=<n>/.fold-00000.parquet          being written; a hidden name
    batch=<n>/fold-00000.parquet           whole and on disk, but nobody reads it yet
    batch=<n>/_fold                        from here on it counts, and part-* no longer does:
                                           {"file": "fold-00000.parquet", "batches": 16,
                                           "covers": [[0, 15]]}
    batch=<m>/ for m < n, batch=<n>/part-* taken away

Ended at any point, however hard, it leaves either the old batches or the fold to be read; the next
compaction finishes the rest. The newest batch of all is left alone, as Spark may repeat it, and so
are unmarked ones: a run may go on meanwhile. The fold keeps the highest number that it covers, so
whoever follows by number goes on as before. Where a fold becomes part of another one in its own
folder, that is ``fold-00001.parquet``, and so on. Rows of other kinds than counts stay as they are,
each with the number of its ``batch``.

By hand, all of an epoch becomes one fold. A run folds in tiers as it goes: sixteen neighbours of
one tier become one of the next, so that any number of batches leaves some dozens of folders, and a
row is written anew once a tier. The newest sixteen batches stay as they are: who follows by number,
and is not further behind than that, reads nothing twice.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import (
    DONE,
    FOLD,
    Batch,
    BatchFolders,
    Changelog,
    Fold,
    asked,
    buckets_among,
    latest,
    lengths_among,
    locked,
    numbered_rows,
    parts_among,
    sync,
)
from kstoolkit.changelog.countsfile import ChangelogWriter, CountsFile, joined_span
from kstoolkit.errors import OutputError
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_LOCK = ".compact.lock"
_AT_ONCE = 1 << 20  # counts
NEIGHBOURS = 16
"""How many of one tier become one of the next; and how many of the newest stay as they are."""


@dataclass(frozen=True, slots=True, repr=False)
class CompactionResult:
    """What a compaction came to.

    Of the batches that became part of folds: their rows (counts, if not said otherwise) and the
    size of their files, and the same of the folds.

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
        return f"CompactionResult({self})"

    def __str__(self) -> str:
        if not self.batches_folded:
            return "nothing to fold"
        before, after = format_count(self.records_before), format_count(self.records_after)
        size = f"{format_bytes(self.bytes_before)} → {format_bytes(self.bytes_after)}"
        folded = f"{format_count(self.batches_folded)} batches folded"
        return f"{folded}: {before} → {after} records, {size}"


class Content(Protocol):
    """How the batches of one kind are put together."""

    @property
    def keep(self) -> int:
        """How many of the newest batches are never folded."""

    def write(
        self, batches: Sequence[Batch], path: Path, go_on: Callable[[], object]
    ) -> tuple[int, int]:
        """Write what batches hold into one file, and return how many rows it was, and is."""

    def is_outdated(self, batch: Batch) -> bool:
        """Whether half of what a fold holds has expired."""


def compact(path: str | os.PathLike[str]) -> CompactionResult:
    """Fold a changelog to its latest counts, and return what that saved.

    ``path`` is a run's output folder, or its changelog folder; else it is an InputError. Meanwhile
    a run may write to the changelog, and others read it; another compaction at work, or a disk that
    takes nothing, is an OutputError. A damaged file is a FormatError: nothing is folded then.
    """
    return compact_folders(Changelog.open(Path(path)).path, CountsContent())


def compact_folders(
    folder: Path,
    content: Content,
    *,
    in_tiers: bool = False,
    go_on: Callable[[], object] = lambda: None,
) -> CompactionResult:
    """Fold the batches of one kind, all or in tiers; ``go_on`` is called now and then.

    Another compaction that is at work, or a disk that takes nothing, is an OutputError.
    """
    try:
        busy = f"Another compaction is at work on {str(folder)!r}."
        with locked(folder / _LOCK, busy, "Wait for it to end; it does the same work."):
            return _compacted(BatchFolders(folder), content, go_on, in_tiers=in_tiers)
    except OSError as error:
        message = f"{str(folder)!r} can't be compacted: {error.strerror or error}."
        hint = "What it holds is as it was. Mend that, and compact again."
        raise OutputError(message, hint=hint) from error


def _compacted(
    folders: BatchFolders, content: Content, go_on: Callable[[], object], *, in_tiers: bool
) -> CompactionResult:
    marked = folders.marked()
    for batch in marked:
        _take_away_leftovers(folders, batch)
    # Spark may repeat the newest batch; its beginning says that all before it are settled.
    keep = max(content.keep, NEIGHBOURS if in_tiers else 0)
    done = CompactionResult(0, 0, 0, 0, 0)
    for _, batches in groupby(marked[:-keep], key=lambda batch: batch.epoch):
        settled = list(batches)
        choose = next_in_tiers if in_tiers else _all_of_them
        while chosen := choose(settled, content.is_outdated):
            fold, result = _fold(folders, settled[chosen], content, go_on)
            settled[chosen] = [fold]
            done += result
    return done


def _all_of_them(settled: Sequence[Batch], is_outdated: Callable[[Batch], bool]) -> slice | None:
    """Return all of them while they are several."""
    several = len(settled) > 1 or any(each.fold and is_outdated(each) for each in settled)
    return slice(0, len(settled)) if several else None


def next_in_tiers(settled: Sequence[Batch], is_outdated: Callable[[Batch], bool]) -> slice | None:
    """Return which neighbours become a fold next: sixteen of a tier, none larger after them."""
    # 0 for fewer batches than sixteen, 1 for fewer than 256, and so on
    tiers = np.asarray([(_weight(batch).bit_length() - 1) // 4 for batch in settled], np.int64)
    for tier in range(tiers.max(initial=-1) + 1):
        larger = np.flatnonzero(tiers > tier)
        begin = larger[-1] + 1 if larger.size else 0
        same = begin + np.flatnonzero(tiers[begin:] == tier)
        if same.size >= NEIGHBOURS:
            return slice(int(begin), int(same[-1]) + 1)
    outdated = (n for n, each in enumerate(settled) if each.fold and is_outdated(each))
    return next((slice(n, n + 1) for n in outdated), None)


def _fold(
    folders: BatchFolders, batches: Sequence[Batch], content: Content, go_on: Callable[[], object]
) -> tuple[Batch, CompactionResult]:
    """Fold neighbours of one epoch into the folder of the last; return that, and what it saved."""
    target = batches[-1]
    number = 0 if target.fold is None else int(target.fold.file[5:10]) + 1
    place = target.folder / f"fold-{number:05d}.parquet"
    hidden = place.with_name(f".{place.name}")
    bytes_before = sum(path.stat().st_size for each in batches for path in each.files(""))
    try:
        rows_before, rows_after = content.write(batches, hidden, go_on)
        sync(hidden)
        hidden.replace(place)
    finally:
        hidden.unlink(missing_ok=True)  # half a fold would fill a full disk
    sync(target.folder)  # the fold is there, before it counts
    marker = Fold(place.name, sum(map(_weight, batches)), _covered(folders, batches))
    marker.save(target.folder)
    after = place.stat().st_size
    result = CompactionResult(len(batches), rows_before, rows_after, bytes_before, after)
    folded = replace(target, names=(*target.names, FOLD, place.name), fold=marker)
    _take_away_leftovers(folders, folded)
    return folded, result


def _weight(batch: Batch) -> int:
    return 1 if batch.fold is None else batch.fold.batches


def _covered(folders: BatchFolders, batches: Sequence[Batch]) -> tuple[range, ...]:
    """Return the numbers that a fold stands for: gaps among them, no unmarked folder."""
    marked = {each.number for each in batches}
    first, last = batches[0].number, batches[-1].number
    there = [each for each in folders.numbers(batches[0].epoch) if first <= each <= last]
    runs = [list(run) for is_ours, run in groupby(there, marked.__contains__) if is_ours]
    return tuple(range(run[0], run[-1] + 1) for run in runs)


def _take_away_leftovers(folders: BatchFolders, batch: Batch) -> None:
    """Take away what a fold stands for, marker first, and what a compaction left that ended."""
    mine, covers = ("", ()) if batch.fold is None else (batch.fold.file, batch.fold.covers)
    ours = (".fold-", "._fold", "fold-", *(["part-"] if mine else []))
    left = [each for each in batch.names if each.startswith(ours) and each != mine]
    # What it was made of goes last: while any of it is there, the older ones may be.
    for number in folders.numbers(batch.epoch) if left and covers else ():
        if number < batch.number and any(number in each for each in covers):
            older = folders.folder(batch.epoch, number)
            (older / DONE).unlink(missing_ok=True)
            shutil.rmtree(older)
    for name in left:
        (batch.folder / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class CountsContent:
    """Counts: the latest of each key stays, if its window begins at the floor of its length."""

    floors_ms: Mapping[int, int] = field(default_factory=dict)
    keep: int = 1

    def write(
        self, batches: Sequence[Batch], path: Path, go_on: Callable[[], object]
    ) -> tuple[int, int]:
        """Write the latest counts of batches into one file."""
        files = [CountsFile.open(each) for batch in batches for each in batch.files(".parquet")]
        buckets = buckets_among(files)
        lengths_ms = sorted(lengths_among(files))
        span = joined_span(file.span_ms("changed_at") for file in files)
        changed_ms, parts = span[1] if span else 0, parts_among(files)
        has_ends = any(file.has_ends for file in files)
        writer = ChangelogWriter(
            path, buckets=buckets, changed_ms=changed_ms, parts=parts, has_ends=has_ends
        )
        rows_before = sum(file.num_rows for file in files)
        # What fits into memory is read in one go: each piece would open all files again.
        pieces = [None] if rows_before <= _AT_ONCE else [(n, buckets) for n in range(buckets)]
        with closing(writer):
            for piece, length_ms in product(pieces, lengths_ms):
                go_on()
                found = (file.read(length_ms, bucket=piece) for file in files)
                counters = latest(chain.from_iterable(found))
                if length_ms in self.floors_ms:
                    counters = counters.take(counters.start_ms >= self.floors_ms[length_ms])
                for bucket, part in counters.by_bucket(buckets):
                    writer.write(bucket, length_ms, part)
        return rows_before, writer.rows

    def is_outdated(self, batch: Batch) -> bool:
        """Whether half of the time that some windows span is before what stays of them."""
        file = CountsFile.open(batch.files(".parquet")[0])
        for length_ms, floor_ms in self.floors_ms.items():
            span = file.span_ms("window_start", length_ms)
            if span is not None and sum(span) // 2 < floor_ms and span[0] < floor_ms:
                return True
        return False


_GROUP_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RowsContent:
    """Rows of any other kind, which stay as they are.

    ``rows`` returns batches' rows, some at a time, with their ``batch`` number; ``schema`` their
    columns, by default the newest file's. The ``keep`` newest batches are never folded. If rows
    have ``window_ms`` and ``window_start_ms``, ``floors_ms`` is as of :class:`CountsContent`.
    """

    rows: Callable[[Iterable[Batch]], Iterator[pa.RecordBatch]] = numbered_rows
    schema: pa.Schema | None = None
    keep: int = 1
    floors_ms: Mapping[int, int] = field(default_factory=dict)

    def write(
        self, batches: Sequence[Batch], path: Path, go_on: Callable[[], object]
    ) -> tuple[int, int]:
        """Write the rows of batches into one file, in their order."""
        before, after, size_bytes, held = 0, 0, 0, list[pa.RecordBatch]()
        schema = self.schema or pq.read_schema(batches[-1].files(".parquet")[0])
        if "batch" not in schema.names:
            schema = schema.append(pa.field("batch", pa.int64()))
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for rows in self.rows(batches):
                go_on()
                before += rows.num_rows
                told = aligned(schema, rows)
                held.append(told.filter(self._stays(told)) if self.floors_ms else told)
                size_bytes += held[-1].nbytes
                if size_bytes >= _GROUP_BYTES:
                    after += _write_group(writer, held)
                    size_bytes, held = 0, []
            after += _write_group(writer, held)
        return before, after

    def is_outdated(self, batch: Batch) -> bool:
        """Whether half of the rows are of windows that begin before what stays of them."""
        if not self.floors_ms:
            return False
        told = [self._stays(rows) for rows in numbered_rows([batch], _WINDOW)]
        gone = sum(len(stays) - stays.true_count for stays in told)
        return bool(gone and 2 * gone >= sum(map(len, told)))

    def _stays(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        lengths, starts = (rows.column(name).to_numpy() for name in _WINDOW)
        stays = np.ones(len(starts), bool)
        for length_ms, floor_ms in self.floors_ms.items():
            stays &= (lengths != length_ms) | (starts >= floor_ms)
        return pa.array(stays)


_WINDOW = ("window_ms", "window_start_ms")


def aligned(schema: pa.Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with these columns: those that earlier versions lacked are null."""
    names, nothing = rows.schema.names, pa.nulls(rows.num_rows)
    columns = (rows.column(each) if each in names else nothing for each in schema.names)
    typed = [column.cast(each.type) for column, each in zip(columns, schema, strict=True)]
    return pa.record_batch(typed, schema=schema)


def _write_group(writer: pq.ParquetWriter, held: Sequence[pa.RecordBatch]) -> int:
    rows: int = sum(each.num_rows for each in held)
    if rows:
        writer.write_table(pa.Table.from_batches(held))
    return rows


def clock_ms(folder: Path, finest_ms: int) -> int | None:
    """Return how far most counts of a changelog's newest batches are, by the finest windows' end.

    It is no later than the clock of these batches, epoch ms UTC; ``None`` where nothing tells.
    """

    def reached(batches: Sequence[Batch]) -> int | None:
        newest = [each for each in batches[-2 * NEIGHBOURS :] if each.fold is None]
        files = [CountsFile.open(path) for each in newest for path in each.files(".parquet")]
        clocks = joined_span(file.span_ms("changed_at") for file in files)
        starts = [part.start_ms for file in files for part in file.read(finest_ms)]
        if clocks is None or not starts:
            return None
        return min(int(np.median(np.concatenate(starts))) + finest_ms, clocks[1])

    return asked(BatchFolders(folder).marked, reached)
