"""Values with parts, out of Spark's rows: structs, arrays and maps, each a column at once.

How they are written is said in :mod:`kstoolkit.formats.spark.unsaferow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.formats.spark.sparktypes import (
    WORD_BYTES,
    Array,
    Map,
    Scalar,
    Struct,
    Unread,
    Variable,
)
from kstoolkit.formats.spark.unsafeleaves import (
    Cells,
    Reading,
    read_scalar,
    read_variable,
    validity,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.spark.sparktypes import SparkType


_LENGTH_BITS, _LENGTH_MASK = 32, 0xFFFFFFFF
_UNEVEN = "a map with more or fewer values than keys"
_OUTSIDE = "a value that lies outside of its row"
_SHORT = "a row shorter than its columns"
_OVERLAP = "values that lie in each other"


def read_structs(reading: Reading, kind: Struct, cells: Cells) -> pa.Array:
    """Return the structs that lie in some cells.

    Examples
    --------
    >>> from kstoolkit.formats.spark.sparktypes import Field
    >>> kind = Struct((Field("n", Scalar("long", 8, pa.int64()), 0),), 1)
    >>> data = np.frombuffer(bytes(8) + bytes([7]) + bytes(7), np.uint8)
    >>> cells = Cells(np.array([0]), np.array([16]), np.array([True]), np.array([0]))
    >>> read_structs(Reading(data), kind, cells).to_pylist()
    [{'n': 7}]
    """
    head = _bitset_bytes(kind.count)
    fixed = head + WORD_BYTES * kind.count
    cells = reading.require(cells, cells.lengths >= fixed, _SHORT)
    room = cells.lengths - fixed
    columns = []
    for field in kind.fields:
        has = cells.has & ~reading.bits(cells.starts, field.position, cells.has)
        at = cells.starts + head + WORD_BYTES * field.position
        slots = Cells(cells.starts, cells.ends, has, cells.owner)
        if isinstance(field.type, Scalar) or _is_raw_word(field.type):
            columns.append(_words(reading, field.type, at, slots))
            continue
        inner = _pointed(reading, at, slots, fixed)
        room = room - inner.lengths
        inner = reading.require(inner, room >= 0, _OVERLAP)
        columns.append(_variables(reading, field.type, inner))
    return struct_array(kind.arrow, cells.has, columns)


def struct_array(arrow: pa.DataType, has: NDArray[np.bool_], columns: list[pa.Array]) -> pa.Array:
    """Return columns as structs; there may be none of them.

    Examples
    --------
    >>> struct_array(pa.struct([]), np.array([True, False]), []).to_pylist()
    [{}, None]
    """
    return pa.Array.from_buffers(arrow, len(has), [validity(has)], children=columns)


def _words(reading: Reading, kind: SparkType, at: NDArray[np.int64], slots: Cells) -> pa.Array:
    """Return values that fit in a word, or of an unknown type the words themselves."""
    if isinstance(kind, Scalar):
        return read_scalar(reading, kind, at, slots.has, slots.owner)
    raw = Cells(at, at + kind.width, slots.has, slots.owner).only(slots.has)
    return read_variable(reading, _raw(kind), raw)


def _variables(
    reading: Reading, kind: Struct | Array | Map | Variable | Unread, cells: Cells
) -> pa.Array:
    match kind:
        case Struct():
            return read_structs(reading, kind, cells)
        case Array():
            return _lists(reading, kind, cells)
        case Map():
            return _maps(reading, kind, cells)
        case _:
            return read_variable(reading, kind, cells)


def _lists(reading: Reading, kind: Array, cells: Cells) -> pa.Array:
    cells, count = _counts(reading, cells, kind.element.width)
    offsets = _offsets(count)
    elements = _elements(reading, kind.element, cells, offsets)
    buffers = [validity(cells.has), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind.arrow, len(cells), buffers, children=[elements])


def _maps(reading: Reading, kind: Map, cells: Cells) -> pa.Array:
    cells = reading.require(cells, cells.lengths >= WORD_BYTES, _OUTSIDE)
    size = reading.longs(cells.starts, cells.has)
    fine = (size >= 0) & (size <= cells.lengths - WORD_BYTES)
    cells = reading.require(cells, fine, _OUTSIDE)
    middle = np.where(cells.has, cells.starts + WORD_BYTES + size, 0)
    begin = np.where(cells.has, cells.starts + WORD_BYTES, 0)
    keys = Cells(begin, middle, cells.has, cells.owner)
    values = Cells(middle, cells.ends, cells.has, cells.owner)
    keys, count = _counts(reading, keys, kind.key.width)
    values, other = _counts(reading, values, kind.value.width)
    cells = reading.require(cells, (count == other) & keys.has & values.has, _UNEVEN)
    offsets = _offsets(np.where(cells.has, count, 0))
    keys_of = _elements(reading, kind.key, keys.only(cells.has), offsets)
    values_of = _elements(reading, kind.value, values.only(cells.has), offsets)
    return _map_array(reading, kind, cells, offsets, (keys_of, values_of))


def _map_array(
    reading: Reading,
    kind: Map,
    cells: Cells,
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
    entries = pa.Array.from_buffers(_entries(kind), int(count.sum()), [None], children=kept)
    # A batch of rows is shorter than 2 GiB, of which each pair takes some bytes.
    buffers = [validity(cells.has), pa.py_buffer(_offsets(count).astype(np.int32))]
    return pa.Array.from_buffers(kind.arrow, len(cells), buffers, children=[entries])


def _entries(kind: Map) -> pa.DataType:
    key = pa.field("key", kind.key.arrow, nullable=False)
    return pa.struct([key, pa.field("value", kind.value.arrow)])


def _counts(reading: Reading, cells: Cells, width: int) -> tuple[Cells, NDArray[np.int64]]:
    """Return how many elements each array has, and the arrays that have room for them."""
    cells = reading.require(cells, cells.lengths >= WORD_BYTES, _OUTSIDE)
    count = reading.longs(cells.starts, cells.has)
    fine = (count >= 0) & (count <= cells.lengths)  # first, lest what comes next overflows
    cells = reading.require(cells, fine, _OUTSIDE)
    count = np.where(cells.has, count, 0)
    cells = reading.require(cells, _fixed_bytes(count, width) <= cells.lengths, _OUTSIDE)
    return cells, np.where(cells.has, count, 0)


def _elements(
    reading: Reading, kind: SparkType, cells: Cells, offsets: NDArray[np.int64]
) -> pa.Array:
    """Return the elements of all arrays, one after the other."""
    count = np.diff(offsets)
    parent = np.repeat(np.arange(len(cells)), count)
    index = np.arange(offsets[-1]) - offsets[parent]
    begin, owner = cells.starts[parent], cells.owner[parent]
    everyone = np.ones(len(parent), dtype=bool)
    has = ~reading.bits(begin + WORD_BYTES, index, everyone)
    at = begin + WORD_BYTES + _bitset_bytes(count)[parent] + index * kind.width
    slots = Cells(begin, cells.ends[parent], has, owner)
    if isinstance(kind, Scalar) or _is_raw_word(kind):
        return _words(reading, kind, at, slots)
    fixed = _fixed_bytes(count, kind.width)
    inner = _pointed(reading, at, slots, fixed[parent])
    used = np.concatenate([[0], np.cumsum(inner.lengths)])[offsets]
    fits = np.diff(used) <= cells.lengths - fixed
    return _variables(reading, kind, reading.require(inner, fits[parent], _OVERLAP))


def _pointed(
    reading: Reading, at: NDArray[np.int64], slots: Cells, first: int | NDArray[np.int64]
) -> Cells:
    """Return where the values lie that the words at some places point to."""
    words = reading.longs(at, slots.has)
    where, length = words >> _LENGTH_BITS, words & _LENGTH_MASK
    fine = (where >= first) & (where + length <= slots.lengths)
    kept = reading.require(slots, fine, _OUTSIDE)
    begin = np.where(kept.has, kept.starts + where, 0)
    return Cells(begin, np.where(kept.has, begin + length, 0), kept.has, kept.owner)


def _offsets(count: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(count, dtype=np.int64)])


def _bitset_bytes(count: Any) -> Any:
    return (count + 63) // 64 * WORD_BYTES


def _fixed_bytes(count: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    fixed: NDArray[np.int64] = WORD_BYTES + _bitset_bytes(count) + count * width
    return fixed


def _is_raw_word(kind: SparkType) -> bool:
    return isinstance(kind, Unread) and not kind.is_variable


def _raw(kind: SparkType) -> Unread:
    return Unread(getattr(kind, "name", ""), is_variable=True, arrow=pa.large_binary())
