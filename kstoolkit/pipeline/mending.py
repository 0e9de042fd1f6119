"""What is done about a query that died: wait and go on, or say why that would not help.

A broker that goes away is waited for, as long as its topic says. Whatever else ends a query is left
to whoever started it, unless they said how often it may be started again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kstoolkit.errors import KafkaError, KstoolkitError, RestartsSpent, UserError
from kstoolkit.pipeline.ending import PlannedAnew
from kstoolkit.pipeline.failure import (
    cause_in_words,
    is_kafkas,
    java_ended,
    run_failed,
)
from kstoolkit.pipeline.javaprocess import java_is_gone
from kstoolkit.pipeline.offsets import newest_commit
from kstoolkit.pipeline.restarts import RestartLog
from kstoolkit.pipeline.sending import NotSent
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from kstoolkit.pipeline.restarts import Restart
    from kstoolkit.pipeline.runfolder import RunFolder


PATIENCE_MS = 600_000
"""How long a broker is waited for where no topic says it."""

_POISONOUS = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


def _nothing() -> None:
    """Set nothing aside."""


@dataclass(slots=True)
class Mending:
    """Decides about one run's deaths.

    Parameters
    ----------
    folder
        The run's.
    patience_ms
        How long Kafka may stay away that is read; a topic that is written says so itself.
    tell
        Called with a line about each.
    restart
        How often the query is started again after what else ends it; ``None`` for not at all.
    set_aside
        Sets the records aside that the batch at hand dies of, and says which; ``None`` if there
        are none. It is asked when a batch died :data:`POISONOUS` times. What it calls with a line
        raises once the run is to end.
    """

    folder: RunFolder
    patience_ms: int
    tell: Callable[[str], None]
    restart: Restart | None = None
    set_aside: Callable[[], str | None] = _nothing
    _outage: _Outage | None = field(default=None, init=False)
    _deaths: _Deaths | None = field(default=None, init=False)

    def __call__(self, death: Exception, closing: Event) -> None:
        """Return when the query may be started again, or when the run is to end.

        Raises
        ------
        KstoolkitError
            What the query ended with, if it may not.
        """
        if isinstance(death, PlannedAnew):
            return
        if not isinstance(death, KstoolkitError) and java_is_gone():
            death = java_ended(self.folder)
        if isinstance(death, UserError):
            raise death
        if is_kafkas(death):
            self._wait_for_kafka(death, closing)
            return
        failed = self._in_words(death)
        if self.restart is None and failed is death:
            raise death  # from itself, it would be its own cause
        if self.restart is None:
            raise failed from death
        self._wait_after(failed, self.restart, closing)

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
            self._log.add(f"Kafka could not be {what}: {why}.", batch, counts=False)

    def _wait_after(self, failed: KstoolkitError, restart: Restart, closing: Event) -> None:
        batch = newest_commit(self.folder.checkpoint)
        if self._deaths is None or self._deaths.batch != batch:
            self._deaths = _Deaths(batch)
        self._deaths.number += 1
        if self._deaths.number % _POISONOUS == 0:
            self.tell(
                f"{failed.message} The batch has died thrice: looking for the record it dies of."
            )
            if told := self.set_aside():
                self.tell(told)
                self._log.add(told, batch, counts=False)
                self._deaths = None
                return
        before = self._log.within_an_hour()
        if before >= restart.most_per_hour:
            message = f"{failed.message} It was started again {before} times within an hour."
            hint = f"Why, each time, is in {self._log.path}. {failed.hint or ''}".rstrip()
            raise RestartsSpent(message, hint=hint) from failed
        pause_ms = restart.pause_ms(self._deaths.number)
        self.tell(
            f"{failed.message} Starting again after {format_duration(pause_ms)} "
            f"(number {before + 1} of {restart.most_per_hour} within an hour)."
        )
        if not closing.wait(pause_ms / 1_000):
            self._log.add(failed.message, batch, counts=True)

    @property
    def _log(self) -> RestartLog:
        return RestartLog(self.folder.restarts)

    def _in_words(self, death: Exception) -> KstoolkitError:
        if isinstance(death, KstoolkitError):
            return death
        is_of_java = isinstance(death, (Py4JJavaError, PySparkException))
        return run_failed(death, self.folder) if is_of_java else java_ended(self.folder)


@dataclass(slots=True)
class _Deaths:
    """How often in a row a query died after the same batch."""

    batch: int | None
    number: int = 0


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
