"""What each user usually does: one bucket's baselines, which learn window by window.

A cell (user, action) keeps how many windows it has, and the sum and the sum of squares of what they
taught: windows without events are zeros from its first event on, never before it. It is found by
its key: the user's place and the action's place in the bucket's two dictionaries, packed into one
integer. Cells are kept sorted by key, as columns that change in place.

A window teaches when it is *closed*, once, in order; what comes for it later changes no baseline.
It teaches no more than the cell's second-highest window lets it,

    learnt = min(count, floor(2 M₂) + 5),

so no outbreak makes itself normal, and a level that lasts does. The two highest windows age, by
0.05 % an hour. All of that is a cell's own: how users lie in buckets, and windows in batches, makes
no difference. Who did nothing for four weeks, or 28 windows if those are longer, is forgotten.

Of sessions, a cell's windows are those that it has: a pause is none. Here a session begins when the
gap that it began in did: no two of a cell begin in one.

As bytes, in the state store for each bucket and kind of window::

    version (1 byte) · Arrow IPC stream of cells · Arrow IPC stream of first windows

Where a closing changed few of many cells, these alone are laid beside that block, in the same form,
at the same key and ``+1``, ``+2`` …: each takes the place of what was told of its cells before, and
its first windows, of all that were. They are folded once they are an eighth of all cells.

Both streams have ZSTD-compressed buffers. The cells' schema metadata holds ``size_ms`` and
``every_ms`` of the window, in decimal, and ``closed_ms``: windows that begin before that have
taught. Of sessions ``size_ms`` is minus their gap. Where users are of several kinds, ``group`` is
the expression that tells, and an action one of a kind (:mod:`~kstoolkit.findings.peers`). Cells,
sorted by user and action in dictionary order:

==============  ==========================  ===================================================
column          type                        meaning
==============  ==========================  ===================================================
user            dictionary<int32, string>   who
action          dictionary<int32, string>   what
first_ms        int64                       start of the first window with events, epoch ms UTC
last_ms         int64                       start of the last one
learnt          int64                       how many windows had events
total           int64                       sum of all that was learnt
squares         double                      sum of its squares
top, second     double                      the two highest counts, as aged as at ``last_ms``
even_cosine …   float                       sums of the rhythm: :mod:`~kstoolkit.findings.rhythm`
rise, highest   double                      evidence that the level has risen, and the highest of it
rising_ms       double                      since when there is any, epoch ms UTC
block, spread   double                      of the present 24 windows, Σ counts and Σ their squares
==============  ==========================  ===================================================

The last five are there where a rule watches them: see :mod:`~kstoolkit.findings.lasting`.

First windows: ``action``, and over all first windows of its cells ``number``, ``sum`` and
``sum_of_squares``. Version 1, of earlier releases, learnt otherwise: it is not read, and what is
usual is learnt anew from the counts that there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import count as numbers_from
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import FormatError
from kstoolkit.findings.lasting import (
    AS_IS,
    BLOCK,
    LASTING_SCHEMA,
    NEWCOMERS_SCHEMA,
    NOTHING,
    RISING,
    Rise,
    Watch,
    evenness,
    ready_after,
)
from kstoolkit.findings.peers import (
    FACTS_SCHEMA,
    FEWEST_WINDOWS,
    codes_in,
    encoded,
    first_terms,
    grid_ms,
    integers,
    moments_of,
    moments_of_firsts,
    moments_table,
    of_all_kinds,
    of_kinds,
    places,
    regrouped,
    streamed,
    streams_in,
)
from kstoolkit.findings.rhythm import TOO_FEW, has_rhythm, is_odd, is_shown_none, rhythm_of, wave_at
from kstoolkit.findings.seldom import Seldom
from kstoolkit.findings.tails import PRIOR_DISPERSION, own_dispersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

    from numpy.typing import NDArray

    from kstoolkit.findings.peers import Flags, Floats, Integers, Moments, Waves

    Singles = NDArray[np.float32]
    _Law = dict[str, Floats | Integers]
    """Columns of LASTING_SCHEMA by name."""

    Past = dict[str, NDArray[Any]]
    """What was known of cells, one a row: columns of them by name."""

_VERSION, _EARLIER = 2, 1
_BLOCK = "block of baselines"
_DAMAGED = "They are damaged; restore them from a copy."
_NEVER, _FOREVER = -(1 << 62), 1 << 62
_ACTION_BITS = 32
_ACTION_MASK = (1 << _ACTION_BITS) - 1

_HOUR_MS = 3_600_000
_AGE_PER_MS = float(np.log(0.9995)) / _HOUR_MS
"""A record of 2,000 hours ago counts for a third of what it was."""

_REMEMBERED_MS = 4 * 7 * 24 * _HOUR_MS
_REMEMBERED_WINDOWS = 28

_MOST_OF_SECOND, _MOST_BESIDES = 2, 5

_CLIPPED_AT = 5
"""In how busy all are, no count is more than so many times what is usual for it, or than five."""

_MANY_ROWS = 256
"""With so many rows a window, it costs no more to go through windows one by one."""

_STRETCH = 28
"""Of so many steps of the grid cells are taken up at once, and then let go if they are old."""

_AT_ONCE = 1 << 15
"""Looks at peers are added up together, up to about so many cells: of few, each costs as much."""

_LARGE, _SHARE, _MOST_BESIDE = 4096, 8, 16
"""From how many cells on a block has others beside it, up to what share of them, how often."""

_HISTORY = ("n", "sum", "sum_of_squares", "second", "cosine", "sine")
_WINDOW = ("size_ms", "every_ms", "closed_ms")
_GROUP = b"group"
_FIRSTS = ("number", "sum", "sum_of_squares")


@dataclass(slots=True, eq=False)
class Cells:
    """One value a cell in each column, as the table above says; ascending by key.

    ``users`` and ``actions`` are the dictionaries that keys point into. ``watched`` has the last
    five columns as rows, or none where nothing is watched. Before any window with
    events ``first_ms`` is ``_FOREVER`` and ``last_ms`` is ``_NEVER``.
    """

    users: pa.Array
    actions: pa.Array
    key: Integers
    first_ms: Integers
    last_ms: Integers
    learnt: Integers
    total: Integers
    squares: Floats
    top: Floats
    second: Floats
    even_cosine: Singles
    even_sine: Singles
    odd_cosine: Singles
    odd_sine: Singles
    watched: Floats

    @classmethod
    def empty(cls) -> Cells:
        """Return no cells."""
        texts = pa.array([], pa.string())
        columns: dict[str, Any] = {name: np.empty(0, kind) for name, kind in _COLUMNS.items()}
        return cls(texts, texts, **columns, watched=np.empty((0, 0)))

    @classmethod
    def from_table(cls, table: pa.Table, actions: pa.Array) -> Cells:
        """Return the cells of :meth:`to_table`, of some actions in this order."""
        users, user = encoded(table["user"])
        action = codes_in(table["action"], actions)
        if np.any(action < 0):
            message = f"{len(table)} cells of which the actions are cut off"
            raise FormatError(message, hint=_DAMAGED)
        columns: dict[str, Any] = {
            name: table[name].to_numpy().astype(kind)
            for name, kind in _COLUMNS.items()
            if name != "key"
        }
        told = [table[name].to_numpy() for name in _WATCHED if name in table.column_names]
        columns["watched"] = np.array(told, np.float64).reshape(len(told), len(table))
        columns["key"] = user << _ACTION_BITS | action
        return cls(users, actions, **columns)

    def to_table(self, some: Integers | slice = slice(None)) -> pa.Table:
        """Return cells as a table: user and action as text by dictionary, then the rest."""
        users, user = self.users, self.user[some]
        if not isinstance(some, slice):  # few of many: the others' names are not told
            users, user = encoded(pa.DictionaryArray.from_arrays(user, users))
        coded = ((user, users), (self.action_of(some), self.actions))
        names = [
            pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), texts)
            for codes, texts in coded
        ]
        columns = {name: getattr(self, name)[some] for name in _COLUMNS if name != "key"}
        columns |= dict(zip(_WATCHED, self.watched[:, some], strict=False))
        return pa.table({"user": names[0], "action": names[1]} | columns)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def user(self) -> Integers:
        """The user's place of each cell."""
        return self.key >> _ACTION_BITS

    def action_of(self, cell: Integers | slice) -> Integers:
        """Return the action's place of some cells."""
        return self.key[cell] & _ACTION_MASK

    def keys(self, user: pa.ChunkedArray, action: pa.ChunkedArray) -> Integers:
        """Return the key of each row, until :meth:`prune`; who or what is new gets a place."""
        self.users, user_place = _extend(self.users, user)
        self.actions, action_place = _extend(self.actions, action)
        return user_place << _ACTION_BITS | action_place

    def locate(self, key: Integers) -> Integers:
        """Return the cell of each key; one that is new becomes a cell."""
        found = places(self.key, key)
        if np.any(found < 0):
            self._insert(np.unique(key[found < 0]))
            found = np.searchsorted(self.key, key)
        return found

    def known(self, user: pa.ChunkedArray, action: pa.ChunkedArray) -> Integers:
        """Return the cell of each row, -1 where there is none."""
        codes = codes_in(user, self.users), codes_in(action, self.actions)
        found = places(self.key, codes[0] << _ACTION_BITS | codes[1])
        return np.where(np.minimum(*codes) < 0, -1, found)

    def _insert(self, new: Integers) -> None:
        nothing = np.zeros(len(new), np.int64)
        added = {"key": new, "first_ms": nothing + _FOREVER, "last_ms": nothing + _NEVER}
        order = np.argsort(np.concatenate([self.key, new]), kind="stable")
        for name, kind in _COLUMNS.items():
            column = np.concatenate([getattr(self, name), added.get(name, nothing).astype(kind)])
            setattr(self, name, column[order])
        watched = np.zeros((len(self.watched), len(new)))
        self.watched = np.concatenate([self.watched, watched], axis=1)[:, order]

    def keep(self, rows: Flags) -> None:
        """Forget all other cells."""
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[rows])
        self.watched = self.watched[:, rows]

    def prune(self) -> None:
        """Forget the users that have no cell."""
        self.users, user = encoded(pa.DictionaryArray.from_arrays(self.user, self.users))
        self.key = user << _ACTION_BITS | self.action_of(slice(None))

    def told(self, cell: Integers) -> Past:
        """Return what is known of some cells."""
        return {name: getattr(self, name)[cell] for name in _TOLD}

    def learn(self, cell: Integers, at: _Windows, count: Integers, age: Floats) -> Past:
        """Learn a count of each of some cells, no cell twice; return what was known before.

        Their two highest windows are worth ``age`` of what they were.
        """
        past, top = self.told(cell), age * self.top[cell]
        past["second"] = second = age * past["second"]
        at_most = (np.floor(_MOST_OF_SECOND * second) + _MOST_BESIDES).astype(np.int64)
        held = np.minimum(count, at_most)
        cosine, sine = held * at.wave.real, held * at.wave.imag
        odd = np.count_nonzero(at.is_odd)
        halves: dict[str, Flags | slice] = {"even": ~at.is_odd, "odd": at.is_odd}
        if odd in {0, len(cell)}:  # as a rule all are of one day
            halves = {"odd" if odd else "even": slice(None)}
        for half, some in halves.items():
            getattr(self, f"{half}_cosine")[cell[some]] += cosine[some]
            getattr(self, f"{half}_sine")[cell[some]] += sine[some]
        self.total[cell] = past["total"] + held
        self.squares[cell] = past["squares"] + np.square(held, dtype=np.float64)
        self.learnt[cell] = past["learnt"] + 1
        self.first_ms[cell] = np.minimum(past["first_ms"], at.start_ms)
        self.last_ms[cell] = at.start_ms
        self.second[cell] = np.maximum(second, np.minimum(top, count))
        self.top[cell] = np.maximum(top, count)
        return past

    def forget(self, cell: Integers) -> None:
        """Have cells begin anew."""
        for name in _COLUMNS.keys() - {"key", "first_ms", "last_ms"}:
            getattr(self, name)[cell] = 0
        self.watched[:, cell] = 0
        self.first_ms[cell], self.last_ms[cell] = _FOREVER, _NEVER


_KINDS = {"Integers": np.int64, "Floats": np.float64, "Singles": np.float32}
_COLUMNS = {
    each.name: _KINDS[str(each.type)]
    for each in fields(Cells)
    if each.name not in {"users", "actions", "watched"}
}
_WATCHED = ("rise", "highest", "rising_ms", "block", "spread")
_HALVES = ("even_cosine", "even_sine", "odd_cosine", "odd_sine")
_AGES = ("first_ms", "learnt")
_TOLD = (*_AGES, "total", "squares", "second", *_HALVES)


class _Windows(NamedTuple):
    """Windows, one a row: when each begins, where in the day, and in which half of the days."""

    start_ms: Integers
    wave: Waves
    is_odd: Flags

    def part(self, rows: slice | Integers) -> _Windows:
        """Return some rows of them."""
        return _Windows(self.start_ms[rows], self.wave[rows], self.is_odd[rows])


def _extend(known: pa.Array, column: pa.ChunkedArray) -> tuple[pa.Array, Integers]:
    """Return the dictionary with what the column adds, and the place of each of its rows."""
    texts, codes = encoded(column)
    place = pc.index_in(texts, value_set=known)
    if place.null_count:
        known = pa.concat_arrays([known, pc.unique(texts.filter(place.is_null()))])
        place = pc.index_in(texts, value_set=known)
    return known, place.to_numpy().astype(np.int64)[codes]


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """What the windows told that were closed in one call of :meth:`Baselines.close`.

    ``material`` are their counts from a floor on, in the order given, each beside what was known of
    its cell when the window began: ``window_start_ms``, ``user``, ``action``, ``count``,
    ``n``, ``sum``, ``sum_of_squares``, ``second`` (its second-highest window, aged), ``cosine`` and
    ``sine`` (its rhythm). ``moments`` and ``facts`` have the columns that
    :mod:`~kstoolkit.findings.peers` tells; ``lasting`` and ``newcomers``, those that
    :mod:`~kstoolkit.findings.lasting` does, are what is watched.
    """

    material: pa.Table
    moments: pa.Table
    facts: pa.Table
    lasting: pa.Table
    newcomers: pa.Table


class _Look(NamedTuple):
    """What one look at peers has seen, one a row: actions, and windows, sum and sum of squares.

    Of ``some`` rows it takes their ``past`` to tell the rhythm; the others have none. ``seldom``
    are those with an event or two, none where these are among the rows.
    """

    at_ms: int
    action: Integers
    history: tuple[Integers, Integers, Floats]
    some: Integers
    past: Past
    seldom: Floats


@dataclass(slots=True)
class _Told:
    """What the windows told so far that are being closed; their peers were looked at until then.

    ``settled`` are cells that are shown no rhythm until they learn again; ``taught`` have learnt
    since those with an event or two were, unless ``is_elsewhere`` says that cells were taken up;
    ``looks`` are yet to be added up.
    """

    looked_ms: int
    until_ms: int
    is_elsewhere: bool = True
    taught: Flags = field(default_factory=lambda: np.zeros(0, bool))
    settled: Flags = field(default_factory=lambda: np.zeros(0, bool))
    looks: list[_Look] = field(default_factory=list)
    moments: list[Moments] = field(default_factory=list)
    facts: list[pa.Table] = field(default_factory=lambda: [FACTS_SCHEMA.empty_table()])
    lasting: list[pa.Table] = field(default_factory=lambda: [LASTING_SCHEMA.empty_table()])
    newcomers: list[pa.Table] = field(default_factory=lambda: [NEWCOMERS_SCHEMA.empty_table()])

    def add_facts(self, starts: Integers, which: Integers, facts: Floats) -> None:
        """Take in what each row adds to the facts of the window that it is of."""
        sums = [np.bincount(which, each, len(starts)).astype(np.int64) for each in facts]
        self.facts.append(pa.table([starts, *sums], schema=FACTS_SCHEMA))

    def closed(self, material: pa.Table, actions: pa.Array) -> Closed:
        """Return all of it, beside the counts themselves."""
        parts = self.facts, self.lasting, self.newcomers
        facts, lasting, newcomers = map(pa.concat_tables, parts)
        order = [(name, "ascending") for name in ("window_start_ms", "user", "action", "history")]
        moments = moments_table(self.moments, actions)
        return Closed(material, moments, facts, lasting.sort_by(order), newcomers)


class _Held(NamedTuple):
    """How baselines lie in blocks: of so many cells, beside them of so many in so many blocks.

    They were written when windows before ``closed_ms`` had taught.
    """

    cells: int
    beside: int
    number: int
    closed_ms: int


@dataclass(slots=True, eq=False)
class Baselines:
    """The baselines of one bucket of users for one kind of window.

    ``cells`` have the history of each (user, action); ``firsts``, a row an action, the number of
    first windows, and the sum of their counts and of the squares. Windows that begin before
    ``closed_ms`` are learnt from, and later ones are not. ``seldom`` is of the last closing: the
    next one takes over its table.

    >>> baselines = Baselines.empty(3_600_000)
    >>> hours = pa.array([0, 3_600_000, 10_800_000])
    >>> who, what = pa.array(["Anna"] * 3), pa.array(["read"] * 3)
    >>> counts = {"window_start_ms": hours, "user": who, "action": what, "count": [4, 6, 3]}
    >>> closed = baselines.close(pa.table(counts), 14_400_000)
    >>> closed.material.select(["count", "n", "sum"]).to_pylist()[-1]
    {'count': 3, 'n': 3, 'sum': 9}
    """

    size_ms: int
    every_ms: int
    cells: Cells
    firsts: Floats
    closed_ms: int = _NEVER
    watch: Watch = NOTHING
    held: _Held | None = None
    seldom: Seldom | None = None

    def __post_init__(self) -> None:
        if self.watch and not len(self.cells.watched):
            self.cells.watched = np.zeros((len(_WATCHED), len(self.cells)))

    @classmethod
    def empty(cls, size_ms: int, every_ms: int | None = None, watch: Watch = NOTHING) -> Baselines:
        """Return the baselines of a bucket that has seen nothing; ``every_ms`` is for hops."""
        return cls(size_ms, every_ms or size_ms, Cells.empty(), np.empty((0, 3)), watch=watch)

    @classmethod
    def decode(cls, block: bytes, watch: Watch = NOTHING) -> Baselines:
        """Read what :meth:`encode` wrote; of other kinds of users nothing is known.

        An unknown version, and bytes that are no baselines, are a FormatError.
        """
        if not block or block[0] != _VERSION:
            raise FormatError.version(_BLOCK, block[0] if block else 0, _VERSION)
        try:
            cells, firsts = streams_in(block[1:])
        except (pa.ArrowInvalid, OSError, ValueError) as error:
            message = f"{len(block)} bytes that are no baselines: {error}"
            raise FormatError(message, hint=_DAMAGED) from error
        told = cells.schema.metadata
        size_ms, every_ms, closed_ms = (int(told[key.encode()]) for key in _WINDOW)
        actions, held = firsts["action"].combine_chunks(), None
        if told.get(_GROUP) != _group(watch).get(_GROUP):  # a user's own past is the same
            cells = regrouped(cells, watch.group, had_kinds=_GROUP in told)
            firsts = firsts.slice(0, 0)
            actions, _ = encoded(cells["action"])
            held = _Held(0, 0, 0, _NEVER)  # nothing of what lies there may stay
        read = Cells.from_table(cells, actions)
        sums = np.column_stack([firsts[name].to_numpy() for name in _FIRSTS])
        return cls(size_ms, every_ms, read, sums, closed_ms, watch, held)

    @classmethod
    def at(cls, blocks: Mapping[str, bytes], key: str, watch: Watch = NOTHING) -> Baselines | None:
        """Return what :meth:`put` wrote; ``None`` if it didn't, or a release that learnt otherwise.

        >>> blocks = {}
        >>> Baselines.empty(3_600_000).put(blocks, "history/1")
        >>> Baselines.at(blocks, "history/1").every_ms
        3600000
        """
        block = blocks.get(key)
        if block is None or block[:1] == bytes([_EARLIER]):
            return None
        found = cls.decode(block, watch)
        later = list[Baselines]()
        while (block := blocks.get(f"{key}+{len(later) + 1}")) is not None:
            later.append(cls.decode(block, watch))
        beside = sum(len(each.cells) for each in later)
        cells = 0 if found.held else len(found.cells)
        if later:
            found._replace(later)
        found.held = _Held(cells, beside, len(later), found.closed_ms)
        return found

    def put(self, blocks: MutableMapping[str, bytes], key: str) -> None:
        """Write what changed since :meth:`at`: all, unless that is little of much."""
        held = self.held or _Held(0, 0, 0, _NEVER)
        changed = np.flatnonzero(self.cells.last_ms >= held.closed_ms)
        beside, number = held.beside + len(changed), held.number + 1
        is_little = held.cells >= _LARGE and beside * _SHARE <= held.cells
        if is_little and number <= _MOST_BESIDE:
            blocks[f"{key}+{number}"] = self.encode(changed)
            self.held = _Held(held.cells, beside, number, self.closed_ms)
            return
        for number in numbers_from(1):  # whoever wrote them
            if blocks.pop(f"{key}+{number}", None) is None:
                break
        blocks[key] = self.encode()
        self.held = _Held(len(self.cells), 0, 0, self.closed_ms)

    def _replace(self, later: Sequence[Baselines]) -> None:
        """Take over what was laid beside, the last of each cell."""
        self.firsts = later[-1].firsts
        if self.held is None:
            self.cells.actions = later[-1].cells.actions  # which begin with these
        told = pa.concat_tables(each.cells.to_table() for each in later)
        cell = self.cells.locate(self.cells.keys(told["user"], told["action"]))
        for name in _COLUMNS.keys() - {"key"}:
            getattr(self.cells, name)[cell] = told[name].to_numpy()
        for row, name in zip(self.cells.watched, _WATCHED, strict=False):
            row[cell] = told[name].to_numpy()
        if self._forget_before(later[-1].closed_ms):
            self.cells.prune()

    def _forget_before(self, until_ms: int) -> bool:
        """Forget the cells that nothing was added to for too long by then; return if there were."""
        self.closed_ms = until_ms
        stays = self.cells.last_ms >= until_ms - self._remembered_ms
        if not stays.all():
            self.cells.keep(stays)
        return len(stays) > len(self.cells)

    def encode(self, some: Integers | None = None) -> bytes:
        """Return the bytes of :mod:`~kstoolkit.findings.baselines`, of some cells or of all.

        >>> Baselines.decode(Baselines.empty(3_600_000).encode()).every_ms
        3600000
        """
        window = {name: str(getattr(self, name)) for name in _WINDOW}
        told = self.cells.to_table(slice(None) if some is None else some)
        cells = told.replace_schema_metadata(window | _group(self.watch))
        sums = dict(zip(_FIRSTS, self._firsts().T, strict=True))
        return bytes([_VERSION]) + streamed(cells, pa.table({"action": self.cells.actions} | sums))

    def close(self, counts: pa.Table | pa.RecordBatch, until_ms: int, floor: int = 1) -> Closed:
        """Learn from windows that are over, and return what they told.

        ``counts`` are all of windows that begin from ``closed_ms`` on and before ``until_ms``:
        ``window_start_ms`` (int64), ``user`` and ``action`` (text or dictionary), ``count``; each
        (window, user, action) once, in any order. Those from ``floor`` on are part of what is
        returned. Of windows after the last there is nothing to tell where ``until_ms`` is for ever.
        """
        start, count = integers(counts, "window_start_ms"), integers(counts, "count")
        key, is_told = self.cells.keys(*self._names(counts)), count >= floor
        place = np.cumsum(is_told) - 1  # among those told, which are few
        history = np.zeros((len(_HISTORY), np.count_nonzero(is_told)))
        told, forgot = _Told(self.closed_ms, until_ms), False
        for end_ms, rows in _in_stretches(start, grid_ms(self.every_ms) * _STRETCH, until_ms):
            cell = self.cells.locate(key[rows])
            self.firsts, told.is_elsewhere = self._firsts(), True
            told.settled, told.taught = np.zeros((2, len(self.cells)), bool)
            order, known = self._teach(cell, start[rows], count[rows], told)
            some = is_told[rows[order]]
            history[:, place[rows[order[some]]]] = known[:, some]
            if end_ms < until_ms:
                self._look(told, end_ms)
                forgot |= self._forget_before(end_ms)
        if until_ms < _FOREVER:
            self._look(told, until_ms)
        self._add_up(told)
        if self._forget_before(until_ms) or forgot:
            self.cells.prune()
        material = _beside(counts.filter(pa.array(is_told)), history)
        return told.closed(material, self.cells.actions)

    def _teach(
        self, cell: Integers, start: Integers, count: Integers, told: _Told
    ) -> tuple[Integers, Floats]:
        """Learn from windows; return the order in which they taught, and what was known before."""
        starts, which = _windows_of(start, self.every_ms)
        order, turns = _in_turns(starts, which, cell, grid_ms(self.every_ms))
        which, cell, count = which[order], cell[order], count[order]
        windows = _Windows(starts, wave_at(starts), is_odd(starts)).part(which)
        pasts = [self.cells.told(cell[:0])]
        for span_ms, turn in turns:
            if span_ms != told.looked_ms:
                self._look(told, span_ms)
            pasts.append(self._pass(windows.part(turn), cell[turn], count[turn], told.lasting))
            told.settled[cell[turn]] = False
            told.taught[cell[turn]] = True
        past = {name: np.concatenate([each[name] for each in pasts]) for name in _TOLD}
        known, facts = self._known(windows.start_ms, count, past)
        told.add_facts(starts, which, facts)
        told.newcomers.append(self._newcomers(starts, which, cell, facts[-1] > 0))
        return order, known

    def compare(self, counts: pa.Table | pa.RecordBatch) -> pa.Table:
        """Return counts of windows that are not over, each beside what is known of its cell."""
        start = integers(counts, "window_start_ms")
        cell = self.cells.known(*self._names(counts))
        history = np.zeros((len(_HISTORY), len(start)))
        last_ms = np.append(self.cells.last_ms, _NEVER)[cell]
        known = (cell >= 0) & (last_ms >= start - self._remembered_ms)
        cell, start = cell[known], start[known]
        past = self.cells.told(cell)
        n = self._windows(past, np.minimum(start, self.closed_ms))
        aged = self._age(start - self.cells.last_ms[cell]) * past["second"]
        rhythm = self._rhythm(past, n)
        history[:, known] = n, past["total"], past["squares"], aged, rhythm.real, rhythm.imag
        return _beside(counts, history)

    def _pass(self, at: _Windows, cell: Integers, count: Integers, told: list[pa.Table]) -> Past:
        """Learn from one count of each of some cells; return what was known before."""
        cells, start = self.cells, at.start_ms
        last_ms = cells.last_ms[cell]
        stale = (last_ms < start - self._remembered_ms) & (last_ms > _NEVER)
        if stale.any():
            cells.forget(cell[stale])
        if self.watch:
            n = self._windows(cells.told(cell), start)
            if self.watch.factor is not None:
                told.append(self._rise(start, cell, count, n, self.watch.factor))
            if self.watch.evenness:
                told.append(self._even(start, cell, count, n))
        past = cells.learn(cell, at, count, self._age(start - last_ms))
        new = (past["first_ms"] == _FOREVER).nonzero()[0]
        if len(new):
            action = cells.action_of(cell[new])
            self.firsts += first_terms(action, count[new], len(cells.actions))
        return past

    def _known(self, start: Integers, count: Integers, past: Past) -> tuple[Floats, Floats]:
        """Return what was known before windows, and what these add to the facts of all."""
        n, total = self._windows(past, start), past["total"]
        rhythm = self._rhythm(past, n)
        was_known = self._windows(past, start - start % grid_ms(self.every_ms)) >= FEWEST_WINDOWS
        usual = total / np.maximum(n, 1)
        most = np.maximum(np.floor(_CLIPPED_AT * usual), _CLIPPED_AT).astype(np.int64)
        held = np.minimum(count, most) * (was_known & (n > 0))
        known = np.stack([n, total, past["squares"], past["second"], rhythm.real, rhythm.imag])
        return known, np.stack([held, held * (rhythm != 0), n == 0])

    def _rise(
        self, at: Integers, cell: Integers, count: Integers, n: Integers, factor: float
    ) -> pa.Table:
        """Add up the evidence that levels have risen; return what there is more than ever."""
        cells, ready = self.cells, np.flatnonzero(n >= ready_after(self.every_ms))
        at, cell, count, n = at[ready], cell[ready], count[ready], n[ready]
        total, pooled = cells.total[cell].astype(np.float64), np.array(PRIOR_DISPERSION)
        mean, bursty = total / n, own_dispersion(n, total, cells.squares[cell], pooled)
        quiet = (at - cells.last_ms[cell]) / self.every_ms - 1
        rise = Rise(*cells.watched[:3, cell]).after(count, at, (quiet, mean, bursty), factor=factor)
        surprise, earlier = rise.surprise()
        highest = np.maximum(rise.highest, rise.evidence)
        cells.watched[:3, cell] = rise.evidence, highest, rise.since_ms
        law: _Law = {"since_ms": rise.since_ms, "mean": mean, "dispersion": bursty}
        law |= {"surprise": surprise, "before": earlier, "count": count, "n": n}
        return self._told(at, cell, law, RISING)

    def _even(self, at: Integers, cell: Integers, count: Integers, n: Integers) -> pa.Table:
        """Add a window to its cells' block of 24; return which of them that ends are even."""
        cells = self.cells
        goes_on = (cells.last_ms[cell] - cells.first_ms[cell]) // self.every_ms >= n - n % BLOCK
        told = np.where(goes_on, cells.watched[3:, cell], 0) + np.power(count, [[1], [2]])
        cells.watched[3:, cell] = told
        ends = np.flatnonzero(n % BLOCK == BLOCK - 1)
        at, cell, count, nothing = at[ends], cell[ends], count[ends], np.zeros(len(ends))
        total, squares = told[:, ends]
        law: _Law = {"since_ms": at - (BLOCK - 1) * self.every_ms}
        law |= {"mean": total / BLOCK, "dispersion": nothing, "before": nothing}
        law |= {"surprise": evenness(total, squares)}
        law |= {"count": count, "n": nothing + BLOCK}
        return self._told(at, cell, law, AS_IS)

    def _told(self, at: Integers, cell: Integers, law: _Law, history: int) -> pa.Table:
        """Return what is surprising of some cells, and more so than before."""
        some = np.flatnonzero((law["surprise"] >= 1) & (law["surprise"] > law["before"]))
        if not len(some):
            return LASTING_SCHEMA.empty_table()
        who = self.cells.users.take(pa.array(self.cells.user[cell[some]]))
        what = self._actions(self.cells.action_of(cell[some]))
        told = {name: column[some] for name, column in law.items()}
        told |= {"window_start_ms": at[some], "user": who, "action": what}
        told |= {"history": np.full(len(some), history)}
        columns = [pa.array(told[f.name]).cast(f.type) for f in LASTING_SCHEMA]
        return pa.table(columns, schema=LASTING_SCHEMA)

    def _newcomers(
        self, starts: Integers, which: Integers, cell: Integers, is_new: Flags
    ) -> pa.Table:
        """Return how many cells of each action are new in each window, where that is watched."""
        if not (self.watch.newcomers and is_new.any()):
            return NEWCOMERS_SCHEMA.empty_table()
        of_window = which[is_new] << _ACTION_BITS | self.cells.action_of(cell[is_new])
        some, number = np.unique(of_window, return_counts=True)
        what = self._actions(some & _ACTION_MASK)
        return pa.table([starts[some >> _ACTION_BITS], what, number], schema=NEWCOMERS_SCHEMA)

    def _names(self, counts: pa.Table | pa.RecordBatch) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Return the users of counts, and the actions, each as one of the user's kind."""
        columns = map(counts.column, ("user", "action"))
        user, action = (pa.chunked_array([c]) if isinstance(c, pa.Array) else c for c in columns)
        return user, of_kinds(user, action, self.watch.group)

    def _actions(self, places: Integers) -> pa.Array:
        """Return actions by their places in the dictionary, as they were counted."""
        actions = self.cells.actions.take(pa.array(places)).cast(pa.string())
        return actions if self.watch.group is None else of_all_kinds(actions)

    def _look(self, told: _Told, until_ms: int) -> None:
        """Look at peers at each time of the grid that comes until then."""
        grid, cells, after_ms = grid_ms(self.every_ms), self.cells, told.looked_ms
        told.looked_ms = until_ms
        last_ms = int(cells.last_ms.max(initial=_NEVER))
        end_ms = min(until_ms, last_ms + self._remembered_ms)
        begin_ms = max(after_ms, int(cells.first_ms.min(initial=_FOREVER)))
        for at in range((begin_ms // grid + 1) * grid, end_ms + 1, grid):
            since_ms = at - self._remembered_ms
            seldom = self._seldom(told, at, since_ms)
            often = cells.last_ms >= since_ms
            if seldom.is_worth_it:
                often &= cells.total > TOO_FEW
            seen = self._seen(np.flatnonzero(often), at, told.settled, seldom.seen(at, since_ms))
            told.looks.append(seen)
            told.moments.append(moments_of_firsts(at, self.firsts))
            sizes = len(seen.action), seen.seldom.size // 8, len(cells.actions) * 8
            if len(told.looks) * max(sizes) >= _AT_ONCE:
                self._add_up(told)

    def _seldom(self, told: _Told, at_ms: int, since_ms: int) -> Seldom:
        """Return the cells with an event or two, as they have learnt by then."""
        seldom = self.seldom
        if seldom is None or told.is_elsewhere or at_ms > seldom.until_ms:
            every_ms = self.every_ms if self.size_ms > 0 else 0
            until_ms = at_ms + _STRETCH * grid_ms(self.every_ms)
            span_ms = since_ms, min(until_ms, max(told.until_ms, at_ms)), self._remembered_ms
            self._add_up(told)  # what was seen of it is as wide as its span was
            self.seldom = seldom = Seldom(self.cells, every_ms, span_ms, seldom)
            told.is_elsewhere = False
        elif seldom.is_worth_it:
            seldom.learn(np.flatnonzero(told.taught))
        told.taught[:] = False
        return seldom

    def _seen(self, cell: Integers, at: int, settled: Flags, seldom: Floats) -> _Look:
        """Return what a look sees; ``settled`` are those that are shown no rhythm."""
        cells = self.cells
        n = self._windows({name: getattr(cells, name)[cell] for name in _AGES}, at)
        total = cells.total[cell]
        some = np.flatnonzero(~settled[cell] & (total > TOO_FEW))
        settled[cell[some]] = self._is_settled(cells.told(cell[some]), n[some])
        some = some[~settled[cell[some]]]
        history = n, total, cells.squares[cell]
        return _Look(at, cells.action_of(cell), history, some, cells.told(cell[some]), seldom)

    def _add_up(self, told: _Told) -> None:
        """Add up what was seen, all looks in one go: each of their actions is one of its own."""
        looks, told.looks = told.looks, []
        if not looks:
            return
        begins, actions = np.cumsum([0, *(len(each.action) for each in looks)]), len(self.firsts)
        number = np.repeat(np.arange(len(looks)), np.diff(begins))
        action = np.concatenate([each.action for each in looks]) + number * actions
        n, total, squares = map(np.concatenate, zip(*(each.history for each in looks), strict=True))
        some = np.concatenate([each.some + at for each, at in zip(looks, begins, strict=False)])
        past = {name: np.concatenate([each.past[name] for each in looks]) for name in _TOLD}
        rhythm = np.zeros(len(action), complex)
        rhythm[some] = self._rhythm(past, n[some])
        found = moments_of(0, action, (n, total, squares), rhythm)
        if self.seldom:
            found = found.beside(self.seldom.moments([each.seldom for each in looks], actions))
        number, action = np.divmod(found.action, actions)
        at_ms = np.array([each.at_ms for each in looks])[number]
        told.moments.append(found._replace(start_ms=at_ms, action=action))

    def _windows(self, past: Past, until_ms: int | Integers) -> Integers:
        """Return how many windows of history cells have by then."""
        if self.size_ms <= 0:  # of sessions, those that there were
            return past["learnt"]
        return np.maximum(until_ms - past["first_ms"], 0) // self.every_ms

    def _rhythm(self, past: Past, n: Integers) -> Waves:
        """Return the rhythm of a day that cells are known to have by n windows; sessions, none."""
        every_ms = self.every_ms if self.size_ms > 0 else 0
        found, some = np.zeros(len(n), complex), np.flatnonzero(past["total"] > TOO_FEW)
        past = {name: column[some] for name, column in past.items()}
        history = n[some], past["total"], past["squares"]
        overlap = self.size_ms / self.every_ms
        found[some] = rhythm_of(_waves(past), history, past["first_ms"], every_ms, overlap)
        return found

    def _is_settled(self, past: Past, n: Integers) -> Flags:
        """Return which cells are shown no rhythm until they learn."""
        if self.size_ms <= 0 or not has_rhythm(self.every_ms):
            return np.ones(len(n), bool)
        overlap = self.size_ms / self.every_ms
        return is_shown_none(_waves(past), (n, past["total"]), self.every_ms, overlap)

    @property
    def _remembered_ms(self) -> int:
        return max(_REMEMBERED_MS, _REMEMBERED_WINDOWS * self.every_ms)

    def _age(self, passed_ms: Integers) -> Floats:
        return np.exp(np.maximum(passed_ms, 0) * _AGE_PER_MS)

    def _firsts(self) -> Floats:
        """Return the sums of first windows with a row for each action there is by now."""
        return np.pad(self.firsts, ((0, len(self.cells.actions) - len(self.firsts)), (0, 0)))


def _waves(past: Past) -> tuple[Waves, Waves]:
    """Return the sums of the rhythm, of even and of odd days."""
    even_cosine, even_sine, odd_cosine, odd_sine = (past[name] for name in _HALVES)
    return even_cosine + 1j * even_sine, odd_cosine + 1j * odd_sine


def _group(watch: Watch) -> dict[bytes, bytes]:
    return {} if watch.group is None else {_GROUP: watch.group.encode()}


def _beside(counts: pa.Table | pa.RecordBatch, history: Floats) -> pa.Table:
    counted = {"window_start_ms", "user", "action", "count", "end_ms", "began_ms"}
    names = [name for name in counts.schema.names if name in counted]
    table = pa.table({name: counts.column(name) for name in names})
    for name, column in zip(_HISTORY, history, strict=True):
        whole = column.astype(np.int64) if name in {"n", "sum"} else column
        table = table.append_column(name, pa.array(whole))
    return table


def _windows_of(start: Integers, every_ms: int) -> tuple[Integers, Integers]:
    """Return the begins of windows, ascending, and which of them each row is of."""
    first = int(start.min(initial=_FOREVER))
    number = (start - first) // every_ms
    if number.max(initial=0) > _MANY_ROWS * len(start):
        return np.unique(start, return_inverse=True)
    rows = np.bincount(number)
    return first + np.flatnonzero(rows) * every_ms, (np.cumsum(rows > 0) - 1)[number]


def _in_stretches(start: Integers, length: int, until_ms: int) -> Iterator[tuple[int, Integers]]:
    """Yield when each stretch of time ends that rows are in, and its rows."""
    number = start // length
    order = np.argsort(number, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    for rows in parts[:-1]:
        yield (int(number[rows[0]]) + 1) * length, rows
    yield until_ms, parts[-1]


def _in_turns(
    starts: Integers, which: Integers, cell: Integers, grid: int
) -> tuple[Integers, list[tuple[int, slice]]]:
    """Return rows in the order in which they teach, and which of them do so together.

    These are told with their span, by the first time in it. No cell is twice among them. Where
    windows have many rows, each is a span and a turn; of those with few, all go together that are
    within a step of the grid, but for cells that come again.
    """
    if not len(which):
        return which, []
    if len(which) < _MANY_ROWS * len(starts):
        step = (starts // grid - starts[0] // grid)[which]  # 28 at most: no key below overflows
        order = np.argsort((step * (cell.max() + 1) + cell) * len(starts) + which)
        step, place = step[order], np.arange(len(which))
        turn = place - np.maximum.accumulate(np.where(_begins(step, cell[order]), place, 0))
        span = step * (turn.max() + 1) + turn
        again = _in_order(span)
        order, span = order[again], span[again]
        starts = starts[np.searchsorted(starts, starts // grid * grid)]
    else:
        order = _in_order(which)
        span = which[order]
    begins = np.flatnonzero(_begins(span))
    ends = np.append(begins[1:], len(order))
    spans = starts[which[order[begins]]].tolist()
    return order, [*zip(spans, map(slice, begins, ends), strict=True)]


def _in_order(number: Integers) -> Integers:
    """Return the order of numbers from 0 on; short integers are sorted by their digits."""
    return np.argsort(number.astype(np.uint16) if number.max() < 1 << 16 else number, kind="stable")


def _begins(*keys: Integers) -> Flags:
    """Return which rows, not none, have another key than the one before."""
    return np.append(True, np.logical_or.reduce([np.diff(key) != 0 for key in keys]))
