"""Faults that a release is known for: told by what the OPTIONS file of a real store says."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from kstoolkit.rocksdb.advice.faults import KNOWN_FAULTS
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import make_store

STORES = Path(__file__).parents[3] / "data" / "stores"
STREAMS = STORES / "kafka-streams" / "small-main-4_3_1" / "0_0" / "rocksdb" / "user-count"
RULE = "known fault of the release"


def links(path: Path, **asked: int) -> set[str]:
    with open_store(path) as store:
        told = store.advice(**asked)  # type: ignore[arg-type] # by name
    assert RULE not in told.unjudged
    for each in told:
        if each.rule == RULE:
            assert each.evidence[0].name == "rocksdb_version"
            assert each.direction.startswith("at least ")
    return {each.link.rpartition("/")[2] for each in told if each.rule == RULE}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("faults") / "store")


def of_release(made: Path, folder: Path, release: str, **options: str) -> Path:
    """Return a copy of a store whose OPTIONS file tells of another release, and other options."""
    path = folder / release.replace(".", "_")
    shutil.copytree(made, path)
    for file in path.glob("OPTIONS-*"):
        text = re.sub(r"rocksdb_version=\S+", f"rocksdb_version={release}", file.read_text())
        for name, value in options.items():
            text, number = re.subn(rf"^  {name}=.*$", f"  {name}={value}", text, flags=re.MULTILINE)
            assert number
        file.write_text(text)
    return path


@pytest.mark.parametrize(
    ("release", "options", "expected"),
    [
        ("6.6.3", {}, {"HISTORY.md#680-2020-02-24", "HISTORY.md#870-09222023", "11764"}),
        ("7.9.2", {}, {"HISTORY.md#870-09222023", "11764"}),
        ("7.9.2", {"atomic_flush": "true"}, {"HISTORY.md#870-09222023", "11764", "11148"}),
        ("8.1.0", {"atomic_flush": "true"}, {"HISTORY.md#870-09222023", "11764"}),
        ("8.5.1", {"max_background_jobs": "8"}, {"11865", "11764"}),
        ("8.6.6", {"max_background_jobs": "8"}, {"11764"}),
        ("8.7.0", {}, set()),
        ("9.8.4", {}, set()),
    ],
)
def test_a_release_has_the_faults_that_later_ones_mended(
    made: Path, tmp_path: Path, release: str, options: dict[str, str], expected: set[str]
) -> None:
    assert links(of_release(made, tmp_path, release, **options)) == expected


def test_kafka_streams_of_many_cores_had_memtables_in_a_wrong_order(
    made: Path, tmp_path: Path
) -> None:
    of_streams = {"max_background_jobs": "8", "max_write_buffer_number": "3"}
    assert "10921" in links(of_release(made, tmp_path, "7.1.2", **of_streams))
    assert "10921" not in links(of_release(made, tmp_path, "7.8.2", **of_streams))


def test_what_leaks_is_told_to_whoever_measures_the_process(made: Path, tmp_path: Path) -> None:
    assert links(STREAMS) == links(STREAMS, bound_bytes=1 << 40) == set()
    assert links(STREAMS, pid=os.getpid()) == {"KAFKA-20616"}
    assert links(of_release(made, tmp_path, "9.7.3"), pid=os.getpid()) == {"KAFKA-19748"}
    assert links(of_release(made, tmp_path / "other", "10.1.3"), pid=os.getpid()) == set()


def test_without_options_the_log_tells_the_release(made: Path, tmp_path: Path) -> None:
    path = of_release(made, tmp_path, "7.9.2")
    for each in path.glob("OPTIONS-*"):
        each.unlink()
    assert links(path) == set()
    log = path / "LOG"
    log.write_text(re.sub(r"RocksDB version: \S+", "RocksDB version: 7.9.2", log.read_text()))
    assert "11764" in links(path)
    log.unlink()
    with open_store(path) as store:
        assert "neither an OPTIONS file" in store.advice().unjudged[RULE]


def test_each_fault_names_its_source_and_what_to_take() -> None:
    assert len(KNOWN_FAULTS) <= 10
    assert len({each.link for each in KNOWN_FAULTS}) == len(KNOWN_FAULTS)
    for each in KNOWN_FAULTS:
        assert each.link.startswith(("https://github.com/", "https://issues.apache.org/"))
        assert re.match(r"\d|Kafka Streams \d", each.instead)
