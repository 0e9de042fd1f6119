"""A batch's records, sent to the topic that is the run's changelog, through Spark's connector."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kstoolkit.kafka.connection import for_java
from kstoolkit.pipeline.connector import with_connector

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kstoolkit.kafka.changelogtopic import KafkaChangelog

__all__ = ["send"]


def send(spark: SparkSession, outbox: Path, topic: KafkaChangelog) -> None:
    """Send the records that tasks left in a folder, and take the folder away.

    Whoever is ended between the two sends them again: the last record of a key counts, and both are
    the same.
    """
    if any(outbox.glob("part-*")):
        records = with_connector(spark).read.parquet(str(outbox))
        options = {
            "kafka.bootstrap.servers": topic.address.bootstrap,
            "topic": topic.address.topic,
            "kafka.compression.type": "zstd",
            "kafka.linger.ms": "20",
            **{f"kafka.{name}": value for name, value in for_java(topic.options).items()},
        }
        records.write.format("kafka").options(**options).save()
    shutil.rmtree(outbox)
