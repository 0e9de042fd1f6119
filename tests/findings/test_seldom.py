"""Cells with an event or two, told from a histogram: what telling each of them would add up to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kstoolkit.findings import seldom as seldom_module
from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.peers import Moments, moments_of
from kstoolkit.findings.seldom import Seldom

HOUR_MS, FAR_MS = 3_600_000, 1 << 60
ACTIONS = ("read", "edit", "move")

Row = tuple[int, int, int, int]
"""Hour, user, action, count."""

ROWS = st.lists(
    st.tuples(st.integers(0, 900), st.integers(0, 40), st.integers(0, 2), st.integers(1, 3)),
    min_size=1,
    max_size=80,
    unique_by=lambda row: row[:3],
)


def span(hours: int) -> tuple[int, int, int]:
    return 0, hours * HOUR_MS, 672 * HOUR_MS


def taught(baselines: Baselines, rows: list[Row], until: int) -> None:
    columns = [*zip(*rows, strict=True)] or [()] * 4
    hours, users, actions, counts = (np.array(each, np.int64) for each in columns)
    told = {
        "window_start_ms": hours * HOUR_MS,
        "user": pa.array([f"u{each}" for each in users], pa.string()),
        "action": pa.array([ACTIONS[each] for each in actions], pa.string()),
        "count": counts,
    }
    baselines.close(pa.table(told), until * HOUR_MS)


def one_by_one(baselines: Baselines, at_ms: int, since_ms: int, *, is_session: bool) -> Moments:
    cells = baselines.cells
    some = np.flatnonzero((cells.total <= 2) & (cells.total > 0) & (cells.last_ms >= since_ms))
    n = cells.learnt[some] if is_session else (at_ms - cells.first_ms[some]) // HOUR_MS
    history = n, cells.total[some], cells.squares[some]
    return moments_of(at_ms, cells.action_of(some), history, np.zeros(len(some), complex))


def told(moments: Moments) -> dict[tuple[int, int], list[float]]:
    keys = zip(moments.action.tolist(), moments.octave.tolist(), strict=True)
    return dict(zip(keys, moments.sums.T.tolist(), strict=True))


@given(ROWS, st.lists(st.integers(1, 400), min_size=1, max_size=4), st.booleans())
def test_they_add_what_each_of_them_does_whenever_it_is_asked(
    rows: list[Row],
    passing: list[int],
    is_session: bool,  # noqa: FBT001 - as drawn
) -> None:
    baselines = Baselines.empty(HOUR_MS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(seldom_module, "_MANY_PLACES", FAR_MS)
        taught(baselines, rows, 901)
        seldom = Seldom(baselines.cells, 0 if is_session else HOUR_MS, span(3_000), None)
    assume(seldom.is_worth_it)
    at, seen, right = 901, [], []
    for hours in passing:
        at += hours
        at_ms, since_ms = at * HOUR_MS, (at - 672) * HOUR_MS
        seen.append(seldom.seen(at_ms, since_ms))
        right.append(told(one_by_one(baselines, at_ms, since_ms, is_session=is_session)))
    found = told(seldom.moments(seen, len(ACTIONS)))
    assert {key[0] // len(ACTIONS) for key in found} <= set(range(len(seen)))
    for number, expected in enumerate(right):
        first = number * len(ACTIONS)
        mine = {(key[0] - first, key[1]) for key in found if key[0] // len(ACTIONS) == number}
        assert mine == expected.keys()
        for key, sums in expected.items():
            assert found[key[0] + first, key[1]] == pytest.approx(sums, rel=1e-9, abs=1e-12)


@given(ROWS, ROWS)
def test_what_cells_learn_counts_from_then_on(rows: list[Row], later: list[Row]) -> None:
    baselines = Baselines.empty(HOUR_MS)
    # All are known, so that cells stay where they are; and none is forgotten.
    known = {row[1:3]: (0, *row[1:]) for row in [*later, *rows]}
    taught(baselines, [*known.values()], 1)
    cells = baselines.cells
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(seldom_module, "_MANY_PLACES", FAR_MS)
        seldom = Seldom(cells, HOUR_MS, span(2_000), None)
    assume(seldom.is_worth_it)
    taught(baselines, [(1 + row[0] % 600, *row[1:]) for row in later[:1]], 650)
    assert baselines.cells is cells
    seldom.learn(np.flatnonzero(cells.last_ms > 0))
    at_ms = 651 * HOUR_MS
    expected = told(one_by_one(baselines, at_ms, 0, is_session=False))
    found = told(seldom.moments([seldom.seen(at_ms, 0)], len(ACTIONS)))
    assert found.keys() == expected.keys()
    for key, sums in expected.items():
        assert found[key] == pytest.approx(sums, rel=1e-9, abs=1e-12)


def test_few_of_many_actions_are_not_worth_it() -> None:
    baselines = Baselines.empty(HOUR_MS)
    taught(baselines, [(0, 0, 0, 1)], 1)
    assert not Seldom(baselines.cells, HOUR_MS, span(1_000), None).is_worth_it
    taught(baselines, [(1, user, 0, 1) for user in range(4_000)], 2)
    assert Seldom(baselines.cells, HOUR_MS, span(1_000), None).is_worth_it


def test_where_no_window_is_over_at_a_look_there_is_nothing_to_add() -> None:
    baselines = Baselines.empty(HOUR_MS)
    told = {
        "window_start_ms": np.full(3, 5 * HOUR_MS + 1),  # by no step of the hour
        "user": ["u0", "u1", "u2"],
        "action": [*ACTIONS],
        "count": [1, 1, 1],
    }
    closed = baselines.close(pa.table(told), 6 * HOUR_MS)
    assert baselines.seldom is not None
    assert baselines.seldom.is_worth_it
    assert closed.moments["octave"].to_pylist() == [None] * 3
