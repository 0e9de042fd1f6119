"""What bytes most likely are, when nobody says: a serde, how sure that is, and why.

Numbers say what they are by their first bytes. A count or a moment, as an int64, leaves the first
two bytes empty; a double of everyday size never does, for its exponent lies there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn


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
    """A serde that can read some bytes.

    Parameters
    ----------
    serde
        Its name, as :func:`~kstoolkit.formats.serdes.serde_of` knows it.
    confidence
        From 0, a guess, to 1, certain.
    reasons
        What speaks for it.
    """

    serde: str
    confidence: float
    reasons: tuple[str, ...]


def guess_serde(column: ByteColumn) -> Guess:
    r"""Return the serde that most likely wrote some bytes.

    At most a thousand rows are looked at, spread over them all.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
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
    chosen = there[_spread(len(there))]
    cells = column.take(chosen).part(0, _MOST_BYTES).to_list()
    return [cell for cell in cells if cell], len(cells)


def _spread(count: int) -> NDArray[np.intp]:
    places = np.linspace(0, max(count - 1, 0), min(count, _MOST_ROWS))
    return np.unique(places.astype(np.intp))


def _guess(cells: list[bytes], *, has_empty: bool) -> tuple[str, float, str]:
    if all(_UUID.fullmatch(cell) for cell in cells):
        return "uuid", 1.0, "36 characters with the hyphens of a UUID"
    if _are_json(cells):
        return "json", 0.95, "JSON objects or arrays"
    lengths = {len(cell) for cell in cells}
    printable = _share(_is_printable(cell) for cell in cells)
    if printable == 1:
        return "string", 1.0, "UTF-8 text that can be printed"
    if len(lengths) == 1 and not has_empty:
        (length,) = lengths
        number = _of_width(cells, length)
        if number is not None:
            return number
    return _framed(cells) or _text_or_bytes(cells, printable)


def _are_json(cells: list[bytes]) -> bool:
    return all(cell.lstrip()[:1] in {b"{", b"["} and _is_json(cell) for cell in cells)


def _is_json(cell: bytes) -> bool:
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


def _share(found: Iterable[bool]) -> float:
    judged = list(found)
    return sum(judged) / len(judged)


def _of_width(cells: list[bytes], length: int) -> tuple[str, float, str] | None:
    if length in _FORMS:
        return _number_guess(cells, _FORMS[length])
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
    bits: Literal[32, 64]
    usual_whole: int
    exponent: tuple[int, int]

    @property
    def mantissa_bits(self) -> int:
        return 52 if self.bits == 64 else 23  # noqa: PLR2004 - IEEE 754


# Whole numbers: below 2**47 or 2**24. Floating ones: from about 1e-15 to 1e15, 1e-9 to 1e9.
_FORMS = {
    8: _Form("long", "double", 64, 1 << 47, (1023 - 50, 1023 + 50)),
    4: _Form("integer", "float", 32, 1 << 24, (127 - 30, 127 + 30)),
}


def _number_guess(cells: list[bytes], form: _Form) -> tuple[str, float, str] | None:
    whole = np.frombuffer(b"".join(cells), dtype=f">i{form.bits // 8}").astype(np.int64)
    exponent = (whole >> form.mantissa_bits) & ((1 << (form.bits - 1 - form.mantissa_bits)) - 1)
    least, most = form.exponent
    as_whole = float(np.mean((whole > -form.usual_whole) & (whole < form.usual_whole)))
    as_floating = float(np.mean((whole == 0) | ((exponent >= least) & (exponent <= most))))
    width = f"{form.bits // 8} bytes each"
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
