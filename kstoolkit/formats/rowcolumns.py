"""Rows of a store with the store's own wrapping taken off, as columns.

A store wraps what the application gave it: window times go into the key, a timestamp or headers
in front of the value. A layout takes that off and says what it held. What is left, the
application's own key and value, is for a serde to read (:mod:`kstoolkit.formats.serdes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn

__all__ = ["HEADERS", "RowColumns"]

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
    """

    row: NDArray[np.intp]
    key: ByteColumn
    value: ByteColumn
    window_start_ms: pa.Array | None = None
    window_end_ms: pa.Array | None = None
    timestamp_ms: pa.Array | None = None
    headers: pa.Array | None = None
    problems: dict[int, str] = field(default_factory=dict)

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
        start, end, time, headers = (
            None if column is None else column.filter(mask)
            for column in (
                self.window_start_ms,
                self.window_end_ms,
                self.timestamp_ms,
                self.headers,
            )
        )
        return RowColumns(
            row=self.row[chosen],
            key=self.key.take(chosen),
            value=self.value.take(chosen),
            window_start_ms=start,
            window_end_ms=end,
            timestamp_ms=time,
            headers=headers,
            problems={int(place[at]): why for at, why in self.problems.items() if chosen[at]},
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
