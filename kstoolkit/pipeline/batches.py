"""What each micro-batch of a run came to, and what they come to together.

A batch is a folder of the run, whole once it is marked::

    statistics/epoch=<e>/batch=<n>/part-statistics.json   what came in, and what was written of it
                                   part-state.json        what the state stores held after it
                                   part-moments.parquet   what the next batch is judged by

The sink writes the first and the last. Of the state Spark tells once a batch has ended, too late
for the sink: so that is kept as the next batch ends, and as the query ends, in the folder of the
batch that it is about. The first two become a row where batches are folded
(:mod:`kstoolkit.changelog.compaction`); the last is needed of the newest batches alone.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.changelog.changelog import BatchFolders, asked, damaged, numbered_rows
from kstoolkit.changelog.compaction import RowsContent, aligned
from kstoolkit.events.contents import WHAT_TO_DO, Fate, first_of
from kstoolkit.events.event import REASONS
from kstoolkit.findings.finding import NOT_KNOWN
from kstoolkit.findings.incidents import by_state
from kstoolkit.moments import moment_of
from kstoolkit.pipeline.failure import JAVA_IS_GONE
from kstoolkit.pipeline.runfolder import STATE_FILE
from kstoolkit.records import Viewed, counted, facts_html, rows_html
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.changelog.changelog import Batch
    from kstoolkit.events.contents import Change
    from kstoolkit.pipeline.runfolder import RunFolder

NOT_KEPT = "Spark's figure was not kept"
"""Why a batch's is unknown: its process ended before it was told, or kept none of them yet."""

STATISTICS_FOLDER = "statistics"
_STATISTICS_NAME, _STATE_NAME = "part-statistics.json", "part-state.json"
_BESIDE = {"state", "state_bytes", "parts_seconds"}
"""What a batch does not keep in its own file."""

_AS_LISTS = pa.list_(pa.struct({"key": pa.string(), "value": pa.int64()}))
_SHOWN = 20
_CELLS = (
    *("batch", "seconds", "events", "events/s", "findings"),
    *("state written", "state rows", "state memory"),
)
_OF_STATE = ("state_bytes", "state_rows", "state_memory_bytes")
_NO_EVIDENCE = "the findings that tell are gone, or can't be read"
_SUMMED = ("events", "findings", "unjudged", "counters_in", "changelog_records", "changelog_bytes")
FOR_SUMMARY = (*_SUMMED, "batch_ms", "seconds", "late", "dead_letters", "left_out")
"""The columns that a summary is made of."""


@dataclass(frozen=True, slots=True)
class StateSize:
    """What the state stores of a run held after a batch: sums over operators and partitions.

    Parameters
    ----------
    rows
        Rows in the state stores (``numRowsTotal``); each of ours is a block of many counters.
    memory_bytes
        RocksDB's native memory, by Spark's estimate (``memoryUsedBytes``).
    """

    rows: int
    memory_bytes: int

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> StateSize:
        """Read one of a query's ``recentProgress``.

        Examples
        --------
        >>> StateSize.of({"stateOperators": [{"numRowsTotal": 448, "memoryUsedBytes": 2048}]})
        StateSize(rows=448, memory_bytes=2048)
        """
        operators = progress["stateOperators"]
        return cls(
            rows=sum(each["numRowsTotal"] for each in operators),
            memory_bytes=sum(each["memoryUsedBytes"] for each in operators),
        )

    def save(self, folder: Path) -> None:
        """Write the size into a batch's folder, which others may be reading."""
        hidden = folder / f".{os.getpid()}-{_STATE_NAME}"
        hidden.write_text(json.dumps(asdict(self)), encoding="utf-8")
        hidden.replace(folder / _STATE_NAME)

    @classmethod
    def load(cls, folder: Path) -> StateSize | None:
        """Read what :meth:`save` wrote; None if it did not, or not all of it reached the disk."""
        try:
            return cls(**json.loads((folder / _STATE_NAME).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None


def keep_state_size(folder: RunFolder, epoch: int, query: StreamingQuery | None) -> None:
    """Keep what a query told last of its state; nothing if nothing was, or of another epoch."""
    try:
        last = None if query is None else query.lastProgress
    except JAVA_IS_GONE:
        return
    if last is None:
        return
    place = BatchFolders(folder.path / STATISTICS_FOLDER).folder(epoch, last["batchId"])
    with suppress(OSError):  # a figure that can't be kept is unknown: counting goes on
        StateSize.of(last).save(place)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch: when, how long, what it came to over its buckets and tasks, what it left.

    Parameters
    ----------
    batch, batch_ms
        Its number, and its clock, epoch ms UTC.
    seconds
        How long it took to count it and to write what came of it: the sink's time.
    events
        Events that came in; late ones too.
    counters_in
        Records that went into the shuffle: counters by pane, collapsed before.
    late, backlog, changed, left_out
        By window: events too late for it; counters held back by the flush limit; counters whose
        latest value was reported; those of them left out of the changelog by ``min_count``.
    dead_letters
        By reason.
    changelog_records, changelog_bytes, findings
        What was written.
    unjudged
        Counts that could not be judged, as too little was known of their users or their peers.
    as_of_ms
        By window that lacks what waits for its flush: up to which batch's clock it has all, if any.
    reached_ms
        Up to when events have come by then, epoch ms UTC; ``None`` if that was not kept.
    state
        What the state stores held after it, by Spark's figures; ``None`` where that was not kept.
    state_bytes
        What it wrote into the checkpoint's state as changelogs, deltas and snapshots, without the
        SST files that snapshots share; ``None`` where Spark has removed that since.
    parts_seconds
        What all of its time went into, Spark's own work beside; empty where only its query tells.
    """

    batch: int
    batch_ms: int
    seconds: float
    events: int = 0
    counters_in: int = 0
    late: dict[str, int] = field(default_factory=dict)
    backlog: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    changelog_records: int = 0
    changelog_bytes: int = 0
    findings: int = 0
    unjudged: int = 0
    as_of_ms: dict[str, int | None] = field(default_factory=dict)
    reached_ms: int | None = None
    state: StateSize | None = None
    state_bytes: int | None = None
    parts_seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        batch: int,
        reports: Sequence[Mapping[str, Any]],
        labels: Sequence[str],
        *,
        seconds: float,
        findings: int,
        unjudged: int = 0,
        as_of_ms: Mapping[str, int | None],
        reached_ms: int | None = None,
    ) -> MicroBatch:
        """Add up what buckets (they know events) and tasks (they know records) reported."""
        buckets = [report for report in reports if "events" in report]
        tasks = [report for report in reports if "records" in report]

        def by_window(name: str) -> dict[str, int]:
            added = _added(each[name] for each in buckets)
            return {labels[int(level)]: number for level, number in sorted(added.items())}

        return cls(
            batch=batch,
            batch_ms=max((each["now_ms"] for each in buckets), default=0),
            seconds=round(seconds, 3),
            events=sum(each["events"] for each in buckets),
            counters_in=sum(each["counters_in"] for each in buckets),
            late=by_window("late"),
            backlog=by_window("backlog"),
            changed=by_window("changed"),
            left_out=by_window("left_out"),
            dead_letters=dict(sorted(_added(each["dead_letters"] for each in tasks).items())),
            changelog_records=sum(each["records"] for each in tasks),
            changelog_bytes=sum(each["bytes"] for each in tasks),
            findings=findings,
            unjudged=unjudged,
            as_of_ms=dict(as_of_ms),
            reached_ms=reached_ms,
        )

    def save(self, folder: Path) -> None:
        """Write what it came to into its folder."""
        told = {name: given for name, given in asdict(self).items() if name not in _BESIDE}
        (folder / _STATISTICS_NAME).write_text(json.dumps(told), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> MicroBatch:
        """Read what :meth:`save` wrote; damaged, it is a FormatError."""
        place = folder / _STATISTICS_NAME
        try:
            return cls(**json.loads(place.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise damaged(place, error) from error

    @property
    def events_per_second(self) -> float | None:
        """Events by how long it took."""
        return self.events / self.seconds if self.seconds else None

    @property
    def state_rows(self) -> int | None:
        """Rows in the state stores after it."""
        return None if self.state is None else self.state.rows

    @property
    def memory_bytes(self) -> int | None:
        """RocksDB's native memory after it."""
        return None if self.state is None else self.state.memory_bytes


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up numbers by name, the names in the order in which they come up."""
    added: Counter[str] = Counter()
    for each in counts:
        added.update(each)
    return dict(added)


_NUMBERS = pa.map_(pa.string(), pa.int64())
_TYPES = {"int": pa.int64(), "float": pa.float64(), "dict[str, int]": _NUMBERS}
_TYPES |= {"dict[str, int | None]": _NUMBERS, "int | None": pa.int64()}
_KEPT = [
    (each.name, _TYPES[str(each.type)]) for each in fields(MicroBatch) if each.name not in _BESIDE
]
_HELD = ["state_rows", "state_memory_bytes"]
_IN_FOLD = pa.schema([*_KEPT, *((name, pa.int64()) for name in _HELD)])
"""Batches as a fold has them."""
_TOLD = pa.schema([("epoch", pa.int64()), *_IN_FOLD, ("state_bytes", pa.int64())])
_AT_ONCE = 50_000  # batches


@dataclass(frozen=True, slots=True, repr=False)
class Batches(Viewed, Sequence[MicroBatch]):
    """Micro-batches, the oldest first, as columns: a record is made of each that is asked for.

    Examples
    --------
    >>> held = StateSize(rows=448, memory_bytes=2048)
    >>> batches = Batches.of([MicroBatch(0, 0, 2.0, events=500, state=held)])
    >>> batches
    Batches(1 batch, 500 events in 2.0 s)
    >>> batches.to_pandas()["events_per_second"].tolist()
    [250.0]
    """

    table: pa.Table

    @classmethod
    def of(cls, batches: Iterable[MicroBatch], epoch: int = 0) -> Batches:
        """Return batches of an epoch."""
        rows = [_row(each) | {"epoch": epoch} for each in batches]
        return cls(pa.Table.from_pylist(rows, _TOLD))

    @property
    def state_bytes(self) -> tuple[int | None, ...]:
        """What each wrote into the checkpoint's state."""
        return tuple(self.table["state_bytes"].to_pylist())

    @property
    def state(self) -> tuple[StateSize | None, ...]:
        """What the state stores held after each."""
        return tuple(each.state for each in self)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> MicroBatch: ...
    @overload
    def __getitem__(self, index: slice) -> Batches: ...
    def __getitem__(self, index: int | slice) -> MicroBatch | Batches:
        if isinstance(index, slice):
            return Batches(self.table.take(pa.array(range(len(self))[index], pa.int64())))
        return _record(self.table.slice(range(len(self))[index], 1).to_pylist()[0])

    def __iter__(self) -> Iterator[MicroBatch]:
        parts = self.table.to_batches(max_chunksize=_AT_ONCE)
        return (_record(row) for part in parts for row in part.to_pylist())

    def sums(self, name: str) -> dict[str, int]:
        """Add up numbers by name, the names in the order in which they come up."""
        each = pc.list_flatten(self.table[name].combine_chunks().cast(_AS_LISTS))
        named = pa.table({"name": each.field("key"), "number": each.field("value")})
        added = named.group_by("name", use_threads=False).aggregate([("number", "sum")])
        return dict(zip(added["name"].to_pylist(), added["number_sum"].to_pylist(), strict=True))

    def sum_of_each(self, name: str) -> NDArray[np.int64]:
        """Add up each batch's own numbers."""
        lists = self.table[name].combine_chunks().cast(_AS_LISTS)
        added = np.zeros(len(self), np.int64)
        of_batch = pc.list_parent_indices(lists).to_numpy()
        np.add.at(added, of_batch, pc.list_flatten(lists).field("value").to_numpy())
        return added

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a batch; of what is told by window or by reason, the sums."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        if not len(self):
            names = ["batch", "seconds", "events", *_OF_STATE]
            return pd.DataFrame(columns=names).astype(dict.fromkeys(_OF_STATE, "Int64"))
        held = self.table
        seconds, events = (held[name].to_numpy() for name in ("seconds", "events"))
        took = np.where(seconds == 0, np.nan, seconds)
        columns: dict[str, Any] = {
            "batch": held["batch"],
            "clock": pd.to_datetime(held["batch_ms"].to_numpy(), unit="ms", utc=True),
            "seconds": seconds,
            "events": events,
            "events_per_second": events / took,
            "counters_in": held["counters_in"],
            **{name: self.sum_of_each(name) for name in ("late", "dead_letters", "backlog")},
            **{n: held[n] for n in ("changelog_records", "changelog_bytes", "findings")},
            **{name: pd.array(held[name].to_pylist(), "Int64") for name in _OF_STATE},
        }
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        return f"Batches({self._facts()})"

    def _repr_html_(self) -> str:
        last = self[-_SHOWN:]
        note = f"; the last {len(last)} are shown" if len(last) < len(self) else ""
        return rows_html(f"{self._facts()}{note}", _CELLS, map(_cells, last))

    def _facts(self) -> str:
        events, seconds = (sum(self.table[name].to_pylist()) for name in ("events", "seconds"))
        return f"{counted(len(self), 'batches')}, {format_count(events)} events in {seconds:,.1f} s"


def _row(each: MicroBatch) -> dict[str, Any]:
    told = {name: getattr(each, name) for name, _ in _KEPT}
    held = {"state_rows": each.state_rows, "state_memory_bytes": each.memory_bytes}
    return told | held | {"state_bytes": each.state_bytes}


def _record(row: dict[str, Any]) -> MicroBatch:
    told = {name: row[name] for name, _ in _KEPT if row[name] is not None}
    told |= {name: dict(given) for name, given in told.items() if isinstance(given, list)}
    rows, memory_bytes = (row[name] for name in _HELD)
    state = None if rows is None or memory_bytes is None else StateSize(rows, memory_bytes)
    return MicroBatch(**told, state=state, state_bytes=row["state_bytes"])


def _rows_of(
    batches: Iterable[Batch], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield what batches came to, a row each, as folds have them; of those just some columns."""
    for is_fold, some in groupby(batches, key=lambda batch: batch.fold is not None):
        if is_fold:
            yield from (
                aligned(_IN_FOLD, rows) for rows in numbered_rows(some, columns, at_once=_AT_ONCE)
            )
            continue
        told = [replace(MicroBatch.load(b.folder), state=StateSize.load(b.folder)) for b in some]
        yield from Batches.of(told).table.select(_IN_FOLD.names).to_batches()


STATISTICS_CONTENT = RowsContent(_rows_of, _IN_FOLD, keep=2)
"""How they are folded. Spark may repeat the newest, which is judged by what the last one left."""


def told_after(
    folder: RunFolder, epoch: int = -1, number: int = -1, columns: Sequence[str] | None = None
) -> Batches:
    """Return what a run's batches came to, those after one; by default all of them.

    With ``columns``, what else there is may be left out, but not of the newest.
    """

    def read(marked: list[Batch]) -> pa.Table:
        fresh = (each for each in marked if (each.epoch, each.number) > (epoch, number))
        tables = [_TOLD.empty_table()]
        for each, some in groupby(fresh, key=lambda batch: batch.epoch):
            table = pa.Table.from_batches(_rows_of(some, columns))
            table = table.append_column("epoch", pa.repeat(pa.scalar(each), table.num_rows))
            unknown = pa.nulls(table.num_rows, pa.int64())
            tables.append(table.append_column("state_bytes", unknown).select(_TOLD.names))
        return pa.concat_tables(tables)

    table = asked(BatchFolders(folder.path / STATISTICS_FOLDER).marked, read)
    if epoch < 0:
        return Batches(table)
    later = pc.or_(pc.greater(table["epoch"], epoch), pc.greater(table["batch"], number))
    return Batches(table.filter(later))


def _cells(each: MicroBatch) -> tuple[str, ...]:
    rate, held, written = each.events_per_second, each.state, each.state_bytes
    return (
        str(each.batch),
        f"{each.seconds:,.2f}",
        format_count(each.events),
        "unknown" if rate is None else format_count(rate),
        format_count(each.findings),
        "unknown (removed since)" if written is None else format_bytes(written),
        "unknown (not kept)" if held is None else format_count(held.rows),
        "unknown (not kept)" if held is None else format_bytes(held.memory_bytes),
    )


def batches_of(
    folder: RunFolder, query: StreamingQuery | None = None, columns: Sequence[str] | None = None
) -> Batches:
    """Return a run's batches from its folder, and what its query tells that is not kept yet."""
    table = told_after(folder, columns=columns).table
    sizes = _told_sizes(query)
    # A batch writes the version of the state after its own number.
    written = {each - 1: size for each, size in _written_bytes(folder.checkpoint / "state").items()}
    told = {
        "state_bytes": written,
        "state_rows": {number: size.rows for number, size in sizes.items()},
        "state_memory_bytes": {number: size.memory_bytes for number, size in sizes.items()},
    }
    for name, by_number in told.items():
        column = pc.coalesce(_of_newest_epoch(table, by_number), table[name])
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return Batches(table)


def _of_newest_epoch(table: pa.Table, by_number: Mapping[int, int]) -> pa.Array:
    """Return figures for each batch: the checkpoint and the query are of the newest epoch."""
    is_newest = pc.equal(table["epoch"], pc.max(table["epoch"]))
    places = pc.index_in(table["batch"], value_set=pa.array(by_number, pa.int64()))
    places = pc.if_else(is_newest, places, pa.scalar(None, pa.int32()))
    return pa.array(by_number.values(), pa.int64()).take(places)


def newest_batch(folder: RunFolder) -> MicroBatch | None:
    """Return what a run's newest batch came to; ``None`` before the first."""
    marked = BatchFolders(folder.path / STATISTICS_FOLDER).marked()
    for each in reversed(marked):
        with suppress(FileNotFoundError):  # Spark repeats it just now
            return MicroBatch.load(each.folder)
    return None


def as_of_text(as_of_ms: int | None) -> str:
    """Return for people up to when a window holds all that came in.

    >>> as_of_text(1_442_052_600_000)
    '2015-09-12 10:10:00 UTC; what came later waits for its flush'
    """
    if as_of_ms is None:
        return "unknown (no flush was whole yet)"
    return f"{moment_of(as_of_ms):%Y-%m-%d %H:%M:%S} UTC; what came later waits for its flush"


def _told_sizes(query: StreamingQuery | None) -> dict[int, StateSize]:
    try:
        recent = [] if query is None else query.recentProgress
    except JAVA_IS_GONE:
        return {}
    return {each["batchId"]: StateSize.of(each) for each in recent}


def _written_bytes(state: Path) -> dict[int, int]:
    """Return what the files of each version of the state take; files that vanish are left out."""
    written: Counter[int] = Counter()
    for path in state.rglob("*") if state.is_dir() else ():
        version = STATE_FILE.fullmatch(path.name)
        with suppress(FileNotFoundError):
            if version is not None:
                written[int(version[1])] += path.stat().st_size
    return dict(written)


@dataclass(frozen=True, slots=True)
class RunSummary(Viewed):
    """A run in figures.

    Parameters
    ----------
    events
        Events that came in.
    late
        Events too late for a window, by window; they still count in the longer ones.
    dead_letters
        Records that could not be counted, by reason.
    batches
        Micro-batches written.
    findings
        Windows found abnormal; a window that grew counts each time that it was reported.
    counters_in
        Records into the shuffle; ``counters_in / events`` tells what the buffer saves.
    changelog_records, changelog_bytes
        What the changelog was given.
    left_out
        Records that ``min_count`` kept out of the changelog.
    backlog
        Counters that the newest batch held back, by window.
    as_of_ms
        By window, of those that lack what waits for a flush: see :meth:`kstoolkit.Run.as_of`.
    state_bytes
        Size of the state in the checkpoint; ``None`` if it could not be read.
    state_rows, state_memory_bytes
        What the state stores held after the newest batch, by Spark's figures: see
        :class:`~kstoolkit.pipeline.batches.StateSize`; ``None`` if that was not kept.
    seconds, first_batch_seconds
        How long the batches took together, and the first one, which carries what starts up.
    files_moved, files_replaced
        Files found elsewhere, not counted again; found to hold something else, counted as new.
    files_grown
        Paths of files of which what was added once they were counted is not counted.
    unjudged
        Counts that could not be judged.
    incidents
        Incidents by state; ``None`` if their evidence, the findings, is gone or can't be read.
    """

    events: int
    late: dict[str, int]
    dead_letters: dict[str, int]
    batches: int
    findings: int
    counters_in: int
    changelog_records: int
    changelog_bytes: int
    left_out: int
    backlog: dict[str, int]
    state_bytes: int | None
    seconds: float
    first_batch_seconds: float | None
    steady_events_per_second: float | None
    as_of_ms: dict[str, int | None]
    state_rows: int | None = None
    state_memory_bytes: int | None = None
    files_moved: int = 0
    files_replaced: int = 0
    files_grown: tuple[str, ...] = ()
    unjudged: int = 0
    incidents: dict[str, int] | None = None

    @classmethod
    def of(
        cls, batches: Batches, state_bytes: int | None, changes: Sequence[Change] = ()
    ) -> RunSummary:
        """Add up batches, given in their order; ``state_bytes`` is what the checkpoint's take."""
        fates = Counter(each.fate for each in changes)
        first, last = (batches[0], batches[-1]) if batches else (None, None)
        seconds, events = (batches.table[name].to_pylist() for name in ("seconds", "events"))
        spent = sum(each for each, came in zip(seconds[1:], events[1:], strict=True) if came)
        sums: dict[str, Any] = {name: pc.sum(batches.table[name]).as_py() or 0 for name in _SUMMED}
        return cls(
            **sums,
            late=batches.sums("late"),
            dead_letters=batches.sums("dead_letters"),
            batches=len(batches),
            left_out=sum(batches.sums("left_out").values()),
            backlog={} if last is None else last.backlog,
            as_of_ms={} if last is None else last.as_of_ms,
            state_bytes=state_bytes,
            seconds=round(sum(seconds), 3),
            first_batch_seconds=None if first is None else first.seconds,
            steady_events_per_second=sum(events[1:]) / spent if spent else None,
            state_rows=None if last is None else last.state_rows,
            state_memory_bytes=None if last is None else last.memory_bytes,
            files_moved=fates[Fate.MOVED],
            files_replaced=fates[Fate.REPLACED],
            files_grown=tuple({each.path: 0 for each in changes if each.fate == Fate.GROWN}),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a figure: ``figure``, ``of`` (a window or a reason) and ``value``."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        rows = [
            (name, of, value)
            for name, told in self.to_dict().items()
            for of, value in (told.items() if isinstance(told, dict) else [(None, told)])
        ]
        return pd.DataFrame(rows, columns=["figure", "of", "value"])

    def rows(self) -> list[tuple[str, str]]:
        """Return (what, figure) for people, in the order of the text."""
        dead = [
            (f"dead letters: {REASONS.get(reason, reason)}", format_count(number))
            for reason, number in self.dead_letters.items()
        ]
        late = [(f"late for {window}", format_count(n)) for window, n in self.late.items()]
        held = [(f"backlog of {window}", format_count(n)) for window, n in self.backlog.items()]
        of_state = (
            f"unknown ({_NO_EVIDENCE})" if self.incidents is None else by_state(self.incidents)
        )
        per_event = f" ({self.counters_in / self.events:.2f} an event)" if self.events else ""
        return [
            ("events", format_count(self.events)),
            *late,
            *dead,
            *self._files(),
            ("incidents", of_state),
            ("findings reported", format_count(self.findings)),
            *[("not judged", f"{self.unjudged:,} counts ({NOT_KNOWN})")] * (self.unjudged > 0),
            ("micro-batches", f"{self.batches:,} in {self.seconds:,.1f} s"),
            ("records into the shuffle", f"{self.counters_in:,}{per_event}"),
            ("changelog", self._changelog()),
            *held,
            *((f"{window} as of", as_of_text(ms)) for window, ms in self.as_of_ms.items()),
            ("state", format_bytes(self.state_bytes)),
            ("state in memory", self._held()),
            ("speed", self._speed()),
        ]

    def _files(self) -> Iterator[tuple[str, str]]:
        if self.files_moved:
            yield "files moved", f"{format_count(self.files_moved)}, not counted again"
        if self.files_replaced:
            yield "files replaced", f"{format_count(self.files_replaced)}, counted as new ones"
        if self.files_grown:
            which = first_of([repr(path) for path in self.files_grown])
            yield "files grown", f"{which}: what was added is not counted; {WHAT_TO_DO}"

    def _changelog(self) -> str:
        told = f"{self.changelog_records:,} records, {format_bytes(self.changelog_bytes)}"
        if not self.left_out:
            return told
        share = self.left_out / (self.left_out + self.changelog_records)
        each = self.changelog_bytes / max(self.changelog_records, 1)
        saved = format_bytes(each * self.left_out)
        return f"{told}; min_count saved {share:.0%} of the records, about {saved}"

    def _held(self) -> str:
        if self.state_rows is None:
            return f"unknown ({NOT_KEPT})"
        rows = format_count(self.state_rows)
        return f"{format_bytes(self.state_memory_bytes)} for {rows} rows after the last batch"

    def _speed(self) -> str:
        if self.steady_events_per_second is None:
            return "unknown (the first batch carries what starts up, and no other had events)"
        return f"{self.steady_events_per_second:,.0f} events/s after the first batch"

    def __str__(self) -> str:
        width = max(len(what) for what, _ in self.rows())
        return "\n".join(f"{what:<{width}}  {figure}" for what, figure in self.rows())

    def __repr__(self) -> str:
        dead, late = (sum(each.values()) for each in (self.dead_letters, self.late))
        return (
            f"RunSummary({self.events:,} events, {late:,} late, {dead:,} dead letters, "
            f"{self.batches:,} batches, {self.findings:,} findings)"
        )

    def _repr_html_(self) -> str:
        return facts_html(self.rows(), "Summary of the run")
