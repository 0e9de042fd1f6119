"""Profiles that set one option otherwise than RocksDB does, for each option there is."""

from __future__ import annotations

from typing import Any

from kstoolkit.rocksdb.profiles.options import OPTIONS
from kstoolkit.rocksdb.profiles.profile import Profile

OTHER: dict[str, Any] = {
    "universal_max_merge_width": 20,
    "universal_compression_size_percent": 80,
    "compression_per_level": ("none", "none", "lz4", "lz4", "zstd", "zstd", "zstd"),
    "memtable_prefix_bloom_size_ratio": 0.125,
    "format_version": 5,
    "prefix_bytes": 4,
    "bloom_bits_per_key": 9.5,
    "max_open_files": 500,
    "rate_limit_bytes_per_second": 10 << 20,
    "ttl": 3600,
    "level0_file_num_compaction_trigger": 6,
    "level0_slowdown_writes_trigger": 30,
    "soft_pending_compaction_bytes_limit": 1 << 30,
    "min_write_buffer_number_to_merge": 3,
    "write_buffer_manager_in_cache": True,
}
"""Values other than RocksDB's own, where one can't be derived."""

BESIDE: dict[str, dict[str, Any]] = {
    "index_type": {"prefix_bytes": 4},
    "min_write_buffer_number_to_merge": {"max_write_buffer_number": 6},
    "write_buffer_manager_in_cache": {"write_buffer_manager_bytes": 1 << 20},
    "partition_filters": {"index_type": "two_level_search"},
    "pin_l0_filter_and_index_blocks_in_cache": {"cache_index_and_filter_blocks": True},
}
"""What some options need beside them to be in force."""


def other_value(name: str) -> Any:
    """Return a value that is not RocksDB's own."""
    own = OPTIONS[name].default
    if name in OTHER:
        return OTHER[name]
    if words := OPTIONS[name].words:
        return next(word for word in words if word != own)
    return not own if isinstance(own, bool) else own * 2 if own else own + 1


def changed(name: str) -> Profile:
    """Return a profile with this option set otherwise."""
    return Profile(**{name: other_value(name)} | BESIDE.get(name, {}))
