"""What ``--json`` prints: the fields of every command that has it, and their types.

Each is asked of real things that are small: a run of the sample, a replica of that, the stores that
come along, logs, a broker. Not asked are ``supervise`` and ``run --follow``, which end with what
``run`` prints, and ``rows --details``, whose rows are of stores larger than these.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

import pytest

import kstoolkit as kst
from tests.face.asking import COLUMNS, answered, commands, rows
from tests.face.goldens import check
from tests.face.shapes import shape

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kstoolkit.kafka.broker import Broker

WINDOWED = "data/stores/kafka-streams/small-main-4_3_1/0_0/actions-1m"
KEPT = "data/stores/kafka-streams/small-main-4_3_1/0_0/rocksdb/user-count"
CHECKPOINT = "data/stores/spark/hours-by-user"
SNAPSHOTS = "data/stores/spark/count-by-user"
LOGS = "tests/rocksdb/logs"

OF_STORES = {
    "advice": [f"{KEPT} --bound-bytes 1000", WINDOWED + "/actions-1m.1699999200000"],
    "capacity": ["--rate 1M", "--rate 50M --engine kafka_streams --price 1"],
    "checkup": ["data/stores/kafka-streams --bound 512MiB --restore-rate 20MiB"],
    "compare-profiles": ["spark low_disk --writes 20000 --keys 5000 --pace 20000 --seconds 20"],
    "diff": [f"{CHECKPOINT} --versions 5 7", f"{WINDOWED} {KEPT}"],
    "doctor": [""],
    "growth": [WINDOWED, f"{WINDOWED} --retention '1 hour'", KEPT, f"{CHECKPOINT} --by user"],
    "inspect": [KEPT],
    "levels": [KEPT],
    "log": [f"{LOGS}/rocksdb-10.1.3.log", f"{LOGS}/rocksdb-7.9.2.log", f"{LOGS}/spark-4.3.log"],
    "memory": [KEPT, f"{KEPT} --profile bounded_memory --iterators 2"],
    "profile": ["bounded_memory"],
    "profile --to java": ["bounded_memory"],
    "profile --to rocksdict": ["bounded_memory"],
    "profile --to spark": ["bounded_memory"],
    "rows": [WINDOWED, KEPT, CHECKPOINT],
    "stores": ["data/stores"],
}
"""What each command is asked, of what comes along."""

OF_SEVERAL = {
    "advice": [f"{WINDOWED} --bound-bytes 1000 --profile kafka_streams"],
    "inspect": [WINDOWED, SNAPSHOTS],
    "levels": [WINDOWED, SNAPSHOTS],
    "log": [WINDOWED],
    "memory": [WINDOWED, f"{SNAPSHOTS} --profile bounded_memory --iterators 2"],
}
"""What is asked of stores that lie in several RocksDB."""

OF_A_RUN = {
    "counts": ["{out} --window '1 hour'"],
    "dead-letters": ["{out}"],
    "evaluate": ["{out} data/labels.json"],
    "find": ["{out}", "{out} --rules {rules}"],
    "findings": ["{out}"],
    "incidents": ["{out}"],
    "marks": ["{out}"],
    "story": ["{out} ivan.mori"],
    "restore": ["{out} {replica}"],
    "summary": ["{out}"],
    "what-if": ["{out} --rules {rules}"],
    "users": ["{out}"],
    "get": ["{replica} --user ivan.mori --window '1 hour' --at 2026-03-03T20:30Z"],
    "compact": ["{out}"],
}
"""What each command is asked, of a run and its replica."""

OF_A_BROKER = {
    "broker start": ["--dir {dir}"],
    "broker status": ["--dir {dir}", "--dir {nowhere}"],
    "assignment": ["kafka://{servers} --group {group}"],
    "lag": ["kafka://{servers} --group {group} --over '1 second'"],
    "reset": ["kafka://{servers} --group {group} --to 0=5"],
}
RULES = """
[[rule]]
kind = "Ceiling"
window = "1 minute"
count = 80

[[rule]]
kind = "Unusual"
window = "1 hour"
false_alarms_per_day = 5
"""


class Place(NamedTuple):
    """Where the sample was counted, and what the command printed."""

    out: Path
    rules: Path
    replica: Path
    printed: str


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    assert spark.version
    folder = tmp_path_factory.mktemp("sample")
    out, rules = folder / "out", folder / "rules.toml"
    rules.write_text(RULES)
    how = ("--out", out, "--rules", rules, "--max-files-per-batch", 4, "--json", "--quiet")
    answer = answered("run", "data/sample", *COLUMNS, *how)
    assert (answer.code, answer.err) == (0, "")
    assert answered("restore", out, folder / "replica", "--quiet").code == 0
    assert answered("mark", out, "ivan.mori", "muted", "--why", "tried").code == 0
    return Place(out, rules, folder / "replica", answer.out)


def check_fields(command: str, asked: list[str], of: str = "") -> None:
    """Compare the fields of all that a command prints with its golden."""
    printed = ""
    for arguments in asked:
        answer = answered(*command.split(), *shlex.split(arguments), "--json")
        assert answer.code == 0, answer.err
        printed += answer.out
    check(golden_of(command, of), shape(rows(printed)))


def golden_of(command: str, of: str = "") -> str:
    """Return the name of a command's golden."""
    return f"json/{'-'.join(command.replace('--', '').split())}{of}.txt"


@pytest.mark.parametrize("command", OF_STORES)
def test_the_fields_of_what_is_told_of_stores_are_as_they_were(command: str) -> None:
    check_fields(command, OF_STORES[command])


@pytest.mark.parametrize("command", OF_SEVERAL)
def test_the_fields_of_what_is_told_of_several_are_as_they_were(command: str) -> None:
    check_fields(command, OF_SEVERAL[command], of="-of-several")


@pytest.mark.spark
def test_the_fields_of_a_run_are_as_they_were(place: Place) -> None:
    check(golden_of("run"), shape(rows(place.printed)))


@pytest.mark.spark
@pytest.mark.parametrize("command", OF_A_RUN)
def test_the_fields_of_what_is_told_of_a_run_are_as_they_were(command: str, place: Place) -> None:
    check_fields(command, [each.format(**place._asdict()) for each in OF_A_RUN[command]])


class Topic(NamedTuple):
    """A broker with a topic, a group that has read a part of it, and what the command printed."""

    servers: str
    dir: Path
    nowhere: Path
    group: str
    printed: str


@pytest.fixture(scope="module")
def topic(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Topic:
    name, folder = "face", tmp_path_factory.mktemp("events")
    lines = [f'{{"time":"2026-03-01T00:00:{n:02}Z","user":"user {n}"}}\n' for n in range(20)]
    (folder / "events.json").write_text("".join(lines))
    to = f"kafka://{broker.bootstrap}/{name}"
    what = (folder / "events.json", "--event-time", "time", "--user", "user", "--partitions", 1)
    answer = answered("produce", *what, "--to", to, "--json")
    assert answer.code == 0, answer.err
    kst.reset(name, {0: 12}, topic=name, bootstrap=broker.bootstrap, dry_run=False)
    return Topic(broker.bootstrap, broker.folder, folder / "nowhere", name, answer.out)


@pytest.mark.kafka
def test_the_fields_of_what_was_produced_are_as_they_were(topic: Topic) -> None:
    check(golden_of("produce"), shape(rows(topic.printed)))


@pytest.mark.kafka
@pytest.mark.parametrize("command", OF_A_BROKER)
def test_the_fields_of_what_is_told_of_a_broker_are_as_they_were(
    command: str, topic: Topic
) -> None:
    check_fields(command, [each.format(**topic._asdict()) for each in OF_A_BROKER[command]])


@pytest.mark.kafka
def test_the_fields_of_a_broker_that_is_stopped_are_as_they_were(
    own_broker: Callable[[], Broker],
) -> None:
    check_fields("broker stop", [f"--dir {shlex.quote(str(own_broker().folder))}"])


def test_every_command_with_json_is_asked() -> None:
    have = {each for each in commands() if "\n  --json " in answered(*each.split(), "--help").out}
    asked = {each.partition(" --")[0] for each in [*OF_STORES, *OF_A_RUN, *OF_A_BROKER]}
    assert have - {"supervise"} == asked | {"broker stop", "produce", "run"}
