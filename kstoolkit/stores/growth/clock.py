"""Which of a row's times decides how long it is kept.

==================  ====================================  =====================================
clock               rows                                  what it decides
==================  ====================================  =====================================
window start        of windows                            the segment, and when it expires
session end         of Kafka Streams' sessions            the same
valid to            of versions that are history          the same; the latest never expires
timestamp           of everything else                    nothing: it says how old the row is
==================  ====================================  =====================================

(``SegmentedBytesStore.KeySchema.segmentTimestamp``, ``RocksDBVersionedStore`` of Kafka Streams.)
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kstoolkit.formats.columns import numbers_of
from kstoolkit.formats.streams.kinds import Kind

if TYPE_CHECKING:
    import numpy as np
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
    """Return which time of some rows decides, for an engine's kind of store.

    Examples
    --------
    >>> from kstoolkit.formats.columns import ByteColumn
    >>> from kstoolkit.formats.columns import RowColumns
    >>> rows = RowColumns.whole(ByteColumn.of([b"a"]), ByteColumn.of([b"1"]))
    >>> clock_of("kafka-streams", "timestamped-key-value", rows)
    <Clock.TIMESTAMP: 'timestamp'>
    """
    if rows.valid_to_ms is not None:
        return Clock.VALID_TO
    if rows.window_start_ms is None:
        return Clock.TIMESTAMP
    is_session = engine == "kafka-streams" and "session" in (kind or "")
    return Clock.SESSION_END if is_session else Clock.WINDOW_START


def times_of(clock: Clock, rows: RowColumns) -> Times:
    """Return the time of each row, and which of them have one."""
    match clock:
        case Clock.WINDOW_START:
            column = rows.window_start_ms
        case Clock.SESSION_END:
            column = rows.window_end_ms
        case Clock.VALID_TO:
            column = rows.valid_to_ms
        case Clock.TIMESTAMP:
            column = rows.timestamp_ms
    return numbers_of(column, len(rows))


def watermark_times_of(rows: RowColumns) -> Times:
    """Return each row's time that Spark holds against its watermark: its window's end, or its own.

    (``WatermarkSupport.watermarkExpression`` of Spark.)
    """
    windowed = rows.window_end_ms is not None
    return numbers_of(rows.window_end_ms if windowed else rows.timestamp_ms, len(rows))
