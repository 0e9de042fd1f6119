"""Spark's UnsafeRow: the rows of its state, read by their schema into columns.

::

    row:    null bits, 8 bytes a 64 columns · a word of 8 bytes a column · what does not fit in one
    array:  number of elements (8) · null bits, 8 bytes a 64 · elements, padded to 8 · what …
    map:    bytes of the keys' array (8) · array of keys · array of values

Everything is little-endian. A value that does not fit in its word lies behind the words, and the
word is ``where << 32 | length``, counted from the start of the row or array. A struct within a row
is a row at such a place. In an array, a value that fits in a word takes only its own width
(``org.apache.spark.sql.catalyst.expressions.UnsafeRow``, ``UnsafeArrayData``, ``UnsafeMapData``).

Where a value lies is known before it is read, so whole columns are read at once. Spark writes no
byte twice, so the values of a row or array may together be no longer than it is. That is checked,
so that what is read is never larger than a small multiple of what was given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pyarrow as pa

from kstoolkit.formats.columns import ByteColumn, Decoded, except_at, is_utf8, run_edges
from kstoolkit.formats.serdes import Serde
from kstoolkit.formats.spark.types import (
    INTERVAL,
    WORD_BYTES,
    Array,
    Map,
    Scalar,
    Struct,
    Unread,
    Variable,
    schema_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.spark.types import SparkType

_DTYPES = {"boolean": "<u1", "byte": "<i1", "short": "<i2", "float": "<f4", "double": "<f8"}
_DTYPES |= dict.fromkeys(("integer", "date", "months"), "<i4")
_DECIMAL_BYTES, _INTERVAL_BYTES, _NANOS_A_MICRO = 16, 16, 1000
_DAY_MICROS = 86_400_000_000
_MORE_DIGITS = "a decimal of more digits than its type has"
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_MOMENTS = (_FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1)
_RANGES = {"timestamp": _MOMENTS, "timestamp_ntz": _MOMENTS, "date": (_FIRST_DAY, _LAST_DAY)}
_RANGES["time"] = (0, _DAY_MICROS * _NANOS_A_MICRO - 1)
"""What Python's dates and times can say; Spark's reach further."""


@dataclass(frozen=True, slots=True, eq=False)
class RowCells:
    """Where values that have bytes of their own begin and have ended; both 0 where none is there.

    ``owner`` is the row that each value is somewhere in.
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

    def only(self, kept: NDArray[np.bool_]) -> RowCells:
        """Return the cells, of which those that are not kept count as not there."""
        has = self.has & kept
        return RowCells(np.where(has, self.starts, 0), np.where(has, self.ends, 0), has, self.owner)


@dataclass(frozen=True, slots=True, eq=False)
class RowReading:
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
        return np.asarray((octets >> (index % 8)) & 1 == 1)

    def require(self, cells: RowCells, fine: NDArray[np.bool_], why: str) -> RowCells:
        """Return the cells that are fine; the rows of the others have a problem."""
        self.refuse(cells.owner[cells.has & ~fine], why)
        return cells.only(fine)

    def refuse(self, rows: NDArray[np.intp], why: str) -> None:
        """Note what is wrong with some rows; what was noted first is kept."""
        for row in np.unique(rows).tolist():
            self.problems.setdefault(row, why)


def validity(has: NDArray[np.bool_]) -> pa.Buffer | None:
    """Return Arrow's bits of what is there; None if everything is."""
    return None if has.all() else pa.py_buffer(np.packbits(has, bitorder="little"))


def _read_scalar(
    reading: RowReading, kind: Scalar, at: NDArray[np.int64], slots: RowCells
) -> pa.Array:
    """Return the values of a type that fits in a word, each at its place."""
    has, owner = slots.has, slots.owner
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


def _read_variable(reading: RowReading, kind: Variable | Unread, cells: RowCells) -> pa.Array:
    """Return the values of a type without parts that lies behind the words."""
    if kind.name == "decimal":
        return _decimals(reading, kind.arrow, cells)
    if kind.name == "interval":
        return _intervals(reading, cells)
    raw = ByteColumn(reading.data, cells.starts, cells.ends, ~cells.has).to_arrow()
    return _strings(reading, raw, cells) if kind.name == "string" else raw


def _strings(reading: RowReading, raw: pa.Array, cells: RowCells) -> pa.Array:
    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        fine = np.array([is_utf8(cell or b"") for cell in raw.to_pylist()], dtype=bool)
        kept = reading.require(cells, fine, "a string that is no UTF-8")
        raw = ByteColumn(reading.data, kept.starts, kept.ends, ~kept.has).to_arrow()
        return raw.cast(pa.large_string())


def _decimals(reading: RowReading, arrow: pa.DataType, cells: RowCells) -> pa.Array:
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


def _intervals(reading: RowReading, cells: RowCells) -> pa.Array:
    cells = reading.require(cells, cells.lengths == _INTERVAL_BYTES, "an interval not of 16 bytes")
    places = ((0, "<i4"), (4, "<i4"), (8, "<i8"))
    parts = [pa.array(reading.numbers(cells.starts + at, kind, cells.has)) for at, kind in places]
    return pa.Array.from_buffers(INTERVAL, len(cells), [validity(cells.has)], children=parts)


_LENGTH_BITS, _LENGTH_MASK = 32, 0xFFFFFFFF
_UNEVEN = "a map with more or fewer values than keys"
_OUTSIDE = "a value that lies outside of its row"
_SHORT = "a row shorter than its columns"
_OVERLAP = "values that lie in each other"


def _read_structs(reading: RowReading, kind: Struct, cells: RowCells) -> pa.Array:
    head = _bitset_bytes(kind.count)
    fixed = head + WORD_BYTES * kind.count
    cells = reading.require(cells, cells.lengths >= fixed, _SHORT)
    room = cells.lengths - fixed
    columns = []
    for each in kind.fields:
        has = cells.has & ~reading.bits(cells.starts, each.position, cells.has)
        at = cells.starts + head + WORD_BYTES * each.position
        slots = RowCells(cells.starts, cells.ends, has, cells.owner)
        if isinstance(each.type, Scalar) or _is_raw_word(each.type):
            columns.append(_words(reading, each.type, at, slots))
            continue
        inner = _pointed(reading, at, slots, fixed)
        room = room - inner.lengths
        inner = reading.require(inner, room >= 0, _OVERLAP)
        columns.append(_variables(reading, each.type, inner))
    # There may be no columns, which would not tell how many rows there are.
    return pa.Array.from_buffers(kind.arrow, len(cells), [validity(cells.has)], children=columns)


def _words(
    reading: RowReading, kind: Scalar | Unread, at: NDArray[np.int64], slots: RowCells
) -> pa.Array:
    """Return values that fit in a word, or of an unknown type the words themselves."""
    if isinstance(kind, Scalar):
        return _read_scalar(reading, kind, at, slots)
    raw = RowCells(at, at + kind.width, slots.has, slots.owner).only(slots.has)
    return _read_variable(reading, kind, raw)


def _variables(
    reading: RowReading, kind: Struct | Array | Map | Variable | Unread, cells: RowCells
) -> pa.Array:
    match kind:
        case Struct():
            return _read_structs(reading, kind, cells)
        case Array():
            return _lists(reading, kind, cells)
        case Map():
            return _maps(reading, kind, cells)
        case _:
            return _read_variable(reading, kind, cells)


def _lists(reading: RowReading, kind: Array, cells: RowCells) -> pa.Array:
    cells, count = _counts(reading, cells, kind.element.width)
    offsets = run_edges(count)
    elements = _elements(reading, kind.element, cells, offsets)
    buffers = [validity(cells.has), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind.arrow, len(cells), buffers, children=[elements])


def _maps(reading: RowReading, kind: Map, cells: RowCells) -> pa.Array:
    cells = reading.require(cells, cells.lengths >= WORD_BYTES, _OUTSIDE)
    size = reading.longs(cells.starts, cells.has)
    fine = (size >= 0) & (size <= cells.lengths - WORD_BYTES)
    cells = reading.require(cells, fine, _OUTSIDE)
    middle = np.where(cells.has, cells.starts + WORD_BYTES + size, 0)
    begin = np.where(cells.has, cells.starts + WORD_BYTES, 0)
    keys = RowCells(begin, middle, cells.has, cells.owner)
    values = RowCells(middle, cells.ends, cells.has, cells.owner)
    keys, count = _counts(reading, keys, kind.key.width)
    values, other = _counts(reading, values, kind.value.width)
    cells = reading.require(cells, (count == other) & keys.has & values.has, _UNEVEN)
    offsets = run_edges(np.where(cells.has, count, 0))
    keys_of = _elements(reading, kind.key, keys.only(cells.has), offsets)
    values_of = _elements(reading, kind.value, values.only(cells.has), offsets)
    return _map_array(reading, kind, cells, offsets, (keys_of, values_of))


def _map_array(
    reading: RowReading,
    kind: Map,
    cells: RowCells,
    offsets: NDArray[np.int64],
    pairs: tuple[pa.Array, pa.Array],
) -> pa.Array:
    """Return maps of pairs. One with a null key is left out: Arrow has none, and would abort."""
    parent = np.repeat(np.arange(len(cells)), np.diff(offsets))
    fine = np.ones(len(cells), dtype=bool)
    fine[parent[np.asarray(pairs[0].is_null())]] = False
    cells = reading.require(cells, fine, "a map with a key that is null")
    count = np.where(fine, np.diff(offsets), 0)
    kept = [each.filter(pa.array(fine[parent])) for each in pairs]
    key = pa.field("key", kind.key.arrow, nullable=False)
    pair = pa.struct([key, pa.field("value", kind.value.arrow)])
    entries = pa.Array.from_buffers(pair, int(count.sum()), [None], children=kept)
    # A batch of rows is shorter than 2 GiB, of which each pair takes some bytes.
    buffers = [validity(cells.has), pa.py_buffer(run_edges(count).astype(np.int32))]
    return pa.Array.from_buffers(kind.arrow, len(cells), buffers, children=[entries])


def _counts(reading: RowReading, cells: RowCells, width: int) -> tuple[RowCells, NDArray[np.int64]]:
    """Return how many elements each array has, and the arrays that have room for them."""
    cells = reading.require(cells, cells.lengths >= WORD_BYTES, _OUTSIDE)
    count = reading.longs(cells.starts, cells.has)
    fine = (count >= 0) & (count <= cells.lengths)  # first, lest what comes next overflows
    cells = reading.require(cells, fine, _OUTSIDE)
    count = np.where(cells.has, count, 0)
    cells = reading.require(cells, _fixed_bytes(count, width) <= cells.lengths, _OUTSIDE)
    return cells, np.where(cells.has, count, 0)


def _elements(
    reading: RowReading, kind: SparkType, cells: RowCells, offsets: NDArray[np.int64]
) -> pa.Array:
    count = np.diff(offsets)
    parent = np.repeat(np.arange(len(cells)), count)
    index = np.arange(offsets[-1]) - offsets[parent]
    begin, owner = cells.starts[parent], cells.owner[parent]
    everyone = np.ones(len(parent), dtype=bool)
    has = ~reading.bits(begin + WORD_BYTES, index, everyone)
    at = begin + WORD_BYTES + _bitset_bytes(count)[parent] + index * kind.width
    slots = RowCells(begin, cells.ends[parent], has, owner)
    if isinstance(kind, Scalar) or _is_raw_word(kind):
        return _words(reading, kind, at, slots)
    fixed = _fixed_bytes(count, kind.width)
    inner = _pointed(reading, at, slots, fixed[parent])
    used = run_edges(inner.lengths)[offsets]
    fits = np.diff(used) <= cells.lengths - fixed
    return _variables(reading, kind, reading.require(inner, fits[parent], _OVERLAP))


def _pointed(
    reading: RowReading, at: NDArray[np.int64], slots: RowCells, first: int | NDArray[np.int64]
) -> RowCells:
    """Return where the values lie that the words at some places point to."""
    words = reading.longs(at, slots.has)
    where, length = words >> _LENGTH_BITS, words & _LENGTH_MASK
    fine = (where >= first) & (where + length <= slots.lengths)
    kept = reading.require(slots, fine, _OUTSIDE)
    begin = np.where(kept.has, kept.starts + where, 0)
    return RowCells(begin, np.where(kept.has, begin + length, 0), kept.has, kept.owner)


def _bitset_bytes(count: Any) -> Any:
    return (count + 63) // 64 * WORD_BYTES


def _fixed_bytes(count: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    return np.asarray(WORD_BYTES + _bitset_bytes(count) + count * width)


def _is_raw_word(kind: SparkType) -> TypeGuard[Unread]:
    return isinstance(kind, Unread) and not kind.is_variable


def row_serde(schema: str | bytes | dict[str, Any] | Struct) -> Serde:
    """Return what reads rows of a schema: a struct a row, null where it could not be read.

    The schema is Spark's JSON of a StructType, or the columns that
    :func:`~kstoolkit.formats.spark.types.schema_of` made of it.
    """
    struct = schema if isinstance(schema, Struct) else schema_of(schema)
    return Serde("spark row", lambda column: read_rows(column, struct))


def read_rows(column: ByteColumn, struct: Struct) -> Decoded:
    """Return the rows of a column as Arrow structs.

    >>> one = schema_of({"type": "struct", "fields": [{"name": "n", "type": "long"}]})
    >>> read_rows(ByteColumn.of([bytes([1]) + bytes(15), None]), one).values.to_pylist()
    [{'n': None}, None]
    """
    reading = RowReading(np.ascontiguousarray(column.data))
    cells = RowCells(column.starts, column.ends, ~column.is_null, np.arange(len(column)))
    rows = _read_structs(reading, struct, cells)
    if reading.problems:
        has = ~column.is_null & except_at(reading.problems, len(column))
        rows = pa.Array.from_buffers(rows.type, len(has), [validity(has)], children=rows.flatten())
    return Decoded(rows, reading.problems)
