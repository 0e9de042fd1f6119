"""JSON values: one object each, as the records of a topic have them.

They go through the parser of JSON lines, so a field reads alike wherever it comes from; but a value
may be of several lines, and which record is the bad one must be known by its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.events.jsonchunks import LONGEST_LINE_BYTES, Lines
from kstoolkit.events.jsonlines import learnt, parse_chunk, parse_record, rows_in, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from kstoolkit.events.jsonlines import Types
    from kstoolkit.events.pieces import Columns


_FEW = 64
_IN_QUOTES = rb'(?:[^"\\\r\n]|\\[^\r\n])*'
_BROKEN_NAME = rb'\A(?:[^"]|"' + _IN_QUOTES + rb'")*"' + _IN_QUOTES + rb"\\?[\r\n]"
NO_VALUE = "the record has no value"


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Some values that could be read, and those around them that could not.

    Parameters
    ----------
    times, users, actions
        One each, as the values have them.
    rows
        Which values these are: their places among those that were given.
    unreadable
        (place, why) of those that are no JSON object.
    """

    times: pa.Array
    users: pa.Array
    actions: pa.Array
    rows: NDArray[np.intp]
    unreadable: list[tuple[int, str]] = field(default_factory=list)


def read_json_values(values: pa.Array, columns: Columns, types: Types) -> Iterator[Values]:
    """Yield what the values say, as many at once as can be parsed at once.

    Parameters
    ----------
    values
        Binary, one a record. One that is null, or nothing but spaces, is no object.
    columns
        Which fields are what.
    types
        The fields' types: text to begin with. What is learnt of them is kept there.

    Examples
    --------
    >>> from kstoolkit.events.pieces import Columns
    >>> values = pa.array([b'{"t": 1, "u": "Ann", "a": "x"}', b"no", None])
    >>> columns, text = Columns("t", "u", "a"), pa.string()
    >>> for part in read_json_values(values, columns, dict.fromkeys(columns, text)):
    ...     print(part.users.to_pylist(), part.rows.tolist(), [row for row, _ in part.unreadable])
    ['Ann'] [0] [1, 2]
    """
    yield from _read_values(_flat(values), 0, columns, types)


def unreadable_values(values: pa.Array) -> list[tuple[int, str]]:
    """Return (place, why) of the values that :func:`read_json_values` would not read.

    For values that another parser reads, so that both judge alike: Spark's passes over what follows
    an object, takes single quotes, and minds no bytes that are no UTF-8.

    Examples
    --------
    >>> [place for place, _ in unreadable_values(pa.array([b'{"a": 1}', b"{'a': 1}", None]))]
    [1, 2]
    """
    return list(_unreadable(_flat(values), 0))


def _unreadable(values: pa.Array, first: int) -> Iterator[tuple[int, str]]:
    """Look at values at once; else at each half; else one by one."""
    if _are_objects(values):
        return
    if len(values) <= _FEW:
        yield from _sifted_values(values, first, ())[2]
        return
    middle = len(values) // 2
    yield from _unreadable(values.slice(0, middle), first)
    yield from _unreadable(values.slice(middle), first + middle)


def _are_objects(values: pa.Array) -> bool:
    if values.null_count:
        return False
    chunk = _joined(values)
    lines = Lines.of(chunk)
    if len(lines.starts) != len(values) or not lines.may_be_objects(LONGEST_LINE_BYTES):
        return not len(values)
    return rows_in(chunk) == len(values)


def _flat(values: pa.Array) -> pa.Array:
    """Return values of one line each: between what a JSON text names, a line end is but a space.

    Inside of a name it is none of JSON's, and stays, so that the parser stumbles over it.
    """
    flat = pc.replace_substring(pc.replace_substring(values, b"\n", b" "), b"\r", b" ")
    if pc.all(pc.equal(flat, values)).as_py() is not False:
        return flat
    return pc.if_else(pc.match_substring_regex(values, _BROKEN_NAME), values, flat)


def _read_values(values: pa.Array, first: int, columns: Columns, types: Types) -> Iterator[Values]:
    """Parse values at once; else each half; else one by one."""
    if not len(values):
        return
    found = None if values.null_count else _at_once(values, first, columns, types)
    if found is not None:
        yield found
    elif len(values) <= _FEW:
        yield _one_by_one(values, first, columns, types)
    else:
        middle = len(values) // 2
        yield from _read_values(values.slice(0, middle), first, columns, types)
        yield from _read_values(values.slice(middle), first + middle, columns, types)


def _at_once(values: pa.Array, first: int, columns: Columns, types: Types) -> Values | None:
    piece = parse_chunk(_joined(values), columns, types, LONGEST_LINE_BYTES)
    if piece is None or len(piece.times) != len(values):
        return None
    rows = np.arange(first, first + len(values))
    return Values(piece.times, piece.users, piece.actions, rows)


def _joined(values: pa.Array) -> bytes:
    lines: pa.Scalar = pc.binary_join(_one_list(values), pa.scalar(b"\n", values.type))[0]
    return bytes(lines.as_py())


def _one_list(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def _one_by_one(values: pa.Array, first: int, columns: Columns, types: Types) -> Values:
    """Parse each on its own, and learn the types from the first good one."""
    records, rows, unreadable = _sifted_values(values, first, columns)
    if records:
        types.update(learnt(records[0], columns))
    texts = [
        pa.array([text_of(each.get(name)) for each in records], pa.string()) for name in columns
    ]
    return Values(texts[0], texts[1], texts[2], np.array(rows, np.intp), unreadable)


def _sifted_values(
    values: pa.Array, first: int, columns: Iterable[str]
) -> tuple[list[dict[str, Any]], list[int], list[tuple[int, str]]]:
    """Return the objects, their places, and (place, why) of what is none."""
    records: list[dict[str, Any]] = []
    rows: list[int] = []
    unreadable: list[tuple[int, str]] = []
    for row, value in enumerate(values.to_pylist(), first):
        if value is None or not value.strip():
            unreadable.append((row, NO_VALUE))
            continue
        try:
            records.append(parse_record(value, columns, LONGEST_LINE_BYTES))
            rows.append(row)
        except ValueError as error:
            unreadable.append((row, str(error)))
    return records, rows, unreadable
