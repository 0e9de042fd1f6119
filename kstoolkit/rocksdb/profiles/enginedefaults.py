"""What Kafka Streams and Spark set in RocksDB before anybody configures anything."""

from __future__ import annotations

import os
from typing import Any

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
