"""A topic as a store: counts of a run's, and what is told or missing."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

import kstoolkit as kst
from kstoolkit.changelog.topic import _blocks_of, _records_of
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.formats.countblock import BlockKey
from kstoolkit.pipeline.runfolder import RunFolder, Settings
from kstoolkit.rocksdb.faults import StoreClosedError
from tests.changelog.changelogs import HOUR, MINUTE, Rows, counters
from tests.cli.commands import answered, given, rows, started
from tests.kafka.clients import make_topic
from tests.operations.livestreams import Altered
from tests.operations.scraping import scrape_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker

pytestmark = pytest.mark.kafka

COUNTED: dict[int, Rows] = {
    MINUTE: {(n * MINUTE, user, "read"): n + 1 for n in range(30) for user in ("Anna", "Bo")},
    HOUR: {(0, "Anna", "read"): 465, (0, "Anna", "edit"): 3, (0, "Bo", "read"): 465},
}
OF_HOURS = ("--window-size", "1 hour")


def made(broker: Broker, name: str, partitions: int = 2) -> Altered:
    make_topic(broker, name, partitions)
    return Altered(broker, name)


def write_counts(topic: Altered, counted: dict[int, Rows]) -> None:
    """Write a record for each user and window."""
    for size_ms, told in counted.items():
        keys, values = _records_of(counters(told), size_ms=size_ms, changed_ms=5)
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            topic.put(key, value)
    topic.flush()


@pytest.fixture(scope="module")
def ours(broker: Broker) -> Altered:
    """A topic with the counts of a run, which no test changes."""
    topic = made(broker, "ours-counts")
    write_counts(topic, COUNTED)
    return topic


def test_counts_of_a_run_are_told_apart_from_records_of_kafka_streams(ours: Altered) -> None:
    with kst.open_topic(ours.address, window_size="1 hour", total=True) as topic:
        found = {row.key: row.value for row in topic.rows()}
        assert {row.window_end_ms for row in topic.rows()} == {HOUR}
    assert found == {"Anna": 468, "Bo": 465}
    with pytest.raises(StoreClosedError, match="ours-counts is closed"):
        topic.rows()


def test_blocks_of_counts_are_read_alike(broker: Broker) -> None:
    topic = made(broker, "ours-blocks")
    for number, count in enumerate((7, 9)):
        told: Rows = {(0, "Anna", "read"): count, (MINUTE, "Anna", "read"): 2}
        key = BlockKey(bucket=1, epoch=0, batch=number, part=0, size_ms=MINUTE)
        for each in _blocks_of(counters(told), key):
            topic.put(*each, partition=1)
    topic.flush()
    with kst.open_topic(topic.address, window_size="1 minute", action="read") as found:
        assert [row.value for row in found.rows()] == [9, 2]


def test_a_replica_equals_its_topic_until_a_record_changes(broker: Broker, tmp_path: Path) -> None:
    topic = made(broker, "ours-changing")
    write_counts(topic, COUNTED)
    replica = tmp_path / "replica"
    answer = given("restore", topic.address, replica, "--json")
    assert rows(answer.out)[0]["windows"] == ["1 minute", "1 hour"]
    for options in (OF_HOURS, (*OF_HOURS, "--total"), (*OF_HOURS, "--action", "edit")):
        answer = given("diff", topic.address, replica / str(HOUR), *options)
        assert (answer.code, answer.out) == (0, "")
        assert answer.err.startswith("0 added, 0 removed, 0 changed, ")
    write_counts(topic, {HOUR: {(0, "Bo", "read"): 466, (HOUR, "Cy", "read"): 1}})
    told = rows(given("diff", replica / str(HOUR), topic.address, *OF_HOURS, "--json").out)
    assert [(row["change"], row["key"], row["value_a"], row["value_b"]) for row in told] == [
        ("changed", "Bo", {"read": 465}, {"read": 466}),
        ("added", "Cy", None, {"read": 1}),
    ]
    assert given("restore", topic.address, replica).code == 0
    answer = given("diff", replica / str(HOUR), topic.address, *OF_HOURS)
    assert answer.err == "0 added, 0 removed, 0 changed, 3 equal.\n"


@pytest.mark.kill
def test_a_replica_follows_its_topic_through_an_outage_until_it_is_stopped(
    own_broker: Callable[[], Broker], tmp_path: Path
) -> None:
    broker = own_broker()
    topic = made(broker, "ours-followed")
    write_counts(topic, COUNTED)
    replica = tmp_path / "replica"
    asked = ("get", replica, "--user", "Cy", "--window", "1 hour", "--at", "1970-01-01T00:30Z")
    follow = ("--follow", "--every", "100 ms", "--metrics-port", 0)
    broker.kill()
    watching = started("lag", f"kafka://{broker.bootstrap}", "--group", "any", "--watch")
    process = started("restore", topic.address, replica, *follow)
    try:
        address = said_by(process, b"Metrics: ").removeprefix("Metrics: ").strip()
        said_by(process, b"No Kafka broker answers at ")
        said_by(watching, b"The lag can't be read (")
        watching.send_signal(signal.SIGINT)
        assert answered(watching).code == 130
        broker.start()
        said_by(process, b"Following. ")
        broker.kill()
        said_by(process, b"The changelog can't be read (")
        broker.start()
        write_counts(topic, {HOUR: {(0, "Cy", "read"): 1}})
        deadline = time.monotonic() + 120
        while '"counts": {"read": 1}' not in given(*asked, "--json").out:
            assert process.poll() is None, answered(process).err
            assert time.monotonic() < deadline
            time.sleep(0.1)
        name = "kstoolkit_replica_followed_records_total"
        told = scrape_until(address, lambda told: told.of(name))
        assert told.of("kstoolkit_replica_lag_records") == 0
        assert told.of("kstoolkit_replica_lag_seconds") == 0
        assert set(told.by("window", "kstoolkit_restore_records_total")) >= {"1 hour", "1 minute"}
    finally:
        process.send_signal(signal.SIGINT)
    answer = answered(process)
    assert answer.code == 0
    assert answer.out.startswith(f"The replica is in {replica}: ")


def said_by(process: subprocess.Popen[bytes], words: bytes) -> str:
    """Wait for a line on stderr that begins with some words, and return it."""
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith(words):
        assert process.poll() is None, answered(process).err
    return line.decode()


def test_a_count_store_of_kafka_streams_is_compared_with_a_topic_of_counts(
    broker: Broker, ours: Altered
) -> None:
    theirs = made(broker, "app-minutes-changelog", 1)
    for (start_ms, user, _), count in COUNTED[MINUTE].items():
        key = user.encode() + start_ms.to_bytes(8, "big") + bytes(4)
        theirs.put(key, count.to_bytes(8, "big"))
    theirs.flush()
    options = ("--window-size", "1 minute", "--total")
    answer = given("diff", theirs.address, ours.address, *options, "--kind", "window")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "0 added, 0 removed, 0 changed, 60 equal.\n"
    answer = given("diff", theirs.address, theirs.address, *options)
    assert answer.code == 2
    assert "holds counts of kstoolkit's" in answer.err


def test_rows_growth_and_export_take_a_topic(ours: Altered, tmp_path: Path) -> None:
    answer = given("rows", ours.address, *OF_HOURS, "--json", "--key", "Anna")
    [row] = rows(answer.out)
    assert row["value"] == {"edit": 3, "read": 465}
    answer = given("growth", ours.address, "--window-size", "1 minute", "--json")
    assert rows(answer.out)[0]["num_rows"] == 60
    answer = given("export", ours.address, *OF_HOURS, "--to", tmp_path / "counts.jsonl")
    assert answer.out.startswith("2 rows are in ")


def test_what_a_transaction_did_not_commit_is_left_out(broker: Broker) -> None:
    topic = made(broker, "app-aborted-changelog", 1)
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "aborts"}
    producer = Producer(settings)
    producer.init_transactions()
    for value, end in {b"1": producer.commit_transaction, b"2": producer.abort_transaction}.items():
        producer.begin_transaction()
        producer.produce(topic.name, key=b"Anna", value=value)
        producer.flush(90)
        end()
    with kst.open_topic(topic.address, value_serde="string") as found:
        assert [row.value for row in found.rows()] == ["1"]


def test_an_empty_topic_has_no_rows(broker: Broker) -> None:
    topic = made(broker, "app-empty-changelog")
    with kst.open_topic(topic.address) as found:
        assert found.rows().count() == 0
        assert repr(found) == f"FoldedRecords({topic.address!r})"
    with pytest.raises(ConfigurationError, match="holds no counts of kstoolkit's"):
        kst.open_topic(topic.address, total=True)


def test_the_records_of_counts_are_shown_as_they_are_if_a_kind_is_told(ours: Altered) -> None:
    with kst.open_topic(ours.address, kind="key-value") as found:
        assert found.rows().count() == 62


def test_a_run_whose_changelog_is_a_topic_is_a_side_and_a_source(
    ours: Altered, tmp_path: Path
) -> None:
    run, replica = tmp_path / "out", tmp_path / "replica"
    run.mkdir()
    told: dict[str, Any] = dict.fromkeys(("time", "feed", "rules", "source"), "")
    settings = Settings(windows=("1 minute",), buckets=4, columns={}, partitions=2, **told)
    RunFolder(run).save(replace(settings, changelog=ours.address))
    assert given("restore", run, replica).code == 0
    for one, other in ((run, replica / str(HOUR)), (ours.address, run), (run, run)):
        answer = given("diff", one, other, *OF_HOURS, "--total")
        assert (answer.code, answer.err) == (0, "0 added, 0 removed, 0 changed, 2 equal.\n")
    assert "windows of 1 minute, 1 hour" in given("diff", run, run).err


def test_settings_of_the_connection_come_from_a_file(
    ours: Altered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("no.such.setting=1\n")
    for command in (("rows", ours.address, *OF_HOURS), ("restore", ours.address, tmp_path / "r")):
        refused = given(*command, "--kafka-config", config)
        assert refused.code != 0
        assert "no.such.setting" in refused.err
    monkeypatch.setenv("KSTOOLKIT_KAFKA_CONFIG", str(config))
    assert "no.such.setting" in given("rows", ours.address, *OF_HOURS).err
    config.write_text("client.id=tests\n")
    assert given("rows", ours.address, *OF_HOURS).code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "has counts of windows of 1 minute, 1 hour"),
        ({"window_size": "1 day"}, "has no counts of windows of 1 day"),
        ({"window_size": "1 hour", "partition": 1}, "Partition 1 of .* holds a run's counts"),
        ({"partition": 2}, "has no partition 2"),
        ({"kind": "widow"}, "no kind of store 'widow'"),
        ({"bootstrap": "127.0.0.1:1"}, "needs its servers named once"),
    ],
)
def test_what_makes_no_sense_of_a_topic_is_said(
    ours: Altered, options: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        kst.open_topic(ours.address, **options)  # type: ignore[arg-type]


def test_a_topic_that_is_not_there_is_said(broker: Broker, ours: Altered) -> None:
    with pytest.raises(InputError, match="No topic 'ours-count'") as raised:
        kst.open_topic("ours-count", bootstrap=broker.bootstrap)
    assert raised.value.hint == f"Did you mean {ours.name!r}?"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--version", 3), "--version is of stores on disk"),
        (("--column-family", "x"), "--column-family is of stores on disk"),
        (("--partition", 1), "Partition 1 of"),
    ],
)
def test_options_of_other_stores_are_refused(
    ours: Altered, more: tuple[object, ...], told: str
) -> None:
    answer = given("rows", ours.address, *OF_HOURS, *more)
    assert answer.code == 2
    assert told in answer.err


def test_options_of_topics_are_refused_for_folders(tmp_path: Path) -> None:
    for command in ("rows", "growth"):
        answer = given(command, tmp_path, "--partition", 0)
        assert answer.code == 2
        assert "--partition 0 is of topics" in answer.err
    answer = given("diff", tmp_path, tmp_path, "--partition", 0)
    assert "--partition 0 is of topics, and neither side is one." in answer.err


def test_the_address_alone_is_no_store_to_compare() -> None:
    with pytest.raises(ConfigurationError, match="is a topic") as raised:
        kst.diff_stores("kafka://127.0.0.1:1/a", "kafka://127.0.0.1:1/b")
    assert raised.value.hint == "Give what kst.open_topic returns for it."
