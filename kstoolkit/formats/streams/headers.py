"""Record headers in front of a value.

::

    size (varint) | count (varint) | { name length (varint) | name | length (varint) | value } ...

A varint is zig-zag base-128; a value of length -1 is null. No headers are the one byte 00, which is
how almost every value begins (``HeadersSerializer`` of Kafka Streams 4.3).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.rowcolumns import HEADERS
from kstoolkit.formats.streams.cursor import Cursor
from kstoolkit.formats.streams.headerplaces import read_at_once
from kstoolkit.formats.streams.masked import except_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


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
    rows = np.flatnonzero((values.first_bytes() != 0) & ~values.is_null)
    places, after, problems = _places(values, rows)
    starts = values.part(1).starts
    starts[rows] = after
    rest = ByteColumn(values.data, starts, values.ends, values.is_null)
    known = except_at(problems, len(values)) & ~values.is_null
    return HeaderParts(rest, _lists(values.data, places, known), problems)


def headers_array(found: Mapping[int, list[Header]], known: NDArray[np.bool_]) -> pa.Array:
    """Return the headers of all rows, null where they are not known.

    Parameters
    ----------
    found
        The headers of those rows that have some, by their positions.
    known
        Of which rows it is known whether they have any.

    Examples
    --------
    >>> headers_array({1: [Header("k", None)]}, np.array([True, True, False])).to_pylist()
    [[], [{'name': 'k', 'value': None}], None]
    """
    row = [row for row in sorted(found) for _ in found[row]]
    flat = [header for row in sorted(found) for header in found[row]]
    names = pa.array([header.name for header in flat], pa.string())
    values = pa.array([header.value for header in flat], pa.binary())
    return _of_rows(np.array(row, dtype=np.int64), names, values, known)


def _of_rows(
    row: NDArray[np.int64], names: pa.Array, values: pa.Array, known: NDArray[np.bool_]
) -> pa.Array:
    """Return names and values, given in the order of their rows, as lists."""
    counts = np.bincount(row, minlength=len(known))
    offsets = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(counts, dtype=np.int32)])
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=HEADERS, mask=pa.array(~known))


def _lists(
    data: NDArray[np.uint8], places: NDArray[np.int64], known: NDArray[np.bool_]
) -> pa.Array:
    row, name, name_end, value, value_end, is_null = places.T
    names = ByteColumn(data, name, name_end, np.zeros(len(row), dtype=np.bool_)).to_arrow()
    values = ByteColumn(data, value, value_end, is_null == 1).to_arrow()
    return _of_rows(row, names.cast(pa.string()), values.cast(pa.binary()), known)


def _places(
    values: ByteColumn, rows: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, str]]:
    """Return where the headers of rows lie, where each row goes on behind them, and what is wrong.

    A header is a row, where its name begins and has ended, where its value does, and 1 if that is
    null.
    """
    places, after, done = read_at_once(values, rows)
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
