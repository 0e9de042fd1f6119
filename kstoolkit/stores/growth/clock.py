"""Which of a row's times decides how long it is kept, and how long Kafka Streams keeps rows.

==================  ====================================  =====================================
clock               rows                                  what it decides
==================  ====================================  =====================================
window start        of windows                            the segment, and when it expires
session end         of Kafka Streams' sessions            the same
valid to            of versions that are history          the same; the latest never expires
timestamp           of everything else                    nothing: it says how old the row is
==================  ====================================  =====================================

From a retention to its segments, and back::

    windows, sessions     interval = max(retention / 2, 60 s)
    versioned stores      interval = max(history / 3, 2 s)      history up to 60 s
                                     max(history / 5, 20 s)                300 s
                                     max(history / 12, 60 s)               3600 s
                                     max(history / 24, 300 s)              longer
    segment               floor(time / interval), live from that of (stream time - retention) on
    row                   expired if its time < stream time - retention + 1; in a time-ordered
                          window store if its time < stream time - retention

(``SegmentedBytesStore.KeySchema.segmentTimestamp``, ``RocksDBVersionedStore``, ``Stores``,
``RocksDbVersionedKeyValueBytesStoreSupplier``, ``AbstractSegments`` and
``AbstractDualSchemaRocksDBSegmentedBytesStore.getActualFrom`` of Kafka Streams.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import gcd, inf, isqrt
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.formats.columns import numbers_of
from kstoolkit.formats.streams.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns

ONE_ROW_A_KEY = {Kind.KEY_VALUE, Kind.TIMESTAMPED_KEY_VALUE, Kind.HEADERS_KEY_VALUE}
"""Kinds of Kafka Streams' that have one row a key, for ever."""

Times = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]


class Clock(StrEnum):
    """Which time of a row is looked at."""

    WINDOW_START = "window start"
    SESSION_END = "session end"
    VALID_TO = "valid to"
    TIMESTAMP = "timestamp"


def clock_of(engine: str | None, kind: str | None, rows: RowColumns) -> Clock:
    """Return which time of some rows decides, for an engine's kind of store."""
    if rows.valid_to_ms is not None:
        return Clock.VALID_TO
    if rows.window_start_ms is None:
        return Clock.TIMESTAMP
    is_session = engine == "kafka-streams" and "session" in (kind or "")
    return Clock.SESSION_END if is_session else Clock.WINDOW_START


def times_of(clock: Clock, rows: RowColumns) -> Times:
    """Return the time of each row, and which of them have one."""
    columns = {
        Clock.WINDOW_START: rows.window_start_ms,
        Clock.SESSION_END: rows.window_end_ms,
        Clock.VALID_TO: rows.valid_to_ms,
        Clock.TIMESTAMP: rows.timestamp_ms,
    }
    return numbers_of(columns[clock], len(rows))


def watermark_times_of(rows: RowColumns) -> Times:
    """Return each row's time that Spark holds against its watermark: its window's end, or its own.

    (``WatermarkSupport.watermarkExpression`` of Spark.)
    """
    windowed = rows.window_end_ms is not None
    return numbers_of(rows.window_end_ms if windowed else rows.timestamp_ms, len(rows))


SHORTEST_MS = 60_000
_MINUTE_MS = 60_000
_MOST_PARTS = 24
_HISTORY = (
    *((60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000)),
    (inf, _MOST_PARTS, 300_000),
)
_LARGEST_SEARCHED = 1 << 44  # ms, 557 years: the divisors of more would take long to find
_LONGEST_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class Between:
    """A length of time that is known to lie between two, both included, in ms."""

    least_ms: int
    most_ms: int

    @property
    def likely_ms(self) -> int | None:
        """The one that people would have chosen: the shortest, or the only whole minute of many."""
        if self.most_ms - self.least_ms <= _MOST_PARTS:
            return self.least_ms
        minute = -(-self.least_ms // _MINUTE_MS) * _MINUTE_MS
        is_only = minute <= self.most_ms < minute + _MINUTE_MS
        return minute if is_only else None


def interval_of(retention_ms: int, *, is_versioned: bool = False) -> int:
    """Return how long the segments of a store are, in ms."""
    if not is_versioned:
        return max(retention_ms // 2, SHORTEST_MS)
    _, parts, least_ms = next(each for each in _HISTORY if retention_ms <= each[0])
    return max(retention_ms // parts, least_ms)


def retention_of(interval: Between, *, is_versioned: bool = False) -> Between | None:
    """Return the retentions that have segments so long; None if no retention has."""
    # The longer the retention, the longer the segments: so both ends can be searched for.
    lengths = range(_LONGEST_MS)
    interval_at = partial(interval_of, is_versioned=is_versioned)
    least = bisect_left(lengths, interval.least_ms, key=interval_at)
    most = bisect_right(lengths, interval.most_ms, key=interval_at) - 1
    return Between(least, most) if least <= most else None


def interval_of_starts(
    starts_ms: Iterable[int], *, longest_stay_ms: int = 0, shortest_ms: int = SHORTEST_MS
) -> Between | None:
    """Return how long segments are, by where they begin and how far behind that their rows lie.

    All starts are multiples of the interval, so it divides their greatest common divisor, which it
    most likely is. Rows lie in their segment, so it is longer than the longest stay. None of fewer
    than two segments, or if the rows don't lie where the names say.
    """
    starts = set(starts_ms)
    most = gcd(*starts)
    above = max(longest_stay_ms + 1, shortest_ms)
    if len(starts) < 2 or most < above:  # noqa: PLR2004 - one has no distance
        return None
    return Between(_least_divisor(most, above), most)


def least_interval_of(start_ms: int, longest_stay_ms: int) -> int | None:
    """Return how long a segment is at least, by where it begins and how far behind its rows lie.

    None if the rows are not those of one that Kafka Streams would have begun there.

    >>> least_interval_of(1_699_963_200_000, 42_180_000)
    42499080
    """
    above = max(longest_stay_ms + 1, SHORTEST_MS)
    return _least_divisor(start_ms, above) if start_ms >= above else None


def live_segments(stream_time_ms: int, retention_ms: int, interval_ms: int) -> int:
    """Return how many segments a store keeps at a stream time, if each has rows."""
    first = (stream_time_ms - retention_ms) // interval_ms
    return stream_time_ms // interval_ms - first + 1


def _least_divisor(number: int, above: int) -> int:
    """Return the least divisor of a number that is not below another."""
    if number > _LARGEST_SEARCHED:
        return above
    small = np.arange(1, isqrt(number) + 1, dtype=np.int64)
    small = small[number % small == 0]
    found = np.concatenate([small, number // small])
    return int(found[found >= above].min())
