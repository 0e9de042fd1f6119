"""Plain Spark Structured Streaming: the three windowed counts on the same RocksDB provider.

python -m tests.benchmarks.spark_streaming EVENTS WORK [--queries]

One flow by default: each event enters three windows, one aggregation counts them all, and files
are read once. That costs less than the usual three queries (``--queries``), each with its own
reading and its own state.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstoolkit.pipeline.session import spark_session
from tests.benchmarks.marks import WINDOWS, mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

FILES_PER_BATCH = 2
LATENESS = "10 minutes"
STATES = "2"
"""As many as there are cores; Spark's default of 200 would cost it dear."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("events", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--queries", action="store_true", help="three queries, not one flow")
    asked = parser.parse_args()
    spark = spark_session(
        "local[2]",
        log_path=asked.work / "spark.log",
        extra={"spark.sql.shuffle.partitions": STATES},
    )
    mark("begun")
    flows = _three(spark, asked.events) if asked.queries else {"all": _one(spark, asked.events)}
    queries = {
        name: frame.writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(asked.work / "checkpoint" / name))
        .trigger(availableNow=True)
        .start()
        for name, frame in flows.items()
    }
    _watch(list(queries.values()))
    mark("told", counters={name: _counters(query) for name, query in queries.items()})
    spark.stop()


def _read(spark: SparkSession, events: Path) -> DataFrame:
    stream = spark.readStream.schema("time timestamp, user string, action string")
    stream = stream.option("maxFilesPerTrigger", FILES_PER_BATCH)
    return stream.parquet(str(events)).withWatermark("time", LATENESS)


def _three(spark: SparkSession, events: Path) -> dict[str, DataFrame]:
    keys = ["user", "action"]
    return {
        label: _read(spark, events).groupBy(sf.window("time", label), *keys).count()
        for label in WINDOWS
    }


def _one(spark: SparkSession, events: Path) -> DataFrame:
    windows = [sf.window("time", label) for label in WINDOWS]
    return (
        _read(spark, events)
        .withColumn("window", sf.explode(sf.array(*windows)))
        .groupBy("window", "user", "action")
        .count()
    )


def _watch(queries: list[StreamingQuery]) -> None:
    """Mark each batch that all queries are through with."""
    batches = 0
    while any(query.isActive for query in queries):
        time.sleep(0.05)
        batches = _look(queries, batches)
    for query in queries:
        query.awaitTermination()
    _look(queries, batches)


def _look(queries: list[StreamingQuery], batches: int) -> int:
    through = min(len(_told(query)) for query in queries)
    if through > batches:
        rows = sum(progress["numInputRows"] for progress in _told(queries[0])[:through])
        mark("counted", events=rows)
    return through


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
