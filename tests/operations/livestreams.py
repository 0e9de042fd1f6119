"""A real application of Kafka Streams on a real broker: its stores, and their changelog topics."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from kstoolkit.environment import find_java
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.jars import Artifact, fetch
from kstoolkit.kafka.reading import read_records
from tests.jdk import compiler
from tests.kafka.clients import make_topic
from tests.operations.scraping import Scrape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.kafka.broker import Broker

SOURCE = Path(__file__).parent / "java" / "LiveApplication.java"
KAFKA_STREAMS = Artifact("org.apache.kafka", "kafka-streams", "4.3.1")
STORES = ("counts", "answers", "answered", "minutes", "closed", "sessions", "versions")
JOINS = (
    "joined-this-join-store",
    "joined-outer-other-join-store",
    "joined-left-shared-join-store",
    "answered-subscription-store",
)
PARTITIONS = 2
_ROCKSDBS = 22
AGENT = Artifact("io.prometheus.jmx", "jmx_prometheus_javaagent", "1.0.1")


@dataclass(frozen=True)
class Live:
    """What an application left behind: its state directory, and topics on a broker."""

    broker: Broker
    application: str
    folder: Path

    def store(self, name: str, partition: int) -> Path:
        task = self.folder / self.application / f"0_{partition}"
        whole = task / "rocksdb" / name
        return whole if whole.is_dir() else task / name

    def topic(self, name: str) -> str:
        return f"kafka://{self.broker.bootstrap}/{self.application}-{name}-changelog"

    def copied(self, name: str, copy: str) -> Altered:
        """Copy a store's changelog topic, partition by partition."""
        make_topic(self.broker, copy, PARTITIONS)
        altered = Altered(self.broker, copy)
        cluster = Cluster(self.broker.bootstrap)
        topic = f"{self.application}-{name}-changelog"
        for partition, reach in cluster.reach(topic, list(range(PARTITIONS))).items():
            ends = ({partition: reach.first}, {partition: reach.end})
            for part in read_records(cluster, topic, *ends, 1_000):
                columns = (part.keys, part.values, part.timestamps_ms)
                for key, value, timestamp_ms in zip(*columns, strict=True):
                    altered.put(key, value, partition=partition, timestamp=timestamp_ms)
        altered.flush()
        return altered


class Altered:
    """A topic whose records a test makes up."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name, self.address = name, f"kafka://{broker.bootstrap}/{name}"
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})

    def put(self, key: bytes, value: bytes | None, **more: Any) -> None:
        self._producer.produce(self.name, key=key, value=value, **more)

    def flush(self) -> None:
        assert self._producer.flush(90) == 0


def compiled(folder: Path, source: Path = SOURCE) -> Path:
    """Return where the application's classes are."""
    lint = ["-Xlint:all,-classfile,-processing", "-Werror", "--release", "17", "-encoding", "UTF-8"]
    _run(compiler(), *lint, "-cp", _jars(), "-d", str(folder), str(source))
    return folder


def ran(broker: Broker, classes: Path, folder: Path, name: str, form: str) -> Live:
    """Write events of ten minutes, and return what the application makes of them."""
    return application(broker, classes, folder, name, form, number=_write(broker, name))


def application(
    broker: Broker,
    classes: Path,
    folder: Path,
    name: str,
    form: str,
    *,
    number: int,
    java_options: Sequence[str] = (),
) -> Live:
    """Return what the application makes of so many records of its topics."""
    java = [str(find_java().home / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1"]
    java += java_options
    classpath = ["-cp", f"{classes}{os.pathsep}{_jars()}", SOURCE.stem]
    _run(*java, *classpath, broker.bootstrap, str(folder), str(number), form, name)
    return Live(broker, name, folder)


def scraped(
    broker: Broker, folder: Path, name: str, *, java_options: Sequence[str] = ()
) -> tuple[Live, list[Path]]:
    """Return what an application leaves, and what Prometheus' agent told of it meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (agent,) = (each for each in fetch([AGENT]) if "javaagent" in each.name)
    (folder / "agent.yml").write_text("{}\n")
    options = [f"-javaagent:{agent}=127.0.0.1:{port}:{folder / 'agent.yml'}"]
    options += ["-Dlevel=DEBUG", "-Dlinger.ms=12000", *java_options]
    scrapes: list[Path] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(1):
            with suppress(OSError):
                text = Scrape(f"http://127.0.0.1:{port}/metrics").text
                if len(re.findall(r"metrics_num_live_versions\{.*task_id=", text)) >= _ROCKSDBS:
                    scrapes.append(folder / f"{len(scrapes)}.txt")
                    scrapes[-1].write_text(text)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    where = (broker, compiled(folder / "classes"), folder / "state", name, "DEFAULT")
    try:
        live = application(*where, number=_write(broker, name), java_options=options)
    finally:
        ended.set()
        looking.join(timeout=30)
    return live, scrapes


def _jars() -> str:
    return os.pathsep.join(map(str, fetch([KAFKA_STREAMS])))


def _write(broker: Broker, application: str) -> int:
    """Write events, whose keys two tasks share, and return how many."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    began_ms = round(time.time() * 1_000) - 600_000  # an older one would be deleted by its age
    for name in ("actions", "replies"):
        make_topic(broker, f"{application}-{name}", PARTITIONS)
    replies = 0
    for second in range(400):
        at: dict[str, Any] = {"timestamp": began_ms + 1_000 * second}
        headers = [("n", str(second).encode()), ("ň", None)] if second % 3 else None
        action: dict[str, Any] = {"key": f"user{second % 23}", "value": f"reply{second % 5}"}
        action["headers"] = headers
        producer.produce(f"{application}-actions", **action, **at)
        if second % 20 == 0:
            reply: dict[str, Any] = {"key": f"reply{second % 7}", "value": "yes"}
            producer.produce(f"{application}-replies", **reply, **at)
            replies += 1
    assert producer.flush(90) == 0
    return 400 + replies


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
