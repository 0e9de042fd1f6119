"""Stores that real Kafka Streams applications wrote, of RocksDB 5.18, 7.9 and 10.1."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import appearance

VERSIONS = {"2.8.2": ("5.18.4", 0), "3.9.2": ("7.9.2", 5), "4.3.1": ("10.1.3", 6)}
FOLDER = Path(__file__).parents[3] / "shared" / "fixtures"
STATES = ("clean", "kill9", "leveled-clean", "headers-clean")


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def states(version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = Path(os.environ.get("KSTOOLKIT_FIXTURES_DIR", FOLDER))
    archive = there / "kafka_streams" / f"{version}.tar.gz"
    if not archive.is_file():
        pytest.skip(f"real stores not present: {archive}")
    folder = tmp_path_factory.mktemp("kafka_streams")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / version


def stores_of(states: Path) -> list[Path]:
    return [each.parent for state in STATES for each in sorted((states / state).rglob("CURRENT"))]


def test_each_store_opens_tells_what_it_is_and_stays_as_it_was(version: str, states: Path) -> None:
    written_by, format_version = VERSIONS[version]
    before = appearance(states)
    found = stores_of(states)
    for path in found:
        with open_store(path) as opened:
            summary = opened.summary()
            rows = [sum(1 for _ in opened.iter_rows(cf=cf)) for cf in opened.column_families]
            levels = opened.levels()
            files = opened.ssts()
        assert summary.rocksdb_version == written_by
        assert summary.format_versions in {(), (format_version,)}
        assert not any(each.unknown.get("compression") for each in files)
        assert sum(each.num_entries for each in levels) == summary.num_entries
        # Nothing is in a WAL: Kafka Streams turns it off.
        assert sum(rows) <= summary.num_entries
        assert (sum(rows) > 0) == (summary.num_entries > summary.num_deletions)
    assert len(found) > 50
    assert appearance(states) == before


def test_the_rows_are_those_that_the_application_read_itself(states: Path) -> None:
    expected = json.loads((states / "expected" / "clean.json").read_text(encoding="utf-8"))
    wanted = {
        (each["task"], each["store"]): hex_rows(each["rows"])
        for each in expected["stores"]
        if each["store"] in {"kv-plain", "kv-uuid", "kv-bytes", "kv-short-double"}
    }
    assert len(wanted) >= 4
    for (task, name), rows in wanted.items():
        (path,) = (states / "clean").glob(f"*/{task}/rocksdb/{name}")
        with open_store(path) as opened:
            assert [(k.hex(), v.hex()) for k, v in opened.iter_rows()] == rows


def hex_rows(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((each["key_hex"], each["value_hex"]) for each in rows)
