"""Rows as JSON objects: what a record of a topic holds of a row of CSV or Parquet.

Columns are encoded one by one, each different text once, and joined row by row in Arrow.
"""

from __future__ import annotations

import base64
import json
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.events.texts import only_utf8

if TYPE_CHECKING:
    from collections.abc import Sequence


_NULL = "null"


def json_objects(rows: pa.RecordBatch, names: Sequence[str]) -> list[bytes]:
    """Return each row as a JSON object in UTF-8.

    Numbers and booleans stay what they are, but what is no finite number is null; times are ISO
    8601, in UTC if they have a zone; bytes are text, or Base64 if they are not UTF-8; text that is
    not UTF-8 is null.

    Parameters
    ----------
    rows
        The rows.
    names
        What their columns are called.

    Examples
    --------
    >>> rows = pa.record_batch({"0": ["Zoë", None], "1": [1.5, 2.0]})
    >>> print(*(each.decode() for each in json_objects(rows, ["user", "size"])))
    {"user":"Zoë","size":1.5} {"user":null,"size":2.0}
    """
    if not rows.num_columns:
        return [b"{}"] * rows.num_rows
    parts: list[Any] = []
    for place, (name, column) in enumerate(zip(names, rows.columns, strict=True)):
        parts += [f"{',' if place else '{'}{_compact(name)}:", _column_as_json(column)]
    joined = pc.binary_join_element_wise(*parts, "}", "")
    return joined.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _column_as_json(column: pa.Array) -> pa.Array:
    """Return a column's values as JSON."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _column_as_json(column.storage)
    if pa.types.is_dictionary(kind):
        return _column_as_json(column.dictionary_decode())
    return _of_plain(column)


def _of_plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _or_null(column.cast(pa.string()))
    if _is_text(kind):
        return _each_once(only_utf8(column.cast(pa.string())))
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return _each_once(pc.replace_substring(_in_utc(column).cast(pa.string()), " ", "T"))
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_duration(kind):
        return pa.array(map(_compact, column.to_pylist()), pa.string())
    return _each_once(column)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _in_utc(column: pa.Array) -> pa.Array:
    kind = column.type
    is_zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return column.cast(pa.timestamp(kind.unit, "UTC")) if is_zoned else column


def _each_once(values: pa.Array) -> pa.Array:
    """Encode each different value once, however often it occurs."""
    if pa.types.is_binary_view(values.type):
        values = values.cast(pa.binary())
    coded = values.dictionary_encode()
    texts = pa.array(map(_compact, coded.dictionary.to_pylist()), pa.string())
    return _or_null(texts.take(coded.indices))


def _or_null(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, _NULL)


def _compact(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _plain(value: Any) -> Any:
    """Return a value as JSON can tell it."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return _of_bytes(value)
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value


def _of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
