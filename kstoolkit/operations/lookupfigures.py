"""What a look-up counts of itself, in each process that looks up."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class LookupFigures:
    """Counts of one look-up in one process; they only grow.

    Parameters
    ----------
    rows, rows_failed
        Rows that were given, and those of them whose look-up failed.
    keys_wanted, cache_hits, keys_joined, keys_asked
        Different keys of each batch; those that were in the cache, those that another batch was
        waiting for already, and keys in calls, once for each call that asks for them.
    calls, retries, failures, timeouts, pauses
        Calls begun, tries after the first, calls that failed, those of them that took too long, and
        pauses that began after too many failures.
    in_flight, max_in_flight
        Calls under way, and the most of them at once.
    busy_ms
        How long at least one call was under way.
    """

    rows: int = 0
    rows_failed: int = 0
    keys_wanted: int = 0
    cache_hits: int = 0
    keys_joined: int = 0
    keys_asked: int = 0
    calls: int = 0
    retries: int = 0
    failures: int = 0
    timeouts: int = 0
    pauses: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    busy_ms: float = 0
    _busy_since: float = 0

    def call_begins(self, keys: int) -> None:
        """Count a call with so many keys."""
        self.calls += 1
        self.keys_asked += keys
        if not self.in_flight:
            self._busy_since = time.monotonic()
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def call_ends(self) -> None:
        """Count the end of a call."""
        self.in_flight -= 1
        if not self.in_flight:
            self.busy_ms += (time.monotonic() - self._busy_since) * 1_000

    def told(self) -> dict[str, float]:
        """Return the counts so far by name, those of the call under way included.

        Examples
        --------
        >>> LookupFigures(rows=3).told()["rows"]
        3
        """
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        since = told.pop("_busy_since")
        if told.pop("in_flight"):
            told["busy_ms"] += (time.monotonic() - since) * 1_000
        return told


def newest(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return the later of two tellings of one process: counts only grow.

    Examples
    --------
    >>> newest({"calls": 3}, {"calls": 2})
    {'calls': 3}
    """
    return {name: max(count, other.get(name, 0)) for name, count in one.items()}


def together(told: list[Mapping[str, float]]) -> dict[str, float]:
    """Return the counts of several processes as one; of the most in flight, the most of any.

    Examples
    --------
    >>> found = together([{"calls": 3, "max_in_flight": 2}, {"calls": 2, "max_in_flight": 1}])
    >>> found["calls"], found["max_in_flight"]
    (5, 2)
    """
    found: dict[str, float] = dict.fromkeys(LookupFigures().told(), 0)
    for each in told:
        for name, count in each.items():
            most = name.startswith("max_")
            found[name] = max(found[name], count) if most else found[name] + count
    return found
