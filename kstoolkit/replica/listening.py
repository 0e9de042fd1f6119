"""Who is told how a restore goes: one's own listener, a progress bar, one that remembers."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tqdm import tqdm

from kstoolkit.errors import KstoolkitError
from kstoolkit.records import Record, Records, Source, Viewed, counted, of_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas as pd


class RestoreListener(Protocol):
    """What is called while a replica is restored, as Kafka Streams' StateRestoreListener is.

    ``what`` is a level (``"1 hour"``), or a segment that is rebuilt alone (``"1 hour from
    2015-09-12T10:00:00+00:00"``). Each call comes from the thread that restores.
    """

    def on_start(self, what: str, *, total: int) -> None:
        """Take in that so many records of the changelog are going to be read."""

    def on_batch(self, what: str, *, records: int) -> None:
        """Take in that so many more have been read, and what they told is written."""

    def on_end(self, what: str, *, records: int) -> None:
        """Take in that all is restored, from so many records."""

    def on_failure(self, what: str, *, error: Exception) -> None:
        """Take in that it can't be restored; the error is raised afterwards."""


@contextmanager
def telling(listeners: Sequence[RestoreListener], what: str, total: int) -> Iterator[None]:
    """Tell listeners that something begins, and how it ends."""
    for each in listeners:
        each.on_start(what, total=total)
    try:
        yield
    except (KstoolkitError, OSError) as error:
        for each in listeners:
            each.on_failure(what, error=error)
        raise
    for each in listeners:
        each.on_end(what, records=total)


class ProgressBar:
    """Shows each level's progress on stderr; ``shown=None``: if that is a terminal."""

    def __init__(self, *, shown: bool | None = None) -> None:
        self._disable = None if shown is None else not shown
        self._bar: tqdm | None = None

    def on_start(self, what: str, *, total: int) -> None:
        """Begin a bar."""
        looks = {"unit": " records", "unit_scale": True, "dynamic_ncols": True, "leave": False}
        told = {"desc": f"restoring {what}", "total": total, **looks}
        self._bar = tqdm(**told, disable=self._disable, file=sys.stderr)

    def on_batch(self, what: str, *, records: int) -> None:  # noqa: ARG002 - the bar says it
        """Move it on."""
        if self._bar is not None:
            self._bar.update(records)

    def on_end(self, what: str, *, records: int) -> None:  # noqa: ARG002
        """Take it away."""
        self._close()

    def on_failure(self, what: str, *, error: Exception) -> None:  # noqa: ARG002
        """Take it away."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


@dataclass(frozen=True, slots=True)
class RestoreStep(Record):
    """One call of a restore listener.

    Parameters
    ----------
    what
        A level (``"1 hour"``), or a segment that is rebuilt alone.
    event
        ``"start"``, ``"batch"``, ``"end"`` or ``"failure"``.
    seconds
        When, since the first call.
    records
        Of a batch, how many were read since the call before; of a start, how many there are to be
        read; of an end, how many were. ``None`` of a failure.
    error
        Of a failure, why.
    """

    what: str
    event: str
    seconds: float = of_source(Source.OPENER)
    records: int | None = of_source(Source.OPENER, None)
    error: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)


class RestoreHistory(Viewed):
    """A restore listener that keeps what it is told; give it as ``listener``.

    It keeps every call, which is a few thousand for a restore; a standby that follows for weeks has
    more of them than one would want to keep. The ``clock`` tells seconds that never go back.

    Examples
    --------
    >>> ticks = iter([10.0, 10.5, 12.0])
    >>> history = RestoreHistory(clock=lambda: next(ticks))
    >>> history.on_start("1 hour", total=500)
    >>> history.on_batch("1 hour", records=500)
    >>> history.on_end("1 hour", records=500)
    >>> history
    RestoreHistory(500 of 500 records in 2.0 s; 1 of 1 level or segment done)
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps: list[RestoreStep] = []
        self._began: float | None = None
        self._one_at_a_time = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_one_at_a_time"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _one_at_a_time=threading.Lock())

    def on_start(self, what: str, *, total: int) -> None:
        """Remember that so many records are going to be read."""
        self._keep(what, "start", total)

    def on_batch(self, what: str, *, records: int) -> None:
        """Remember that so many more have been read."""
        self._keep(what, "batch", records)

    def on_end(self, what: str, *, records: int) -> None:
        """Remember that all is restored."""
        self._keep(what, "end", records)

    def on_failure(self, what: str, *, error: Exception) -> None:
        """Remember that it can't be restored, and why."""
        self._keep(what, "failure", None, str(error))

    @property
    def steps(self) -> Records[RestoreStep]:
        """What it was told by now, in order."""
        return Records(tuple(self._steps), "steps")

    @property
    def records(self) -> int:
        """How many records have been read."""
        return self._sum("batch")

    @property
    def total(self) -> int:
        """How many records there were to be read in what has begun."""
        return self._sum("start")

    @property
    def seconds(self) -> float:
        """How long it took from the first call to the last."""
        return self._steps[-1].seconds if self._steps else 0.0

    @property
    def failures(self) -> list[RestoreStep]:
        """What could not be restored."""
        return [each for each in self.steps if each.event == "failure"]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a call: ``what``, ``event``, ``seconds``, ``records``, ``error``."""
        columns = ["what", "event", "seconds", "records", "error"]
        return self.steps.to_pandas().reindex(columns=columns)

    def __repr__(self) -> str:
        return f"RestoreHistory({self._facts()})"

    def _repr_html_(self) -> str:
        return f"<p>{self._facts()}</p>{self.steps._repr_html_()}"

    def _facts(self) -> str:
        if not self._steps:
            return "nothing told yet"
        begun, done = (sum(each.event == name for each in self.steps) for name in ("start", "end"))
        read = f"{self.records:,} of {counted(self.total, 'records')} in {self.seconds:,.1f} s"
        parts = "level or segment" if begun == 1 else "levels or segments"
        failed = f"; {counted(len(self.failures), 'failures')}" if self.failures else ""
        return f"{read}; {done:,} of {begun:,} {parts} done{failed}"

    def _sum(self, event: str) -> int:
        return sum(each.records or 0 for each in self.steps if each.event == event)

    def _keep(self, what: str, event: str, records: int | None, error: str | None = None) -> None:
        with self._one_at_a_time:
            now = self._clock()
            if self._began is None:
                self._began = now
            self._steps.append(RestoreStep(what, event, now - self._began, records, error))
