"""Setters that are written for profiles, in the real stores of two releases of Kafka Streams."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from kstoolkit.environment import find_java
from kstoolkit.kafka.jars import Artifact, fetch
from kstoolkit.rocksdb.files.options import read_options
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named, profile_names
from kstoolkit.rocksdb.profiles.profile import Profile
from tests.jdk import compiler

SOURCE = Path(__file__).parent / "java" / "SetStores.java"
RELEASES = ("3.9.2", "4.3.1")
STORES = ("rocksdb/plain", "rocksdb/timestamped", "windows/windows.1699999200000")
LIVE = {"rocksdb/timestamped": "keyValueWithTimestamp"}
PROFILES = {name: profile_named(name) for name in profile_names()}
PROFILES |= {
    "many_stores": bounded_memory(512 << 20, stores=1000),
    "chatty": Profile(name="chatty", info_log_level="info"),
    "slowed": Profile(name="slowed", rate_limit_bytes_per_second=64 << 20, max_open_files=300),
}
LEAST_LEAK_BYTES = 16 << 20

IN_NO_FILE = {"setBlockCache", "setWriteBufferManager", "setRateLimiter", "setTableFormatConfig"}
CALLED = {
    "compression_type": "compression",
    "bottommost_compression_type": "bottommost_compression",
    "level_zero_file_num_compaction_trigger": "level0_file_num_compaction_trigger",
}
CONSEQUENCES = {
    # RocksDB's own: SanitizeOptions and Compaction options, once these are set.
    "write_buffer_size": {"arena_block_size"},
    "compaction_style": {"level_compaction_dynamic_level_bytes", "periodic_compaction_seconds"},
    "rate_limit_bytes_per_second": {"bytes_per_sync", "delayed_write_rate"},
}
SAME_IN = {"3.9.2": {"format_version"}, "4.3.1": {"optimize_filters_for_hits"}}
"""What a profile sets and a release has so already."""


@dataclass(frozen=True)
class Used:
    """What stores under a setter said, and where they are."""

    folder: Path
    said: dict[str, str]

    def options(self, store: str) -> dict[str, str]:
        """Return the options that RocksDB wrote of a store's live column family."""
        live = LIVE.get(store, "default")
        found: dict[str, str] = {}
        for section in read_options(self.folder / "name" / store):
            if section.column_family in {None, live} and section.kind != "Version":
                found |= section.options
        return found


def jars(release: str) -> str:
    found = fetch([Artifact("org.apache.kafka", "kafka-streams-test-utils", release)])
    return os.pathsep.join(map(str, found))


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def classes(release: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the setters are, compiled against one release."""
    folder = tmp_path_factory.mktemp(f"setters-{release}")
    sources = [SOURCE]
    for name, profile in PROFILES.items():
        sources.append(folder / f"Set_{name}.java")
        sources[-1].write_text(profile.to_java(f"Set_{name}"), encoding="utf-8")
    lint = ["-Xlint:all,-classfile,-processing", "-Werror", "--release", "17", "-encoding", "UTF-8"]
    command = [compiler(), *lint, "-cp", jars(release), "-d", str(folder), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def used(release: str, classes: Path, setter: str, folder: Path) -> Used:
    """Let stores be filled, closed, opened again and asked under a setter."""
    # A heap that is there from the beginning, and one arena: what grows then is not Java's own.
    java = ["-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC"]
    java += ["-XX:TieredStopAtLevel=1", "-cp", f"{classes}{os.pathsep}{jars(release)}"]
    done = subprocess.run(
        [str(find_java().home / "bin" / "java"), *java, SOURCE.stem, str(folder), setter],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | {"MALLOC_ARENA_MAX": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Java's own warnings come there too.
    said = [line.split(" = ", 1) for line in done.stdout.splitlines() if " = " in line]
    return Used(folder, dict(said))


@pytest.fixture(scope="module")
def left(release: str, classes: Path, tmp_path_factory: pytest.TempPathFactory) -> Used:
    """Return what stores are and say without a setter."""
    found = used(release, classes, "none", tmp_path_factory.mktemp("left"))
    assert found.said["reopened plain range"].startswith("200 rows KeyValue(key100, value100);")
    return found


def set_in(source: str) -> set[str]:
    """Return the options that a setter's statements set, as OPTIONS files call them."""
    calls = re.findall(r"\.(set\w+|useFixedLengthPrefixExtractor)\(", source)
    found = set()
    for call in set(calls) - IN_NO_FILE:
        name = re.sub(r"(?<!^)([A-Z])", r"_\1", call.removeprefix("set")).lower()
        found.add(CALLED.get(name, name))
    return found


OFTEN = ("bounded_memory",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [each if each in OFTEN else pytest.param(each, marks=pytest.mark.long) for each in PROFILES],
)
def test_stores_under_a_setter_answer_as_others_and_differ_in_what_it_sets_alone(
    name: str, release: str, classes: Path, left: Used, tmp_path: Path
) -> None:
    found = used(release, classes, f"Set_{name}", tmp_path)
    sizes = [int(found.said.pop(f"resident {times}")) for times in (20, 200)]
    assert sizes[1] <= sizes[0] + LEAST_LEAK_BYTES
    answers = {what: said for what, said in left.said.items() if "resident" not in what}
    assert found.said == answers
    wanted = set_in(PROFILES[name].to_java("Setter"))
    for store in STORES:
        was, now = left.options(store), found.options(store)
        differ = {option for option in was | now if was.get(option) != now.get(option)}
        limited = {"rate_limit_bytes_per_second"} & set(PROFILES[name].given)
        may = set().union(*(CONSEQUENCES.get(each, set()) for each in wanted | limited))
        assert differ - may == wanted - SAME_IN[release] - may, store


def test_the_profile_of_kafka_streams_sets_nothing() -> None:
    source = PROFILES["kafka_streams"].to_java("Nothing")
    assert set_in(source) == set()
    assert "Nothing is set" in source
    changed = PROFILES["kafka_streams"].changed(block_size=8192)
    assert set_in(changed.to_java("Blocks")) == {"block_size"}


def test_bounded_memory_sets_cache_budget_memtables_and_what_brings_indexes_into_the_cache() -> (
    None
):
    source = bounded_memory(64 << 20, 4).to_java("Bounded")
    called = set(re.findall(r"\.(set\w+)\(", source)) - {"setTableFormatConfig"}
    memory = {"setBlockCache", "setWriteBufferManager", "setWriteBufferSize"}
    assert called == memory | {"setCacheIndexAndFilterBlocks"}


@pytest.mark.slow
def test_what_is_in_no_options_file_is_in_the_log(
    classes: Path, release: str, tmp_path: Path
) -> None:
    """Stores with one cache name one address; the limiter and the budget are named by theirs."""
    profile = bounded_memory(48 << 20, 3).changed(
        info_log_level="info", rate_limit_bytes_per_second=32 << 20, name="told"
    )
    source = classes / "Told.java"
    source.write_text(profile.to_java("Told"), encoding="utf-8")
    command = [compiler(), "-cp", jars(release), "-d", str(classes), str(source)]
    subprocess.run(command, check=True, timeout=200)
    used(release, classes, "Told", tmp_path)
    logs = [(tmp_path / "name" / store / "LOG").read_text() for store in STORES]
    for told in ("rate_limiter", "write_buffer_manager"):
        assert len({re.findall(rf"{told}: (0x\w+)", log)[-1] for log in logs}) == 1, told
    caches = [re.findall(r"block_cache: (0x\w+)[^@]*?capacity : (\d+)", log) for log in logs]
    ours = [{address for address, size in found if size == str(48 << 20)} for found in caches]
    assert len(set.union(*ours)) == 1
    assert all(re.search(r"max_log_file_size: 33554432\b", log) for log in logs)
    assert all(re.search(r"keep_log_file_num: 4\b", log) for log in logs)
