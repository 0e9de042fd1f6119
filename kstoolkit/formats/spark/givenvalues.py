"""Values as people give them, or as JSON has them, packed as a column of Spark's holds them."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.formats.spark.sparktypes import Scalar, SparkType


BARE_HINT = "Give the key's bytes instead."
"""What to do about a key that can't be written."""

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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


def written_scalar(kind: Scalar, cell: Any) -> bytes:
    """Return a value that fits in a word: times may be text, and numbers of epoch ms.

    Raises
    ------
    ConfigurationError
        If it is none that the type can hold.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from kstoolkit.formats.spark.sparktypes import Scalar
    >>> written_scalar(Scalar("short", 2, pa.int16()), "7").hex()
    '0700'
    """
    if kind.name not in _NUMBERS:
        raise not_of(cell, kind.name)
    value = _unscaled(kind, cell) if kind.name == "decimal" else _number(kind.name, cell)
    try:
        return struct.pack(_NUMBERS[kind.name], value)
    except (struct.error, OverflowError):
        raise not_of(cell, kind.name) from None


def written_text(cell: str) -> bytes:
    """Return a text in UTF-8.

    Raises
    ------
    ConfigurationError
        If it has half a character of UTF-16 in it.
    """
    try:
        return cell.encode()
    except UnicodeEncodeError:
        raise not_of(cell, "string") from None


def written_bytes(cell: Any) -> bytes:
    """Return bytes, or what hex stands for.

    Raises
    ------
    ConfigurationError
        If it is neither.

    Examples
    --------
    >>> written_bytes("0x00ff").hex()
    '00ff'
    """
    if isinstance(cell, bytes | bytearray | memoryview):
        return bytes(cell)
    try:
        return bytes.fromhex(cell.removeprefix("0x"))
    except (AttributeError, ValueError):
        raise not_of(cell, "binary") from None


def written_decimal(kind: SparkType, cell: Any) -> bytes:
    """Return the digits of a decimal of more than 18, in as few bytes as they need.

    Raises
    ------
    ConfigurationError
        If it has more digits than its type, or is no number.
    """
    number = _unscaled(kind, cell)
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def not_of(cell: Any, name: str) -> ConfigurationError:
    """Return the error of a value that a type can't hold."""
    message = f"{cell!r} can't be written as the type {name} of a column."
    return ConfigurationError(message, hint=BARE_HINT)


def _number(name: str, cell: Any) -> Any:
    """Return what is packed of a value; text is read as what it says."""
    read: Callable[[Any], Any] = _READ.get(name, _whole)
    try:
        return read(cell)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise not_of(cell, name) from None


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


def _microseconds(cell: Any) -> int:
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
    "duration": _microseconds,
}


def _unscaled(kind: SparkType, cell: Any) -> int:
    """Return a decimal's digits, as one whole number."""
    try:
        shifted = Decimal(str(cell)).scaleb(kind.arrow.scale, Context(prec=80))
    except InvalidOperation:
        raise not_of(cell, "decimal") from None
    if not shifted.is_finite() or shifted != int(shifted):
        raise not_of(cell, "decimal")
    if abs(shifted) >= 10**kind.arrow.precision:
        raise not_of(cell, "decimal")
    return int(shifted)
