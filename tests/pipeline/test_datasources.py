from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kstoolkit.pipeline.datasources import Due, _StillReader, _TickReader
from tests.pipeline.harness import ROOT

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
        kind for partition in reader.partitions(start, end) for _, kind, _ in reader.read(partition)
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


DRIVER = """
    import sys
    from pathlib import Path
    from pyspark import cloudpickle
    from kstoolkit.events.event import Columns, Limits
    from kstoolkit.pipeline.datasources import FileFeed, LineFeed, TickFeed, ship_by_value
    from kstoolkit.pipeline.feeds import FileFeedPlan
    from kstoolkit.pipeline.shuffle import Grain

    place, feed = Path(sys.argv[1]), {feed}
    columns = Columns("time", "user", "action")
    plan = FileFeedPlan(
        str(place / "in"), None, columns, Limits(), str(place / "out" / "files.jsonl"),
        Grain(60_000, 2), 1, 9, 1 << 20,
    )
    ticks = {{"buckets": "2", "kind": "tick", "due": "due", "at_once": "True"}}
    options = ticks | {{"plan": plan.to_json()}}
    if {by_value}:
        ship_by_value()
    (place / "feed").write_bytes(cloudpickle.dumps((feed, options)))
"""

PLANNER = """
    import sys
    from pathlib import Path
    from pyspark import cloudpickle
    from pyspark.sql.streaming.datasource import ReadAllAvailable
    from pyspark.sql.types import StructType

    place = Path(sys.argv[1])
    feed, options = cloudpickle.loads((place / "feed").read_bytes())
    reader = feed(options).streamReader(StructType())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    # Spark has another process pickle what tasks do, with a reader that has seen nothing.
    work = feed(options).streamReader(StructType()).read, reader.partitions(start, end)
    (place / "task").write_bytes(cloudpickle.dumps(work))
"""

NODE = """
    import sys
    from pathlib import Path

    class Bare:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {"google", "kstoolkit", "rocksdict"}:
                raise ModuleNotFoundError(f"No module named {name!r} on this node")

    sys.meta_path.insert(0, Bare())
    from pyspark import cloudpickle
    read, partitions = cloudpickle.loads(Path(sys.argv[1], "task").read_bytes())
    print(sum(len(list(read(each))) for each in partitions))
"""


def done(program: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, as the driver, its planners and the nodes are."""
    return subprocess.run(
        [sys.executable, "-c", dedent(program), place],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("feed", ["FileFeed", "LineFeed", "TickFeed"])
def test_what_a_feed_makes_its_planner_load_goes_on_to_nodes_that_have_nothing_of_ours(
    feed: str, tmp_path: Path
) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    event = {"time": "2025-03-01T10:00:00Z", "user": "Ann", "action": "read"}
    (tmp_path / "in" / "events.json").write_text(json.dumps(event))
    seen = {}
    for by_value in (True, False):
        driver = done(DRIVER.format(feed=feed, by_value=by_value), tmp_path)
        planner = done(PLANNER, tmp_path)
        assert driver.stderr + planner.stderr == ""
        seen[by_value] = done(NODE, tmp_path)
    assert int(seen[True].stdout or 0) > 0, seen[True].stderr
    assert "No module named 'kstoolkit' on this node" in seen[False].stderr
