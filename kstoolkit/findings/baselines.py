"""What each user usually does: one bucket's baselines, which learn window by window.

A cell (user, action) keeps how many windows it has, and the sum and the sum of squares of their
counts: windows without events count as zeros from its first event on, never before it. It is found
by its key: the user's place and the action's place in the bucket's two dictionaries, packed into
one integer. Cells are kept sorted by key, as columns that change in place.

A window that is abnormal by the bucket's own pooled moments is *protected*: nothing is learnt
from it, or an outbreak would make itself normal. A level that lasts becomes normal all the same:
a cell leaves out no more windows than it has learnt from, the first twelve apart.

Of sessions, a cell's windows are those that it has: a pause is none. Here a session begins when the
gap that it began in did: no two of a cell begin in one.

What a changed window had taught is taken back before it is learnt from anew. That nothing is taken
back that was never learnt, windows are left as they are of which a cell can't know that any more.

As bytes, in the state store for each bucket and kind of window::

    version (1 byte) · Arrow IPC stream of cells · Arrow IPC stream of protected windows

Both streams have ZSTD-compressed buffers. The cells' schema metadata holds ``size_ms`` and
``every_ms`` of the window, in decimal, and ``forgotten_ms``: cells without events since then are
gone. Earlier releases wrote neither that nor ``from_ms`` nor ``learnt``. Of sessions ``size_ms`` is
minus their gap. Cells, sorted by user and action in dictionary order:

==============  ==========================  ===================================================
column          type                        meaning
==============  ==========================  ===================================================
user            dictionary<int32, string>   who
action          dictionary<int32, string>   what
first_ms        int64                       start of the first window with events, epoch ms UTC
last_ms         int64                       start of the last one
last_count      int64                       what was learnt from the last one
total           int64                       sum of all counts learnt from
squares         double                      sum of their squares
skipped         int64                       how many windows were not learnt from
from_ms         int64                       earlier windows are left as they are
learnt          int64                       how many sessions were learnt from
==============  ==========================  ===================================================

Protected windows: ``start_ms`` (int64) and ``key`` (int64: the user's place in its dictionary
times 2³², plus the action's).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import FormatError
from kstoolkit.findings.peers import (
    FEWEST_WINDOWS,
    MOMENTS_SCHEMA,
    SUMS,
    encoded,
    integers,
    moment_sums,
    places,
)
from kstoolkit.findings.tails import Prior

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.findings.peers import Flags, Floats, Integers


_VERSION = 1
_BLOCK = "block of baselines"
_NEVER = -(1 << 62)
_ACTION_BITS = 32
_ACTION_MASK = (1 << _ACTION_BITS) - 1


@dataclass(slots=True, eq=False)
class Cells:
    """One value a cell in each column, as the table above says; ascending by key.

    ``users`` and ``actions`` are the dictionaries that keys point into. Before any window with
    events ``first_ms`` and ``last_ms`` are ``-_NEVER`` and ``_NEVER``. The latest window, which may
    still be open, is part of ``total`` and ``squares``.
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
    from_ms: Integers
    learnt: Integers

    @classmethod
    def empty(cls) -> Cells:
        """Return no cells."""
        none, texts = np.empty(0, np.int64), pa.array([], pa.string())
        return cls(texts, texts, none, none, none, none, none, np.empty(0), none, none, none)

    @classmethod
    def from_table(cls, table: pa.Table) -> Cells:
        """Return the cells of :meth:`to_table`."""
        for name, value in (("from_ms", _NEVER), ("learnt", 0)):
            if name not in table.column_names:
                table = table.append_column(name, pa.array(np.full(table.num_rows, value)))
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

    def locate(
        self, user: pa.ChunkedArray, action: pa.ChunkedArray, from_ms: int = _NEVER
    ) -> Integers:
        """Return the cell of each row; a (user, action) that is new becomes one ``from_ms`` on."""
        self.users, user_place = _extend(self.users, user)
        self.actions, action_place = _extend(self.actions, action)
        wanted = user_place << _ACTION_BITS | action_place
        found = places(self.key, wanted)
        if np.any(found < 0):
            self._insert(np.unique(wanted[found < 0]), from_ms)
            found = np.searchsorted(self.key, wanted)
        return found

    def _insert(self, new: Integers, from_ms: int) -> None:
        nothing = np.zeros(len(new), np.int64)
        added = {"key": new, "first_ms": nothing - _NEVER, "last_ms": nothing + _NEVER}
        added["from_ms"] = nothing + from_ms
        order = np.argsort(np.concatenate([self.key, new]), kind="stable")
        for name in _COLUMNS:
            column = np.concatenate([getattr(self, name), added.get(name, nothing)])
            setattr(self, name, column[order])

    def keep(self, rows: Flags) -> None:
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
        np.subtract.at(self.learnt, cell[learnt > 0], 1)
        # Blocks of earlier releases may lack what was counted while no rule looked.
        np.maximum(self.total, 0, out=self.total)
        np.maximum(self.squares, 0, out=self.squares)
        latest = cell[start_ms == self.last_ms[cell]]
        self.last_ms[latest] = _NEVER
        self.last_count[latest] = 0

    def learn(self, cell: Integers, start_ms: int, count: Integers) -> None:
        """Put in the counts of one window, each cell at most once; zero where none is learnt."""
        self.total[cell] += count
        self.squares[cell] += count.astype(np.float64) ** 2
        self.learnt[cell] += count > 0
        self.first_ms[cell] = np.minimum(self.first_ms[cell], start_ms)
        later = self.last_ms[cell] < start_ms
        self.last_ms[cell[later]] = start_ms
        self.last_count[cell[later]] = count[later]

    def other_windows(
        self, cell: Integers, start_ms: int, every_ms: int, *, is_steady: bool = True
    ) -> tuple[Integers, Integers, Floats]:
        """Return n, sum and sum of squares of some cells over windows other than this one."""
        first = np.minimum(self.first_ms[cell], start_ms)
        windows = (np.maximum(self.last_ms[cell], start_ms) - first) // every_ms
        n = np.maximum(windows - self.skipped[cell], 0) if is_steady else self.learnt[cell]
        return n, np.where(n, self.total[cell], 0), np.where(n, self.squares[cell], 0.0)

    def before(
        self, start_ms: int, every_ms: int, *, is_steady: bool = True
    ) -> tuple[Integers, Integers, Floats, Floats]:
        """Return action, n, sum and sum of squares of all cells that are older than a window.

        The latest window is left out where it is this one or a later one: it may be open.
        """
        older = np.flatnonzero(self.first_ms < start_ms)
        last, opened = self.last_ms[older], self.last_count[older].astype(np.float64)
        opened[last < start_ms] = 0
        windows = (np.maximum(last, start_ms) - self.first_ms[older]) // every_ms
        n = np.maximum(windows - self.skipped[older], 0)
        if not is_steady:
            n = self.learnt[older] - (opened > 0)
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


REPORTS_PER_CALL = 32
_ROWS_PER_REFRESH = 4


@dataclass(frozen=True, slots=True, eq=False)
class Protected:
    """The windows of cells that nothing was learnt from, sorted by window start."""

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
            known = self.cells.before(start_ms, self.every_ms, is_steady=self.size_ms > 0)
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


_PROTECT_BELOW = float(np.log(1e-4))
"""A window whose upper tail is rarer than this is not learnt from."""

_PROTECT_FROM_COUNT = 5


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What one call of :meth:`Baselines.observe` saw.

    ``material`` are the changed counts, in the order given, each beside its baseline:
    ``window_start_ms``, ``user``, ``action``, ``count``, and over the cell's other windows ``n``,
    ``sum`` and ``sum_of_squares``. ``moments``, of
    :data:`~kstoolkit.findings.peers.MOMENTS_SCHEMA`, are the bucket's sums at 32 of the windows at
    most, the first and the last among them.
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
    forgotten_ms
        Cells without events since then have been forgotten.

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
    forgotten_ms: int = _NEVER

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
        if not block or block[0] != _VERSION:
            raise FormatError.version(_BLOCK, block[0] if block else 0, _VERSION)
        source = pa.BufferReader(pa.py_buffer(block)[1:])
        try:
            cells, protected = (pa.ipc.open_stream(source).read_all() for _ in range(2))
        except (pa.ArrowInvalid, OSError) as error:
            message = f"{len(block)} bytes that are no baselines: {error}"
            hint = "They are damaged; restore them from a copy."
            raise FormatError(message, hint=hint) from error
        window = cells.schema.metadata
        return cls(
            int(window[b"size_ms"]),
            int(window[b"every_ms"]),
            Cells.from_table(cells),
            Protected(protected["start_ms"].to_numpy(), protected["key"].to_numpy()),
            int(window.get(b"forgotten_ms", _NEVER)),
        )

    def encode(self) -> bytes:
        """Return the bytes of :mod:`~kstoolkit.findings.baselines`.

        Examples
        --------
        >>> Baselines.decode(Baselines.empty(3_600_000).encode()).every_ms
        3600000
        """
        told = ("size_ms", "every_ms", "forgotten_ms")
        window = {name: str(getattr(self, name)) for name in told}
        cells = self.cells.to_table().replace_schema_metadata(window)
        protected = pa.table({"start_ms": self.protected.start_ms, "key": self.protected.key})
        # As a global they could not be pickled, and so not travel to a cluster.
        options = pa.ipc.IpcWriteOptions(compression="zstd", unify_dictionaries=True)
        sink = pa.BufferOutputStream()
        sink.write(bytes([_VERSION]))
        for table in (cells, protected):
            with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
                writer.write_table(table)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

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
        calls, these later ones are the baseline too. Of what comes back after :meth:`evict` forgot
        it, nobody knows whether it was learnt: it is neither taken back nor learnt from.
        """
        is_batch = isinstance(changes, pa.RecordBatch)
        table = pa.Table.from_batches([changes]) if is_batch else changes
        start, old, count = (integers(table, name) for name in ("window_start_ms", "old", "count"))
        cell = self.cells.locate(table["user"], table["action"], self.forgotten_ms)
        known = start >= self.cells.from_ms[cell]
        starts, which = np.unique(start, return_inverse=True)
        closed = self.protected.holds(starts, which, cell, self.cells.key)
        self.cells.retract(cell[known], start[known], np.where(closed, 0, old)[known])
        walk = Walk(self.cells, self.protected, starts, (self.size_ms, self.every_ms))
        n, total = np.zeros_like(count), np.zeros_like(count)
        squares = np.zeros(len(count))
        for number, rows in _by_window(which, len(starts)):
            at, here = int(starts[number]), cell[rows]
            prior = walk.arrive(number, at, len(rows))
            is_steady = self.size_ms > 0  # and no session
            history = self.cells.other_windows(here, at, self.every_ms, is_steady=is_steady)
            n[rows], total[rows], squares[rows] = history
            fresh = ~closed[rows] & self._abnormal(prior, here, count[rows], n[rows], total[rows])
            fresh &= known[rows]
            learnt = np.where(closed[rows] | fresh, 0, count[rows])
            self.cells.learn(here[known[rows]], at, learnt[known[rows]])
            walk.protect(at, here[fresh])
        self.protected = walk.leave()
        material = table.select(["window_start_ms", "user", "action", "count"])
        for name, column in (("n", n), ("sum", total), ("sum_of_squares", squares)):
            material = material.append_column(name, pa.array(column))
        return Observation(material, walk.moments())

    def evict(self, before_ms: int) -> None:
        """Forget cells without events since then, and which windows before then were protected."""
        stays = self.cells.last_ms >= before_ms
        aged = self.protected.start_ms < before_ms
        if stays.all() and not aged.any():
            return
        self.forgotten_ms = max(self.forgotten_ms, before_ms)
        place = places(self.cells.key, self.protected.key)
        since = self.cells.from_ms
        since[place[aged]] = np.maximum(since[place[aged]], before_ms)
        kept = ~aged & stays[place]
        self.cells.keep(stays)
        key = self.cells.key[(np.cumsum(stays) - 1)[place[kept]]]
        self.protected = Protected(self.protected.start_ms[kept], key)

    def _abnormal(
        self, prior: Prior, cell: Integers, count: Integers, n: Integers, total: Integers
    ) -> Flags:
        """Return which counts are not to be learnt from."""
        abnormal = np.zeros(len(cell), bool)
        may = count >= _PROTECT_FROM_COUNT
        may &= self.cells.skipped[cell] < np.maximum(n, FEWEST_WINDOWS)
        rows = np.flatnonzero(may)
        expected = prior.take(self.cells.action[cell[rows]]).expect(n[rows], total[rows])
        # Most lie within one standard deviation, and need no closer look.
        far = np.flatnonzero(count[rows] > expected.mean + np.sqrt(expected.variance))
        rows = rows[far]
        abnormal[rows] = expected.take(far).is_rarer(count[rows], _PROTECT_BELOW)
        return abnormal


def _by_window(which: Integers, windows: int) -> Iterator[tuple[int, Integers]]:
    order = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[order], np.arange(windows + 1))
    for number in range(windows):
        yield number, order[ends[number] : ends[number + 1]]
