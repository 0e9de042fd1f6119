"""Named profiles: as engines really open stores; what a process takes under a bound."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named, profile_names
from kstoolkit.rocksdb.profiles.profile import Profile, ProfileMap

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures"


@pytest.fixture(scope="session")
def archives() -> Path:
    """Real state directories of Kafka Streams."""
    folder = Path(os.environ.get("KSTOOLKIT_FIXTURES_DIR", FIXTURES)) / "kafka_streams"
    if not folder.is_dir():
        pytest.skip(f"real stores not present: {folder}")
    return folder


def options_files(archive: Path, state: str, folder: Path) -> list[Path]:
    """Return the OPTIONS files of a state in an archive."""
    with tarfile.open(archive) as found:
        for member in found:
            parts = Path(member.name).parts
            if member.isfile() and parts[1] == state and parts[-1].startswith("OPTIONS-"):
                found.extract(member, folder, filter="data")
    return sorted(folder.rglob("OPTIONS-*"))


def test_the_profile_of_kafka_streams_is_what_its_stores_were_opened_with(
    archives: Path, tmp_path: Path
) -> None:
    files = options_files(archives / "4.3.1.tar.gz", "clean", tmp_path)
    assert len(files) >= 69
    machine = {"max_background_jobs"}  # as many as the machine that wrote it had processors
    ours = profile_named("kafka_streams")
    for file in files:
        found = Profile.from_options(file)
        differ = {each.option for each in ours.diff(found)} - found.unknown.keys()
        assert differ <= machine, file


def test_a_setters_own_options_are_read_from_its_stores(archives: Path, tmp_path: Path) -> None:
    for file in options_files(archives / "4.3.1.tar.gz", "tuned-clean", tmp_path):
        found = Profile.from_options(file)
        assert (found.block_size, found.compression) == (16 << 10, "lz4")
        assert (found.write_buffer_size, found.max_write_buffer_number) == (128 << 10, 2)
        assert (found.bloom_bits_per_key, found.cache_index_and_filter_blocks) == (0.0, True)
        assert (found.compaction_style, found.info_log_level) == ("universal", "info")


@pytest.mark.parametrize("version", ["2.8.2", "3.9.2", "4.3.1"])
def test_options_files_of_every_version_are_read(
    version: str, archives: Path, tmp_path: Path
) -> None:
    for file in options_files(archives / f"{version}.tar.gz", "clean", tmp_path):
        found = Profile.from_options(file)
        assert found.write_buffer_size == 16 << 20
        assert "RocksDB " in found.purpose
    if version == "2.8.2":
        assert "without its bits" in found.unknown["bloom_bits_per_key"]
        assert "RocksDB 5.18.4 wrote no such option" in found.unknown["optimize_filters_for_memory"]


@pytest.mark.parametrize("name", profile_names())
def test_each_named_profile_says_whom_it_is_for(name: str) -> None:
    profile = profile_named(name)
    assert profile.name == name
    assert re.fullmatch(r"For [^\n.]+(?:4\.3[^\n.]+|\d\.\d [KMG]iB)?\.", profile.purpose)


def test_how_many_stores_share_a_bound_is_said() -> None:
    assert bounded_memory(1 << 30, 1).purpose == ("For a process whose one store may take 1.0 GiB.")
    assert bounded_memory(1 << 30, 24).purpose == (
        "For a process whose 24 stores together may take 1.0 GiB."
    )


def test_a_name_nearly_right_is_answered_with_the_right_one() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'point_lookup'"):
        profile_named("point_lokup")


@pytest.mark.parametrize("name", [None, 1, ["spark"]])
def test_what_is_no_name_of_a_profile_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="There is no profile"):
        profile_named(name)


def test_a_size_is_refused_for_a_profile_that_has_none() -> None:
    with pytest.raises(ConfigurationError, match="'spark' takes no size"):
        profile_named("spark", total_bytes=1 << 30)
    with pytest.raises(ConfigurationError, match="'spark' takes no size"):
        profile_named("spark", stores=2)


def test_bounded_memory_shares_all_that_can_be_shared() -> None:
    profile = bounded_memory(512 << 20, stores=100)
    assert profile.block_cache_shared
    assert profile.write_buffer_manager_in_cache
    assert profile.cache_index_and_filter_blocks
    assert profile.write_buffer_manager_bytes == 256 << 20
    assert profile.write_buffer_size is not None
    assert 100 * 2 * profile.write_buffer_size <= 256 << 20


@pytest.mark.parametrize(
    ("total_bytes", "stores", "said"),
    [
        (1 << 20, 100, "2.6 KiB a memtable"),
        (1 << 30, 0, "stores is 0: it has to be 1 or more"),
        ("1G", 1, "total_bytes is '1G', which is no whole number"),
        (1 << 30, 1.5, r"stores is 1\.5"),
        (1 << 30, None, "stores is None"),
    ],
)
def test_memory_that_bounds_nothing_sensible_is_refused(
    total_bytes: Any, stores: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        bounded_memory(total_bytes, stores)


def test_the_least_memory_that_is_proposed_is_enough() -> None:
    with pytest.raises(ConfigurationError, match=r"Give at least 25\.0 MiB"):
        bounded_memory(1 << 20, 100)
    assert bounded_memory(25 << 20, 100).write_buffer_size == 64 << 10


def test_the_first_pattern_that_a_store_matches_decides() -> None:
    hot, plain = profile_named("point_lookup"), profile_named("kafka_streams")
    stores = ProfileMap.of({"a.b": hot, "a*": plain, "?": hot, "*": plain})
    chosen = {name: stores.for_store(name) for name in ("a.b", "axb", "x", "xy", "line\nbreak")}
    assert [each.name for each in chosen.values()] == [
        "point_lookup",
        "kafka_streams",
        "point_lookup",
        "kafka_streams",
        "kafka_streams",
    ]
    assert repr(stores).startswith("ProfileMap('a.b': 'point_lookup', ")


BOUND_BYTES = 48 << 20
TOLERANCE_BYTES = 24 << 20
"""For what is outside the bound: open files, what the allocator keeps, RocksDB's own tables."""

STORES = 8
DATA_BYTES = 96 << 20

LOAD = """
import json, os, sys
import psutil
from rocksdict import Rdict
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.rocksdb.profiles.named import bounded_memory
from kstoolkit.rocksdb.profiles.rocksdict import shared_memory

folder, kind, bound_bytes, count, data_bytes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
bounded = bounded_memory(bound_bytes, count).changed(compression="none")
profile = bounded if kind == "bounded" else Profile(compression="none", disable_wal=True)
shared = shared_memory(profile) if kind == "bounded" else None
process = psutil.Process()
before = process.memory_info().rss
stores = []
for number in range(count):
    options = profile.to_rocksdict(shared=shared)
    store = Rdict(f"{folder}/{number}", options, column_families={"default": options})
    store.set_write_options(profile.write_options())
    stores.append(store)
peak = 0
for written in range(data_bytes // 200 // count):
    key = os.urandom(8)
    for store in stores:
        store[key] = b"v" * 192
    if written % 1000 == 0:
        peak = max(peak, process.memory_info().rss - before)
rows = sum(1 for store in stores for _ in store.keys())
peak = max(peak, process.memory_info().rss - before)
print(json.dumps({"rows": rows, "peak_bytes": peak}))
"""


def peak_bytes(kind: str, folder: Path) -> int:
    """Return by how much a process grew that loaded and then read its stores."""
    numbers = [BOUND_BYTES, STORES, DATA_BYTES]
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(folder), kind, *map(str, numbers)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == DATA_BYTES // 200 // STORES * STORES
    return int(found["peak_bytes"])


@pytest.mark.slow
def test_stores_under_one_bound_stay_within_it_and_without_it_they_do_not(tmp_path: Path) -> None:
    for kind in ("bounded", "free"):
        (tmp_path / kind).mkdir()
    bounded = peak_bytes("bounded", tmp_path / "bounded")
    free = peak_bytes("free", tmp_path / "free")
    assert bounded <= BOUND_BYTES + TOLERANCE_BYTES < free
