from __future__ import annotations

import time
from itertools import pairwise

from pyspark.sql.streaming.datasource import ReadAllAvailable

from kstoolkit.pipeline.stream import _TickReader

DAY_MS = 86_400_000


def ticks(reader: _TickReader, last_ms: int, number: int) -> list[int]:
    """Return the offsets that a query sees one after the other, from one on."""
    seen = [last_ms]
    for _ in range(number):
        offset = reader.latestOffset({"tick_ms": seen[-1]}, ReadAllAvailable())
        seen.append(offset["tick_ms"])
    return seen


def test_each_look_of_a_live_run_is_a_tick_also_after_a_clock_that_was_a_day_ahead() -> None:
    ahead_ms = time.time_ns() // 1_000_000 + DAY_MS
    for last_ms in (0, ahead_ms):
        seen = ticks(_TickReader(4, live=True), last_ms, 5)
        assert all(later > earlier for earlier, later in pairwise(seen))


def test_the_end_of_an_input_is_one_tick_also_after_a_clock_that_was_a_day_ahead() -> None:
    ahead_ms = time.time_ns() // 1_000_000 + DAY_MS
    for last_ms in (0, ahead_ms):
        reader = _TickReader(4, live=True)
        reader.prepareForTriggerAvailableNow()
        first, second, *others = ticks(reader, last_ms, 4)
        assert second > first
        assert set(others) == {second}


def test_a_run_with_an_end_has_no_ticks() -> None:
    assert set(ticks(_TickReader(4, live=False), 5, 3)) == {5}
