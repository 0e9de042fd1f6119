"""A profile under which few rows make several files and levels."""

from __future__ import annotations

from kstoolkit.rocksdb.profiles.profile import Profile

LEVEL = Profile(
    name="level",
    write_buffer_size=128 << 10,
    target_file_size_base=128 << 10,
    max_bytes_for_level_base=256 << 10,
    block_cache_bytes=64 << 10,
    compression="none",
    disable_wal=True,
)
