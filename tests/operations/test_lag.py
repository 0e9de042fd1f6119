"""How far behind a run or a group is: as records that were really sent and read tell."""

from __future__ import annotations

import shutil
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, TopicPartition

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, InputError, KafkaError
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.operations.lag import LagWatch, _Rates, _until
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.plots.axes import beside_pyplot
from tests.kafka.clients import make_topic, write
from tests.kafka.javaconsumer import read_by_java
from tests.operations.scraping import OPENMETRICS, Scrape
from tests.plots.made import made_run

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker
    from tests.operations.topicruns import TopicRun

pytestmark = pytest.mark.kafka


def member(broker: Broker, topic: str, group: str) -> Consumer:
    """Return a consumer in a group, which commits when it is told to."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    return consumer


def read_on(consumer: Consumer, number: int) -> None:
    assert len(consumer.consume(number, timeout=60)) == number
    consumer.commit(asynchronous=False)


def remove_before(broker: Broker, topic: str, offset: int) -> None:
    """Have the broker remove the first records of partition 0."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (done,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    done.result(60)


@pytest.mark.spark
def test_a_run_that_has_read_all_is_not_behind(topic_run: TopicRun) -> None:
    lag = kst.lag(kst.load_run(topic_run.out))

    assert [(each.position, each.end_offset, each.lag_records) for each in lag] == [
        (500, 500, 0),
        (500, 500, 0),
    ]
    assert (lag.lag_seconds, lag.catch_up_seconds) == (0.0, 0.0)
    assert lag.state == "not counting at present"
    assert repr(lag).endswith("not counting at present: 0 records behind in 2 partitions)")


@pytest.mark.spark
def test_a_run_that_went_less_far_is_behind_as_its_offset_log_says(
    topic_run: TopicRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = topic_run.copied(tmp_path / "out").out
    (out / "checkpoint" / "commits" / "2").unlink()  # the third batch was not committed
    lag = kst.lag(out, over="1 second")

    # Of 1,000 records ten seconds apart, two batches took 800.
    assert [each.lag_records for each in lag] == [100, 100]
    assert [each.lag_seconds for each in lag] == [1_980.0, 1_980.0]
    batches = list(kst.load_run(out).batches())[:2]
    rate = 800 / sum(each.seconds for each in batches)
    assert sum(each.read_per_second or 0 for each in lag) == pytest.approx(rate)
    assert [each.arriving_per_second for each in lag] == [0.0, 0.0]
    assert lag.catch_up_seconds == pytest.approx(200 / rate)
    assert "200 records and 33 minutes behind in 2 partitions, caught up in " in repr(lag)
    monkeypatch.chdir(tmp_path)
    with RunFolder(out).hold():
        assert kst.lag("out", over=0).state == "counting"
    assert lag.reader == f"run {str(out)!r}"  # as it was given
    for given in ("out", kst.load_run(out)):
        assert kst.lag(given, over=0).reader == "run 'out'"


@pytest.mark.spark
def test_without_a_commit_nothing_is_known_and_it_is_said(
    topic_run: TopicRun, tmp_path: Path
) -> None:
    out = topic_run.copied(tmp_path / "out").out
    shutil.rmtree(out / "checkpoint")
    lag = kst.lag(out)
    assert lag.lag_records is None
    assert repr(lag).endswith("lag unknown (no batch is committed yet))")
    assert lag.partitions[0].unknown["position"] == "no batch is committed yet"


@pytest.mark.spark
def test_a_new_partition_is_told_apart(topic_run: TopicRun, tmp_path: Path) -> None:
    out = topic_run.copied(tmp_path / "out").out
    newest = out / "checkpoint" / "offsets" / "2"
    text = newest.read_text(encoding="utf-8")
    assert '"1":500' in text
    newest.write_text(text.replace(',"1":500', ""), encoding="utf-8")  # as before it was there
    lag = kst.lag(out, over=0)
    assert [each.lag_records for each in lag] == [0, None]
    assert "the partition is new" in lag.partitions[1].unknown["lag_records"]


@pytest.mark.spark
def test_metrics_serve_the_lag_of_a_run(topic_run: TopicRun) -> None:
    with kst.load_run(topic_run.out).serve_metrics() as server:
        told = Scrape(server.url, OPENMETRICS)
    assert told.by("partition", "kstoolkit_lag_records") == {"0": 0, "1": 0}
    assert told.by("part", "kstoolkit_scrape_errors_total")["lag"] == 0


@pytest.mark.spark
def test_a_silent_broker_costs_metrics_the_lag_alone(topic_run: TopicRun, tmp_path: Path) -> None:
    run = kst.load_run(topic_run.copied(tmp_path / "out").out)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"kafka://127.0.0.1:{silent.getsockname()[1]}/{topic_run.topic}"
        run.folder.save(replace(run.settings, source=address))
        with run.serve_metrics() as server:
            told = Scrape(server.url, OPENMETRICS)
    assert told.of("kstoolkit_events_total") == 1_000
    assert told.by("part", "kstoolkit_scrape_errors_total")["lag"] == 1


def test_a_group_is_behind_by_what_it_has_not_committed(broker: Broker, name: str) -> None:
    make_topic(broker, name)
    write(broker, name, [b"x"] * 400, time_ms=1_000_000)
    write(broker, name, [b"x"] * 100, time_ms=1_090_000)
    reader = member(broker, name, f"{name}-billing")
    read_on(reader, 100)
    watch = LagWatch(f"{name}-billing", bootstrap=broker.bootstrap)
    first = watch.look()
    assert (first.lag_records, first.lag_seconds, first.measured_seconds) == (400, 90.0, None)
    assert first.why == "not measured: it takes two looks"
    began = time.monotonic()
    time.sleep(1)
    read_on(reader, 200)
    write(broker, name, [b"x"] * 50, time_ms=1_100_000)

    second = watch.look()

    apart = second.measured_seconds
    assert apart is not None
    assert 1 <= apart <= time.monotonic() - began + 5
    (one,) = second
    assert (one.position, one.end_offset, one.lag_records) == (300, 550, 250)
    assert one.read_per_second == pytest.approx(200 / apart)
    assert one.arriving_per_second == pytest.approx(50 / apart)
    assert second.catch_up_seconds == pytest.approx(250 / (150 / apart))
    assert second.state == "stable, 1 member"
    write(broker, name, [b"x"] * 500)
    third = watch.look()
    assert third.catch_up_seconds is None
    assert third.why is not None
    assert third.why.startswith("never at this rate: ")
    assert "caught up never at this rate" in repr(third)
    with beside_pyplot():
        axes = third.plot()
    assert axes.get_title(loc="left").endswith("750 records behind")
    assert axes.get_legend_handles_labels()[1] == ["never caught up with"]
    reader.close()
    gone = kst.lag(f"{name}-billing", bootstrap=broker.bootstrap, over=0)
    assert gone.state == "empty, 0 members"
    assert gone.why == "never at this rate: nothing is read"


def test_without_a_commit_meanwhile_the_rate_is_unknown(broker: Broker, name: str) -> None:
    make_topic(broker, name)
    write(broker, name, [b"x"] * 20)
    reader = member(broker, name, f"{name}-still-readers")
    read_on(reader, 5)
    lag = kst.lag(f"{name}-still-readers", bootstrap=broker.bootstrap, over="1 second")
    assert lag.catch_up_seconds is None
    assert lag.why is not None
    assert lag.why.startswith("no commit came within")
    reader.close()


def test_records_that_are_gone_unread_are_counted_apart(broker: Broker, name: str) -> None:
    make_topic(broker, name)
    write(broker, name, [b"x"] * 50)
    reader = member(broker, name, f"{name}-gone-readers")
    read_on(reader, 10)
    reader.close()
    remove_before(broker, name, 30)
    lag = kst.lag(f"{name}-gone-readers", bootstrap=broker.bootstrap, over=0)
    (one,) = lag
    assert (one.lag_records, one.gone_records) == (20, 20)
    assert "(20 records gone)" in one.cells()[4]


def test_a_partition_that_nothing_is_committed_of_is_unknown_unless_it_is_empty(
    broker: Broker, name: str
) -> None:
    make_topic(broker, name)
    write(broker, name, [b"x"] * 8)
    reader = member(broker, name, f"{name}-partial-readers")
    read_on(reader, 8)
    reader.close()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(name, 3)])[name].result(60)
    Cluster(broker.bootstrap).reach(name, [0, 1, 2])  # waits until all of them are there
    watch = LagWatch(f"{name}-partial-readers", bootstrap=broker.bootstrap)
    lag = watch.look()
    assert [each.lag_records for each in lag] == [0, 0, 0]
    assert lag.partitions[2].unknown["position"] == "nothing is committed"


def test_topics_are_told_one_by_one_and_a_missing_one_is_said(broker: Broker, name: str) -> None:
    for topic, position in ((f"{name}-first", 3), (f"{name}-second", 1)):
        make_topic(broker, topic)
        write(broker, topic, [b"x"] * 8)
        to: Any = {"to": {0: position}, "bootstrap": broker.bootstrap, "topic": topic}
        kst.reset(name, **to, dry_run=False)
    lag = kst.lag(name, bootstrap=broker.bootstrap, over=0)
    assert [(each.topic, each.lag_records) for each in lag] == [
        (f"{name}-first", 5),
        (f"{name}-second", 7),
    ]
    only = kst.lag(name, bootstrap=broker.bootstrap, topic=f"{name}-second", over=0)
    assert only.lag_records == 7
    with pytest.raises(InputError, match="No topic 'none-at-all'"):
        kst.lag(name, bootstrap=broker.bootstrap, topic="none-at-all")


def test_a_java_consumer_group_is_seen_as_it_is(broker: Broker, name: str) -> None:
    make_topic(broker, name)
    write(broker, name, [b"x"] * 30)
    read_by_java(broker, name, f"{name}-java-readers", 12)
    lag = kst.lag(f"{name}-java-readers", bootstrap=broker.bootstrap, over=0)
    (one,) = lag
    assert (one.position, one.lag_records, one.topic) == (12, 18, name)


def test_what_reads_no_topic_is_refused(broker: Broker, tmp_path: Path) -> None:
    run = made_run(tmp_path / "out")
    with pytest.raises(ConfigurationError, match=r"reads no topic: 'data/edits\.json\.gz'"):
        kst.lag(run)
    with pytest.raises(InputError, match="No run in"):
        kst.lag(tmp_path / "none")
    with pytest.raises(InputError, match="No consumer group 'lag-nobody'"):
        kst.lag("lag-nobody", bootstrap=broker.bootstrap)
    with pytest.raises(ConfigurationError, match="is no name of a consumer group"):
        kst.lag(run, bootstrap=broker.bootstrap)


def test_a_broker_that_is_not_there_is_said() -> None:
    with pytest.raises(KafkaError):
        kst.lag("anybody", bootstrap="127.0.0.1:1")


def test_what_waits_meets_what_is_read_or_never() -> None:
    read, arrives = _Rates({}, "no batch"), _Rates({}, "one look")
    assert _until(120, read, arrives, 30.0, 10.0) == (6.0, None)
    assert _until(120, read, arrives, None, 10.0) == (None, "no batch")
    assert _until(120, read, arrives, 30.0, None) == (None, "one look")
    assert _until(0, read, arrives, None, None) == (0.0, None)
    never = "never at this rate: "
    assert _until(120, read, arrives, 0.0, None) == (None, f"{never}nothing is read")
    slow = f"{never}10 arrive a second, and 10 are read"
    assert _until(120, read, arrives, 10.0, 10.0) == (None, slow)


def test_what_is_neither_a_run_nor_a_folder_has_no_lag() -> None:
    nothing: Any = 5
    with pytest.raises(ConfigurationError, match="5 is no run"):
        kst.lag(nothing)
