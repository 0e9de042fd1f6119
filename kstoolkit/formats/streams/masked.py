"""Numbers and parts of those rows that have them; what the others lack is said elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from kstoolkit.formats.bytecolumn import ByteColumn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


def integers_of(
    which: NDArray[np.bool_], column: ByteColumn, width: Literal[1, 2, 4, 8], *, at: int
) -> NDArray[np.int64]:
    """Return big-endian numbers of some rows, which must be long enough; 0 for the others.

    Examples
    --------
    >>> column = ByteColumn.of([b"abc" + bytes([0, 7]), b"a"])
    >>> integers_of(column.lengths >= 2, column, 2, at=-2).tolist()
    [7, 0]
    """
    numbers = np.zeros(len(column), dtype=np.int64)
    numbers[which] = column.take(which).integers(width, at=at)
    return numbers


def either(which: NDArray[np.bool_], column: ByteColumn, other: ByteColumn) -> ByteColumn:
    """Return some rows of one column and the rest of another; both are cut from the same bytes.

    Examples
    --------
    >>> column = ByteColumn.of([b"abc", b"xyz"])
    >>> either(np.array([True, False]), column.part(1), column).to_list()
    [b'bc', b'xyz']
    """
    return ByteColumn(
        column.data,
        np.where(which, column.starts, other.starts),
        np.where(which, column.ends, other.ends),
        np.where(which, column.is_null, other.is_null),
    )


def spans(data: NDArray[np.uint8], found: Iterable[tuple[int, int] | None]) -> ByteColumn:
    """Return the pieces of some bytes that lie from one place up to another; None is null.

    Examples
    --------
    >>> spans(np.frombuffer(b"abcd", np.uint8), [(1, 3), None]).to_list()
    [b'bc', None]
    """
    listed = list(found)
    ends = np.array([each or (0, 0) for each in listed], dtype=np.int64).reshape(-1, 2)
    is_null = np.array([each is None for each in listed], dtype=np.bool_)
    return ByteColumn(data, ends[:, 0], ends[:, 1], is_null)


def nullable(numbers: NDArray[np.int64], good: NDArray[np.bool_]) -> pa.Array:
    """Return numbers as Arrow int64, null in rows that are not good.

    Examples
    --------
    >>> nullable(np.array([5, 7]), np.array([True, False])).to_pylist()
    [5, None]
    """
    return pa.array(numbers, pa.int64(), mask=~good)


def known(column: pa.Array | None, good: NDArray[np.bool_]) -> pa.Array | None:
    """Return a column, if there is one, null in rows that are not good.

    Examples
    --------
    >>> known(pa.array(["a", "b"]), np.array([True, False])).to_pylist()
    ['a', None]
    """
    if column is None or good.all():
        return column
    return column.take(pa.array(np.arange(len(good)), mask=~good))


def said_of(which: NDArray[np.bool_], why: str) -> dict[int, str]:
    """Return the same reason for each of some rows.

    Examples
    --------
    >>> said_of(np.array([False, True]), "too short")
    {1: 'too short'}
    """
    return dict.fromkeys(np.flatnonzero(which).tolist(), why)


def except_at(positions: Iterable[int], count: int) -> NDArray[np.bool_]:
    """Return a mask of ``count`` rows that leaves some positions out.

    Examples
    --------
    >>> except_at([1], 3).tolist()
    [True, False, True]
    """
    left = np.ones(count, dtype=np.bool_)
    left[list(positions)] = False
    return left
