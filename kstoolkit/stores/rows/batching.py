"""Rows put together into columns: enough of them to be fast, few enough to be small."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kstoolkit.formats.columns import RowColumns


_MOST_ROWS = 8192
_MOST_BYTES = 4 << 20
_MOST_REPEATED_BYTES = 16 << 20


def row_batches(
    rows: Iterable[tuple[bytes, bytes]],
) -> Iterator[tuple[ByteColumn, ByteColumn]]:
    """Yield the keys and the values of some thousands of rows at a time, or of some megabytes.

    Rows up to damage among them come before its error.

    Raises
    ------
    FormatError
        If the next row can't be read.

    Examples
    --------
    >>> [len(keys) for keys, _ in row_batches([(b"k", b"v")] * 10_000)]
    [8192, 1808]
    >>> [len(keys) for keys, _ in row_batches([(b"k", bytes(3 << 20))] * 3)]
    [2, 1]
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    held = 0
    damage: FormatError | None = None
    try:
        for key, value in rows:
            keys.append(key)
            values.append(value)
            held += len(key) + len(value)
            if held >= _MOST_BYTES or len(keys) == _MOST_ROWS:
                yield ByteColumn.of(keys), ByteColumn.of(values)
                keys, values, held = [], [], 0
    except FormatError as error:
        damage = error
    if keys:
        yield ByteColumn.of(keys), ByteColumn.of(values)
    if damage is not None:
        raise damage


def bounded(rows: RowColumns) -> Iterator[RowColumns]:
    """Yield rows in parts whose keys and values have some megabytes, however often one repeats.

    A row on disk may be many, as elements of a list or versions, which refer to one key: whoever
    copies them copies the key for each. Of a row on disk that is in two parts, the second's
    ``num_left_out`` is one less, so that all parts together count it once.

    Examples
    --------
    >>> from kstoolkit.formats.columns import RowColumns
    >>> cells = ByteColumn.of([bytes(6 << 20)]).take(np.zeros(5, dtype=np.intp))
    >>> [len(each) for each in bounded(RowColumns(np.zeros(5, dtype=np.intp), cells, cells))]
    [2, 1, 1, 1]
    """
    sizes_bytes = rows.key.lengths + rows.value.lengths
    before_bytes = np.cumsum(sizes_bytes) - sizes_bytes
    part = before_bytes // _MOST_REPEATED_BYTES
    if not len(part) or not part[-1]:
        yield rows
        return
    first = 0
    for end in [*(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]:
        chosen = np.zeros(len(rows), dtype=np.bool_)
        chosen[first:end] = True
        goes_on = bool(first) and bool(rows.row[first] == rows.row[first - 1])
        left_out = -int(goes_on) if first else rows.num_left_out
        yield replace(rows.take(chosen), num_left_out=left_out)
        first = end
