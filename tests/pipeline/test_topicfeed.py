"""How much a micro-batch takes of a topic, where nobody says it."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.environment import memory_bytes
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.pipeline.topicfeed import records_per_batch, with_limit
from tests.pipeline.harness import counted, finish, newest, spawned, until
from tests.pipeline.test_inputs import cluster  # noqa: F401 - a fixture
from tests.pipeline.topics import EventTopic, events_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from subprocess import Popen

    from pyspark.sql import SparkSession

    from kstoolkit.kafka.broker import Broker
    from kstoolkit.pipeline.run import Run
    from tests.pipeline.test_inputs import Cluster

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


PER_SECOND, USERS = 118_000, 8
FILLING = """
    import json, sys, time
    from pathlib import Path
    from confluent_kafka import Producer
    bootstrap, topic, stop = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    per_second, users = map(int, sys.argv[4:])
    producer = Producer({
        "bootstrap.servers": bootstrap, "log_level": 0, "acks": "all", "linger.ms": 50,
        "compression.type": "lz4", "batch.size": 1_000_000, "batch.num.messages": 20_000,
        "queue.buffering.max.messages": 2_000_000,
    })
    named = {"time": "2025-03-01T00:00:00Z", "action": "read"}
    values = [json.dumps({**named, "user": f"user {n}"}).encode() for n in range(users)]
    begun, sent = time.monotonic(), 0
    while not stop.exists():
        is_behind = sent < per_second * (time.monotonic() - begun)
        if is_behind and len(producer) < 1_000_000:
            messages = [{"value": value} for value in values] * 500
            sent += producer.produce_batch(topic, messages, sent // len(messages) % 2)
        producer.poll(0 if is_behind else 0.005)
    assert producer.flush(60) == 0
    print(sent)
"""

BOUNDED = """
    import sys, time
    import kstoolkit as kst
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.harness import until
    bootstrap, topic, out, all_events, master = sys.argv[1:]
    spark = spark_session(
        master, extra={"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    )
    known = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
    until(lambda: known().size() == 3, "the driver and two executors")
    source = kst.kafka_topic(
        topic, bootstrap=bootstrap, event_time="time", user="user", action="action"
    )
    pipeline = kst.Pipeline(source=source, cascade=kst.Cascade("1 hour"), buckets=2)
    run = pipeline.start(out, trigger="10 seconds")
    while run.summary().events < int(all_events):
        if not run.is_active:
            raise run.failure() or SystemExit("the run has ended")
        time.sleep(0.2)
    run.stop()
"""
"""A run that goes on until all is counted, whose executors have 1 GiB together."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a micro-batch took of a topic, and left there, as Spark's own source tells it."""

    records: int
    left: int


def written(topic: EventTopic) -> int:
    """Return how many records there are, by the broker's end offsets."""
    settings = {"bootstrap.servers": topic.broker.bootstrap, "group.id": "tests"}
    consumer = Consumer(settings)
    try:
        places = [TopicPartition(topic.name, each) for each in range(2)]
        return sum(consumer.get_watermark_offsets(each, timeout=30)[1] for each in places)
    finally:
        consumer.close()


@contextmanager
def filled(topic: EventTopic, stop: Path) -> Iterator[Popen[str]]:
    """Have a topic filled by a process of its own, until there is a file ``stop``."""

    def is_begun() -> bool:
        with suppress(KafkaException):  # the topic is so new that no broker leads it yet
            return written(topic) > 1.5 * MILLION
        return False

    told = topic.broker.bootstrap, topic.name, stop, PER_SECOND, USERS
    with spawned(FILLING, *told) as process:
        until(lambda: is_begun() or process.poll() is not None, "records")
        yield process


def taken(topic: EventTopic, out: Path, is_enough: Callable[[list[Taken]], bool]) -> list[Taken]:
    """Start a live run, and stop it when its batches are enough; return them."""
    pipeline = kst.Pipeline(source=topic.source(), cascade=kst.Cascade("1 hour"), buckets=2)
    run = pipeline.start(out, trigger="10 seconds")
    try:
        until(lambda: is_enough(batches_of(run)), "batches", seconds=120, every=0.2)
        return batches_of(run)
    finally:
        run.stop()


def batches_of(run: Run) -> list[Taken]:
    """Return the batches of a start, but for one that the start before had planned to its end."""
    assert run.query is not None
    told = []
    for progress in run.query.recentProgress:
        (source,) = (each for each in progress.sources if each.description.startswith("Kafka"))
        if source.numInputRows and source.metrics:  # of one that is repeated there are none
            left = 2 * float(source.metrics["avgOffsetsBehindLatest"])  # of two partitions
            told.append(Taken(source.numInputRows, round(left)))
    return told


def has_fallen_behind(done: list[Taken]) -> bool:
    return len(done) > 2 and done[-1].left > max(700_000, done[0].left)


def has_caught_up(done: list[Taken]) -> bool:
    """Whether two batches in a row left hardly anything, or it had its chance."""
    return len(done) > 5 or (len(done) > 2 and max(each.left for each in done[-2:]) < 100_000)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.cluster
@pytest.mark.usefixtures("spark")
def test_a_run_that_fell_behind_a_fast_topic_catches_up_after_a_start(
    broker: Broker,
    cluster: Cluster,  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    topic, out, stop = EventTopic(broker, "fast"), tmp_path / "out", tmp_path / "stop"
    with filled(topic, stop) as process:
        begun, before = time.monotonic(), written(topic)
        first = taken(topic, out, has_fallen_behind)
        second = taken(topic, out, has_caught_up)
        per_second = (written(topic) - before) / (time.monotonic() - begun)
        run = kst.load_run(out)
        until(lambda: written(topic) - events_of(run) > 2.6 * MILLION, "records that wait")
        stop.touch()
        code, sent, errors = finish(process)
    assert code == 0, errors
    assert per_second > 100_000
    assert max(each.records for each in first) <= MILLION
    assert first[-1].left > first[0].left
    assert second[0].records > MILLION
    assert has_caught_up(second[:5])
    end, planned = written(topic), newest(out / "checkpoint" / "offsets")
    with spawned(BOUNDED, broker.bootstrap, topic.name, out, end, cluster.master) as process:
        code, _, errors = finish(process, 120)
    assert code == 0, errors
    room = (1 << 30) // 800  # of 1 GiB, whatever was measured
    third = [each.events for each in run.batches() if each.batch > planned]
    assert room - 2 <= third[0] <= room
    assert max(third) == third[0]
    assert events_of(run) == end == int(sent)
    assert set(counted(run, "1 hour").values()) == {end // USERS}
