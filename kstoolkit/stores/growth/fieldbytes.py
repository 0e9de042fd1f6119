"""Values of columns as bytes, which are equal where the values are, and read back from them.

::

    null       00
    fixed      01 · the value as Arrow has it; of a boolean one byte
    text       01 · length (8) · its bytes; so are bytes
    struct     01 · each of its columns
    list       01 · how many (8) · each of its elements; a map is a list of its pairs

Numbers are little-endian. So rows can be told apart by several columns at once, of any types, and
nothing is read back but the few that are shown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_BINARY = pa.large_binary()
_NOTHING, _NULL, _THERE = (pa.scalar(each, _BINARY) for each in (b"", b"\x00", b"\x01"))
_COUNT_BYTES = 8


def as_bytes(column: pa.Array) -> pa.Array:
    r"""Return a column as Arrow large binary without nulls, each cell what stands for its value.

    Examples
    --------
    >>> as_bytes(pa.array(["a", None])).to_pylist()
    [b'\x01\x01\x00\x00\x00\x00\x00\x00\x00a', b'\x00']
    >>> from_bytes(as_bytes(pa.array([[1, None]]))[0].as_py(), pa.list_(pa.int64()))
    [1, None]
    """
    if pt.is_null(column.type):
        return pa.repeat(_NULL, len(column))
    return joined_bytes([pa.repeat(_THERE, len(column)), _bare(column)]).fill_null(_NULL)


def joined_bytes(parts: list[pa.Array]) -> pa.Array:
    """Return cells of several columns behind each other; null where one of them is."""
    return pc.binary_join_element_wise(*parts, _NOTHING)


def from_bytes(raw: bytes, kind: pa.DataType) -> Any:
    """Return the value of an Arrow type that some bytes stand for; of a struct, a dict.

    Examples
    --------
    >>> pair = pa.struct([("user", pa.string()), ("n", pa.int32())])
    >>> from_bytes(as_bytes(pa.array([{"user": "zoë", "n": -1}], pair))[0].as_py(), pair)
    {'user': 'zoë', 'n': -1}
    """
    return _read(raw, 0, kind)[0]


def _bare(column: pa.Array) -> pa.Array:
    """Return what stands behind the first byte; null where the column is."""
    kind = column.type
    if pt.is_struct(kind):
        whole = _structs(column)
    elif _is_list(kind):
        whole = _lists(column)
    elif _is_text(kind):
        raw = column.cast(_BINARY)
        return joined_bytes([_fixed(pc.binary_length(raw).cast(pa.int64())), raw])
    else:
        return _fixed(column.cast(pa.int8()) if pt.is_boolean(kind) else column)
    return pc.if_else(column.is_valid(), whole, pa.scalar(None, _BINARY))


def _structs(column: pa.Array) -> pa.Array:
    parts = [as_bytes(each) for each in column.flatten()]
    return joined_bytes(parts) if parts else pa.repeat(_NOTHING, len(column))


def _lists(column: pa.Array) -> pa.Array:
    lists = column.cast(pa.large_list(_element(column.type)))
    count = np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
    ends = pa.array(np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(count)]))
    elements = pa.LargeListArray.from_arrays(ends, as_bytes(lists.flatten()))
    return joined_bytes([_fixed(pa.array(count)), pc.binary_join(elements, _NOTHING)])


def _fixed(column: pa.Array) -> pa.Array:
    raw = pa.binary(column.type.bit_width // 8)
    cells = pa.Array.from_buffers(raw, len(column), column.buffers(), offset=column.offset)
    return cells.cast(_BINARY)


def _read(raw: bytes, at: int, kind: pa.DataType) -> tuple[Any, int]:
    """Return the value that begins at a place, and where it has ended."""
    if raw[at] == 0:
        return None, at + 1
    at += 1
    if pt.is_struct(kind):
        return _read_struct(raw, at, kind)
    if _is_list(kind):
        return _read_list(raw, at, kind)
    if _is_text(kind):
        first = at + _COUNT_BYTES
        end = first + int.from_bytes(raw[at:first], "little")
        cell = raw[first:end]
        return (cell if _is_binary(kind) else cell.decode(errors="replace")), end
    if pt.is_boolean(kind):
        return raw[at] == 1, at + 1
    end = at + kind.bit_width // 8
    buffers = [None, pa.py_buffer(raw[at:end])]
    return pa.Array.from_buffers(kind, 1, buffers)[0].as_py(), end


def _read_struct(raw: bytes, at: int, kind: pa.StructType) -> tuple[dict[str, Any], int]:
    found = {}
    for field in kind:
        found[field.name], at = _read(raw, at, field.type)
    return found, at


def _read_list(raw: bytes, at: int, kind: pa.DataType) -> tuple[list[Any], int]:
    count, at = int.from_bytes(raw[at : at + _COUNT_BYTES], "little"), at + _COUNT_BYTES
    found = []
    for _ in range(count):
        value, at = _read(raw, at, _element(kind))
        found.append(tuple(value.values()) if pt.is_map(kind) else value)
    return found, at


def _element(kind: pa.DataType) -> pa.DataType:
    if pt.is_map(kind):
        return pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    return kind.value_type


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(_is_binary(kind) or pt.is_string(kind) or pt.is_large_string(kind))
