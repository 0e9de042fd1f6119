"""Sending files to a topic from the command line."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

from kstoolkit.kafka.cluster import Cluster
from tests.cli.commands import answered, given, harmless, rows, started
from tests.kafka.clients import make_topic, read_all

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker

COLUMNS = ("--event-time", "time", "--user", "user")
NOWHERE = "kafka://127.0.0.1:9/actions"


def line(number: int, **more: object) -> bytes:
    record = {
        "time": f"2026-03-01T00:{number // 60:02}:{number % 60:02}Z",
        "user": f"user {number}",
    }
    return json.dumps(record | more).encode()


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.json"
    path.write_bytes(b"\n".join([*map(line, range(100)), b"rubbish"]))
    return path


@pytest.mark.kafka
def test_files_go_to_a_topic_that_is_made(broker: Broker, events: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text("time,user\n2026-03-01,Zoë\n")
    to = f"kafka://{broker.bootstrap}/cli-made"
    answer = given("produce", events, more, "--to", to, *COLUMNS, "--partitions", 4, "--json")
    (told,) = rows(answer.out)
    found = read_all(broker, "cli-made")
    assert (answer.code, told["topic"], told["records"]) == (0, to, len(found))
    assert sorted(each.value() or b"" for each in found) == sorted(
        [*events.read_bytes().split(b"\n"), '{"time":"2026-03-01","user":"Zoë"}'.encode()]
    )
    assert told["bytes"] == sum(len(each.value() or b"") for each in found)
    assert set(told["partitions"]) == {"0", "1", "2", "3"}
    assert told["rate"] > 0
    assert told["failures"] == {}


@pytest.mark.kafka
def test_people_are_told_in_a_sentence_and_quiet_is_quiet(broker: Broker, events: Path) -> None:
    make_topic(broker, "cli-said")
    to = f"kafka://{broker.bootstrap}/cli-said"
    answer = given("produce", events, "--to", to, *COLUMNS, "--partitions", 2)
    assert f"101 records (5.0 KiB) to 1 partition of {to} in " in answer.out
    assert "has 1 partition, and keeps" in answer.err
    quiet = given("produce", events, "--to", to, *COLUMNS, "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


@pytest.mark.kafka
def test_what_kafka_refuses_is_counted_and_the_code_is_1(broker: Broker, events: Path) -> None:
    events.write_bytes(b"\n".join([line(1), line(2, comment="x" * 2_000_000)]))
    to = f"kafka://{broker.bootstrap}/cli-refused"
    answer = given("produce", events, "--to", to, *COLUMNS)
    assert answer.code == 1
    assert "1 record refused" in answer.out
    assert "Error: 1 of the records was refused: " in answer.err


@pytest.mark.kafka
def test_settings_come_from_a_file_and_have_the_last_word(broker: Broker, events: Path) -> None:
    config = events.with_name("client.properties")
    config.write_text("# ours\nmessage.max.bytes = 1000\nsecurity.protocol=PLAINTEXT\n")
    events.write_bytes(b"\n".join([line(1), line(2, comment="x" * 2_000)]))
    to = f"kafka://{broker.bootstrap}/cli-config"
    answer = given("produce", events, "--to", to, *COLUMNS, "--kafka-config", config, "--json")
    assert (answer.code, rows(answer.out)[0]["records"]) == (1, 1)


@pytest.mark.kafka
def test_ctrl_c_says_what_is_there_by_then(broker: Broker, events: Path) -> None:
    to = f"kafka://{broker.bootstrap}/cli-stopped"
    make_topic(broker, "cli-stopped")
    process = started("produce", events, "--to", to, *COLUMNS, "--speed", "2x")
    cluster, deadline = Cluster(broker.bootstrap), time.monotonic() + 60
    while cluster.reach("cli-stopped", [0])[0].end < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    answer = answered(process)
    there = len(read_all(broker, "cli-stopped"))
    assert 2 <= there < 101
    assert (answer.code, answer.out) == (130, "")
    assert f"{there} records are in {to} by now." in answer.err
    assert harmless(answer.err)


def test_a_broker_that_never_answers_is_a_fault(events: Path) -> None:
    config = events.with_name("client.properties")
    config.write_text("delivery.timeout.ms=300\nsasl.password=hush\n")
    answer = given("produce", events, "--to", NOWHERE, *COLUMNS, "--kafka-config", config)
    assert (answer.code, answer.out) == (1, "")
    assert "Error: No Kafka broker answers at '127.0.0.1:9'" in answer.err
    assert "hush" not in answer.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--to actions", "'actions' is no topic"),
        ("--to kafka://here", "is no address of a topic"),
        ("--speed fast", "'fast' is no factor"),
        ("--record-time then", "'event', 'now'"),
        ("--rate 0", "The rate is 0.0"),
        ("--partitions 0", "--partitions"),
        ("--user usr", "Did you mean 'user'?"),
        ("--user lower(user)", "plain names"),
        ("--format xml", "'json', 'csv', 'parquet'"),
        ("--kafka-config no.properties", "'no.properties' can't be read"),
        ("no/such/file.json", "No such file"),
    ],
)
def test_a_mistake_is_said_before_a_broker_is_asked(options: str, said: str, events: Path) -> None:
    answer = given("produce", events, "--to", NOWHERE, *COLUMNS, *options.split())
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert harmless(answer.err)
