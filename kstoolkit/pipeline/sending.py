"""What a batch came to, sent to topics through Spark's connector: counts, and findings.

Whoever is ended on the way sends the same again: of each key the last record counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from kstoolkit.errors import KafkaError
from kstoolkit.kafka.connection import for_java
from kstoolkit.pipeline.connector import with_connector
from kstoolkit.pipeline.failure import cause_in_words, is_kafkas

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings, OutputTopic


_GIVING_UP = {
    "max.block.ms": "15000",
    "request.timeout.ms": "10000",
    "delivery.timeout.ms": "20000",
}
"""After how long Java's producer gives up on a broker that is silent, so that whoever supervises
the query notices, says so and goes on when it is back. By default it is one minute or two."""

_NOT_SENT = {"first_seen_window", "other_levels"}
"""Columns of findings that are filled in later, over all batches."""


def send_counts(spark: SparkSession, outbox: Path, topic: KafkaChangelog) -> None:
    """Send the records that tasks left in a folder, and take them away."""
    waiting = sorted(outbox.glob("part-*"))
    if waiting:
        _send(with_connector(spark).read.parquet(*map(str, waiting)), topic)
    for path in waiting:
        path.unlink()


def send_findings(spark: SparkSession, folder: Path, topic: KafkaFindings) -> None:
    """Send a batch's findings as JSON: see :mod:`kstoolkit.kafka.outputs`."""
    found = with_connector(spark).read.parquet(*map(str, folder.glob("part-*.parquet")))
    end_ms = (sf.col("window_start_ms") + sf.col("window_ms")).alias("window_end_ms")
    fields = [sf.col(name) for name in found.columns if name not in _NOT_SENT]
    at = found.columns.index("window_start_ms") + 1
    told = sf.to_json(sf.struct(*fields[:at], end_ms, *fields[at:]), {"ignoreNullFields": "false"})
    _send(found.select(sf.col("user").alias("key"), told.alias("value")), topic)


class NotSent(KafkaError):  # noqa: N818 - says what happened, as RunFailed does
    """Records that a topic's brokers did not take.

    Parameters
    ----------
    topic
        Which topic.
    why
        What was said.
    """

    def __init__(self, topic: OutputTopic, why: str) -> None:
        self.patience_ms = topic.patience_ms
        super().__init__(f"The topic {topic.address.topic!r} can't be written: {why}.")


def _send(records: DataFrame, topic: OutputTopic) -> None:
    given = for_java(topic.options)
    giving_up = {} if _GIVING_UP.keys() & given.keys() else _GIVING_UP  # they hang together
    options = {
        "kafka.bootstrap.servers": topic.address.bootstrap,
        "topic": topic.address.topic,
        "kafka.compression.type": "zstd",
        "kafka.linger.ms": "20",
        **{f"kafka.{name}": value for name, value in (giving_up | given).items()},
    }
    try:
        records.write.format("kafka").options(**options).save()
    except (PySparkException, Py4JJavaError) as error:
        if is_kafkas(error):
            raise NotSent(topic, cause_in_words(error)) from error
        raise
