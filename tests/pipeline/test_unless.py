"""Asks on a real broker: topics in, a topic out, right in event time in any order."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from pyspark.sql import functions as sf

from kstoolkit.errors import ColumnError, ConfigurationError
from kstoolkit.pipeline.topicfeed import with_connector
from kstoolkit.pipeline.unless import ask_unless
from tests.kafka.clients import make_topic, read_all, write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.kafka.broker import Broker

pytestmark = pytest.mark.spark

AT_LEAST = 5
SIZE, EVERY = pd.Timedelta("5 minutes"), pd.Timedelta("1 minute")
START = pd.Timestamp("2026-03-01T08:00Z")


def some_events() -> pd.DataFrame:
    """Return requests of users who do it more or less often, and the passes of some."""
    chance = Random(5)
    users = [f"user {number}" for number in range(12)]
    told = [
        {
            "user": user,
            "time": START + pd.Timedelta(seconds=chance.randrange(3_600)),
            "passed": chance.random() < 0.04,
        }
        for number, user in enumerate(users)
        for _ in range(10 * number)
    ]
    return pd.DataFrame(told).sort_values("time", ignore_index=True)


EVENTS = some_events()


def decided_by_hand(events: pd.DataFrame) -> dict[tuple[str, pd.Timestamp], bool]:
    """Return which windows have so many requests, and whether no pass has cleared them."""
    requests, passes = events[~events.passed], events[events.passed]
    backs = [EVERY * number for number in range(SIZE // EVERY)]
    starts = pd.concat(
        [requests.assign(start=requests.time.dt.floor("1min") - back) for back in backs]
    )
    counts = starts.groupby(["user", "start"]).size()
    often = counts[counts >= AT_LEAST].index.to_frame(index=False)
    latest = often.user.map(passes.groupby("user").time.max())
    asked = ~(latest >= often.start)
    keys = zip(often.user, often.start, strict=True)
    return dict(zip(keys, asked.tolist(), strict=True))


def told(broker: Broker, name: str, events: pd.DataFrame) -> None:
    """Write requests and passes to their topics, in the order given."""
    for passed, topic in ((False, f"{name}-requests"), (True, f"{name}-passes")):
        chosen = events[events.passed == passed]
        values = [
            json.dumps({"time": time.isoformat(), "user": user}).encode()
            for time, user in zip(chosen.time, chosen.user, strict=True)
        ]
        write(broker, topic, values)


def followed(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    records = (
        with_connector(spark)
        .readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 150)
        .load()
    )
    fields = "from_json(CAST(value AS string), 'time timestamp, user string') AS fields"
    return records.selectExpr(fields).select("fields.*")


def asks_to_topic(spark: SparkSession, broker: Broker, name: str, checkpoint: Path) -> int:
    """Bring the topic of asks up to date, and return in how many micro-batches."""
    passes = followed(spark, broker, f"{name}-passes")
    ask = ask_unless(
        passes, "5 minutes every 1 minute", at_least=AT_LEAST, lateness="2 hours", buckets=4
    )
    query = (
        followed(spark, broker, f"{name}-requests")
        .transform(ask)
        .selectExpr("to_json(struct(user, window_start)) AS key", "to_json(struct(*)) AS value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", f"{name}-asks")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return sum(progress.numInputRows > 0 for progress in query.recentProgress)


@pytest.mark.kafka
@pytest.mark.parametrize("order", ["shuffled", "reversed"])
def test_the_topic_of_asks_says_what_all_events_say_at_once(
    spark: SparkSession, broker: Broker, tmp_path: Path, order: str
) -> None:
    events = EVENTS[::-1] if order == "reversed" else EVENTS.sample(frac=1, random_state=3)
    name = f"captcha-{order}-{tmp_path.name}"
    for topic in ("requests", "passes", "asks"):
        make_topic(broker, f"{name}-{topic}", 2 if topic == "requests" else 1)

    batches = 0
    for part in (events[:450], events[450:]):
        told(broker, name, part)
        batches += asks_to_topic(spark, broker, name, tmp_path / "checkpoint")

    records = [json.loads(message.value() or b"") for message in read_all(broker, f"{name}-asks")]
    latest = {(each["user"], pd.Timestamp(each["window_start"])): each["asked"] for each in records}
    expected = decided_by_hand(EVENTS)
    assert latest == expected
    assert min(sum(expected.values()), sum(not each for each in expected.values())) > 20
    # From the last pass backwards, nobody is asked whom a later batch would clear.
    assert (len(records) > len(latest)) == (order == "shuffled")
    assert batches >= 4


def rows_of_file(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("time timestamp, user string").json(str(folder))


def put(folder: Path, name: str, *rows: tuple[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"time": f"2026-03-01T{time}Z", "user": user}) for time, user in rows]
    (folder / name).write_text("\n".join(lines))


def brought_up(spark: SparkSession, place: Path) -> StreamingQuery:
    passes = rows_of_file(spark, place / "passes")
    ask = ask_unless(passes, "1 minute", at_least=2, lateness="10 minutes", buckets=4)
    query = (
        rows_of_file(spark, place / "requests")
        .transform(ask)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "asks"))
    )
    assert query.awaitTermination(120)
    return query


def test_what_is_too_late_is_dropped_and_counted_and_a_late_clearing_is_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    requests, passes = tmp_path / "requests", tmp_path / "passes"
    passes.mkdir()
    put(requests, "1.json", ("08:00:10", "ann"), ("08:00:20", "ann"), ("08:00:30", "bo"))
    put(requests, "2.json", ("10:00:00", "cy"))
    brought_up(spark, tmp_path)
    # Stream time is 10:00 by now: a request of 8:00 is late, a pass of now clears what was asked.
    put(requests, "3.json", ("08:00:40", "bo"), ("09:59:00", "cy"))
    put(passes, "1.json", ("10:00:05", "ann"))
    query = brought_up(spark, tmp_path)

    dropped = sum(
        operator.numRowsDroppedByWatermark
        for progress in query.recentProgress
        for operator in progress.stateOperators
    )
    assert dropped == 1
    rows = spark.read.parquet(str(tmp_path / "asks")).orderBy("asked").collect()
    assert [(row.user, row["count"], row.asked) for row in rows] == [
        ("ann", 2, False),
        ("ann", 2, True),
    ]


def test_windows_that_no_hop_divides_are_those_of_spark(spark: SparkSession) -> None:
    requests = spark.createDataFrame(EVENTS[~EVENTS.passed][["time", "user"]])
    passes = spark.sql("SELECT timestamp '2000-01-01T00:00:00Z' AS time, 'user 1' AS user")
    asked = requests.transform(ask_unless(passes, "5 minutes", every="2 minutes", at_least=3))
    spark_windows = requests.groupBy(sf.window("time", "5 minutes", "2 minutes"), "user").count()
    expected = spark_windows.where("count >= 3").select("user", "window.start", "window.end")
    assert asked.where("not asked").count() == 0
    rows = asked.select("user", "window_start", "window_end").collect()
    assert {tuple(row) for row in rows} == {tuple(row) for row in expected.collect()}
    assert len(rows) > 50


def test_what_makes_no_sense_is_refused(spark: SparkSession) -> None:
    passes = spark.sql("SELECT timestamp_seconds(5) AS time, 'ann' AS user")
    with pytest.raises(ConfigurationError, match="at_least is 0: it has to be 1 or more"):
        ask_unless(passes, "1 minute", at_least=0)
    with pytest.raises(ConfigurationError, match="buckets is 0"):
        ask_unless(passes, "1 minute", at_least=1, buckets=0)
    with pytest.raises(ConfigurationError, match="makes 1,440 counters of one event"):
        ask_unless(passes, "1 day every 1 minute", at_least=1)
    nameless = spark.sql("SELECT timestamp_seconds(5) AS time, 'ann' AS name")
    with pytest.raises(ColumnError, match="user"):
        nameless.transform(ask_unless(passes, "1 minute", at_least=1))


def test_a_session_that_keeps_no_state_in_rocksdb_is_told_how_to(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.unset("spark.sql.streaming.stateStore.providerClass")
    provider = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    other.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    passes = other.sql("SELECT timestamp_seconds(5) AS time, 'ann' AS user")
    with pytest.raises(
        ConfigurationError, match="HDFSBackedStateStoreProvider, not in RocksDB"
    ) as caught:
        passes.transform(ask_unless(passes, "1 minute", at_least=1))
    assert "streaming_conf()" in str(caught.value)
