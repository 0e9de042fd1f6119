"""What peers usually do: moments pooled over everyone, as sums that can be added anywhere.

A bucket of users knows only its own; sums of buckets add up to those of all. What follows from
them is said in :mod:`~kstoolkit.findings.tails`. Columns of text are worked on as whole numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]
    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


def encoded(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, Integers]:
    """Return the texts that occur in a column without nulls, and which one each row is."""
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = _one_chunk(column.unify_dictionaries())
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


def integers(table: pa.Table, name: str) -> Integers:
    """Return a column of whole numbers without nulls."""
    return np.asarray(table[name].to_numpy(), np.int64)


def places(ascending: Integers, wanted: Integers) -> Integers:
    """Return where each wanted value stands in an ascending column; -1 where it does not.

    Examples
    --------
    >>> places(np.array([2, 4]), np.array([4, 3, 9])).tolist()
    [1, -1, -1]
    """
    if not len(ascending):
        return np.full(len(wanted), -1)
    found = np.searchsorted(ascending, wanted)
    found[found == len(ascending)] = 0
    return np.where(ascending[found] == wanted, found, -1)


def _one_chunk(column: pa.ChunkedArray) -> pa.DictionaryArray:
    # What combine_chunks makes of no chunks, or of many, differs between versions of pyarrow.
    if not column.num_chunks:
        return pa.array([], column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def never_null(kind: pa.DataType, *names: str) -> list[pa.Field]:
    """Return columns of one type that have a value in each row."""
    return [pa.field(name, kind, nullable=False) for name in names]


FEWEST_WINDOWS = 12
"""From here on a user's own history counts; until then peers are all there is to compare with."""

SUMS = (
    *("sum_excess", "sum_mean", "sum_mean_square"),
    *("sum_mean_per_window", "sum_mean_square_per_window"),
)

MOMENTS_SCHEMA = pa.schema(
    [
        *never_null(pa.int64(), "window_ms", "window_start_ms"),
        pa.field("action", pa.string()),
        *never_null(pa.int64(), "cells", "pooled_cells"),
        *never_null(pa.float64(), *SUMS),
    ]
)
"""One row an action and one for all actions (null), as known before the window that starts then.

``cells`` are all cells with history, ``pooled_cells`` those with n ≥ 2, and the sums are over the
latter: of sᵢ² - x̄ᵢ, x̄ᵢ, x̄ᵢ², x̄ᵢ / nᵢ and x̄ᵢ² / nᵢ.
"""

_POOLED_FROM = 2


def moment_sums(
    action: Integers, n: Integers, total: Floats, squares: Floats, width: int
) -> Floats:
    """Return the sums of one bucket at one moment: a row an action, the last for all of them.

    Columns are cells, pooled cells, and the five sums of the schema. Given are one a cell: the code
    of its action, below ``width``, its windows of history, their sum and their sum of squares.
    """
    pooled = n >= _POOLED_FROM
    where, count, summed = action[pooled], n[pooled], total[pooled]
    mean = summed / count
    excess = (squares[pooled] - summed * mean) / (count - 1) - mean
    terms = (excess, mean, mean * mean, mean / count, mean * mean / count)
    by_action = np.empty((width + 1, 2 + len(terms)))
    by_action[:width, 0] = np.bincount(action, minlength=width)
    by_action[:width, 1] = np.bincount(where, minlength=width)
    for column, term in enumerate(terms, start=2):
        by_action[:width, column] = np.bincount(where, term, minlength=width)
    by_action[width] = by_action[:width].sum(axis=0)
    return by_action


def pool_moments(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the moments of all users, given those of each bucket, of one kind of window.

    A bucket reports only at some windows. At every window that any of them reports, a bucket
    counts with its newest report by then, or with its first if it had none yet.

    Parameters
    ----------
    tables
        One table of :data:`MOMENTS_SCHEMA` a bucket.

    Returns
    -------
    pyarrow.Table
        Of the same schema, sorted by window start, all actions (null) last.
    """
    kept = [table for table in tables if table.num_rows]
    if not kept:
        return MOMENTS_SCHEMA.empty_table()
    starts = np.unique(np.concatenate([integers(table, "window_start_ms") for table in kept]))
    spread = pa.concat_tables([_report_at(table, starts) for table in kept])
    keys = ["window_ms", "window_start_ms", "action"]
    added = [name for name in MOMENTS_SCHEMA.names if name not in keys]
    # Threads would add in any order, and a repeated batch would differ in the last digit.
    grouped = spread.group_by(keys, use_threads=False)
    pooled = grouped.aggregate([(name, "sum") for name in added])
    pooled = pooled.rename_columns([*keys, *added]).select(MOMENTS_SCHEMA.names)
    return pooled.sort_by([(name, "ascending") for name in keys]).cast(MOMENTS_SCHEMA)


def _report_at(table: pa.Table, wanted: Integers) -> pa.Table:
    """Repeat a bucket's reports so that there is one at each of the ``wanted`` starts."""
    starts = integers(table, "window_start_ms")
    order = np.argsort(starts, kind="stable")
    reported, first, lengths = np.unique(starts[order], return_index=True, return_counts=True)
    report = np.maximum(np.searchsorted(reported, wanted, side="right") - 1, 0)
    repeats = lengths[report]
    within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    rows = table.take(pa.array(order[np.repeat(first[report], repeats) + within]))
    at = rows.schema.get_field_index("window_start_ms")
    return rows.set_column(at, MOMENTS_SCHEMA.field(at), pa.array(np.repeat(wanted, repeats)))
