"""How much a micro-batch takes of a topic, where nobody says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.environment import memory_bytes
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.pipeline.topicfeed import records_per_batch, with_limit
from tests.pipeline.harness import until
from tests.pipeline.topics import EventTopic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kstoolkit.kafka.broker import Broker

MILLION = 1_000_000
BATCHES = st.lists(st.tuples(st.integers(0, 10_000_000), st.floats(0, 600)), max_size=20)
TRIGGERS = st.one_of(st.none(), st.integers(1, 3_600_000))


@given(BATCHES, TRIGGERS, st.one_of(st.none(), st.integers(1, 1 << 40)))
def test_the_limit_has_room_to_catch_up_and_keeps_within_memory(
    done: list[tuple[int, float]], trigger_ms: int | None, memory: int | None
) -> None:
    most = records_per_batch(done, trigger_ms, memory)
    assert most >= 1
    if memory is not None:
        assert most <= max(1, memory / 800)
    unbounded = records_per_batch(done, trigger_ms, None)
    assert most in {unbounded, max(1, int((memory or 0) / 800))}
    assert unbounded >= max(MILLION, 100 * (trigger_ms or 0))
    paces = [events / seconds for events, seconds in done if seconds > 0]
    assert unbounded <= max(MILLION, max([100_000 / 3, *paces]) * 3.001 * (trigger_ms or 0) / 1_000)


@pytest.mark.parametrize(
    ("done", "trigger_ms", "memory", "most"),
    [
        ([(3_000_000, 10.0)], 10_000, 64 << 30, 9 * MILLION),  # counts thrice what came till now
        ([(3_000_000, 10.0), (90, 9.0)], 10_000, 64 << 30, 9 * MILLION),  # then little came
        ([(3_000_000, 10.0)], None, 64 << 30, MILLION),  # one batch follows the other
        ([(3_000_000, 10.0)], 10_000, 2 << 30, (2 << 30) // 800),
        ([(0, 0.2), (0, 0.0)], 20_000, None, 2 * MILLION),
    ],
)
def test_the_limit_is_what_three_triggers_can_count(
    done: list[tuple[int, float]], trigger_ms: int | None, memory: int | None, most: int
) -> None:
    assert records_per_batch(done, trigger_ms, memory) == most


@pytest.mark.spark
def test_the_pace_is_that_of_the_runs_latest_batches_and_a_limit_of_ones_own_wins(
    spark: SparkSession, tmp_path: Path
) -> None:
    address = "kafka://127.0.0.1:9/actions"
    named: dict[str, Any] = {"event_time": "time", "user": "user", "action": "action"}
    topic = kst.kafka_topic(address, **named)
    folder = RunFolder(tmp_path)
    folders = BatchFolders(tmp_path / "statistics")
    for number in range(30):
        # The first ten are of a slower machine.
        batch = MicroBatch(number, 0, 50.0 if number < 10 else 5.0, events=2 * MILLION)
        batch.save(folders.begin(0, number))
        folders.mark(0, number)
    room = (memory_bytes() or 1 << 50) // 800
    given_none = with_limit(topic, spark, folder, 5_000)
    assert given_none.max_records_per_batch == min(6 * MILLION, room)
    own = kst.kafka_topic(address, **named, max_records_per_batch=7)
    assert with_limit(own, spark, folder, 5_000) is own


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.usefixtures("spark")
def test_a_live_run_with_a_long_trigger_takes_more_than_a_million_at_once(
    broker: Broker, tmp_path: Path
) -> None:
    topic = EventTopic(broker, "at-once")
    value = '{"time": "2025-03-01T00:00:00Z", "user": "Ann", "action": "read"}'
    for _ in range(22):
        topic.write_values([value] * 50_000)
    pipeline = kst.Pipeline(source=topic.source(), cascade=kst.Cascade("1 hour"), buckets=1)
    run = pipeline.start(tmp_path / "out", trigger="30 seconds")
    try:
        first = until(run.batches, "a batch", seconds=200)[0]
    finally:
        run.stop()
    assert first.events == 1_100_000
