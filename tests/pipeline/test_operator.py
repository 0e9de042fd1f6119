from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kstoolkit.counters.counters import Counters
from kstoolkit.pipeline.operator import MATERIAL, CascadeOperator, Plan
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
        Plan(Cascade("1 minute"), 1, live=request.param, floors=(1,), baselines=(True,))
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
