"""UnsafeRow, written by its description: what the tests read back."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decimal import Decimal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIXED = {
    "boolean": "<?",
    "byte": "<b",
    "short": "<h",
    "integer": "<i",
    "long": "<q",
    "float": "<f",
    "double": "<d",
    "date": "<i",
    "timestamp": "<q",
    "timestamp_ntz": "<q",
    "interval year to month": "<i",
    "interval day to second": "<q",
    "time(6)": "<q",
}
Schema = dict[str, Any]


def column(name: str, kind: Any) -> Schema:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def row_schema(**kinds: Any) -> Schema:
    return {"type": "struct", "fields": [column(name, kind) for name, kind in kinds.items()]}


def list_of(kind: Any) -> Schema:
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(key: Any, value: Any) -> Schema:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def written_row(schema: Schema, values: dict[str, Any]) -> bytes:
    """Return a row of values that :mod:`kstoolkit.formats.spark.unsaferow` should return."""
    kinds = [field["type"] for field in schema["fields"]]
    cells = [values[field["name"]] for field in schema["fields"]]
    return _container(kinds, cells, _bits(cells), [8] * len(kinds))


def _container(kinds: list[Any], cells: list[Any], head: bytes, widths: list[int]) -> bytes:
    """Return null bits, words, and what lies behind them."""
    words, behind = [], b""
    fixed = len(head) + -(-sum(widths) // 8) * 8
    for kind, cell, width in zip(kinds, cells, widths, strict=True):
        word = bytes(width)
        if cell is not None:
            bare = written(kind, cell)
            word = bare.ljust(width, b"\x00")
            if _is_variable(kind):
                word = struct.pack("<q", (fixed + len(behind)) << 32 | len(bare))
                behind += bare.ljust(-(-len(bare) // 8) * 8, b"\x00")
        words.append(word)
    return (head + b"".join(words)).ljust(fixed, b"\x00") + behind


def written(kind: Any, value: Any) -> bytes:
    """Return one value that is not null."""
    kind = _plain(kind)
    if isinstance(kind, dict):
        return _with_parts(kind, value)
    if kind in FIXED:
        return struct.pack(FIXED[kind], _number(kind, value))
    if kind in {"string", "binary"}:
        return value.encode() if isinstance(value, str) else bytes(value)
    if kind == "interval":
        return struct.pack("<iiq", value["months"], value["days"], value["microseconds"])
    return _decimal(kind, value)


def _decimal(kind: str, value: Decimal) -> bytes:
    digits, scale = map(int, kind.removeprefix("decimal(").removesuffix(")").split(","))
    unscaled = int(value.scaleb(scale, Context(40)))
    if digits <= 18:
        return struct.pack("<q", unscaled)
    return unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)


def _is_variable(kind: Any) -> bool:
    kind = _plain(kind)
    if isinstance(kind, dict):
        return True
    if kind.startswith("decimal"):
        return int(kind.removeprefix("decimal(").split(",")[0]) > 18
    return kind not in FIXED


def _plain(kind: Any) -> Any:
    """Return the type that a user's type is written as."""
    while isinstance(kind, dict) and kind["type"] == "udt":
        kind = kind["sqlType"]
    return kind


def _number(kind: str, value: Any) -> Any:
    if kind == "date":
        return (value - date(1970, 1, 1)).days
    if kind.startswith("timestamp"):
        since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if kind == "interval day to second":
        return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    if kind == "time(6)":
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return (seconds * 1_000_000 + value.microsecond) * 1000
    return value


def _bits(cells: list[Any]) -> bytes:
    bits = sum(1 << n for n, cell in enumerate(cells) if cell is None)
    return bits.to_bytes(-(-len(cells) // 64) * 8, "little")


def _array(kind: Schema, values: list[Any]) -> bytes:
    element = _plain(kind["elementType"])
    width = struct.calcsize(FIXED[element]) if isinstance(element, str) and element in FIXED else 8
    head = struct.pack("<q", len(values)) + _bits(values)
    return _container([element] * len(values), values, head, [width] * len(values))


def _map(kind: Schema, pairs: list[tuple[Any, Any]]) -> bytes:
    keys = _array(list_of(kind["keyType"]), [key for key, _ in pairs])
    values = _array(list_of(kind["valueType"]), [value for _, value in pairs])
    return struct.pack("<q", len(keys)) + keys + values


def _with_parts(kind: Schema, value: Any) -> bytes:
    if kind["type"] == "struct":
        return written_row(kind, value)
    return _array(kind, value) if kind["type"] == "array" else _map(kind, value)
