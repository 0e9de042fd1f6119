from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.counters.counters import Counters
from kstoolkit.findings.baselines import Baselines
from kstoolkit.pipeline.operator import COUNTS, MATERIAL, CascadeOperator, Plan, View
from kstoolkit.pipeline.shuffle import BLOCK, from_ipc
from kstoolkit.windows import Cascade
from tests.counters.dictblocks import DictBlocks

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
EVENING_MS = 20_000 * DAY_MS + 20 * HOUR_MS


@pytest.fixture(params=[True, False], ids=["live", "bounded"])
def learning(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Count three of Ann's events in a minute, and return from how many windows it is judged."""
    operator = CascadeOperator(
        Plan(Cascade("1 minute"), 1, live=request.param, views=(View(0, None, 1, baseline=True),))
    )
    operator.blocks = DictBlocks()  # type: ignore[assignment] # in place of Spark's state

    def learnt(time_ms: int, now_ms: int) -> int:
        times, names = np.full(3, time_ms), pa.array(["Ann"] * 3)
        block = Counters.of(times, names, pa.array(["read"] * 3)).encode()
        rows = pd.DataFrame({"kind": [BLOCK], "payload": [block], "now_ms": [now_ms]})
        told = pd.concat(operator.handleInputRows((0,), iter([rows]), None))
        (material,) = told.loc[told["kind"] == MATERIAL, "payload"]
        return int(from_ipc(material)["n"][0].as_py())

    return learnt


def test_a_minutes_baseline_outlives_a_night_and_a_holiday_and_is_forgotten_after_that(
    learning: Callable[[int, int], int],
) -> None:
    for minute in range(100):
        at_ms = EVENING_MS + minute * MINUTE_MS
        assert learning(at_ms, at_ms) == minute
    last_ms = EVENING_MS + 99 * MINUTE_MS
    for away_ms in (14 * HOUR_MS, 27 * DAY_MS):
        last_ms += away_ms
        assert learning(last_ms, last_ms) == (last_ms - EVENING_MS) // MINUTE_MS
    last_ms += 29 * DAY_MS
    assert learning(last_ms, last_ms) == 0


Learnt = dict[tuple[str, str], dict[int, int]]
"""What a learner has to know: of each user and action, the count of each window."""


class Counting:
    """One bucket without Spark: the rule may be in or out in each batch."""

    def __init__(self, *, live: bool) -> None:
        self.live, self.blocks = live, DictBlocks()
        self.learnt: Learnt | None = None

    def batch(self, events: list[tuple[str, int]], *, rule: bool, now_ms: int) -> None:
        """Count users' events, a time each, and keep what a learner must know afterwards."""
        before = self._in_state()
        views = (View(0, None, 1, baseline=True),) if rule else ()
        cascade = Cascade("1 minute", retention=2)
        operator = CascadeOperator(Plan(cascade, 1, self.live, views))
        operator.blocks = self.blocks  # type: ignore[assignment] # in place of Spark's state
        users, times = zip(*events, strict=True)
        arrived = Counters.of(np.array(times), pa.array(users), pa.array(["read"] * len(users)))
        rows = pd.DataFrame({"kind": [BLOCK], "payload": [arrived.encode()], "now_ms": [now_ms]})
        told = pd.concat(operator.handleInputRows((0,), iter([rows]), None))
        changed = list(told.loc[told["kind"] == COUNTS, "payload"])
        if changed and not rule:
            self.learnt = None
        for payload in changed if rule else ():
            if self.learnt is None:
                self.learnt = self._still_there(before)
            _know(self.learnt, Counters.decode(payload))

    def kept(self) -> dict[tuple[str, str], dict[str, Any]] | None:
        """Return the cells of the level's baselines."""
        block = self.blocks.get("history/0")
        if block is None:
            return None
        rows = Baselines.decode(block).cells.to_table().to_pylist()
        return {(row["user"], row["action"]): row for row in rows}

    def _still_there(self, before: Learnt) -> Learnt:
        now, found = self._in_state(), {}
        for cell, windows in before.items():
            found[cell] = {at: n for at, n in windows.items() if at in now.get(cell, {})}
        return {cell: windows for cell, windows in found.items() if windows}

    def _in_state(self) -> Learnt:
        found: Learnt = {}
        for key in self.blocks.keys():  # noqa: SIM118 - no dict
            if key.startswith("counts/0/"):
                _know(found, Counters.decode(self.blocks.get(key) or b""))
        return found


def _know(learnt: Learnt, counters: Counters) -> None:
    for row in counters.to_table().to_pylist():
        windows = learnt.setdefault((row["user"], row["action"]), {})
        windows[row["window_start_ms"]] = row["count"]


BATCHES = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 70)), min_size=1, max_size=4),
        st.sampled_from([0, 1, 5, 90]),
    ),
    max_size=9,
)
"""Whether the rule is in, who did something how many minutes ago, and how far the clock goes."""


@pytest.mark.parametrize("live", [True, False])
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
        assert (None if kept is None else kept.keys()) == (
            counting.learnt and counting.learnt.keys()
        )
        for cell, windows in (counting.learnt or {}).items():
            found, counts = (kept or {})[cell], list(windows.values())
            assert (found["first_ms"], found["last_ms"]) == (min(windows), max(windows))
            if not found["skipped"]:
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
