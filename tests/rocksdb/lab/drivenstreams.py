"""A real application of Kafka Streams whose stores are written as a test has it, and rest then."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from kstoolkit.environment import find_java
from kstoolkit.kafka.jars import fetch
from tests.kafka.clients import make_topic
from tests.operations.livestreams import KAFKA_STREAMS, compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kstoolkit.kafka.broker import Broker

SOURCE = Path(__file__).parent / "java" / "DrivenApplication.java"

Row = tuple[bytes, bytes, int]
"""A key, a value (an empty one deletes its key from the plain store), and the record's time."""


@dataclass(frozen=True)
class Stores:
    """The state of an application that has ended: one task's, as the topic has one partition."""

    state: Path

    def whole(self, name: str) -> Path:
        return self.state / "0_0" / "rocksdb" / name

    def segments(self, name: str) -> list[Path]:
        """Return the folders of a store's segments, the oldest first."""
        found = (self.state / "0_0" / name).iterdir()
        return sorted(found, key=lambda each: int(each.name.rpartition(".")[2]))


def driven(
    broker: Broker, folder: Path, rows: Iterable[Row], stores: Sequence[str], **properties: int
) -> Stores:
    """Return what an application leaves that has put these rows into stores, and was closed."""
    name = f"driven-{os.getpid()}-{time.time_ns()}"
    make_topic(broker, name, 1)
    settings = {"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 1_000_000}
    producer, number = Producer(settings), 0
    for number, (key, value, at_ms) in enumerate(rows, 1):
        producer.produce(name, key=key, value=value, timestamp=at_ms)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(90) == 0
    jars = os.pathsep.join(map(str, fetch([KAFKA_STREAMS])))
    classes = compiled(folder / "classes", SOURCE)
    java = [str(find_java().home / "bin" / "java"), "-Xmx256m"]
    java += [f"-D{name.replace('_', '.')}={value}" for name, value in properties.items()]
    java += ["-cp", f"{classes}{os.pathsep}{jars}", SOURCE.stem]
    told = [broker.bootstrap, str(folder / "state"), name, str(number), ",".join(stores)]
    done = subprocess.run([*java, *told], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Stores(folder / "state" / name)
