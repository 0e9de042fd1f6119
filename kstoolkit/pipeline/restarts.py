"""How often a query that died may be started again, and what is known of each time."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.units import Duration, parse_duration

if TYPE_CHECKING:
    from pathlib import Path


_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """How often a query that died is started again, and after which pauses.

    Parameters
    ----------
    most_per_hour
        When it has died more often than this within an hour, the run gives up.
    first_pause, longest_pause
        The pause before the first try; it doubles with each further death after the same batch, up
        to the longest.

    Raises
    ------
    ConfigurationError
        If one of them makes no sense.

    Examples
    --------
    >>> Restart(most_per_hour=3, longest_pause="10 seconds").pause_ms(deaths=9)
    10000
    """

    most_per_hour: int = 5
    first_pause: Duration = "1 second"
    longest_pause: Duration = "1 minute"

    def __post_init__(self) -> None:
        if self.most_per_hour < 1:
            message = f"most_per_hour is {self.most_per_hour}: that is no restart at all."
            raise ConfigurationError(message, hint="Give 1 or more, or leave restart= out.")
        if parse_duration(self.first_pause) > parse_duration(self.longest_pause):
            message = f"first_pause is {self.first_pause}, longest_pause {self.longest_pause}."
            raise ConfigurationError(message, hint="The longest has to be no shorter.")

    def pause_ms(self, deaths: int) -> int:
        """Return the pause after so many deaths without a batch between them, in milliseconds."""
        grown = parse_duration(self.first_pause) << min(deaths - 1, 20)
        return min(grown, parse_duration(self.longest_pause))


@dataclass(frozen=True, slots=True)
class Restarted:
    """A time that a run was started again.

    Parameters
    ----------
    at_ms
        When.
    reason
        What its query had ended with.
    batch
        The last batch that was whole; ``None`` before the first.
    counts
        Whether it counts towards the ceiling; that a broker was away does not.
    """

    at_ms: int
    reason: str
    batch: int | None
    counts: bool


@dataclass(frozen=True, slots=True)
class RestartLog:
    """The file of a run's folder that has a line for each restart.

    Parameters
    ----------
    path
        Where it is; it need not be there.
    """

    path: Path

    def add(self, reason: str, batch: int | None, *, counts: bool) -> None:
        """Take in that the run is started again now."""
        told = Restarted(time.time_ns() // 1_000_000, reason, batch, counts)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(told), ensure_ascii=False) + "\n")

    def read(self) -> list[Restarted]:
        """Return each restart, the oldest first; a line that a crash cut off is none."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        whole = text.splitlines(keepends=True)
        return [Restarted(**json.loads(line)) for line in whole if line.endswith("}\n")]

    def within_an_hour(self) -> int:
        """Return how many within the last hour count towards the ceiling."""
        since_ms = time.time_ns() // 1_000_000 - _HOUR_MS
        return sum(each.counts and each.at_ms > since_ms for each in self.read())
