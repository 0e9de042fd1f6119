"""An option's value as people type it: ``32 MiB``, ``true``, ``lz4``, ``none, none, lz4``.

What an option's named values are called: here, in OPTIONS files, in Java and in rocksdict.

Which options there are, and whether their values make sense: alone, and together.

Every option that a profile has: RocksDB's name for it, its own value, and what makes sense.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, FormatError, InputError
from kstoolkit.rocksdb.files.options import option_in, parse_options

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.options import OptionsSection


@dataclass(frozen=True, slots=True)
class Spelling:
    """One named value, as each engine writes it.

    Parameters
    ----------
    in_options
        In RocksDB's OPTIONS files.
    in_java
        The constant of RocksJava, with its class.
    in_rocksdict
        The static method of the class in rocksdict; None if it has none.
    in_spark
        In Spark's configuration; None if Spark has no word for it.
    """

    in_options: str
    in_java: str
    in_rocksdict: str | None = None
    in_spark: str | None = None


_COMPRESSION = {
    "none": Spelling("kNoCompression", "CompressionType.NO_COMPRESSION", "none", "none"),
    "snappy": Spelling(
        "kSnappyCompression", "CompressionType.SNAPPY_COMPRESSION", "snappy", "snappy"
    ),
    "zlib": Spelling("kZlibCompression", "CompressionType.ZLIB_COMPRESSION", "zlib", "z"),
    "bzip2": Spelling("kBZip2Compression", "CompressionType.BZLIB2_COMPRESSION", "bz2", "bzip2"),
    "lz4": Spelling("kLZ4Compression", "CompressionType.LZ4_COMPRESSION", "lz4", "lz4"),
    "lz4hc": Spelling("kLZ4HCCompression", "CompressionType.LZ4HC_COMPRESSION", "lz4hc", "lz4hc"),
    "zstd": Spelling("kZSTD", "CompressionType.ZSTD_COMPRESSION", "zstd", "zstd"),
}

CHOICES: dict[str, dict[str, Spelling]] = {
    "compression": _COMPRESSION,
    "compression_per_level": _COMPRESSION,
    "bottommost_compression": {
        "same": Spelling("kDisableCompressionOption", "CompressionType.DISABLE_COMPRESSION_OPTION"),
        **_COMPRESSION,
    },
    "compaction_style": {
        "level": Spelling("kCompactionStyleLevel", "CompactionStyle.LEVEL", "level"),
        "universal": Spelling(
            "kCompactionStyleUniversal", "CompactionStyle.UNIVERSAL", "universal"
        ),
        "fifo": Spelling("kCompactionStyleFIFO", "CompactionStyle.FIFO", "fifo"),
    },
    "compaction_pri": {
        "by_compensated_size": Spelling(
            "kByCompensatedSize", "CompactionPriority.ByCompensatedSize"
        ),
        "oldest_largest_seq_first": Spelling(
            "kOldestLargestSeqFirst", "CompactionPriority.OldestLargestSeqFirst"
        ),
        "oldest_smallest_seq_first": Spelling(
            "kOldestSmallestSeqFirst", "CompactionPriority.OldestSmallestSeqFirst"
        ),
        "min_overlapping_ratio": Spelling(
            "kMinOverlappingRatio", "CompactionPriority.MinOverlappingRatio"
        ),
        "round_robin": Spelling("kRoundRobin", "CompactionPriority.RoundRobin"),
    },
    "index_type": {
        "binary_search": Spelling("kBinarySearch", "IndexType.kBinarySearch", "binary_search"),
        "hash_search": Spelling("kHashSearch", "IndexType.kHashSearch", "hash_search"),
        "two_level_search": Spelling(
            "kTwoLevelIndexSearch", "IndexType.kTwoLevelIndexSearch", "two_level_index_search"
        ),
    },
    "data_block_index_type": {
        "binary_search": Spelling(
            "kDataBlockBinarySearch", "DataBlockIndexType.kDataBlockBinarySearch", "binary_search"
        ),
        "binary_and_hash": Spelling(
            "kDataBlockBinaryAndHash",
            "DataBlockIndexType.kDataBlockBinaryAndHash",
            "binary_and_hash",
        ),
    },
    "checksum": {
        "none": Spelling("kNoChecksum", "ChecksumType.kNoChecksum", "no_checksum"),
        "crc32c": Spelling("kCRC32c", "ChecksumType.kCRC32c", "crc32c"),
        "xxhash": Spelling("kxxHash", "ChecksumType.kxxHash", "xxhash"),
        "xxhash64": Spelling("kxxHash64", "ChecksumType.kxxHash64", "xxhash64"),
        "xxh3": Spelling("kXXH3", "ChecksumType.kXXH3", "xxh3"),
    },
    "info_log_level": {
        level.lower(): Spelling(f"{level}_LEVEL", f"InfoLogLevel.{level}_LEVEL")
        for level in ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "HEADER")
    },
}
"""For each option with named values: our word for each, and everybody else's."""


def word_of(option: str, in_options: str) -> str | None:
    """Return our word for a value as an OPTIONS file writes it; None if there is none.

    Examples
    --------
    >>> word_of("compaction_style", "kCompactionStyleUniversal")
    'universal'
    """
    spellings = CHOICES[option].items()
    return next((word for word, each in spellings if each.in_options == in_options), None)


_HASH_INDEX_HINT = "Set prefix_bytes to the length of what your lookups have in common."


class Section(StrEnum):
    """Where RocksDB's OPTIONS files hold an option."""

    STORE = "DBOptions"
    FAMILY = "CFOptions"
    TABLE = "TableOptions/BlockBasedTable"
    NOWHERE = "not in OPTIONS files"


@dataclass(frozen=True, slots=True)
class Option:
    """What is known of an option beside its name.

    Parameters
    ----------
    section
        Where OPTIONS files hold it.
    least, most
        The smallest and largest number that makes sense; None: no limit.
    default
        RocksDB 9.8.4's own value.
    inside
        The option of an OPTIONS file whose braces hold it, if any.
    """

    section: Section
    default: Any
    least: float | None = None
    most: float | None = None
    inside: str | None = None


def family(
    default: Any, least: float = 0, most: float | None = None, inside: str | None = None
) -> Any:
    """Return a dataclass field for an option of a column family."""
    return _field(Option(Section.FAMILY, default, least, most, inside))


def table(default: Any, least: float = 0, most: float | None = None) -> Any:
    """Return a dataclass field for an option of the block-based table."""
    return _field(Option(Section.TABLE, default, least, most))


def store(default: Any, least: float = 0) -> Any:
    """Return a dataclass field for an option of a whole store."""
    return _field(Option(Section.STORE, default, least))


def memory(default: Any, most: float | None = None) -> Any:
    """Return a dataclass field for a property of the cache or the write-buffer manager."""
    return _field(Option(Section.NOWHERE, default, 0, most))


def _io(default: Any) -> Any:
    """Return a dataclass field for reading, writing and what else no OPTIONS file holds."""
    return _field(Option(Section.NOWHERE, default, 0))


def _field(option: Option) -> Any:
    return field(default=option.default, metadata={"option": option})


def options_of(profile: type[OptionSet]) -> dict[str, Option]:
    """Return every option of a profile by name, in its order."""
    return {
        each.name: each.metadata["option"] for each in fields(profile) if "option" in each.metadata
    }


def check_text(name: str, value: object) -> None:
    """Check that what a profile is called, or is for, is text.

    Raises
    ------
    ConfigurationError
        If it is not.
    """
    if not isinstance(value, str):
        message = f"A profile's {name} is {value!r}, which is no text."
        raise ConfigurationError(message, hint=f"Give one, such as {name}='mine'.")


def _checked(profile: OptionSet) -> dict[str, Any]:
    """Return the options that RocksDB itself would set otherwise, with what it would set.

    Raises
    ------
    ConfigurationError
        If a value makes no sense, or two contradict each other.
    """
    values = {name: getattr(profile, name) for name in options_of(type(profile))}
    for name, option in options_of(type(profile)).items():
        _check_known(name, values[name], profile.unknown)
        if values[name] is not None:
            _check(name, values[name], option)
    _check_together(values)
    return _sanitized(values)


def _check_known(name: str, value: Any, unknown: Mapping[str, str]) -> None:
    if value is None and name not in unknown:
        message = f"{name} is None, and why it is unknown isn't said."
        raise ConfigurationError(message, hint=f"Give a value, or unknown={{{name!r}: 'why'}}.")


def _check(name: str, value: Any, option: Option) -> None:
    if name in CHOICES:
        _check_words(name, value)
    elif not _same_kind(value, option.default):
        message = f"{name} is {value!r}, which is no {type(option.default).__name__}."
        raise ConfigurationError(message, hint=f"RocksDB's own value is {option.default!r}.")
    elif not isinstance(value, bool):
        _check_range(name, value, option)


def _same_kind(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))


def _check_words(name: str, value: Any) -> None:
    several = name == "compression_per_level" and isinstance(value, (tuple, list))
    wrong = [word for word in (value if several else [value]) if word not in CHOICES[name]]
    if wrong:
        message = f"{name} can't be {wrong[0]!r}."
        raise ConfigurationError(message, hint=f"It can be: {', '.join(CHOICES[name])}.")


def _check_range(name: str, value: float, option: Option) -> None:
    if option.least is not None and value < option.least:
        message = f"{name} is {value}; the least that RocksDB takes is {option.least}."
        raise ConfigurationError(message, hint=f"RocksDB's own value is {option.default}.")
    if option.most is not None and value > option.most:
        message = f"{name} is {value}; the most that RocksDB takes is {option.most}."
        raise ConfigurationError(message, hint=f"RocksDB's own value is {option.default}.")


def _check_together(values: dict[str, Any]) -> None:
    _check_order(values, "level0_slowdown_writes_trigger", "level0_file_num_compaction_trigger")
    _check_order(values, "level0_stop_writes_trigger", "level0_slowdown_writes_trigger")
    if values["hard_pending_compaction_bytes_limit"]:  # zero is no limit
        _check_order(
            values, "hard_pending_compaction_bytes_limit", "soft_pending_compaction_bytes_limit"
        )
    if values["index_type"] == "hash_search" and values["prefix_bytes"] == 0:
        message = "index_type is 'hash_search', which needs a prefix, and prefix_bytes is 0."
        raise ConfigurationError(message, hint=_HASH_INDEX_HINT)
    if values["partition_filters"] and values["index_type"] not in {"two_level_search", None}:
        message = (
            f"partition_filters needs index_type 'two_level_search', not {values['index_type']!r}."
        )
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
    """Return what SanitizeOptions of RocksDB would change.

    Source: db/column_family.cc and db/db_impl/db_impl_open.cc.
    """
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
    rate_limit_bytes_per_second: int | None = _io(0)
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
    statistics: bool | None = _io(default=False)

    # Reads and writes.
    fill_cache: bool | None = _io(default=True)
    readahead_bytes: int | None = _io(0)
    prefix_same_as_start: bool | None = _io(default=False)
    disable_wal: bool | None = _io(default=False)
    sync: bool | None = _io(default=False)

    unknown: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)

    def __post_init__(self) -> None:
        for option, value in _checked(self).items():
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


_NUMBER = re.compile(
    r"([+-]?[\d_,]+(?:\.\d+)?(?:e\d{1,2})?)\s*([kmgt]?)(?:i?b|ytes)?", re.IGNORECASE
)
_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse_option(name: str, text: str) -> Any:
    """Return the value of an option, of the type that the option has.

    Whether the value makes sense is for the profile to say.

    Parameters
    ----------
    name
        Of one of :class:`~kstoolkit.rocksdb.profiles.options.OptionSet`'s options.
    text
        A whole number with or without a unit of 1024 (``KiB``, ``MB``, ``g`` ...), ``true`` or
        ``false``, a word, or words with commas between them.

    Raises
    ------
    ConfigurationError
        If there is no such option, or the text is no value of its type.

    Examples
    --------
    >>> parse_option("write_buffer_size", "32 MiB"), parse_option("compression", " lz4 ")
    (33554432, 'lz4')
    >>> parse_option("cache_index_and_filter_blocks", "yes")
    True
    """
    option = options_of(OptionSet).get(name)
    if option is None:
        message = f"There is no option {name!r}."
        raise ConfigurationError(message, hint=f"There are: {', '.join(options_of(OptionSet))}.")
    if isinstance(option.default, tuple):
        return tuple(word for each in text.split(",") if (word := each.strip()))
    if name in CHOICES:
        return text.strip()
    if isinstance(option.default, bool):
        return _truth(name, text)
    return _number(name, text, option.default)


def _truth(name: str, text: str) -> bool:
    found = _TRUTHS.get(text.strip().lower())
    if found is None:
        message = f"{name} is either true or false, not {text!r}."
        raise ConfigurationError(message, hint="Type true or false.")
    return found


def _number(name: str, text: str, default: Any) -> float:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        message = f"{name} is a number, not {text!r}."
        raise ConfigurationError(message, hint=f"Such as {default!r}, or 32 MiB for a size.")
    value = float(match[1].replace(",", "").replace("_", "")) * (1 << _POWERS[match[2].lower()])
    return value if isinstance(default, float) else int(value)


_FILE_NAME = re.compile(r"OPTIONS-(\d+)")


_INSIDE = re.compile(r"(\w+)=([^;{}]*)")


_BLOOM = re.compile(r"(?:rocksdb\.)?bloomfilter:(?P<bits>[\d.]+)(?::.*)?")


_PREFIX = re.compile(r"(?:rocksdb\.FixedPrefix\.|fixed:)(?P<length>\d+)")


_NONE = {None, "", "nullptr"}


_HINT = "Give an OPTIONS-* file, or the folder of a store that RocksDB has opened."


_OBJECTS = "OPTIONS files hold no caches, budgets, limiters or statistics"


_CALLS = "reads and writes are given it one by one; OPTIONS files don't hold it"


_OF_CALLS = {"fill_cache", "readahead_bytes", "prefix_same_as_start", "disable_wal", "sync"}


_Entries = dict[Section, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Found:
    """What an OPTIONS file says of a profile's options.

    Parameters
    ----------
    name, purpose
        The store's folder, and which file of which RocksDB this is from.
    values
        Each option's value; None if it is unknown.
    unknown
        For each unknown option: why.
    """

    name: str
    purpose: str
    values: dict[str, Any]
    unknown: dict[str, str]


def find_options(
    path: str | os.PathLike[str], options: Mapping[str, Option], column_family: str
) -> Found:
    """Return the options of a column family, and why some are unknown.

    Raises
    ------
    InputError
        If there is no OPTIONS file, it can't be read, it has no such column family, or ``path`` is
        a file of another kind.
    FormatError
        If that of a store's folder is no OPTIONS file of RocksDB.
    """
    file = _options_file(Path(path))
    try:
        return _found(file, options, column_family)
    except FormatError as error:
        if file != Path(path):
            raise
        message = f"{file} is no OPTIONS file of RocksDB."
        raise InputError(message, hint=_HINT) from error


def _found(file: Path, options: Mapping[str, Option], column_family: str) -> Found:
    sections = parse_options(_text(file))
    version = option_in(sections, "Version", "rocksdb_version") or "an unknown version"
    entries = _entries(sections, column_family, file)
    values: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, option in options.items():
        values[name], why = _value(name, option, entries, version)
        if why:
            unknown[name] = why
    purpose = f"What RocksDB {version} was given for {column_family!r}, by {file.name}."
    return Found(file.absolute().parent.name, purpose, values, unknown)


def _options_file(path: Path) -> Path:
    try:
        if path.is_file():
            return path
        if not path.is_dir():
            message = f"There is no {path}."
            raise InputError(message, hint=_HINT)
        files = list(path.iterdir())
    except OSError as error:
        raise _unreadable(path, error) from error
    numbered = {int(match[1]): file for file in files if (match := _FILE_NAME.fullmatch(file.name))}
    if not numbered:
        message = f"The folder {path} has no OPTIONS file."
        raise InputError(message, hint=_HINT)
    return numbered[max(numbered)]


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
        if each.kind == Section.FAMILY and each.column_family
    )
    if not families:
        message = f"{file} is no OPTIONS file of RocksDB: it has no column family."
        raise FormatError(message, hint=_HINT)
    if column_family not in families:
        message = f"{file} has no column family {column_family!r}."
        raise InputError(message, hint=f"It has: {', '.join(families)}.")
    return {
        Section(each.kind): each.options
        for each in sections
        if each.kind in set(Section) and each.column_family in {None, column_family}
    }


def _value(name: str, option: Option, entries: _Entries, version: str) -> tuple[Any, str | None]:
    """Return an option's value and None, or None and why it is unknown."""
    if option.section is Section.NOWHERE:
        return _of_object(name, entries.get(Section.TABLE, {}))
    if option.section not in entries:
        return None, f"the OPTIONS file has no section {option.section.value}"
    if name == "bloom_bits_per_key":
        return _bloom_bits(entries[Section.TABLE].get("filter_policy"))
    if name == "prefix_bytes":
        return _prefix_length(entries[Section.FAMILY].get("prefix_extractor"))
    text = _written(name, option, entries[option.section])
    if text is None:
        empty = name == "compression_per_level"  # which isn't written if it is empty
        return ((), None) if empty else (None, f"RocksDB {version} wrote no such option")
    return _parsed(name, option, text)


def _of_object(name: str, table: dict[str, str]) -> tuple[Any, str | None]:
    if name == "block_cache_bytes" and table.get("no_block_cache") == "true":
        return 0, None
    return None, _CALLS if name in _OF_CALLS else _OBJECTS


def _written(name: str, option: Option, entries: dict[str, str]) -> str | None:
    if option.inside is None:
        return entries.get(name)
    within = dict(_INSIDE.findall(entries.get(option.inside, "")))
    return within.get(name.partition("_")[2])


def _parsed(name: str, option: Option, text: str) -> tuple[Any, str | None]:
    if name in CHOICES:
        return _worded(name, option, text)
    if isinstance(option.default, bool):
        known = {"true": True, "false": False}.get(text)
        return known, None if known is not None else f"the OPTIONS file says {text!r}"
    try:
        return type(option.default)(text), None
    except ValueError:
        return None, f"the OPTIONS file says {text!r}"


def _worded(name: str, option: Option, text: str) -> tuple[Any, str | None]:
    several = isinstance(option.default, tuple)
    parts = [part for part in text.split(":") if part] if several else [text]
    words = [word_of(name, part) for part in parts]
    if None in words:
        return None, f"the OPTIONS file says {text!r}, for which there is no word here"
    return (tuple(words) if several else words[0]), None


def _bloom_bits(policy: str | None) -> tuple[float | None, str | None]:
    if policy in _NONE:
        return 0.0, None
    match = _BLOOM.fullmatch(str(policy))
    if match is None:
        return None, f"the OPTIONS file names the filter {policy!r} without its bits"
    return float(match["bits"]), None


def _prefix_length(extractor: str | None) -> tuple[int | None, str | None]:
    if extractor in _NONE:
        return 0, None
    match = _PREFIX.fullmatch(str(extractor))
    if match is None:
        return None, f"the OPTIONS file names {extractor!r}, which is no prefix of fixed length"
    return int(match["length"]), None
