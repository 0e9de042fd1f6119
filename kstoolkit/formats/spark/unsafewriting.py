"""Keys of Spark's state, written as Spark writes them, so that a store can be asked for one.

Rows as :mod:`kstoolkit.formats.spark.unsaferow` reads them, keys as
:mod:`kstoolkit.formats.spark.keyserde` does. Values may be Python's own, or as JSON has them: a
time as text, a whole number as digits, bytes as hex.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.spark.givenvalues import (
    BARE_HINT,
    not_of,
    written_bytes,
    written_decimal,
    written_scalar,
    written_text,
)
from kstoolkit.formats.spark.keys import ROW_VERSION
from kstoolkit.formats.spark.sparktypes import Array, Scalar, SparkType, Struct, Variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.formats.spark.keys import KeyEncoder


_WORD, _DECIMAL_BYTES = 8, 16
_SIGN = 0x80  # flipped, lest what is before 1970 sorts last
_VERSION = bytes([ROW_VERSION])


def written_key(key: Struct, encoder: KeyEncoder, value: Any) -> bytes:
    r"""Return the bytes of a key, as :class:`~kstoolkit.formats.spark.layouts.Family` shows them.

    Parameters
    ----------
    key
        The columns of keys.
    encoder
        How they are written.
    value
        The columns' values by name; of a key of one column, that value alone will do.

    Raises
    ------
    ConfigurationError
        If a column is missing, unknown, or nothing that its type can hold; or if keys are ordered
        by columns, which only Spark itself asks for.

    Examples
    --------
    >>> from kstoolkit.formats.spark.keys import KeyEncoder
    >>> from kstoolkit.formats.spark.schemajson import schema_of
    >>> key = schema_of({"type": "struct", "fields": [{"name": "user", "type": "string"}]})
    >>> written_key(key, KeyEncoder(), {"user": "anna"}) == written_key(key, KeyEncoder(), "anna")
    True
    >>> written_key(key, KeyEncoder(), "anna")[-8:]
    b'anna\x00\x00\x00\x00'
    """
    cells = _cells(key, value)
    if encoder.kind == "NoPrefix":
        return written_row(key, cells)
    if encoder.has_timestamp:
        return _written_with_timestamp(key, encoder, cells)
    if encoder.kind == "PrefixKeyScan":
        rest = [n for n in range(key.count) if n not in encoder.first]
        first = _VERSION + _part(key, encoder.first, cells)
        behind = _VERSION + _part(key, rest, cells) if rest else b""
        return struct.pack("<i", len(first)) + first + behind
    message = f"Keys that are written by {encoder.kind} can't be asked for by their columns."
    raise ConfigurationError(message, hint=BARE_HINT)


def written_row(columns: Struct, cells: Sequence[Any]) -> bytes:
    """Return a row of values, one a column.

    Raises
    ------
    ConfigurationError
        If a value is none that its column can hold.

    Examples
    --------
    >>> from kstoolkit.formats.spark.schemajson import schema_of
    >>> row = schema_of({"type": "struct", "fields": [{"name": "n", "type": "integer"}]})
    >>> written_row(row, [7]).hex(), written_row(row, [None]).hex()
    ('00000000000000000700000000000000', '01000000000000000000000000000000')
    """
    kinds = [field.type for field in columns.fields]
    return _laid_out(_bits(cells), kinds, cells, [_WORD] * len(kinds), is_row=True)


def _cells(columns: Struct, value: Any) -> list[Any]:
    """Return the values of columns, in their order."""
    names = columns.names
    if not isinstance(value, dict):
        if len(names) == 1:
            return [value]
        message = f"{value!r} is no key of the columns {', '.join(names)}."
        raise ConfigurationError(message, hint="Give each column's value by its name.")
    if value.keys() != set(names):
        wrong = [f"{name!r} is missing" for name in names if name not in value]
        wrong += [f"{name!r} is none of them" for name in value if name not in names]
        message = f"The columns are {', '.join(names)}: {', '.join(wrong)}."
        raise ConfigurationError(message, hint="Give each column's value by its name.")
    return [value[name] for name in names]


def _part(key: Struct, positions: Sequence[int], cells: list[Any]) -> bytes:
    return written_row(key.at(positions), [cells[n] for n in positions])


def _written_with_timestamp(key: Struct, encoder: KeyEncoder, cells: list[Any]) -> bytes:
    """Return a key whose last column, a number of microseconds, stands beside the row."""
    row = _VERSION + _part(key, range(key.count - 1), cells)
    word = written_scalar(Scalar("long", _WORD, pa.int64()), cells[-1])
    at = bytes([word[-1] ^ _SIGN, *word[-2::-1]])
    return row + at if encoder.kind == "TimestampAsPostfix" else at + row


def _laid_out(
    head: bytes,
    kinds: Sequence[SparkType],
    cells: Sequence[Any],
    widths: Sequence[int],
    *,
    is_row: bool = False,
) -> bytes:
    """Return null bits, words, and what lies behind them.

    In a row, a large decimal has room for all its digits, also where it is null; not in an array.
    """
    fixed = len(head) + _padded_length(sum(widths))
    words, behind = b"", b""
    for kind, cell, width in zip(kinds, cells, widths, strict=True):
        if isinstance(kind, Scalar):
            words += (b"" if cell is None else written_scalar(kind, cell)).ljust(width, b"\x00")
            continue
        least = _DECIMAL_BYTES if is_row and _is_decimal(kind) else 0
        if cell is None and not least:
            words += bytes(_WORD)
            continue
        bare = b"" if cell is None else _bare(kind, cell)
        words += struct.pack("<q", (fixed + len(behind)) << 32 | len(bare))
        behind += bare.ljust(max(least, _padded_length(len(bare))), b"\x00")
    return (head + words).ljust(fixed, b"\x00") + behind


def _bare(kind: SparkType, cell: Any) -> bytes:
    if isinstance(kind, Struct):
        return written_row(kind, _cells(kind, cell))
    if isinstance(kind, Array) and isinstance(cell, list | tuple):
        each = kind.element
        width = each.width if isinstance(each, Scalar) else _WORD
        head = struct.pack("<q", len(cell)) + _bits(cell)
        return _laid_out(head, [each] * len(cell), cell, [width] * len(cell))
    if _is_decimal(kind):
        return written_decimal(kind, cell)
    name = getattr(kind, "name", "")
    if name == "string" and isinstance(cell, str):
        return written_text(cell)
    if name == "binary":
        return written_bytes(cell)
    raise not_of(cell, name or type(kind).__name__.lower())


def _is_decimal(kind: SparkType) -> bool:
    return isinstance(kind, Variable) and kind.name == "decimal"


def _bits(cells: Sequence[Any]) -> bytes:
    bits = sum(1 << n for n, cell in enumerate(cells) if cell is None)
    return bits.to_bytes(-(-len(cells) // 64) * _WORD, "little")


def _padded_length(length: int) -> int:
    return -(-length // _WORD) * _WORD
