"""Numbers written as bytes that sort as the numbers do: the ordering columns of Spark's keys.

::

    marker (1): 00 negative · 01 not negative · 02 null        value, big-endian

A negative fraction has all its bits flipped, lest the larger sorts first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn
    from kstoolkit.formats.spark.sparktypes import SparkType
    from kstoolkit.formats.spark.unsafeleaves import Reading


_ORDERED_KINDS = {
    "boolean": ">u1",
    "byte": ">i1",
    "short": ">i2",
    "integer": ">i4",
    "long": ">i8",
    "float": ">i4",
    "double": ">i8",
}
_FRACTIONS = {"float": "f4", "double": "f8"}
_NEGATIVE, _POSITIVE, _NULL = 0, 1, 2


def read_ordered(reading: Reading, kind: SparkType, cells: ByteColumn) -> pa.Array:
    r"""Return the values of one ordering column; what is none is a problem of its row.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> from kstoolkit.formats.spark.sparktypes import Scalar
    >>> from kstoolkit.formats.spark.unsafeleaves import Reading
    >>> column = ByteColumn.of([b"\x01\x00\x05", b"\x02\x00\x00"])
    >>> read_ordered(Reading(column.data), Scalar("short", 2, pa.int16()), column).to_pylist()
    [5, None]
    """
    name = getattr(kind, "name", "")
    if name not in _ORDERED_KINDS:
        reading.refuse(np.arange(len(cells)), "a key that is ordered by a column of no number")
        return pa.nulls(len(cells), kind.arrow)
    dtype = np.dtype(_ORDERED_KINDS[name])
    marker = cells.first_bytes()
    fits = (cells.lengths == dtype.itemsize + 1) & (marker <= _NULL)
    reading.refuse(np.flatnonzero(~fits & ~cells.is_null), "an ordering column of another length")
    has = fits & (marker != _NULL)
    bits = np.zeros(len(cells), dtype=dtype.newbyteorder("="))
    places = cells.starts[has][:, None] + np.arange(1, dtype.itemsize + 1)
    bits[has] = np.ascontiguousarray(cells.data[places]).view(dtype).reshape(-1)
    return _values(name, bits, marker, has, kind.arrow)


def _values(
    name: str,
    bits: NDArray[Any],
    marker: NDArray[np.int64],
    has: NDArray[np.bool_],
    arrow: pa.DataType,
) -> pa.Array:
    if name == "boolean":
        return pa.array(bits != 0, mask=~has)
    if name in _FRACTIONS:
        bits = np.where(marker == _NEGATIVE, ~bits, bits).view(_FRACTIONS[name])
    return pa.array(bits, arrow, mask=~has)
