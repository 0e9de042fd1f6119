"""What peers usually do: moments pooled over everyone, as sums that can be added anywhere.

A bucket of users knows only its own; sums of buckets add up to those of all. They are taken at the
times of a grid, about every six hours, by action and by octave of the mean: so the highest rates
can be told from the rest in sums, too. What follows from them is said in
:mod:`~kstoolkit.findings.tails`. Columns of text are worked on as whole numbers.

A window in which everybody does more is told from one in which a user does: how busy all are, g, is
what the cells with a history did in it, no count taken as more than five times what is usual for
it, or than five, over what they do usually; 1 where they do less.

Users of several kinds, as services beside people, are no peers of each other. The kind is a part of
the user's name, and each kind's actions are others: the kind's name, U+001D, the action's text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Waves = NDArray[np.complex128]

_OF_KIND = "\x1d"
_WHOLE_KIND = "\x1e"  # not _OF_KIND: of sums over all actions the text is empty
_POOLED_FROM = 2
_MOST_BURSTY, _DEVIATIONS = 4, 3


def encoded(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, Integers]:
    """Return the texts that occur in a column without nulls, and which one each row is."""
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    first = column.chunk(0).dictionary if column.num_chunks else None
    if not all(each.dictionary.equals(first) for each in column.chunks):
        column = column.unify_dictionaries()  # which takes each of them up, were they the same
    whole = in_one(column)
    codes = whole.indices.to_numpy()
    texts = whole.dictionary.cast(pa.string())
    used = np.zeros(len(texts), bool)
    used[codes] = True
    return texts.filter(pa.array(used)), (np.cumsum(used) - 1)[codes]


def codes_in(column: pa.Array | pa.ChunkedArray, known: pa.Array) -> Integers:
    """Return the place of each row's text among the known ones; -1 where it is none of them."""
    texts, codes = encoded(column)
    place = pc.fill_null(pc.index_in(texts, value_set=known), -1)
    return np.asarray(place.to_numpy(), np.int64)[codes]


def kinds_of(users: pa.Array | pa.ChunkedArray, group: str) -> pa.Array | pa.ChunkedArray:
    """Return the kind of each user: what of the name the group matches, or the empty text.

    >>> kinds_of(pa.array(["svc-mail", "Anna", "bot-7"]), "^(?:svc|bot)-").to_pylist()
    ['svc-', '', 'bot-']
    """
    try:
        pc.match_substring_regex(pa.array([""]), group)  # or an error would name what is around it
        kinds = pc.struct_field(pc.extract_regex(users, "(?P<kind>" + group + ")"), "kind")
    except (pa.ArrowInvalid, TypeError, UnicodeEncodeError) as error:
        message = f"group = {group!r} is no regular expression that could tell kinds: {error}."
        hint = "Write RE2's syntax without groups that capture, such as '^(?:svc|bot)-'."
        raise ConfigurationError(message, hint=hint) from error
    return pc.replace_substring(pc.fill_null(kinds, ""), _OF_KIND, "")


def of_kinds(
    users: pa.ChunkedArray, actions: pa.ChunkedArray, group: str | None
) -> pa.ChunkedArray:
    r"""Return each user's action as one of the user's kind; as it is where there are no kinds.

    >>> users, actions = pa.chunked_array([["svc-mail", "Anna"]]), pa.chunked_array([["x", "x"]])
    >>> of_kinds(users, actions, "^svc-").to_pylist()
    ['svc-\x1dx', '\x1dx']
    """
    if group is None:
        return actions
    (who, user), (what, action) = encoded(users), encoded(actions)
    kinds, kind = encoded(kinds_of(who, group))
    pair, row = np.unique(kind[user] * len(what) + action, return_inverse=True)
    texts = (kinds.take(pa.array(pair // len(what))), what.take(pa.array(pair % len(what))))
    told = pc.binary_join_element_wise(*texts, _OF_KIND)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(row.astype(np.int32)), told)])


def of_all_kinds(actions: pa.Array) -> pa.Array:
    """Return the actions of :func:`of_kinds` without their kind."""
    return pc.list_element(pc.split_pattern(actions, _OF_KIND, max_splits=1), 1)


def regrouped(cells: pa.Table, group: str | None, *, had_kinds: bool) -> pa.Table:
    """Return cells as of other kinds of users, sorted anew; what first windows had is not known."""
    action = cells["action"].cast(pa.string())
    if had_kinds:
        action = pa.chunked_array([of_all_kinds(action.combine_chunks())])
    told = of_kinds(cells["user"], action, group)
    cells = cells.set_column(cells.schema.get_field_index("action"), "action", told)
    (_, user), (_, what) = encoded(cells["user"]), encoded(cells["action"])
    return cells.take(pa.array(np.lexsort((what, user))))


def whole_kind(actions: pa.Array) -> pa.Array:
    r"""Return what stands for all actions of the same kind; null where there are no kinds.

    >>> whole_kind(pa.array(["svc-\x1dx", "x"])).to_pylist()
    ['svc-\x1e', None]
    """
    has_kind = pc.match_substring(actions, _OF_KIND)
    kinds = pc.list_element(pc.split_pattern(actions, _OF_KIND, max_splits=1), 0)
    whole = pc.binary_join_element_wise(kinds, "", _WHOLE_KIND)
    return pc.if_else(has_kind, whole, pa.scalar(None, pa.string()))


def integers(table: pa.Table, name: str) -> Integers:
    """Return a column of whole numbers without nulls."""
    return np.asarray(table[name].to_numpy(), np.int64)


def floats(table: pa.Table, name: str) -> Floats:
    """Return a column of numbers without nulls, each as a double."""
    return np.asarray(table[name].to_numpy(), np.float64)


def places(ascending: Integers, wanted: Integers) -> Integers:
    """Return where each wanted value stands in an ascending column; -1 where it does not.

    >>> places(np.array([2, 4]), np.array([4, 3, 9])).tolist()
    [1, -1, -1]
    """
    if not len(ascending):
        return np.full(len(wanted), -1)
    found = np.searchsorted(ascending, wanted)
    found[found == len(ascending)] = 0
    return np.where(ascending[found] == wanted, found, -1)


def streamed(*tables: pa.Table, passing: bool = False) -> bytes:
    """Return tables, to be kept or passed on, as bytes: one Arrow IPC stream behind the other."""
    codec = "lz4" if passing else "zstd"
    # As a global they could not be pickled, and so not travel to a cluster.
    options = pa.ipc.IpcWriteOptions(compression=codec, unify_dictionaries=True, use_threads=False)
    sink = pa.BufferOutputStream()
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def streams_in(block: bytes) -> list[pa.Table]:
    """Return the tables of :func:`streamed`."""
    source, tables = pa.BufferReader(block), []
    while source.tell() < len(block):
        tables.append(pa.ipc.open_stream(source).read_all())
    return tables


def in_one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if isinstance(column, pa.Array):
        return column
    # What combine_chunks makes of no chunks, or of many, differs between versions of pyarrow.
    if not column.num_chunks:
        return pa.array([], column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def never_null(kind: pa.DataType, *names: str) -> list[pa.Field]:
    """Return columns of one type that have a value in each row."""
    return [pa.field(name, kind, nullable=False) for name in names]


FEWEST_WINDOWS = 12
"""From here on a user's own history counts; until then peers are all there is to compare with."""

_HOUR_MS = 3_600_000
_GRID_MS = 6 * _HOUR_MS
_FIRST_AT_MOST = 50
"""No first window teaches more than this: one of thousands says nothing of the others."""

_COUNTS = ("cells", "known_cells", "pooled_cells", "rhythmic_cells")
_RHYTHM = ("rhythmic_level", "rhythmic_cosine", "rhythmic_sine")
_SUMS = (
    *("level", *_RHYTHM),
    *("weighted_excess", "weighted_square"),
    *("sum_mean", "sum_mean_square"),
    *("sum_per_window", "sum_mean_per_window", "sum_mean_square_per_window"),
)
_KEYS = ("window_start_ms", "action", "octave")
_OF_FIRSTS = [(*_COUNTS, *_SUMS).index(each) for each in ("cells", "sum_mean", "sum_mean_square")]

MOMENTS_SCHEMA = pa.schema(
    [
        *never_null(pa.int64(), "window_start_ms"),
        *never_null(pa.string(), "action"),
        pa.field("octave", pa.int64()),
        *never_null(pa.int64(), *_COUNTS),
        *never_null(pa.float64(), *_SUMS),
    ]
)
"""One row an action and octave of x̄ᵢ, as known before the window that starts then.

``cells`` are all cells with history, ``known_cells`` those with n ≥ 12, of which ``level`` is the
sum of x̄ᵢ, and ``pooled_cells`` those with n ≥ 2. Over the latter are the sums: of w eᵢ and w x̄ᵢ²
with eᵢ = min(sᵢ² - x̄ᵢ, 4 x̄ᵢ² + 3 x̄ᵢ √(2 / nᵢ)) and the weights w = 1 / (1 + x̄ᵢ)²; of x̄ᵢ, x̄ᵢ²,
1 / nᵢ, x̄ᵢ / nᵢ and x̄ᵢ² / nᵢ. A cell with a :mod:`~kstoolkit.findings.rhythm` aᵢ has
``sᵢ² - x̄ᵢ - x̄ᵢ² |aᵢ|² / 2`` in eᵢ, and ``x̄ᵢ² (1 + |aᵢ|² / 2)`` beside; ``rhythmic_cells`` of the
known ones have one, of which the sums are of x̄ᵢ, x̄ᵢ Re aᵢ and x̄ᵢ Im aᵢ. Where the octave is null
it is of first windows: how many there were so far, the sum of their counts, of which each adds 50
at most, and of the squares.
"""

FACTS_SCHEMA = pa.schema(never_null(pa.int64(), "window_start_ms", "clipped", "rhythmic", "firsts"))
"""Of each window, how many are their cell's first, and what the cells that were known did.

Of these no count adds more to ``clipped`` than five times what is usual for it, or five; to
``rhythmic`` those with a rhythm add it again.
"""


def grid_ms(every_ms: int) -> int:
    """Return how far apart the moments are at which peers are looked at: about six hours.

    >>> [grid_ms(hours * 3_600_000) // 3_600_000 for hours in (1, 4, 24)]
    [6, 8, 24]
    """
    return every_ms * max(-(-_GRID_MS // every_ms), 1)


def spread_of(rhythm: Waves | float) -> Floats:
    """Return the variance that a rhythm of the day brings, over the square of the mean."""
    return np.asarray(np.abs(rhythm) ** 2 / 2)


class Moments(NamedTuple):
    """Moments as numbers, a row an action, by its place, and octave; ``_FIRSTS`` is none."""

    start_ms: Integers
    action: Integers
    octave: Integers
    sums: Floats

    def beside(self, others: Moments) -> Moments:
        """Return the sums of both, as of time 0."""
        keys = [each.action << 16 | each.octave + _MIDDLE for each in (self, others)]
        key, row = np.unique(np.concatenate(keys), return_inverse=True)
        terms = np.append(self.sums, others.sums, axis=1)
        sums = np.array([np.bincount(row, each, len(key)) for each in terms])
        return Moments(key * 0, key >> 16, (key & 0xFFFF) - _MIDDLE, sums)


_MIDDLE = 1 << 15  # no mean's octave is so far from 0
_FIRSTS = 1 << 40


def moments_table(parts: Sequence[Moments], actions: pa.Array) -> pa.Table:
    """Return moments of any times as a table of :data:`MOMENTS_SCHEMA`, of all ``actions``."""
    if not parts:
        return MOMENTS_SCHEMA.empty_table()
    start_ms, action, octave = (np.concatenate(each) for each in [*zip(*parts, strict=True)][:3])
    sums = np.concatenate([each.sums for each in parts], axis=1)
    names = actions.take(pa.array(action)).cast(pa.string())
    keys = [start_ms, names, pa.array(octave, mask=octave == _FIRSTS)]
    counts = [each.astype(np.int64) for each in sums[: len(_COUNTS)]]
    return pa.table([*keys, *counts, *sums[len(_COUNTS) :]], schema=MOMENTS_SCHEMA)


def moments_of(
    start_ms: int, action: Integers, history: tuple[Integers, Integers, Floats], rhythm: Waves
) -> Moments:
    """Return the moments of some cells at one time; given are one a cell, with n ≥ 1.

    ``action`` is the place of each cell's action; ``history`` are its windows, n, and
    the sum of their counts and of their squares; a ``rhythm`` of 0 is none.
    """
    n, total, squares = history
    mean, per = total / n, 1 / n
    octave = np.frexp(mean)[1].astype(np.int64) - 1  # the logarithm, rounded down
    lowest, highest = int(octave.min(initial=0)), int(octave.max(initial=0))
    octaves = highest - lowest + 1
    row = action * octaves + octave - lowest
    cells = np.bincount(row)
    group = np.flatnonzero(cells)

    def summed_up(*terms: NDArray[Any] | None, rows: Integers = row) -> list[NDArray[Any]]:
        return [np.bincount(rows, each, len(cells))[group] for each in terms]

    young = np.flatnonzero(n < FEWEST_WINDOWS)  # few, as a rule
    alone = young[n[young] < _POOLED_FROM]
    mean[alone] = per[alone] = 0  # so nothing of them is in the pool
    square = mean * mean
    wavy = np.flatnonzero(rhythm)  # most cells are not, and these terms nothing of them
    wave, spread, known = rhythm[wavy], spread_of(rhythm[wavy]), n[wavy] >= FEWEST_WINDOWS
    excess = (squares - total * mean) / np.maximum(n - 1, 1) - mean
    excess[wavy] -= square[wavy] * spread
    excess = np.minimum(excess, _MOST_BURSTY * square + _DEVIATIONS * np.sqrt(2 * per) * mean)
    weight = 1 / np.square(1 + mean)
    weighted, held = weight * square, mean[wavy] * known
    weighted[wavy] *= 1 + spread
    in_pool = summed_up(mean, square, per, mean * per, square * per)
    number, (few, their_level) = cells[group], summed_up(None, mean[young], rows=row[young])
    sums = [
        *(number, number - few, number - summed_up(None, rows=row[alone])[0]),
        *summed_up(known, rows=row[wavy]),
        in_pool[0] - their_level,
        *summed_up(held, held * wave.real, held * wave.imag, rows=row[wavy]),
        *summed_up(weight * excess, weighted),
        *in_pool,
    ]
    at = np.full(len(group), start_ms)
    return Moments(at, group // octaves, group % octaves + lowest, np.array(sums))


def moments_of_firsts(start_ms: int, firsts: Floats) -> Moments:
    """Return what there was of first windows by then: a row an action, number, sum and squares."""
    some = np.flatnonzero(firsts[:, 0])
    sums = np.zeros((len(_COUNTS) + len(_SUMS), len(some)))
    sums[_OF_FIRSTS] = firsts[some].T
    return Moments(np.full(len(some), start_ms), some, np.full(len(some), _FIRSTS), sums)


def first_terms(action: Integers, count: Integers, actions: int) -> Floats:
    """Return number, sum and sum of squares of first windows by action."""
    held = np.minimum(count, _FIRST_AT_MOST).astype(np.float64)
    terms = (np.ones_like(held), held, held * held)
    return np.stack([np.bincount(action, term, minlength=actions) for term in terms], axis=1)


def summed(tables: Sequence[pa.Table], schema: pa.Schema, octaves: str = "ascending") -> pa.Table:
    """Return the sums of moments, or of facts, of any buckets, sorted by what they are of."""
    told = pa.concat_tables([schema.empty_table(), *tables])
    keys = [name for name in _KEYS if name in schema.names]
    added = [name for name in schema.names if name not in keys]
    # Threads would add in any order, and a repeated batch would differ in the last digit.
    grouped = told.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in added])
    grouped = grouped.rename_columns([*keys, *added]).select(schema.names)
    order = [(name, octaves if name == "octave" else "ascending") for name in keys]
    return grouped.sort_by(order).cast(schema)


POOLS_SCHEMA = pa.schema(
    [
        *never_null(pa.int64(), "window_start_ms"),
        pa.field("action", pa.string()),
        *never_null(pa.int64(), "cells", "known_cells", "rhythmic_cells", "peers", "firsts"),
        *never_null(pa.float64(), "level", *_RHYTHM, "alpha", "beta", "dispersion"),
        *never_null(pa.float64(), "first_mean", "first_dispersion"),
    ]
)
"""What follows from the moments of all buckets: a row an action, and one for all of them (null).

And one for all of a kind, where there are any: :func:`whole_kind`. See
:mod:`~kstoolkit.findings.tails`. NaN is unknown: there are fewer than 30 peers, or first windows.
"""

FEWEST_PEERS = 30
"""Fewer cells with history than this say nothing about peers."""

_LEAST_SPREAD = 1e-9
_WINSORISED = 0.01


def pools_of(moments: pa.Table) -> pa.Table:
    """Return what peers do by the moments of all of them: a table of :data:`POOLS_SCHEMA`."""
    everyone = moments.set_column(1, "action", pa.nulls(len(moments), pa.string()))
    kinds = moments.set_column(1, "action", whole_kind(moments["action"]))
    kinds = kinds.filter(kinds["action"].is_valid())
    told = [each.cast(_ANY_ACTION) for each in (moments, kinds, everyone)]
    rows = summed(told, _ANY_ACTION, octaves="descending")
    is_first = rows["octave"].is_null().to_numpy()
    group = _group_of(rows)
    groups = rows.select(_KEYS[:2]).take(pa.array(np.flatnonzero(np.diff(group, prepend=-1))))
    column = {name: floats(rows, name) for name in (*_COUNTS, *_SUMS)}
    of = _Sums(group[~is_first], len(groups), {k: v[~is_first] for k, v in column.items()})
    firsts = _Sums(group[is_first], len(groups), {k: v[is_first] for k, v in column.items()})
    counts = [of[name] for name in ("cells", "known_cells", "rhythmic_cells", "pooled_cells")]
    numbers = [each.astype(np.int64) for each in (*counts, firsts["cells"])]
    levels = [of[name] for name in ("level", *_RHYTHM)]
    columns = [*groups.columns, *numbers, *levels, *_spread(of), *_first_law(firsts)]
    return pa.table(columns, schema=POOLS_SCHEMA)


_ANY_ACTION = MOMENTS_SCHEMA.set(1, pa.field("action", pa.string()))


def _group_of(rows: pa.Table) -> Integers:
    """Return a number for each start and action of sorted rows, from 0 on."""
    start = integers(rows, "window_start_ms")
    action = rows["action"].combine_chunks().dictionary_encode("encode").indices.to_numpy()
    return np.cumsum(
        (np.diff(start, prepend=start[:1]) != 0) | (np.diff(action, prepend=action[:1]) != 0)
    )


class _Sums:
    """Columns of rows in groups, the highest octave first; by name, each group's sum."""

    def __init__(self, group: Integers, groups: int, column: dict[str, Floats]) -> None:
        self.group, self.groups, self.column = group, groups, column

    def __getitem__(self, name: str) -> Floats:
        return self.of(self.column[name])

    def of(self, values: Floats) -> Floats:
        return np.bincount(self.group, values, minlength=self.groups).astype(np.float64)


def _spread(of: _Sums) -> list[Floats]:
    """Return alpha, beta and dispersion of each group; NaN where its peers are too few."""
    k, mine = of["pooled_cells"], of.column
    enough = k >= FEWEST_PEERS
    with np.errstate(divide="ignore", invalid="ignore"):
        dispersion = np.maximum(of["weighted_excess"] / of["weighted_square"], 0)
        # One in a hundred has the highest rates: they count as the octave does that these begin in.
        above = np.cumsum(mine["pooled_cells"])
        begun = above - np.append(0, np.cumsum(k))[of.group]
        most = np.floor(_WINSORISED * k)[of.group]
        is_high = begun <= most
        is_cap = ~is_high & (begun - mine["pooled_cells"] <= most)
        cap = of.of(np.where(is_cap, mine["sum_mean"] / mine["pooled_cells"], 0))[of.group]
        count, per = mine["pooled_cells"], mine["sum_per_window"]
        mean = of.of(np.where(is_high, cap * count, mine["sum_mean"])) / k
        square = of.of(np.where(is_high, cap * cap * count, mine["sum_mean_square"]))
        mean_per = of.of(np.where(is_high, cap * per, mine["sum_mean_per_window"]))
        square_per = of.of(np.where(is_high, cap * cap * per, mine["sum_mean_square_per_window"]))
        sampling = (mean_per + dispersion * square_per) / k
        spread = np.maximum((square - k * mean * mean) / (k - 1) - sampling, _LEAST_SPREAD)
        law = (mean * mean / spread, mean / spread, dispersion)
    return [np.where(enough, each, np.nan) for each in law]


def _first_law(of: _Sums) -> list[Floats]:
    """Return mean and dispersion of first windows; NaN where there are too few."""
    k = of["cells"]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = of["sum_mean"] / k
        variance = (of["sum_mean_square"] - k * mean * mean) / (k - 1)
        dispersion = np.maximum(variance - mean, 1e-6) / (mean * mean)
    return [np.where(k >= FEWEST_PEERS, each, np.nan) for each in (mean, dispersion)]
