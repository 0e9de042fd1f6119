"""What cells with an event or two add to the moments of peers; most cells are such.

They are alike by their action, by what they had (one event; two, in a window each or in one), and
by the window that they began with. So many of each are counted, in a histogram that follows what
they learn and how they are forgotten. As time passes n grows by one a window for each of them: what
they add to the moments (:mod:`~kstoolkit.findings.peers`) is the histogram times a table by n, an
octave of the mean at a time. A look at peers costs no more for having many of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from kstoolkit.findings.peers import Moments, moments_of
from kstoolkit.findings.rhythm import TOO_FEW

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kstoolkit.findings.peers import Floats, Integers

_HAD = ((1, 1), (2, 2), (2, 4))  # events, and the sum of the squares of windows
_MANY_PLACES = 4
"""Of more places than so many times the cells that are counted in them, few can be alike."""


class Cells(Protocol):
    """What is asked of cells: those of :mod:`~kstoolkit.findings.baselines`."""

    actions: pa.Array
    first_ms: Integers
    last_ms: Integers
    learnt: Integers
    total: Integers
    squares: Floats

    def __len__(self) -> int: ...
    def action_of(self, cell: Integers) -> Integers:  # noqa: D102
        ...


class Seldom:
    """The cells with an event or two, as peers are looked at until a time.

    ``every_ms`` is how often a window begins; 0 says that windows are those that a cell has. The
    span says since when none of them was forgotten, until when they are asked for, and how long
    they are remembered. The table is taken over from what told of cells ``before``, if it will do.
    """

    def __init__(
        self, cells: Cells, every_ms: int, span_ms: tuple[int, int, int], before: Seldom | None
    ) -> None:
        since_ms, until_ms, remembered_ms = span_ms
        self.cells, self.every_ms, self.until_ms = cells, every_ms, until_ms
        is_one = (cells.total > 0) & (cells.total <= TOO_FEW) & (cells.last_ms >= since_ms)
        them = np.flatnonzero(is_one)
        self._first = 0
        self._first = int(self._begins(them).min(initial=self._passed(until_ms)))
        self._width = self._passed(until_ms) + 1
        places = len(cells.actions) * len(_HAD) * self._width
        self.table: _ByWindows = _by_windows(1) if before is None else before.table
        self.is_worth_it = places <= _MANY_PLACES * len(them)
        if self.is_worth_it:
            if self.table.windows < self._width:
                self.table = _by_windows(2 * self._width)
            self._place = np.full(len(cells), -1)
            self._place[them] = self._places(them)
            self._many = np.bincount(self._place[them], minlength=places).astype(np.float64)
            leaving = them[cells.last_ms[them] < until_ms - remembered_ms]
            self._leaving = leaving[np.argsort(cells.last_ms[leaving])]
            self._last_ms, self._left = cells.last_ms[self._leaving], 0

    def _passed(self, at_ms: int) -> int:
        """Return how many windows have begun by then, since the first that a cell began with."""
        return TOO_FEW + 1 if not self.every_ms else at_ms // self.every_ms - self._first

    def _begins(self, cell: Integers) -> Integers:
        """Return which window it is that cells began with."""
        if not self.every_ms:
            return TOO_FEW + 1 - self.cells.learnt[cell]
        return -(-self.cells.first_ms[cell] // self.every_ms) - self._first

    def _places(self, cell: Integers) -> Integers:
        had = self.cells.total[cell] - 1 + (self.cells.squares[cell] > self.cells.total[cell])
        place = self.cells.action_of(cell) * len(_HAD) + had
        return place * self._width + self._begins(cell)

    def _drop(self, cell: Integers) -> None:
        place = self._place[cell]
        np.subtract.at(self._many, place[place >= 0], 1)
        self._place[cell] = -1

    def learn(self, cell: Integers) -> None:
        """Take in that cells, no one twice, have learnt."""
        self._drop(cell)
        cell = cell[self.cells.total[cell] <= TOO_FEW]
        self._place[cell] = self._places(cell)
        np.add.at(self._many, self._place[cell], 1)

    def seen(self, at_ms: int, since_ms: int) -> Floats:
        """Return how many there are by then, but for those that nothing was added to since a time.

        Rows are of an action and what was had, most windows first; none where it is not worth it.
        """
        if not self.is_worth_it:
            return np.empty((0, len(_HAD), 0))
        left = int(np.searchsorted(self._last_ms, since_ms))
        leaving, self._left = self._leaving[self._left : left], left
        self._drop(leaving[self.cells.last_ms[leaving] < since_ms])
        many = self._many.reshape(-1, len(_HAD), self._width)
        return many[:, :, : self._passed(at_ms)].copy()

    def moments(self, seen: Sequence[Floats], actions: int) -> Moments:
        """Return what they add to looks that have seen so many: each look's actions are its own."""
        table, widest = self.table, max(each.shape[-1] for each in seen)
        actions *= any(map(len, seen))
        many = np.zeros((len(seen) * actions, len(_HAD), widest))
        for first, each in zip(range(0, len(many), actions or 1), seen, strict=False):
            many[first : first + len(each), :, widest - each.shape[-1] :] = each
        sums = np.zeros((table.octaves, len(many), table.terms))
        for had, octave, longest, least in table.parts:
            if least <= widest:
                most = min(longest, widest)
                of_cells = many[:, had, widest - most : widest - least + 1]
                sums[octave] += of_cells @ table.of(had, most, least)
        found, action = np.nonzero(sums[:, :, 0])
        return Moments(found * 0, action, found + table.lowest, sums[found, action].T)


class _ByWindows(NamedTuple):
    """What a cell adds by what it had and its windows, the most first; parts have one octave each.

    These are told as what was had, the octave over the lowest, and the most windows and the least.
    """

    added: Floats
    lowest: int
    octaves: int
    parts: list[tuple[int, int, int, int]]

    @property
    def windows(self) -> int:
        """Of up to how many windows it tells."""
        return int(self.added.shape[1])

    @property
    def terms(self) -> int:
        """How many sums moments are."""
        return int(self.added.shape[2])

    def of(self, had: int, most: int, least: int) -> Floats:
        """Return a row for each number of windows, from the most to the least."""
        return self.added[had, self.windows - most : self.windows - least + 1]


def _by_windows(most: int) -> _ByWindows:
    n, none = np.arange(1, most + 1), np.zeros(most, complex)
    told = [
        moments_of(0, n, (n, np.full(most, total), np.full(most, float(squares))), none)
        for total, squares in _HAD
    ]  # as of an action each, so that none is added to another
    octave = np.array([each.octave for each in told])
    lowest, parts = int(octave.min()), []
    for had, each in enumerate(octave):
        edges = np.flatnonzero(np.diff(each, prepend=each[0] + 1, append=each[-1] - 1))
        parts += [
            (had, int(each[begin]) - lowest, int(end), int(begin) + 1)
            for begin, end in pairwise(edges)
        ]
    added = np.ascontiguousarray([each.sums.T[::-1] for each in told])
    return _ByWindows(added, lowest, int(octave.max()) - lowest + 1, parts)
