"""Stores of Kafka Streams that were killed, against their changelogs: the larger ones alone."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.places import read_checkpoint, read_offsets
from tests.formats.streams.realstores import (
    Read,
    changelog_of,
    changelogs_of,
    contents,
    read_state,
    replayed,
)

FOLDER = Path(__file__).parents[4] / "shared" / "fixtures"
RELEASES = ("2.8.2", "3.9.2", "4.3.1")
KEY_VALUES = {Kind.KEY_VALUE, Kind.TIMESTAMPED_KEY_VALUE, Kind.FOREIGN_KEY_SUBSCRIPTION}


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
def opened(states: Path) -> dict[str, list[Read]]:
    """Every RocksDB of the killed states, by release."""
    return {release: list(read_state(states / release / "kill9")) for release in RELEASES}


Opened = dict[str, list[Read]]


def test_every_row_of_a_killed_store_comes_apart(opened: Opened) -> None:
    reads = [each for several in opened.values() for each in several]
    assert len(reads) == 52 + 66 + 66
    assert not [(each.path, each.rows.problems) for each in reads if each.rows.problems]


@pytest.mark.parametrize("release", RELEASES[:2])
def test_a_killed_store_is_its_changelog_up_to_its_checkpoint(
    states: Path, opened: Opened, release: str
) -> None:
    changelogs = changelogs_of(states / release / "expected" / "kill9.changelog.jsonl.gz")
    compared = 0
    for each in opened[release]:
        name = changelog_of(each)
        if name not in changelogs or each.recognised.kind not in KEY_VALUES:
            continue
        file = each.path.parents[1] / ".checkpoint"
        offsets = read_checkpoint(file.read_bytes()) if file.is_file() else {}
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
    for each in opened["4.3.1"]:
        offsets, status = read_offsets(each.offsets)
        if not offsets:
            assert not each.disk
            continue
        assert status == "open"
        name = changelog_of(each)
        stored, records = offsets[name], changelogs[name]
        later = range(stored, max(record["offset"] for record in records) + 1)
        assert any(contents(each) == replayed(each, records, offset) for offset in later)
        compared += 1
    assert compared == 2
