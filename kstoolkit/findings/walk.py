"""How a call goes through its windows: what is known of peers by then, and what is protected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.findings.moments import MOMENTS_SCHEMA, SUMS, moment_sums
from kstoolkit.findings.prior import Prior
from kstoolkit.findings.texts import places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.findings.cells import Cells

    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


REPORTS_PER_CALL = 32
_ROWS_PER_REFRESH = 4


@dataclass(frozen=True, slots=True, eq=False)
class Protected:
    """The windows of cells that nothing was learnt from, sorted by window start.

    Parameters
    ----------
    start_ms, key
        One a window: its start, and the key of its cell.
    """

    start_ms: Integers
    key: Integers

    @classmethod
    def empty(cls) -> Protected:
        """Return no windows."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.key)

    def holds(self, starts: Integers, which: Integers, cell: Integers, keys: Integers) -> Flags:
        """Return which rows are protected; a row is in window ``starts[which]`` of a ``cell``."""
        if not len(self):
            return np.zeros(len(cell), bool)
        number = places(starts, self.start_ms)
        code = number * len(keys) + places(keys, self.key)
        return np.isin(which * len(keys) + cell, code[number >= 0])

    def and_also(self, fresh: list[tuple[int, Integers]]) -> Protected:
        """Return these windows and some more: pairs of a start and the keys of its cells."""
        starts = [np.full(len(key), start_ms) for start_ms, key in fresh]
        start_ms = np.concatenate([self.start_ms, *starts])
        order = np.argsort(start_ms, kind="stable")
        return Protected(start_ms[order], np.concatenate([self.key, *(k for _, k in fresh)])[order])


class Walk:
    """One way through the windows of a call: what is known of peers, and what is protected."""

    def __init__(
        self, cells: Cells, protected: Protected, starts: Integers, window_ms: tuple[int, int]
    ) -> None:
        self.cells, self.protected = cells, protected
        self.size_ms, self.every_ms = window_ms
        picked = np.linspace(0, len(starts) - 1, min(len(starts), REPORTS_PER_CALL))
        self.reported = set(picked.round().astype(int).tolist())
        self.reports: dict[int, Floats] = {}
        self.sums = np.zeros((len(cells.actions) + 1, 2 + len(SUMS)))
        self.prior = Prior.of_sums(self.sums, self.sums[-1])
        self.rows_since = 0
        self.fresh: list[tuple[int, Integers]] = []
        # Windows protected earlier count as left out only once the walk has passed them.
        first_ms = starts[0] if len(starts) else 0
        self.passed = int(np.searchsorted(protected.start_ms, first_ms))
        self.protected_cell = places(cells.key, protected.key)
        np.subtract.at(cells.skipped, self.protected_cell[self.passed :], 1)

    def arrive(self, number: int, start_ms: int, rows: int) -> Prior:
        """Return what peers say before this window.

        Pooling goes over all cells, so it is done anew only where it is reported, or after a good
        part of the cells has had news: its cost stays in proportion to the rows.
        """
        self._pass(int(np.searchsorted(self.protected.start_ms, start_ms)))
        if number in self.reported or self.rows_since * _ROWS_PER_REFRESH >= len(self.cells):
            known = self.cells.before(start_ms, self.every_ms)
            self.sums = moment_sums(*known, width=len(self.cells.actions))
            self.prior = Prior.of_sums(self.sums, self.sums[-1])
            self.rows_since = 0
        if number in self.reported:
            self.reports[start_ms] = self.sums
        self.rows_since += rows
        return self.prior

    def protect(self, start_ms: int, cell: Integers) -> None:
        """Remember that nothing was learnt from this window of these cells."""
        if len(cell):
            self.cells.skipped[cell] += 1
            self.fresh.append((start_ms, self.cells.key[cell]))

    def leave(self) -> Protected:
        """Return all that is protected now; the walk is over."""
        self._pass(len(self.protected))
        return self.protected.and_also(self.fresh) if self.fresh else self.protected

    def moments(self) -> pa.Table:
        """Return the reports as a table."""
        tables = [self._report(start_ms, sums) for start_ms, sums in self.reports.items()]
        return pa.concat_tables([MOMENTS_SCHEMA.empty_table(), *tables])

    def _report(self, start_ms: int, sums: Floats) -> pa.Table:
        rows = np.flatnonzero(sums[:, 0])
        names = pa.concat_arrays([self.cells.actions, pa.nulls(1, pa.string())])
        columns = [
            np.full(len(rows), self.size_ms),
            np.full(len(rows), start_ms),
            names.take(pa.array(rows)),
            *sums[rows, :2].T.astype(np.int64),
            *sums[rows, 2:].T,
        ]
        return pa.table(columns, schema=MOMENTS_SCHEMA)

    def _pass(self, end: int) -> None:
        np.add.at(self.cells.skipped, self.protected_cell[self.passed : end], 1)
        self.passed = max(self.passed, end)
