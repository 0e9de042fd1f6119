"""Watching a run: look after look, each reading just what is new; in this process or another's.

Nothing here writes, and a look disturbs nobody: the run's ledger and Spark's logs are read as they
are, half a line at the end included.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.changelog.countsfile import CountsFile
from kstoolkit.pipeline.batchhistory import size_bytes
from kstoolkit.pipeline.batchtimes import BatchTimes
from kstoolkit.pipeline.failure import JAVA_IS_GONE
from kstoolkit.pipeline.restarts import RestartLog
from kstoolkit.pipeline.runstatus import RunState, RunStatus
from kstoolkit.pipeline.statesizes import StateSize
from kstoolkit.pipeline.statistics import BatchStatistics
from kstoolkit.pipeline.waitingfiles import WaitingFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kstoolkit.pipeline.run import Run


MOST_BATCHES = 300
"""Of which a status tells each by itself."""

PARTS = {
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
        self._told: deque[BatchStatistics] = deque(maxlen=MOST_BATCHES)
        self._folders: deque[Path] = deque(maxlen=MOST_BATCHES)
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
    parts = {part: sum(spent.get(name, 0.0) for name in names) for part, names in PARTS.items()}
    whole = spent.get("triggerExecution", sum(parts.values()))
    return parts | {"other": max(whole - sum(parts.values()), 0.0)}
