"""Profiles with a name: the engines' own defaults, and some for one purpose each.

What Kafka Streams and Spark set in RocksDB before anybody configures anything.

A profile under which the memory of many stores has one bound.

What each profile with a name sets; ``named`` says what it is good for.

The block cache and the memtable budget that several stores of one process share.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable


_LEAST_JOBS = 2


def kafka_streams_options() -> dict[str, Any]:
    """Return what ``RocksDBStore.openDB`` of Kafka Streams 4.3 sets, on this machine.

    It asks for as many background jobs as there are processors, but at least two. Its caches come
    from ``new LRUCache(bytes)`` of RocksJava, which keeps no share for index and filter blocks.

    Examples
    --------
    >>> kafka_streams_options()["write_buffer_size"]
    16777216
    """
    return {
        "block_cache_bytes": 50 << 20,
        "high_pri_pool_ratio": 0.0,
        "block_size": 4096,
        "bloom_bits_per_key": 10.0,
        "optimize_filters_for_hits": True,
        "write_buffer_size": 16 << 20,
        "max_write_buffer_number": 3,
        "compression": "none",
        "compaction_style": "universal",
        "max_background_jobs": max(os.cpu_count() or 1, _LEAST_JOBS),
        "atomic_flush": True,
        "info_log_level": "error",
        "disable_wal": True,
    }


SPARK: dict[str, Any] = {
    "block_cache_bytes": 8 << 20,
    "high_pri_pool_ratio": 0.0,
    "block_size": 4096,
    "format_version": 5,
    "bloom_bits_per_key": 10.0,
    "compression": "lz4",
    "avoid_flush_during_shutdown": True,
    "statistics": True,
    "disable_wal": True,
}
"""What the state store provider of Spark 4.3 sets."""

SPARK_UNKNOWN = {"info_log_level": "Spark takes the level that log4j has for its state store"}
"""What Spark sets from elsewhere."""


_LEAST_MEMTABLE_BYTES = 64 << 10  # RocksDB raises smaller ones to this (db/column_family.cc)
_LARGEST_MEMTABLE_BYTES = 64 << 20


def _bounded_options(total_bytes: int, stores: int) -> dict[str, Any]:
    """Return what :func:`kstoolkit.rocksdb.profiles.named.bounded_memory` sets, with its name.

    Raises
    ------
    ConfigurationError
        As it says.

    Examples
    --------
    >>> _bounded_options(512 << 20, stores=24)["write_buffer_size"]
    5592405
    """
    _check_whole("total_bytes", total_bytes)
    _check_whole("stores", stores)
    if stores < 1:
        message = f"There can't be {stores} stores."
        raise ConfigurationError(message, hint="Give how many are open at once, such as stores=8.")
    memtables_bytes = total_bytes // 2
    memtable_bytes = min(memtables_bytes // (2 * stores), _LARGEST_MEMTABLE_BYTES)
    if memtable_bytes < _LEAST_MEMTABLE_BYTES:
        least = format_bytes(4 * stores * _LEAST_MEMTABLE_BYTES)
        message = (
            f"{format_bytes(total_bytes)} for {stores} stores leaves {format_bytes(memtable_bytes)}"
            f" a memtable; RocksDB takes at least {format_bytes(_LEAST_MEMTABLE_BYTES)}."
        )
        raise ConfigurationError(message, hint=f"Give at least {least}, or open fewer stores.")
    whose = "one store" if stores == 1 else f"{stores} stores together"
    return {
        "name": "bounded_memory",
        "purpose": f"For a process whose {whose} may take {format_bytes(total_bytes)}.",
        "block_cache_bytes": total_bytes,
        "block_cache_shared": True,
        "high_pri_pool_ratio": 0.1,
        "write_buffer_manager_bytes": memtables_bytes,
        "write_buffer_manager_in_cache": True,
        "write_buffer_size": memtable_bytes,
        "cache_index_and_filter_blocks": True,
        "pin_l0_filter_and_index_blocks_in_cache": True,
        "bloom_bits_per_key": 10.0,
        "compression": "lz4",
        "disable_wal": True,
    }


def _check_whole(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        message = f"{name} is {value!r}, which is no whole number."
        raise ConfigurationError(message, hint="Such as bounded_memory(512 << 20, stores=8).")


_NEVER = 2**30  # as RocksDB's own PrepareForBulkLoad has it (options/options.cc)
_TOTAL_BYTES = 512 << 20


def _kafka_streams() -> dict[str, Any]:
    return {
        "name": "kafka_streams",
        "purpose": "For comparison: what Kafka Streams 4.3 sets without a RocksDBConfigSetter.",
        **kafka_streams_options(),
    }


def _spark() -> dict[str, Any]:
    return {
        "name": "spark",
        "purpose": "For comparison: what Spark 4.3's state store sets without configuration.",
        "info_log_level": None,
        "unknown": SPARK_UNKNOWN,
        **SPARK,
    }


def _point_lookup() -> dict[str, Any]:
    return {
        "name": "point_lookup",
        "purpose": "For readers that get single keys: filters and hash indexes, kept in memory.",
        "block_cache_bytes": 256 << 20,
        "prefix_bytes": 4,
        "memtable_prefix_bloom_size_ratio": 0.1,
        "memtable_whole_key_filtering": True,
        "bloom_bits_per_key": 10.0,
        "index_type": "hash_search",
        "data_block_index_type": "binary_and_hash",
        "compression": "lz4",
        "disable_wal": True,
    }


def _write_heavy() -> dict[str, Any]:
    return {
        "name": "write_heavy",
        "purpose": "For stores that are written far more than read, with memory and disk to spare.",
        "write_buffer_size": 64 << 20,
        "max_write_buffer_number": 4,
        "min_write_buffer_number_to_merge": 2,
        "compaction_style": "universal",
        "level0_file_num_compaction_trigger": 8,
        "level0_slowdown_writes_trigger": 40,
        "level0_stop_writes_trigger": 60,
        "max_background_jobs": 4,
        "max_subcompactions": 2,
        "bytes_per_sync": 1 << 20,
        "bloom_bits_per_key": 10.0,
        "compression": "lz4",
        "disable_wal": True,
    }


def _bulk_load() -> dict[str, Any]:
    return {
        "name": "bulk_load",
        "purpose": "For filling a store once: nothing is compacted and nothing waits meanwhile.",
        "write_buffer_size": 128 << 20,
        "max_write_buffer_number": 4,
        "disable_auto_compactions": True,
        "level0_file_num_compaction_trigger": _NEVER,
        "level0_slowdown_writes_trigger": _NEVER,
        "level0_stop_writes_trigger": _NEVER,
        "soft_pending_compaction_bytes_limit": 0,
        "hard_pending_compaction_bytes_limit": 0,
        "max_background_jobs": 4,
        "bytes_per_sync": 1 << 20,
        "compression": "lz4",
        "disable_wal": True,
    }


def _low_disk() -> dict[str, Any]:
    return {
        "name": "low_disk",
        "purpose": "For small disks: levels, which hold little twice, and strong compression.",
        "block_size": 16 << 10,
        "bloom_bits_per_key": 10.0,
        "optimize_filters_for_hits": True,
        "compression": "lz4",
        "bottommost_compression": "zstd",
        "disable_wal": True,
    }


_NAMED: dict[str, Callable[[], dict[str, Any]]] = {
    "kafka_streams": _kafka_streams,
    "spark": _spark,
    "point_lookup": _point_lookup,
    "write_heavy": _write_heavy,
    "bulk_load": _bulk_load,
    "low_disk": _low_disk,
}


def profile_names() -> tuple[str, ...]:
    """Return the names that profiles have.

    Examples
    --------
    >>> profile_names()[:2]
    ('kafka_streams', 'spark')
    """
    return (*_NAMED, "bounded_memory")


def named_options(
    name: str, *, total_bytes: int | None = None, stores: int | None = None
) -> dict[str, Any]:
    """Return what a profile is made with: its name, its purpose and its options.

    Raises
    ------
    ConfigurationError
        If there is none of this name, or it takes no ``total_bytes`` and ``stores``.

    Examples
    --------
    >>> named_options("spark")["block_cache_bytes"]
    8388608
    """
    if name == "bounded_memory":
        total = _TOTAL_BYTES if total_bytes is None else total_bytes
        return _bounded_options(total, 1 if stores is None else stores)
    if name not in profile_names():
        near = get_close_matches(str(name), profile_names(), n=1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        message = f"There is no profile {name!r}."
        raise ConfigurationError(message, hint=f"{guess}There are: {', '.join(profile_names())}.")
    if total_bytes is not None or stores is not None:
        message = f"The profile {name!r} takes no size and no number of stores."
        raise ConfigurationError(message, hint="Only bounded_memory does: leave them out.")
    return _NAMED[name]()


def kafka_streams() -> Profile:
    """Return what Kafka Streams 4.3 sets on this machine.

    Examples
    --------
    >>> kafka_streams().compaction_style, kafka_streams().compression
    ('universal', 'none')
    """
    return Profile(**named_options("kafka_streams"))


def spark() -> Profile:
    """Return what Spark 4.3's RocksDB state store sets.

    Examples
    --------
    >>> spark().compaction_style, spark().compression
    ('level', 'lz4')
    """
    return Profile(**named_options("spark"))


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
    return Profile(**named_options("point_lookup"))


def write_heavy() -> Profile:
    """Return a profile for stores that are mostly written.

    Examples
    --------
    >>> write_heavy().max_write_buffer_number
    4
    """
    return Profile(**named_options("write_heavy"))


def bulk_load() -> Profile:
    """Return a profile for filling a store once: compact it afterwards, and open it otherwise.

    Examples
    --------
    >>> bulk_load().disable_auto_compactions
    True
    """
    return Profile(**named_options("bulk_load"))


def low_disk() -> Profile:
    """Return a profile for disks that are small or dear.

    Examples
    --------
    >>> low_disk().bottommost_compression
    'zstd'
    """
    return Profile(**named_options("low_disk"))


def bounded_memory(total_bytes: int, stores: int) -> Profile:
    """Return a profile under which stores of one process together stay near ``total_bytes``.

    One cache holds blocks, indexes and filters, and pays for the memtables, which get half of it.
    What iterators pin, and what the allocator doesn't give back, is outside.

    Parameters
    ----------
    total_bytes
        The size of the cache.
    stores
        How many stores are open at once: partitions times segments times stores.

    Raises
    ------
    ConfigurationError
        If one is no whole number, there are no stores, or less room for each one's memtables than
        RocksDB takes.

    Examples
    --------
    >>> profile = bounded_memory(512 << 20, stores=24)
    >>> profile.write_buffer_manager_bytes, profile.write_buffer_size
    (268435456, 5592405)
    """
    return Profile(**_bounded_options(total_bytes, stores))


def profile_named(
    name: str, *, total_bytes: int | None = None, stores: int | None = None
) -> Profile:
    """Return the profile of this name.

    Parameters
    ----------
    name
        One of :func:`profile_names`.
    total_bytes, stores
        What ``"bounded_memory"`` asks for, 512 MiB and one store by default; no other takes them.

    Raises
    ------
    ConfigurationError
        If there is none of this name, or it takes no ``total_bytes`` and ``stores``.

    Examples
    --------
    >>> profile_named("spark").block_cache_bytes
    8388608
    """
    return Profile(**named_options(name, total_bytes=total_bytes, stores=stores))
