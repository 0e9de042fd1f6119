"""When each record is due: at most so many a second, or as its event time passes, only faster."""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray


LONGEST_GAP_MS = 86_400_000
"""A step of event time that is longer, either way, is passed over: nobody waits for a record whose
time is 1970 or 2099, nor through a week in which nothing was recorded."""

_MOST_BEHIND_S = 0.25
_SPEED = re.compile(r"\s*(\d+(?:\.\d+)?)\s*x?\s*", re.IGNORECASE)


def parse_speed(speed: float | str) -> float:
    """Return how many seconds of event time pass in one.

    Raises
    ------
    ConfigurationError
        If it is not a number above 0.

    Examples
    --------
    >>> parse_speed("60x"), parse_speed(0.5)
    (60.0, 0.5)
    """
    match = _SPEED.fullmatch(str(speed))
    factor = float(match[1]) if match else 0.0
    if not 0 < factor < math.inf:
        message = f"The speed {speed!r} is no factor of event time."
        raise ConfigurationError(message, hint="Write '60x' for a minute in a second.")
    return factor


class Pace:
    """When each of some records is due, in seconds since the beginning.

    Parameters
    ----------
    rate
        At most so many records a second.
    speed
        So many seconds of event time in one.

    Raises
    ------
    ConfigurationError
        If the rate is not above 0.

    Examples
    --------
    >>> times = np.array([0, 60_000, 120_000])
    >>> Pace(rate=None, speed=60.0).schedule(times, times >= 0).tolist()
    [0.0, 1.0, 2.0]
    >>> Pace(rate=10, speed=None).schedule(times, times >= 0).tolist()
    [0.0, 0.1, 0.2]
    """

    def __init__(self, *, rate: float | None, speed: float | None) -> None:
        if rate is not None and not 0 < rate < math.inf:
            message = f"The rate is {rate!r} records a second."
            raise ConfigurationError(message, hint="Give a number above 0.")
        self._apart_s = 0.0 if rate is None else 1 / rate
        self._speed = speed
        self._began: float | None = None
        self._scheduled = 0
        self._latest_s = -math.inf
        self._last_ms: int | None = None
        self._event_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """How long ago the beginning was: that is when this is asked for the first time."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        return now - self._began

    def schedule(
        self, time_ms: NDArray[np.int64], has_time: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return when the next records are due; none is before the one before it."""
        rows = len(time_ms)
        spread = (self._scheduled + np.arange(rows)) * self._apart_s
        told = np.zeros(rows) if self._speed is None else self._told(time_ms, has_time, self._speed)
        # No record before its time, and each at least so long after the one before it.
        latest = np.maximum.accumulate(np.r_[self._latest_s, told - spread])[1:]
        self._scheduled += rows
        self._latest_s = float(latest[-1]) if rows else self._latest_s
        due: NDArray[np.float64] = latest + spread
        return due

    def forgive(self, due_s: float) -> None:
        """Begin later if a record is overdue and there is a rate: it isn't made up for."""
        behind = self.elapsed_s - due_s
        if self._apart_s and self._began is not None and behind > _MOST_BEHIND_S:
            self._began += behind

    def _told(
        self, time_ms: NDArray[np.int64], has_time: NDArray[np.bool_], speed: float
    ) -> NDArray[np.float64]:
        """Return when records are due by their event time; one without goes with its neighbour."""
        known = time_ms[has_time]
        if not known.size:
            return np.full(len(time_ms), self._event_s)
        steps = np.diff(known, prepend=known[0] if self._last_ms is None else self._last_ms)
        steps[np.abs(steps) > LONGEST_GAP_MS] = 0
        seconds = self._event_s + np.cumsum(steps) / 1_000 / speed
        places = np.cumsum(has_time)
        told: NDArray[np.float64] = np.r_[self._event_s, seconds][places]
        self._last_ms, self._event_s = int(known[-1]), float(seconds[-1])
        return told
