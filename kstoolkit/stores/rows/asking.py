"""What is asked of a store's rows: which key, which window, between which times, how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.formats.columns import numbers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns


@dataclass(frozen=True, slots=True)
class Asked:
    """Which rows are wanted; what is None leaves all in.

    Parameters
    ----------
    key
        Rows of this key, as the application's bytes; where a store's keys are more than those, as
        in a foreign-key join, also as what they are.
    prefix
        Rows whose key begins with these bytes.
    window_start_ms
        Rows of the window or session that starts then, epoch ms UTC.
    since_ms, until_ms
        Rows from, and before, a time: that of their window's start, or in a store without windows
        the row's own.
    """

    key: bytes | None = None
    prefix: bytes | None = None
    window_start_ms: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether every row is wanted."""
        return self == Asked()

    def chosen(self, rows: RowColumns) -> NDArray[np.bool_]:
        """Return which of some rows are wanted; rows that can't be taken apart never are.

        Examples
        --------
        >>> from kstoolkit.formats.columns import ByteColumn
        >>> from kstoolkit.formats.columns import RowColumns
        >>> keys = ByteColumn.of([b"an", b"ann", b"bo"])
        >>> Asked(prefix=b"an").chosen(RowColumns.whole(keys, keys)).tolist()
        [True, True, False]
        """
        wanted = np.ones(len(rows), dtype=bool)
        if self.is_all:
            return wanted
        wanted[list(rows.problems)] = False
        if self.key is not None:
            wanted &= self._has_key(self.key, rows)
        if self.prefix is not None:
            wanted &= rows.record_key.part(end=len(self.prefix)).equal_to(self.prefix)
        if self.window_start_ms is not None:
            start, known = numbers_of(rows.window_start_ms, len(rows))
            wanted &= known & (start == self.window_start_ms)
        return wanted & self._in_span(rows)

    @staticmethod
    def _has_key(key: bytes, rows: RowColumns) -> NDArray[np.bool_]:
        has = rows.record_key.equal_to(key)
        return has if rows.inner_key is None else has | rows.key.equal_to(key)

    def _in_span(self, rows: RowColumns) -> NDArray[np.bool_]:
        within = np.ones(len(rows), dtype=bool)
        if self.since_ms is None and self.until_ms is None:
            return within
        windowed = rows.window_start_ms is not None
        time, known = numbers_of(rows.window_start_ms if windowed else rows.timestamp_ms, len(rows))
        if self.since_ms is not None:
            within &= time >= self.since_ms
        if self.until_ms is not None:
            within &= time < self.until_ms
        return within & known
