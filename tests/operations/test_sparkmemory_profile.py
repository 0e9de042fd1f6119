"""Settings read back as options: what ``Profile.to_spark_conf()`` writes, and Spark's habits."""

from __future__ import annotations

import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.sparkmemory import profile_of_settings
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named

PREFIX = "spark.sql.streaming.stateStore.rocksdb."
BOUND = (
    "block_cache_bytes",
    "block_cache_shared",
    "high_pri_pool_ratio",
    "write_buffer_manager_bytes",
    "write_buffer_manager_in_cache",
    "cache_index_and_filter_blocks",
)


def test_without_settings_the_options_are_sparks_own() -> None:
    assert profile_of_settings({"spark.app.name": "mine"}) == profile_named("spark")


def test_minus_one_leaves_an_option_to_rocksdb() -> None:
    settings = {f"{PREFIX}writeBufferSizeMB": "-1", f"{PREFIX}maxWriteBufferNumber": "-1"}
    assert profile_of_settings(settings) == profile_named("spark")


def test_what_a_profile_writes_for_spark_is_read_back() -> None:
    written = profile_named("spark").changed(
        write_buffer_size=16 << 20,
        max_write_buffer_number=4,
        block_cache_bytes=32 << 20,
        block_size=16 << 10,
    )
    assert profile_of_settings(written.to_spark_conf().settings) == written


def test_a_bound_that_a_profile_writes_for_spark_is_read_back() -> None:
    written = bounded_memory(64 << 20, stores=4)
    read = profile_of_settings(written.to_spark_conf().settings)
    assert [getattr(read, name) for name in BOUND] == [getattr(written, name) for name in BOUND]


def test_upper_and_lower_case_make_no_difference_in_keys() -> None:
    read = profile_of_settings({f"{PREFIX}blockcachesizemb": "3"})
    assert read.block_cache_bytes == 3 << 20


def test_a_value_that_is_no_number_is_a_sentence() -> None:
    with pytest.raises(ConfigurationError, match="blockCacheSizeMB is 'much', which is no number"):
        profile_of_settings({f"{PREFIX}blockCacheSizeMB": "much"})
