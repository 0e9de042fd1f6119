r"""What the bytes of a key or a value stand for: the serdes of Kafka's clients, and the user's own.

Numbers are big-endian; a UUID is its 36 characters, not its 16 bytes (``org.apache.kafka.common.
serialization``). A cell that a serde can't read is no error: it comes out as :class:`Undecoded`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.formats.bytecolumn import ByteColumn

__all__ = ["SERDE_NAMES", "Decoded", "Serde", "Undecoded", "serde_of"]

_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_MOST_NESTED = "JSON that is nested too deep"


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Bytes that a serde could not read, and why.

    Examples
    --------
    >>> Undecoded(b"xy", "2 bytes, not 8")
    Undecoded(7879: 2 bytes, not 8)
    """

    raw: bytes
    why: str

    def __repr__(self) -> str:
        return f"Undecoded({self.raw.hex()}: {self.why})"


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The values of a column.

    Parameters
    ----------
    values
        An Arrow array of one type, or a list of Python's values; null where the column is null,
        and where it could not be read.
    problems
        Why a row could not be read, by its position.
    """

    values: pa.Array | list[Any]
    problems: dict[int, str] = field(default_factory=dict)

    def to_list(self, column: ByteColumn) -> list[Any]:
        """Return one Python value a row, :class:`Undecoded` where ``column`` could not be read."""
        values = self.values if isinstance(self.values, list) else self.values.to_pylist()
        if self.problems:
            rows = np.array(sorted(self.problems), dtype=np.intp)
            for row, raw in zip(rows.tolist(), column.take(rows).to_list(), strict=True):
                values[row] = Undecoded(raw or b"", self.problems[row])
        return values


@dataclass(frozen=True, slots=True)
class Serde:
    """A way to read bytes, by its name.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> column = ByteColumn.of([(42).to_bytes(8, "big"), b"?", None])
    >>> serde_of("long").decode(column).to_list(column)
    [42, Undecoded(3f: 1 byte, not 8), None]
    """

    name: str
    decode: Callable[[ByteColumn], Decoded]

    def __repr__(self) -> str:
        return f"Serde({self.name})"


def serde_of(serde: str | Serde | Callable[[bytes], Any]) -> Serde:
    """Return the serde of a name, or one that asks a callable of the user's about each cell.

    Raises
    ------
    ConfigurationError
        If there is none of that name.

    Examples
    --------
    >>> serde_of("Long").name
    'long'
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> serde_of(bytes.hex).decode(ByteColumn.of([b"ab"])).values
    ['6162']
    """
    if isinstance(serde, Serde):
        return serde
    if callable(serde):
        name = getattr(serde, "__name__", type(serde).__name__)
        return Serde(name, lambda column: _each(column, serde))
    decode = _DECODERS.get(serde.strip().lower())
    if decode is None:
        message = f"There is no serde {serde!r}."
        raise ConfigurationError(message, hint=f"Give one of {', '.join(SERDE_NAMES)}.")
    return Serde(serde.strip().lower(), decode)


def _string(column: ByteColumn) -> Decoded:
    array = column.to_arrow()
    try:
        return Decoded(array.cast(pa.large_string()))
    except pa.ArrowInvalid:
        return _each(column, bytes.decode)


def _bytes(column: ByteColumn) -> Decoded:
    return Decoded(column.to_arrow())


def _void(column: ByteColumn) -> Decoded:
    wrong = np.flatnonzero(column.lengths > 0)
    problems = {row: f"{_bytes_of(column, row)}, where none should be" for row in wrong.tolist()}
    return Decoded(pa.nulls(len(column)), problems)


def _uuid(column: ByteColumn) -> Decoded:
    texts = _string(column)
    if isinstance(texts.values, list):
        array = pa.array(texts.values, pa.large_string())
    else:
        array = texts.values
    wrong = np.asarray(
        pc.invert(pc.fill_null(pc.match_substring_regex(array, _UUID), fill_value=True))
    )
    problems = dict.fromkeys(np.flatnonzero(wrong).tolist(), "no UUID of 36 characters")
    return Decoded(pc.if_else(pa.array(wrong), None, array), texts.problems | problems)


def _number(width: Literal[1, 2, 4, 8], kind: str) -> Callable[[ByteColumn], Decoded]:
    """Return what reads big-endian numbers of a width; ``kind`` is numpy's."""

    def decode(column: ByteColumn) -> Decoded:
        fits = (column.lengths == width) & ~column.is_null
        numbers = np.zeros(len(column), dtype=kind)
        bits = column.take(fits).integers(width).astype(f"i{width}")
        numbers[fits] = bits.view(kind)
        wrong = np.flatnonzero(~fits & ~column.is_null)
        problems = {row: f"{_bytes_of(column, row)}, not {width}" for row in wrong.tolist()}
        return Decoded(pa.array(numbers, mask=~fits), problems)

    return decode


def _boolean(column: ByteColumn) -> Decoded:
    first = column.first_bytes()
    fits = (column.lengths == 1) & (first <= 1)
    wrong = np.flatnonzero(~fits & ~column.is_null)
    problems = dict.fromkeys(wrong.tolist(), "neither 00 nor 01")
    return Decoded(pa.array(first == 1, mask=~fits), problems)


def _json(column: ByteColumn) -> Decoded:
    return _each(column, _one_json)


def _one_json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError(_MOST_NESTED) from error


def _each(column: ByteColumn, read: Callable[[bytes], Any]) -> Decoded:
    """Ask about each cell: for what has no whole-column way, and for what others wrote."""
    values: list[Any] = []
    problems: dict[int, str] = {}
    for row, raw in enumerate(column.to_list()):
        value = None
        if raw is not None:
            try:
                value = read(raw)
            except Exception as error:  # noqa: BLE001 - a callable of the user's may raise anything
                problems[row] = _reason(error)
        values.append(value)
    return Decoded(values, problems)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8 at byte {error.start}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _bytes_of(column: ByteColumn, row: int) -> str:
    length = int(column.lengths[row])
    return f"{length} byte" if length == 1 else f"{length} bytes"


_DECODERS: dict[str, Callable[[ByteColumn], Decoded]] = {
    "string": _string,
    "long": _number(8, "i8"),
    "integer": _number(4, "i4"),
    "short": _number(2, "i2"),
    "double": _number(8, "f8"),
    "float": _number(4, "f4"),
    "boolean": _boolean,
    "uuid": _uuid,
    "bytes": _bytes,
    "json": _json,
    "void": _void,
}

SERDE_NAMES = tuple(_DECODERS)
"""The names that :func:`serde_of` knows."""
