"""The serdes of Kafka's clients: text, numbers, UUIDs, bytes, and JSON.

Numbers are big-endian; a UUID is its 36 characters, not its 16 bytes
(``org.apache.kafka.common.serialization``).
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.decoded import Decoded, each_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn


_UUID_TEXT = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_MOST_NESTED = "JSON that is nested too deep"


def _string(column: ByteColumn) -> Decoded:
    array = column.to_arrow()
    try:
        return Decoded(array.cast(pa.large_string()))
    except pa.ArrowInvalid:
        found = each_cell(column, bytes.decode)
        return Decoded(pa.array(found.values, pa.large_string()), found.problems)


def _bytes(column: ByteColumn) -> Decoded:
    return Decoded(column.to_arrow())


def _void(column: ByteColumn) -> Decoded:
    wrong = (column.lengths > 0) & ~column.is_null
    return Decoded(pa.nulls(len(column)), _of_lengths(column, wrong, "where none should be"))


def _uuid(column: ByteColumn) -> Decoded:
    texts = _string(column)
    array = texts.values
    wrong = np.asarray(
        pc.invert(pc.fill_null(pc.match_substring_regex(array, _UUID_TEXT), fill_value=True))
    )
    problems = dict.fromkeys(np.flatnonzero(wrong).tolist(), "no UUID of 36 characters")
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
    wrong = np.flatnonzero(~fits & ~column.is_null)
    problems = dict.fromkeys(wrong.tolist(), "neither 00 nor 01")
    return Decoded(pa.array(first == 1, mask=~fits), problems)


def _json(column: ByteColumn) -> Decoded:
    return each_cell(column, _one_json)


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


DECODERS: dict[str, Callable[[ByteColumn], Decoded]] = {
    "string": _string,
    "long": _number_serde(8, "i8"),
    "integer": _number_serde(4, "i4"),
    "short": _number_serde(2, "i2"),
    "double": _number_serde(8, "f8"),
    "float": _number_serde(4, "f4"),
    "boolean": _boolean,
    "uuid": _uuid,
    "bytes": _bytes,
    "json": _json,
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
        raise ConfigurationError(
            message, hint="Write it as 00ff, or give another serde."
        ) from error


def _text_bytes(value: Any) -> bytes:
    try:
        return str(value).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        message = f"{value!r:.80} has half a character, which no UTF-8 has."
        raise ConfigurationError(message, hint="Give whole characters, or bytes.") from error


ENCODERS: dict[str, Callable[[Any], bytes]] = {
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
