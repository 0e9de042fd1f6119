"""Which options a profile has: how each engine calls them, what makes sense, what files tell.

Each option is one row of :class:`OptionSet`: its type, RocksDB's own value, the least and the most
that RocksDB takes, where OPTIONS files hold it, and what Kafka Streams' Java, rocksdict and Spark
call it, where that isn't its name. A value is checked alone by its row, and together with others
as a profile is made.

What nobody set is left, as :class:`Left` marks it: an engine is told only what was set.

People type values (``32 MiB``, ``true``, ``lz4``, ``none, none, lz4``: :func:`parse_option`);
OPTIONS files have their own text for them (``kLZ4Compression``, braces in braces, no objects):
:func:`find_options` reads it, and says of what it can't read why that is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, FormatError, InputError
from kstoolkit.rocksdb.files.options import option_files, option_in, parse_options

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.options import OptionsSection


@dataclass(frozen=True, slots=True)
class Spelling:
    """One named value, as each engine writes it; of Java and rocksdict with its class."""

    in_options: str
    in_java: str
    in_rocksdict: str | None = None
    in_spark: str | None = None


Words = dict[str, Spelling]  # an option's named values: our word for each, and everybody else's


def _compression(in_options: str, in_java: str, in_rocksdict: str, in_spark: str) -> Spelling:
    java, rocksdict = f"CompressionType.{in_java}_COMPRESSION", f"DBCompressionType.{in_rocksdict}"
    return Spelling(in_options, java, rocksdict, in_spark)


_COMPRESSION = {
    "none": _compression("kNoCompression", "NO", "none", "none"),
    "snappy": _compression("kSnappyCompression", "SNAPPY", "snappy", "snappy"),
    "zlib": _compression("kZlibCompression", "ZLIB", "zlib", "z"),
    "bzip2": _compression("kBZip2Compression", "BZLIB2", "bz2", "bzip2"),
    "lz4": _compression("kLZ4Compression", "LZ4", "lz4", "lz4"),
    "lz4hc": _compression("kLZ4HCCompression", "LZ4HC", "lz4hc", "lz4hc"),
    "zstd": _compression("kZSTD", "ZSTD", "zstd", "zstd"),
}
_BOTTOMMOST = {
    "same": Spelling("kDisableCompressionOption", "CompressionType.DISABLE_COMPRESSION_OPTION"),
    **_COMPRESSION,
}
_STYLES = {
    word: Spelling(
        f"kCompactionStyle{in_options}",
        f"CompactionStyle.{word.upper()}",
        f"DBCompactionStyle.{word}",
    )
    for word, in_options in (("level", "Level"), ("universal", "Universal"), ("fifo", "FIFO"))
}
_PRIORITIES = {
    word: Spelling(f"k{name}", f"CompactionPriority.{name}")
    for word, name in (
        ("by_compensated_size", "ByCompensatedSize"),
        ("oldest_largest_seq_first", "OldestLargestSeqFirst"),
        ("oldest_smallest_seq_first", "OldestSmallestSeqFirst"),
        ("min_overlapping_ratio", "MinOverlappingRatio"),
        ("round_robin", "RoundRobin"),
    )
}


def _block_words(java: str, rocksdict: str, *words: tuple[str, str, str]) -> Words:
    """Return words for which RocksJava has the names of OPTIONS files."""
    return {
        word: Spelling(in_options, f"{java}.{in_options}", f"{rocksdict}.{in_rocksdict}")
        for word, in_options, in_rocksdict in words
    }


_INDEXES = _block_words(
    "IndexType",
    "BlockBasedIndexType",
    ("binary_search", "kBinarySearch", "binary_search"),
    ("hash_search", "kHashSearch", "hash_search"),
    ("two_level_search", "kTwoLevelIndexSearch", "two_level_index_search"),
)
_DATA_INDEXES = _block_words(
    "DataBlockIndexType",
    "DataBlockIndexType",
    ("binary_search", "kDataBlockBinarySearch", "binary_search"),
    ("binary_and_hash", "kDataBlockBinaryAndHash", "binary_and_hash"),
)
_CHECKSUMS = _block_words(
    "ChecksumType",
    "ChecksumType",
    ("none", "kNoChecksum", "no_checksum"),
    ("crc32c", "kCRC32c", "crc32c"),
    ("xxhash", "kxxHash", "xxhash"),
    ("xxhash64", "kxxHash64", "xxhash64"),
    ("xxh3", "kXXH3", "xxh3"),
)
_LOG_LEVELS = {
    level.lower(): Spelling(f"{level}_LEVEL", f"InfoLogLevel.{level}_LEVEL")
    for level in ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "HEADER")
}


class OptionPlace(StrEnum):
    """Where RocksDB's OPTIONS files hold an option."""

    STORE = "DBOptions"
    FAMILY = "CFOptions"
    TABLE = "TableOptions/BlockBasedTable"
    NOWHERE = "not in OPTIONS files"


@dataclass(frozen=True, slots=True)
class Option:
    """What is known of an option beside its name.

    ``place`` is where OPTIONS files hold it, ``inside`` the braces of which option; ``default``
    RocksDB 9.8.4's own value, beside the ``least`` and ``most`` that makes sense. ``called`` stands
    in setters' names, where that isn't the option's, ``java`` and ``rocksdict`` where these differ
    otherwise. ``not_in_java`` is why a ``RocksDBConfigSetter`` can't or mustn't set it; ``spark``
    the end of Spark's key, and in which unit that takes a number; no key if Spark has none.
    """

    place: OptionPlace
    default: Any
    least: float = 0
    most: float | None = None
    inside: str | None = None
    words: Words = field(default_factory=dict)
    called: str | None = None
    java: str | None = None
    not_in_java: str | None = None
    rocksdict: str | None = None
    in_rocksdict: bool = True
    spark: tuple[str, int] = ("", 1)


@dataclass(frozen=True, slots=True)
class Left:
    """A value that nobody set, with its own repr: as RocksDB, an engine or a file has it."""

    value: Any

    def __repr__(self) -> str:
        return repr(self.value)


def _option(place: OptionPlace, default: Any, least: float = 0, **more: Any) -> Any:
    return field(default=Left(default), metadata={"option": Option(place, default, least, **more)})


_store = partial(_option, OptionPlace.STORE)
_family = partial(_option, OptionPlace.FAMILY)
_table = partial(_option, OptionPlace.TABLE)
_nowhere = partial(_option, OptionPlace.NOWHERE)
_universal = partial(_family, inside="compaction_options_universal")

_NO_LOG = "Kafka Streams never writes a write-ahead log, and ignores its setters"
_OWN_CALLS = "Kafka Streams makes its reads and writes itself"
_NOT_MERGED = "Kafka Streams flushes atomically from 4.3 on, without it"
_FLUSHED = "left to Kafka Streams, which sets it from 4.3 on for the offsets in the store"
_LOST = "it has no write-ahead log: what is in memtables would be lost when it closes"
_SCANS = "range, reverseRange and prefixScan would find nothing, in silence"
_OWN_METRICS = "Kafka Streams would no longer export its own: use metrics.recording.level=DEBUG"
_DELETES = "the fifo style deletes the oldest rows, which the changelog topic still has"

_DAY = 86_400
ROCKSDB = "rocksdb"  # the base of a profile of which all that nobody set is RocksDB's own


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSet:
    """A set of RocksDB options; each default is RocksDB 9.8.4's own.

    Options have the names that RocksDB's OPTIONS files give them; sizes are bytes. Zero (or
    nothing) is off; ``None`` is unknown, and ``unknown`` says why.

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
        then need ``total_order_seek`` to find what follows a key whose prefix is absent.
    bloom_bits_per_key
        Of the filter in each SST file (0: no filter).
    universal_size_ratio, universal_min_merge_width, ..., fifo_max_table_files_size
        What stands in the braces of compaction_options_universal and compaction_options_fifo.
    rate_limit_bytes_per_second, statistics
        A limit for flushes and compactions together (0: none); whether RocksDB counts what it does.
    fill_cache, readahead_bytes, prefix_same_as_start, disable_wal, sync
        Options of reads and of writes.
    name, purpose, base
        What the set is called, whom it is for, and who left what nobody set: RocksDB, an engine, or
        an OPTIONS file.
    given, why
        The options that were set, and reasons by their names. None of these five is compared.
    """

    # Memtables.
    write_buffer_size: int | None = _family(
        64 << 20, least=64 << 10, spark=("writeBufferSizeMB", 1 << 20)
    )
    max_write_buffer_number: int | None = _family(2, least=2, spark=("maxWriteBufferNumber", 1))
    min_write_buffer_number_to_merge: int | None = _family(1, least=1, not_in_java=_NOT_MERGED)
    memtable_prefix_bloom_size_ratio: float | None = _family(
        0.0, most=0.25, rocksdict="memtable_prefix_bloom_ratio"
    )
    memtable_whole_key_filtering: bool | None = _family(default=False)

    # Memory that many stores may share.
    block_cache_bytes: int | None = _nowhere(32 << 20, spark=("blockCacheSizeMB", 1 << 20))
    block_cache_shared: bool | None = _nowhere(default=False)
    strict_capacity_limit: bool | None = _nowhere(default=False, in_rocksdict=False)
    high_pri_pool_ratio: float | None = _nowhere(0.5, most=1, in_rocksdict=False)
    write_buffer_manager_bytes: int | None = _nowhere(0)
    write_buffer_manager_in_cache: bool | None = _nowhere(default=False)
    write_buffer_manager_allow_stall: bool | None = _nowhere(default=False)

    # Blocks, their index and their filters.
    prefix_bytes: int | None = _family(0, not_in_java=_SCANS)
    block_size: int | None = _table(4096, least=1, spark=("blockSizeKB", 1 << 10))
    block_restart_interval: int | None = _table(16, least=1)
    format_version: int | None = _table(6, most=7, spark=("formatVersion", 1))
    checksum: str | None = _table("xxh3", words=_CHECKSUMS, called="checksum_type")
    bloom_bits_per_key: float | None = _table(0.0)
    whole_key_filtering: bool | None = _table(default=True, in_rocksdict=False)
    optimize_filters_for_memory: bool | None = _table(default=True, in_rocksdict=False)
    optimize_filters_for_hits: bool | None = _family(default=False)
    cache_index_and_filter_blocks: bool | None = _table(default=False)
    cache_index_and_filter_blocks_with_high_priority: bool | None = _table(
        default=True, in_rocksdict=False
    )
    pin_l0_filter_and_index_blocks_in_cache: bool | None = _table(default=False)
    pin_top_level_index_and_filter: bool | None = _table(default=True)
    index_type: str | None = _table("binary_search", words=_INDEXES)
    partition_filters: bool | None = _table(default=False)
    metadata_block_size: int | None = _table(4096, least=1)
    data_block_index_type: str | None = _table("binary_search", words=_DATA_INDEXES)
    data_block_hash_table_util_ratio: float | None = _table(0.75, rocksdict="data_block_hash_ratio")

    # Compaction.
    compaction_style: str | None = _family("level", words=_STYLES)
    compaction_pri: str | None = _family(
        "min_overlapping_ratio", words=_PRIORITIES, called="compaction_priority", in_rocksdict=False
    )
    disable_auto_compactions: bool | None = _family(default=False)
    num_levels: int | None = _family(7, least=1)
    level0_file_num_compaction_trigger: int | None = _family(4, least=1)
    target_file_size_base: int | None = _family(64 << 20, least=1)
    target_file_size_multiplier: int | None = _family(1, least=1)
    max_bytes_for_level_base: int | None = _family(256 << 20, least=1)
    max_bytes_for_level_multiplier: float | None = _family(10.0, least=1)
    level_compaction_dynamic_level_bytes: bool | None = _family(default=True)
    ttl: int | None = _family(30 * _DAY, in_rocksdict=False)
    periodic_compaction_seconds: int | None = _family(0, in_rocksdict=False)
    universal_size_ratio: int | None = _universal(1)
    universal_min_merge_width: int | None = _universal(2, least=2)
    universal_max_merge_width: int | None = _universal(2**32 - 1, least=2)
    universal_max_size_amplification_percent: int | None = _universal(200)
    universal_compression_size_percent: int | None = _universal(-1, least=-1, most=100)
    fifo_max_table_files_size: int | None = _family(
        1 << 30, inside="compaction_options_fifo", not_in_java=_DELETES
    )

    # Compression: of all levels; of each, from level 0 on; of the last.
    compression: str | None = _family(
        "snappy", words=_COMPRESSION, called="compression_type", spark=("compression", 1)
    )
    compression_per_level: tuple[str, ...] | None = _family((), words=_COMPRESSION)
    bottommost_compression: str | None = _family(
        "same", words=_BOTTOMMOST, called="bottommost_compression_type"
    )

    # Work in the background, and when writers must wait for it.
    max_background_jobs: int | None = _store(2, least=1)
    max_subcompactions: int | None = _store(1, least=1)
    level0_slowdown_writes_trigger: int | None = _family(20)
    level0_stop_writes_trigger: int | None = _family(36)
    soft_pending_compaction_bytes_limit: int | None = _family(64 << 30)
    hard_pending_compaction_bytes_limit: int | None = _family(256 << 30)
    delayed_write_rate: int | None = _store(0, in_rocksdict=False)

    # Files, the write-ahead log, and what RocksDB tells of itself.
    max_open_files: int | None = _store(-1, least=-1, spark=("maxOpenFiles", 1))
    rate_limit_bytes_per_second: int | None = _nowhere(0)
    bytes_per_sync: int | None = _store(0)
    wal_bytes_per_sync: int | None = _store(0, not_in_java=_NO_LOG)
    compaction_readahead_size: int | None = _store(2 << 20)
    use_direct_reads: bool | None = _store(default=False)
    use_direct_io_for_flush_and_compaction: bool | None = _store(default=False)
    allow_fallocate: bool | None = _store(
        default=True, java="setAllowFAllocate", in_rocksdict=False, spark=("allowFAllocate", 1)
    )
    max_total_wal_size: int | None = _store(0, not_in_java=_NO_LOG)
    atomic_flush: bool | None = _store(default=False, not_in_java=_FLUSHED)
    avoid_flush_during_shutdown: bool | None = _store(
        default=False, in_rocksdict=False, not_in_java=_LOST
    )
    info_log_level: str | None = _store("info", words=_LOG_LEVELS, in_rocksdict=False)
    max_log_file_size: int | None = _store(0)
    keep_log_file_num: int | None = _store(1000, least=1)
    stats_dump_period_sec: int | None = _store(600)
    statistics: bool | None = _nowhere(default=False, not_in_java=_OWN_METRICS)

    # Reads and writes.
    fill_cache: bool | None = _nowhere(default=True, not_in_java=_OWN_CALLS)
    readahead_bytes: int | None = _nowhere(0, not_in_java=_OWN_CALLS)
    prefix_same_as_start: bool | None = _nowhere(default=False, not_in_java=_OWN_CALLS)
    disable_wal: bool | None = _nowhere(default=False, not_in_java=_NO_LOG)
    sync: bool | None = _nowhere(default=False, not_in_java=_NO_LOG)

    unknown: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    name: str = field(default="", compare=False)
    purpose: str = field(default="", compare=False)
    base: str = field(default=ROCKSDB, compare=False)
    why: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    given: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        passed = self.options()
        given = tuple(name for name, value in passed.items() if not isinstance(value, Left))
        object.__setattr__(self, "given", given)
        for name in OPTIONS.keys() - set(given):
            object.__setattr__(self, name, passed[name].value)
        texts: dict[str, object] = {"name": self.name, "purpose": self.purpose}
        for what, text in texts.items():
            if not isinstance(text, str):
                message = f"A profile's {what} is {text!r}, which is no text."
                raise ConfigurationError(message, hint=f"Give one, such as {what}='mine'.")
        for option, value in _checked(self).items():
            object.__setattr__(self, option, value)

    def options(self) -> dict[str, Any]:
        """Return every option by name; what is unknown is None."""
        return {name: getattr(self, name) for name in OPTIONS}

    def changes(self) -> dict[str, Any]:
        """Return the options that are known and differ from RocksDB's own."""
        own = defaults_beside(self)
        known = {name: value for name, value in self.options().items() if value is not None}
        return {name: value for name, value in known.items() if value != own[name]}

    def settings(self) -> dict[str, Any]:
        """Return the options that were set, be they RocksDB's own values or not."""
        return {name: getattr(self, name) for name in self.given}


OPTIONS: dict[str, Option] = {
    each.name: each.metadata["option"] for each in fields(OptionSet) if "option" in each.metadata
}
"""Every option by name, in the order of a profile's."""

_EFFECTS = {
    "write_buffer_size": "Larger: fewer flushes and less rewriting, for memory of each store",
    "max_write_buffer_number": "More: writes go on while others are flushed, for their memory",
    "min_write_buffer_number_to_merge": "More: what is written twice is flushed once, in memory",
    "memtable_prefix_bloom_size_ratio memtable_whole_key_filtering": "Gets skip memtables",
    "block_cache_bytes": "Larger: fewer reads from files, for memory",
    "block_cache_shared strict_capacity_limit": "One bound of memory for all stores",
    "high_pri_pool_ratio cache_index_and_filter_blocks_with_high_priority": "Scans evict no index",
    "write_buffer_manager_bytes write_buffer_manager_in_cache": "A bound for all memtables",
    "write_buffer_manager_allow_stall": "The bound of memtables holds, and writes wait for it",
    "prefix_bytes": "Blooms and hashes know prefixes; iterators need total order",
    "block_size": "Larger: smaller indexes and files, but more is read for a get",
    "block_restart_interval": "Larger: smaller blocks, and slower gets inside them",
    "format_version checksum": "How files are written; older readers can't read newer ones",
    "bloom_bits_per_key": "More: gets of absent keys read fewer files, for memory",
    "whole_key_filtering optimize_filters_for_memory": "What filters know, and what they take",
    "optimize_filters_for_hits": "No filter of the last level: less memory, if keys are there",
    "cache_index_and_filter_blocks": "Indexes are bounded by the cache, and may be evicted",
    "pin_l0_filter_and_index_blocks_in_cache pin_top_level_index_and_filter": "Some stay cached",
    "index_type partition_filters metadata_block_size": "How much of an index a get has to load",
    "data_block_index_type data_block_hash_table_util_ratio": "Gets search less in a block",
    "compaction_style": "level: less disk; universal: less rewriting; fifo: old rows go",
    "compaction_pri": "Which file is merged first",
    "disable_auto_compactions": "Nothing is merged: writes are cheap, gets ever slower",
    "num_levels level_compaction_dynamic_level_bytes": "How deep the tree is, and disk it takes",
    "level0_file_num_compaction_trigger": "More: merged less often, so gets look into more files",
    "target_file_size_base target_file_size_multiplier": "Larger: fewer files, larger merges",
    "max_bytes_for_level_base max_bytes_for_level_multiplier": "Larger: fewer levels, more merged",
    "ttl periodic_compaction_seconds": "Files so old are rewritten: what was deleted goes",
    "universal_size_ratio universal_min_merge_width universal_max_merge_width": "When runs merge",
    "universal_max_size_amplification_percent": "Smaller: less disk, and all is merged more often",
    "universal_compression_size_percent fifo_max_table_files_size": "Disk that is taken at most",
    "compression compression_per_level bottommost_compression": "Smaller files for CPU",
    "max_background_jobs max_subcompactions": "More: merges keep up, for cores",
    "level0_slowdown_writes_trigger level0_stop_writes_trigger": "Writes wait for merges from here",
    "soft_pending_compaction_bytes_limit hard_pending_compaction_bytes_limit": "Debts that stall",
    "delayed_write_rate rate_limit_bytes_per_second": "How fast one may write, or merge, then",
    "max_open_files": "Fewer: less memory and handles, but files are opened again",
    "bytes_per_sync wal_bytes_per_sync": "Writing to the disk is spread, not in bursts",
    "compaction_readahead_size readahead_bytes": "Larger: faster scans and merges on slow disks",
    "use_direct_reads use_direct_io_for_flush_and_compaction": "Beside the page cache",
    "allow_fallocate": "Room is taken ahead; some file systems then show too much",
    "max_total_wal_size atomic_flush avoid_flush_during_shutdown": "When memtables are flushed",
    "info_log_level max_log_file_size keep_log_file_num": "What the log tells, and keeps",
    "stats_dump_period_sec statistics": "What RocksDB counts of itself, for a little time",
    "fill_cache": "Whether reads displace what is cached",
    "prefix_same_as_start": "Iterators end with their prefix",
    "disable_wal sync": "What a crash may lose, for time of each write",
}
EFFECTS = {name: effect for names, effect in _EFFECTS.items() for name in names.split()}
"""What each option changes, in a few words."""


def _checked(profile: OptionSet) -> dict[str, Any]:
    """Return the options that RocksDB itself would set otherwise, with what it would set."""
    values = profile.options()
    for name, option in OPTIONS.items():
        if values[name] is not None:
            _check(name, values[name], option)
        elif name not in profile.unknown:
            message = f"{name} is None, and why it is unknown isn't said."
            hint = f"Give a value, or unknown={{{name!r}: 'why'}}."
            raise ConfigurationError(message, hint=hint)
    _check_together(values)
    return _sanitized(values)


def _check(name: str, value: Any, option: Option) -> None:
    if option.words:
        several = name == "compression_per_level" and isinstance(value, (tuple, list))
        wrong = [word for word in (value if several else [value]) if word not in option.words]
        if wrong:
            message = f"{name} can't be {wrong[0]!r}."
            raise ConfigurationError(message, hint=f"It can be: {', '.join(option.words)}.")
    elif not _same_kind(value, option.default):
        message = f"{name} is {value!r}, which is no {type(option.default).__name__}."
        raise ConfigurationError(message, hint=f"RocksDB's own value is {option.default!r}.")
    elif not isinstance(value, bool):
        limit = f"the least that RocksDB takes is {option.least}" if value < option.least else ""
        if option.most is not None and value > option.most:
            limit = f"the most that RocksDB takes is {option.most}"
        if limit:
            message = f"{name} is {value}; {limit}."
            raise ConfigurationError(message, hint=f"RocksDB's own value is {option.default}.")


def _same_kind(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))


def _check_together(values: dict[str, Any]) -> None:
    _check_order(values, "level0_slowdown_writes_trigger", "level0_file_num_compaction_trigger")
    _check_order(values, "level0_stop_writes_trigger", "level0_slowdown_writes_trigger")
    if values["hard_pending_compaction_bytes_limit"]:  # zero is no limit
        hard, soft = (f"{how}_pending_compaction_bytes_limit" for how in ("hard", "soft"))
        _check_order(values, hard, soft)
    if values["index_type"] == "hash_search" and values["prefix_bytes"] == 0:
        message = "index_type is 'hash_search', which needs a prefix, and prefix_bytes is 0."
        hint = "Set prefix_bytes to the length of what your lookups have in common."
        raise ConfigurationError(message, hint=hint)
    index = values["index_type"]
    if values["partition_filters"] and index not in {"two_level_search", None}:
        message = f"partition_filters needs index_type 'two_level_search', not {index!r}."
        raise ConfigurationError(message, hint="Set both, or neither.")
    if values["write_buffer_manager_in_cache"] and values["block_cache_bytes"] == 0:
        message = "The write-buffer manager is to take its budget from a block cache of 0 bytes."
        raise ConfigurationError(message, hint="Give block_cache_bytes, or take it from no cache.")
    if values["sync"] and values["disable_wal"]:
        message = "sync is True and disable_wal too: there is no log to wait for."
        raise ConfigurationError(message, hint="Choose one of them.")


def _check_order(values: dict[str, Any], upper: str, lower: str) -> None:
    if values[upper] is None or values[lower] is None or values[upper] >= values[lower]:
        return
    message = f"{upper} is {values[upper]}, below {lower}, which is {values[lower]}."
    raise ConfigurationError(message, hint="Raise the first or lower the second.")


def _sanitized(values: dict[str, Any]) -> dict[str, Any]:
    """Return what RocksDB's SanitizeOptions would change (db/column_family.cc, db_impl_open.cc)."""
    found: dict[str, Any] = {}
    if values["compression_per_level"] is not None:
        found["compression_per_level"] = tuple(values["compression_per_level"])
    if values["compaction_style"] not in {"level", None}:
        found["level_compaction_dynamic_level_bytes"] = False
    every = values["periodic_compaction_seconds"]
    if values["compaction_style"] == "universal" and values["ttl"] and every is not None:
        found["periodic_compaction_seconds"] = min(every or values["ttl"], values["ttl"])
    if values["atomic_flush"]:
        found["min_write_buffer_number_to_merge"] = 1
    if values["bytes_per_sync"] == 0 and values["rate_limit_bytes_per_second"]:
        found["bytes_per_sync"] = 1 << 20
    if values["delayed_write_rate"] == 0:
        found["delayed_write_rate"] = values["rate_limit_bytes_per_second"] or 16 << 20
    return found


def defaults_beside(options: OptionSet) -> dict[str, Any]:
    """Return RocksDB's own values of every option, as it derives some from others of a set.

    >>> defaults_beside(OptionSet(compaction_style="universal"))["periodic_compaction_seconds"]
    2592000
    """
    derived = OptionSet(
        compaction_style=options.compaction_style or "level",
        rate_limit_bytes_per_second=options.rate_limit_bytes_per_second or 0,
    )
    return derived.options() | {"compaction_style": "level", "rate_limit_bytes_per_second": 0}


_NUMBER = re.compile(
    r"([+-]?\d[\d_,]*(?:\.\d+)?(?:e\d{1,2})?)\s*([kmgt]?)(?:i?b|ytes)?", re.IGNORECASE
)
_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse_option(name: str, text: str) -> Any:
    """Return the value of an option of :class:`OptionSet`, of the type that the option has.

    The text is a whole number with or without a unit of 1024 (``KiB``, ``MB``, ``g`` ...), ``true``
    or ``false``, a word, or words with commas between them; another one is a ConfigurationError.
    Whether the value makes sense is for the profile to say.

    >>> parse_option("write_buffer_size", "32 MiB"), parse_option("compression", " lz4 ")
    (33554432, 'lz4')
    >>> parse_option("cache_index_and_filter_blocks", "yes")
    True
    """
    option = OPTIONS.get(name)
    if option is None:
        message = f"There is no option {name!r}."
        raise ConfigurationError(message, hint=f"There are: {', '.join(OPTIONS)}.")
    if isinstance(option.default, tuple):
        return tuple(word for each in text.split(",") if (word := each.strip()))
    if option.words:
        return text.strip()
    if isinstance(option.default, bool):
        found = _TRUTHS.get(text.strip().lower())
        if found is None:
            message = f"{name} is either true or false, not {text!r}."
            raise ConfigurationError(message, hint="Type true or false.")
        return found
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        message = f"{name} is a number, not {text!r}."
        raise ConfigurationError(message, hint=f"Such as {option.default!r}, or 32 MiB for a size.")
    value = float(match[1].replace(",", "").replace("_", "")) * (1 << _POWERS[match[2].lower()])
    return value if isinstance(option.default, float) else int(value)


_INSIDE = re.compile(r"(\w+)=([^;{}]*)")
_BLOOM = re.compile(r"(?:rocksdb\.)?bloomfilter:([\d.]+)(?::.*)?")
_PREFIX = re.compile(r"(?:rocksdb\.FixedPrefix\.|fixed:)(\d+)")
_NONE = {None, "", "nullptr"}
_HINT = "Give an OPTIONS-* file, or the folder of a store that RocksDB has opened."
_OBJECTS = "OPTIONS files hold no caches, budgets, limiters or statistics"
_CALLS = "reads and writes are given it one by one; OPTIONS files don't hold it"
_OF_CALLS = {"fill_cache", "readahead_bytes", "prefix_same_as_start", "disable_wal", "sync"}
_Entries = dict[OptionPlace, dict[str, str]]


def find_options(path: str | os.PathLike[str], column_family: str) -> dict[str, Any]:
    """Return what makes a profile lie over an OPTIONS file: what it says of a column family.

    With the options come their name and purpose, and why those that are None are unknown.
    """
    file = _options_file(Path(path))
    try:
        found = _found(file, column_family)
    except FormatError as error:
        if file != Path(path):
            raise
        message = f"{file} is no OPTIONS file of RocksDB."
        raise InputError(message, hint=_HINT) from error
    if file == Path(path):
        return found
    logged = _logged(Path(path) / "LOG", column_family)
    new = {name: Left(value) for name, value in logged.items() if found["unknown"].pop(name, None)}
    beside = f"{found['purpose'].removesuffix('.')} and LOG." if new else found["purpose"]
    return found | new | {"purpose": beside}


def _found(file: Path, column_family: str) -> dict[str, Any]:
    sections = parse_options(_text(file))
    version = option_in(sections, "Version", "rocksdb_version") or "an unknown version"
    entries = _entries(sections, column_family, file)
    told = {name: _value(name, option, entries, version) for name, option in OPTIONS.items()}
    values: dict[str, Any] = {name: Left(value) for name, (value, _) in told.items()}
    unknown = {name: why for name, (_, why) in told.items() if why}
    purpose = f"What RocksDB {version} was given for {column_family!r}, by {file.name}."
    return values | {"name": file.absolute().parent.name, "purpose": purpose, "unknown": unknown}


def _options_file(path: Path) -> Path:
    try:
        if path.is_file():
            return path
        if not path.is_dir():
            message = f"There is no {path}."
            raise InputError(message, hint=_HINT)
        files = option_files(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not files:
        message = f"The folder {path} has no OPTIONS file."
        raise InputError(message, hint=_HINT)
    return files[0]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"{file} is no OPTIONS file of RocksDB: byte {error.start} is no text."
        raise FormatError(message, hint=_HINT) from error
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(path: Path, error: OSError) -> InputError:
    message = f"{path} can't be read: {error.strerror}."
    return InputError(message, hint=f"{_HINT} Check that you may read it.")


def _entries(sections: Records[OptionsSection], column_family: str, file: Path) -> _Entries:
    families = sorted(
        each.column_family
        for each in sections
        if each.kind == OptionPlace.FAMILY and each.column_family
    )
    if not families:
        message = f"{file} is no OPTIONS file of RocksDB: it has no column family."
        raise FormatError(message, hint=_HINT)
    if column_family not in families:
        message = f"{file} has no column family {column_family!r}."
        raise InputError(message, hint=f"It has: {', '.join(families)}.")
    return {
        OptionPlace(each.kind): each.options
        for each in sections
        if each.kind in set(OptionPlace) and each.column_family in {None, column_family}
    }


def _value(name: str, option: Option, entries: _Entries, version: str) -> tuple[Any, str | None]:
    """Return an option's value and None, or None and why it is unknown."""
    if option.place is OptionPlace.NOWHERE:
        return _of_object(name, entries.get(OptionPlace.TABLE, {}))
    if option.place not in entries:
        return None, f"the OPTIONS file has no section {option.place.value}"
    if name == "bloom_bits_per_key":
        policy = entries[OptionPlace.TABLE].get("filter_policy")
        return _named(policy, _BLOOM, 0.0, "the filter {!r} without its bits")
    if name == "prefix_bytes":
        extractor = entries[OptionPlace.FAMILY].get("prefix_extractor")
        return _named(extractor, _PREFIX, 0, "{!r}, which is no prefix of fixed length")
    text = _written(name, option, entries[option.place])
    if text is None:
        empty = name == "compression_per_level"  # which isn't written if it is empty
        return ((), None) if empty else (None, f"RocksDB {version} wrote no such option")
    return _parsed(option, text)


def _of_object(name: str, table: dict[str, str]) -> tuple[Any, str | None]:
    if name == "block_cache_bytes" and table.get("no_block_cache") == "true":
        return 0, None
    return None, _CALLS if name in _OF_CALLS else _OBJECTS


def _written(name: str, option: Option, entries: dict[str, str]) -> str | None:
    if option.inside is None:
        return entries.get(name)
    within = dict(_INSIDE.findall(entries.get(option.inside, "")))
    return within.get(name.partition("_")[2])


def _parsed(option: Option, text: str) -> tuple[Any, str | None]:
    if option.words:
        several = isinstance(option.default, tuple)
        parts = [part for part in text.split(":") if part] if several else [text]
        in_words = {each.in_options: word for word, each in option.words.items()}
        words = [in_words.get(part) for part in parts]
        if None in words:
            return None, f"the OPTIONS file says {text!r}, for which there is no word here"
        return (tuple(words) if several else words[0]), None
    if isinstance(option.default, bool):
        known = {"true": True, "false": False}.get(text)
        return known, None if known is not None else f"the OPTIONS file says {text!r}"
    try:
        return type(option.default)(text), None
    except ValueError:
        return None, f"the OPTIONS file says {text!r}"


_LOGGED: dict[str, tuple[str, Callable[[str], Any]]] = {
    "block_cache_bytes": (r"^ +capacity : (\d{1,18})$", int),
    "strict_capacity_limit": (r"^ +strict_capacity_limit : ([01])$", "1".__eq__),
    "high_pri_pool_ratio": (r"^ +high_pri_pool_ratio: ([01]\.\d+)$", float),
}
_LOGGED_BITS = r'"cf_name": "%s".*"filter_size": (\d{1,12}),.*"num_filter_entries": (\d{1,12}),'
_FEW_KEYS, _SPARE_BYTES = 2_000, 37  # of a filter, of which half a line of a cache, and a trailer


def _logged(log: Path, column_family: str) -> dict[str, Any]:
    """Return what a store's log tells, since it was opened last, that OPTIONS files don't hold."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    except OSError:
        return {}
    family, begins = re.escape(column_family), "Options for column family ["
    given = text.partition(f"{begins}{column_family}]")[2].partition(begins)[0]
    told = {
        name: (re.search(each, given, re.MULTILINE), of) for name, (each, of) in _LOGGED.items()
    }
    found = {name: of(match[1]) for name, (match, of) in told.items() if match}
    # Without a write-ahead log, the one that is there stays empty, and so is used on and on.
    logs = re.findall(r"\[(.+)\] New memtable created with log file: #(\d+)", text)
    if len(logs) > len({name for name, _ in logs}):  # families share it: one has had two of it
        found["disable_wal"] = len({number for _, number in logs}) == 1
    filters = [[*map(int, each)] for each in re.findall(_LOGGED_BITS % family, text)]
    size, keys = (sum(each) for each in zip((0, 0), *filters, strict=True))
    if keys >= _FEW_KEYS:
        spare = _SPARE_BYTES * len(filters)
        found["bloom_bits_per_key"] = float(round(8 * max(size - spare, 0) / keys))
    return found


def _named(
    text: str | None, pattern: re.Pattern[str], none: float, lacks: str
) -> tuple[float | None, str | None]:
    """Return the number in an object's name, of the type of ``none``, or why it is unknown."""
    if text in _NONE:
        return none, None
    match = pattern.fullmatch(str(text))
    if match is None:
        return None, f"the OPTIONS file names {lacks.format(text)}"
    return type(none)(match[1]), None
