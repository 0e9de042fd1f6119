"""What each profile with a name sets; ``named`` says what it is good for."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.boundedmemory import bounded_options
from kstoolkit.rocksdb.profiles.enginedefaults import SPARK, SPARK_UNKNOWN, kafka_streams_options

if TYPE_CHECKING:
    from collections.abc import Callable


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
        return bounded_options(total, 1 if stores is None else stores)
    if name not in profile_names():
        near = get_close_matches(str(name), profile_names(), n=1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        message = f"There is no profile {name!r}."
        raise ConfigurationError(message, hint=f"{guess}There are: {', '.join(profile_names())}.")
    if total_bytes is not None or stores is not None:
        message = f"The profile {name!r} takes no size and no number of stores."
        raise ConfigurationError(message, hint="Only bounded_memory does: leave them out.")
    return _NAMED[name]()
