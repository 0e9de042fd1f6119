"""What makes two rows the same row, and two values the same value: bytes that are compared.

An identity is bytes in whose order rows of any store can be merged::

    torn (1 byte) · key · 00 00 · window start · timestamp · window end

A zero byte in the key is ``00 ff`` here, so that no key's bytes run into what follows. A time is
``01`` and 8 bytes, big-endian, with the sign's bit flipped, so that bytes stand in the order of
times; where there is none, it is 9 zero bytes. Only versions of a key have a timestamp here.

A meaning is bytes that are equal where two serdes mean the same: a long of 3, an integer of 3 and
JSON's ``3.0`` are one number; the text ``3`` is not. Objects are equal whatever the order of their
names. Bytes that a serde can't read equal only themselves.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.formats.columns import except_at, fixed_cells, joined_cells
from kstoolkit.stores.rows.rows import json_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.columns import ByteColumn, Decoded

END_BYTES = 9  # how many bytes at the end of an identity are the window's end
_SIGN = np.uint64(1 << 63)
_AFTER_KEY = 2


def identities(
    key: ByteColumn,
    *,
    torn: NDArray[np.bool_],
    window_start_ms: pa.Array | None = None,
    timestamp_ms: pa.Array | None = None,
    window_end_ms: pa.Array | None = None,
) -> pa.Array:
    """Return the identity of each row; ``torn`` rows, not taken apart, stand behind all others."""
    rows = len(key)
    times = [_sortable(each, rows) for each in (window_start_ms, timestamp_ms, window_end_ms)]
    ending = np.hstack([np.zeros((rows, _AFTER_KEY), np.uint8), *times])
    return joined_cells(fixed_cells(torn.astype(np.uint8)), _escaped(key), fixed_cells(ending))


def _escaped(key: ByteColumn) -> pa.Array:
    whole = key.to_arrow()
    _, offsets, data = whole.buffers()
    if data is None or not data.size:
        return whole
    cells = np.frombuffer(data, np.uint8)
    zeros = np.flatnonzero(cells == 0)
    if not zeros.size:
        return whole
    places = np.frombuffer(offsets, np.int64)
    places = places + np.searchsorted(zeros, places)
    longer = np.insert(cells, zeros + 1, 0xFF)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(longer)]
    return pa.Array.from_buffers(pa.large_binary(), len(whole), buffers)


def _sortable(column: pa.Array | None, rows: int) -> NDArray[np.uint8]:
    cells = np.zeros((rows, 9), np.uint8)
    if column is None or not rows:
        return cells
    known = np.asarray(column.is_valid())
    numbers = np.asarray(column.fill_null(0)).astype(np.int64).view(np.uint64) ^ _SIGN
    cells[:, 0] = 1
    cells[:, 1:] = numbers.astype(">u8").view(np.uint8).reshape(rows, 8)
    cells[~known] = 0
    return cells


_TEXT, _BYTES, _UNREAD = b'"', b"\xfe", b"\xff"  # no number and no JSON begins so
_LARGEST_WHOLE = float(1 << 53)  # beyond it a float stands for several whole numbers


def meanings(column: ByteColumn, decoded: Decoded) -> pa.Array:
    """Return what each cell stands for, as Arrow large binary; null where there is no cell.

    ``decoded`` is what a serde made of the cells.
    """
    values = decoded.values
    if isinstance(values, list):
        meant = pa.array([_of_one(value) for value in values], pa.large_binary())
    else:
        meant = _of_typed(values)
    if not decoded.problems:
        return meant
    unread = ~except_at(decoded.problems, len(column))
    raw = _begun_with(_UNREAD, column.take(unread).to_arrow())
    return pc.replace_with_mask(meant, pa.array(unread), raw)


def _of_typed(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        return _begun_with(_TEXT, values.cast(pa.large_binary()))
    if pa.types.is_floating(kind):
        return _of_floats(values.cast(pa.float64()))
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
        return _begun_with(_BYTES, values.cast(pa.large_binary()))
    if pa.types.is_nested(kind):
        return pa.array([_of_one(value) for value in values.to_pylist()], pa.large_binary())
    return values.cast(pa.large_string()).cast(pa.large_binary())


def _of_floats(values: pa.Array) -> pa.Array:
    numbers = np.asarray(values.fill_null(0.0))
    whole = np.isfinite(numbers) & (np.abs(numbers) < _LARGEST_WHOLE)
    whole[whole] &= numbers[whole] == np.trunc(numbers[whole])
    integers = pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=~whole)
    texts = (each.cast(pa.large_string()) for each in (integers, values))
    meant = pc.if_else(pa.array(whole), *texts)
    return pc.if_else(values.is_null(), None, meant).cast(pa.large_binary())


def _of_one(value: Any) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return _TEXT + value.encode("utf-8", "surrogatepass")
        case bytes():
            return _BYTES + value
        case bool():
            return b"true" if value else b"false"
        case float():
            return bytes(_of_floats(pa.array([value]))[0].as_py())
    try:
        text = json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        text = json_text(value)
    return text.encode()


def _begun_with(start: bytes, cells: pa.Array) -> pa.Array:
    return joined_cells(pa.scalar(start, pa.large_binary()), cells)
