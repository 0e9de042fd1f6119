"""Spark's configuration for a profile: keys that Spark has, and a state store that obeys them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named
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


def test_every_option_that_differs_is_either_set_or_told() -> None:
    profile = profile_named("point_lookup")
    conf = profile.to_spark_conf()
    differ = {each.option for each in profile.diff(profile_named("spark"))}
    assert conf.unset.keys() | {"block_cache_bytes", "format_version"} == differ
    assert f"not set: prefix_bytes: {conf.unset['prefix_bytes']}" in str(conf)
    assert "prefix_bytes" in repr(conf)


def test_spark_knows_every_key() -> None:
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-sql_*.jar"))
    with zipfile.ZipFile(jar) as classes:
        known = b"".join(
            classes.read(name) for name in classes.namelist() if "/state/RocksDBConf" in name
        )
    for key in settings(TUNED) | settings(bounded_memory(1 << 30, stores=8)):
        assert key.encode() in known, key


@pytest.mark.spark
def test_a_state_store_of_spark_is_opened_with_the_profile(
    spark: SparkSession, tmp_path: Path
) -> None:
    # With changelogs, Spark writes no snapshot before it has several.
    conf = TUNED.to_spark_conf().settings | {f"{ROCKSDB}changelogCheckpointing.enabled": "false"}
    before = {key: spark.conf.get(key, None) for key in conf}
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.json").write_text('{"user": "a"}\n{"user": "b"}\n')
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        events = spark.readStream.schema("user string").json(str(tmp_path / "events"))
        query = (
            events.groupBy("user")
            .count()
            .writeStream.outputMode("update")
            .format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)
    found = Profile.from_options(options_file(tmp_path))
    differ = {each.option for each in TUNED.diff(found)} - found.unknown.keys()
    assert differ <= {"info_log_level"}


def options_file(folder: Path) -> Path:
    """Return the OPTIONS file of a snapshot in a checkpoint."""
    snapshot = next(iter(sorted((folder / "checkpoint" / "state").rglob("*.zip"))))
    with zipfile.ZipFile(snapshot) as found:
        name = next(each for each in found.namelist() if Path(each).name.startswith("OPTIONS-"))
        return Path(found.extract(name, folder))
