"""Spark's batch group-by of the three windows: no state, no stream; the second of two runs.

python -m tests.benchmarks.spark_batch EVENTS WORK
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from kstoolkit.pipeline.session import spark_session
from tests.benchmarks.contestant import CORES, WINDOWS, arguments, mark
from tests.benchmarks.events import events_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


PARTITIONS = {"spark.sql.shuffle.partitions": str(CORES)}


def main() -> None:
    asked = arguments()
    spark = spark_session(f"local[{CORES}]", log_path=asked.work / "spark.log", extra=PARTITIONS)
    mark("begun")
    for events in (0, events_in(asked.events)):  # the first time is the warm-up
        for label in WINDOWS:
            _counted(spark, asked.events, label).write.format("noop").mode("overwrite").save()
        mark("counted", events=events)
    sums = sf.count("*"), sf.sum("count")
    told = {label: _counted(spark, asked.events, label).agg(*sums).first() for label in WINDOWS}
    found = {label: tuple(row or (0, 0)) for label, row in told.items()}
    mark(
        "told",
        counters={label: counters for label, (counters, _) in found.items()},
        totals={label: total for label, (_, total) in found.items()},
    )
    spark.stop()


def _counted(spark: SparkSession, events: Path, label: str) -> DataFrame:
    window = sf.window("time", label)
    return spark.read.parquet(str(events)).groupBy(window, "user", "action").count()


if __name__ == "__main__":
    main()
