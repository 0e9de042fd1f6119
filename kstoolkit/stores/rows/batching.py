"""Rows put together into columns: enough of them to be fast, few enough to be small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.formats.bytecolumn import ByteColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["row_batches"]

_MOST_ROWS = 8192
_MOST_BYTES = 4 << 20


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
