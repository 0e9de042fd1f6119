"""What each profile with a name sets, the engines' own defaults among them.

:mod:`kstoolkit.rocksdb.profiles.named` makes the profiles of it; here are their options alone, so
that a profile can be compared to them by name.

For ``point_lookup``, indexes and filters live outside the cache, in memory for as long as their
files are open: RocksDB would pin only those of level 0 in it, and build a hash index again at each
miss. Keys are taken to start with 4 bytes that spread them, as those of kstoolkit's stores do; for
other keys change ``prefix_bytes``. Iterate with the profile's ``read_options()``: without them,
RocksDB finds nothing from a key on whose prefix is absent. After ``bulk_load``, compact the store,
and open it otherwise.
"""

from __future__ import annotations

import os
from typing import Any

from kstoolkit.errors import ConfigurationError, guessed
from kstoolkit.units import format_bytes

_LEAST_JOBS = 2


def kafka_streams_options() -> dict[str, Any]:
    """Return what ``RocksDBStore.openDB`` of Kafka Streams 4.3 sets, on this machine.

    It asks for as many background jobs as there are processors, but at least two. Its caches come
    from ``new LRUCache(bytes)`` of RocksJava, which keeps no share for index and filter blocks.
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


def bounded_options(total_bytes: int, stores: int) -> dict[str, Any]:
    """Return what :func:`kstoolkit.rocksdb.profiles.named.bounded_memory` sets, with its name."""
    given: dict[str, object] = {"total_bytes": total_bytes, "stores": stores}
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool):
            message = f"{name} is {value!r}, which is no whole number."
            raise ConfigurationError(message, hint="Such as bounded_memory(512 << 20, stores=8).")
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
        **_FILTERED,
    }


_NEVER = 2**30  # as RocksDB's own PrepareForBulkLoad has it (options/options.cc)
_TOTAL_BYTES = 512 << 20

_OURS = {"compression": "lz4", "disable_wal": True}
_FILTERED = {"bloom_bits_per_key": 10.0, **_OURS}
_PRESETS: dict[str, dict[str, Any]] = {
    "kafka_streams": {
        "purpose": "For comparison: what Kafka Streams 4.3 sets without a RocksDBConfigSetter.",
        # and kafka_streams_options(), which are this machine's
    },
    "spark": {
        "purpose": "For comparison: what Spark 4.3's state store sets without configuration.",
        "info_log_level": None,
        "unknown": SPARK_UNKNOWN,
        **SPARK,
    },
    "point_lookup": {
        "purpose": "For readers that get single keys: filters and hash indexes, kept in memory.",
        "block_cache_bytes": 256 << 20,
        "prefix_bytes": 4,
        "memtable_prefix_bloom_size_ratio": 0.1,
        "memtable_whole_key_filtering": True,
        "index_type": "hash_search",
        "data_block_index_type": "binary_and_hash",
        **_FILTERED,
    },
    "write_heavy": {
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
        **_FILTERED,
    },
    "bulk_load": {
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
        **_OURS,
    },
    "low_disk": {
        "purpose": "For small disks: levels, which hold little twice, and strong compression.",
        "block_size": 16 << 10,
        "optimize_filters_for_hits": True,
        "bottommost_compression": "zstd",
        **_FILTERED,
    },
}
PRESET_NAMES = (*_PRESETS, "bounded_memory")


def named_options(
    name: str, *, total_bytes: int | None = None, stores: int | None = None
) -> dict[str, Any]:
    """Return what a profile is made with: its name, its purpose and its options."""
    if name == "bounded_memory":
        total = _TOTAL_BYTES if total_bytes is None else total_bytes
        return bounded_options(total, 1 if stores is None else stores)
    if name not in PRESET_NAMES:
        guess = guessed(str(name), PRESET_NAMES)
        message = f"There is no profile {name!r}."
        raise ConfigurationError(message, hint=f"{guess}There are: {', '.join(PRESET_NAMES)}.")
    if total_bytes is not None or stores is not None:
        message = f"The profile {name!r} takes no size and no number of stores."
        raise ConfigurationError(message, hint="Only bounded_memory does: leave them out.")
    own = kafka_streams_options() if name == "kafka_streams" else {}
    return {"name": name, **_PRESETS[name], **own}
