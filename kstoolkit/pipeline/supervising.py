"""A query that outlives what ends it: it is started again, and looks like one query all the while.

What a dead query may be started again after is decided by :mod:`kstoolkit.pipeline.mending`.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Self

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from kstoolkit.errors import KstoolkitError, RunFailed
from kstoolkit.pipeline.ending import AtItsEnd
from kstoolkit.pipeline.failure import JAVA_IS_GONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kstoolkit.pipeline.job import Job

    Step = Callable[[DataFrame, int], None]
    Tell = Callable[[str], None]
    Rest = Callable[[float], None]
    Ready = Callable[[Tell, Rest], Job]
    Start = Callable[[Job, "Gate"], StreamingQuery]
    Mend = Callable[[Exception, Event], None]


_DEATHS = (PySparkException, RunFailed, *JAVA_IS_GONE)
"""What a query, or its start, can end with and still be worth another try."""

_LOOK_SECONDS, _GLANCE_SECONDS = 0.1, 0.02


class _Closed(Exception):  # noqa: N818 - it is none: it ends a query between two batches
    """The run is to end: no further batch begins."""


class _Told(logging.Filter):
    """Keeps py4j from logging with a traceback what is told in other ways."""

    def filter(self, record: logging.LogRecord) -> bool:
        raised = record.exc_info[1] if record.exc_info else None
        return not isinstance(raised, (_Closed, KstoolkitError))


_TOLD = _Told()


class Gate:
    """What each micro-batch passes before it is counted.

    It lets none through once the run is to end, and keeps what went wrong as it was raised: Spark
    makes a text of it.
    """

    def __init__(self) -> None:
        self.closing = Event()
        self.turned_away = Event()
        self._raised: KstoolkitError | None = None
        logging.getLogger("py4j.clientserver").addFilter(_TOLD)

    def before(self, count: Step, check: Callable[[int], None]) -> Step:
        """Return the function for ``foreachBatch``: checks, then counts."""

        def step(frame: DataFrame, batch: int) -> None:
            if self.closing.is_set():
                self.turned_away.set()
                raise _Closed
            try:
                check(batch)
                count(frame, batch)
            except KstoolkitError as error:
                self._raised = error
                raise

        return step

    def cause(self, death: Exception) -> Exception:
        """Return what a query really ended with, once."""
        raised, self._raised = self._raised, None
        return death if raised is None else raised


class SupervisedQuery(StreamingQuery):
    """A streaming query that is replaced underneath when it dies.

    Parameters
    ----------
    job
        The run, ready to start.
    ready
        Makes it ready anew: checks its input, starts Spark where that is gone.
    start
        Starts its query; each batch is to pass the gate.
    mend
        Waits until another try makes sense, or raises why none does; it is told what the query
        ended with, and what is set once the run is to end.
    tell
        Called with a line while the input is waited for.
    """

    def __init__(self, job: Job, ready: Ready, start: Start, mend: Mend, tell: Tell) -> None:
        self._job, self._ready, self._start, self._mend = job, ready, start, mend
        self._tell = tell
        self._gate = Gate()
        self._begun, self._ended = Event(), Event()
        self._starting = Lock()
        self._leading: Thread | None = None
        self._failure: KstoolkitError | None = None

    def begin(self) -> Self:
        """Start the query, unless the run is to end already."""
        with self._starting:
            if not self._gate.closing.is_set():
                super().__init__(self._start(self._job, self._gate)._jsq)  # noqa: SLF001 - what it wraps
                self._begun.set()
        return self

    def lead(self) -> None:
        """Bring the query to its end, starting it again as often as that helps.

        Raises
        ------
        KstoolkitError
            If nothing helps.
        """
        death: Exception | None = None
        try:
            while not self._gate.closing.is_set():
                if death is not None:
                    self._mend(death, self._gate.closing)
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
        """Tell what is waited for, while anybody waits."""
        self.check_wanted()
        self._tell(line)

    def rest(self, seconds: float) -> None:
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

    def stop(self) -> None:
        """End it after the batch at hand; an interruption ends it at once."""
        self._gate.closing.set()
        try:
            with suppress(*JAVA_IS_GONE):
                while self._counts():
                    time.sleep(_GLANCE_SECONDS)
        finally:
            with self._starting, suppress(*JAVA_IS_GONE):
                super().stop()
            if self._leading is not None:
                self._leading.join()

    def _lead(self) -> None:
        try:
            self.lead()
        except KstoolkitError as error:
            self._failure = error

    def _live(self, *, again: bool) -> Exception | None:
        """Have the query run to its end, and return what it died of."""
        try:
            if again:
                self._job = self._ready(self.say, self.rest)
            if again or not self._begun.is_set():
                self.begin()
            self._wait()
        except _DEATHS as error:
            cause = self._gate.cause(error)
            return None if isinstance(cause, AtItsEnd) else cause
        return None

    def _wait(self) -> None:
        """Wait for the query's end.

        Waited for here, not in Java: Ctrl-C has Spark cancel its jobs, which it can't do over a
        connection that is itself waiting for an answer.
        """
        try:
            while super().isActive:
                if self._gate.closing.wait(_LOOK_SECONDS):
                    return
            super().awaitTermination()  # raises what it ended with
        except BaseException:
            with suppress(*JAVA_IS_GONE):
                super().stop()
            raise

    def _counts(self) -> bool:
        """Whether a batch is at hand, or its offsets are asked for.

        Whoever breaks that off while no broker answers waits for Kafka's client for ever.
        """
        if not super().isActive or self._gate.turned_away.is_set():
            return False
        return bool(super().status["isTriggerActive"])
