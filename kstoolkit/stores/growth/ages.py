"""How long ago rows were updated last, or how long ago their windows ended, and by which clock.

==========================  =======================  =============================================
rows                        what is looked at        counted back from
==========================  =======================  =============================================
one a key, with timestamps  when it was updated      the moment given, else the newest timestamp
of windows and sessions     when the window ended    the moment given, else the watermark, else
                                                     the newest window's start or session's end
==========================  =======================  =============================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.records import Records
from kstoolkit.stores.growth.checkpointuse import Eviction
from kstoolkit.stores.growth.clock import Clock
from kstoolkit.stores.growth.records import Age
from kstoolkit.stores.growth.uses import share_of

if TYPE_CHECKING:
    from kstoolkit.stores.growth.checkpointuse import CheckpointUse
    from kstoolkit.stores.growth.records import Horizon
    from kstoolkit.stores.growth.tallies import Tallies
    from kstoolkit.stores.growth.times import Spans


WINDOW_END = "window end"
"""What the ages of windows are counted from; those of other rows from their timestamps."""

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_AGES_MS = (_HOUR_MS, _DAY_MS, 7 * _DAY_MS, 30 * _DAY_MS)
_NEWEST = {
    Clock.TIMESTAMP: "the newest row's timestamp",
    Clock.WINDOW_START: "the newest window's start",
    Clock.SESSION_END: "the newest session's end",
}


@dataclass(frozen=True, slots=True)
class _Judge:
    """The moment that ages count back from, and what it is."""

    at_ms: int
    what: str


def ages_of(
    tallies: Tallies, horizon: Horizon, checkpoint: CheckpointUse | None = None
) -> Records[Age]:
    """Return how many rows have not changed for an hour, a day, a week and 30 days.

    Of windows, how many ended so long ago. None, if :func:`why_no_ages` says so.
    """
    judge = _judge(tallies, horizon)
    if judge is None or why_no_ages(tallies, horizon, checkpoint) is not None:
        return Records((), "ages")
    if tallies.clock is Clock.TIMESTAMP:
        spans, clock = tallies.times.spans(), str(Clock.TIMESTAMP)
    else:
        spans, clock = tallies.ends.spans(), WINDOW_END
    return Records([_age(tallies, spans, clock, judge, each) for each in _AGES_MS], "ages")


def why_no_ages(
    tallies: Tallies, horizon: Horizon, checkpoint: CheckpointUse | None = None
) -> str | None:
    """Return why rows have no ages; None if they have."""
    is_ttl = checkpoint is not None and checkpoint.eviction is Eviction.TTL
    if is_ttl or tallies.are_expiries:
        return "its rows' times are when they expire, not when they were updated"
    if tallies.clock is None:
        return "there are no rows"
    if tallies.clock is Clock.VALID_TO:
        return "versions are replaced, not updated: versions says how many are history"
    if tallies.clock is not Clock.TIMESTAMP and not len(tallies.ends.spans()):
        return "when its windows end is unknown: give window_size="
    no_time = tallies.greatest_time_ms is None or _judge(tallies, horizon) is None
    return "there is no row with a time" if no_time else None


def _judge(tallies: Tallies, horizon: Horizon) -> _Judge | None:
    if tallies.clock is None or tallies.clock is Clock.VALID_TO:
        return None
    if horizon.now_ms is not None:
        return _Judge(horizon.now_ms, "the moment given")
    if tallies.clock is not Clock.TIMESTAMP and horizon.watermark_ms is not None:
        return _Judge(horizon.watermark_ms, "the watermark")
    if horizon.stream_time_ms is None:
        return None
    return _Judge(horizon.stream_time_ms, _NEWEST[tallies.clock])


def _age(tallies: Tallies, spans: Spans, clock: str, judge: _Judge, age_ms: int) -> Age:
    below = spans.below(judge.at_ms - age_ms + 1)
    return Age(
        age_ms,
        below.num_rows,
        below.data_bytes,
        share_of(below.data_bytes, tallies),
        below.error_rows,
        below.error_bytes,
        clock,
        judge.what,
        judge.at_ms,
    )
