"""How a run stands: how fast, how far behind, what waits, what its state takes.

Watched look after look, each reading what is new; in this process or another's. Nothing here writes
or disturbs: the run's ledger and Spark's logs are read as they are, half a last line included.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from kstoolkit.changelog.changelog import BatchFolders, asked, numbered_rows
from kstoolkit.changelog.countsfile import CountsFile
from kstoolkit.events.event import REASONS
from kstoolkit.findings.rulefiles import rules_from_json
from kstoolkit.findings.rules import windowed
from kstoolkit.moments import moment_of
from kstoolkit.pipeline.batches import STATISTICS_FOLDER, MicroBatch, StateSize, told_after
from kstoolkit.pipeline.failure import JAVA_IS_GONE, RestartLog
from kstoolkit.pipeline.runfolder import files_taken, newest_commit, size_bytes
from kstoolkit.records import Viewed, counted, facts_html
from kstoolkit.units import format_bytes, format_count, format_span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pandas as pd

    from kstoolkit.changelog.changelog import Batch
    from kstoolkit.pipeline.failure import Restarted
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import RunFolder

_RECENT_MS = 60_000
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
    batches: tuple[MicroBatch, ...] = ()
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
    def newest(self) -> MicroBatch | None:
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
        recent = sum(each.events for each in self.batches if each.batch_ms >= since_ms)
        return recent / (_RECENT_MS / _SECOND_MS)

    def rows(self) -> list[tuple[str, str]]:
        """Return (what, figure) for people, in the order to be read."""
        newest, size = self.newest, self.state_bytes
        dead = {REASONS.get(name, name): n for name, n in self.dead_letters.items()}
        return [
            ("state", self.state if self.why is None else f"{self.state}: {self.why}"),
            *self._restarts(),
            ("events", f"{format_count(self.events)} in {self._batches()}"),
            ("events/s", self._rate()),
            ("last batch", "none yet" if newest is None else _parts_text(newest)),
            ("lag", self._lag()),
            ("waiting", self._waiting()),
            ("backlog", f"unknown ({NO_BATCH})" if newest is None else _by_window(newest.backlog)),
            ("late", _by_window(self.late)),
            (
                "dead letters",
                ", ".join(f"{name} {format_count(n)}" for name, n in dead.items() if n) or "none",
            ),
            ("findings reported", format_count(self.findings)),
            ("state rows", self._held("state_rows", format_count)),
            ("state memory", self._held("memory_bytes", format_bytes)),
            ("state on disk", format_bytes(size) if size is not None else self._why("state_bytes")),
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row for each of the newest micro-batches; parts of its time in seconds."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        columns = ("seconds", "events", "events_per_second", "state_rows", "memory_bytes")
        rows = [
            {
                "clock": pd.Timestamp(each.batch_ms, unit="ms", tz="UTC"),
                "number": each.batch,
                **{name: getattr(each, name) for name in columns},
                **{f"{name}_seconds": part for name, part in each.parts_seconds.items()},
            }
            for each in self.batches
        ]
        return pd.DataFrame(rows, columns=None if rows else ["clock", "number", *columns])

    def __repr__(self) -> str:
        return f"RunStatus({self.state}, {format_count(self.events)} events in {self._batches()})"

    def _repr_html_(self) -> str:
        return facts_html(self.rows(), repr(self)[10:-1])

    def _restarts(self) -> list[tuple[str, str]]:
        last = self.last_restart
        if last is None:
            return []
        ago = format_span(max(self.at_ms - last.at_ms, 0) / _SECOND_MS)
        return [("restarts", f"{format_count(self.restarts)}, the last {ago} ago: {last.reason}")]

    def _batches(self) -> str:
        return counted(self.num_batches, "batches")

    def _rate(self) -> str:
        busy = [each for each in self.batches if each.events and each.seconds]
        if not busy:
            return f"unknown ({'no event' if self.batches else 'no batch'} yet)"
        rate = f"{format_count(busy[-1].events_per_second)} in the last batch with events"
        arriving = self.arriving_per_second
        if arriving is None:
            return rate
        return f"{rate}; {arriving:,.1f} a second came in during the last minute"

    def _lag(self) -> str:
        if self.newest_event_ms is None or self.lag_ms is None:
            return f"unknown ({self.unknown.get('newest_event_ms', 'no counts yet')})"
        reached = moment_of(self.newest_event_ms)
        lag = format_span(self.lag_ms / _SECOND_MS) if self.lag_ms else "none"
        return f"{lag}: event time reaches {reached:%Y-%m-%d %H:%M:%S} UTC"

    def _waiting(self) -> str:
        if self.waiting_files is None:
            return self._why("waiting_files")
        return f"{counted(self.waiting_files, 'files')}, {format_bytes(self.waiting_bytes)}"

    def _held(self, name: str, printed: Callable[[float], str]) -> str:
        """Return a figure of the state after the newest batch of which it is known."""
        known = [each for each in self.batches if getattr(each, name) is not None]
        if not known:
            return self._why("state_rows")
        figure = printed(getattr(known[-1], name))
        return figure if known[-1] is self.newest else f"{figure} after batch {known[-1].batch}"

    def _why(self, name: str) -> str:
        return f"unknown ({self.unknown.get(name, 'not told')})"


def _parts_text(batch: MicroBatch) -> str:
    told = ", ".join(f"{name} {part:,.2f} s" for name, part in batch.parts_seconds.items())
    whole = f"{batch.seconds:,.2f} s, {format_count(batch.events)} events"
    in_all = f"{sum(batch.parts_seconds.values()):,.2f} s by the clock of Spark ({told})"
    return f"{whole}; {in_all if told else 'by the clock of Spark unknown: only its process knows'}"


def _by_window(counts: dict[str, int]) -> str:
    told = [
        f"{format_count(number)} for windows of {window}"
        for window, number in counts.items()
        if number
    ]
    return ", ".join(told) or "none"


class _WaitingFiles:
    """Reads what is new in a run's list of files, look after look."""

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


class FindingCounts:
    """Counts a run's findings by rule, look after look, reading just what is new."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._begin()

    def _begin(self) -> None:
        self._last = (-1, -1)
        self._found: Counter[str] = Counter()

    def look(self) -> dict[str, int]:
        """Return how often each rule's findings were reported by now, 0 of a rule without any.

        A finding whose count grows is reported again, and counts again.
        """
        if not self._folder.is_there():  # what comes into its place is another run
            self._begin()
        marked = BatchFolders(self._folder.path / "findings").marked
        self._last, found = asked(marked, self._fresh)
        self._found.update(found)
        settings = self._folder.settings()
        rules = () if settings is None else rules_from_json(settings.rules)
        names = [rule.name for rule in windowed(rules)]
        return dict.fromkeys(names, 0) | dict(self._found)

    def _fresh(self, marked: list[Batch]) -> tuple[tuple[int, int], Counter[str]]:
        """Return which batch is the last, and how often each rule's were reported since a look."""
        found: Counter[str] = Counter()
        (epoch, number), last = self._last, self._last
        for batch in marked:
            last = (batch.epoch, batch.number)
            for rows in numbered_rows([batch], ["rule"]) if last > self._last else ():
                is_new = pc.greater(rows["batch"], number if batch.epoch == epoch else -1)
                for each in rows["rule"].filter(is_new).value_counts().to_pylist():
                    found[each["values"]] += each["counts"]
        return max(last, self._last), found


def with_all_reasons(dead_letters: dict[str, int]) -> dict[str, int]:
    """Return dead letters by reason, 0 of a reason without any."""
    return dict.fromkeys(REASONS, 0) | dead_letters


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
NO_BATCH = "no batch has ended yet"


class RunWatch:
    """Looks at a run again and again: a live one's own, or one that any process counts."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._was_there = run.folder.is_there()
        self._begin()

    def _begin(self) -> None:
        self._last, self._batches = (-1, -1), 0
        self._told: deque[tuple[Path, MicroBatch]] = deque(maxlen=_MOST_BATCHES)
        self._held: dict[Path, StateSize] = {}
        self._progress: dict[int, Mapping[str, Any]] = {}
        self._late: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._events = self._findings = 0
        self._changes: tuple[int, int] | None = None
        self._newest_event_ms: int | None = None
        self._waiting = _WaitingFiles(self._run.folder)

    @property
    def progress(self) -> Mapping[int, Mapping[str, Any]]:
        """What the query told of the newest batches by the last look, by their numbers."""
        return self._progress

    def check(self) -> None:
        """Make sure that the run is still there, if it ever was: else all would look like nothing.

        A folder that was removed is an InputError, once: what comes into its place is watched anew.
        """
        if self._run.folder.is_there():
            self._was_there = True
        elif self._was_there:
            self._begin()
            self._run.folder.check()

    def look(self) -> RunStatus:
        """Return the run as it stands; :meth:`check` comes first."""
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
            batches=tuple(self._batch(*each) for each in self._told),
            num_batches=self._batches,
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
                "state_rows": _NOT_TOLD if self._run.query is None else NO_BATCH,
                "waiting_files": "a DataFrame's source does not say",
                "state_bytes": "there is no state in its checkpoint",
                "newest_event_ms": "no counts yet",
            },
        )

    def _state(self) -> tuple[RunState, str | None]:
        if self._run.query is None:
            held = self._run.folder.is_held()
            return (RunState.ELSEWHERE if held else RunState.RESTING), None
        if self._run.is_active:
            return RunState.COUNTING, None
        failure = self._run.failure()
        return (RunState.STOPPED, None) if failure is None else (RunState.FAILED, failure.message)

    def _read_statistics(self) -> None:
        fresh = told_after(self._run.folder, *self._last)
        if not fresh:
            return
        folders = BatchFolders(self._run.folder.path / STATISTICS_FOLDER)
        newest = fresh[-_MOST_BATCHES:]
        epochs = newest.table["epoch"].to_pylist()
        for epoch, told in zip(epochs, newest, strict=True):
            self._told.append((folders.folder(epoch, told.batch), told))
        self._last = (epochs[-1], newest[-1].batch)
        self._batches += len(fresh)
        self._events += sum(fresh.table["events"].to_pylist())
        self._findings += sum(fresh.table["findings"].to_pylist())
        self._late.update(fresh.sums("late"))
        self._dead.update(fresh.sums("dead_letters"))

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
        oldest = self._told[0][1].batch if self._told else 0
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

    def _batch(self, folder: Path, told: MicroBatch) -> MicroBatch:
        """Return a batch with what its query tells of it, and the state that it left."""
        is_of_query = folder.parent == self._told[-1][0].parent  # not of an epoch before it
        progress = self._progress.get(told.batch) if is_of_query else None
        if progress is None:
            return replace(told, state=told.state or self._kept(folder))
        spent = {name: ms / 1000 for name, ms in progress["durationMs"].items()}
        return replace(
            told, parts_seconds=_parts(spent) if spent else {}, state=StateSize.of(progress)
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
