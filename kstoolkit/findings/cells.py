"""The history of every (user, action) of one bucket, as columns that change in place.

A cell is found by its key: the user's place and the action's place in the bucket's two
dictionaries, packed into one integer. Cells are kept sorted by key.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.texts import encoded, places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


NEVER = -(1 << 62)
_ACTION_BITS = 32
_ACTION_MASK = (1 << _ACTION_BITS) - 1


@dataclass(slots=True, eq=False)
class Cells:
    """One value a cell in each column.

    Parameters
    ----------
    users, actions
        The dictionaries that keys point into.
    key
        User's place and action's place, ascending.
    first_ms, last_ms
        The earliest and the latest window that had events; ``-NEVER`` and ``NEVER`` before any.
    last_count
        What was learnt from the latest window, which may still be open.
    total, squares
        Sum and sum of squares of all counts learnt from, the latest window's among them.
    skipped
        How many windows were not learnt from.
    """

    users: pa.Array
    actions: pa.Array
    key: Integers
    first_ms: Integers
    last_ms: Integers
    last_count: Integers
    total: Integers
    squares: Floats
    skipped: Integers

    @classmethod
    def empty(cls) -> Cells:
        """Return no cells."""
        none, texts = np.empty(0, np.int64), pa.array([], pa.string())
        return cls(texts, texts, none, none, none, none, none, np.empty(0), none)

    @classmethod
    def from_table(cls, table: pa.Table) -> Cells:
        """Return the cells of :meth:`to_table`."""
        users, user = encoded(table["user"])
        actions, action = encoded(table["action"])
        columns = {name: table[name].to_numpy().copy() for name in _COLUMNS if name != "key"}
        return cls(users, actions, user << _ACTION_BITS | action, **columns)

    def to_table(self) -> pa.Table:
        """Return the cells as a table: user and action as text by dictionary, then the rest."""
        coded = ((self.user, self.users), (self.action, self.actions))
        names = [
            pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), texts)
            for codes, texts in coded
        ]
        columns = {name: getattr(self, name) for name in _COLUMNS if name != "key"}
        return pa.table({"user": names[0], "action": names[1]} | columns)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def user(self) -> Integers:
        """The user's place of each cell."""
        return self.key >> _ACTION_BITS

    @property
    def action(self) -> Integers:
        """The action's place of each cell."""
        return self.key & _ACTION_MASK

    def locate(self, user: pa.ChunkedArray, action: pa.ChunkedArray) -> Integers:
        """Return the cell of each row; a (user, action) that is new becomes a cell."""
        self.users, user_place = _extend(self.users, user)
        self.actions, action_place = _extend(self.actions, action)
        wanted = user_place << _ACTION_BITS | action_place
        found = places(self.key, wanted)
        if np.any(found < 0):
            self._insert(np.unique(wanted[found < 0]))
            found = np.searchsorted(self.key, wanted)
        return found

    def _insert(self, new: Integers) -> None:
        nothing = np.zeros(len(new), np.int64)
        added = {"key": new, "first_ms": nothing - NEVER, "last_ms": nothing + NEVER}
        order = np.argsort(np.concatenate([self.key, new]), kind="stable")
        for name in _COLUMNS:
            column = np.concatenate([getattr(self, name), added.get(name, nothing)])
            setattr(self, name, column[order])

    def keep(self, rows: NDArray[np.bool_]) -> None:
        """Forget all other cells, and the users and actions that only they had."""
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[rows])
        self.users, user = _prune(self.users, self.user)
        self.actions, action = _prune(self.actions, self.action)
        self.key = user << _ACTION_BITS | action

    def retract(self, cell: Integers, start_ms: Integers, learnt: Integers) -> None:
        """Take out what was learnt from these windows, which are about to be looked at anew."""
        np.subtract.at(self.total, cell, learnt)
        np.subtract.at(self.squares, cell, learnt.astype(np.float64) ** 2)
        latest = cell[start_ms == self.last_ms[cell]]
        self.last_ms[latest] = NEVER
        self.last_count[latest] = 0

    def learn(self, cell: Integers, start_ms: int, count: Integers) -> None:
        """Put in the counts of one window, each cell at most once; zero where none is learnt."""
        self.total[cell] += count
        self.squares[cell] += count.astype(np.float64) ** 2
        self.first_ms[cell] = np.minimum(self.first_ms[cell], start_ms)
        later = self.last_ms[cell] < start_ms
        self.last_ms[cell[later]] = start_ms
        self.last_count[cell[later]] = count[later]

    def other_windows(
        self, cell: Integers, start_ms: int, every_ms: int
    ) -> tuple[Integers, Integers, Floats]:
        """Return n, sum and sum of squares of some cells over windows other than this one."""
        first = np.minimum(self.first_ms[cell], start_ms)
        windows = (np.maximum(self.last_ms[cell], start_ms) - first) // every_ms
        n = np.maximum(windows - self.skipped[cell], 0)
        return n, np.where(n, self.total[cell], 0), np.where(n, self.squares[cell], 0.0)

    def before(self, start_ms: int, every_ms: int) -> tuple[Integers, Integers, Floats, Floats]:
        """Return action, n, sum and sum of squares of all cells that are older than a window.

        The latest window is left out where it is this one or a later one: it may be open.
        """
        older = np.flatnonzero(self.first_ms < start_ms)
        last, opened = self.last_ms[older], self.last_count[older].astype(np.float64)
        opened[last < start_ms] = 0
        windows = (np.maximum(last, start_ms) - self.first_ms[older]) // every_ms
        n = np.maximum(windows - self.skipped[older], 0)
        return (
            self.action[older],
            n,
            self.total[older] - opened,
            self.squares[older] - opened * opened,
        )


_COLUMNS = tuple(field.name for field in fields(Cells) if field.name not in {"users", "actions"})


def _extend(known: pa.Array, column: pa.ChunkedArray) -> tuple[pa.Array, Integers]:
    """Return the dictionary with what the column adds, and the place of each of its rows."""
    texts, codes = encoded(column)
    place = pc.index_in(texts, value_set=known)
    if place.null_count:
        known = pa.concat_arrays([known, pc.unique(texts.filter(place.is_null()))])
        place = pc.index_in(texts, value_set=known)
    return known, place.to_numpy().astype(np.int64)[codes]


def _prune(texts: pa.Array, codes: Integers) -> tuple[pa.Array, Integers]:
    return encoded(pa.DictionaryArray.from_arrays(pa.array(codes), texts))
