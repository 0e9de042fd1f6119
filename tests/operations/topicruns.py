"""What the tests of lag and reset share: events in a topic, a run that counted them, its copies."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

import kstoolkit as kst
from tests.kafka.clients import make_topic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker

BEGIN_MS = 1_740_787_200_000  # 1 March 2025, 00:00 UTC
MINUTE, HOUR = 60_000, 3_600_000
PARTITIONS = 2

Event = tuple[int, str, str]
Counts = dict[tuple[int, str, str], int]


def events(begin_ms: int, number: int) -> list[Event]:
    """Return events ten seconds apart, of users that all come again in each hour."""
    return [
        (begin_ms + each * 10_000, f"user {each % 7}", ("read", "write")[each % 3 > 1])
        for each in range(number)
    ]


def send(broker: Broker, topic: str, sent: Iterable[Event]) -> None:
    """Write events in order, in turn to each partition, at the time that they tell."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for number, (time_ms, user, action) in enumerate(sent):
        value = json.dumps({"time": time_ms, "user": user, "action": action}).encode()
        producer.produce(topic, value, timestamp=time_ms, partition=number % PARTITIONS)
    assert producer.flush(90) == 0


def counts(sent: Iterable[Event], size_ms: int) -> Counts:
    """Count events by window, user and action, without anything of ours."""
    return dict(Counter((at - at % size_ms, user, action) for at, user, action in sent))


@dataclass(frozen=True)
class TopicRun:
    """A run's folder, and the topic that it has read to the end."""

    broker: Broker
    topic: str
    out: Path

    @property
    def source(self) -> Any:
        return kst.kafka_topic(
            self.topic,
            bootstrap=self.broker.bootstrap,
            event_time="time",
            user="user",
            action="action",
            max_records_per_batch=400,
        )

    def go_on(self, **options: Any) -> kst.Run:
        """Run to the end of the topic."""
        # Without a rule, each of its batches is one of events.
        counted: dict[str, Any] = {"cascade": kst.Cascade("1 minute", "1 hour"), "rules": []}
        pipeline = kst.Pipeline(source=self.source, **counted | options)
        return pipeline.run(self.out, progress=False)

    def copied(self, out: Path) -> TopicRun:
        """Return the same in another folder, which a test may change."""
        shutil.copytree(self.out, out)
        return TopicRun(self.broker, self.topic, out)


def run_on_topic(broker: Broker, topic: str, sent: Iterable[Event], out: Path) -> TopicRun:
    """Make a topic of events, and count them."""
    make_topic(broker, topic, PARTITIONS)
    send(broker, topic, sent)
    made = TopicRun(broker, topic, out)
    made.go_on()
    return made
