"""The changelog: latest counts, as a folder of Parquet files that any tool reads.

::

    changelog/epoch=<e>/batch=<n>/part-<task>.parquet

============  ====================  ==========================================================
column        type                  meaning
============  ====================  ==========================================================
window_ms     int64                 how long the window is: tells the cascade's levels apart
window_start  timestamp[ms, UTC]    when it begins
user          string                who
action        string                what
count         int64                 how often so far: the latest value, not a difference
changed_at    timestamp[ms, UTC]    the clock of the micro-batch that reported it
============  ====================  ==========================================================

The newest (epoch, batch) wins for each (window_ms, window_start, user, action). A batch's folder
counts once its ``_done`` marker is there, which is written last. Spark repeats a batch that it is
not sure of, under the same number: the folder is then emptied and written again, with the same
content. What else a run keeps by micro-batch lies likewise, ``<kind>/epoch=<e>/batch=<n>/``.
A live run folds its older batches as it goes, and ``kstoolkit compact`` all but the newest; a fold
has the highest number among them (:mod:`kstoolkit.changelog.compaction`); reading is the same.

Spark and pandas read the folder as it is, and pass over names with a leading underscore or dot. The
latest counts of one kind of window in DuckDB, whose ``*`` would take in hidden files::

    SELECT window_start, user, action, arg_max(count, (epoch, batch)) AS count
    FROM read_parquet('out/changelog/*/*/[a-z]*.parquet', hive_partitioning = true, filename = true)
    WHERE window_ms = 3_600_000
      AND parse_dirpath(filename) IN (
        SELECT parse_dirpath(file) FROM glob('out/changelog/*/*/_done')
      )
    GROUP BY ALL
    ORDER BY ALL
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.countsfile import CountsFile, joined_span
from kstoolkit.counters.counters import Counters
from kstoolkit.errors import FormatError, InputError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Sized

    Answer = TypeVar("Answer")
    Known = TypeVar("Known")
    Counted = TypeVar("Counted", bound=Sized)

DONE = "_done"
FOLD = "_fold"
_NUMBERED = re.compile(r"(epoch|batch)=(\d+)")


@dataclass(frozen=True, slots=True)
class Fold:
    """What a folder's marker says of the batches that were folded into its one file.

    How many, those of earlier folds too, and the numbers of the folders it stands for, its own too.
    """

    file: str
    batches: int
    covers: tuple[range, ...]

    @classmethod
    def load(cls, folder: Path) -> Fold:
        """Read the marker, also one that lists each number."""
        told = json.loads((folder / FOLD).read_text(encoding="utf-8"))
        covers = told["covers"]
        if "file" not in told:
            alone = [[number, number] for number in covers]
            return cls("fold-00000.parquet", len(covers), _joined(alone))
        return cls(told["file"], told["batches"], _joined(covers))

    def save(self, folder: Path) -> None:
        """Write the marker in one step: from then on the fold counts."""
        covers = [[each.start, each.stop - 1] for each in self.covers]
        told = {"file": self.file, "batches": self.batches, "covers": covers}
        replace_text(folder / FOLD, json.dumps(told))


def _joined(spans: Iterable[list[int]]) -> tuple[range, ...]:
    """Return spans of numbers, given from first to last, as ranges; neighbours are one."""
    found: list[range] = []
    for first, last in sorted(spans):
        if found and found[-1].stop >= first:
            found[-1] = range(found[-1].start, last + 1)
        else:
            found.append(range(first, last + 1))
    return tuple(found)


@dataclass(frozen=True, slots=True, order=True)
class Batch:
    """A marked batch: which one, where it lies, what lies there, and of a fold what it covers."""

    epoch: int
    number: int
    folder: Path
    names: tuple[str, ...] = ()
    fold: Fold | None = field(default=None, compare=False)

    def files(self, suffix: str) -> list[Path]:
        """Return the batch's files, parts in the order of their names; of a fold, just that."""
        if self.fold is not None:
            return [self.folder / self.fold.file]
        parts = (name for name in self.names if name.startswith("part-") and name.endswith(suffix))
        return [self.folder / name for name in parts]


@dataclass(frozen=True, slots=True)
class BatchFolders:
    """The batches of one kind: of a run's changelog, its findings, and so on.

    >>> import tempfile
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
        """Return the batches that count, the oldest first: none that a fold stands for."""
        before = None
        while True:
            found, all_marked = self._look()
            # What was not marked may have been folded meanwhile, into what was not there before.
            if all_marked or found == before:
                return found
            before = found

    def numbers(self, epoch: int) -> list[int]:
        """Return the numbers of an epoch's folders, marked or not."""
        return [number for number, _ in _numbered(self.root / f"epoch={epoch}", "batch")]

    def _look(self) -> tuple[list[Batch], bool]:
        """Return the batches that count by now, and whether all that is there is marked.

        Each is looked at once, the oldest first: a fold is marked before what it stands for goes.
        """
        there = [
            _batch(epoch, number, folder)
            for epoch, below in _numbered(self.root, "epoch")
            for number, folder in _numbered(below, "batch")
        ]
        marked = [each for each in there if each is not None]
        found = []
        for _, batches in groupby(marked, key=lambda each: each.epoch):
            found += _uncovered(list(batches))
        return found, len(marked) == len(there)


def _batch(epoch: int, number: int, folder: Path) -> Batch | None:
    with suppress(FileNotFoundError, NotADirectoryError):  # folded just now
        names = os.listdir(folder)  # noqa: PTH208 - names are all that is asked for
        if DONE in names:
            fold = Fold.load(folder) if FOLD in names else None
            return Batch(epoch, number, folder, tuple(sorted(names)), fold)
    return None


def _uncovered(batches: list[Batch]) -> list[Batch]:
    """Return the batches of one epoch that no later one stands for."""
    runs = [(each.number, run) for each in batches if each.fold for run in each.fold.covers]
    return [
        each
        for each in batches
        if not any(each.number < last and each.number in run for last, run in runs)
    ]


def numbered_rows(
    batches: Iterable[Batch], columns: Sequence[str] | None = None, *, at_once: int = 1_000
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches' files, each with the number of its ``batch``.

    Some come at once: not many of raw text, each of up to 65,536 characters.
    """
    wanted = None if columns is None else [*columns, "batch"]
    for batch in batches:
        for path in batch.files(".parquet"):
            for rows in _rows_in(path, wanted, at_once):
                number = pa.repeat(pa.scalar(batch.number, pa.int64()), rows.num_rows)
                is_told = "batch" in rows.schema.names
                yield rows if is_told else rows.append_column("batch", number)


def _rows_in(path: Path, columns: Sequence[str] | None, at_once: int) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=at_once, columns=columns)
    except FileNotFoundError:  # it may be folded by now
        raise
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, why: object) -> FormatError:
    """Return the error of a file of a batch that can't be read."""
    first = (str(why).splitlines() or ["no reason given"])[0].rstrip(".")
    hint = "Restore it from a copy, or count into another folder."
    return FormatError(f"{path} is damaged: {first}.", hint=hint)


def sync(path: Path) -> None:
    """Have the kernel write a file or folder to disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Busy(OutputError):  # noqa: N818 - says how it is, as NotSent does
    """Somebody else holds a lock."""


@contextmanager
def locked(path: Path, busy: str, hint: str) -> Iterator[None]:
    """Hold a lock file, which the kernel lets go of with this process; held by others: ``busy``."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(busy, hint=hint) from error
        yield


def replace_text(path: Path, text: str) -> None:
    """Write a text file in one step, by way of a hidden one; it is on disk afterwards."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text, encoding="utf-8")
    sync(hidden)
    hidden.replace(path)
    sync(path.parent)


def _numbered(root: Path, name: str) -> list[tuple[int, Path]]:
    if not root.is_dir():
        return []
    matches = ((_NUMBERED.fullmatch(path.name), path) for path in root.iterdir())
    return sorted((int(match[2]), path) for match, path in matches if match and match[1] == name)


MIRROR = "mirror"
"""The folder, in that of a run or a replica, where a changelog that lies elsewhere is read from."""
_AT_ONCE = 1 << 20  # rows


@runtime_checkable
class Mirrored(Protocol):
    """A changelog that lies elsewhere, and can be had as a folder that keeps up with it."""

    def mirrored_in(self, folder: Path) -> Changelog:
        """Return the folder's changelog, which :meth:`Changelog.refresh` brings up to date."""


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog folder, to be read: the one that holds ``epoch=<e>``."""

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> Changelog:
        """Open a changelog folder, or a run folder's; if there is none, it is an InputError."""
        for candidate in (Path(path), Path(path) / "changelog", Path(path) / MIRROR):
            if any(candidate.glob("epoch=*")):
                return cls(candidate)
        message = f"No changelog in {str(path)!r}: no epoch=<number> folder lies there."
        raise InputError(message, hint="Give a run's output folder, or its changelog folder.")

    @property
    def batches(self) -> list[Batch]:
        """The batches that count, the oldest first."""
        return BatchFolders(self.path).marked()

    def refresh(self) -> int:
        """Look for what is new elsewhere, and return how much that was: a folder is as it is."""
        return 0

    def window_lengths_ms(self) -> list[int]:
        """Return the lengths of the windows that have counts here, the shortest first."""
        return sorted(self._asked(lengths_among))

    def span_ms(self, window_ms: int) -> tuple[int, int] | None:
        """Return the first and last start of windows of one length, epoch ms UTC; None of none."""
        return self._asked(
            lambda files: joined_span(file.span_ms("window_start", window_ms) for file in files)
        )

    def counters(
        self, window_ms: int, *, users: set[str] | None = None, bucket: int | None = None
    ) -> Counters:
        """Return the latest counts of one window length, of all users, or of some.

        Of a ``bucket`` there are as many as :meth:`buckets` says.
        """
        names = None if users is None else pa.array(sorted(users), pa.string())
        return self._latest(window_ms, names, None if bucket is None else (bucket, self.buckets()))

    def in_pieces(self, *lengths_ms: int) -> Iterator[list[Counters]]:
        """Yield the latest counts of window lengths, a million of some users at a time, or so."""
        rows = self._asked(lambda files: sum(each.num_rows for each in files))
        buckets, enough = self.buckets(), -(-rows // _AT_ONCE)
        pieces = next((n for n in range(enough, buckets) if n and buckets % n == 0), buckets)
        for each in range(pieces):
            of = (each, pieces) if pieces > 1 else None
            yield [self._latest(length_ms, None, of) for length_ms in lengths_ms]

    def _latest(
        self, window_ms: int, users: pa.Array | None, bucket: tuple[int, int] | None
    ) -> Counters:
        found = self._asked(
            lambda files: latest(
                counters
                for file in files
                for counters in file.read(window_ms, users=users, bucket=bucket)
            )
        )
        return found if window_ms > 0 else found.take(found.count > 0)  # others are no session more

    def parts(self) -> tuple[str, ...] | None:
        """Return what the parts of an action are called; ``None`` if it is one column."""
        return self._asked(parts_among)

    def buckets(self) -> int:
        """Return among how many buckets the users are spread; 1 if the files do not say."""
        return self._asked(buckets_among)

    def _asked(self, question: Callable[[Iterable[CountsFile]], Answer]) -> Answer:
        return ask_files(lambda: self.batches, question)


def ask_files(
    look: Callable[[], Iterable[Batch]], question: Callable[[Iterable[CountsFile]], Answer]
) -> Answer:
    """Ask the files of batches; once more if a compaction folds them meanwhile."""
    return asked(
        lambda: [path for batch in look() for path in batch.files(".parquet")],
        lambda known: question(CountsFile.open(path) for path in known),
    )


def asked(look: Callable[[], Known], question: Callable[[Known], Answer]) -> Answer:
    """Ask what a look finds; once more if a file is gone by then, and a look finds others."""
    while True:
        known = look()
        try:
            return question(known)
        except FileNotFoundError:
            if known == look():
                raise


def buckets_among(files: Iterable[CountsFile]) -> int:
    """Return among how many buckets the users of some files are spread; 1 if they do not agree."""
    told = {file.buckets for file in files} - {None}
    return (told.pop() or 1) if len(told) == 1 else 1


def lengths_among(files: Iterable[CountsFile]) -> set[int]:
    """Return the lengths of the windows that some files have counts of."""
    return {each for file in files for each in file.window_lengths_ms()}


def parts_among(files: Iterable[CountsFile]) -> tuple[str, ...] | None:
    """Return what the parts of some files' actions are called; ``None`` if an action is one."""
    return next((file.parts for file in files), None)


def latest(parts: Iterable[Counters]) -> Counters:
    """Return the newest count of every key; ``parts`` come in the order that they were written."""
    return folded(parts, Counters.newest)


def folded(parts: Iterable[Counted], newest: Callable[[list[Counted]], Counted]) -> Counted:
    """Return the newest of all parts, given in the order of writing; they may not fit in memory.

    Parts are folded into what there is once they are as many rows, or :data:`_AT_ONCE`: a long
    history takes little more memory than its result, and each counter is touched a few times only.
    """
    held, rows = [newest([])], 0
    for part in parts:
        held.append(part)
        rows += len(part)
        if rows >= max(_AT_ONCE, len(held[0])):
            held, rows = [newest(held)], 0
    return newest(held)
