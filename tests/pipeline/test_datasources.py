from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kstoolkit.pipeline.datasources import Due, _StillReader, _TickReader

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000


def ticks(reader: _TickReader, last_ms: int, number: int) -> list[int]:
    """Return the offsets that a query sees one after the other, from one on."""
    seen = [last_ms]
    for _ in range(number):
        offset = reader.latestOffset({"tick_ms": seen[-1]}, ReadAllAvailable())
        seen.append(offset["tick_ms"])
    return seen


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def due(tmp_path: Path) -> Due:
    return Due(tmp_path / "due.json")


@pytest.mark.parametrize("ahead_ms", [0, DAY_MS])
def test_where_nobody_knows_what_is_due_each_look_is_a_tick_whatever_the_clock_was(
    due: Due, ahead_ms: int
) -> None:
    seen = ticks(_TickReader(4, due, "tick", at_once=True), now_ms() + ahead_ms, 5)
    assert all(later > earlier for earlier, later in pairwise(seen))


def test_a_live_run_ticks_once_as_it_starts_and_then_when_something_is_due(due: Due) -> None:
    reader = _TickReader(4, due, "tick", at_once=True)
    due.tell(None, now_ms=now_ms())
    first, *others = ticks(reader, 0, 4)[1:]
    assert set(others) == {first} != {0}
    due.tell(now_ms() + 300, now_ms=now_ms())
    assert set(ticks(reader, first, 3)) == {first}
    time.sleep(0.3)
    assert ticks(reader, first, 1)[1] > first


@pytest.mark.parametrize("ahead_ms", [None, 2 * DAY_MS])
def test_a_clock_that_went_back_puts_no_tick_off(due: Due, ahead_ms: int | None) -> None:
    reader = _TickReader(4, due, "tick", at_once=True)
    due_ms = None if ahead_ms is None else now_ms() + ahead_ms
    due.tell(due_ms, now_ms=now_ms() + DAY_MS)
    seen = ticks(reader, now_ms() + DAY_MS, 3)
    assert all(later > earlier for earlier, later in pairwise(seen))


@pytest.mark.parametrize("told", ["", "{", "[]", '{"due_ms": 3}', '"text"'])
def test_what_can_not_be_read_is_due(due: Due, told: str) -> None:
    due.path.write_text(told)
    assert due.has_come(now_ms=0)


@pytest.mark.parametrize("ahead_ms", [0, DAY_MS])
def test_a_flush_is_one_tick_whatever_the_clock_was_and_whatever_is_due(
    due: Due, ahead_ms: int
) -> None:
    reader = _TickReader(4, due, "flush", at_once=True)
    reader.prepareForTriggerAvailableNow()
    first, second, *others = ticks(reader, now_ms() + ahead_ms, 4)
    assert second > first
    assert set(others) == {second}


def test_a_run_with_an_end_ticks_after_each_batch_until_one_brought_ticks_alone(due: Due) -> None:
    reader = _TickReader(4, due, "tick", at_once=False)
    reader.prepareForTriggerAvailableNow()
    due.tell(now_ms(), now_ms=now_ms())  # as the sink does after a batch
    _, first, second = ticks(reader, 5, 2)
    assert second > first > 5
    due.tell(None, now_ms=now_ms())  # and after the last one
    assert set(ticks(reader, second, 3)) == {second}


def test_a_run_with_an_end_that_nothing_is_due_in_has_no_ticks(due: Due) -> None:
    due.tell(None, now_ms=now_ms())
    assert set(ticks(_TickReader(4, due, "tick", at_once=False), 5, 3)) == {5}


def kinds(reader: _TickReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    return [
        kind
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for kind in batch.column("kind").to_pylist()
    ]


def test_a_flush_is_told_by_offsets_so_a_repeated_batch_flushes_too(due: Due) -> None:
    start = {"tick_ms": 7}  # as those of folders that knew no flushes
    end = _TickReader(2, due, "flush", at_once=True).latestOffset(start, ReadAllAvailable())
    later = _TickReader(2, due, "tick", at_once=True)
    assert kinds(later, start, end) == ["flush", "flush"]
    ticked = later.latestOffset(end, ReadAllAvailable())
    assert kinds(later, end, ticked) == ["tick", "tick"]
    again = _TickReader(2, due, "flush", at_once=True).latestOffset(ticked, ReadAllAvailable())
    assert kinds(later, ticked, again) == ["flush", "flush"]


def test_a_feed_that_stands_still_refuses_what_is_not_counted_yet() -> None:
    reader = _StillReader()
    offset = {"actions": {"0": 50}}
    assert reader.latestOffset(offset, ReadAllAvailable()) == offset
    assert [list(reader.read(each)) for each in reader.partitions(offset, dict(offset))] == [[]]
    with pytest.raises(ValueError, match="is not counted yet"):
        reader.partitions(offset, {"actions": {"0": 51}})


def test_what_spark_loads_to_plan_a_feed_is_light() -> None:
    """It does so in processes that live once, and the query waits for each of them."""
    asked = "import kstoolkit.pipeline.datasources, sys; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert not {"numpy", "pyarrow", "pandas"} & set(told.stdout.split())
