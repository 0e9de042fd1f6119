"""How events become sessions: in pieces before the shuffle, joined in state in any order.

A *group* is what has sessions of its own: a user's action, or a user (``by=[]``), whose sessions
have a counter for each action. Events of a group no more than the gap apart are collapsed into a
*piece* as they are read. Pieces are counters with an end: ``start_ms`` is the first event's time,
``end_ms`` the last one's. A piece lies within one grain of time, a 24th of the longest session,
and so what arrives late can still be told apart where a session has to be cut.

In state lie sessions, by segments of a grain in which they begin. What comes is joined with those
that it may touch, whichever order it comes in: sessions are where no pause is longer than the gap,
so a late event prolongs one, or makes two one. What would be longer than the longest is cut:
from its first event on, a session takes what ends within its reach, and the rest begins anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.counters.counters import Counters

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from kstoolkit.windows import Session


def pieces(
    time_ms: NDArray[np.int64],
    users: pa.Array,
    actions: pa.Array,
    session: Session,
    parts: tuple[str, ...] | None = None,
) -> Counters:
    """Return the pieces of sessions that events are of.

    >>> import pyarrow as pa
    >>> from kstoolkit.windows import Session
    >>> who, what = pa.array(["a"] * 3), pa.array(["x"] * 3)
    >>> found = pieces(np.array([0, 50_000, 200_000]), who, what, Session("1 minute"))
    >>> found.start_ms.tolist(), found.end_ms.tolist(), found.count.tolist()
    ([0, 200000], [50000, 200000], [2, 1])
    """
    moments = Counters.of(time_ms, users, actions, parts=parts)
    if not len(moments):
        return moments
    return _joined(moments, moments.start_ms, session, moments.start_ms // session.grain_ms)


def joined(pieces: Counters, session: Session) -> Counters:
    """Return the sessions that pieces and sessions are of, together."""
    if pieces.end_ms is None:
        return pieces
    return _joined(pieces, pieces.end_ms, session, None)


def rejoined(
    known: Counters, came: Counters, session: Session
) -> tuple[Counters, Counters, NDArray[np.uint64]]:
    """Join what came with sessions that it may touch.

    Return all sessions; those that changed, in their new state, with 0 as the count of those that
    others swallowed; and, in the same order, the counts that these had before (0 where new).

    >>> import pyarrow as pa
    >>> from kstoolkit.windows import Session
    >>> minute = Session("1 minute")
    >>> who, what = pa.array(["a", "a"]), pa.array(["x", "x"])
    >>> known = pieces(np.array([0, 120_000]), who, what, minute)
    >>> came = pieces(np.array([60_000]), who[:1], what[:1], minute)
    >>> now, changed, old = rejoined(known, came, minute)
    >>> now.count.tolist(), changed.count.tolist(), old.tolist()
    ([3], [3, 0], [1, 1])
    """
    both, rows = Counters.join([known, came])
    group = both.user.astype(np.int64)
    if not session.is_over_all:
        group = group * len(both.actions) + both.action
    is_known = rows < len(known)
    touched = np.isin(group, group[~is_known])
    new = joined(both.take(touched), session)
    changed, old = _changed(both.take(touched & is_known), new)
    return Counters.join([both.take(~touched), new])[0], changed, old


def _changed(before: Counters, after: Counters) -> tuple[Counters, NDArray[np.uint64]]:
    """Return what is new, other or gone (with 0 as its count), and what the counts were."""
    told, rows = Counters.join([before, after])
    is_before = rows < len(before)
    pairs = [np.diff(key) == 0 for key in (told.user, told.start_ms, told.action)]
    is_first = np.append(np.logical_and.reduce(pairs), False)  # of one key, the one before
    is_second = np.roll(is_first, 1)
    old = np.where(is_before, told.count, 0)
    old[is_second] = told.count[is_first]
    count = np.where(is_before, np.uint64(0), told.count)
    is_same = np.zeros(len(told), bool)
    ends = told.end_ms if told.end_ms is not None else told.start_ms
    ends_alike = ends[is_second] == ends[is_first]
    is_same[is_second] = (told.count[is_second] == old[is_second]) & ends_alike
    kept = ~is_first & ~is_same
    return replace(told, count=count).take(kept), old[kept]


def _joined(
    rows: Counters, end_ms: NDArray[np.int64], session: Session, grain: NDArray[np.int64] | None
) -> Counters:
    """Join rows; with ``grain``, only those of one grain."""
    action = rows.action * 0 if session.is_over_all else rows.action
    order = np.lexsort((end_ms, rows.start_ms, action, rows.user))
    user, action = rows.user[order], action[order]
    start, end = rows.start_ms[order], end_ms[order]
    is_other = np.r_[True, (np.diff(user) != 0) | (np.diff(action) != 0)]
    reach = _reach(end, is_other)
    begins = is_other.copy()
    begins[1:] |= start[1:] - reach[:-1] > session.gap_ms
    if grain is not None:
        begins[1:] |= np.diff(grain[order]) != 0
    begins = _cut(begins, start, end, session.longest_ms)
    first = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    starts, ends = np.empty_like(start), np.empty_like(end)
    starts[order] = start[first][number]
    ends[order] = np.maximum.reduceat(end, first)[number]
    return rows.moved(starts, ends)


def _reach(end: NDArray[np.int64], is_other: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the latest end so far, beginning anew at each group."""
    latest, rank = np.unique(end, return_inverse=True)
    group = np.cumsum(is_other)
    highest = np.maximum.accumulate(group * len(latest) + rank)
    return np.asarray(latest[highest - group * len(latest)])


def _cut(
    begins: NDArray[np.bool_], start: NDArray[np.int64], end: NDArray[np.int64], longest_ms: int
) -> NDArray[np.bool_]:
    """Begin a session anew wherever it would become too long.

    One turn for each session that the longest one falls into, all groups at once.
    """
    begins = begins.copy()
    while True:
        number = np.cumsum(begins) - 1
        too_long = end - start[np.flatnonzero(begins)][number] > longest_ms
        if not too_long.any():
            return begins
        places = np.flatnonzero(too_long)
        _, first = np.unique(number[places], return_index=True)
        begins[places[first]] = True
