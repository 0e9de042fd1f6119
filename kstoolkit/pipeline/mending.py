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

from kstoolkit.errors import KafkaError, KstoolkitError, UserError
from kstoolkit.pipeline.failure import (
    cause_in_words,
    is_kafkas,
    java_ended,
    run_failed,
)
from kstoolkit.pipeline.offsets import newest_commit
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from kstoolkit.pipeline.runfolder import RunFolder

__all__ = ["PATIENCE_MS", "Mending"]

PATIENCE_MS = 600_000
"""How long a broker is waited for where no topic says it."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


@dataclass(slots=True)
class Mending:
    """Decides about one run's deaths.

    Parameters
    ----------
    folder
        The run's.
    patience_ms
        How long Kafka may stay away.
    tell
        Called with a line about each.
    """

    folder: RunFolder
    patience_ms: int
    tell: Callable[[str], None]
    _outage: _Outage | None = field(default=None, init=False)

    def __call__(self, death: Exception, closing: Event) -> None:
        """Return when the query may be started again, or when the run is to end.

        Raises
        ------
        KstoolkitError
            What the query ended with, if it may not.
        """
        if isinstance(death, UserError):
            raise death
        if is_kafkas(death):
            self._wait_for_kafka(death, closing)
        else:
            raise self._in_words(death) from death

    def _wait_for_kafka(self, death: Exception, closing: Event) -> None:
        batch = newest_commit(self.folder.checkpoint)
        if self._outage is None or self._outage.batch != batch:
            self._outage = _Outage(batch)
        away_ms = self._outage.lasted_ms()
        why = cause_in_words(death)
        if away_ms >= self.patience_ms:
            lasted = format_duration(max(away_ms // 1_000, 1) * 1_000)
            message = f"Kafka could not be read for {lasted}: {why}."
            hint = "Nothing is lost: when it can, run again, it goes on from the last whole batch."
            raise KafkaError(message, hint=hint) from death
        self.tell(f"Kafka can't be read ({why}); the run goes on when it can.")
        closing.wait(self._outage.next_pause())

    def _in_words(self, death: Exception) -> KstoolkitError:
        if isinstance(death, KstoolkitError):
            return death
        is_of_java = isinstance(death, (Py4JJavaError, PySparkException))
        return run_failed(death, self.folder) if is_of_java else java_ended(self.folder)


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
