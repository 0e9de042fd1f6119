"""Values without parts, out of the words of Spark's rows: whole columns of them at once.

Where a value lies is known before it is read: see :mod:`kstoolkit.formats.spark.unsaferow`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.spark.sparktypes import INTERVAL, Unread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.spark.sparktypes import Scalar, Variable


_DTYPES = {
    "boolean": "<u1",
    "byte": "<i1",
    "short": "<i2",
    "integer": "<i4",
    "date": "<i4",
    "months": "<i4",
    "float": "<f4",
    "double": "<f8",
}
_DECIMAL_BYTES, _INTERVAL_BYTES, _NANOS_A_MICRO = 16, 16, 1000
_DAY_MICROS = 86_400_000_000
_MORE_DIGITS = "a decimal of more digits than its type has"
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_RANGES = {
    "date": (_FIRST_DAY, _LAST_DAY),
    "timestamp": (_FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1),
    "timestamp_ntz": (_FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1),
    "time": (0, _DAY_MICROS * _NANOS_A_MICRO - 1),
}
"""What Python's dates and times can say; Spark's reach further."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Where values that have bytes of their own begin and have ended, and which row they are of.

    Parameters
    ----------
    starts, ends
        Places in the data; of a value that is not there, both are 0.
    has
        Which of the values are there.
    owner
        The row that each value is somewhere in.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    has: NDArray[np.bool_]
    owner: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many bytes each value has."""
        return self.ends - self.starts

    def only(self, kept: NDArray[np.bool_]) -> Cells:
        """Return the cells, of which those that are not kept count as not there."""
        has = self.has & kept
        return Cells(np.where(has, self.starts, 0), np.where(has, self.ends, 0), has, self.owner)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The bytes of a column of rows, and what was wrong with which of them."""

    data: NDArray[np.uint8]
    problems: dict[int, str] = field(default_factory=dict)

    def numbers(self, at: NDArray[np.int64], dtype: str, has: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the numbers that begin at these places; 0 where there is none."""
        width = np.dtype(dtype).itemsize
        places = max(len(self.data) - width + 1, 0)
        # Numbers of rows lie anywhere: a view of every place, from which the wanted ones are taken.
        view: NDArray[Any] = np.ndarray((places,), dtype, self.data, strides=(1,))
        found = np.zeros(len(at), dtype=dtype)
        found[has] = view[at[has]]
        return found

    def longs(self, at: NDArray[np.int64], has: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the words that begin at these places; 0 where there is none."""
        return self.numbers(at, "<i8", has).astype(np.int64)

    def bits(
        self, at: NDArray[np.int64], index: NDArray[np.int64] | int, has: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return whether the bit of this index is set in the bits that begin at these places."""
        octets = self.numbers(at + index // 8, "<u1", has).astype(np.int64)
        found: NDArray[np.bool_] = (octets >> (index % 8)) & 1 == 1
        return found

    def require(self, cells: Cells, fine: NDArray[np.bool_], why: str) -> Cells:
        """Return the cells that are fine; the rows of the others have a problem."""
        self.refuse(cells.owner[cells.has & ~fine], why)
        return cells.only(fine)

    def refuse(self, rows: NDArray[np.intp], why: str) -> None:
        """Note what is wrong with some rows; what was noted first is kept."""
        for row in np.unique(rows).tolist():
            self.problems.setdefault(row, why)


def validity(has: NDArray[np.bool_]) -> pa.Buffer | None:
    r"""Return Arrow's bits of what is there; None if everything is.

    Examples
    --------
    >>> validity(np.array([True, False, True])).to_pybytes()
    b'\x05'
    """
    return None if has.all() else pa.py_buffer(np.packbits(has, bitorder="little"))


def read_scalar(
    reading: Reading,
    kind: Scalar,
    at: NDArray[np.int64],
    has: NDArray[np.bool_],
    owner: NDArray[np.intp],
) -> pa.Array:
    """Return the values of a type that fits in a word, each at its place.

    Examples
    --------
    >>> from kstoolkit.formats.spark.sparktypes import Scalar
    >>> reading, both = Reading(np.frombuffer(bytes([7, 0, 9, 0]), np.uint8)), np.array([True] * 2)
    >>> kind, rows = Scalar("short", 2, pa.int16()), np.array([0, 1])
    >>> read_scalar(reading, kind, np.array([0, 2]), both, rows).to_pylist()
    [7, 9]
    """
    if pa.types.is_null(kind.arrow):
        return pa.nulls(len(at))
    numbers = reading.numbers(at, _DTYPES.get(kind.name, "<i8"), has)
    if kind.name in _RANGES:
        low, high = _RANGES[kind.name]
        fine = (numbers >= low) & (numbers <= high)
        reading.refuse(owner[has & ~fine], f"a {kind.name} that no calendar of Python's has")
        has = has & fine
        numbers = np.where(fine, numbers, 0).astype(numbers.dtype)
    if kind.name == "boolean":
        return pa.array(numbers != 0, mask=~has)
    if kind.name == "time":
        numbers = numbers.astype(np.int64) // _NANOS_A_MICRO
    if kind.name == "decimal":
        numbers = np.stack([numbers, numbers >> 63], axis=1)
        fine = _has_digits(numbers, kind.arrow.precision)
        reading.refuse(owner[has & ~fine], _MORE_DIGITS)
        has = has & fine
    return pa.Array.from_buffers(kind.arrow, len(at), [validity(has), pa.py_buffer(numbers)])


def read_variable(reading: Reading, kind: Variable | Unread, cells: Cells) -> pa.Array:
    """Return the values of a type without parts that lies behind the words.

    Examples
    --------
    >>> from kstoolkit.formats.spark.sparktypes import Variable
    >>> cells = Cells(np.array([1]), np.array([3]), np.array([True]), np.array([0]))
    >>> reading = Reading(np.frombuffer(b"(hi)", np.uint8))
    >>> read_variable(reading, Variable("string", pa.large_string()), cells).to_pylist()
    ['hi']
    """
    if kind.name == "decimal":
        return _decimals(reading, kind.arrow, cells)
    if kind.name == "interval":
        return _intervals(reading, cells)
    raw = ByteColumn(reading.data, cells.starts, cells.ends, ~cells.has).to_arrow()
    return _strings(reading, raw, cells) if kind.name == "string" else raw


def _strings(reading: Reading, raw: pa.Array, cells: Cells) -> pa.Array:
    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        fine = np.array([_is_text(cell) for cell in raw.to_pylist()], dtype=bool)
        kept = reading.require(cells, fine, "a string that is no UTF-8")
        raw = ByteColumn(reading.data, kept.starts, kept.ends, ~kept.has).to_arrow()
        return raw.cast(pa.large_string())


def _is_text(cell: bytes | None) -> bool:
    try:
        (cell or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _decimals(reading: Reading, arrow: pa.DataType, cells: Cells) -> pa.Array:
    """Return numbers of more than 18 digits: big-endian, as few bytes as they need."""
    fine = (cells.lengths > 0) & (cells.lengths <= _DECIMAL_BYTES)
    cells = reading.require(cells, fine, "a decimal of no or of more than 16 bytes")
    first = reading.numbers(cells.starts, "<i1", cells.has)
    filler = np.where(first < 0, 0xFF, 0).astype(np.uint8)
    octets = np.empty((len(cells), _DECIMAL_BYTES), dtype=np.uint8)
    for place in range(_DECIMAL_BYTES):
        inside = cells.lengths > place
        found = reading.numbers(cells.ends - 1 - place, "<u1", inside)
        octets[:, place] = np.where(inside, found, filler)
    cells = reading.require(cells, _has_digits(octets.view("<i8"), arrow.precision), _MORE_DIGITS)
    return pa.Array.from_buffers(arrow, len(cells), [validity(cells.has), pa.py_buffer(octets)])


def _has_digits(words: NDArray[np.int64], digits: int) -> NDArray[np.bool_]:
    """Return which numbers, each a low and a high word, have no more than so many digits."""
    low, high = words[:, 0].view("<u8"), words[:, 1]
    below, above = (
        (number >> 64, np.uint64(number & 0xFFFF_FFFF_FFFF_FFFF))
        for number in (-(10**digits), 10**digits)
    )
    fine: NDArray[np.bool_] = (high > below[0]) | ((high == below[0]) & (low > below[1]))
    fine &= (high < above[0]) | ((high == above[0]) & (low < above[1]))
    return fine


def _intervals(reading: Reading, cells: Cells) -> pa.Array:
    cells = reading.require(cells, cells.lengths == _INTERVAL_BYTES, "an interval not of 16 bytes")
    parts = [
        pa.array(reading.numbers(cells.starts, "<i4", cells.has)),
        pa.array(reading.numbers(cells.starts + 4, "<i4", cells.has)),
        pa.array(reading.numbers(cells.starts + 8, "<i8", cells.has)),
    ]
    return pa.Array.from_buffers(INTERVAL, len(cells), [validity(cells.has)], children=parts)
