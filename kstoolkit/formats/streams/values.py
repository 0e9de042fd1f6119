"""Values with a timestamp or headers in front.

::

    timestamped             timestamp (int64) | value
    with headers            headers | value
    timestamped, headers    headers | timestamp (int64) | value

(``ValueAndTimestampSerializer``, ``AggregationWithHeadersSerializer`` and
``ValueTimestampHeadersSerializer`` of ``org.apache.kafka.streams.state.internals``.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.formats.streams.headers import HeaderParts, cut_headers
from kstoolkit.formats.streams.kinds import (
    DEFAULT,
    LIST_HEADERS,
    SESSION_HEADERS,
    TIMESTAMPED,
    TIMESTAMPED_HEADERS,
    WINDOW_HEADERS,
    Kind,
)
from kstoolkit.formats.streams.masked import either, integers_of, nullable, said_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kstoolkit.formats.bytecolumn import ByteColumn


_TIMESTAMP_BYTES = 8
_NONE_MS = -1
"""The timestamp of a value that was written before the store had timestamps."""


class Wrapping(Enum):
    """What lies in front of a value; each one is (headers, timestamp)."""

    NOTHING = (False, False)
    TIMESTAMP = (False, True)
    HEADERS = (True, False)
    HEADERS_AND_TIMESTAMP = (True, True)


_BY_FAMILY = {
    TIMESTAMPED: Wrapping.TIMESTAMP,
    TIMESTAMPED_HEADERS: Wrapping.HEADERS_AND_TIMESTAMP,
    WINDOW_HEADERS: Wrapping.HEADERS_AND_TIMESTAMP,
    SESSION_HEADERS: Wrapping.HEADERS,
    LIST_HEADERS: Wrapping.HEADERS,
}
# Windows that are emitted on close never had a column family without timestamps.
_STAMPED_BY_DEFAULT = {Kind.TIME_ORDERED_WINDOW, Kind.HEADERS_TIME_ORDERED_WINDOW}


def wrapping_of(kind: Kind, family: str) -> Wrapping:
    """Return what lies in front of the values of a store's column family.

    Raises
    ------
    FormatError
        If Kafka Streams keeps no rows in a column family of that name.

    Examples
    --------
    >>> wrapping_of(Kind.HEADERS_KEY_VALUE, "keyValueWithTimestamp")
    <Wrapping.TIMESTAMP: (False, True)>
    """
    if family == DEFAULT:
        return Wrapping.TIMESTAMP if kind in _STAMPED_BY_DEFAULT else Wrapping.NOTHING
    if family not in _BY_FAMILY:
        message = f"Kafka Streams keeps no rows in a column family {family!r}."
        raise FormatError(message, hint=f"It does in {DEFAULT}, {', '.join(_BY_FAMILY)}.")
    return _BY_FAMILY[family]


@dataclass(frozen=True, slots=True, eq=False)
class ValueParts:
    """What is in values; of rows with a problem, nothing in particular.

    Parameters
    ----------
    value
        The application's own value.
    timestamp_ms
        The value's time, epoch ms UTC; null where it has none. None if no value has one.
    headers
        Record headers; None if no value has any.
    problems
        Why a value could not be taken apart, by its row.
    """

    value: ByteColumn
    timestamp_ms: pa.Array | None
    headers: pa.Array | None
    problems: dict[int, str]


def cut_values(values: ByteColumn, wrapping: Wrapping) -> ValueParts:
    """Return values without what lies in front of them, and what that says.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> value = ByteColumn.of([bytes.fromhex("0000018bcfe56800") + b"42"])
    >>> parts = cut_values(value, Wrapping.TIMESTAMP)
    >>> parts.value.to_list(), parts.timestamp_ms.to_pylist()
    ([b'42'], [1700000000000])
    """
    has_headers, has_timestamp = wrapping.value
    front = cut_headers(values) if has_headers else HeaderParts(values, None, {})
    rest = front.rest
    if not has_timestamp:
        return ValueParts(rest, None, front.headers, front.problems)
    fits = rest.lengths >= _TIMESTAMP_BYTES
    times = integers_of(fits, rest, 8, at=0)
    short = said_of(~fits & ~rest.is_null, "the value is shorter than its timestamp of 8 bytes")
    return ValueParts(
        either(fits, rest.part(_TIMESTAMP_BYTES), rest),
        nullable(times, fits & (times != _NONE_MS)),
        front.headers,
        short | front.problems,
    )
