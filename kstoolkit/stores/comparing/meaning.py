"""What keys and values stand for, as bytes that are equal where two serdes mean the same.

A long of 3, an integer of 3 and JSON's ``3.0`` are one number; the text ``3`` is not. Objects are
equal whatever the order of their names. Bytes that a serde can't read equal only themselves.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.stores.rows.jsonlines import json_text

if TYPE_CHECKING:
    from kstoolkit.formats.columns import ByteColumn, Decoded


_TEXT, _BYTES, _UNREAD = b'"', b"\xfe", b"\xff"  # no number and no JSON begins so
_LARGEST_WHOLE = float(1 << 53)  # beyond it a float stands for several whole numbers


def meanings(column: ByteColumn, decoded: Decoded) -> pa.Array:
    r"""Return what each cell stands for, as Arrow large binary; null where there is no cell.

    Parameters
    ----------
    column
        The cells.
    decoded
        What a serde made of them.

    Examples
    --------
    >>> from kstoolkit.formats.columns import ByteColumn
    >>> from kstoolkit.formats.serdes import serde_of
    >>> def told(cell, serde):
    ...     column = ByteColumn.of([cell])
    ...     return meanings(column, serde_of(serde).decode(column)).to_pylist()
    >>> told(b"\x00\x03", "short"), told(b"3.0", "json"), told(b"3", "string")
    ([b'3'], [b'3'], [b'"3'])
    """
    values = decoded.values
    if isinstance(values, list):
        meant = pa.array([_of_one(value) for value in values], pa.large_binary())
    else:
        meant = _of_typed(values)
    if not decoded.problems:
        return meant
    rows = np.array(sorted(decoded.problems), dtype=np.intp)
    unread = np.zeros(len(column), dtype=bool)
    unread[rows] = True
    raw = _begun_with(_UNREAD, column.take(rows).to_arrow())
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
    return _as_json(value).encode()


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return json_text(value)


def _begun_with(start: bytes, cells: pa.Array) -> pa.Array:
    nothing = pa.scalar(b"", pa.large_binary())
    return pc.binary_join_element_wise(pa.scalar(start, pa.large_binary()), cells, nothing)
