"""Record headers in front of a value.

::

    size (varint) | count (varint) | { name length (varint) | name | length (varint) | value } ...

A varint is zig-zag base-128; a value of length -1 is null. No headers are the one byte 00, which is
how almost every value begins (``HeadersSerializer`` of Kafka Streams 4.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.rowcolumns import HEADERS
from kstoolkit.formats.streams.cursor import Cursor
from kstoolkit.formats.streams.masked import except_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Header", "HeaderParts", "cut_headers", "headers_array"]


class Header(NamedTuple):
    """A record header."""

    name: str
    value: bytes | None


class HeaderParts(NamedTuple):
    """Values without the headers in front of them; the headers; and what is wrong, by row.

    The headers are None where values have none in front.
    """

    rest: ByteColumn
    headers: pa.Array | None
    problems: dict[int, str]


def cut_headers(values: ByteColumn) -> HeaderParts:
    r"""Return values without the headers in front of them, and the headers.

    Examples
    --------
    >>> parts = cut_headers(ByteColumn.of([b"\x00plain", bytes.fromhex("0c02026b04767641")]))
    >>> parts.rest.to_list()
    [b'plain', b'A']
    >>> parts.headers.to_pylist()
    [[], [{'name': 'k', 'value': b'vv'}]]
    """
    starts = values.part(1).starts
    data = values.data.data
    found: dict[int, list[Header]] = {}
    problems: dict[int, str] = {}
    for row in np.flatnonzero((values.first_bytes() != 0) & ~values.is_null).tolist():
        cursor = Cursor(data, int(values.starts[row]), int(values.ends[row]))
        try:
            found[row] = _read(data, cursor)
            starts[row] = cursor.at
        except FormatError as error:
            problems[row] = f"no headers in front of the value: {error.message}"
    rest = ByteColumn(values.data, starts, values.ends, values.is_null)
    known = except_at(problems, len(values)) & ~values.is_null
    return HeaderParts(rest, headers_array(found, known), problems)


def headers_array(found: Mapping[int, list[Header]], known: NDArray[np.bool_]) -> pa.Array:
    """Return the headers of all rows, null where they are not known.

    Parameters
    ----------
    found
        The headers of those rows that have some, by their positions.
    known
        Of which rows it is known whether they have any.
    """
    counts = np.zeros(len(known) + 1, dtype=np.int32)
    for row, headers in found.items():
        counts[row + 1] = len(headers)
    flat = [header for row in sorted(found) for header in found[row]]
    names = pa.array([header.name for header in flat], pa.string())
    values = pa.array([header.value for header in flat], pa.binary())
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    offsets = pa.array(np.cumsum(counts, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pairs, type=HEADERS, mask=pa.array(~known))


def _read(data: memoryview, cursor: Cursor) -> list[Header]:
    start, end = cursor.span(cursor.varint())
    inside = Cursor(data, start, end)
    headers = [_header(inside) for _ in range(inside.varint())] if inside.left else []
    inside.finish()
    return headers


def _header(cursor: Cursor) -> Header:
    name = cursor.text(cursor.varint_sized())
    value = cursor.varint_sized()
    return Header(name, None if value is None else cursor.take(value))
