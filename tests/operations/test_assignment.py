"""Who reads what for a group: as Kafka's own tools tell, and as state directories show."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

import kstoolkit as kst
from kstoolkit.environment import find_java
from kstoolkit.kafka.jars import Artifact, fetch
from tests.kafka.clients import make_topic
from tests.operations.livestreams import KAFKA_STREAMS, compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kstoolkit.kafka.broker import Broker
    from kstoolkit.operations.assignment import Assignment, Instance

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent / "java" / "SharedApplication.java"
TOOLS = Artifact("org.apache.kafka", "kafka-tools", "4.3.1")
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
MEMBER = """
import sys
from confluent_kafka import Consumer

bootstrap, topic, group, protocol = sys.argv[1:]
told = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
told |= {"client.id": "reader", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200}
consumer = Consumer(told)
consumer.subscribe([topic])
while True:
    consumer.poll(1)
"""


def java(artifacts: list[Artifact], *more: str) -> list[str]:
    at = os.pathsep.join([*map(str, fetch(artifacts)), *more])
    return [
        str(find_java().home / "bin" / "java"),
        "-Xmx200m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        at,
    ]


def told_by(tool: str, broker: Broker, group: str, *more: str) -> list[list[str]]:
    """Return the words of the lines that a tool of Kafka's own prints of a group."""
    asked = ["--bootstrap-server", broker.bootstrap, "--describe", "--group", group, *more]
    done = subprocess.run(
        [*java([TOOLS]), tool, *asked], capture_output=True, text=True, timeout=100, check=True
    )
    return [words for line in done.stdout.splitlines() if (words := line.split())[:1] == [group]]


@contextmanager
def running(commands: list[list[str]]) -> Iterator[None]:
    """Run processes until the end, and then kill them."""
    started = [subprocess.Popen(each, stdout=subprocess.DEVNULL) for each in commands]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def until(
    done: Callable[[Assignment], bool], broker: Broker, group: str, **more: object
) -> Assignment:
    """Look until something is so, which takes members their time."""
    deadline = time.monotonic() + 100
    while True:
        try:
            found = kst.assignment(group, bootstrap=broker.bootstrap, **more)  # type: ignore[arg-type]
        except kst.errors.InputError:  # the group is not there yet
            found = None
        if found is not None and done(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(1)


def fill(broker: Broker, topic: str, partitions: int, number: int) -> None:
    make_topic(broker, topic, partitions)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in range(number):
        producer.produce(
            topic, key=str(each), value=os.urandom(100).hex(), partition=each % partitions
        )
        producer.poll(0)
    assert producer.flush(90) == 0


def all_read(found: Assignment) -> bool:
    """Whether both read something, and nobody has to give anything away."""
    rows = found.instances or ()
    return len(rows) == 2 and found.unread == () and all(each.partitions for each in rows)


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_members_partitions_and_lag_are_those_of_kafkas_own_tool(
    broker: Broker, name: str, protocol: str
) -> None:
    fill(broker, name, 5, 500)
    script = [sys.executable, "-c", MEMBER, broker.bootstrap, name, name, protocol]
    with running([script, script]):
        until(lambda it: it.lag_records == 0 and all_read(it), broker, name)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in range(
        15
    ):  # which nobody reads; who was killed is a member for some 40 seconds more
        producer.produce(
            name, value="late", partition=(0, 1, 1, 2, 2, 2, 3, 3, 3, 3, *[4] * 5)[each]
        )
    assert producer.flush(90) == 0
    found = kst.assignment(name, bootstrap=broker.bootstrap)
    told = told_by(CONSUMER_GROUPS, broker, name)
    # GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID
    theirs = {(f"{row[1]}-{row[2]}", row[6], row[7].strip("/"), row[8]) for row in told}
    instances = found.instances or ()
    ours = {
        (place, each.members[0], each.host, each.instance)
        for each in instances
        for place in each.partitions
    }
    assert ours == theirs
    assert len(ours) == 5
    for one in instances:
        lags = [int(row[5]) for row in told if row[6] == one.members[0]]
        assert one.lag_records == sum(lags) > 0
        assert one.tasks is None
        assert one.store_bytes is None
    assert found.lag_records == 15
    assert sorted(len(each.partitions) for each in instances) == [2, 3]
    assert found.remarks == ()  # five can't be spread better


def application(
    broker: Broker, classes: Path, folder: Path, name: str, threads: tuple[int, int], *settings: str
) -> list[list[str]]:
    """Return the commands of two instances, whose topics are filled."""
    fill(broker, f"{name}-big", 2, 24_000)
    fill(broker, f"{name}-small", 2, 200)
    run = [*java([KAFKA_STREAMS], str(classes)), SOURCE.stem, broker.bootstrap]
    return [
        [*run, str(folder / str(each)), name, f"num.stream.threads={each}", *settings]
        for each in threads
    ]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("classes"), SOURCE)


def task_folders(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir() if each.is_dir()}


def by_threads(found: Assignment) -> list[Instance]:
    return sorted(found.instances or (), key=lambda each: len(each.members))


def test_who_has_too_much_of_an_application_is_told_with_what_its_death_costs(
    broker: Broker, classes: Path, tmp_path: Path, name: str
) -> None:
    commands = application(broker, classes, tmp_path, name, (1, 3))
    given = {"state_dirs": [tmp_path], "restore_bytes_per_second": 1 << 20}
    with running(commands):
        found = until(lambda it: it.lag_records == 0 and all_read(it), broker, name)
        told = told_by(CONSUMER_GROUPS, broker, name)
        time.sleep(3)
        found = kst.assignment(name, bootstrap=broker.bootstrap, **given)  # type: ignore[arg-type]
    few, many = by_threads(found)
    theirs = {(f"{row[1]}-{row[2]}", row[6]) for row in told}
    assert len(theirs) == 4
    for each in (few, many):
        assert set(each.partitions) == {place for place, member in theirs if member in each.members}
    for each, threads in ((few, 1), (many, 3)):
        home = tmp_path / str(threads) / name
        assert len(each.members) == threads
        tasks = set(each.tasks or ())
        assert tasks <= task_folders(home)  # one that was its for a moment leaves its folder
        files = [
            file for task in tasks for file in home.glob(f"{task}/rocksdb/**/*") if file.is_file()
        ]
        assert each.store_bytes == sum(file.stat().st_size for file in files)
        assert each.restore_seconds == pytest.approx((each.store_bytes or 0) / (1 << 20))
    assert {*(few.tasks or ()), *(many.tasks or ())} == {"0_0", "0_1", "1_0", "1_1"}
    assert any(f"{many.instance} reads 3 of 4 partitions" in each for each in found.remarks)
    whole = [store for store in ("big", "small") if f"{store}'" in " ".join(found.remarks)]
    assert len(whole) == 1  # three of four tasks: all of one store, half of the other


def all_kept(instance: Instance) -> bool:
    """Whether it has each task, or keeps it ready, and the standbys have begun."""
    tasks = {*(instance.tasks or ()), *(instance.standbys or ())}
    return tasks == {"0_0", "0_1", "1_0", "1_1"} and instance.store_bytes is not None


def test_a_task_with_a_standby_elsewhere_costs_no_restore(
    broker: Broker, classes: Path, tmp_path: Path, name: str
) -> None:
    commands = application(broker, classes, tmp_path, name, (1, 2), "num.standby.replicas=1")
    with running(commands):
        found = until(
            lambda it: all_read(it) and all(all_kept(each) for each in it.instances or ()),
            broker,
            name,
            state_dirs=[tmp_path],
            restore_bytes_per_second=1 << 20,
        )
    for each in by_threads(found):
        assert not set(each.tasks or ()) & set(each.standbys or ())
        assert each.store_bytes
        assert each.restore_seconds == 0


def test_the_members_of_a_streams_group_are_unknown_and_never_dead(
    broker: Broker, classes: Path, tmp_path: Path, name: str
) -> None:
    commands = application(broker, classes, tmp_path, name, (1, 3), "group.protocol=streams")
    with running(commands):
        found = until(lambda it: it.lag_records == 0, broker, name, state_dirs=[tmp_path])
        members = told_by(STREAMS_GROUPS, broker, name, "--members")
        lag = kst.lag(name, bootstrap=broker.bootstrap, over=0)
        told = told_by(STREAMS_GROUPS, broker, name, "--offsets")
    assert len({row[1] for row in members}) == 4  # they are there
    lags = {(row[1], int(row[2])): int(row[3]) for row in told}
    assert {(each.topic, each.partition): each.lag_records for each in lag} == lags
    assert len(lags) == 4
    assert found.instances is None
    assert "unknown (of a streams group" in found.state
    assert found.unknown["instances"] in lag.state
    for text in (str(found.sentences()), lag.sentence()):
        assert "dead" not in text
        assert "empty" not in text
        assert "0 members" not in text
    assert sum(each.size_bytes for each in found.folders) > 0
    for folder in found.folders:
        assert set(folder.tasks) <= task_folders(Path(folder.path))
