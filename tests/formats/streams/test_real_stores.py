"""What three releases of Kafka Streams wrote, against what their applications read themselves.

The stores are the project's own small ones, and larger ones where they are at hand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest

from kstoolkit.formats.serdes import guess_serde
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.places import read_checkpoint, read_offsets
from kstoolkit.formats.streams.recognising import _hint_of
from tests.formats.streams.realstores import (
    PRINTED,
    Read,
    Row,
    as_on_disk,
    headers_of,
    meaning,
    on_disk_of,
    read_state,
    says,
)
from tests.stores.kafkastreams.archives import RELEASES, State, states

ALL = [state for release in RELEASES for state in states(release)]

KINDS = {
    "KTABLE-FK-JOIN": Kind.FOREIGN_KEY_SUBSCRIPTION,
    "click-imp-left-left-shared-join": Kind.LIST_VALUE,
    "h-join-left-shared-join": Kind.LIST_VALUE,
    "h-join": Kind.HEADERS_WINDOW,
    "click-imp": Kind.WINDOW,
    "config-global": Kind.TIMESTAMPED_KEY_VALUE,
    "customers": Kind.TIMESTAMPED_KEY_VALUE,
    "orders": Kind.TIMESTAMPED_KEY_VALUE,
    "user-count-plain": Kind.KEY_VALUE,
    "user-count": Kind.TIMESTAMPED_KEY_VALUE,
    "kv-big": Kind.TIMESTAMPED_KEY_VALUE,
    "kv-ts": Kind.TIMESTAMPED_KEY_VALUE,
    "kv-": Kind.KEY_VALUE,
    "win-big": Kind.TIMESTAMPED_WINDOW,
    "win-": Kind.WINDOW,
    "sess-plain": Kind.SESSION,
    "user-sessions": Kind.SESSION,
    "emit-sessions": Kind.TIME_ORDERED_SESSION,
    "emit-": Kind.TIME_ORDERED_WINDOW,
    "price-history": Kind.VERSIONED,
    "price-join-Buffer": Kind.GRACE_BUFFER,
    "h-count": Kind.HEADERS_KEY_VALUE,
    "h-kv": Kind.HEADERS_KEY_VALUE,
    "h-1m": Kind.HEADERS_WINDOW,
    "h-win": Kind.HEADERS_WINDOW,
    "h-dsl-sess": Kind.HEADERS_SESSION,
    "h-sess": Kind.HEADERS_SESSION,
    "": Kind.TIMESTAMPED_WINDOW,
}
"""What each store is, by how its name begins; the first one that fits."""

SERDES = {
    "KTABLE-FK-JOIN": ("string", "bytes"),
    "click-imp": ("string", "string"),
    "h-join": ("string", "string"),
    "config-global": ("string", "string"),
    "customers": ("string", "string"),
    "orders": ("string", "string"),
    "price-": ("string", "string"),
    "win-dups": ("string", "string"),
    "kv-big": ("string", "string"),
    "h-kv": ("string", "string"),
    "h-win": ("string", "string"),
    "kv-int-json": ("integer", "json"),
    "kv-uuid": ("uuid", "integer"),
    "kv-short-double": ("short", "double"),
    "kv-bytes": ("bytes", "bytes"),
    "sensor-max": ("integer", "double"),
    "": ("string", "long"),
}
"""What the serdes of its keys and values are, likewise."""


def begins(table: dict[str, Any], name: str) -> Any:
    return next(found for start, found in table.items() if name.startswith(start))


Opened = tuple[State, list[Read], dict[tuple[str, str], Row]]


@pytest.fixture(scope="module", params=ALL, ids=str)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Return a state, every RocksDB in it, and what its application read out."""
    state: State = request.param
    reads = list(read_state(state.directory(tmp_path_factory)))
    return state, reads, on_disk_of(state.stores(tmp_path_factory))


def by_store(reads: list[Read]) -> dict[tuple[str, str], list[Read]]:
    found = defaultdict(list)
    for each in reads:
        found[each.task, each.store].append(each)
    return found


def test_every_row_of_every_store_comes_apart(opened: Opened) -> None:
    _, reads, _ = opened
    assert not [(each.path, each.rows.problems) for each in reads if each.rows.problems]
    assert sum(len(each.disk) for each in reads) > 400


def test_every_store_with_rows_is_recognised(opened: Opened) -> None:
    state, reads, _ = opened
    wrong = []
    for each in reads:
        kind = begins(KINDS, each.store)
        if state.name.startswith("headers") and kind is Kind.TIME_ORDERED_WINDOW:
            kind = Kind.HEADERS_TIME_ORDERED_WINDOW
        if each.disk and each.recognised.kind is not kind:
            wrong.append((each.path, each.recognised))
    assert not wrong


def test_names_that_kafka_streams_gave_say_what_the_rows_do(opened: Opened) -> None:
    _, reads, _ = opened
    named = [each for each in reads if each.disk and _hint_of(each.store)]
    assert {each.recognised.kind for each in named} >= {Kind.FOREIGN_KEY_SUBSCRIPTION} or all(
        each.store.startswith("h-") for each in named
    )
    assert not [
        (each.path, each.by_name, each.recognised)
        for each in named
        if each.by_name.kind is not each.recognised.kind or each.recognised.confidence < 0.99
    ]


def test_every_serde_is_guessed(opened: Opened) -> None:
    _, reads, _ = opened
    wrong = []
    for each in reads:
        sides = (each.rows.record_key, each.rows.record_value)
        found = tuple(guess_serde(side).serde for side in sides)
        if each.disk and found != begins(SERDES, each.store):
            wrong.append((each.path, found))
    assert not wrong


def test_the_rows_are_those_that_the_application_read_itself(opened: Opened) -> None:
    state, reads, expected = opened
    found = by_store(reads)
    # The buffer of a stream-table join has no iterator: nothing of it could be written down.
    told_of = {name: each for name, each in expected.items() if name[1] != "price-join-Buffer"}
    assert told_of.keys() <= found.keys()
    for name, wanted in told_of.items():
        told = [row for each in found[name] for row in each.tell()]
        if "Versioned" in wanted["classes"]:
            check_versions(told, wanted["rows"])
        else:
            check_rows(told, wanted, may_hide=state.version != "2.8.2")


def check_rows(told: list[Row], wanted: dict[str, Any], *, may_hide: bool) -> None:
    """Check that each expected row is there with all its parts, and what else there may be."""
    is_list = "ListValueStore" in wanted["classes"]
    left = defaultdict(list)
    for row in told:
        on_disk = row["value"] if is_list else row["on_disk"]
        left[row["key"].hex(), row.get("start"), on_disk].append(row)
    for each in wanted["rows"]:
        on_disk = as_on_disk(each["value_hex"], wanted["classes"])
        row = left[each["key_hex"], each.get("start"), on_disk].pop()
        value, timestamp_ms, headers = meaning(each["value"])
        assert says(row["value"], value), (wanted["store"], each)
        assert says(row["key"], each["key"])
        assert headers_of(row) == headers
        if not is_list:
            assert row.get("ts") == timestamp_ms
        if row.get("end") is not None:
            assert row["end"] == each["end"]
    more = [row for rows in left.values() for row in rows]
    assert may_hide or not more
    # Reads hide what has expired; the segment keeps it until it goes as a whole.
    moment = "end" if "Session" in wanted["classes"] else "start"
    oldest = min((each[moment] for each in wanted["rows"] if moment in each), default=None)
    assert all(oldest is not None and row[moment] < oldest for row in more)


def test_what_kafka_streams_wraps_is_told_as_it_prints_it(opened: Opened) -> None:
    _, reads, expected = opened
    for each in reads:
        if each.recognised.kind in PRINTED:
            wanted = expected[each.task, each.store]["rows"]
            found = sorted(PRINTED[each.recognised.kind](each.rows))
            assert found == sorted(printed(row) for row in wanted)


def printed(row: Row) -> tuple[str, ...]:
    key, (value, _, _) = row["key"], meaning(row["value"])
    assert isinstance(value, dict)
    return key.get("toString", key.get("hex")), value["toString"].partition(":")[2]


def check_versions(told: list[Row], wanted: list[Row]) -> None:
    found = Counter((row["key"].decode(), row["ts"], row["value"]) for row in told)
    expected = Counter((each["key"], each["validFrom"], each["value"].encode()) for each in wanted)
    assert expected <= found
    assert (found - expected).total() <= 3
    versions = sorted((row["key"], row["ts"], row["valid_to"]) for row in told)
    for (key, _, end), (other, start, _) in pairwise(versions):
        # A key that was deleted has no version for a while.
        assert key != other or end <= start


def test_a_clean_store_of_4_3_says_that_it_was_closed(opened: Opened) -> None:
    state, reads, _ = opened
    for each in reads:
        offsets, status = read_offsets(each.offsets)
        if state.version == "4.3.1":
            assert status == "closed"
            assert bool(offsets) == (each.store != "kv-nolog")


def test_every_offset_file_can_be_read(
    opened: Opened, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state, _, _ = opened
    folder = state.directory(tmp_path_factory)
    files = [*folder.rglob(".checkpoint*"), *folder.rglob("*.position")]
    read = [read_checkpoint(each.read_bytes()) for each in files]
    assert bool(files) == (state.version != "4.3.1" or state.name == "clean")
    assert all(read)
