"""What the bytes of a key or a value stand for: a serde by its name, the user's, or a guess.

Those of Kafka's clients are text, numbers, UUIDs, bytes and JSON: numbers are big-endian, a UUID is
its 36 characters, not its 16 bytes (``org.apache.kafka.common.serialization``). Those of Kafka
Streams for windowed keys are named with the serde of the key inside: ``time-windowed(string)``,
``session-windowed(long)``. A cell that a serde can't read is no error: it comes out as
:class:`~kstoolkit.formats.columns.Undecoded`.

When nobody names one, a guess has a serde, how sure that is, and why. Numbers say what they are by
their first bytes: a count or a moment, as an int64, leaves the first two bytes empty; a double of
everyday size never does, for its exponent lies there.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import Decoded, each_cell, said_of
from kstoolkit.formats.streams.keys import session_windowed, time_windowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kstoolkit.formats.columns import ByteColumn

_UUID_TEXT = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_MOST_NESTED = "JSON that is nested too deep"


def _string(column: ByteColumn) -> Decoded:
    array = column.to_arrow()
    try:
        return Decoded(array.cast(pa.large_string()))
    except pa.ArrowInvalid:
        found = each_cell(column, bytes.decode)
        return Decoded(pa.array(found.values, pa.large_string()), found.problems)


def _void(column: ByteColumn) -> Decoded:
    wrong = (column.lengths > 0) & ~column.is_null
    return Decoded(pa.nulls(len(column)), _of_lengths(column, wrong, "where none should be"))


def _uuid(column: ByteColumn) -> Decoded:
    texts = _string(column)
    array = texts.values
    is_uuid = pc.match_substring_regex(array, _UUID_TEXT)
    wrong = ~np.asarray(pc.fill_null(is_uuid, fill_value=True))
    problems = said_of(wrong, "no UUID of 36 characters")
    return Decoded(pc.if_else(pa.array(wrong), None, array), texts.problems | problems)


def _number_serde(width: Literal[1, 2, 4, 8], kind: str) -> Callable[[ByteColumn], Decoded]:
    """Return what reads big-endian numbers of a width; ``kind`` is numpy's."""

    def decode(column: ByteColumn) -> Decoded:
        fits = (column.lengths == width) & ~column.is_null
        numbers = np.zeros(len(column), dtype=kind)
        bits = column.take(fits).integers(width).astype(f"i{width}")
        numbers[fits] = bits.view(kind)
        problems = _of_lengths(column, ~fits & ~column.is_null, f"not {width}")
        return Decoded(pa.array(numbers, mask=~fits), problems)

    return decode


def _boolean(column: ByteColumn) -> Decoded:
    first = column.first_bytes()
    fits = (column.lengths == 1) & (first <= 1)
    problems = said_of(~fits & ~column.is_null, "neither 00 nor 01")
    return Decoded(pa.array(first == 1, mask=~fits), problems)


def _one_json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError(_MOST_NESTED) from error


def _of_lengths(column: ByteColumn, wrong: NDArray[np.bool_], why: str) -> dict[int, str]:
    """Return why some rows could not be read: how long they are. There may be a great many."""
    rows, lengths = np.flatnonzero(wrong).tolist(), column.lengths[wrong].tolist()
    told = {each: f"{each} byte{'' if each == 1 else 's'}, {why}" for each in set(lengths)}
    return {row: told[length] for row, length in zip(rows, lengths, strict=True)}


_DECODERS: dict[str, Callable[[ByteColumn], Decoded]] = {
    "string": _string,
    "long": _number_serde(8, "i8"),
    "integer": _number_serde(4, "i4"),
    "short": _number_serde(2, "i2"),
    "double": _number_serde(8, "f8"),
    "float": _number_serde(4, "f4"),
    "boolean": _boolean,
    "uuid": _uuid,
    "bytes": lambda column: Decoded(column.to_arrow()),
    "json": lambda column: each_cell(column, _one_json),
    "void": _void,
}


def _packed(form: str, number: Callable[[str], Any]) -> Callable[[Any], bytes]:
    """Return what writes numbers in a form of :mod:`struct`, also those that are given as text."""

    def encode(value: Any) -> bytes:
        try:
            return struct.pack(form, number(value) if isinstance(value, str) else value)
        except (struct.error, OverflowError, ValueError) as error:
            message = f"{value!r:.80} is no such number: {error}."
            raise ConfigurationError(message, hint="Is another serde meant?") from error

    return encode


def _truth(text: str) -> bool:
    truths = {"true": True, "false": False}
    if text.lower() not in truths:
        message = "neither true nor false"
        raise ValueError(message)
    return truths[text.lower()]


def _bare(value: Any) -> bytes:
    """Return bytes as they are, and of text what it says in hex."""
    try:
        # To bytes(), a number is a length, and that of zeros.
        return bytes.fromhex(value) if isinstance(value, str) else bytes(memoryview(value))
    except (TypeError, ValueError) as error:
        message = f"{value!r:.80} is neither bytes nor hex."
        hint = "Write it as 00ff, or give another serde."
        raise ConfigurationError(message, hint=hint) from error


def _text_bytes(value: Any) -> bytes:
    try:
        return str(value).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        message = f"{value!r:.80} has half a character, which no UTF-8 has."
        raise ConfigurationError(message, hint="Give whole characters, or bytes.") from error


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "string": _text_bytes,
    "uuid": _text_bytes,
    "bytes": _bare,
    "long": _packed(">q", int),
    "integer": _packed(">i", int),
    "short": _packed(">h", int),
    "double": _packed(">d", float),
    "float": _packed(">f", float),
    "boolean": _packed(">?", _truth),
}

SERDE_NAMES = tuple(_DECODERS)
"""The names that :func:`serde_of` knows; each may be that of the key inside a windowed one."""
_WINDOWED = {"time": time_windowed, "session": session_windowed}
_WINDOWED_NAME = re.compile(r"(time|session)[-_ ]windowed\s*\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Serde:
    """A way to read bytes, by its name.

    ``encode`` returns the bytes of a value, which are what a store is asked for; None where one
    value may be written in several ways, as in JSON, or where nobody has said how.

    Examples
    --------
    >>> from kstoolkit.formats.columns import ByteColumn
    >>> column = ByteColumn.of([(42).to_bytes(8, "big"), b"?", None])
    >>> serde_of("long").decode(column).to_list(column)
    [42, Undecoded(3f: 1 byte, not 8), None]
    """

    name: str
    decode: Callable[[ByteColumn], Decoded]
    encode: Callable[[Any], bytes] | None = None

    def __repr__(self) -> str:
        return f"Serde({self.name})"


def serde_of(serde: str | Serde | Callable[[bytes], Any]) -> Serde:
    """Return the serde of a name, or one that asks a callable of the user's about each cell.

    A name that there is none of is a ConfigurationError.

    >>> serde_of("Long").name, serde_of("time-windowed(String)").name
    ('long', 'time-windowed(string)')
    >>> from kstoolkit.formats.columns import ByteColumn
    >>> serde_of(bytes.hex).decode(ByteColumn.of([b"ab"])).values
    ['6162']
    """
    if isinstance(serde, Serde):
        return serde
    if callable(serde):
        name = getattr(serde, "__name__", type(serde).__name__)
        return Serde(name, lambda column: each_cell(column, serde))
    name = serde.strip().lower()
    if windowed := _WINDOWED_NAME.fullmatch(name):
        kind, inner = windowed[1], serde_of(windowed[2])
        read = _WINDOWED[kind]
        return Serde(f"{kind}-windowed({inner.name})", lambda column: read(column, inner.decode))
    decode = _DECODERS.get(name)
    if decode is None:
        message = f"There is no serde {serde!r}."
        hint = f"Give one of {', '.join(SERDE_NAMES)}, or time-windowed(string) and the like."
        raise ConfigurationError(message, hint=hint)
    return Serde(name, decode, _ENCODERS.get(name))


_MOST_ROWS = 1000
_MOST_BYTES = 1 << 16  # of a row: more of it would say no more
_UUID = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FRAME_BYTES = 5
_LARGEST_SCHEMA_ID = 1 << 24
_MOST_SCHEMAS = 8
_NEARLY_ALL = 0.9
_MANY = 10


@dataclass(frozen=True, slots=True)
class Guess:
    """A serde that can read some bytes, by its name, and what speaks for it.

    The confidence is from 0, a guess, to 1, certain.
    """

    serde: str
    confidence: float
    reasons: tuple[str, ...]


def guess_serde(column: ByteColumn) -> Guess:
    r"""Return the serde that most likely wrote some bytes.

    At most a thousand rows are looked at, spread over them all.

    >>> from kstoolkit.formats.columns import ByteColumn
    >>> guess_serde(ByteColumn.of([b"\x00\x00\x00\x00\x00\x00\x01\x2c"])).serde
    'long'
    >>> guess_serde(ByteColumn.of([b"Anna", b"Bo"]))
    Guess(serde='string', confidence=0.6, reasons=('2 rows', 'UTF-8 text that can be printed'))
    """
    cells, count = _sample(column)
    rows = f"{count:,} row" if count == 1 else f"{count:,} rows"
    if not count:
        return Guess("bytes", 0.0, ("no rows",))
    if not cells:
        return Guess("bytes", 0.0, (rows, "all of them empty"))
    serde, confidence, why = _guess(cells, has_empty=len(cells) < count)
    # Few rows may be alike by chance.
    sure = confidence * (1 if count >= _MANY else 0.5 + 0.5 * count / _MANY)
    return Guess(serde, round(sure, 2), (rows, why))


def _sample(column: ByteColumn) -> tuple[list[bytes], int]:
    """Return the rows that have bytes, of those looked at, and how many of these are no nulls."""
    there = np.flatnonzero(~column.is_null)
    spread = np.linspace(0, max(len(there) - 1, 0), min(len(there), _MOST_ROWS))
    chosen = there[np.unique(spread.astype(np.intp))]
    cells = column.take(chosen).part(0, _MOST_BYTES).to_list()
    return [cell for cell in cells if cell], len(cells)


def _guess(cells: list[bytes], *, has_empty: bool) -> tuple[str, float, str]:
    if all(_UUID.fullmatch(cell) for cell in cells):
        return "uuid", 1.0, "36 characters with the hyphens of a UUID"
    if all(map(_is_json, cells)):
        return "json", 0.95, "JSON objects or arrays"
    printable = sum(map(_is_printable, cells)) / len(cells)
    if printable == 1:
        return "string", 1.0, "UTF-8 text that can be printed"
    has_one_width = not has_empty and len(set(map(len, cells))) == 1
    number = _of_width(cells, len(cells[0])) if has_one_width else None
    return number or _framed(cells) or _text_or_bytes(cells, printable)


def _is_json(cell: bytes) -> bool:
    if cell.lstrip()[:1] not in {b"{", b"["}:
        return False
    if len(cell) == _MOST_BYTES:  # cut off, so that it can't be parsed
        return True
    try:
        json.loads(cell)
    except (ValueError, RecursionError):
        return False
    return True


def _is_printable(cell: bytes) -> bool:
    text = _text_of(cell)
    return text is not None and text.translate(_BLANKS).isprintable()


_BLANKS = str.maketrans("\t\r\n\u3000\xa0", "     ")


def _text_of(cell: bytes) -> str | None:
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        cut_off = len(cell) == _MOST_BYTES and error.end == len(cell)
        return cell[: error.start].decode() if cut_off else None


def _of_width(cells: list[bytes], length: int) -> tuple[str, float, str] | None:
    if length in _FORMS:
        return _number_guess(cells, length, _FORMS[length])
    if length == 2:  # noqa: PLR2004 - a short has two bytes
        return "short", 0.7, "2 bytes each"
    if length == 1 and all(cell in {b"\x00", b"\x01"} for cell in cells):
        return "boolean", 0.9, "1 byte each, 00 or 01"
    return None


@dataclass(frozen=True, slots=True)
class _Form:
    """Whole and floating numbers of one width, and what is usual for them."""

    whole: str
    floating: str
    mantissa_bits: int
    usual_whole: int
    exponent: tuple[int, int]


# Whole numbers: below 2**47 or 2**24. Floating ones: from about 1e-15 to 1e15, 1e-9 to 1e9.
_FORMS = {
    8: _Form("long", "double", 52, 1 << 47, (1023 - 50, 1023 + 50)),
    4: _Form("integer", "float", 23, 1 << 24, (127 - 30, 127 + 30)),
}


def _number_guess(cells: list[bytes], length: int, form: _Form) -> tuple[str, float, str] | None:
    whole = np.frombuffer(b"".join(cells), dtype=f">i{length}").astype(np.int64)
    exponent = (whole >> form.mantissa_bits) & ((1 << (8 * length - 1 - form.mantissa_bits)) - 1)
    least, most = form.exponent
    as_whole = float(np.mean((whole > -form.usual_whole) & (whole < form.usual_whole)))
    as_floating = float(np.mean((whole == 0) | ((exponent >= least) & (exponent <= most))))
    width = f"{length} bytes each"
    if as_whole >= max(as_floating, 0.5):
        return form.whole, 0.95 * as_whole, f"{width}, of which the first ones are empty"
    if as_floating >= _NEARLY_ALL:
        why = f"{width}, with the exponent of an everyday number"
        return form.floating, 0.9 * as_floating, why
    return None


def _framed(cells: list[bytes]) -> tuple[str, float, str] | None:
    """Return bytes, if each row begins as a schema registry's do: 00, and a schema's number."""
    if any(len(cell) < _FRAME_BYTES or cell[0] for cell in cells):
        return None
    ids = {int.from_bytes(cell[1:_FRAME_BYTES], "big") for cell in cells}
    if len(ids) > _MOST_SCHEMAS or not all(0 < each < _LARGEST_SCHEMA_ID for each in ids):
        return None
    named = ", ".join(str(each) for each in sorted(ids))
    why = f"00 and a schema's number in front ({named}), as a schema registry's serdes write"
    return "bytes", 0.9, why


def _text_or_bytes(cells: list[bytes], printable: float) -> tuple[str, float, str]:
    is_text = all(_text_of(cell) is not None for cell in cells)
    if printable >= _NEARLY_ALL:
        # What is no UTF-8 no serde of strings wrote: it may be damaged, or all may be bytes.
        trust = _NEARLY_ALL if is_text else 0.6
        return "string", trust * printable, f"{printable:.1%} are UTF-8 text that can be printed"
    if is_text and printable >= 0.5:  # noqa: PLR2004 - most of them
        return "string", 0.5, "UTF-8 text, some of it with control characters"
    return "bytes", 0.5, "neither text nor numbers of one width"
