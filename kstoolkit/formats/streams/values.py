"""What stands in front of a value: a timestamp, record headers, or both.

::

    timestamped             timestamp (int64) | value
    with headers            headers | value
    timestamped, headers    headers | timestamp (int64) | value
    headers                 size (varint) | count (varint)
                            | { name length (varint) | name | length (varint) | value } ...

A varint is zig-zag base-128; a value of length -1 is null. No headers are the one byte 00, which is
how almost every value begins. (``ValueAndTimestampSerializer``,
``AggregationWithHeadersSerializer``, ``ValueTimestampHeadersSerializer`` and ``HeadersSerializer``
of ``org.apache.kafka.streams.state.internals``, Kafka Streams 4.3.)

Headers of many rows are read header by header, each step for all rows at once; what is amiss, and
rows of which few are as long, are read one by one by a :class:`Cursor`, which stays in its cell.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import HEADERS, ByteColumn, except_at, said_of
from kstoolkit.formats.streams.keys import either, integers_of, nullable
from kstoolkit.formats.streams.kinds import (
    DEFAULT,
    LIST_HEADERS,
    SESSION_HEADERS,
    TIMESTAMPED,
    TIMESTAMPED_HEADERS,
    WINDOW_HEADERS,
    Kind,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_FEW = 64


def _read_at_once(
    values: ByteColumn, rows: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return where the headers of rows lie, where each row goes on behind them, and which are read.

    What is left is for reading one by one: rows of which few are as long, and all that are not as
    they should be. A line a header says: the row, where the name begins and has ended, where the
    value does, 1 if that is null; the lines of a row are in order, the rows are not.
    """
    data, end = values.data, values.ends[rows]
    size, at, fits = _varints(data, values.starts[rows], end)
    after = at + np.maximum(size, 0)
    fits &= (size > 0) & (after <= end)
    left, at, has_count = _varints(data, at, np.where(fits, after, at))
    fits &= has_count & (left >= 0)
    places = _walk(data, at, after, left, fits)
    kept = places[fits[places[:, 0]]]
    kept, fits = _with_names(values, kept, fits)
    kept[:, 0] = rows[kept[:, 0]]
    return kept, after, fits


def _walk(
    data: NDArray[np.uint8],
    at: NDArray[np.int64],
    after: NDArray[np.int64],
    left: NDArray[np.int64],
    fits: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return the headers, and take those rows from ``fits`` that are not read to their end."""
    found = [np.zeros((0, 6), dtype=np.int64)]
    live = np.flatnonzero(fits & (left > 0))
    while len(live) > _FEW:
        last = after[live]
        length, name, fine = _varints(data, at[live], last)
        name_end = name + np.maximum(length, 0)
        fine &= (length >= 0) & (name_end <= last)
        size, value, has_size = _varints(data, np.where(fine, name_end, last), last)
        value_end = value + np.maximum(size, 0)
        fine &= has_size & (size >= -1) & (value_end <= last)
        header = np.stack([live, name, name_end, value, value_end, size == -1], axis=1)
        found.append(header[fine])
        fits[live[~fine]] = False
        at[live] = value_end
        left[live] -= 1
        live = live[fine & (left[live] > 0)]
    fits &= (left == 0) & (at == after)
    return np.concatenate(found)


def _with_names(
    values: ByteColumn, places: NDArray[np.int64], fits: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the headers, if all of their names are texts; else none, and that none was read."""
    whole = np.zeros(len(places), dtype=np.bool_)
    try:
        names = ByteColumn(values.data, places[:, 1], places[:, 2], whole).to_arrow()
        names.cast(pa.large_string())
    except pa.ArrowInvalid:
        return places[:0], np.zeros_like(fits)
    return places, fits


def _varints(
    data: NDArray[np.uint8], at: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return the zig-zag numbers that begin at some places, where they have ended, and which do."""
    bits, after = np.zeros(len(at), dtype=np.int64), at.copy()
    fits = np.ones(len(at), dtype=np.bool_)
    going = np.arange(len(at))
    for place in range(_VARINT_BYTES):
        inside = after[going] < end[going]
        fits[going[~inside]] = False
        going = going[inside]
        octet = data[after[going]].astype(np.int64)
        bits[going] |= (octet & _BITS) << (7 * place)
        after[going] += 1
        going = going[octet >= _MORE]
    fits[going] = False
    return (bits >> 1) ^ -(bits & 1), after, fits


RecordHeaders = list[tuple[str, bytes | None]] | None
"""A record's headers, names and values; None: it has none."""
_NONE = b"\x00"


def headers_bytes(headers: Sequence[tuple[str, bytes | None]] | None) -> bytes:
    """Return headers as they stand in front of a value.

    >>> headers_bytes(None).hex(), headers_bytes([("k", b"vv"), ("n", None)]).hex(" ")
    ('00', '12 04 02 6b 04 76 76 02 6e 01')
    """
    if not headers:
        return _NONE
    cells = b"".join(_sized(name.encode()) + _sized(value) for name, value in headers)
    return _sized(_varint(len(headers)) + cells)


def _sized(cell: bytes | None) -> bytes:
    return _varint(-1) if cell is None else _varint(len(cell)) + cell


def _varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else -1 - (number << 1)
    written = bytearray()
    while rest > _BITS:
        written.append(rest & _BITS | _MORE)
        rest >>= 7
    return bytes([*written, rest])


_VARINT_BYTES = 5
_MORE = 0x80
_BITS = 0x7F


class Cursor:
    """A place in some bytes, from which numbers and pieces are read one after the other.

    Each method raises :class:`~kstoolkit.errors.FormatError` if there are fewer bytes left than it
    is asked for, so that no length which the bytes claim is believed before it was looked at.
    """

    __slots__ = ("_data", "_end", "at")

    def __init__(self, data: memoryview, start: int, end: int) -> None:
        self._data, self._end = data, end
        self.at = start  # where the next byte lies in all the bytes

    @property
    def left(self) -> int:
        """How many bytes there are still to be read."""
        return self._end - self.at

    def span(self, length: int) -> tuple[int, int]:
        """Return from where up to where the next ``length`` bytes lie, and go past them."""
        if length < 0:
            message = f"a length of {length}"
            raise FormatError(message)
        if length > self.left:
            message = f"{_bytes(length)} should follow, {self.left} do"
            raise FormatError(message)
        start = self.at
        self.at = start + length
        return start, self.at

    def within(self, length: int) -> Cursor:
        """Return a cursor of the next ``length`` bytes alone, and go past them."""
        return Cursor(self._data, *self.span(length))

    def sized(self) -> tuple[int, int] | None:
        """Return where the piece lies whose length comes first, as int32; None if that is -1."""
        length = self.int32()
        return None if length == -1 else self.span(length)

    def varint_sized(self) -> tuple[int, int] | None:
        """Return the same of a length that is a varint."""
        length = self.varint()
        return None if length == -1 else self.span(length)

    def take(self, span: tuple[int, int]) -> bytes:
        """Return the bytes of a piece."""
        return bytes(self._data[span[0] : span[1]])

    def text(self, span: tuple[int, int] | None) -> str:
        """Return the UTF-8 text of a piece."""
        if span is None:
            message = "a name is missing"
            raise FormatError(message)
        try:
            return self.take(span).decode()
        except UnicodeDecodeError as error:
            message = "a name is no UTF-8"
            raise FormatError(message) from error

    def text_at(self, span: tuple[int, int] | None) -> tuple[int, int]:
        """Return where a piece lies that must be there, and be UTF-8 text."""
        self.text(span)
        return span or (0, 0)

    def byte(self) -> int:
        """Return the next byte, without sign."""
        return self._data[self.span(1)[0]]

    def int32(self) -> int:
        """Return the next four bytes as a number, big-endian and signed."""
        return int.from_bytes(self.take(self.span(4)), "big", signed=True)

    def int64(self) -> int:
        """Return the next eight bytes as a number, big-endian and signed."""
        return int.from_bytes(self.take(self.span(8)), "big", signed=True)

    def count(self, each_bytes: int, what: str, *, least: int = 0) -> int:
        """Return the int32 that tells how many follow, of so many bytes each at least."""
        count = self.int32()
        if not least <= count <= self.left // each_bytes:
            message = f"{count} {what} in {self.left} bytes"
            raise FormatError(message)
        return count

    def varint(self) -> int:
        """Return the next zig-zag base-128 number, as ``ByteUtils.readVarint`` does."""
        bits = 0
        for place in range(_VARINT_BYTES):
            byte = self.byte()
            bits |= (byte & _BITS) << (7 * place)
            if not byte & _MORE:
                return (bits >> 1) ^ -(bits & 1)
        message = f"a varint of more than {_VARINT_BYTES} bytes"
        raise FormatError(message)

    def finish(self) -> None:
        """Check that nothing is left."""
        if self.left:
            message = f"{_bytes(self.left)} left over"
            raise FormatError(message)


def _bytes(count: int) -> str:
    return f"{count} byte" if count == 1 else f"{count} bytes"


def _cut_headers(values: ByteColumn) -> ValueParts:
    """Return values without the headers in front of them, and the headers."""
    rows = np.flatnonzero((values.first_bytes() != 0) & ~values.is_null)
    places, after, problems = _places(values, rows)
    starts = values.part(1).starts
    starts[rows] = after
    rest = ByteColumn(values.data, starts, values.ends, values.is_null)
    known = except_at(problems, len(values)) & ~values.is_null
    row, name, name_end, value, value_end, is_null = places.T
    whole = np.zeros(len(row), dtype=np.bool_)
    names = ByteColumn(values.data, name, name_end, whole).to_arrow().cast(pa.string())
    held = ByteColumn(values.data, value, value_end, is_null == 1).to_arrow().cast(pa.binary())
    return ValueParts(rest, None, _of_rows(row, names, held, known), problems)


def headers_array(found: Mapping[int, RecordHeaders], known: NDArray[np.bool_]) -> pa.Array:
    """Return the headers of all rows, null where it is not known whether they have any.

    ``found`` are those of rows that have some, by their positions.
    """
    flat = [(row, *header) for row in sorted(found) for header in found[row] or ()]
    names = pa.array([name for _, name, _ in flat], pa.string())
    values = pa.array([value for *_, value in flat], pa.binary())
    return _of_rows(np.array([row for row, *_ in flat], dtype=np.int64), names, values, known)


def _of_rows(
    row: NDArray[np.int64], names: pa.Array, values: pa.Array, known: NDArray[np.bool_]
) -> pa.Array:
    """Return names and values, given in the order of their rows, as lists."""
    counts = np.bincount(row, minlength=len(known))
    offsets = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(counts, dtype=np.int32)])
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=HEADERS, mask=pa.array(~known))


def _places(
    values: ByteColumn, rows: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, str]]:
    """Return where the headers of rows lie, where each row goes on behind them, and what is wrong.

    A header is a row: where its name begins and has ended, where its value does, 1 if that is null.
    """
    places, after, done = _read_at_once(values, rows)
    found, problems = [places], dict[int, str]()
    data = values.data.data
    for at in np.flatnonzero(~done).tolist():
        row = int(rows[at])
        cursor = Cursor(data, int(values.starts[row]), int(values.ends[row]))
        after[at] = min(values.starts[row] + 1, values.ends[row])
        try:
            headers = _read(cursor)
            after[at] = cursor.at
        except FormatError as error:
            problems[row] = f"no headers in front of the value: {error.message}"
            continue
        found.append(np.insert(np.array(headers, np.int64).reshape(-1, 5), 0, row, axis=1))
    joined = np.concatenate(found)
    if (joined[1:, 0] < joined[:-1, 0]).any():
        joined = joined[np.argsort(joined[:, 0], kind="stable")]
    return joined, after, problems


def _read(cursor: Cursor) -> array[int]:
    inside = cursor.within(cursor.varint())
    headers = array("q")
    for _ in range(inside.varint() if inside.left else 0):
        name = inside.text_at(inside.varint_sized())
        value = inside.varint_sized()
        headers.extend((*name, *(value or (0, 0)), value is None))
    inside.finish()
    return headers


_TIMESTAMP_BYTES = 8
_NONE_MS = -1  # the timestamp of a value that was written before the store had timestamps


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
    """Return what lies in front of the values of a store's column family."""
    if family == DEFAULT:
        return Wrapping.TIMESTAMP if kind in _STAMPED_BY_DEFAULT else Wrapping.NOTHING
    if family not in _BY_FAMILY:
        message = f"Kafka Streams keeps no rows in a column family {family!r}."
        raise FormatError(message, hint=f"It does in {DEFAULT}, {', '.join(_BY_FAMILY)}.")
    return _BY_FAMILY[family]


@dataclass(frozen=True, slots=True, eq=False)
class ValueParts:
    """What is in values; of rows with a problem, nothing in particular.

    Times are epoch ms UTC, null where a value has none. Headers are empty where a value has none,
    null where they can't be read. Either is None if no value of the kind has any.
    """

    value: ByteColumn
    timestamp_ms: pa.Array | None
    headers: pa.Array | None
    problems: dict[int, str]


def cut_values(values: ByteColumn, wrapping: Wrapping) -> ValueParts:
    """Return values without what lies in front of them, and what that says.

    >>> value = ByteColumn.of([bytes.fromhex("0000018bcfe56800") + b"42"])
    >>> parts = cut_values(value, Wrapping.TIMESTAMP)
    >>> parts.value.to_list(), parts.timestamp_ms.to_pylist()
    ([b'42'], [1700000000000])
    """
    has_headers, has_timestamp = wrapping.value
    front = _cut_headers(values) if has_headers else ValueParts(values, None, None, {})
    if not has_timestamp:
        return front
    rest = front.value
    fits = rest.lengths >= _TIMESTAMP_BYTES
    times = integers_of(fits, rest, 8, at=0)
    short = said_of(~fits & ~rest.is_null, "the value is shorter than its timestamp of 8 bytes")
    return ValueParts(
        either(fits, rest.part(_TIMESTAMP_BYTES), rest),
        nullable(times, fits & (times != _NONE_MS)),
        front.headers,
        short | front.problems,
    )
