"""What a look-up has done so far, for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.operations.lookupfigures import together
from kstoolkit.records import Record, Source, counted, of_source
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping


_MS_PER_SECOND = 1_000


@dataclass(frozen=True, slots=True, repr=False)
class LookupStatistics(Record):
    """What a look-up came to, over the processes that have told.

    Parameters
    ----------
    num_processes
        How many have told: this one, and Spark's workers as their tasks ended.
    rows, rows_failed
        Rows that were looked up, and those of them whose look-up failed; what became of those is
        what ``on_error`` says.
    keys_wanted, cache_hits, keys_joined
        Different keys of each batch; those that were in the cache, and those that another batch had
        asked for already, whose answer this one waited for.
    calls, keys_asked
        Calls of the user's function, and keys in them, once for each call that asks for them.
    retries, failures, timeouts, pauses
        Tries after the first; calls that failed, those of them that took too long; pauses in which
        nobody was asked, after too many failures in a row.
    max_in_flight
        The most calls under way at once in any process.
    busy_ms
        How long at least one call was under way, summed over processes.
    keys_per_second
        Keys asked for while calls were under way, in one process.
    unknown
        Why a figure is unknown, by its name.
    """

    num_processes: int | None = of_source(Source.METRICS)
    rows: int = of_source(Source.METRICS)
    rows_failed: int = of_source(Source.METRICS)
    keys_wanted: int = of_source(Source.METRICS)
    cache_hits: int = of_source(Source.METRICS)
    keys_joined: int = of_source(Source.METRICS)
    keys_asked: int = of_source(Source.METRICS)
    calls: int = of_source(Source.METRICS)
    retries: int = of_source(Source.METRICS)
    failures: int = of_source(Source.METRICS)
    timeouts: int = of_source(Source.METRICS)
    pauses: int = of_source(Source.METRICS)
    max_in_flight: int = of_source(Source.METRICS)
    busy_ms: int = of_source(Source.METRICS)
    keys_per_second: float | None = of_source(Source.FORMULA)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"LookupStatistics({counted(self.rows, 'rows')}, {format_count(self.rows_failed)} "
            f"failed; {counted(self.calls, 'calls')}, at most {self.max_in_flight} at once)"
        )


def lookup_statistics(
    told: Mapping[str, Mapping[str, float]], why_unknown: str | None = None
) -> LookupStatistics:
    """Return the sum of what processes counted.

    Parameters
    ----------
    told
        What each has counted, by process.
    why_unknown
        Why some processes can't tell; None if all can.

    Examples
    --------
    >>> statistics = lookup_statistics({"a": {"calls": 2, "keys_asked": 50, "busy_ms": 100.0}})
    >>> statistics.calls, statistics.keys_per_second
    (2, 500.0)
    >>> lookup_statistics({}).unknown["keys_per_second"]
    'nothing has been asked yet'
    """
    found = together(list(told.values()))
    busy_ms = found.pop("busy_ms")
    unknown = {} if why_unknown is None else {"num_processes": why_unknown}
    if not busy_ms:
        unknown["keys_per_second"] = "nothing has been asked yet"
    return LookupStatistics(
        num_processes=len(told) if why_unknown is None else None,
        busy_ms=round(busy_ms),
        keys_per_second=found["keys_asked"] * _MS_PER_SECOND / busy_ms if busy_ms else None,
        unknown=unknown,
        **{name: int(count) for name, count in found.items()},
    )
