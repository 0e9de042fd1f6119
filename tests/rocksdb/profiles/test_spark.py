"""Spark's configuration for a profile: keys that Spark has, and a state store that obeys them."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from kstoolkit.rocksdb.files.options import parse_options
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named, profile_names
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORE = "spark.sql.streaming.stateStore."
ROCKSDB = f"{STORE}rocksdb."
TUNED = profile_named("spark").changed(
    write_buffer_size=8 << 20,
    max_write_buffer_number=4,
    block_cache_bytes=16 << 20,
    block_size=16 << 10,
    max_open_files=300,
    format_version=6,
    compression="zstd",
    allow_fallocate=False,
)


def settings(profile: Profile) -> dict[str, str]:
    found = profile.to_spark_conf().settings
    return {key.removeprefix(ROCKSDB): value for key, value in found.items() if ROCKSDB in key}


def test_all_that_spark_can_set_is_set() -> None:
    assert settings(TUNED) == {
        "writeBufferSizeMB": "8",
        "maxWriteBufferNumber": "4",
        "blockCacheSizeMB": "16",
        "blockSizeKB": "16",
        "maxOpenFiles": "300",
        "formatVersion": "6",
        "compression": "zstd",
        "allowFAllocate": "false",
    }
    assert TUNED.to_spark_conf().unset.keys() == {"info_log_level"}
    assert f"{STORE}providerClass" in TUNED.to_spark_conf().settings


def test_sparks_own_profile_needs_no_setting() -> None:
    assert settings(profile_named("spark")) == {}


def test_a_shared_budget_becomes_sparks_bounded_memory() -> None:
    profile = bounded_memory(1 << 30, stores=8)
    found = settings(profile)
    assert found["boundedMemoryUsage"] == "true"
    assert found["maxMemoryUsageMB"] == "1024"
    assert (found["writeBufferCacheRatio"], found["highPriorityPoolRatio"]) == ("0.5", "0.1")
    assert "blockCacheSizeMB" not in found
    assert "cache_index_and_filter_blocks" not in profile.to_spark_conf().unset


def test_a_shared_cache_that_spark_cannot_bound_is_not_given_to_each_store() -> None:
    profile = Profile(block_cache_bytes=1 << 30, block_cache_shared=True)
    conf = profile.to_spark_conf()
    assert "blockCacheSizeMB" not in settings(profile)
    assert conf.unset["block_cache_bytes"].startswith("Spark takes it with boundedMemoryUsage")
    full = bounded_memory(1 << 30, stores=8).changed(high_pri_pool_ratio=0.5)
    assert "boundedMemoryUsage" not in settings(full)
    assert "block_cache_shared" in full.to_spark_conf().unset


def test_an_unaligned_size_is_told_and_not_rounded() -> None:
    conf = Profile(write_buffer_size=(1 << 20) + 1).to_spark_conf()
    assert "writeBufferSizeMB takes whole units of 1048576 bytes" in conf.unset["write_buffer_size"]
    assert "writeBufferSizeMB" not in settings(Profile(write_buffer_size=(1 << 20) + 1))


def test_every_option_that_was_set_otherwise_is_either_set_or_told() -> None:
    profile = profile_named("point_lookup")
    conf = profile.to_spark_conf()
    spark = profile_named("spark").options()
    differ = {name for name, value in profile.settings().items() if value != spark[name]}
    assert conf.unset.keys() == differ
    assert f"not set: prefix_bytes: {conf.unset['prefix_bytes']}" in str(conf)
    assert "prefix_bytes" in repr(conf)


def test_what_was_set_as_rocksdb_has_it_is_set_where_spark_has_it_otherwise() -> None:
    assert settings(Profile(compression="snappy")) == {"compression": "snappy"}
    assert settings(Profile()) == {}
    conf = Profile(compression="snappy", why={"compression": "it's cheap"}).to_spark_conf()
    assert "# it's cheap\nspark.sql.streaming.stateStore.rocksdb.compression=snappy" in str(conf)


def test_spark_knows_every_key() -> None:
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-sql_*.jar"))
    with zipfile.ZipFile(jar) as classes:
        known = b"".join(
            classes.read(name) for name in classes.namelist() if "/state/RocksDBConf" in name
        )
    for key in settings(TUNED) | settings(bounded_memory(1 << 30, stores=8)):
        assert key.encode() in known, key


@dataclass(frozen=True)
class Counted:
    """What a query counted under a profile, in two runs, and with which options its store was."""

    counts: dict[str, int]
    options: Profile
    written: dict[str, str]


def counted(spark: SparkSession, profile: Profile, folder: Path) -> Counted:
    """Count users in two runs on one checkpoint, the second of which opens what the first left."""
    # With changelogs, Spark writes no snapshot before it has several.
    conf = profile.to_spark_conf().settings | {f"{ROCKSDB}changelogCheckpointing.enabled": "false"}
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        for run in ("first", "second"):
            (folder / "events").mkdir(parents=True, exist_ok=True)
            (folder / "events" / f"{run}.json").write_text('{"user": "a"}\n{"user": "b"}\n')
            found = _run(spark, folder, run)
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)
    file = options_file(folder)
    sections = parse_options(file.read_text())
    written = {name: value for each in sections for name, value in each.options.items()}
    return Counted(found, Profile.from_options(file), written)


def _run(spark: SparkSession, folder: Path, run: str) -> dict[str, int]:
    events = spark.readStream.schema("user string").json(str(folder / "events"))
    counts = events.groupBy("user").count().writeStream.outputMode("complete")
    sink = counts.format("memory").queryName(f"{run}_{folder.name}".replace("-", "_"))
    there = sink.option("checkpointLocation", str(folder / "checkpoint"))
    query = there.trigger(availableNow=True).start()
    query.awaitTermination(120)
    return {row["user"]: row["count"] for row in spark.table(query.name).collect()}


@pytest.fixture(scope="module")
def left(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """Return what Spark's own state store is."""
    return counted(spark, Profile(), tmp_path_factory.mktemp("left"))


PROFILES = {"tuned": TUNED} | {name: profile_named(name) for name in profile_names()}
WRITTEN = {
    "writeBufferSizeMB": {"write_buffer_size"},
    "maxWriteBufferNumber": {"max_write_buffer_number"},
    "blockSizeKB": {"block_size"},
    "maxOpenFiles": {"max_open_files"},
    "formatVersion": {"format_version"},
    "compression": {"compression"},
    "allowFAllocate": {"allow_fallocate"},
    "blockCacheSizeMB": set(),
    "boundedMemoryUsage": {
        "cache_index_and_filter_blocks",
        "pin_l0_filter_and_index_blocks_in_cache",
    },
}
"""What OPTIONS files show of Spark's settings: of caches and budgets, what goes with them."""


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.long) if each == "tuned" else each for each in PROFILES],
)
def test_a_query_counts_as_without_a_profile_and_its_store_differs_in_what_is_set_alone(
    name: str, spark: SparkSession, left: Counted, tmp_path: Path
) -> None:
    found = counted(spark, PROFILES[name], tmp_path)
    assert found.counts == left.counts == {"a": 2, "b": 2}
    both = left.written.keys() | found.written.keys()
    differ = {each for each in both if left.written.get(each) != found.written.get(each)}
    told = [WRITTEN.get(key, set()) for key in settings(PROFILES[name])]
    assert differ - {"arena_block_size"} == set().union(*told)  # an eighth of a memtable


@pytest.mark.spark
def test_a_state_store_of_spark_is_opened_with_the_profile(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = counted(spark, TUNED, tmp_path).options
    differ = {each.option for each in TUNED.diff(found)} - found.unknown.keys()
    assert differ <= {"info_log_level"}


def options_file(folder: Path) -> Path:
    """Return the newest OPTIONS file of a snapshot in a checkpoint."""
    snapshots = sorted((folder / "checkpoint" / "state").rglob("*.zip"))
    with zipfile.ZipFile(snapshots[-1]) as found:
        names = [each for each in found.namelist() if Path(each).name.startswith("OPTIONS-")]
        return Path(found.extract(max(names), folder))
