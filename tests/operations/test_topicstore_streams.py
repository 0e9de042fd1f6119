"""Stores of a real application of Kafka Streams against their changelog topics."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.operations.topicstore import begins_ms
from tests.cli.commands import given, rows
from tests.operations.livestreams import JOINS, PARTITIONS, STORES, Live, compiled, ran

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker
    from kstoolkit.stores.rows.readable import HasRows
    from kstoolkit.stores.rows.rows import StoreRow

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECOGNISED = {
    "counts": "key-value",
    "minutes": "window",
    "sessions": "session",
    "joined-left-shared-join-store": "list-value",
    "answered-subscription-store": "foreign-key-subscription",
}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("live") / "classes")


@pytest.fixture(scope="module", params=["DEFAULT", "HEADERS"])
def live(
    broker: Broker,
    classes: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Live:
    form = request.param
    return ran(broker, classes, tmp_path_factory.mktemp("state"), f"live-{form.lower()}", form)


def kind(name: str) -> str | None:
    """Say what the bytes alone leave open: a versioned store may be a plain one."""
    return "versioned" if name == "versions" else None


def in_order(store: HasRows) -> list[StoreRow]:
    return sorted(store.rows(), key=lambda row: (row.key_bytes, row.window_start_ms or 0))


@pytest.mark.parametrize("name", [*STORES, *JOINS])
def test_a_store_equals_its_partition_of_the_changelog_topic(live: Live, name: str) -> None:
    equal = 0
    for partition in range(PARTITIONS):
        with (
            kst.open_store(live.store(name, partition), kind=kind(name)) as store,
            kst.open_topic(live.topic(name), beside=store) as topic,
        ):
            # What expired in the store is in the topic still.
            since = begins_ms(store) if name == "closed" else None
            with kst.diff_stores(store.rows(since=since), topic.rows(since=since)) as diff:
                assert (diff.added, diff.removed, diff.changed) == (0, 0, 0), list(diff.rows())
                equal += diff.equal
    assert equal > 5


@pytest.mark.parametrize("name", ["counts", "minutes", "joined-this-join-store"])
def test_times_and_headers_are_those_of_the_store_if_it_keeps_any(live: Live, name: str) -> None:
    with (
        kst.open_store(live.store(name, 0)) as store,
        kst.open_topic(live.topic(name), beside=store) as topic,
    ):
        theirs, ours = in_order(store), in_order(topic)
    assert [row.key for row in theirs] == [row.key for row in ours]
    for row, record in zip(theirs, ours, strict=True):
        assert row.timestamp_ms in {None, record.timestamp_ms}
        assert row.headers in {None, record.headers}
    assert all(record.timestamp_ms for record in ours)
    if name == "joined-this-join-store":
        assert any(("ň", None) in (record.headers or ()) for record in ours)


@pytest.mark.parametrize("name", RECOGNISED)
def test_a_topic_alone_tells_what_kind_of_store_it_is_of(live: Live, name: str) -> None:
    with kst.open_topic(live.topic(name)) as topic:
        assert topic.kind == RECOGNISED[name]
        assert topic.rows().count() > 20


def test_exactly_what_was_changed_in_the_topic_differs(live: Live) -> None:
    altered = live.copied("counts", f"{live.application}-altered")
    store = live.store("counts", 1)
    answer = given("diff", store, altered.address)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith("0 added, 0 removed, 0 changed, ")
    with kst.open_store(store) as opened:
        first, second, *rest = [row.key for row in opened.rows()]
    altered.put(first.encode(), None, partition=1)
    altered.put(second.encode(), (77).to_bytes(8, "big"), partition=1)
    altered.put(b"nobody", (1).to_bytes(8, "big"), partition=1)
    altered.put(b"elsewhere", (1).to_bytes(8, "big"), partition=0)
    altered.flush()
    answer = given("diff", store, altered.address, "--json", "--value-serde", "long")
    told = {row["change"]: row for row in rows(answer.out)}
    assert {change: row["key"] for change, row in told.items()} == {
        "removed": first,
        "changed": second,
        "added": "nobody",
    }
    assert told["changed"]["value_b"] == 77
    assert answer.err == f"1 added, 1 removed, 1 changed, {len(rest)} equal.\n"
    holding = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX)"
    holding += "; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", holding, str(store / "LOCK")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()  # it holds RocksDB's lock, as a process that has it open
        held = given("diff", altered.address, store)
        writer.kill()
    assert held.err.endswith(
        f"{store} is in use: what its writer had not flushed is in the topic alone.\n"
    )
    other = given("diff", store, altered.address, "--partition", 0)
    assert f"{len(rest) + 2} removed" in other.err


def test_all_partitions_of_a_store_are_compared_with_the_whole_topic(live: Live) -> None:
    for name, more in {"counts": (), "versions": ("--kind", "versioned")}.items():
        answer = given("diff", live.topic(name), live.folder, "--store", name, *more)
        assert answer.code == 0
        assert answer.err.startswith("0 added, 0 removed, 0 changed, ")


def test_windows_that_have_expired_are_said_to_have(live: Live) -> None:
    store = live.store("closed", 0)
    answer = given("diff", store, live.topic("closed"), "--limit", 0)
    assert not answer.err.startswith("0 added")
    note = answer.err.splitlines()[1]
    assert note.startswith("The store's first segment begins at ")
    since = note.split("--since ")[1].split()[0]
    left = given("diff", store, live.topic("closed"), "--since", since)
    assert left.err.startswith("0 added, 0 removed, 0 changed, ")
    assert len(left.err.splitlines()) == 1
