"""What tests of runs on topics share: events in a topic, the same counts by plain addition."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, TopicPartition

import kstoolkit as kst
from tests.kafka.clients import make_topic
from tests.pipeline.harness import events

if TYPE_CHECKING:
    from kstoolkit.events.topics import Topic
    from kstoolkit.kafka.broker import Broker
    from kstoolkit.pipeline.run import Run
    from tests.pipeline.harness import Counted, Rows

_SECONDS = 30
HOUR_MS = 3_600_000


class EventTopic:
    """A topic of events on a real broker, and what was written to it."""

    def __init__(self, broker: Broker, name: str, partitions: int = 2) -> None:
        self.broker, self.name = broker, name
        self.rows: Rows = []
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": broker.bootstrap,
            "log_level": 0,
        }
        self._admin = AdminClient(settings)  # held: answers come by its thread
        self.make(partitions)

    def make(self, partitions: int = 2) -> None:
        make_topic(self.broker, self.name, partitions)

    def widen(self, partitions: int) -> None:
        self._done(self._admin.create_partitions([NewPartitions(self.name, partitions)]))

    def delete(self) -> None:
        self._done(self._admin.delete_topics([self.name]))

    def exists(self) -> bool:
        return self.name in self._admin.list_topics(timeout=_SECONDS).topics

    def forget(self, before: dict[int, int]) -> None:
        """Have the broker drop the records before some offsets, as retention does."""
        places = [TopicPartition(self.name, each, at) for each, at in before.items()]
        self._done(self._admin.delete_records(places))

    def write(self, number: int, *, seed: int = 1, partition: int | None = None) -> None:
        """Write events, and wait until each is acknowledged."""
        rows = events(number, seed=seed)
        values = [json.dumps(row, ensure_ascii=False) for row in rows]
        self.write_values(values, partition=partition)
        self.rows += rows

    def write_values(self, values: list[str], *, partition: int | None = None) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        chosen: dict[str, Any] = {} if partition is None else {"partition": partition}
        for value in values:
            producer.produce(self.name, value.encode(), **chosen)
        assert producer.flush(_SECONDS) == 0

    def source(self, **options: Any) -> Topic:
        columns = {"event_time": "time", "user": "user", "action": "action"}
        return kst.kafka_topic(self.name, bootstrap=self.broker.bootstrap, **{**columns, **options})

    def counted(self, length_ms: int = HOUR_MS) -> Counted:
        """Count what was written, by adding one for each."""
        return Counter(
            (_moment_ms(row["time"]) // length_ms * length_ms, row["user"], row["action"])
            for row in self.rows
        )

    def _done(self, asked: dict[Any, Any]) -> None:
        for answer in asked.values():
            answer.result(_SECONDS)


def _moment_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def events_of(run: Run) -> int:
    """Return how many events a run has counted by now."""
    return run.summary().events
