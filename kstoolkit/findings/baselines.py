"""What each user usually does: one bucket's baselines, which learn window by window.

A cell (user, action) keeps how many windows it has, and the sum and the sum of squares of their
counts: windows without events count as zeros from its first event on, never before it.

A window that is abnormal by the bucket's own pooled moments is *protected*: nothing is learnt
from it, or an outbreak would make itself normal. A level that lasts becomes normal all the same:
a cell leaves out no more windows than it has learnt from, the first twelve apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.findings.baselineblock import _decode_block, _encode_block
from kstoolkit.findings.cells import Cells
from kstoolkit.findings.prior import FEWEST_WINDOWS
from kstoolkit.findings.texts import places
from kstoolkit.findings.walk import Protected, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kstoolkit.findings.prior import Prior

    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


PROTECT_BELOW = float(np.log(1e-4))
"""A window whose upper tail is rarer than this is not learnt from."""

PROTECT_FROM_COUNT = 5


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What one call of :meth:`Baselines.observe` saw.

    Parameters
    ----------
    material
        The changed counts, in the order given, each beside its baseline: ``window_start_ms``,
        ``user``, ``action``, ``count``, and over the cell's other windows ``n``, ``sum`` and
        ``sum_of_squares``.
    moments
        Of :data:`~kstoolkit.findings.moments.MOMENTS_SCHEMA`: the bucket's sums at 32 of the
        windows at most, the first and the last among them.
    """

    material: pa.Table
    moments: pa.Table


@dataclass(slots=True, eq=False)
class Baselines:
    """The baselines of one bucket of users for one kind of window.

    Parameters
    ----------
    size_ms, every_ms
        Length of the windows and distance of their starts.
    cells
        The history of each (user, action).
    protected
        The windows that were not learnt from.

    Examples
    --------
    >>> baselines = Baselines.empty(3_600_000)
    >>> hours = pa.array([0, 3_600_000, 10_800_000])
    >>> who, what = pa.array(["Anna"] * 3), pa.array(["read"] * 3)
    >>> counts = {"old": pa.array([0, 0, 0]), "count": pa.array([4, 6, 3])}
    >>> changes = pa.table({"window_start_ms": hours, "user": who, "action": what, **counts})
    >>> baselines.observe(changes).material.select(["count", "n", "sum"]).to_pylist()[-1]
    {'count': 3, 'n': 3, 'sum': 10}
    """

    size_ms: int
    every_ms: int
    cells: Cells
    protected: Protected

    @classmethod
    def empty(cls, size_ms: int, every_ms: int | None = None) -> Baselines:
        """Return the baselines of a bucket that has seen nothing; ``every_ms`` is for hops."""
        return cls(size_ms, every_ms or size_ms, Cells.empty(), Protected.empty())

    @classmethod
    def decode(cls, block: bytes) -> Baselines:
        """Read what :meth:`encode` wrote.

        Raises
        ------
        FormatError
            If the version is unknown, or the bytes are no baselines.
        """
        cells, protected = _decode_block(block)
        window = cells.schema.metadata
        return cls(
            int(window[b"size_ms"]),
            int(window[b"every_ms"]),
            Cells.from_table(cells),
            Protected(protected["start_ms"].to_numpy(), protected["key"].to_numpy()),
        )

    def encode(self) -> bytes:
        """Return the bytes of :mod:`~kstoolkit.findings.baselineblock`.

        Examples
        --------
        >>> Baselines.decode(Baselines.empty(3_600_000).encode()).every_ms
        3600000
        """
        window = {"size_ms": str(self.size_ms), "every_ms": str(self.every_ms)}
        cells = self.cells.to_table().replace_schema_metadata(window)
        protected = {"start_ms": self.protected.start_ms, "key": self.protected.key}
        return _encode_block(cells, pa.table(protected))

    def observe(self, changes: pa.Table | pa.RecordBatch) -> Observation:
        """Compare changed counts with the baselines before them, then learn from them.

        Parameters
        ----------
        changes
            ``window_start_ms`` (int64), ``user`` and ``action`` (text or dictionary), ``old`` (the
            count told before, 0 if none) and ``count`` (now), each (window, user, action) once,
            in any order. Counts of one window may grow over many calls.

        Notes
        -----
        Windows are gone through in order; what this call says of a window and of later ones is no
        part of its baseline. Of a window that comes after later ones were learnt from in earlier
        calls, these later ones are the baseline too.
        """
        table = _as_table(changes)
        start, old, count = (_integers(table, name) for name in ("window_start_ms", "old", "count"))
        cell = self.cells.locate(table["user"], table["action"])
        starts, which = np.unique(start, return_inverse=True)
        closed = self.protected.holds(starts, which, cell, self.cells.key)
        self.cells.retract(cell, start, np.where(closed, 0, old))
        walk = Walk(self.cells, self.protected, starts, (self.size_ms, self.every_ms))
        n, total = np.zeros_like(count), np.zeros_like(count)
        squares = np.zeros(len(count))
        for number, rows in _by_window(which, len(starts)):
            at, here = int(starts[number]), cell[rows]
            prior = walk.arrive(number, at, len(rows))
            history = self.cells.other_windows(here, at, self.every_ms)
            n[rows], total[rows], squares[rows] = history
            fresh = ~closed[rows] & self._abnormal(prior, here, count[rows], n[rows], total[rows])
            self.cells.learn(here, at, np.where(closed[rows] | fresh, 0, count[rows]))
            walk.protect(at, here[fresh])
        self.protected = walk.leave()
        return Observation(_material(table, n, total, squares), walk.moments())

    def evict(self, before_ms: int) -> None:
        """Forget cells without events since then, and which windows before then were protected."""
        stays = self.cells.last_ms >= before_ms
        place = places(self.cells.key, self.protected.key)
        kept = (self.protected.start_ms >= before_ms) & stays[place]
        self.cells.keep(stays)
        key = self.cells.key[(np.cumsum(stays) - 1)[place[kept]]]
        self.protected = Protected(self.protected.start_ms[kept], key)

    def _abnormal(
        self, prior: Prior, cell: Integers, count: Integers, n: Integers, total: Integers
    ) -> Flags:
        """Return which counts are not to be learnt from."""
        abnormal = np.zeros(len(cell), bool)
        may = count >= PROTECT_FROM_COUNT
        may &= self.cells.skipped[cell] < np.maximum(n, FEWEST_WINDOWS)
        rows = np.flatnonzero(may)
        expected = prior.take(self.cells.action[cell[rows]]).expect(n[rows], total[rows])
        # Most lie within one standard deviation, and need no closer look.
        far = np.flatnonzero(count[rows] > expected.mean + np.sqrt(expected.variance))
        rows = rows[far]
        abnormal[rows] = expected.take(far).is_rarer(count[rows], PROTECT_BELOW)
        return abnormal


def _as_table(changes: pa.Table | pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([changes]) if isinstance(changes, pa.RecordBatch) else changes


def _integers(table: pa.Table, name: str) -> Integers:
    return np.asarray(table[name].to_numpy(), np.int64)


def _by_window(which: Integers, windows: int) -> Iterator[tuple[int, Integers]]:
    order = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[order], np.arange(windows + 1))
    for number in range(windows):
        yield number, order[ends[number] : ends[number + 1]]


def _material(table: pa.Table, n: Integers, total: Integers, squares: Floats) -> pa.Table:
    kept = table.select(["window_start_ms", "user", "action", "count"])
    for name, column in (("n", n), ("sum", total), ("sum_of_squares", squares)):
        kept = kept.append_column(name, pa.array(column))
    return kept
