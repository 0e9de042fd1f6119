"""How Spark writes keys into RocksDB: they are read so, and written so to ask for one.

::

    NoPrefix            [family] 00 row
    PrefixKeyScan       [family] length (4) · 00 row of the first columns · 00 row of the others
    RangeKeyScan        [family] length (4) · 00 row of the ordering columns · 00 row of the others
    TimestampAsPrefix   [family] timestamp (8) · 00 row
    TimestampAsPostfix  [family] 00 row · timestamp (8)

The family is 2 bytes, only in stores with families; it and lengths are little-endian. ``00`` is the
version of a row's format (:mod:`kstoolkit.formats.spark.unsaferow`). A timestamp is big-endian, its
sign flipped, and the key's last column. An ordering column is bytes that sort as its values::

    marker (1): 00 negative · 01 not negative · 02 null        value, big-endian

A negative fraction has all its bits flipped, lest the larger sorts first
(``org.apache.spark.sql.execution.streaming.state.RocksDBStateEncoder``).

To ask a store for a key, its values may be Python's own, or as JSON has them: a time as text, a
whole number as digits, bytes as hex.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.errors import ConfigurationError, FormatError, Sentence, naming
from kstoolkit.formats.columns import ByteColumn, Decoded, except_at, said_of
from kstoolkit.formats.serdes import Serde
from kstoolkit.formats.spark.text import integer, shown, text
from kstoolkit.formats.spark.types import Array, Field, Scalar, SparkType, Struct, Variable
from kstoolkit.formats.spark.unsaferow import RowReading, read_rows, validity
from kstoolkit.moments import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

_ROW_VERSION = 0  # the byte in front of every row in RocksDB
FAMILY_BYTES = 2  # how long the number of a column family is
_SPEC = "an encoder of keys"
_KINDS = {
    "NoPrefixKeyStateEncoderSpec": "NoPrefix",
    "PrefixKeyScanStateEncoderSpec": "PrefixKeyScan",
    "RangeKeyScanStateEncoderSpec": "RangeKeyScan",
    "TimestampAsPrefixKeyStateEncoderSpec": "TimestampAsPrefix",
    "TimestampAsPostfixKeyStateEncoderSpec": "TimestampAsPostfix",
}


@dataclass(frozen=True, slots=True)
class KeyEncoder:
    """How the keys of a column family are written.

    Kinds are ``"NoPrefix"``, ``"PrefixKeyScan"``, ``"RangeKeyScan"``, ``"TimestampAsPrefix"`` and
    ``"TimestampAsPostfix"``; ``first`` are the positions of columns in front, in a kind with such.
    """

    kind: str = "NoPrefix"
    first: tuple[int, ...] = ()

    @classmethod
    def prefix(cls, columns: int, key: Struct) -> KeyEncoder:
        """Return the encoder that puts so many columns first; the plain one for none.

        A key that has not so many is a FormatError.
        """
        return cls("PrefixKeyScan", _positions(range(columns), key)) if columns else cls()

    @classmethod
    def of(cls, spec: dict[str, Any], key: Struct) -> KeyEncoder:
        """Return the encoder that a schema file describes; one that isn't known is a FormatError.

        >>> KeyEncoder.of({"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"}, Struct((), 0))
        KeyEncoder(kind='NoPrefix', first=())
        """
        name = text(spec, "keyStateEncoderType", _SPEC)
        kind = _KINDS.get(name, "")
        if kind == "PrefixKeyScan":
            return cls(kind, _positions(range(integer(spec, "numColsPrefixKey", _SPEC)), key))
        if kind == "RangeKeyScan":
            ordinals = spec.get("orderingOrdinals")
            return cls(kind, _positions(ordinals if isinstance(ordinals, list) else [None], key))
        if not kind:
            message = f"Keys written by {name[:80]!r}, which is not known."
            raise FormatError(message, hint="They were written by a newer Spark.")
        if kind != "NoPrefix" and not key.fields:
            message = "Keys with a timestamp, of which the schema has no column."
            raise FormatError(message, hint="The schema file is damaged.")
        return cls(kind)

    @property
    def has_timestamp(self) -> bool:
        """Whether the key's last column is a timestamp beside the row."""
        return self.kind.startswith("Timestamp")


def family_ids(keys: ByteColumn) -> NDArray[np.int64]:
    """Return the column family of each key; -1 of a key that is too short to have one.

    >>> family_ids(ByteColumn.of([bytes([2, 0, 0]), b"x"])).tolist()
    [2, -1]
    """
    has = keys.lengths >= FAMILY_BYTES
    found = RowReading(keys.data).numbers(keys.starts, "<i2", has).astype(np.int64)
    return np.where(has, found, -1)


def rows_behind_version(cells: ByteColumn) -> tuple[ByteColumn, dict[int, str]]:
    """Return rows without the byte in front of them, and which of them lack it."""
    wrong = (cells.first_bytes() != _ROW_VERSION) & ~cells.is_null
    return cells.part(1), said_of(wrong, "a row of a version that is not known")


def _positions(found: Any, key: Struct) -> tuple[int, ...]:
    listed = list(found[: key.count + 1])
    fine = all(type(n) is int and 0 <= n < key.count for n in listed)
    if not fine or not listed or len(set(listed)) < len(listed):
        told = ", ".join(map(shown, listed[:9])) or "none"
        message = f"Keys of {key.count} columns that begin with the columns {told}."
        raise FormatError(message, hint="The schema file is damaged.")
    return tuple(listed)


_ORDERED_KINDS = {"boolean": ">u1", "byte": ">i1", "short": ">i2", "integer": ">i4", "long": ">i8"}
_ORDERED_KINDS |= {"float": ">i4", "double": ">i8"}
_FRACTIONS = {"float": "f4", "double": "f8"}
_NEGATIVE, _NULL = 0, 2  # 1: a number that is not below zero


def _read_ordered(reading: RowReading, kind: SparkType, cells: ByteColumn) -> pa.Array:
    """Return the values of one ordering column; what is none is a problem of its row."""
    name = getattr(kind, "name", "")
    if name not in _ORDERED_KINDS:
        reading.refuse(np.arange(len(cells)), "a key that is ordered by a column of no number")
        return pa.nulls(len(cells), kind.arrow)
    dtype = np.dtype(_ORDERED_KINDS[name])
    marker = cells.first_bytes()
    fits = (cells.lengths == dtype.itemsize + 1) & (marker <= _NULL)
    reading.refuse(np.flatnonzero(~fits & ~cells.is_null), "an ordering column of another length")
    has = fits & (marker != _NULL)
    bits = np.zeros(len(cells), dtype=dtype.newbyteorder("="))
    places = cells.starts[has][:, None] + np.arange(1, dtype.itemsize + 1)
    bits[has] = np.ascontiguousarray(cells.data[places]).view(dtype).reshape(-1)
    if name == "boolean":
        return pa.array(bits != 0, mask=~has)
    if name in _FRACTIONS:
        bits = np.where(marker == _NEGATIVE, ~bits, bits).view(_FRACTIONS[name])
    return pa.array(bits, kind.arrow, mask=~has)


_LENGTH_BYTES, _TIMESTAMP_BYTES = 4, 8
_NO_TIMESTAMP = "a key that is shorter than its timestamp"


def key_serde(key: Struct, encoder: KeyEncoder) -> Serde:
    """Return what reads keys, from behind the family on: a struct a key, by its schema."""
    if encoder.kind == "NoPrefix":
        return Serde("spark key", lambda cells: _plain(cells, key))
    if encoder.has_timestamp:
        return Serde("spark key", lambda cells: _with_timestamp(cells, key, encoder))
    return Serde("spark key", lambda cells: _in_two_parts(cells, key, encoder))


def _plain(cells: ByteColumn, key: Struct) -> Decoded:
    rows, problems = rows_behind_version(cells)
    return _joined([read_rows(rows, key)], key, key.names, problems)


def _in_two_parts(cells: ByteColumn, key: Struct, encoder: KeyEncoder) -> Decoded:
    has_length = cells.lengths >= _LENGTH_BYTES
    length = RowReading(cells.data).numbers(cells.starts, "<i4", has_length).astype(np.int64)
    fits = (length >= 1) & (length <= cells.lengths - _LENGTH_BYTES)
    wrong = said_of(~fits & ~cells.is_null, "a key whose first part is longer than the key")
    middle = np.where(fits, _LENGTH_BYTES + length, 0)
    first, no_version = rows_behind_version(cells.part(_LENGTH_BYTES, middle))
    rest = [n for n in range(key.count) if n not in encoder.first]
    parts = [_first_part(first, key.at(encoder.first), encoder)]
    names = [key.fields[n].name for n in (*encoder.first, *rest)]
    if rest:  # a key of ordering columns alone has no second row
        others, none_of_them = rows_behind_version(cells.part(middle))
        no_version = none_of_them | no_version
        parts.append(read_rows(others, key.at(rest)))
    return _joined(parts, key, names, no_version | wrong)


def _first_part(rows: ByteColumn, columns: Struct, encoder: KeyEncoder) -> Decoded:
    if encoder.kind == "PrefixKeyScan":
        return read_rows(rows, columns)
    binary = Variable("binary", pa.large_binary())
    fields = tuple(Field(field.name, binary, field.position) for field in columns.fields)
    raw = read_rows(rows, Struct(fields, columns.count))
    reading = RowReading(np.zeros(0, dtype=np.uint8), raw.problems)
    values = [
        _read_ordered(reading, field.type, ByteColumn.from_arrow(column))
        for field, column in zip(columns.fields, raw.values.flatten(), strict=True)  # type: ignore[union-attr]
    ]
    return Decoded(pa.StructArray.from_arrays(values, columns.names), reading.problems)


def _with_timestamp(cells: ByteColumn, key: Struct, encoder: KeyEncoder) -> Decoded:
    """Return keys whose last column stands beside the row of the others."""
    fits = cells.lengths >= _TIMESTAMP_BYTES
    at, row = 0, cells.part(_TIMESTAMP_BYTES)
    if encoder.kind == "TimestampAsPostfix":
        at, row = -_TIMESTAMP_BYTES, cells.part(end=-_TIMESTAMP_BYTES)
    numbers = np.zeros(len(cells), dtype=np.int64)
    numbers[fits] = cells.take(fits).integers(8, at=at) ^ np.int64(-(1 << 63))
    rows, no_version = rows_behind_version(row)
    parts = [
        read_rows(rows, key.at(range(key.count - 1))),
        Decoded(pa.StructArray.from_arrays([pa.array(numbers, mask=~fits)], [key.names[-1]])),
    ]
    problems = no_version | said_of(~fits & ~cells.is_null, _NO_TIMESTAMP)
    return _joined(parts, key, key.names, problems)


def _joined(
    parts: list[Decoded], key: Struct, names: list[str], problems: dict[int, str]
) -> Decoded:
    """Return rows that were written in parts, their columns in the order of the schema."""
    columns = [column for part in parts for column in part.values.flatten()]  # type: ignore[union-attr]
    by_name = dict(zip(names, columns, strict=True))
    for part in parts:
        problems = part.problems | problems
    has = except_at(problems, len(parts[0].values))
    for part in parts:
        has &= np.asarray(part.values.is_valid())  # type: ignore[union-attr]
    children = [by_name[name] for name in key.names]
    arrow = pa.struct([(name, by_name[name].type) for name in key.names])
    rows = pa.Array.from_buffers(arrow, len(has), [validity(has)], children=children)
    return Decoded(rows, problems)


_BARE_HINT = naming(
    "Give the key's bytes {how}.", how=Sentence("instead", "in hex, as --key 0x00ff")
)
"""What to do about a key that can't be written."""
_NUMBERS = {"boolean": "<?", "byte": "<b", "short": "<h", "float": "<f", "double": "<d"}
_NUMBERS |= dict.fromkeys(("integer", "date", "months"), "<i")
_NUMBERS |= dict.fromkeys(
    ("long", "timestamp", "timestamp_ntz", "decimal", "time", "duration"), "<q"
)
_TRUTHS = {"true": True, "false": False}
_MICRO = timedelta(microseconds=1)


def _written_scalar(kind: Scalar, cell: Any) -> bytes:
    """Return a value that fits in a word: times may be text, and numbers of epoch ms."""
    if kind.name not in _NUMBERS:
        raise _not_of(cell, kind.name)
    value = _unscaled(kind, cell) if kind.name == "decimal" else _number(kind.name, cell)
    try:
        return struct.pack(_NUMBERS[kind.name], value)
    except (struct.error, OverflowError):
        raise _not_of(cell, kind.name) from None


def written_bytes(cell: Any) -> bytes:
    """Return bytes, or what hex stands for; anything else is a ConfigurationError.

    >>> written_bytes("0x00ff").hex()
    '00ff'
    """
    if isinstance(cell, bytes | bytearray | memoryview):
        return bytes(cell)
    try:
        return bytes.fromhex(cell.removeprefix("0x"))
    except (AttributeError, ValueError):
        raise _not_of(cell, "binary") from None


def _not_of(cell: Any, name: str) -> ConfigurationError:
    """Return the error of a value that a type can't hold."""
    message = f"{cell!r} can't be written as the type {name} of a column."
    return ConfigurationError(message, hint=_BARE_HINT)


def _number(name: str, cell: Any) -> Any:
    """Return what is packed of a value; text is read as what it says."""
    read: Callable[[Any], Any] = _READ.get(name, _whole)
    try:
        return read(cell)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise _not_of(cell, name) from None


def _fraction(cell: Any) -> float:
    return float(cell) + 0.0  # Spark has no -0.0 in a key


def _whole(cell: Any) -> int:
    if isinstance(cell, bool) or (isinstance(cell, float) and cell != int(cell)):
        raise ValueError(cell)
    return int(cell)


def _days(cell: Any) -> int:
    day = date.fromisoformat(cell) if isinstance(cell, str) else cell
    return int(day.toordinal()) - EPOCH.toordinal()


def _micros(cell: Any) -> int:
    """Return a moment in microseconds: text without a zone is in UTC, numbers are epoch ms."""
    if isinstance(cell, int) and not isinstance(cell, bool):
        return cell * 1000
    moment = datetime.fromisoformat(cell) if isinstance(cell, str) else cell
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
    return int(since // _MICRO)


def _nanos(cell: Any) -> int:
    of_day = time.fromisoformat(cell) if isinstance(cell, str) else cell
    seconds = (of_day.hour * 60 + of_day.minute) * 60 + of_day.second
    return int(seconds * 1_000_000 + of_day.microsecond) * 1000


def _microseconds(cell: Any) -> int:
    """Return a length of time in microseconds; a number is one of seconds."""
    return int((cell if isinstance(cell, timedelta) else timedelta(seconds=cell)) // _MICRO)


_READ: dict[str, Callable[[Any], Any]] = {
    "boolean": lambda cell: cell if isinstance(cell, bool) else _TRUTHS[cell],
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
        raise _not_of(cell, "decimal") from None
    is_whole = shifted.is_finite() and shifted == int(shifted)
    if not is_whole or abs(shifted) >= 10**kind.arrow.precision:
        raise _not_of(cell, "decimal")
    return int(shifted)


_WORD, _DECIMAL_BYTES = 8, 16
_SIGN = 0x80  # flipped, lest what is before 1970 sorts last
_VERSION = bytes([_ROW_VERSION])


def written_key(key: Struct, encoder: KeyEncoder, value: Any) -> bytes:
    r"""Return the bytes of a key, as :class:`~kstoolkit.formats.spark.rows.Family` shows them.

    ``value`` has the columns' values by name; of a key of one column, that value alone will do. A
    column that is missing, unknown, or nothing that its type can hold is a ConfigurationError; so
    are keys that are ordered by columns, which only Spark itself asks for.

    >>> from kstoolkit.formats.spark.types import schema_of
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
        # The last column, a number of microseconds, stands beside the row.
        row = _VERSION + _part(key, range(key.count - 1), cells)
        word = _written_scalar(Scalar("long", _WORD, pa.int64()), cells[-1])
        at = bytes([word[-1] ^ _SIGN, *word[-2::-1]])
        return row + at if encoder.kind == "TimestampAsPostfix" else at + row
    if encoder.kind == "PrefixKeyScan":
        rest = [n for n in range(key.count) if n not in encoder.first]
        first = _VERSION + _part(key, encoder.first, cells)
        behind = _VERSION + _part(key, rest, cells) if rest else b""
        return struct.pack("<i", len(first)) + first + behind
    message = f"Keys that are written by {encoder.kind} can't be asked for by their columns."
    raise ConfigurationError(message, hint=_BARE_HINT)


def written_row(columns: Struct, cells: Sequence[Any]) -> bytes:
    """Return a row of values, one a column, each such as its column can hold."""
    kinds = [field.type for field in columns.fields]
    return _laid_out(_bits(cells), kinds, cells, [_WORD] * len(kinds), is_row=True)


def _cells(columns: Struct, value: Any) -> list[Any]:
    names = columns.names
    if isinstance(value, dict) and value.keys() == set(names):
        return [value[name] for name in names]
    if not isinstance(value, dict):
        if len(names) == 1:
            return [value]
        message = f"{value!r} is no key of the columns {', '.join(names)}."
    else:
        wrong = [f"{name!r} is missing" for name in names if name not in value]
        wrong += [f"{name!r} is none of them" for name in value if name not in names]
        message = f"The columns are {', '.join(names)}: {', '.join(wrong)}."
    raise ConfigurationError(message, hint="Give each column's value by its name.")


def _part(key: Struct, positions: Sequence[int], cells: list[Any]) -> bytes:
    return written_row(key.at(positions), [cells[n] for n in positions])


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
            words += (b"" if cell is None else _written_scalar(kind, cell)).ljust(width, b"\x00")
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
        head = struct.pack("<q", len(cell)) + _bits(cell)
        return _laid_out(head, [each] * len(cell), cell, [each.width] * len(cell))
    if _is_decimal(kind):  # in as few bytes as its digits need
        number = _unscaled(kind, cell)
        length = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return number.to_bytes(length, "big", signed=True)
    name = getattr(kind, "name", "")
    if name == "binary":
        return written_bytes(cell)
    if name == "string" and isinstance(cell, str):
        with suppress(UnicodeEncodeError):
            return cell.encode()
    raise _not_of(cell, name or type(kind).__name__.lower())


def _is_decimal(kind: SparkType) -> bool:
    return isinstance(kind, Variable) and kind.name == "decimal"


def _bits(cells: Sequence[Any]) -> bytes:
    bits = sum(1 << n for n, cell in enumerate(cells) if cell is None)
    return bits.to_bytes(-(-len(cells) // 64) * _WORD, "little")


def _padded_length(length: int) -> int:
    return -(-length // _WORD) * _WORD
