"""Plain Spark Structured Streaming: the three windowed counts on the same RocksDB provider.

python -m tests.benchmarks.spark_streaming EVENTS WORK [--queries] [--trigger "10 seconds"]

One flow by default: each event enters three windows, one aggregation counts them all, and files
are read once. The usual way is three queries (``--queries``), each with its own reading, its own
state, and a watermark that lets closed windows go.
"""

from __future__ import annotations

import time
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from kstoolkit.pipeline.session import spark_session
from tests.benchmarks.contestant import CORES, WINDOWS, arguments, mark

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LATENESS = "10 minutes"
PARTITIONS = {"spark.sql.shuffle.partitions": str(CORES)}
"""Of state; with Spark's default of 200 it would look far worse than it is."""


def main() -> None:
    asked = arguments("queries")
    spark = spark_session(f"local[{CORES}]", log_path=asked.work / "spark.log", extra=PARTITIONS)
    mark("begun")
    flows = _three(spark, asked) if asked.queries else {"all": _one(spark, asked)}
    how: dict[str, Any] = {"processingTime": asked.trigger} if asked.trigger else {}
    queries = {
        name: frame.writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(asked.work / "checkpoint" / name))
        .trigger(**how or {"availableNow": True})
        .start()
        for name, frame in flows.items()
    }
    if asked.trigger:
        spark.streams.awaitAnyTermination()
    _watch(list(queries.values()), asked)
    if asked.queries:
        mark("told", counters={name: _counters(query) for name, query in queries.items()})
    else:
        counters, totals = _kept(spark, asked.work / "checkpoint" / "all")
        mark("told", counters=counters, totals=totals)
    spark.stop()


def _read(spark: SparkSession, asked: argparse.Namespace) -> DataFrame:
    stream = spark.readStream.schema("time timestamp, user string, action string")
    if not asked.trigger:
        stream = stream.option("maxFilesPerTrigger", asked.files_per_batch)
    return stream.parquet(str(asked.events))


def _three(spark: SparkSession, asked: argparse.Namespace) -> dict[str, DataFrame]:
    keys = ["user", "action"]
    return {
        label: _read(spark, asked)
        .withWatermark("time", LATENESS)
        .groupBy(sf.window("time", label), *keys)
        .count()
        for label in WINDOWS
    }


def _one(spark: SparkSession, asked: argparse.Namespace) -> DataFrame:
    # Spark takes one window() a query only, so the windows are reckoned here; state keeps them all.
    lengths = sf.array(*(sf.lit(size_ms) for size_ms in WINDOWS.values()))
    time_ms = sf.unix_millis("time")
    return (
        _read(spark, asked)
        .withColumn("length_ms", sf.explode(lengths))
        .withColumn("start_ms", time_ms - time_ms % sf.col("length_ms"))
        .groupBy("length_ms", "start_ms", "user", "action")
        .count()
    )


def _watch(queries: list[StreamingQuery], asked: argparse.Namespace) -> None:
    """Mark each batch that all queries are through with."""
    files = sorted(asked.events.glob("*.parquet"))  # in their order, which is Spark's too
    rows = list(accumulate(pq.read_metadata(path).num_rows for path in files))
    ends = [*rows[asked.files_per_batch - 1 :: asked.files_per_batch], rows[-1]]
    batches = 0
    while any(query.isActive for query in queries):
        time.sleep(0.05)
        batches = _look(queries, batches, ends)
    for query in queries:
        query.awaitTermination()
    _look(queries, batches, ends)


def _look(queries: list[StreamingQuery], batches: int, ends: list[int]) -> int:
    """Mark how many events there are up to the last batch, those before a restart among them."""
    through = min(len(_told(query)) for query in queries)
    if through > batches:
        mark("counted", events=ends[_told(queries[0])[through - 1]["batchId"]])
    return through


def _kept(spark: SparkSession, checkpoint: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many counters state holds, and what they come to, as Spark itself reads it."""
    state = spark.read.format("statestore").load(str(checkpoint))
    found = state.groupBy("key.length_ms").agg(sf.count("*"), sf.sum("value.count")).collect()
    by_length = {length_ms: (counters, total) for length_ms, counters, total in found}
    kept = {label: by_length[length_ms] for label, length_ms in WINDOWS.items()}
    return (
        {label: counters for label, (counters, _) in kept.items()},
        {label: total for label, (_, total) in kept.items()},
    )


def _told(query: StreamingQuery) -> list[dict[str, int]]:
    """Return the progress of batches with events; the last one may be there to expire state."""
    progresses = [dict(progress) for progress in query.recentProgress]
    return [progress for progress in progresses if progress["numInputRows"]]


def _counters(query: StreamingQuery) -> int:
    """Return how many rows state ever got: those there, and those that have expired."""
    operators = [dict(progress)["stateOperators"][0] for progress in query.recentProgress]
    removed = sum(operator["numRowsRemoved"] for operator in operators)
    return int(operators[-1]["numRowsTotal"] + removed)


if __name__ == "__main__":
    main()
