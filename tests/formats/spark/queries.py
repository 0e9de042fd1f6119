"""Streaming queries whose state lies in a checkpoint in each of the ways that Spark knows."""

from __future__ import annotations

import json
import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

STORE = "spark.sql.streaming.stateStore."
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
JOIN = "spark.sql.streaming.join.stateFormatVersion"

SNAPSHOTS = {f"{STORE}rocksdb.changelogCheckpointing.enabled": "false"}
CHANGELOGS = {f"{STORE}rocksdb.changelogCheckpointing.enabled": "true"}
FORMAT_2 = CHANGELOGS | {f"{STORE}checkpointFormatVersion": "2"}
CHECKSUMS = CHANGELOGS | {f"{STORE}rowChecksum.enabled": "true"}
CHECKSUMS_IN_SNAPSHOTS = SNAPSHOTS | {f"{STORE}rowChecksum.enabled": "true"}
ON_HDFS = {f"{STORE}providerClass": HDFS}
ON_HDFS_WITH_CHECKSUMS = ON_HDFS | {f"{STORE}rowChecksum.enabled": "true"}
OLD_DELIMITER = SNAPSHOTS | {f"{STORE}rocksdb.mergeOperatorVersion": "1"}

NAMES = ("Anna", "Bo", "Zoë", "a name that is longer than a word")
HOUR_MS = 3_600_000


class Events:
    """A folder of files, each of which is a micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path, batches: int = 3) -> None:
        self.spark, self.folder = spark, folder
        draw = random.Random(7)
        folder.mkdir(parents=True, exist_ok=True)
        for batch in range(batches):
            rows = [self._row(draw, batch) for _ in range(8)]
            text = "".join(f"{json.dumps(row)}\n" for row in rows)
            (folder / f"{batch}.json").write_text(text, encoding="utf-8")
            time.sleep(0.002)  # Spark takes the files in the order of their times

    @staticmethod
    def _row(draw: random.Random, batch: int) -> dict[str, Any]:
        minute, milli = batch * 7 + draw.randrange(7), draw.randrange(60_000)
        seconds = f"{milli // 1000:02d}.{milli % 1000:03d}"
        user = draw.choice(NAMES)
        return {
            "ts": f"2025-01-01T00:{minute:02d}:{seconds}Z",
            "user": user,
            "n": draw.randrange(-9, 99),
        }

    def stream(self, watermark: str | None = "2 minutes") -> DataFrame:
        reader = self.spark.readStream.schema("ts timestamp, user string, n int")
        frame = reader.option("maxFilesPerTrigger", 1).json(str(self.folder))
        return frame if watermark is None else frame.withWatermark("ts", watermark)


def plain_count(events: Events) -> DataFrame:
    return events.stream(None).groupBy("user").count()


def global_count(events: Events) -> DataFrame:
    return events.stream(None).groupBy().agg(F.sum("n"), F.avg("n"))


def window_count(events: Events) -> DataFrame:
    window = F.window("ts", "5 minutes")
    return events.stream().groupBy(window, "user").agg(F.count("*").alias("count"), F.max("n"))


def dedup(events: Events) -> DataFrame:
    return events.stream().dropDuplicates(["user", "n", "ts"])


def dedup_within(events: Events) -> DataFrame:
    return events.stream("1 hour").dropDuplicatesWithinWatermark(["user"])


def session(events: Events) -> DataFrame:
    return events.stream().groupBy(F.session_window("ts", "1 minute"), "user").count()


def join(events: Events) -> DataFrame:
    left = events.stream("20 minutes")
    right = events.stream("20 minutes").selectExpr("ts AS ts2", "user AS user2", "n AS n2")
    near = "user = user2 AND ts2 >= ts AND ts2 <= ts + INTERVAL 3 MINUTES"
    return left.join(right, F.expr(near), "leftOuter")


TYPES = """
n % 2 = 0 AS boolean, CAST(n AS BYTE) AS byte, CAST(n * 100 AS SHORT) AS short,
CAST(n AS LONG) * 1000000007 AS long, CAST(n AS FLOAT) / 3 AS float, n / 7D AS double,
CAST(n AS DECIMAL(9, 2)) / 4 AS small, CAST(n AS DECIMAL(38, 6)) * 1234567890123456789 AS large,
DATE '1960-01-01' + n AS date, ts, CAST(ts AS TIMESTAMP_NTZ) AS ntz, CAST(user AS BINARY) AS binary,
make_dt_interval(n, 1, 2, 3.5) AS duration,
CAST(user AS CHAR(40)) AS padded, CAST(NULL AS STRING) AS nothing,
IF(n % 3 = 0, NULL, named_struct('a', n, 'b', user, 'c', named_struct('d', ts))) AS struct,
array(n, NULL, n + 1) AS integers, array(true, NULL, n > 50) AS booleans,
array(user, NULL, '') AS texts, array(CAST(n AS DECIMAL(30, 3)), NULL) AS decimals,
array(named_struct('x', n), NULL) AS structs, array(array(CAST(n AS SHORT)), array()) AS nested,
transform(sequence(1, 70), x -> IF(x % 5 = 0, NULL, CAST(x AS BYTE))) AS many,
slice(array(DATE '2025-01-01', NULL), 1, abs(n) % 3) AS dates
"""
AGGREGATES = (
    "map(user, n, 'none', NULL) AS m1",
    "map(n, array(user, NULL), n + 1, NULL) AS m2",
    "map(CAST(n AS BYTE), named_struct('a', CAST(n AS DECIMAL(25, 2)))) AS m3",
    "make_ym_interval(n, 5) AS months",
    "make_interval(1, 2, 3, n, 5, 6, 7.25) AS calendar",
    "parse_json(to_json(named_struct('n', n))) AS variant",
)


def all_types(events: Events) -> DataFrame:
    """Keys and values of every type: what can't be a key is the first value of one."""
    others = [text.rpartition(" AS ")[2] for text in AGGREGATES]
    frame = events.stream(None).selectExpr("user", *_split(TYPES), *AGGREGATES)
    keys = [name for name in frame.columns if name not in others]
    return frame.groupBy(*keys).agg(*(F.first(name).alias(name) for name in others))


def _split(text: str) -> list[str]:
    """Return the columns of a list, whose commas may stand in parentheses."""
    parts, depth = [""], 0
    for letter in text.replace("\n", " "):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


class Remembering(StatefulProcessor):
    """Keeps something in a state variable of every kind, and removes some of it again."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "total long, user string")
        self.seen = handle.getListState("seen", "n int, at timestamp")
        self.by_n = handle.getMapState("by_n", "n string", "count int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        found = list(rows)
        known = self.total.get()[0] if self.total.exists() else 0
        self.total.update((known + len(found), key[0]))
        self.seen.appendList([(row["n"], row["ts"]) for row in found])
        for row in found:
            self.by_n.updateValue((str(row["n"]),), (row["n"],))
        if known:
            self.by_n.removeKey((str(found[0]["n"]),))
        self.remember(found, timerValues)
        yield Row(user=key[0])

    def remember(self, found: list[Any], timers: Any) -> None:
        """Register two timers, and delete one of them."""
        now = timers.getCurrentWatermarkInMs()
        for ahead in (50, 60, 70):
            self.handle.registerTimer(now + ahead * HOUR_MS + found[0]["n"])
        self.handle.deleteTimer(now + 60 * HOUR_MS + found[0]["n"])

    def close(self) -> None:
        """Keep nothing open."""


class Forgetting(Remembering):
    """The same, with what expires, by the clock."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self.value = handle.getValueState("value_ttl", "n int", 5 * HOUR_MS)
        self.list = handle.getListState("list_ttl", "n int", 6 * HOUR_MS)
        self.map = handle.getMapState("map_ttl", "n string", "count int", 7 * HOUR_MS)

    def remember(self, found: list[Any], timers: Any) -> None:
        numbers = [(row["n"],) for row in found]
        self.value.update(numbers[0])
        self.list.appendList(numbers)
        self.map.updateValue((str(found[0]["n"]),), (1,))
        self.handle.registerTimer(timers.getCurrentProcessingTimeInMs() + HOUR_MS)


def remembering(events: Events) -> DataFrame:
    grouped = events.stream().groupBy("user")
    return grouped.transformWithState(Remembering(), "user string", "update", "EventTime")


def forgetting(events: Events) -> DataFrame:
    grouped = events.stream(None).groupBy("user")
    return grouped.transformWithState(Forgetting(), "user string", "update", "ProcessingTime")


@contextmanager
def conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings for a while."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def run(
    events: Events,
    query: Callable[[Events], DataFrame],
    checkpoint: Path,
    settings: Mapping[str, str],
    mode: str = "update",
) -> Path:
    """Run a query over all events, and return its checkpoint."""
    with conf(events.spark, settings):
        writer = query(events).writeStream.format("noop").outputMode(mode)
        writer = writer.option("checkpointLocation", str(checkpoint))
        if query is not forgetting:
            writer.trigger(availableNow=True).start().awaitTermination()
            return checkpoint
        running = writer.trigger(processingTime="0 seconds").start()
        try:
            _await_commits(running, checkpoint, 3)
        finally:
            running.stop()
    return checkpoint


def _await_commits(running: Any, checkpoint: Path, batches: int) -> None:
    """Wait for some batches: by the clock, a query always has one more."""
    end = time.monotonic() + 90
    while not (checkpoint / "commits" / str(batches - 1)).exists():
        if not running.isActive or time.monotonic() > end:
            message = f"No {batches} batches: {running.exception()}"
            raise TimeoutError(message)
        time.sleep(0.1)
