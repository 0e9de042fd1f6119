"""From when on a store keeps rows: what it shows, what was told, what its segments speak for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.stores.growth.checkpointuse import Eviction
from kstoolkit.stores.growth.clock import Clock
from kstoolkit.stores.growth.records import Horizon
from kstoolkit.stores.growth.retention import (
    SHORTEST_MS,
    Between,
    interval_of,
    interval_of_starts,
    least_interval_of,
    live_segments,
    retention_of,
)

if TYPE_CHECKING:
    from kstoolkit.stores.growth.checkpointuse import CheckpointUse
    from kstoolkit.stores.growth.tallies import Tallies


_STREAMS = "kafka-streams"
_KEEP_THE_EDGE = {Kind.TIME_ORDERED_WINDOW, Kind.HEADERS_TIME_ORDERED_WINDOW}
"""Stores for windows that are given out when they close: one that is just so old still is there."""

_IN_FOLDERS = {Clock.WINDOW_START, Clock.SESSION_END}
"""Clocks of stores that have a folder for each segment."""

_FOR_EVER = "this kind of store keeps rows until they are deleted"
_BY_WATERMARK = "in Spark's state a watermark or a time to live decides, and none is known"
_NOT_TOLD = "only the segments of Kafka Streams' stores speak of it: give retention="
_NOT_TWO = "fewer than two segments do not tell how long one is"
_OUTSIDE = "its rows do not lie in the segments that their times belong to"
_NO_HISTORY = "no row of the history tells how long its segments are"
_GIVE_IT = "the segments do not tell it: give retention="
_NOT_WHOLE = "no retention has segments so long"
_NOT_GIVEN = "it was not given"
_NO_TIME = "there is no row with a time"


def horizon_of(
    tallies: Tallies,
    *,
    retention_ms: int | None = None,
    now_ms: int | None = None,
    checkpoint: CheckpointUse | None = None,
) -> Horizon:
    """Return from when on a store keeps rows.

    Parameters
    ----------
    tallies
        What all of its rows add up to.
    retention_ms, now_ms
        Its retention, and the moment to judge by, if they were given.
    checkpoint
        What a checkpoint of Spark's keeps of it, if it lies in one.
    """
    by_watermark = checkpoint is None or checkpoint.eviction is Eviction.WATERMARK
    interval = _interval(tallies, retention_ms)
    inferred = _inferred(tallies, interval) if retention_ms is None else None
    bounds = None if inferred is None else inferred[1]
    least_ms = _least_interval_ms(tallies) if interval is None else interval.least_ms
    horizon = Horizon(
        stream_time_ms=tallies.greatest_time_ms,
        now_ms=now_ms,
        watermark_ms=tallies.watermark_ms if by_watermark else None,
        retention_ms=retention_ms,
        inferred_retention_ms=None if inferred is None else inferred[0],
        inferred_least_ms=_least_retention_ms(tallies, least_ms) if retention_ms is None else None,
        inferred_most_ms=None if bounds is None else bounds.most_ms,
        segment_interval_ms=None if interval is None else interval.most_ms,
        segment_interval_least_ms=least_ms,
        num_segments=len(tallies.segments.starts_ms),
    )
    horizon = replace(
        horizon,
        expected_segments=_expected_segments(tallies, horizon),
        kept_from_ms=_kept_from_ms(tallies, horizon),
    )
    unknown = _unknown(tallies, horizon)
    if checkpoint is not None and horizon.watermark_ms is None:
        unknown["watermark_ms"] = checkpoint.why_no_watermark
    return replace(horizon, unknown=unknown)


def _interval(tallies: Tallies, retention_ms: int | None) -> Between | None:
    if tallies.clock is Clock.VALID_TO:
        return tallies.history.interval
    if tallies.clock not in _IN_FOLDERS:
        return None
    is_streams = tallies.engine == _STREAMS
    segments = tallies.segments
    starts = [int(each) for each in segments.starts_ms]
    found = interval_of_starts(
        starts,
        longest_stay_ms=segments.longest_stay_ms,
        shortest_ms=SHORTEST_MS if is_streams else 1,
    )
    if retention_ms is None or not is_streams:
        return found
    told_ms = interval_of(retention_ms)
    fits = all(start % told_ms == 0 for start in starts) and segments.longest_stay_ms < told_ms
    return Between(told_ms, told_ms) if fits else found


def _inferred(tallies: Tallies, interval: Between | None) -> tuple[int | None, Between] | None:
    """Return the retention that segments so long speak for, and the bounds of what it can be."""
    if interval is None or tallies.engine != _STREAMS:
        return None
    is_versioned = tallies.clock is Clock.VALID_TO
    bounds = retention_of(interval, is_versioned=is_versioned)
    if bounds is None:
        return None
    if is_versioned:
        return bounds.likely_ms, bounds
    likely = retention_of(Between(interval.most_ms, interval.most_ms))
    return None if likely is None else likely.likely_ms, bounds


def _least_interval_ms(tallies: Tallies) -> int | None:
    """Return how long a segment is at least, where only one is there."""
    segments = tallies.segments
    if len(segments.starts_ms) != 1 or tallies.clock not in _IN_FOLDERS:
        return None
    if tallies.engine != _STREAMS or not tallies.num_rows:
        return None
    return least_interval_of(int(segments.starts_ms[0]), segments.longest_stay_ms)


def _least_retention_ms(tallies: Tallies, least_interval_ms: int | None) -> int | None:
    if least_interval_ms is None or tallies.engine != _STREAMS:
        return None
    is_versioned = tallies.clock is Clock.VALID_TO
    bounds = retention_of(Between(least_interval_ms, least_interval_ms), is_versioned=is_versioned)
    return None if bounds is None else bounds.least_ms


def _expected_segments(tallies: Tallies, horizon: Horizon) -> int | None:
    interval, kept, at = horizon.segment_interval_ms, horizon.kept_ms, horizon.judged_at_ms
    if tallies.clock not in _IN_FOLDERS or tallies.engine != _STREAMS:
        return None
    if interval is None or kept is None or at is None:
        return None
    return live_segments(at, kept, interval)


def _kept_from_ms(tallies: Tallies, horizon: Horizon) -> int | None:
    if horizon.ago_ms is None:
        return None
    return horizon.ago_ms if tallies.kind in _KEEP_THE_EDGE else horizon.ago_ms + 1


def _unknown(tallies: Tallies, horizon: Horizon) -> dict[str, str]:
    """Return why each figure is unknown that is."""
    no_interval, not_inferred = _why_no_interval(tallies), _why_not_inferred(tallies, horizon)
    why = {
        "stream_time_ms": _NO_TIME,
        "now_ms": _NOT_GIVEN,
        "watermark_ms": _NOT_GIVEN,
        "retention_ms": _NOT_GIVEN,
        "inferred_retention_ms": not_inferred,
        "inferred_least_ms": not_inferred,
        "inferred_most_ms": not_inferred,
        "segment_interval_ms": no_interval,
        "segment_interval_least_ms": no_interval,
        "expected_segments": "it takes a retention, and segments that are folders",
        "kept_from_ms": _NO_TIME if tallies.greatest_time_ms is None else not_inferred,
    }
    return {name: reason for name, reason in why.items() if getattr(horizon, name) is None}


def _why_no_interval(tallies: Tallies) -> str:
    if tallies.clock is None:
        return _NO_TIME
    if tallies.clock is Clock.TIMESTAMP:
        return "the store has no segments"
    if tallies.clock is Clock.VALID_TO:
        return _NO_HISTORY
    return _NOT_TWO if len(tallies.segments.starts_ms) < 2 else _OUTSIDE  # noqa: PLR2004 - two


def _why_not_inferred(tallies: Tallies, horizon: Horizon) -> str:
    if horizon.retention_ms is not None:
        return "the retention was given"
    if tallies.engine == "spark":
        return _BY_WATERMARK
    if tallies.clock is Clock.TIMESTAMP:
        return _FOR_EVER
    if tallies.engine != _STREAMS:
        return _NOT_TOLD
    if horizon.segment_interval_ms is None:
        return f"{_why_no_interval(tallies)}: give retention="
    return _NOT_WHOLE if horizon.inferred_most_ms is None else _GIVE_IT
