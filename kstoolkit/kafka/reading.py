"""Records of a topic between two offsets, many at a time; and when single ones were written."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import InputError, KafkaError
from kstoolkit.kafka.cluster import ANSWER_SECONDS, Partition, clients, said

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from confluent_kafka import Consumer, Message

    from kstoolkit.kafka.cluster import Cluster

_MESSAGES = 10_000  # asked for at once


@dataclass(slots=True)
class TopicRecords:
    """Some records, in the order in which each partition has them.

    A value that is None is a tombstone, headers that are None are none. ``reached`` is, of each
    partition, the offset after the last record that is among these, or before.
    """

    topic: str
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    headers: list[list[tuple[str, bytes | None]] | None] = field(default_factory=list)
    reached: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)


def read_records(
    cluster: Cluster, topic: str, begin: Mapping[int, int], end: Mapping[int, int], most: int
) -> Generator[TopicRecords]:
    """Yield the records of a topic, by partition, from the first offset that counts up to ``end``.

    ``most`` is how many at once, or a few thousand more. A KafkaError says that nothing comes any
    more, an InputError that records in between are gone by now.
    """
    lib = clients()
    left = {each: at for each, at in end.items() if begin[each] < at}
    if not left:
        return
    # Without an error it would go on at the end, and pass over what is there still.
    told = {"isolation.level": "read_committed", "auto.offset.reset": "error"}
    with closing(cluster.consumer(**told)) as consumer:
        consumer.assign([lib.TopicPartition(topic, each, begin[each]) for each in left])
        while left:
            records = TopicRecords(topic)
            while left and len(records) < most:
                _take(_came(consumer, topic), records, left)
            yield records


def last_values(cluster: Cluster, topic: str, most: int) -> list[bytes]:
    """Return the values of a topic's last records, at most so many of each partition."""
    reach = cluster.reach(topic, cluster.partitions(topic))
    begin = {each: max(at.first, at.end - most) for each, at in reach.items()}
    end = {each: at.end for each, at in reach.items()}
    found = read_records(cluster, topic, begin, end, _MESSAGES)
    return [value for some in found for value in some.values if value is not None]


def lost(topic: str, which: str = "") -> InputError:
    """Return that a topic lost records before they were read, as an error of ours."""
    message = f"The topic {topic!r} has lost records that were not read yet{which}."
    hint = "Its brokers delete them early: look at retention.ms, and read from its beginning."
    return InputError(message, hint=hint)


def _came(consumer: Consumer, topic: str) -> list[Message]:
    """Return what comes next: something, or an error."""
    deadline = time.monotonic() + 3 * ANSWER_SECONDS
    while time.monotonic() < deadline:
        messages = consumer.consume(_MESSAGES, timeout=0.2)
        if messages:
            return messages
    message = f"No record of the topic {topic!r} came for {3 * ANSWER_SECONDS:g} seconds."
    raise KafkaError(message, hint="Is the broker up?")


def _take(messages: list[Message], records: TopicRecords, left: dict[int, int]) -> None:
    codes = clients().KafkaError
    ended, gone = codes._PARTITION_EOF, codes._AUTO_OFFSET_RESET  # noqa: SLF001 - their names
    for message in messages:
        partition, offset = message.partition() or 0, message.offset() or 0
        error: Any = message.error()
        if error is not None and error.code() == gone:
            raise lost(records.topic)
        if error is not None and error.code() != ended:
            raise said(clients().KafkaException(error))
        if partition not in left or (error is None and offset >= left[partition]):
            left.pop(partition, None)
            continue
        if error is None:
            records.keys.append(message.key() or b"")
            records.values.append(message.value())
            records.timestamps_ms.append(message.timestamp()[1])
            records.headers.append(message.headers())  # type: ignore[arg-type] # pairs, in a list
            offset += 1
        records.reached[partition] = offset
        if offset >= left[partition]:
            del left[partition]


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

    Given are mappings: of each partition the offset of one record that is there. If compaction or a
    transaction took that one away, it is the next. What comes has no partition in which no record
    follows, or none that has a time.
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
