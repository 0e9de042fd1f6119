"""Profiles with a name: the engines' own defaults, and some for one purpose each."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.boundedmemory import bounded_memory
from kstoolkit.rocksdb.profiles.enginedefaults import SPARK, SPARK_UNKNOWN, kafka_streams_options
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "bounded_memory",
    "bulk_load",
    "kafka_streams",
    "low_disk",
    "point_lookup",
    "profile_named",
    "profile_names",
    "spark",
    "write_heavy",
]

_NEVER = 2**30  # as RocksDB's own PrepareForBulkLoad has it (options/options.cc)


def kafka_streams() -> Profile:
    """Return what Kafka Streams 4.3 sets on this machine.

    Examples
    --------
    >>> kafka_streams().compaction_style, kafka_streams().compression
    ('universal', 'none')
    """
    return Profile(
        name="kafka_streams",
        purpose="For comparison: what Kafka Streams 4.3 sets without a RocksDBConfigSetter.",
        **kafka_streams_options(),
    )


def spark() -> Profile:
    """Return what Spark 4.3's RocksDB state store sets.

    Examples
    --------
    >>> spark().compaction_style, spark().compression
    ('level', 'lz4')
    """
    return Profile(
        name="spark",
        purpose="For comparison: what Spark 4.3's state store sets without configuration.",
        info_log_level=None,
        unknown=SPARK_UNKNOWN,
        **SPARK,
    )


def point_lookup() -> Profile:
    """Return a profile for many gets of single keys, present or absent.

    Indexes and filters live outside the cache, in memory for as long as their files are open:
    RocksDB would pin only those of level 0 in it, and build a hash index again at each miss.
    Keys are taken to start with 4 bytes that spread them, as those of kstoolkit's stores do; for
    other keys change ``prefix_bytes``. Iterate with the profile's ``read_options()``: without them,
    RocksDB finds nothing from a key on whose prefix is absent.

    Examples
    --------
    >>> point_lookup().index_type, point_lookup().prefix_bytes
    ('hash_search', 4)
    """
    return Profile(
        name="point_lookup",
        purpose="For readers that get single keys: filters and hash indexes, kept in memory.",
        block_cache_bytes=256 << 20,
        prefix_bytes=4,
        memtable_prefix_bloom_size_ratio=0.1,
        memtable_whole_key_filtering=True,
        bloom_bits_per_key=10.0,
        index_type="hash_search",
        data_block_index_type="binary_and_hash",
        compression="lz4",
        disable_wal=True,
    )


def write_heavy() -> Profile:
    """Return a profile for stores that are mostly written.

    Examples
    --------
    >>> write_heavy().max_write_buffer_number
    4
    """
    return Profile(
        name="write_heavy",
        purpose="For stores that are written far more than read, with memory and disk to spare.",
        write_buffer_size=64 << 20,
        max_write_buffer_number=4,
        min_write_buffer_number_to_merge=2,
        compaction_style="universal",
        level0_file_num_compaction_trigger=8,
        level0_slowdown_writes_trigger=40,
        level0_stop_writes_trigger=60,
        max_background_jobs=4,
        max_subcompactions=2,
        bytes_per_sync=1 << 20,
        bloom_bits_per_key=10.0,
        compression="lz4",
        disable_wal=True,
    )


def bulk_load() -> Profile:
    """Return a profile for filling a store once: compact it afterwards, and open it otherwise.

    Examples
    --------
    >>> bulk_load().disable_auto_compactions
    True
    """
    return Profile(
        name="bulk_load",
        purpose="For filling a store once: nothing is compacted and nothing waits meanwhile.",
        write_buffer_size=128 << 20,
        max_write_buffer_number=4,
        disable_auto_compactions=True,
        level0_file_num_compaction_trigger=_NEVER,
        level0_slowdown_writes_trigger=_NEVER,
        level0_stop_writes_trigger=_NEVER,
        soft_pending_compaction_bytes_limit=0,
        hard_pending_compaction_bytes_limit=0,
        max_background_jobs=4,
        bytes_per_sync=1 << 20,
        compression="lz4",
        disable_wal=True,
    )


def low_disk() -> Profile:
    """Return a profile for disks that are small or dear.

    Examples
    --------
    >>> low_disk().bottommost_compression
    'zstd'
    """
    return Profile(
        name="low_disk",
        purpose="For small disks: levels, which hold little twice, and strong compression.",
        block_size=16 << 10,
        bloom_bits_per_key=10.0,
        optimize_filters_for_hits=True,
        compression="lz4",
        bottommost_compression="zstd",
        disable_wal=True,
    )


_NAMED: dict[str, Callable[[], Profile]] = {
    each.__name__: each
    for each in (kafka_streams, spark, point_lookup, write_heavy, bulk_load, low_disk)
}


def profile_names() -> tuple[str, ...]:
    """Return the names that :func:`profile_named` knows.

    Examples
    --------
    >>> profile_names()[:2]
    ('kafka_streams', 'spark')
    """
    return (*_NAMED, "bounded_memory")


def profile_named(name: str, *, total_bytes: int = 512 << 20, stores: int = 1) -> Profile:
    """Return the profile of this name.

    Parameters
    ----------
    name
        One of :func:`profile_names`.
    total_bytes, stores
        What ``"bounded_memory"`` asks for; the others take no heed of them.

    Raises
    ------
    ConfigurationError
        If there is none of this name.

    Examples
    --------
    >>> profile_named("spark").block_cache_bytes
    8388608
    """
    if name == "bounded_memory":
        return bounded_memory(total_bytes, stores)
    if name not in _NAMED:
        near = get_close_matches(name, profile_names(), n=1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        message = f"There is no profile {name!r}."
        raise ConfigurationError(message, hint=f"{guess}There are: {', '.join(profile_names())}.")
    return _NAMED[name]()
