"""A query that outlives what ends it, and looks like one query all the while.

::

    begin ──▶ it counts ──▶ it died ──▶ Retries: wait for Kafka, or after what else ends it
                 ▲                          │ as often as was said; or raise why that won't help
                 └── made ready anew ◀──────┘

A broker that goes away is waited for, as long as its topic says. Whatever else ends a query is left
to whoever started it, unless they said how often it may be started again.

A bounded run on a topic ends at the offsets that were there as it began. Spark plans up to where
the topic ends as a query starts, which is later: Java has to start first, and after an outage the
query starts anew. A batch that is planned too far is cut in Spark's offset log before any of it is
counted, and the query started again takes it as it is written there.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread, get_ident
from typing import TYPE_CHECKING, Any, Protocol, Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from kstoolkit.errors import (
    KafkaError,
    KstoolkitError,
    OnBatchFailed,
    RestartsSpent,
    RunFailed,
    UnreadableFile,
    UserError,
)
from kstoolkit.pipeline.batches import newest_batch
from kstoolkit.pipeline.failure import (
    JAVA_IS_GONE,
    RestartLog,
    cause_in_words,
    is_kafkas,
    java_ended,
    run_failed,
)
from kstoolkit.pipeline.rulebook import JudgedAnew
from kstoolkit.pipeline.runfolder import (
    initial_offsets,
    newest_commit,
    newest_plan,
    offsets_reached,
    rewrite_offsets,
    take_back,
)
from kstoolkit.pipeline.sink import NotSent
from kstoolkit.pipeline.sparkinside import java_has_ended
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from kstoolkit.kafka.cluster import Log, Sleep
    from kstoolkit.pipeline.failure import Restart
    from kstoolkit.pipeline.runfolder import RunFolder

    class Start(Protocol):
        """Starts a query whose batches pass a gate; one that flushes ends after its batch."""

        def __call__(self, gate: Gate, *, flush: bool = False) -> StreamingQuery:
            """Start it."""

    Step = Callable[[DataFrame, int], None]
    Ready = Callable[[Log, Sleep], Start]

PATIENCE_MS = 600_000
"""How long a broker is waited for where no topic says it."""

_POISONOUS = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_LAST_BREATH_SECONDS = 0.5


class AtItsEnd(KstoolkitError):  # noqa: N818 - it is none: it ends a query
    """What a query ends with that has nothing left to count before the run's end."""


class PlannedAnew(KstoolkitError):  # noqa: N818 - it is none: it ends a query
    """What a query ends with whose batch was cut: started again, it counts what is left of it."""


class ClockWentBack(KstoolkitError):  # noqa: N818 - it is none: it ends a query
    """What a query ends with that waits for a time which was near by a clock that was ahead."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The offsets at which a run ends.

    ``first_batch`` is counted even if nothing is left of it, for what an earlier run held back.

    >>> from pathlib import Path
    >>> ending = Ending("actions", {0: 50, 1: 40}, Path("checkpoint"), first_batch=7)
    >>> ending.cut({0: 30, 1: 40}, planned={0: 60, 1: 45, 2: 5})
    {0: 50, 1: 40}
    """

    topic: str
    offsets: Mapping[int, int]
    checkpoint: Path
    first_batch: int

    def check(self, batch: int) -> None:
        """Raise if a batch reaches past the end, after it was planned anew or taken back."""
        planned = offsets_reached(self.checkpoint, batch, self.topic) or {}
        begun = self._begun(batch)
        wanted = self.cut(begun, planned)
        if wanted == planned:
            return
        if wanted == begun and batch > self.first_batch:
            take_back(self.checkpoint, batch)
            message = f"The run ends before batch {batch}."
            raise AtItsEnd(message)
        rewrite_offsets(self.checkpoint, batch, self.topic, wanted)
        message = f"Batch {batch} was planned past {json.dumps(dict(self.offsets))}."
        raise PlannedAnew(message)

    def cut(self, begun: Mapping[int, int], planned: Mapping[int, int]) -> dict[int, int]:
        """Return where a batch ends that is planned from some offsets to others."""
        ends = {
            each: min(at, self.offsets.get(each, begun.get(each, 0)))
            for each, at in planned.items()
            if each in self.offsets or each in begun  # a partition that is new is the next run's
        }
        return {each: max(at, begun.get(each, 0)) for each, at in ends.items()}

    def _begun(self, batch: int) -> dict[int, int]:
        before = offsets_reached(self.checkpoint, batch - 1, self.topic) if batch else None
        return before or initial_offsets(self.checkpoint, self.topic)


_DEATHS = (PySparkException, RunFailed, UnreadableFile, ClockWentBack, *JAVA_IS_GONE)
"""What a query, or its start, can end with and still be worth another try."""

_LOOK_SECONDS, _GLANCE_SECONDS, _STEP_SECONDS = 0.1, 0.02, 5.0


def _clock_ahead() -> float:
    """Return by how much the system's clock is ahead of one that nobody sets."""
    return time.time() - time.monotonic()


class _Closed(Exception):  # noqa: N818 - it is none: it ends a query between two batches
    """The run is to end: no further batch begins."""


class _NoTraceback(logging.Filter):
    """Keeps py4j from logging with a traceback what is told in other ways."""

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[1] if record.exc_info else None
        return not isinstance(raised, (_Closed, KstoolkitError))


_NO_TRACEBACK = _NoTraceback()


class Gate:
    """What each micro-batch passes before it is counted.

    It lets none through once the run is to end, or one is counted where that is all, and keeps what
    went wrong as it was raised: Spark makes a text of it. ``threads`` has those that count.
    """

    def __init__(self, threads: set[int], *, once: bool = False) -> None:
        self._threads = threads
        self.closing = Event()
        self.turned_away = Event()
        self.passed: int | None = None
        self.counted = Event()
        self._once = once
        self._raised: KstoolkitError | None = None
        logging.getLogger("py4j.clientserver").addFilter(_NO_TRACEBACK)

    def before(self, count: Step, check: Callable[[int], None]) -> Step:
        """Return the function for ``foreachBatch``: checks, then counts."""

        def step(frame: DataFrame, batch: int) -> None:
            if self.closing.is_set():
                self.turned_away.set()
                raise _Closed
            self.passed = batch
            if self._once:
                self.closing.set()
            self._threads.add(get_ident())
            try:
                check(batch)
                count(frame, batch)
                self.counted.set()
            except KstoolkitError as error:
                self._raised = error
                raise
            finally:
                self._threads.discard(get_ident())

        return step

    def cause(self, death: Exception) -> Exception:
        """Return what a query really ended with, once."""
        raised, self._raised = self._raised, None
        return death if raised is None else raised


class SupervisedQuery(StreamingQuery):
    """A streaming query that is replaced underneath when it dies.

    ``start`` starts it, each batch to pass the gate; ``ready`` makes it ready anew, Spark included,
    and returns what starts it then. ``at_rest`` is called when there is nothing to count any more.
    """

    def __init__(self, start: Start, ready: Ready, retries: Retries, tell: Log) -> None:
        self._start, self._ready, self._retries, self._tell = start, ready, retries, tell
        self._counting: set[int] = set()
        self._gate = Gate(self._counting)
        self._begun, self._ended = Event(), Event()
        self._starting, self._stopping = Lock(), Lock()
        self._leading: Thread | None = None
        self._failure: KstoolkitError | None = None
        self.at_rest: Callable[[], None] = lambda: None
        self.look: Callable[[], object] = lambda: None  # what else is to be said, as it comes

    def begin(self) -> Self:
        """Start the query, unless the run is to end already."""
        with self._starting:
            if not self._gate.closing.is_set():
                vars(self).update(vars(self._start(self._gate)))  # all that Spark's query is
                self._begun.set()
        return self

    def lead(self) -> None:
        """Bring the query to its end, starting it again as often as that helps."""
        death: Exception | None = None
        try:
            while not self._gate.closing.is_set():
                if death is not None:
                    self._retries.wait(death, self._gate.closing)
                death = self._live(again=death is not None)
                if death is None:
                    return
        except _Closed:
            return
        finally:
            self._ended.set()

    def lead_beside(self) -> Self:
        """Do so in a thread of its own, and return the query."""
        self._leading = Thread(target=self._lead, name="kstoolkit-supervisor", daemon=True)
        self._leading.start()
        return self

    def say(self, line: str) -> None:
        """Say what is waited for, while anybody waits."""
        self.check_wanted()
        self._tell(line)

    @property
    def status(self) -> dict[str, Any]:
        """What it does just now, as Spark tells it; one that is dead is being started again."""
        with suppress(*JAVA_IS_GONE):
            if super().isActive:
                return super().status
        return {"message": "Is down", "isDataAvailable": False, "isTriggerActive": True}

    def sleep(self, seconds: float) -> None:
        """Wait for so long, unless the run is to end."""
        self._gate.closing.wait(seconds)
        self.check_wanted()

    def check_wanted(self) -> None:
        """Break off what goes on for the query's sake once the run is to end."""
        if self._gate.closing.is_set():
            raise _Closed

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it counts, or is being started again."""
        return not self._ended.is_set()

    def exception(self) -> KstoolkitError | None:  # type: ignore[override] # ours say what to do
        """Return what it ended with for good."""
        return self._failure

    def ends_from_within(self) -> bool:
        """Have the batch at hand be the last if it is its own function that asks; else say no."""
        from_within = get_ident() in self._counting
        if from_within:
            self._gate.closing.set()
        return from_within

    def stop(self) -> None:
        """End it after the batch at hand; an interruption ends it at once.

        Who asks for it a second time waits for the first.
        """
        self._gate.closing.set()
        with self._stopping:
            self._end()

    def _end(self) -> None:
        try:
            with suppress(*JAVA_IS_GONE):
                while self._counts():
                    time.sleep(_GLANCE_SECONDS)
        finally:
            with self._starting, suppress(*JAVA_IS_GONE):
                super().stop()
            leading, self._leading = self._leading, None
            if leading is not None:
                leading.join()
        if leading is not None and self._failure is None:
            self._flush()

    def _flush(self) -> None:
        """Flush what is held back, in a batch that takes nothing in; else the next run does."""
        gate = Gate(self._counting, once=True)
        try:
            if not self._may_flush():
                return
            query = self._start(gate, flush=True)
            try:
                while query.isActive:
                    time.sleep(_GLANCE_SECONDS)
                query.awaitTermination()  # raises what it ended with
            finally:
                query.stop()
        except (*_DEATHS, KstoolkitError, OSError) as death:
            if not gate.turned_away.is_set():
                why = cause_in_words(gate.cause(death))
                self._tell(f"What waits could not be flushed ({why}); the next run does it.")

    def _may_flush(self) -> bool:
        """Whether something waits, and no batch is left that was begun: it has to be counted first.

        One that was only planned, after one that was counted here, is planned anew by the next run.
        """
        folder = self._retries.folder
        if not folder.is_there():
            self._tell(folder.holds_no_run().message)
            return False
        newest = newest_batch(folder)
        if newest is None or not newest.as_of_ms:
            return False
        planned = newest_plan(folder.checkpoint)  # where there is none, the log lies elsewhere
        if planned is not None and planned == newest_commit(folder.checkpoint):
            return True
        if planned is None or self._gate.passed is None or planned != self._gate.passed + 1:
            return False
        take_back(folder.checkpoint, planned)
        return True

    def _lead(self) -> None:
        try:
            self.lead()
        except KstoolkitError as error:
            self._failure = error

    def _live(self, *, again: bool) -> Exception | None:
        """Have the query run to its end, and return what it died of."""
        try:
            if again:
                self._start = self._ready(self.say, self.sleep)
            if again or not self._begun.is_set():
                self.begin()
            self._wait()
        except _DEATHS as error:
            cause = self._gate.cause(error)
            return None if isinstance(cause, AtItsEnd) else cause
        return None

    def _wait(self) -> None:
        """Wait for the query's end: not in Java, where Ctrl-C could cancel no job meanwhile."""
        ahead = _clock_ahead()
        try:
            while super().isActive:
                if self._gate.closing.wait(_LOOK_SECONDS):
                    return
                ahead = self._check_clock(ahead)
                if self._gate.counted.is_set() and not self.status["isTriggerActive"]:
                    self._gate.counted.clear()
                    self.at_rest()
                self.look()
            super().awaitTermination()  # raises what it ended with
        except BaseException:
            with suppress(*JAVA_IS_GONE):
                super().stop()
            raise
        finally:
            self.look()

    def _check_clock(self, ahead: float) -> float:
        """Raise if the clock went back while nothing is counted; else return how far it was ahead.

        Spark would wait for its next trigger until the time that the clock had shown before.
        """
        now = _clock_ahead()
        if now < ahead - _STEP_SECONDS and not self.status["isTriggerActive"]:
            message = f"The clock went back by {ahead - now:,.0f} s."
            raise ClockWentBack(message)
        return max(ahead, now)

    def _counts(self) -> bool:
        """Whether a batch is at hand, or its offsets are asked for.

        Whoever breaks that off while no broker answers waits for Kafka's client for ever.
        """
        if not super().isActive or self._gate.turned_away.is_set():
            return False
        return bool(super().status["isTriggerActive"])


@dataclass(slots=True)
class Retries:
    """Decides about one run's deaths.

    Kafka may stay away for ``patience_ms`` where it is read; a topic that is written says so
    itself. Of a batch that died thrice, ``set_aside`` sets the records aside that it dies of, and
    says which. A file that ``is_gone`` knows to be is left out when the query is started again.
    Without ``restart`` all else that ends it ends the run.
    """

    folder: RunFolder
    patience_ms: int
    tell: Log
    restart: Restart | None = None
    set_aside: Callable[[], str | None] = lambda: None
    is_gone: Callable[[str], bool] = lambda _: False
    _outage: _Outage | None = field(default=None, init=False)
    _deaths: tuple[int | None, int] = field(default=(None, 0), init=False)  # after which batch

    def wait(self, death: Exception, closing: Event) -> None:
        """Return when the query may be started again, or is to end; else raise what it died of."""
        if isinstance(death, PlannedAnew | ClockWentBack | JudgedAnew):
            return
        death = self._understood(death)
        if isinstance(death, UserError):
            raise death
        if isinstance(death, UnreadableFile) and self.is_gone(death.path):
            self.tell(f"{death.path!r} is gone: the run goes on without it.")
            return
        if is_kafkas(death) and not isinstance(death, OnBatchFailed):
            self._wait_for_kafka(death, closing)
            return
        if isinstance(death, KstoolkitError):
            failed = death
        elif isinstance(death, (Py4JJavaError, PySparkException)):
            failed = run_failed(death, self.folder)
        else:
            failed = java_ended(self.folder)
        if self.restart is None and failed is death:
            raise death  # from itself, it would be its own cause
        if self.restart is None:
            raise failed from death
        self._wait_after(failed, self.restart, closing)

    def _understood(self, death: Exception) -> Exception:
        """Return what it died of as an error of ours, where Spark's tells one."""
        if isinstance(death, KstoolkitError) and not isinstance(death, OnBatchFailed):
            return death
        if java_has_ended(_LAST_BREATH_SECONDS):  # asked before its error's text is read
            return java_ended(self.folder)
        return UnreadableFile.found_in(str(death)) or death

    def _wait_for_kafka(self, death: Exception, closing: Event) -> None:
        batch = newest_commit(self.folder.checkpoint)
        if self._outage is None or self._outage.batch != batch:
            self._outage = _Outage(batch)
        away_ms = self._outage.lasted_ms()
        what, patience_ms = "read", self.patience_ms
        if isinstance(death, NotSent):
            what, patience_ms = "written", death.patience_ms
        why = cause_in_words(death)
        if away_ms >= patience_ms:
            lasted = format_duration(max(away_ms // 1_000, 1) * 1_000)
            message = f"Kafka could not be {what} for {lasted}: {why}."
            hint = "Nothing is lost: when it can, run again, it goes on from the last whole batch."
            raise KafkaError(message, hint=hint) from death
        self.tell(f"Kafka can't be {what} ({why}); the run goes on when it can.")
        if not closing.wait(self._outage.next_pause()):
            self._restarts.add(f"Kafka could not be {what}: {why}.", batch, counts=False)

    def _wait_after(self, failed: KstoolkitError, restart: Restart, closing: Event) -> None:
        batch = newest_commit(self.folder.checkpoint)
        before, number = self._deaths
        number = number + 1 if before == batch else 1
        self._deaths = batch, number
        if number % _POISONOUS == 0 and not isinstance(failed, OnBatchFailed):
            self.tell(
                f"{failed.message} The batch has died thrice: looking for the record it dies of."
            )
            if found := self.set_aside():
                self.tell(found)
                self._restarts.add(found, batch, counts=False)
                self._deaths = batch, 0
                return
        restarts = self._restarts.within_an_hour()
        if restarts >= restart.most_per_hour:
            message = f"{failed.message} It was started again {restarts} times within an hour."
            hint = f"Why, each time, is in {self._restarts.path}. {failed.hint or ''}".rstrip()
            raise RestartsSpent(message, hint=hint) from failed
        pause_ms = restart.pause_ms(number)
        self.tell(
            f"{failed.message} Starting again after {format_duration(pause_ms)} "
            f"(number {restarts + 1} of {restart.most_per_hour} within an hour)."
        )
        if not closing.wait(pause_ms / 1_000):
            self._restarts.add(failed.message, batch, counts=True)

    @property
    def _restarts(self) -> RestartLog:
        return RestartLog(self.folder.restarts)


@dataclass(slots=True)
class _Outage:
    """A time without a batch: after which one, since when, and how long the pauses have grown."""

    batch: int | None
    began: float = field(default_factory=time.monotonic)
    pause: float = _FIRST_PAUSE

    def lasted_ms(self) -> int:
        return round((time.monotonic() - self.began) * 1_000)

    def next_pause(self) -> float:
        pause, self.pause = self.pause, min(2 * self.pause, _LONGEST_PAUSE)
        return pause
