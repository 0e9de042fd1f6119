"""Stores of lists: the results of a left or outer join that wait for a partner.

::

    key             timestamp (int64) | side (1 byte) | key
    value           01 | count (int32) | { length (int32) | element } ...
    element         side | value; in ``listValueWithHeaders`` headers | side | value

Side 1 is the left one, 0 the right one; a length of -1 is null. (``ListValueStore``,
``TimestampedKeyAndJoinSideSerializer``, ``LeftOrRightValueSerializer`` of Kafka Streams 3.1, with
headers ``ListValueStoreUpgradeUtils`` of 4.4.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.rowcolumns import RowColumns
from kstoolkit.formats.streams.cursor import Cursor
from kstoolkit.formats.streams.masked import either, except_at, integers_of, known, nullable, spans
from kstoolkit.formats.streams.values import cut_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn
    from kstoolkit.formats.streams.values import Wrapping


SIDES = ("right", "left")
"""The sides of a join, each at the place of the byte that stands for it."""

_KEY_BYTES = 9
_SIDE_AT = 8
_OF_VARIABLE_SIZE = 1
_LENGTH_BYTES = 4


def read_list(data: memoryview, start: int, end: int) -> list[tuple[int, int] | None]:
    r"""Return where the elements of a list lie; None for null ones.

    Parameters
    ----------
    data
        The bytes of all rows.
    start, end
        Where the list's lie.

    Raises
    ------
    FormatError
        If they are no list of elements that each have a length.

    Examples
    --------
    >>> value = bytes.fromhex("01000000010000000201") + b"x"
    >>> read_list(memoryview(value), 0, len(value))
    [(9, 11)]
    """
    cursor = Cursor(data, start, end)
    strategy = cursor.byte()
    if strategy != _OF_VARIABLE_SIZE:
        message = f"its elements are laid out in way {strategy}, not {_OF_VARIABLE_SIZE}"
        raise FormatError(message)
    count = cursor.int32()
    if not 0 <= count <= cursor.left // _LENGTH_BYTES:
        message = f"{count} elements in {cursor.left} bytes"
        raise FormatError(message)
    elements = [cursor.sized() for _ in range(count)]
    cursor.finish()
    return elements


def split_lists(keys: ByteColumn, values: ByteColumn, *, wrapping: Wrapping) -> RowColumns:
    """Return one row an element; ``side`` of the details is the side of the join it waits on.

    The keys are whole, as the store's iterators give them, and so are the elements;
    ``inner_key`` and ``inner_value`` are the application's own. The time in the key is
    ``timestamp_ms``.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> from kstoolkit.formats.streams.values import Wrapping
    >>> key = ByteColumn.of([bytes.fromhex("0000018bcfe568000141")])
    >>> value = ByteColumn.of([bytes.fromhex("0100000001000000020178")])
    >>> rows = split_lists(key, value, wrapping=Wrapping.NOTHING)
    >>> rows.inner_key.to_list(), rows.inner_value.to_list(), rows.details["side"].to_pylist()
    ([b'A'], [b'x'], ['left'])
    """
    row, elements, problems = _elements(values)
    problems |= _problems_of(keys.take(row))
    parts = cut_values(elements, wrapping)
    problems |= parts.problems | _problems_of_elements(parts.value, skip=problems)
    good = except_at(problems, len(row))
    key = keys.take(row)
    sides = integers_of(good, key, 1, at=_SIDE_AT)
    return RowColumns(
        row,
        key,
        either(good, parts.value, values.take(row)),
        timestamp_ms=nullable(integers_of(good, key, 8, at=0), good),
        headers=known(parts.headers, good),
        problems=problems,
        inner_key=either(good, key.part(_KEY_BYTES), key),
        inner_value=either(good, parts.value.part(1), values.take(row)),
        details={"side": pa.array(np.array(SIDES)[sides], pa.string(), mask=~good)},
    )


def _elements(values: ByteColumn) -> tuple[NDArray[np.intp], ByteColumn, dict[int, str]]:
    """Return the elements, the row of each, and why a row, standing for itself, has none."""
    data = values.data.data
    rows: list[int] = []
    found: list[tuple[int, int] | None] = []
    problems: dict[int, str] = {}
    places = zip(values.starts.tolist(), values.ends.tolist(), strict=True)
    for row, (start, end) in enumerate(places):
        try:
            elements = read_list(data, start, end)
        except FormatError as error:
            problems[len(rows)] = f"the value is no list: {error.message}"
            elements = [(start, end)]
        rows.extend([row] * len(elements))
        found.extend(elements)
    return np.array(rows, dtype=np.intp), spans(values.data, found), problems


def _problems_of(keys: ByteColumn) -> dict[int, str]:
    short = keys.lengths < _KEY_BYTES
    problems = dict.fromkeys(
        np.flatnonzero(short).tolist(), "the key is shorter than the 9 bytes of time and side"
    )
    side = integers_of(~short, keys, 1, at=_SIDE_AT)
    wrong = np.flatnonzero((side < 0) | (side > 1))
    return problems | dict.fromkeys(wrong.tolist(), "the key's side is neither 00 nor 01")


def _problems_of_elements(elements: ByteColumn, *, skip: dict[int, str]) -> dict[int, str]:
    first = elements.first_bytes()
    wrong = np.flatnonzero(((first < 0) | (first > 1)) & ~elements.is_null)
    why = "the element begins with neither side, 00 nor 01"
    return {row: why for row in wrong.tolist() if row not in skip}
