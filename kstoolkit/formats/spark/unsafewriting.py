"""Keys of Spark's state, written as Spark writes them, so that a store can be asked for one.

Rows as :mod:`kstoolkit.formats.spark.unsaferow` reads them, keys as
:mod:`kstoolkit.formats.spark.keyserde` does. Values may be Python's own, or as JSON has them: a
time as text, a whole number as digits, bytes as hex.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.spark.keys import ROW_VERSION
from kstoolkit.formats.spark.sparktypes import Array, Scalar, SparkType, Struct, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kstoolkit.formats.spark.keys import KeyEncoder

__all__ = ["written_key", "written_row"]

_NUMBERS = {
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
    "decimal": "<q",
    "time": "<q",
    "duration": "<q",
    "months": "<i",
}
_TRUTHS = {"true": True, "false": False}
_WORD, _DECIMAL_BYTES = 8, 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_SIGN = 0x80  # flipped, lest what is before 1970 sorts last
_VERSION = bytes([ROW_VERSION])
_BARE_HINT = "Give the key's bytes instead."


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
        return _with_timestamp(key, encoder, cells)
    if encoder.kind == "PrefixKeyScan":
        rest = [n for n in range(key.count) if n not in encoder.first]
        first = _VERSION + _part(key, encoder.first, cells)
        behind = _VERSION + _part(key, rest, cells) if rest else b""
        return struct.pack("<i", len(first)) + first + behind
    message = f"Keys that are written by {encoder.kind} can't be asked for by their columns."
    raise ConfigurationError(message, hint=_BARE_HINT)


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
    return _laid_out(_bits(cells), kinds, cells, [_WORD] * len(kinds))


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


def _with_timestamp(key: Struct, encoder: KeyEncoder, cells: list[Any]) -> bytes:
    """Return a key whose last column, a number of microseconds, stands beside the row."""
    row = _VERSION + _part(key, range(key.count - 1), cells)
    word = _scalar(Scalar("long", _WORD, pa.int64()), cells[-1])
    at = bytes([word[-1] ^ _SIGN, *word[-2::-1]])
    return row + at if encoder.kind == "TimestampAsPostfix" else at + row


def _laid_out(
    head: bytes, kinds: Sequence[SparkType], cells: Sequence[Any], widths: Sequence[int]
) -> bytes:
    """Return null bits, words, and what lies behind them."""
    fixed = len(head) + _padded_length(sum(widths))
    words, behind = b"", b""
    for kind, cell, width in zip(kinds, cells, widths, strict=True):
        if isinstance(kind, Scalar):
            words += (b"" if cell is None else _scalar(kind, cell)).ljust(width, b"\x00")
            continue
        is_decimal = isinstance(kind, Variable) and kind.name == "decimal"
        if cell is None and not is_decimal:
            words += bytes(_WORD)
            continue
        bare = _large(kind, cell) if is_decimal else _bare(kind, cell)
        words += struct.pack("<q", (fixed + len(behind)) << 32 | len(bare))
        behind += bare.ljust(_DECIMAL_BYTES if is_decimal else _padded_length(len(bare)), b"\x00")
    return (head + words).ljust(fixed, b"\x00") + behind


def _bare(kind: SparkType, cell: Any) -> bytes:
    if isinstance(kind, Struct):
        return written_row(kind, _cells(kind, cell))
    if isinstance(kind, Array) and isinstance(cell, list | tuple):
        each = kind.element
        width = each.width if isinstance(each, Scalar) else _WORD
        head = struct.pack("<q", len(cell)) + _bits(cell)
        return _laid_out(head, [each] * len(cell), cell, [width] * len(cell))
    name = getattr(kind, "name", "")
    if name == "string" and isinstance(cell, str):
        return _text(cell)
    if name == "binary":
        return _octets(cell)
    raise _not_of(cell, name or type(kind).__name__.lower())


def _text(cell: str) -> bytes:
    try:
        return cell.encode()
    except UnicodeEncodeError:
        raise _not_of(cell, "string") from None


def _octets(cell: Any) -> bytes:
    if isinstance(cell, bytes | bytearray | memoryview):
        return bytes(cell)
    try:
        return bytes.fromhex(cell.removeprefix("0x"))
    except (AttributeError, ValueError):
        raise _not_of(cell, "binary") from None


def _scalar(kind: Scalar, cell: Any) -> bytes:
    if kind.name not in _NUMBERS:
        raise _not_of(cell, kind.name)
    value = _unscaled(kind, cell) if kind.name == "decimal" else _number(kind.name, cell)
    try:
        return struct.pack(_NUMBERS[kind.name], value)
    except (struct.error, OverflowError):
        raise _not_of(cell, kind.name) from None


def _number(name: str, cell: Any) -> Any:
    """Return what is packed of a value; text is read as what it says."""
    try:
        return _READ.get(name, _whole)(cell)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise _not_of(cell, name) from None


def _truth(cell: Any) -> bool:
    return cell if isinstance(cell, bool) else _TRUTHS[cell]


def _fraction(cell: Any) -> float:
    return float(cell) + 0.0  # Spark has no -0.0 in a key


def _whole(cell: Any) -> int:
    if isinstance(cell, bool) or (isinstance(cell, float) and cell != int(cell)):
        raise ValueError(cell)
    return int(cell)


def _days(cell: Any) -> int:
    day = date.fromisoformat(cell) if isinstance(cell, str) else cell
    return int(day.toordinal()) - _EPOCH.toordinal()


def _micros(cell: Any) -> int:
    """Return a moment in microseconds: text without a zone is in UTC, numbers are epoch ms."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return cell * 1000
    moment = datetime.fromisoformat(cell) if isinstance(cell, str) else cell
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return int(since // _MICRO)


def _nanos(cell: Any) -> int:
    of_day = time.fromisoformat(cell) if isinstance(cell, str) else cell
    seconds = (of_day.hour * 60 + of_day.minute) * 60 + of_day.second
    return int(seconds * 1_000_000 + of_day.microsecond) * 1000


def _length(cell: Any) -> int:
    """Return a length of time in microseconds; a number is one of seconds."""
    return int((cell if isinstance(cell, timedelta) else timedelta(seconds=cell)) // _MICRO)


_READ: dict[str, Callable[[Any], Any]] = {
    "boolean": _truth,
    "float": _fraction,
    "double": _fraction,
    "date": _days,
    "timestamp": _micros,
    "timestamp_ntz": _micros,
    "time": _nanos,
    "duration": _length,
}


def _unscaled(kind: SparkType, cell: Any) -> int:
    """Return a decimal's digits, as one whole number."""
    try:
        shifted = Decimal(str(cell)).scaleb(kind.arrow.scale, Context(prec=80))
    except InvalidOperation:
        raise _not_of(cell, "decimal") from None
    if not shifted.is_finite() or shifted != int(shifted):
        raise _not_of(cell, "decimal")
    if abs(shifted) >= 10**kind.arrow.precision:
        raise _not_of(cell, "decimal")
    return int(shifted)


def _large(kind: SparkType, cell: Any) -> bytes:
    """Return a decimal of more than 18 digits, which has its place even where it is null."""
    if cell is None:
        return b""
    number = _unscaled(kind, cell)
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def _bits(cells: Sequence[Any]) -> bytes:
    bits = sum(1 << n for n, cell in enumerate(cells) if cell is None)
    return bits.to_bytes(-(-len(cells) // 64) * _WORD, "little")


def _padded_length(length: int) -> int:
    return -(-length // _WORD) * _WORD


def _not_of(cell: Any, name: str) -> ConfigurationError:
    message = f"{cell!r} can't be written as the type {name} of a column."
    return ConfigurationError(message, hint=_BARE_HINT)
