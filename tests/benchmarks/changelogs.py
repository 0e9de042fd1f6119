"""What a changelog topic of Kafka Streams says at last: the newest count of each key and window."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT_A_TIME, _SECONDS = 50_000, 30.0


@dataclass(frozen=True, slots=True)
class LastCounts:
    """How many counters there are, what they come to, and how many records said so."""

    counters: int
    events: int
    records: int


def last_counts(bootstrap: str, topic: str) -> LastCounts:
    """Return what the newest records of a topic come to.

    A key is the user's and the window's start and number, a value a number of eight bytes. What
    counts is the newest record of each key, which is always in the same partition.
    """
    read = list(_read(bootstrap, topic))
    if not read:
        return LastCounts(0, 0, 0)
    table = pa.concat_tables(read)
    newest = table.group_by("key", use_threads=False).aggregate([("value", "last")])
    values = newest["value_last"].combine_chunks().cast(pa.binary(8))
    numbers = np.frombuffer(values.buffers()[1], ">i8", len(values), values.offset * 8)
    return LastCounts(len(newest), int(numbers.sum()), len(table))


def _read(bootstrap: str, topic: str) -> Iterator[pa.Table]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "-", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        partitions = consumer.list_topics(topic, _SECONDS).topics[topic].partitions
        places = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions]
        marks = [consumer.get_watermark_offsets(each, _SECONDS) for each in places]
        left = sum(end - begin for begin, end in marks)
        consumer.assign(places)
        while left:
            messages = consumer.consume(min(left, _AT_A_TIME), _SECONDS)
            if not messages or any(each.error() for each in messages):
                reason = "; ".join(str(each.error()) for each in messages if each.error())
                raise ConnectionError(reason or f"{left} records of {topic} did not come")
            left -= len(messages)
            columns = [[each.key() for each in messages], [each.value() for each in messages]]
            arrays = [pa.array(column, pa.binary()) for column in columns]
            yield pa.table(arrays, ["key", "value"])
