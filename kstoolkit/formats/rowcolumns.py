"""Rows of a store with the store's own wrapping taken off, as columns.

A store wraps what the application gave it: window times go into the key, a timestamp or headers
in front of the value. A layout takes that off and says what it held. What is left, the
application's own key and value, is for a serde to read (:mod:`kstoolkit.formats.serdes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn


HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
"""Record headers of a row: names may repeat, and a value may be null."""


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """What lies in some rows of a store.

    Parameters
    ----------
    row
        Which row on disk each of these comes from: one on disk may hold several, or none.
    key, value
        The application's own bytes; the value is null where there is none.
    window_start_ms, window_end_ms
        The window or session, epoch ms UTC, as Arrow int64; None if this kind of store has none.
    timestamp_ms
        The row's own time, epoch ms UTC, likewise; null where the store holds none.
    headers
        Record headers, of type :data:`HEADERS`; None if this kind of store has none.
    problems
        Why a row could not be taken apart, by its position in these columns. Its key and value
        are the bytes on disk, whole, and its other columns are null.
    inner_key, inner_value
        What of the key or the value is for the application's serdes, where the engine put something
        of its own around it; None where it is all of it.
    valid_to_ms
        Until when a version was the valid one, epoch ms UTC; null if it still is. None if the
        store is not versioned. From when on is ``timestamp_ms``.
    details
        Columns that only this kind of store has, by their names.
    num_left_out
        How many rows on disk only said where others lie, and are not among these.
    """

    row: NDArray[np.intp]
    key: ByteColumn
    value: ByteColumn
    window_start_ms: pa.Array | None = None
    window_end_ms: pa.Array | None = None
    timestamp_ms: pa.Array | None = None
    headers: pa.Array | None = None
    problems: dict[int, str] = field(default_factory=dict)
    inner_key: ByteColumn | None = None
    inner_value: ByteColumn | None = None
    valid_to_ms: pa.Array | None = None
    details: dict[str, pa.Array] = field(default_factory=dict)
    num_left_out: int = 0

    @property
    def record_key(self) -> ByteColumn:
        """The bytes that the application's serde for keys is to read."""
        return self.key if self.inner_key is None else self.inner_key

    @property
    def record_value(self) -> ByteColumn:
        """The bytes that the application's serde for values is to read."""
        return self.value if self.inner_value is None else self.inner_value

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: NDArray[np.bool_]) -> RowColumns:
        """Return the rows that a mask chooses.

        Examples
        --------
        >>> from kstoolkit.formats.bytecolumn import ByteColumn
        >>> column = ByteColumn.of([b"a", b"b"])
        >>> rows = RowColumns(np.arange(2), column, column, problems={1: "torn"})
        >>> rows.take(np.array([False, True])).problems
        {0: 'torn'}
        """
        place, mask = np.cumsum(chosen) - 1, pa.array(chosen)
        return replace(
            self,
            row=self.row[chosen],
            key=self.key.take(chosen),
            value=self.value.take(chosen),
            window_start_ms=_filtered(self.window_start_ms, mask),
            window_end_ms=_filtered(self.window_end_ms, mask),
            timestamp_ms=_filtered(self.timestamp_ms, mask),
            headers=_filtered(self.headers, mask),
            problems={int(place[at]): why for at, why in self.problems.items() if chosen[at]},
            inner_key=None if self.inner_key is None else self.inner_key.take(chosen),
            inner_value=None if self.inner_value is None else self.inner_value.take(chosen),
            valid_to_ms=_filtered(self.valid_to_ms, mask),
            details={name: column.filter(mask) for name, column in self.details.items()},
        )

    @classmethod
    def whole(cls, keys: ByteColumn, values: ByteColumn) -> RowColumns:
        """Return rows that a store has wrapped in nothing.

        Examples
        --------
        >>> from kstoolkit.formats.bytecolumn import ByteColumn
        >>> rows = RowColumns.whole(ByteColumn.of([b"a"]), ByteColumn.of([b"1"]))
        >>> rows.key.to_list(), rows.window_start_ms
        ([b'a'], None)
        """
        return cls(np.arange(len(keys)), keys, values)


def _filtered(column: pa.Array | None, mask: pa.Array) -> pa.Array | None:
    return None if column is None else column.filter(mask)


def numbers_of(column: pa.Array | None, length: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the numbers of a column of times, 0 for nulls, and which are no nulls.

    A column that a kind of store does not have is null in all its rows.

    Examples
    --------
    >>> numbers, known = numbers_of(pa.array([5, None], pa.int64()), 2)
    >>> numbers.tolist(), known.tolist()
    ([5, 0], [True, False])
    """
    if column is None:
        return np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.bool_)
    return np.asarray(column.fill_null(0)), np.asarray(column.is_valid())
