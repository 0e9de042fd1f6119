"""Which rows of two sides are the same, and which belong together though they differ.

Where each side has one row of an identity, the two are equal or one has changed into the other.
Where a side has several (a list's elements, a join's duplicates), nothing says which became which:
the rows are counted by value, what both sides have equally often is equal, and the rest is removed
or added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray


NOWHERE = -1
"""The place of a row that a side has not."""


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The differences among some rows.

    Parameters
    ----------
    in_a, in_b
        Of each difference, the place of its row of either side; :data:`NOWHERE` if it has none.
    num_equal
        How many rows of a side have an equal one on the other.
    """

    in_a: NDArray[np.intp]
    in_b: NDArray[np.intp]
    num_equal: int

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows were added, removed, changed, and are equal."""
        added = int((self.in_a == NOWHERE).sum())
        removed = int((self.in_b == NOWHERE).sum())
        changed = len(self.in_a) - added - removed
        return np.array([added, removed, changed, self.num_equal], np.int64)


def match(identity: pa.Array, value: pa.Array, is_b: NDArray[np.bool_]) -> Matches:
    """Return which rows differ.

    Parameters
    ----------
    identity
        Of each row, in ascending order; all rows of an identity are here.
    value
        What is compared, as large binary; a null equals a null.
    is_b
        Which rows are of the second side.

    Examples
    --------
    >>> identity = pa.array([b"k", b"k", b"l"], pa.large_binary())
    >>> value = pa.array([b"1", b"2", b"1"], pa.large_binary())
    >>> found = match(identity, value, np.array([False, True, True]))
    >>> found.in_a.tolist(), found.in_b.tolist(), found.num_equal
    ([0, -1], [1, 2], 0)
    """
    group = _groups(identity)
    number = int(group[-1]) + 1 if len(group) else 0
    num_a, num_b = (np.bincount(group[side], minlength=number) for side in (~is_b, is_b))
    alone = (num_a <= 1) & (num_b <= 1)
    of_groups, same = _matched_alone(group, value, is_b, alone)
    crowded = np.flatnonzero(~alone[group])
    of_crowds, shared = _matched_by_count(group, value, is_b, crowded)
    in_a, in_b = (np.concatenate(each) for each in zip(of_groups, of_crowds, strict=True))
    order = np.lexsort((in_b, group[np.maximum(in_a, in_b)]))
    return Matches(in_a[order], in_b[order], same + shared)


_Places = tuple["NDArray[np.intp]", "NDArray[np.intp]"]


def _groups(identity: pa.Array) -> NDArray[np.int64]:
    """Return the number of each row's identity, from 0."""
    if not len(identity):
        return np.zeros(0, np.int64)
    begins = np.asarray(pc.not_equal(identity[1:], identity[:-1]))
    return np.concatenate([[0], np.cumsum(begins)])


def _matched_alone(
    group: NDArray[np.int64],
    value: pa.Array,
    is_b: NDArray[np.bool_],
    alone: NDArray[np.bool_],
) -> tuple[_Places, int]:
    """Return the differences of identities with one row a side at most, and how many are equal."""
    in_a, in_b = (np.full(len(alone), NOWHERE, np.intp) for _ in range(2))
    rows = np.arange(len(group))
    in_a[group[~is_b]], in_b[group[is_b]] = rows[~is_b], rows[is_b]
    both = np.flatnonzero(alone & (in_a != NOWHERE) & (in_b != NOWHERE))
    equal = _are_equal(value.take(pa.array(in_a[both])), value.take(pa.array(in_b[both])))
    differs = alone.copy()
    differs[both[equal]] = False
    return (in_a[differs], in_b[differs]), int(equal.sum())


def _are_equal(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    both_null = pc.and_(one.is_null(), other.is_null())
    return np.asarray(pc.or_(pc.fill_null(pc.equal(one, other), fill_value=False), both_null))


def _matched_by_count(
    group: NDArray[np.int64], value: pa.Array, is_b: NDArray[np.bool_], rows: NDArray[np.intp]
) -> tuple[_Places, int]:
    """Return what is left of some rows when equal ones of both sides are taken away in pairs."""
    codes = value.take(pa.array(rows)).dictionary_encode(null_encoding="encode").indices
    kinds = np.stack([group[rows], np.asarray(codes, dtype=np.int64)])
    _, kind = np.unique(kinds, axis=1, return_inverse=True)
    kind, of_b = kind.reshape(-1), is_b[rows]
    number = int(kind.max(initial=-1)) + 1
    num_a, num_b = (np.bincount(kind[side], minlength=number) for side in (~of_b, of_b))
    pairs = np.minimum(num_a, num_b)
    left_a, left_b = (
        rows[side][_rank(kind[side]) >= pairs[kind[side]]]
        for side in (np.flatnonzero(~of_b), np.flatnonzero(of_b))
    )
    in_a = np.concatenate([left_a, np.full(len(left_b), NOWHERE, np.intp)])
    in_b = np.concatenate([np.full(len(left_a), NOWHERE, np.intp), left_b])
    return (in_a, in_b), int(pairs.sum())


def _rank(kind: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of its kind stand before each one.

    Examples
    --------
    >>> _rank(np.array([5, 2, 5, 5, 2])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(kind, kind="stable")
    ordered = kind[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    lengths = np.diff(begins, append=len(kind))
    rank = np.empty(len(kind), np.int64)
    rank[order] = np.arange(len(kind)) - np.repeat(begins, lengths)
    return rank
