"""Where record headers lie, of many rows at once: header by header, each step for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.formats.bytecolumn import ByteColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray


_VARINT_BYTES, _MORE, _BITS = 5, 0x80, 0x7F
_FEW = 64


def read_at_once(
    values: ByteColumn, rows: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return where the headers of rows lie, where each row goes on behind them, and which are read.

    What is left is for reading one by one: rows of which few are as long, and all that are not as
    they should be.

    Parameters
    ----------
    values
        Values that have headers in front.
    rows
        Which of them to read.

    Returns
    -------
    tuple
        A line a header, in no order of the rows but in that of each row: the row, where the name
        begins and has ended, where the value does, 1 if that is null; then one number and one
        truth a row.

    Examples
    --------
    >>> column = ByteColumn.of([bytes.fromhex("0c02026b04767641")] * 100)
    >>> places, after, done = read_at_once(column, np.arange(100))
    >>> places[0].tolist(), int(after[0]), bool(done.all())
    ([0, 3, 4, 5, 7, 0], 7, True)
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
        ByteColumn(values.data, places[:, 1], places[:, 2], whole).to_arrow().cast(
            pa.large_string()
        )
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
