"""Runs on a topic whose broker dies, or which loses what comes next."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kstoolkit as kst
from kstoolkit.errors import CheckpointError, KafkaError, RestartsSpent
from kstoolkit.kafka.broker import Broker
from kstoolkit.pipeline.failure import RestartLog
from tests.pipeline.harness import check_exact, differences, events, source, until, write_files
from tests.pipeline.topics import EventTopic, events_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.usefixtures("spark"),
]

SOON = kst.Cascade("1 minute", "1 hour", flush={"1 hour": "0 s"}, lateness="30 days", retention=99)


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that tests may kill."""
    broker = Broker(tmp_path_factory.mktemp("mortal"))
    yield broker
    broker.kill()


@pytest.fixture
def topic(mortal: Broker, request: pytest.FixtureRequest) -> EventTopic:
    """A topic of this test's own, with 600 events."""
    return topic_of(mortal, request, 600)


@pytest.fixture
def small_topic(mortal: Broker, request: pytest.FixtureRequest) -> EventTopic:
    """One with few events, each of which may be tried out."""
    return topic_of(mortal, request, 30)


def topic_of(mortal: Broker, request: pytest.FixtureRequest, number: int) -> EventTopic:
    mortal.start()
    name = re.sub(r"\W+", "-", request.node.name)[:80]
    made = EventTopic(mortal, f"{name}.{time.time_ns()}")
    made.write(number)
    return made


@contextmanager
def live(
    topic: EventTopic, out: Path, cascade: kst.Cascade = SOON, **options: Any
) -> Iterator[Run]:
    """Run on a topic without an end."""
    pipeline = kst.Pipeline(source=topic.source(**options), cascade=cascade, buckets=2)
    run = pipeline.start(out, trigger="1 second")
    try:
        yield run
    finally:
        run.stop()


def counts_all(run: Run, topic: EventTopic) -> None:
    """Wait until all is counted, and see that each event was, once."""
    until(lambda: events_of(run) >= len(topic.rows), f"{len(topic.rows)} events")
    # Hours are flushed by a later batch than the one that counts, if that comes late itself.
    until(lambda: differences(run, "1 hour", topic.counted()) == [], "the hours", every=0.5)
    assert events_of(run) == len(topic.rows)


def ended(run: Run) -> Any:
    """Wait until a run has ended by itself, and return why."""
    until(lambda: not run.is_active, "the run to end")
    return run.failure()


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    beside = Thread(target=work)
    beside.start()
    try:
        yield
    finally:
        beside.join()


def test_a_live_run_outlives_its_broker_and_takes_up_new_partitions(
    topic: EventTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with live(topic, tmp_path / "out") as run:
        counts_all(run, topic)
        topic.broker.kill()
        until(lambda: "Kafka can't be read" in capsys.readouterr().err, "the outage to be told")
        assert run.is_active
        topic.broker.start()
        topic.write(200, seed=2)
        counts_all(run, topic)
        topic.widen(4)
        for partition in (2, 3):
            topic.write(100, seed=partition, partition=partition)
        counts_all(run, topic)
    assert not run.is_active


@pytest.mark.long
def test_a_bounded_run_goes_on_after_an_outage_to_where_the_topic_ended_as_it_began(
    topic: EventTopic, tmp_path: Path
) -> None:
    out, before = tmp_path / "out", list(topic.rows)

    def outage() -> None:
        until((out / "checkpoint" / "commits" / "0").exists, "the first batch", every=0.01)
        topic.broker.kill()
        until((out / "restarts.jsonl").exists, "the outage to be noticed")
        topic.broker.start()
        topic.write(150, seed=3)

    pipeline = kst.Pipeline(source=topic.source(max_records_per_batch=250), cascade=SOON)
    with meanwhile(outage):
        run = pipeline.run(out, progress=False)
    topic.rows, later = before, topic.rows[len(before) :]
    counts_all(run, topic)
    topic.rows += later
    counts_all(pipeline.run(out, progress=False), topic)


@pytest.mark.long
def test_a_changelog_whose_broker_goes_away_is_waited_for_and_its_replica_is_exact(
    mortal: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mortal.start()
    files = write_files(tmp_path / "in", events(300), 3)
    out = tmp_path / "out"
    soon = {"java.max.block.ms": "2000", "java.delivery.timeout.ms": "3000"}
    soon["java.request.timeout.ms"] = "2000"

    def pipeline(**options: Any) -> kst.Pipeline:
        log = kst.kafka_changelog("counts", bootstrap=mortal.bootstrap, **options)
        return kst.Pipeline(source=source(tmp_path / "in"), cascade=SOON, changelog=log)

    def outage() -> None:
        until((out / "checkpoint" / "commits" / "0").exists, "the first batch", every=0.01)
        mortal.kill()
        until((out / "restarts.jsonl").exists, "the outage to be noticed")
        mortal.start()

    with meanwhile(outage):
        run = pipeline(options=soon).run(out, max_files_per_batch=1, progress=False)
    assert "Kafka can't be written (The topic 'counts' " in capsys.readouterr().err
    check_exact(run, files)
    assert [each.counts for each in RestartLog(out / "restarts.jsonl").read()] == [False]
    log = kst.kafka_changelog("counts", bootstrap=mortal.bootstrap)
    with kst.WindowStore.restore(log, path=tmp_path / "replica", progress=False):
        hours = str(tmp_path / "replica" / "3600000")
        with kst.diff_stores(str(out), hours, window_size="1 hour") as diff:
            assert (diff.added, diff.removed, diff.changed) == (0, 0, 0)
    mortal.kill()
    with pytest.raises(KafkaError, match=r"No Kafka broker answers at .*; tried "):
        pipeline(give_up_after="1 second").run(out, progress=False)


def test_after_the_stated_time_a_run_ends_and_one_whose_broker_is_down_at_the_start_waits_for_it(
    topic: EventTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with live(topic, tmp_path / "out", give_up_after="2 seconds") as run:
        counts_all(run, topic)
        topic.broker.kill()
        why = ended(run)
    assert isinstance(why, KafkaError)
    assert why.message.startswith("No Kafka broker answers at '127.0.0.1:")
    assert "tried " in why.message

    def back() -> None:
        until(lambda: "; trying again." in capsys.readouterr().err, "the outage to be told")
        topic.broker.start()

    capsys.readouterr()
    with meanwhile(back), live(topic, tmp_path / "out") as run:
        topic.write(50, seed=4)
        counts_all(run, topic)


def test_a_topic_made_again_while_it_is_read_ends_the_run_before_anything_of_it_is_counted(
    topic: EventTopic, tmp_path: Path
) -> None:
    with live(topic, tmp_path / "out") as run:
        counts_all(run, topic)
        topic.delete()
        before = list(topic.rows)
        until(lambda: not topic.exists(), "the topic to be gone")
        topic.make()
        topic.write(2_000, seed=5)
        why = ended(run)
    assert isinstance(why, CheckpointError)
    assert "was deleted" in why.message
    assert "Gone are the offsets from " in why.message
    assert " of partition 1 on." in why.message
    assert f"kstoolkit reset {tmp_path / 'out'}" in (why.hint or "")
    topic.rows = before
    counts_all(run, topic)


@pytest.mark.long
def test_records_dropped_before_they_were_read_end_the_run_which_says_which(
    topic: EventTopic, tmp_path: Path
) -> None:
    with live(topic, tmp_path / "out", max_records_per_batch=100) as run:
        until(lambda: events_of(run), "a batch")
        for partition in range(2):  # left to itself, a producer fills one far more than the other
            topic.write(1_500, seed=6, partition=partition)
        topic.forget({0: 1_300, 1: 1_300})
        why = ended(run)
    assert isinstance(why, CheckpointError)
    assert "has not what comes next: of partition 0, offsets " in why.message
    assert "to 1299 are gone (" in why.message
    assert "kstoolkit reset" in (why.hint or "")


@pytest.mark.long
def test_a_partition_that_catches_up_behind_the_other_one_loses_nothing(
    mortal: Broker, tmp_path: Path
) -> None:
    mortal.start()
    topic = EventTopic(mortal, f"uneven.{time.time_ns()}")
    now = datetime.now(UTC)
    # Both are read at once, by their shares: the second one always lies hours behind.
    for partition, users, hours_ago in ((0, range(30, 100), 1), (1, range(30), 4)):
        begin = now - timedelta(hours=hours_ago)
        rows = [
            {
                "time": (begin + timedelta(minutes=each)).isoformat(),
                "user": f"user {n}",
                "action": "read",
            }
            for each in range(50)
            for n in users
        ]
        topic.write_values([json.dumps(row) for row in rows], partition=partition)
        topic.rows += rows
    cascade = kst.Cascade("1 minute", "1 hour")
    with live(topic, tmp_path / "out", cascade=cascade, max_records_per_batch=500) as run:
        until(lambda: events_of(run) == len(topic.rows), "all events")
    assert run.summary().batches >= 10
    assert run.summary().late == {}
    for window, length_ms in (("1 minute", 60_000), ("1 hour", 3_600_000)):
        assert differences(run, window, topic.counted(length_ms)) == []


@pytest.mark.long
def test_stopping_lets_the_batch_at_hand_end(topic: EventTopic, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with live(topic, out, max_records_per_batch=50) as run:
        until((out / "statistics" / "epoch=0" / "batch=1").exists, "a batch to begin", every=0.01)
        run.stop()
        assert not run.is_active
    assert (out / "checkpoint" / "commits" / "1").exists()
    begun = [path.name for path in (out / "statistics" / "epoch=0").iterdir()]
    assert len(begun) == len(list((out / "checkpoint" / "commits").glob("[0-9]*")))
    with live(topic, out) as run:
        counts_all(run, topic)


@pytest.mark.long
def test_a_stop_flushes_what_waits_also_while_the_broker_is_away(
    topic: EventTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rare = {"1 hour": "7 days"}
    held_back = kst.Cascade("1 minute", "1 hour", flush=rare, lateness="30 days", retention=99)
    with live(topic, tmp_path / "out", cascade=held_back) as run:
        until(lambda: events_of(run) >= len(topic.rows), "its events")
        topic.write(100, seed=2)
        until(lambda: events_of(run) >= len(topic.rows), "all events")
        assert differences(run, "1 hour", topic.counted())
        topic.broker.kill()
        until(lambda: "Kafka can't be read" in capsys.readouterr().err, "the outage to be told")
        run.stop()
        assert differences(run, "1 hour", topic.counted()) == []
        assert run.as_of() == {}
    topic.broker.start()
    topic.write(50, seed=3)
    with live(topic, tmp_path / "out") as run:
        counts_all(run, topic)


def dying_while(flag: Path) -> Callable[[pa.RecordBatch], pa.Table]:
    """Return a function of values that ends its worker as long as a file is there."""

    def read(records: pa.RecordBatch) -> pa.Table:
        if flag.exists():
            os._exit(1)
        return pa.Table.from_pylist([json.loads(each) for each in records["value"].to_pylist()])

    return read


@pytest.mark.long
def test_a_run_whose_worker_dies_is_started_again_as_often_as_was_said(
    topic: EventTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flag, out = tmp_path / "flag", tmp_path / "out"
    source = topic.source(value=dying_while(flag))
    pipeline = kst.Pipeline(source=source, cascade=SOON, buckets=2)
    again = kst.Restart(most_per_hour=2, first_pause="100 ms", longest_pause="200 ms")
    flag.touch()
    run = pipeline.start(out, trigger="1 second", restart=again)
    try:
        until(lambda: run.restarts, "a restart")
        flag.unlink()
        counts_all(run, topic)
        assert (
            "Starting again after 100 milliseconds (number 1 of 2 within an hour)."
            in capsys.readouterr().err
        )
        assert run.is_active
        flag.touch()
        topic.write(10, seed=7)
        why = ended(run)
    finally:
        run.stop()
    assert isinstance(why, RestartsSpent)
    assert "It was started again 2 times within an hour." in why.message
    assert str(out / "restarts.jsonl") in (why.hint or "")
    told = RestartLog(out / "restarts.jsonl").read()
    assert [each.batch is None for each in told] == [True, False]
    assert all("Spark gave up: " in each.reason for each in told)
    flag.unlink()
    with live(topic, out, value=dying_while(flag)) as run:
        counts_all(run, topic)


def dying_of(word: str) -> Callable[[pa.RecordBatch], pa.Table]:
    """Return a function of values that ends its worker when one holds a word."""

    def read(records: pa.RecordBatch) -> pa.Table:
        values = records["value"].to_pylist()
        if any(word.encode() in each for each in values):
            os._exit(1)
        return pa.Table.from_pylist([json.loads(each) for each in values])

    return read


READ_BY_SPARK = {  # whose function fails of a value that Spark itself has parsed well
    "schema": "time string, user string, action string",
    "user": "if(action = 'deadly', raise_error('of this one'), user)",
}


@pytest.mark.parametrize(
    "options",
    [{"value": dying_of("deadly")}, pytest.param(READ_BY_SPARK, marks=pytest.mark.long)],
    ids=["a function", "expressions"],
)
def test_records_that_kill_whoever_counts_them_become_dead_letters(
    options: dict[str, Any],
    small_topic: EventTopic,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    deadly = [json.dumps(row | {"action": "deadly"}) for row in events(2)]
    topic = small_topic
    topic.write_values(deadly[:1], partition=0)
    topic.write(30, seed=8)
    topic.write_values(deadly[1:], partition=1)
    pipeline = kst.Pipeline(source=topic.source(**options), cascade=SOON, buckets=2)
    again = kst.Restart(first_pause="10 ms", longest_pause="10 ms")
    run = pipeline.start(tmp_path / "out", trigger="1 second", restart=again)
    try:
        counts_all(run, topic)
        topic.write(10, seed=9)
        counts_all(run, topic)
        assert run.is_active
    finally:
        run.stop()
    told = run.dead_letters.to_pandas()
    assert list(told["reason"]) == ["poison"] * 2
    assert sorted(told["raw"]) == sorted(deadly)
    place = rf"topic {re.escape(topic.name)}, partition [01], offset \d+"
    assert all(re.fullmatch(place, each) for each in told["file"])
    assert "Records that end whatever counts them become dead letters" in capsys.readouterr().err
    assert sum(each.counts for each in RestartLog(run.folder.restarts).read()) == 2
