"""What three releases of Kafka Streams wrote, against what their applications read themselves."""

from __future__ import annotations

import os
import tarfile
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kstoolkit.formats.guessing import guess_serde
from kstoolkit.formats.streams.checkpoint import read_checkpoint
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.offsets import read_offsets
from tests.formats.streams.realstores import (
    PRINTED,
    Read,
    Row,
    as_on_disk,
    changelog_of,
    changelogs_of,
    contents,
    expected_of,
    headers_of,
    meaning,
    read_state,
    replayed,
    says,
)

FOLDER = Path(__file__).parents[4] / "shared" / "fixtures"
RELEASES = ("2.8.2", "3.9.2", "4.3.1")
CLEAN = [
    *((release, "clean") for release in RELEASES),
    *((release, state) for release in RELEASES[1:] for state in ("tuned-clean", "leveled-clean")),
    ("4.3.1", "headers-clean"),
]
KILLED = [*((release, "kill9") for release in RELEASES), ("4.3.1", "headers-kill9")]

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


KEY_VALUES = {Kind.KEY_VALUE, Kind.TIMESTAMPED_KEY_VALUE, Kind.FOREIGN_KEY_SUBSCRIPTION}


def begins(table: dict[str, Any], name: str) -> Any:
    return next(found for start, found in table.items() if name.startswith(start))


@pytest.fixture(scope="session")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = Path(os.environ.get("KSTOOLKIT_FIXTURES_DIR", FOLDER)) / "kafka_streams"
    folder = tmp_path_factory.mktemp("streams")
    for release in RELEASES:
        archive = there / f"{release}.tar.gz"
        if not archive.is_file():
            pytest.skip(f"real stores not present: {archive}")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def opened(states: Path) -> dict[tuple[str, str], list[Read]]:
    """Every RocksDB of every state directory: 452 of them."""
    return {
        (release, state): list(read_state(states / release / state))
        for release, state in [*CLEAN, *KILLED]
    }


Opened = dict[tuple[str, str], list[Read]]


def by_store(reads: list[Read]) -> dict[tuple[str, str], list[Read]]:
    found = defaultdict(list)
    for each in reads:
        found[each.task, each.store].append(each)
    return found


def test_every_row_of_every_store_comes_apart(opened: Opened) -> None:
    reads = [each for several in opened.values() for each in several]
    assert len(reads) == 452
    assert not [(each.path, each.rows.problems) for each in reads if each.rows.problems]
    assert sum(len(each.disk) for each in reads) > 15_000


def test_every_store_with_rows_is_recognised(opened: Opened) -> None:
    wrong = []
    for (_, state), reads in opened.items():
        for each in reads:
            kind = begins(KINDS, each.store)
            if state.startswith("headers") and kind is Kind.TIME_ORDERED_WINDOW:
                kind = Kind.HEADERS_TIME_ORDERED_WINDOW
            if each.disk and each.recognised.kind is not kind:
                wrong.append((each.path, each.recognised))
    assert not wrong


def test_every_serde_is_guessed(opened: Opened) -> None:
    wrong = []
    for (_, state), reads in opened.items():
        for each in reads:
            sides = (each.rows.record_key, each.rows.record_value)
            found = tuple(guess_serde(side).serde for side in sides)
            wanted = begins(SERDES, each.store)
            if (each.store, state) == ("kv-bytes", "kill9"):
                wanted = ("string", "string")  # 99 of 100 rows are words
            if each.disk and found != wanted:
                wrong.append((each.path, found))
    assert not wrong


@pytest.mark.parametrize(("release", "state"), CLEAN)
def test_the_rows_are_those_that_the_application_read_itself(
    states: Path, opened: Opened, release: str, state: str
) -> None:
    expected = expected_of(states / release / "expected" / f"{state}.json")
    found = by_store(opened[release, state])
    # The buffer of a stream-table join has no iterator: nothing of it could be written down.
    assert expected.keys() - {("6_0", "price-join-Buffer")} <= found.keys()
    for name, wanted in expected.items():
        if name[1] == "price-join-Buffer":
            continue
        told = [row for each in found[name] for row in each.tell()]
        if "Versioned" in wanted["classes"]:
            check_versions(told, wanted["rows"])
        else:
            check_rows(told, wanted, may_hide=release != "2.8.2")


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


def test_what_kafka_streams_wraps_is_told_as_it_prints_it(states: Path, opened: Opened) -> None:
    compared = 0
    for release, state in CLEAN:
        expected = expected_of(states / release / "expected" / f"{state}.json")
        for each in opened[release, state]:
            if each.recognised.kind in PRINTED:
                wanted = expected[each.task, each.store]["rows"]
                found = sorted(PRINTED[each.recognised.kind](each.rows))
                assert found == sorted(printed(row) for row in wanted)
                compared += len(found)
    assert compared > 150


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


@pytest.mark.parametrize("release", RELEASES[:2])
def test_a_killed_store_is_its_changelog_up_to_its_checkpoint(
    states: Path, opened: Opened, release: str
) -> None:
    changelogs = changelogs_of(states / release / "expected" / "kill9.changelog.jsonl.gz")
    compared = 0
    for each in opened[release, "kill9"]:
        name = changelog_of(each)
        if name not in changelogs or each.recognised.kind not in KEY_VALUES:
            continue
        file = each.path.parents[1] / ".checkpoint"
        offsets = read_checkpoint(file.read_bytes()).offsets if file.is_file() else {}
        reached = offsets.get(name)
        assert contents(each) == replayed(
            each, changelogs[name], -1 if reached is None else reached
        )
        compared += bool(each.disk)
    assert compared == 6


def test_a_killed_store_of_4_3_is_its_changelog_from_its_offset_on(
    states: Path, opened: Opened
) -> None:
    changelogs = changelogs_of(states / "4.3.1" / "expected" / "kill9.changelog.jsonl.gz")
    compared = 0
    for each in opened["4.3.1", "kill9"]:
        offsets = read_offsets(each.offsets)
        assert not offsets.problems
        if not offsets.offsets:
            assert not each.disk
            continue
        assert offsets.status == "open"
        name = changelog_of(each)
        stored, records = offsets.offsets[name], changelogs[name]
        later = range(stored, max(record["offset"] for record in records) + 1)
        assert any(contents(each) == replayed(each, records, offset) for offset in later)
        compared += 1
    assert compared == 2


@pytest.mark.parametrize("state", ["clean", "headers-clean", "tuned-clean", "leveled-clean"])
def test_a_clean_store_of_4_3_says_that_it_was_closed(opened: Opened, state: str) -> None:
    for each in opened["4.3.1", state]:
        found = read_offsets(each.offsets)
        assert not found.problems
        assert found.status == "closed"
        assert (found.position is None) == (each.task == "global")
        assert bool(found.offsets) == (each.store != "kv-nolog")


def test_every_offset_file_can_be_read(states: Path) -> None:
    files = [*states.rglob(".checkpoint*"), *states.rglob("*.position")]
    read = [read_checkpoint(each.read_bytes()) for each in files]
    assert len(files) > 50
    assert all(each.offsets and not each.num_skipped for each in read)
