"""Watching a run: look after look, each reading just what is new; in this process or another's.

Nothing here writes, and a look disturbs nobody: the run's ledger and Spark's logs are read as they
are, half a line at the end included.

A run as it stands at one moment: how fast, how far behind, what waits, what its state takes.

One micro-batch: when, how long, and how much.

How many files a run has taken in and not counted yet, look after look.

What a run counts under names: its findings by rule, and the names that there can be.

How much state a run held after each batch, by what Spark reported.

Spark tells it of a batch once that has ended, too late for the sink to write it. So it is kept as
the next batch ends, and as the query ends, in the folder of the batch that it is about.

A run batch by batch: how long each took, how much came in, what it wrote, what state it held.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.changelog.countsfile import CountsFile
from kstoolkit.events.event import REASONS
from kstoolkit.findings.rules import Exempt, rules_from_json
from kstoolkit.moments import moment_of
from kstoolkit.pipeline.failure import JAVA_IS_GONE, RestartLog
from kstoolkit.pipeline.runfolder import files_taken, newest_commit
from kstoolkit.pipeline.statistics import BatchStatistics
from kstoolkit.records import Viewed
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pandas as pd
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.pipeline.failure import Restarted
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import RunFolder


_RECENT_MS = 60_000
_LENGTHS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000))
_SECOND_MS = 1_000


class RunState(StrEnum):
    """Whether a run counts."""

    COUNTING = "counting"
    ELSEWHERE = "counting, in another process"
    RESTING = "not counting at present"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunStatus(Viewed):
    """A run as it stands; made by :class:`kstoolkit.pipeline.status.RunWatch`.

    Parameters
    ----------
    state, why
        Whether it counts, and why it failed if it did.
    at_ms
        When this was seen, epoch ms UTC.
    batches
        The newest micro-batches, the oldest of them first.
    num_batches, events, findings, late, dead_letters
        Of all micro-batches; late events by window, dead letters by reason.
    newest_event_ms
        Event time reaches at least so far: the end of the newest window of the finest level.
    waiting_files, waiting_bytes
        Taken in, and not counted yet.
    state_bytes
        Size of the state in the checkpoint.
    restarts, last_restart
        How often its query died and was started again, in all its life; and the newest time.
    unknown
        Why a figure is unknown, by its name.

    Examples
    --------
    >>> status = RunStatus(state=RunState.RESTING, at_ms=0)
    >>> status
    RunStatus(not counting at present, 0 events in 0 batches)
    >>> dict(status.rows())["events/s"]
    'unknown (no batch yet)'
    """

    state: RunState
    at_ms: int
    why: str | None = None
    batches: tuple[BatchTimes, ...] = ()
    num_batches: int = 0
    events: int = 0
    findings: int = 0
    late: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    newest_event_ms: int | None = None
    waiting_files: int | None = None
    waiting_bytes: int | None = None
    state_bytes: int | None = None
    restarts: int = 0
    last_restart: Restarted | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def newest(self) -> BatchTimes | None:
        """The newest micro-batch."""
        return self.batches[-1] if self.batches else None

    @property
    def lag_ms(self) -> int | None:
        """How far event time is behind the clock at least; 0 if the newest window is not over."""
        if self.newest_event_ms is None:
            return None
        return max(self.at_ms - self.newest_event_ms, 0)

    @property
    def arriving_per_second(self) -> float | None:
        """Events/s that came in during the last minute; ``None`` where it does not count."""
        if self.state not in {RunState.COUNTING, RunState.ELSEWHERE}:
            return None
        since_ms = self.at_ms - _RECENT_MS
        recent = sum(each.events for each in self.batches if each.clock_ms >= since_ms)
        return recent / (_RECENT_MS / _SECOND_MS)

    def rows(self) -> list[tuple[str, str]]:
        """Return (what, figure) for people, in the order to be read."""
        newest = self.newest
        return [
            ("state", self._state()),
            *self._restarts(),
            ("events", f"{format_count(self.events)} in {self._batches()}"),
            ("events/s", self._rate()),
            ("last batch", "none yet" if newest is None else _parts_text(newest)),
            ("lag", self._lag()),
            ("waiting", self._waiting()),
            ("late", _by_name(self.late)),
            (
                "dead letters",
                _by_name({REASONS.get(k, k): n for k, n in self.dead_letters.items()}),
            ),
            ("findings reported", format_count(self.findings)),
            ("state rows", self._held("state_rows", format_count)),
            ("state memory", self._held("memory_bytes", format_bytes)),
            ("state on disk", self._bytes_or_why(self.state_bytes, "state_bytes")),
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row for each of the newest micro-batches; parts of its time in seconds."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        columns = ("number", "seconds", "events", "events_per_second", "state_rows", "memory_bytes")
        rows = [
            {
                "clock": pd.Timestamp(each.clock_ms, unit="ms", tz="UTC"),
                **{name: getattr(each, name) for name in columns},
                **{f"{name}_seconds": part for name, part in each.parts_seconds.items()},
            }
            for each in self.batches
        ]
        return pd.DataFrame(rows, columns=None if rows else ["clock", *columns])

    def __repr__(self) -> str:
        return f"RunStatus({self.state}, {format_count(self.events)} events in {self._batches()})"

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><th scope='row' style='text-align:left'>{escape(what)}</th>"
            f"<td style='text-align:left'>{escape(figure)}</td></tr>"
            for what, figure in self.rows()
        )
        return f"<table><caption>{escape(repr(self)[10:-1])}</caption>{body}</table>"

    def _state(self) -> str:
        return self.state if self.why is None else f"{self.state}: {self.why}"

    def _restarts(self) -> list[tuple[str, str]]:
        """Return how often it was started again, where it was."""
        last = self.last_restart
        if last is None:
            return []
        ago = _length(max(self.at_ms - last.at_ms, 0))
        return [("restarts", f"{format_count(self.restarts)}, the last {ago} ago: {last.reason}")]

    def _batches(self) -> str:
        return f"{format_count(self.num_batches)} batch{'' if self.num_batches == 1 else 'es'}"

    def _rate(self) -> str:
        busy = [each for each in self.batches if each.events and each.seconds]
        if not busy:
            return f"unknown ({'no event' if self.batches else 'no batch'} yet)"
        told = f"{format_count(busy[-1].events_per_second)} in the last batch with events"
        arriving = self.arriving_per_second
        return (
            told
            if arriving is None
            else f"{told}; {arriving:,.1f} a second came in during the last minute"
        )

    def _lag(self) -> str:
        if self.newest_event_ms is None or self.lag_ms is None:
            return f"unknown ({self.unknown.get('newest_event_ms', 'no counts yet')})"
        reached = moment_of(self.newest_event_ms)
        if not self.lag_ms:
            return f"none: event time reaches {reached:%Y-%m-%d %H:%M:%S} UTC"
        return f"{_length(self.lag_ms)}: event time reaches {reached:%Y-%m-%d %H:%M:%S} UTC"

    def _waiting(self) -> str:
        if self.waiting_files is None:
            return self._or_why(None, "waiting_files")
        files = f"{format_count(self.waiting_files)} file{'' if self.waiting_files == 1 else 's'}"
        return f"{files}, {format_bytes(self.waiting_bytes)}"

    def _held(self, name: str, printed: Callable[[float], str]) -> str:
        """Return a figure of the state after the newest batch of which it is known."""
        known = [each for each in self.batches if getattr(each, name) is not None]
        if not known:
            return self._or_why(None, "state_rows")
        figure = printed(getattr(known[-1], name))
        return figure if known[-1] is self.newest else f"{figure} after batch {known[-1].number}"

    def _or_why(self, value: int | None, name: str) -> str:
        why = self.unknown.get(name, "not told")
        return f"unknown ({why})" if value is None else format_count(value)

    def _bytes_or_why(self, value: int | None, name: str) -> str:
        return self._or_why(None, name) if value is None else format_bytes(value)


def _parts_text(batch: BatchTimes) -> str:
    told = ", ".join(f"{name} {part:,.2f}" for name, part in batch.parts_seconds.items())
    whole = f"{batch.seconds:,.2f} s, {format_count(batch.events)} events"
    return f"{whole} ({told})" if told else f"{whole} (in parts: unknown, only its process knows)"


def _by_name(counts: dict[str, int]) -> str:
    told = [f"{name} {format_count(number)}" for name, number in counts.items() if number]
    return ", ".join(told) or "none"


def _length(milliseconds: int) -> str:
    for name, length in _LENGTHS:
        if milliseconds >= 2 * length:
            return f"{milliseconds / length:,.0f} {name}s"
    return f"{milliseconds / _SECOND_MS:,.1f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimes:
    """One micro-batch: when, how long, and how much.

    Parameters
    ----------
    number
        Its number.
    clock_ms
        Its clock, epoch ms UTC.
    seconds
        How long it took: all of it if the query tells, else what the sink took.
    events
        Events that came in.
    parts_seconds
        What of it went where; empty where only the query could tell.
    state_rows, memory_bytes
        What Spark reported of the state after it: rows, and RocksDB's native memory.
    """

    number: int
    clock_ms: int
    seconds: float
    events: int
    parts_seconds: dict[str, float] = field(default_factory=dict)
    state_rows: int | None = None
    memory_bytes: int | None = None

    @property
    def events_per_second(self) -> float | None:
        """Events by how long it took."""
        return self.events / self.seconds if self.seconds else None


class WaitingFiles:
    """Reads what is new in a run's list of files each time.

    Parameters
    ----------
    folder
        The run's.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> WaitingFiles(RunFolder(Path("no/run"))).look()
    (None, None)
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._ledger_bytes = 0
        self._sizes: list[int] = []

    def look(self) -> tuple[int | None, int | None]:
        """Return how many files wait, and their bytes; ``None`` if the run reads no files."""
        settings = self._folder.settings()
        if settings is None or settings.feed not in {"files", "lines"}:
            return None, None
        self._read_ledger()
        batch = newest_commit(self._folder.checkpoint)
        taken = 0 if batch is None else files_taken(self._folder.checkpoint, batch) or 0
        taken = min(taken, len(self._sizes))
        return len(self._sizes) - taken, sum(islice(self._sizes, taken, None))

    def _read_ledger(self) -> None:
        path = self._folder.ledger
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._ledger_bytes)
            whole, end, _ = file.read().rpartition(b"\n")
        self._ledger_bytes += len(whole) + len(end)
        self._sizes += [json.loads(line)["size_bytes"] for line in whole.split(b"\n") if line]


class FindingTally:
    """Counts a run's findings by rule, look after look, reading just what is new.

    Parameters
    ----------
    folder
        The run's.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> FindingTally(RunFolder(Path("no/run"))).look()
    {}
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._known: set[tuple[int, int]] = set()
        self._found: Counter[str] = Counter()

    def look(self) -> dict[str, int]:
        """Return how often each rule's findings were reported by now, 0 of a rule without any.

        A finding whose count grows is reported again, and counts again.
        """
        if not self._folder.is_there():  # what comes into its place is another run
            self._known.clear()
            self._found.clear()
        for batch in BatchFolders(self._folder.path / "findings").marked():
            key = (batch.epoch, batch.number)
            if key in self._known:
                continue
            try:
                found = _by_rule(batch.files(".parquet"))
            except FileNotFoundError:  # Spark repeats it just now
                continue
            self._known.add(key)
            self._found.update(found)
        settings = self._folder.settings()
        rules = () if settings is None else rules_from_json(settings.rules)
        names = [rule.name for rule in rules if not isinstance(rule, Exempt)]
        return dict.fromkeys(names, 0) | dict(self._found)


def with_all_reasons(dead_letters: dict[str, int]) -> dict[str, int]:
    """Return dead letters by reason, 0 of a reason without any.

    Examples
    --------
    >>> with_all_reasons({"no_user": 2})["no_time"]
    0
    """
    return dict.fromkeys(REASONS, 0) | dead_letters


def _by_rule(paths: Sequence[Path]) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in paths:
        rules = pq.read_table(path, columns=["rule"], partitioning=None)["rule"]
        for each in rules.combine_chunks().value_counts().to_pylist():
            found[each["values"]] += each["counts"]
    return found


NOT_KEPT = "Spark's figure was not kept"
"""Why a batch's is unknown: its process ended before it was told, or kept none of them yet."""

_NAME = "part-state.json"


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
        hidden = folder / f".{os.getpid()}-{_NAME}"
        hidden.write_text(json.dumps(asdict(self)), encoding="utf-8")
        hidden.replace(folder / _NAME)

    @classmethod
    def load(cls, folder: Path) -> StateSize | None:
        """Read what :meth:`save` wrote; None if it did not, or not all of it reached the disk."""
        try:
            return cls(**json.loads((folder / _NAME).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None


@dataclass(slots=True)
class StateSizes:
    """Keeps what a query tells of its state in the folder of its run.

    Parameters
    ----------
    out, epoch
        The run's folder, and the number that its batches are filed under.
    query
        Who tells; None before it has been started.
    """

    out: Path
    epoch: int
    query: StreamingQuery | None = None

    def keep(self) -> None:
        """Keep what was told last; nothing if nothing was, or if its batch has no folder."""
        try:
            last = None if self.query is None else self.query.lastProgress
        except JAVA_IS_GONE:
            return
        if last is None:
            return
        folder = BatchFolders(self.out / "statistics").folder(self.epoch, last["batchId"])
        with suppress(OSError):  # a figure that can't be kept is unknown: counting goes on
            StateSize.of(last).save(folder)

    def kept_before(
        self, on_batch: Callable[[BatchStatistics], None]
    ) -> Callable[[BatchStatistics], None]:
        """Return a function that keeps what was told, then calls ``on_batch``."""

        def batch(done: BatchStatistics) -> None:
            self.keep()
            on_batch(done)

        return batch


def told_sizes(query: StreamingQuery | None) -> dict[int, StateSize]:
    """Return what a query of this process still knows, by the number of the batch."""
    try:
        return (
            {} if query is None else {p["batchId"]: StateSize.of(p) for p in query.recentProgress}
        )
    except JAVA_IS_GONE:
        return {}


_VERSION = re.compile(r"(\d+)(?:_[\w-]+)?\.(changelog|delta|snapshot|zip)")
_SHOWN = 20


@dataclass(frozen=True, slots=True, repr=False)
class Batches(Viewed, Sequence[BatchStatistics]):
    """A run's micro-batches, the oldest first; made by :meth:`kstoolkit.Run.batches`.

    Parameters
    ----------
    told
        What each came to.
    state_bytes
        What each wrote into the checkpoint's state as changelogs, deltas and snapshots, without
        the SST files that snapshots share; ``None`` where Spark has removed that since.
    state
        What the state stores held after each, by Spark's figures; ``None`` where they were not
        kept.

    Examples
    --------
    >>> told = (BatchStatistics(0, 0, 2.0, events=500),)
    >>> batches = Batches(told, (1024,), (StateSize(rows=448, memory_bytes=2048),))
    >>> batches
    Batches(1 batch, 500 events in 2.0 s)
    >>> batches.to_pandas()["events_per_second"].tolist()
    [250.0]
    """

    told: tuple[BatchStatistics, ...]
    state_bytes: tuple[int | None, ...]
    state: tuple[StateSize | None, ...]

    def __len__(self) -> int:
        return len(self.told)

    @overload
    def __getitem__(self, index: int) -> BatchStatistics: ...
    @overload
    def __getitem__(self, index: slice) -> Batches: ...
    def __getitem__(self, index: int | slice) -> BatchStatistics | Batches:
        if isinstance(index, slice):
            return Batches(self.told[index], self.state_bytes[index], self.state[index])
        return self.told[index]

    def __iter__(self) -> Iterator[BatchStatistics]:
        return iter(self.told)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a batch; of what is told by window or by reason, the sums."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        rows = [
            {
                "batch": each.batch,
                "clock": pd.Timestamp(each.batch_ms, unit="ms", tz="UTC"),
                "seconds": each.seconds,
                "events": each.events,
                "events_per_second": each.events / each.seconds if each.seconds else None,
                "counters_in": each.counters_in,
                "late": sum(each.late.values()),
                "dead_letters": sum(each.dead_letters.values()),
                "backlog": sum(each.backlog.values()),
                "changelog_records": each.changelog_records,
                "changelog_bytes": each.changelog_bytes,
                "findings": each.findings,
                "state_bytes": written,
                "state_rows": None if held is None else held.rows,
                "state_memory_bytes": None if held is None else held.memory_bytes,
            }
            for each, written, held in self._each()
        ]
        columns = list(rows[0]) if rows else ["batch", "seconds", "events", *_OF_STATE]
        return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(_OF_STATE, "Int64"))

    def __repr__(self) -> str:
        return f"Batches({self._facts()})"

    def _repr_html_(self) -> str:
        head = "".join(f"<th scope='col'>{name}</th>" for name in _COLUMNS)
        last = list(self._each())[-_SHOWN:]
        body = "".join(f"<tr>{_html_cells(*each)}</tr>" for each in last)
        note = f"; the last {len(last)} are shown" if len(last) < len(self) else ""
        return (
            f"<table><caption>{self._facts()}{note}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def _each(self) -> Iterator[tuple[BatchStatistics, int | None, StateSize | None]]:
        return zip(self.told, self.state_bytes, self.state, strict=True)

    def _facts(self) -> str:
        plural = "" if len(self) == 1 else "es"
        events = format_count(sum(each.events for each in self.told))
        seconds = sum(each.seconds for each in self.told)
        return f"{format_count(len(self))} batch{plural}, {events} events in {seconds:,.1f} s"


_COLUMNS = (
    "batch",
    "seconds",
    "events",
    "events/s",
    "findings",
    "state written",
    "state rows",
    "state memory",
)
_OF_STATE = ("state_bytes", "state_rows", "state_memory_bytes")


def _html_cells(each: BatchStatistics, written: int | None, held: StateSize | None) -> str:
    rate = format_count(each.events / each.seconds) if each.seconds else "unknown"
    state = (
        "unknown (removed since)" if written is None else format_bytes(written),
        "unknown (not kept)" if held is None else format_count(held.rows),
        "unknown (not kept)" if held is None else format_bytes(held.memory_bytes),
    )
    told = (str(each.batch), f"{each.seconds:,.2f}", format_count(each.events), rate)
    return "".join(f"<td>{text}</td>" for text in (*told, format_count(each.findings), *state))


def batches_of(folder: RunFolder, sizes: Mapping[int, StateSize]) -> Batches:
    """Return a run's batches, read from its folder.

    Parameters
    ----------
    folder
        The run's.
    sizes
        What a query of this process tells of its batches' state beside, which need not be kept yet.
    """
    marked = BatchFolders(folder.path / "statistics").marked()
    told = tuple(BatchStatistics.load(batch.folder) for batch in marked)
    newest = marked[-1].epoch if marked else 0
    written = _written_bytes(folder.checkpoint / "state")
    # The checkpoint is of the newest epoch; a batch writes the version after its own number.
    state = (written.get(each.number + 1) if each.epoch == newest else None for each in marked)
    held = tuple(
        (sizes.get(each.number) if each.epoch == newest else None) or StateSize.load(each.folder)
        for each in marked
    )
    return Batches(told, tuple(state), held)


def _written_bytes(state: Path) -> Counter[int]:
    """Return what the files of each version of the state take; files that vanish are left out."""
    written: Counter[int] = Counter()
    for path in state.rglob("*") if state.is_dir() else ():
        version = _VERSION.fullmatch(path.name)
        try:
            if version is not None:
                written[int(version[1])] += path.stat().st_size
        except FileNotFoundError:
            continue
    return written


def size_bytes(folder: Path) -> int | None:
    """Return what the files of a folder take; files that vanish meanwhile are left out."""
    if not folder.is_dir():
        return None
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


_MOST_BATCHES = 300
"""Of which a status tells each by itself."""

_PARTS = {
    "counting": ("addBatch",),
    "input": ("latestOffset", "getBatch"),
    "planning": ("queryPlanning",),
    "logs": ("walCommit", "commitOffsets", "commitBatch"),
}
"""What a batch's time goes into, by Spark's names; the rest is ``other``."""

_FIRST_CHANGES = 50
_NOT_TOLD = "not kept: only the process that counts knows it so soon"
_NO_FILES = "a DataFrame's source does not say"
_NO_BATCH = "no batch has ended yet"


class RunWatch:
    """Looks at a run again and again.

    Parameters
    ----------
    run
        The run: a live one's own, or one that any process counts.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.run import Run
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> RunWatch(Run(RunFolder(Path("no/run")))).look()
    RunStatus(not counting at present, 0 events in 0 batches)
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._was_there = run.folder.is_there()
        self._begin()

    def _begin(self) -> None:
        """Know nothing yet."""
        self._told: deque[BatchStatistics] = deque(maxlen=_MOST_BATCHES)
        self._folders: deque[Path] = deque(maxlen=_MOST_BATCHES)
        self._held: dict[Path, StateSize] = {}
        self._progress: dict[int, Mapping[str, Any]] = {}
        self._known: set[tuple[int, int]] = set()
        self._late: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._events = self._findings = 0
        self._changes: tuple[int, int] | None = None
        self._newest_event_ms: int | None = None
        self._waiting = WaitingFiles(self._run.folder)

    @property
    def progress(self) -> Mapping[int, Mapping[str, Any]]:
        """What the query told of the newest batches by the last look, by their numbers."""
        return self._progress

    def check(self) -> None:
        """Make sure that the run is still there, if it ever was: else all would look like nothing.

        Raises
        ------
        InputError
            If its folder was removed; what comes into its place is watched from its beginning.
        """
        if self._run.folder.is_there():
            self._was_there = True
        elif self._was_there:
            self._begin()
            self._run.folder.check()

    def look(self) -> RunStatus:
        """Return the run as it stands.

        Raises
        ------
        InputError
            If it was there once, and is not any more.
        """
        self.check()
        state, why = self._state()
        self._read_statistics()
        self._read_progress()
        self._read_changes()
        files, size = self._waiting.look()
        restarts = RestartLog(self._run.folder.restarts).read()
        return RunStatus(
            state=state,
            why=why,
            at_ms=time.time_ns() // 1_000_000,
            batches=tuple(map(self._batch, self._told, self._folders)),
            num_batches=len(self._known),
            events=self._events,
            findings=self._findings,
            late=dict(self._late),
            dead_letters=dict(self._dead),
            newest_event_ms=self._newest_event_ms,
            waiting_files=files,
            waiting_bytes=size,
            state_bytes=size_bytes(self._run.folder.checkpoint / "state"),
            restarts=len(restarts),
            last_restart=restarts[-1] if restarts else None,
            unknown={
                "state_rows": _NOT_TOLD if self._run.query is None else _NO_BATCH,
                "waiting_files": _NO_FILES,
                "state_bytes": _NO_BATCH,
                "newest_event_ms": "no counts yet",
            },
        )

    def _state(self) -> tuple[RunState, str | None]:
        if self._run.query is None:
            held = self._run.folder.is_held()
            return (RunState.ELSEWHERE if held else RunState.RESTING), None
        if self._run.is_active:
            return RunState.COUNTING, None
        try:
            ended_well = self._run.query.exception() is None
        except JAVA_IS_GONE:
            ended_well = False
        if ended_well:
            return RunState.STOPPED, None
        return RunState.FAILED, self._run.failure().message

    def _read_statistics(self) -> None:
        for batch in BatchFolders(self._run.folder.path / "statistics").marked():
            key = (batch.epoch, batch.number)
            if key in self._known:
                continue
            try:
                told = BatchStatistics.load(batch.folder)
            except FileNotFoundError:  # Spark repeats it just now
                continue
            self._known.add(key)
            self._told.append(told)
            self._folders.append(batch.folder)
            self._events += told.events
            self._findings += told.findings
            self._late.update(told.late)
            self._dead.update(told.dead_letters)

    def _read_progress(self) -> None:
        """Take in what the query tells of its batches, all that it still knows if some are new."""
        query = self._run.query
        if query is None:
            return
        try:
            last = query.lastProgress
            if last is None or last["batchId"] in self._progress:
                return
            is_next = last["batchId"] - 1 in self._progress
            for each in [last] if is_next else query.recentProgress:
                self._progress[each["batchId"]] = each
        except JAVA_IS_GONE:
            return
        oldest = self._told[0].batch if self._told else 0
        self._progress = {n: each for n, each in self._progress.items() if n >= oldest}

    def _read_changes(self) -> None:
        """Take in how far event time reaches, from the ends of the changelog's new files."""
        settings = self._run.folder.settings()
        if settings is None:
            return
        finest = min(settings.cascade.windows, key=lambda window: window.size_ms)
        batches = BatchFolders(self._run.folder.path / "changelog").marked()
        fresh = [b for b in batches if self._changes is None or (b.epoch, b.number) > self._changes]
        for batch in fresh[-_FIRST_CHANGES:]:
            self._changes = (batch.epoch, batch.number)
            for path in batch.files(".parquet"):
                try:
                    span = CountsFile.open(path).span_ms("window_start", finest.size_ms)
                except FileNotFoundError:  # folded just now
                    continue
                if span is not None:
                    reached = span[1] + finest.size_ms
                    self._newest_event_ms = max(self._newest_event_ms or reached, reached)

    def _batch(self, told: BatchStatistics, folder: Path) -> BatchTimes:
        is_of_query = folder.parent == self._folders[-1].parent  # not of an epoch before it
        progress = self._progress.get(told.batch) if is_of_query else None
        spent = {} if progress is None else progress["durationMs"]
        spent = {name: ms / 1000 for name, ms in spent.items()}
        held = self._kept(folder) if progress is None else StateSize.of(progress)
        return BatchTimes(
            number=told.batch,
            clock_ms=told.batch_ms,
            seconds=spent.get("triggerExecution", told.seconds),
            events=told.events,
            parts_seconds=_parts(spent) if spent else {},
            state_rows=None if held is None else held.rows,
            memory_bytes=None if held is None else held.memory_bytes,
        )

    def _kept(self, folder: Path) -> StateSize | None:
        """Return the state that a batch left, as its process kept it: that is after the next."""
        held = self._held.get(folder) or StateSize.load(folder)
        if held is not None:
            self._held[folder] = held
        return held


def _parts(spent: Mapping[str, float]) -> dict[str, float]:
    parts = {part: sum(spent.get(name, 0.0) for name in names) for part, names in _PARTS.items()}
    whole = spent.get("triggerExecution", sum(parts.values()))
    return parts | {"other": max(whole - sum(parts.values()), 0.0)}
