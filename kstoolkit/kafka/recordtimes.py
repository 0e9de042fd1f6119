"""The timestamps of single records."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kstoolkit.kafka.groups import Partition
from kstoolkit.kafka.librdkafka import ANSWER_SECONDS, clients, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import Consumer

    from kstoolkit.kafka.cluster import Cluster


_AT_ONCE: dict[str, Any] = {
    "fetch.wait.max.ms": 10,
    "fetch.error.backoff.ms": 10,
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 1,
    # A transaction that is still open hides no time.
    "isolation.level": "read_uncommitted",
}


def record_times(cluster: Cluster, *offsets: Mapping[Partition, int]) -> list[dict[Partition, int]]:
    """Return when records were made, epoch ms, by what they say themselves.

    Parameters
    ----------
    cluster
        Where.
    offsets
        Of each partition the offset of one record that is there; several mappings for several
        records of a partition. If compaction or a transaction took that one away, it is the next.

    Returns
    -------
    list of dict
        One for each mapping; without the partitions in which no record follows, or none that has a
        time.

    Raises
    ------
    KafkaError
        If the cluster refuses.
    """
    if not any(offsets):
        return [{} for _ in offsets]
    with closing(cluster.consumer(**_AT_ONCE)) as consumer:
        return [_times(consumer, each) for each in offsets]


def _times(consumer: Consumer, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    if not offsets:
        return found
    consumer.assign([clients().TopicPartition(*each, at) for each, at in offsets.items()])
    seen: set[Partition] = set()
    for place, moment_ms in _heard(consumer, len(offsets)):
        if place not in seen and moment_ms is not None and moment_ms >= 0:
            found[place] = moment_ms
        seen.add(place)
        if len(seen) == len(offsets):
            break
    return found


def _heard(consumer: Consumer, most: int) -> Iterator[tuple[Partition, int | None]]:
    """Yield the partition of what comes, and its time; no time where its end comes first."""
    ended = clients().KafkaError._PARTITION_EOF  # noqa: SLF001 - its name
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        for message in consumer.consume(max(most, 100), timeout=0.1):
            place = Partition(str(message.topic()), int(message.partition() or 0))
            error: Any = message.error()
            if error is not None and error.code() != ended:
                raise said(clients().KafkaException(error))
            yield place, message.timestamp()[1] if error is None else None
