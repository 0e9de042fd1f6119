"""A time in which brokers do not answer: what a command that goes on and on says and does."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.cli.terminal import note

if TYPE_CHECKING:
    from kstoolkit.errors import KafkaError


PATIENCE_SECONDS, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 600.0, 0.5, 10.0


@dataclass(slots=True)
class Outage:
    """A time without an answer: of whom, since when, and how long the pauses have grown."""

    what: str
    began: float = field(default_factory=time.monotonic)
    pause: float = FIRST_PAUSE_SECONDS

    def next_pause(self, error: KafkaError) -> float:
        """Say what is waited for, and return for how many seconds.

        Raises
        ------
        KafkaError
            If it lasts for ten minutes already.
        """
        if time.monotonic() - self.began > PATIENCE_SECONDS:
            raise error
        note(f"{self.what} can't be read ({error.message.rstrip('.')}); waiting for it.")
        pause, self.pause = self.pause, min(2 * self.pause, LONGEST_PAUSE_SECONDS)
        return pause
