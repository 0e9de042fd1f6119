"""Every option that a profile has: RocksDB's name for it, its own value, and what makes sense."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.rocksdb.profiles.optioncheck import (
    checked,
    family,
    io,
    memory,
    options_of,
    store,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSet:
    """A set of RocksDB options; each default is RocksDB 9.8.4's own.

    Options have the names that RocksDB's OPTIONS files give them; sizes are bytes. What those files
    don't hold has a name of its own, below. Zero (or nothing) is off; ``None`` is unknown, and
    ``unknown`` says why.

    As RocksDB does when it opens a store: other styles than level have no
    ``level_compaction_dynamic_level_bytes``; under the universal one ``ttl`` is obeyed by
    ``periodic_compaction_seconds``; with ``atomic_flush`` no memtables are merged; a
    ``delayed_write_rate`` of 0 becomes the rate limit, or 16 MiB; and with a rate limit
    ``bytes_per_sync`` of 0 becomes 1 MiB.

    OPTIONS files hold no objects and no calls, so what is set of these doesn't come back from one:
    the cache (all of ``block_cache_`` and ``strict_capacity_limit``, ``high_pri_pool_ratio``), the
    write-buffer manager, ``rate_limit_bytes_per_second``, ``statistics``, read and write options.
    rocksdict has no setter for some more, leaves RocksDB's own value, and says so in
    ``not_in_rocksdict``: ``strict_capacity_limit``, ``high_pri_pool_ratio``,
    ``whole_key_filtering``, ``optimize_filters_for_memory``,
    ``cache_index_and_filter_blocks_with_high_priority``, ``compaction_pri``, ``ttl``,
    ``periodic_compaction_seconds``, ``delayed_write_rate``, ``allow_fallocate``,
    ``avoid_flush_during_shutdown``, ``info_log_level``; and its filter doesn't write its bits.

    Parameters
    ----------
    block_cache_bytes, block_cache_shared, strict_capacity_limit, high_pri_pool_ratio
        The LRU cache of blocks: its size (0: no cache), whether one serves all stores of a process,
        whether it refuses what doesn't fit, and the share kept for index and filter blocks.
    write_buffer_manager_bytes, write_buffer_manager_in_cache, write_buffer_manager_allow_stall
        One budget for the memtables of all stores (0: none), whether it is taken from the block
        cache, and whether writers wait when it is used up.
    prefix_bytes
        Length of the fixed prefix of keys that blooms and hash indexes know (0: none). Iterators
        then need a read option to find what follows a key whose prefix is absent
        (``total_order_seek``), which engines may not set.
    bloom_bits_per_key
        Of the filter in each SST file (0: no filter).
    universal_size_ratio, universal_min_merge_width, ..., fifo_max_table_files_size
        What stands in the braces of compaction_options_universal and compaction_options_fifo.
    rate_limit_bytes_per_second, statistics
        A limit for flushes and compactions together (0: none); whether RocksDB counts what it does.
    fill_cache, readahead_bytes, prefix_same_as_start
        Read options.
    disable_wal, sync
        Write options.
    unknown
        For each option that is None: why.

    Raises
    ------
    ConfigurationError
        If a value makes no sense, or two of them contradict each other.

    Examples
    --------
    >>> OptionSet(compaction_style="universal").level_compaction_dynamic_level_bytes
    False
    """

    # Memtables.
    write_buffer_size: int | None = family(64 << 20, least=64 << 10)
    max_write_buffer_number: int | None = family(2, least=2)
    min_write_buffer_number_to_merge: int | None = family(1, least=1)
    memtable_prefix_bloom_size_ratio: float | None = family(0.0, most=0.25)
    memtable_whole_key_filtering: bool | None = family(default=False)

    # Memory that many stores may share.
    block_cache_bytes: int | None = memory(32 << 20)
    block_cache_shared: bool | None = memory(default=False)
    strict_capacity_limit: bool | None = memory(default=False)
    high_pri_pool_ratio: float | None = memory(0.5, most=1)
    write_buffer_manager_bytes: int | None = memory(0)
    write_buffer_manager_in_cache: bool | None = memory(default=False)
    write_buffer_manager_allow_stall: bool | None = memory(default=False)

    # Blocks, their index and their filters.
    prefix_bytes: int | None = family(0)
    block_size: int | None = table(4096, least=1)
    block_restart_interval: int | None = table(16, least=1)
    format_version: int | None = table(6, most=7)
    checksum: str | None = table("xxh3")
    bloom_bits_per_key: float | None = table(0.0)
    whole_key_filtering: bool | None = table(default=True)
    optimize_filters_for_memory: bool | None = table(default=True)
    optimize_filters_for_hits: bool | None = family(default=False)
    cache_index_and_filter_blocks: bool | None = table(default=False)
    cache_index_and_filter_blocks_with_high_priority: bool | None = table(default=True)
    pin_l0_filter_and_index_blocks_in_cache: bool | None = table(default=False)
    pin_top_level_index_and_filter: bool | None = table(default=True)
    index_type: str | None = table("binary_search")
    partition_filters: bool | None = table(default=False)
    metadata_block_size: int | None = table(4096, least=1)
    data_block_index_type: str | None = table("binary_search")
    data_block_hash_table_util_ratio: float | None = table(0.75)

    # Compaction.
    compaction_style: str | None = family("level")
    compaction_pri: str | None = family("min_overlapping_ratio")
    disable_auto_compactions: bool | None = family(default=False)
    num_levels: int | None = family(7, least=1)
    level0_file_num_compaction_trigger: int | None = family(4, least=1)
    target_file_size_base: int | None = family(64 << 20, least=1)
    target_file_size_multiplier: int | None = family(1, least=1)
    max_bytes_for_level_base: int | None = family(256 << 20, least=1)
    max_bytes_for_level_multiplier: float | None = family(10.0, least=1)
    level_compaction_dynamic_level_bytes: bool | None = family(default=True)
    ttl: int | None = family(30 * _DAY)
    periodic_compaction_seconds: int | None = family(0)
    universal_size_ratio: int | None = family(1, inside="compaction_options_universal")
    universal_min_merge_width: int | None = family(2, 2, inside="compaction_options_universal")
    universal_max_merge_width: int | None = family(
        2**32 - 1, 2, inside="compaction_options_universal"
    )
    universal_max_size_amplification_percent: int | None = family(
        200, inside="compaction_options_universal"
    )
    universal_compression_size_percent: int | None = family(
        -1, -1, 100, inside="compaction_options_universal"
    )
    fifo_max_table_files_size: int | None = family(1 << 30, inside="compaction_options_fifo")

    # Compression: of all levels; of each, from level 0 on; of the last.
    compression: str | None = family("snappy")
    compression_per_level: tuple[str, ...] | None = family(())
    bottommost_compression: str | None = family("same")

    # Work in the background, and when writers must wait for it.
    max_background_jobs: int | None = store(2, least=1)
    max_subcompactions: int | None = store(1, least=1)
    level0_slowdown_writes_trigger: int | None = family(20)
    level0_stop_writes_trigger: int | None = family(36)
    soft_pending_compaction_bytes_limit: int | None = family(64 << 30)
    hard_pending_compaction_bytes_limit: int | None = family(256 << 30)
    delayed_write_rate: int | None = store(0)

    # Files, the write-ahead log, and what RocksDB tells of itself.
    max_open_files: int | None = store(-1, least=-1)
    rate_limit_bytes_per_second: int | None = io(0)
    bytes_per_sync: int | None = store(0)
    wal_bytes_per_sync: int | None = store(0)
    compaction_readahead_size: int | None = store(2 << 20)
    use_direct_reads: bool | None = store(default=False)
    use_direct_io_for_flush_and_compaction: bool | None = store(default=False)
    allow_fallocate: bool | None = store(default=True)
    max_total_wal_size: int | None = store(0)
    atomic_flush: bool | None = store(default=False)
    avoid_flush_during_shutdown: bool | None = store(default=False)
    info_log_level: str | None = store("info")
    stats_dump_period_sec: int | None = store(600)
    statistics: bool | None = io(default=False)

    # Reads and writes.
    fill_cache: bool | None = io(default=True)
    readahead_bytes: int | None = io(0)
    prefix_same_as_start: bool | None = io(default=False)
    disable_wal: bool | None = io(default=False)
    sync: bool | None = io(default=False)

    unknown: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)

    def __post_init__(self) -> None:
        for option, value in checked(self).items():
            object.__setattr__(self, option, value)

    def options(self) -> dict[str, Any]:
        """Return every option by name; what is unknown is None.

        Examples
        --------
        >>> OptionSet().options()["write_buffer_size"]
        67108864
        """
        return {name: getattr(self, name) for name in options_of(type(self))}


def defaults_beside(options: OptionSet) -> dict[str, Any]:
    """Return RocksDB's own values of every option, as it derives some from others of a set.

    The style and the rate limit decide over some others.

    Examples
    --------
    >>> defaults_beside(OptionSet(compaction_style="universal"))["periodic_compaction_seconds"]
    2592000
    """
    derived = OptionSet(
        compaction_style=options.compaction_style or "level",
        rate_limit_bytes_per_second=options.rate_limit_bytes_per_second or 0,
    )
    return derived.options() | {"compaction_style": "level", "rate_limit_bytes_per_second": 0}
