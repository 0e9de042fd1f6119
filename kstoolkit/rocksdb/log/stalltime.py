"""For how long writers had to wait in all, out of the dumps of statistics in a log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.records import Record, Source, counted, of_source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.rocksdb.log.statsdumps import StatsDump


_NO_DUMP = (
    "the log holds no dump of statistics: RocksDB writes one every stats_dump_period_sec (600) "
    "at level INFO"
)
_NO_TIME = (
    "each dump of statistics is of the moment of an opening, and covers no time: the next would "
    "have come after stats_dump_period_sec (600)"
)


@dataclass(frozen=True, slots=True, repr=False)
class StallTime(Record):
    """How long writers waited, up to the last dump of each time that the store was open.

    Parameters
    ----------
    num_dumps, num_opens
        The dumps, and the times that the store was opened and stayed open until a dump.
    covered_s
        How long it was open in all, up to the last dump of each; nothing is known of the rest.
    stalled_s, stalled_percent
        How long writers waited, and which share of the time that is.
    unknown
        Why a figure is unknown, by its name.
    """

    num_dumps: int = of_source(Source.LOG)
    num_opens: int = of_source(Source.LOG)
    covered_s: float | None = of_source(Source.LOG)
    stalled_s: float | None = of_source(Source.LOG)
    stalled_percent: float | None = of_source(Source.LOG)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        if self.stalled_s is None or self.covered_s is None:
            return f"StallTime(unknown: {self.unknown['stalled_s']})"
        return (
            f"StallTime({self.stalled_s:,.1f} s of {self.covered_s:,.1f} s, "
            f"by {counted(self.num_dumps, 'dumps of statistics')})"
        )


def stall_time(dumps: Iterable[StatsDump], untold: str | None = None) -> StallTime:
    """Return how long writers waited; an uptime that falls tells that the store was opened anew.

    Parameters
    ----------
    dumps
        In the order of the log.
    untold
        Why the log can't tell of any.

    Examples
    --------
    >>> from kstoolkit.rocksdb.log.statsdumps import StatsDump
    >>> dumps = [StatsDump(None, up, waited) for up, waited in [(600, 1), (1200, 3), (600, 2)]]
    >>> stall_time(dumps).stalled_s
    5
    """
    lasts: list[StatsDump] = []
    open_now: dict[str | None, int] = {}
    number = 0
    for dump in dumps:
        number += 1
        if dump.uptime_s is None or dump.stalled_s is None:
            continue
        place = open_now.get(dump.store)
        if place is not None and dump.uptime_s >= (lasts[place].uptime_s or 0):
            lasts[place] = dump
        else:
            open_now[dump.store] = len(lasts)
            lasts.append(dump)
    if not lasts:
        whys = dict.fromkeys(("covered_s", "stalled_s", "stalled_percent"), untold or _NO_DUMP)
        return StallTime(number, 0, None, None, None, whys)
    covered = sum(dump.uptime_s or 0 for dump in lasts)
    stalled = sum(dump.stalled_s or 0 for dump in lasts)
    if not covered:
        whys = dict.fromkeys(("stalled_s", "stalled_percent"), _NO_TIME)
        return StallTime(number, len(lasts), covered, None, None, whys)
    return StallTime(number, len(lasts), covered, stalled, 100 * stalled / covered)
