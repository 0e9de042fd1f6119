"""The grace buffer of a stream-table join: records that wait, each with where it came from.

::

    key             00 | timestamp (int64) | key | sequence (int32)
    value           timestamp (int64) | offset (int64) | topic | partition (int32)
                    | count (int32) | { header name | header value } ...
                    | prior value | old value | new value

Each name and value has its length (int32) in front, -1 if it is null; -2 as the old value's means
that it is the prior one. (``BufferValue`` and ``ProcessorRecordContext`` of Kafka Streams 3.6.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.rowcolumns import RowColumns
from kstoolkit.formats.streams.cursor import Cursor
from kstoolkit.formats.streams.headers import Header, headers_array
from kstoolkit.formats.streams.keys import time_ordered_window_keys
from kstoolkit.formats.streams.masked import either, except_at, said_of, spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn


_HEADER_BYTES = 8
_AS_PRIOR = -2


@dataclass(frozen=True, slots=True)
class BufferedRecord:
    """A record that waits; where its values lie, or None for null ones."""

    timestamp_ms: int
    offset: int
    topic: str
    partition: int
    headers: list[Header]
    prior: tuple[int, int] | None
    old: tuple[int, int] | None
    new: tuple[int, int] | None


def read_buffered(data: memoryview, start: int, end: int) -> BufferedRecord:
    """Return the record that waits in a value.

    Parameters
    ----------
    data
        The bytes of all rows.
    start, end
        Where this value's lie.

    Raises
    ------
    FormatError
        If they are no such record.

    Examples
    --------
    >>> value = bytes.fromhex(
    ...     "0000018bcfe568000000000000000007" "00000002696e" "00000000" "00000000"
    ...     "ffffffff" "ffffffff" "000000017a"
    ... )
    >>> record = read_buffered(memoryview(value), 0, len(value))
    >>> record.topic, record.offset, value[slice(*record.new)]
    ('in', 7, b'z')
    """
    cursor = Cursor(data, start, end)
    timestamp_ms, offset = cursor.int64(), cursor.int64()
    topic, partition = cursor.text(cursor.sized()), cursor.int32()
    headers = _headers(cursor)
    prior = cursor.sized()
    length = cursor.int32()
    old = prior if length == _AS_PRIOR else None if length == -1 else cursor.span(length)
    new = cursor.sized()
    cursor.finish()
    return BufferedRecord(timestamp_ms, offset, topic, partition, headers, prior, old, new)


def split_buffer(keys: ByteColumn, values: ByteColumn) -> RowColumns:
    """Return the records that wait; a row's value is the record's new value.

    The details are ``topic``, ``partition`` and ``offset`` of where it came from, ``prior`` and
    ``old``, the values before it, and ``sequence``.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> key = ByteColumn.of([bytes.fromhex("000000018bcfe568004100000000")])
    >>> value = bytes.fromhex(
    ...     "0000018bcfe568000000000000000007" "00000002696e" "00000000" "00000000"
    ...     "ffffffff" "ffffffff" "000000017a"
    ... )
    >>> rows = split_buffer(key, ByteColumn.of([value]))
    >>> rows.key.to_list(), rows.value.to_list(), rows.details["topic"].to_pylist()
    ([b'A'], [b'z'], ['in'])
    """
    parts = time_ordered_window_keys(keys)
    found: dict[int, BufferedRecord] = {}
    problems = said_of(parts.is_index, "the key begins with 01, and there is no index here")
    problems |= parts.problems
    data = values.data.data
    for row in np.flatnonzero(except_at(problems, len(keys))).tolist():
        try:
            found[row] = read_buffered(data, int(values.starts[row]), int(values.ends[row]))
        except FormatError as error:
            problems[row] = f"the value is no record that waits: {error.message}"
    return _rows(keys, values, parts.key, parts.sequence, found=found, problems=problems)


def _rows(
    keys: ByteColumn,
    values: ByteColumn,
    key: ByteColumn,
    sequence: NDArray[np.int64] | None,
    *,
    found: dict[int, BufferedRecord],
    problems: dict[int, str],
) -> RowColumns:
    good = except_at(problems, len(keys))
    records = [found.get(row) for row in range(len(keys))]
    new = spans(values.data, [None if each is None else each.new for each in records])
    prior = spans(values.data, [None if each is None else each.prior for each in records])
    old = spans(values.data, [None if each is None else each.old for each in records])
    return RowColumns(
        np.arange(len(keys)),
        either(good, key, keys),
        either(good, new, values),
        timestamp_ms=pa.array([each and each.timestamp_ms for each in records], pa.int64()),
        headers=headers_array({row: each.headers for row, each in found.items()}, good),
        problems=problems,
        details={
            "topic": pa.array([each and each.topic for each in records], pa.string()),
            "partition": pa.array([each and each.partition for each in records], pa.int64()),
            "offset": pa.array([each and each.offset for each in records], pa.int64()),
            "prior": prior.to_arrow(),
            "old": old.to_arrow(),
            "sequence": pa.array(sequence, pa.int64(), mask=~good),
        },
    )


def _headers(cursor: Cursor) -> list[Header]:
    count = cursor.int32()
    if not -1 <= count <= cursor.left // _HEADER_BYTES:  # -1, from old releases: none either
        message = f"{count} headers in {cursor.left} bytes"
        raise FormatError(message)
    return [_header(cursor) for _ in range(count)]


def _header(cursor: Cursor) -> Header:
    name = cursor.text(cursor.sized())
    value = cursor.sized()
    return Header(name, None if value is None else cursor.take(value))
