from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.counters.bucket import NEVER, Meta
from kstoolkit.counters.counters import Counters
from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.calibration import Everyone
from kstoolkit.findings.rules import Exempt, Unusual
from kstoolkit.pipeline.datasources import TICK
from kstoolkit.pipeline.operator import COUNTS, MATERIAL, CascadeOperator, Plan, View
from kstoolkit.pipeline.shuffle import BLOCK, from_ipc
from kstoolkit.windows import Cascade

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
EVENING_MS = 20_000 * DAY_MS + 20 * HOUR_MS


def over(blocks: dict[str, bytes]) -> Callable[[], dict[str, bytes]]:
    """Return what opens the same blocks each time, in place of Spark's state."""
    return lambda: blocks


def told_of(operator: CascadeOperator, kind: str, payload: bytes, now_ms: int) -> pd.DataFrame:
    """Return what an operator hands on of a micro-batch with one record."""
    rows = pd.DataFrame({"kind": [kind], "payload": [payload], "now_ms": [now_ms]})
    return pd.concat(operator.handleInputRows((0,), iter([rows]), None))


def counted(events: list[tuple[str, int]]) -> bytes:
    """Return the block of users' events, a time each."""
    users, times = zip(*events, strict=True)
    return Counters.of(np.array(times), pa.array(users), pa.array(["read"] * len(users))).encode()


def judged(told: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the counts that rules look at."""
    payloads = told.loc[told["kind"] == MATERIAL, "payload"]
    return [row for each in payloads for row in from_ipc(each).to_pylist()]


LOOKED_AT = View(0, None, 1, None, baseline=True)


@pytest.fixture(params=[True, False], ids=["live", "bounded"])
def windows_learnt(request: pytest.FixtureRequest) -> Callable[[list[int]], list[int]]:
    """Count three of Ann's events at each time, and return by how many windows each is judged."""
    operator = CascadeOperator(Plan(Cascade("1 minute"), 1, live=request.param, views=(LOOKED_AT,)))
    operator.opened = over({})

    def learnt(times_ms: list[int]) -> list[int]:
        later_ms = times_ms[-1] + DAY_MS
        told = [
            told_of(operator, BLOCK, counted([("Ann", time_ms)] * 3), time_ms)
            for time_ms in times_ms
        ]
        told.append(told_of(operator, BLOCK, counted([("Bo", later_ms)]), later_ms))
        told.append(told_of(operator, TICK, b"", later_ms))
        rows = [row for each in told for row in judged(each) if not row["is_open"]]
        n = {row["window_start_ms"]: row["n"] for row in rows if row["user"] == "Ann"}
        assert list(n) == times_ms, "windows are judged in order, and each once"
        return list(n.values())

    return learnt


def test_a_minutes_baseline_outlives_a_night_and_a_holiday_and_is_forgotten_after_that(
    windows_learnt: Callable[[list[int]], list[int]],
) -> None:
    times_ms = [EVENING_MS + minute * MINUTE_MS for minute in range(100)]
    for away_ms in (14 * HOUR_MS, 27 * DAY_MS):
        times_ms.append(times_ms[-1] + away_ms)
    remembered = [(time_ms - EVENING_MS) // MINUTE_MS for time_ms in times_ms]
    times_ms.append(times_ms[-1] + 29 * DAY_MS)
    assert windows_learnt(times_ms) == [*remembered, 0]


Learnt = dict[tuple[str, str], dict[int, int]]
"""What a learner has to know: of each user and action, the count of each window."""


class Counting:
    """One bucket without Spark: the rule may be in or out in each batch.

    Where it is not live, each batch is a run of its own, with its end.
    """

    def __init__(self, *, live: bool) -> None:
        self.live, self.blocks = live, dict[str, bytes]()
        self.latest: Learnt = {}
        self.learnt: Learnt | None = None

    def batch(self, events: list[tuple[str, int]], *, rule: bool, now_ms: int) -> None:
        """Count users' events, a time each, and keep what a learner must know afterwards."""
        views = (LOOKED_AT,) if rule else ()
        cascade = Cascade("1 minute", retention=2)
        operator = CascadeOperator(Plan(cascade, 1, self.live, views))
        operator.opened = over(self.blocks)
        self._take(operator, BLOCK, counted(events), now_ms)
        if not self.live:
            self._take(operator, TICK, b"", now_ms)

    def _take(self, operator: CascadeOperator, kind: str, payload: bytes, now_ms: int) -> None:
        closed_ms = self._closed_ms()
        told = told_of(operator, kind, payload, now_ms)
        changed = list(told.loc[told["kind"] == COUNTS, "payload"])
        for each in changed:
            _know(self.latest, Counters.decode(each))
        if not operator.plan.views:
            self.learnt = None if changed else self.learnt
        elif self._closed_ms() > closed_ms or kind == TICK:
            if self.learnt is None:
                self.learnt = _begun_in(self._in_state(), NEVER, closed_ms)
            for cell, windows in _begun_in(self.latest, closed_ms, self._closed_ms()).items():
                self.learnt.setdefault(cell, {}).update(windows)

    def kept(self) -> dict[tuple[str, str], dict[str, Any]] | None:
        """Return the cells of the level's baselines."""
        block = self.blocks.get("history/0")
        if block is None:
            return None
        rows = Baselines.decode(block).cells.to_table().to_pylist()
        return {(row["user"], row["action"]): row for row in rows}

    def _closed_ms(self) -> int:
        block = self.blocks.get("meta")
        return NEVER if block is None else Meta.decode(block).closed_ms[0]

    def _in_state(self) -> Learnt:
        found: Learnt = {}
        for key in self.blocks:
            if key.startswith("counts/0/"):
                _know(found, Counters.decode(self.blocks.get(key) or b""))
        return found


def _know(learnt: Learnt, counters: Counters) -> None:
    for row in counters.to_table().to_pylist():
        windows = learnt.setdefault((row["user"], row["action"]), {})
        windows[row["window_start_ms"]] = row["count"]


def _begun_in(learnt: Learnt, from_ms: int, until_ms: int) -> Learnt:
    found = {
        cell: {at: count for at, count in windows.items() if from_ms <= at < until_ms}
        for cell, windows in learnt.items()
    }
    return {cell: windows for cell, windows in found.items() if windows}


BATCHES = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 70)), min_size=1, max_size=4),
        st.sampled_from([0, 1, 5, 90]),
    ),
    max_size=9,
)
"""Whether the rule is in, who did something how many minutes ago, and how far the clock goes."""

ALWAYS_WHOLE = 5
"""Of more than that, a window may teach less than it has."""


@pytest.mark.parametrize("live", [True, pytest.param(False, marks=pytest.mark.long)])
@given(batches=BATCHES)
def test_a_rule_taken_out_and_put_back_has_learnt_from_what_was_there(
    live: bool,  # noqa: FBT001 - a case's
    batches: list[tuple[bool, list[tuple[str, int]], int]],
) -> None:
    counting, minute = Counting(live=live), EVENING_MS // MINUTE_MS
    for rule, ago, step in batches:
        minute += step
        events = [(user, (minute - back) * MINUTE_MS) for user, back in ago]
        counting.batch(events, rule=rule, now_ms=minute * MINUTE_MS)
        kept = counting.kept()
        assert (kept is None) == (counting.learnt is None)
        assert (kept or {}).keys() == (counting.learnt or {}).keys()
        for cell, windows in (counting.learnt or {}).items():
            found, counts = (kept or {})[cell], list(windows.values())
            assert (found["first_ms"], found["last_ms"]) == (min(windows), max(windows))
            assert found["learnt"] == len(counts)
            if max(counts) <= ALWAYS_WHOLE:
                assert found["total"] == sum(counts)
                assert found["squares"] == sum(n * n for n in counts)


@pytest.mark.parametrize("live", [True, False])
def test_what_expires_with_the_batch_that_a_rule_is_new_in_is_not_taken_back_unlearnt(
    live: bool,  # noqa: FBT001 - a case's
) -> None:
    counting = Counting(live=live)
    counting.batch([("Ann", EVENING_MS)] * 4, rule=False, now_ms=EVENING_MS)
    later_ms = EVENING_MS + DAY_MS
    events = [("Ann", EVENING_MS), ("Bo", later_ms), ("Cy", later_ms)]
    counting.batch(events, rule=True, now_ms=later_ms)
    kept = counting.kept()
    assert kept is not None
    assert kept["Ann", "read"]["total"] == 5
    assert kept["Ann", "read"]["squares"] == 25.0


@pytest.mark.parametrize("live", [True, False])
def test_a_live_run_judges_a_count_at_once_and_again_when_its_window_closes_else_at_the_end(
    live: bool,  # noqa: FBT001 - a case's
) -> None:
    operator = CascadeOperator(Plan(Cascade("1 minute"), 1, live, (LOOKED_AT,)))
    operator.opened = over({})
    judgements = []
    for minute in (0, 11):
        now_ms = EVENING_MS + minute * MINUTE_MS
        told = judged(told_of(operator, BLOCK, counted([("Ann", now_ms)]), now_ms))
        judgements.append([(row["window_start_ms"], row["is_open"]) for row in told])
    told = judged(told_of(operator, TICK, b"", now_ms))
    judgements.append([(row["window_start_ms"], row["is_open"]) for row in told])
    first, second = EVENING_MS, now_ms
    at_once = [[(first, True)], [(first, False), (second, True)], []]
    at_the_end = [[], [], [(first, False), (second, False)]]
    assert judgements == (at_once if live else at_the_end)


def test_all_are_told_what_closed_windows_had_once() -> None:
    operator = CascadeOperator(Plan(Cascade("1 minute"), 1, live=True, views=(LOOKED_AT,)))
    operator.opened = over({})
    everyone, minutes = Everyone(MINUTE_MS), range(0, 60, 4)
    for minute in minutes:
        now_ms = EVENING_MS + minute * MINUTE_MS
        told = told_of(operator, BLOCK, counted([(f"user {minute}", now_ms)] * 2), now_ms)
        payloads = told.loc[told["kind"] == f"closed {LOOKED_AT.key}", "payload"]
        everyone.take_in([Everyone.decode(each) for each in payloads])
    assert everyone.closed_ms == {0: EVENING_MS + (56 - 10) * MINUTE_MS}
    closed = [EVENING_MS + minute * MINUTE_MS for minute in minutes if minute < 46]
    assert everyone.facts["window_start_ms"].to_pylist() == closed
    assert everyone.facts["firsts"].to_pylist() == [1] * len(closed)


def test_what_rules_exempt_is_neither_judged_nor_learnt_from() -> None:
    rules = (Unusual("1 minute", min_count=1), Exempt(["Bot"]))
    plan = Plan(Cascade("1 minute"), 1, live=False, views=(LOOKED_AT,), rules=rules)
    operator, blocks = CascadeOperator(plan), dict[str, bytes]()
    operator.opened = over(blocks)
    events = [
        (user, EVENING_MS + minute * MINUTE_MS) for user in ("Ann", "Bot") for minute in (0, 30)
    ]
    told_of(operator, BLOCK, counted(events), EVENING_MS + HOUR_MS)
    told = judged(told_of(operator, TICK, b"", EVENING_MS + HOUR_MS))
    assert [row["user"] for row in told] == ["Ann", "Ann"]
    baselines = Baselines.decode(blocks[LOOKED_AT.key])
    assert baselines.cells.users.to_pylist() == ["Ann"]


def test_limits_are_held_against_what_changed_without_any_history() -> None:
    view = View(0, None, 3, 3, baseline=False)
    operator = CascadeOperator(Plan(Cascade("1 minute"), 1, live=False, views=(view,)))
    operator.opened = over({})
    events = [("Ann", EVENING_MS)] * 3 + [("Bo", EVENING_MS)] * 2
    told = told_of(operator, BLOCK, counted(events), EVENING_MS)
    (row,) = judged(told)
    assert row == {"window_start_ms": EVENING_MS, "user": "Ann", "action": "read", "count": 3}
    assert not judged(told_of(operator, TICK, b"", EVENING_MS))
    assert not [key for key in operator.blocks if key.startswith("history")]
