"""What each profile with a name sets, and why; what engines leave; and so what they must be told.

:mod:`kstoolkit.rocksdb.profiles.named` makes the profiles of it; here are their options alone, so
that a profile can be compared to them by name. An engine's own profile sets nothing: what it has is
:class:`~kstoolkit.rocksdb.profiles.options.Left`.

For ``point_lookup``, indexes and filters live outside the cache, in memory while their files are
open: RocksDB would pin only those of level 0 in it, and read others again at each miss. Keys are
taken to start with 4 bytes that spread them, as in kstoolkit's stores; for other keys change
``prefix_bytes``. Iterate with the profile's ``read_options()``: without them, RocksDB finds nothing
from a key on whose prefix is absent. After ``bulk_load``, compact the store, and open it otherwise.
"""

from __future__ import annotations

import os
from typing import Any

from kstoolkit.errors import ConfigurationError, check_known
from kstoolkit.rocksdb.profiles.options import ROCKSDB, Left, OptionSet
from kstoolkit.units import check_whole, format_bytes

KAFKA_STREAMS, SPARK = "kafka_streams", "spark"
ENGINES = (ROCKSDB, KAFKA_STREAMS, SPARK)  # whose values a profile can be laid over
_LEAST_JOBS = 2


def engine_options(engine: str) -> dict[str, Any]:
    """Return what an engine sets itself, on this machine, where nobody configures anything.

    Kafka Streams is that of 4.3 (``RocksDBStore.openDB``): it asks for as many background jobs as
    there are processors, but at least two. The caches of both engines come from ``new
    LRUCache(bytes)`` of RocksJava, which keeps no share for index and filter blocks. Spark is 4.3.
    """
    if engine not in ENGINES:
        message = f"There is no engine {engine!r}."
        raise ConfigurationError(message, hint=f"There are: {', '.join(ENGINES)}.")
    jobs = {"max_background_jobs": max(os.cpu_count() or 1, _LEAST_JOBS)}
    return _SET_BY.get(engine, {}) | (jobs if engine == KAFKA_STREAMS else {})


_SET_BY: dict[str, dict[str, Any]] = {
    KAFKA_STREAMS: {
        "block_cache_bytes": 50 << 20,
        "high_pri_pool_ratio": 0.0,
        "block_size": 4096,
        "bloom_bits_per_key": 10.0,
        "optimize_filters_for_hits": True,
        "write_buffer_size": 16 << 20,
        "max_write_buffer_number": 3,
        "compression": "none",
        "compaction_style": "universal",
        "atomic_flush": True,
        "info_log_level": "error",
        "disable_wal": True,
    },
    SPARK: {
        "block_cache_bytes": 8 << 20,
        "high_pri_pool_ratio": 0.0,
        "block_size": 4096,
        "format_version": 5,
        "bloom_bits_per_key": 10.0,
        "compression": "lz4",
        "avoid_flush_during_shutdown": True,
        "statistics": True,
        "disable_wal": True,
        "info_log_level": None,
    },
}
SPARK_UNKNOWN = {"info_log_level": "Spark takes the level that log4j has for its state store"}
"""What Spark sets from elsewhere."""

_VARIES = {
    "max_background_jobs",
    "format_version",
    "checksum",
    "optimize_filters_for_hits",
    "optimize_filters_for_memory",
    "level_compaction_dynamic_level_bytes",
    "compaction_readahead_size",
}
"""What one machine or release of Kafka Streams (3.9 to 4.3) leaves otherwise than another."""


def told_to(engine: str, profile: OptionSet) -> dict[str, Any]:
    """Return the options of a profile that an engine must be told: set, and left otherwise by it.

    Of a profile that lies over another engine, or over an OPTIONS file, that is all which differs,
    but for what a machine or a release left.
    """
    values, given = profile.options(), set(profile.given)
    if profile.base in ENGINES and profile.base not in {ROCKSDB, engine}:
        given |= values.keys() - (_VARIES - _SET_BY[profile.base].keys())
    elif profile.base not in ENGINES:
        given |= values.keys() - _VARIES
    left = left_by(engine, profile)
    told = {name: value for name, value in values.items() if name in given and value is not None}
    return {name: value for name, value in told.items() if value != left[name]}


def left_by(engine: str, profile: OptionSet) -> dict[str, Any]:
    """Return what an engine leaves beside a profile; None is not the same everywhere."""
    own = engine_options(engine)
    if "compaction_style" in profile.given or profile.base not in {ROCKSDB, engine}:
        own["compaction_style"] = profile.compaction_style or "level"
    beside = OptionSet(
        **own | {"rate_limit_bytes_per_second": profile.rate_limit_bytes_per_second or 0},
        unknown=SPARK_UNKNOWN if engine == SPARK else {},
    )
    itself = {
        name: engine_options(engine).get(name, value)
        for name, value in {"compaction_style": "level", "rate_limit_bytes_per_second": 0}.items()
    }
    return beside.options() | itself | (dict.fromkeys(_VARIES) if engine == KAFKA_STREAMS else {})


_SMALL_MEMTABLE_BYTES = 1 << 20
_MOST_OF_ONE_BYTES = 128 << 20
_MANY = 100


def cautions(profile: OptionSet) -> list[str]:
    """Return what many stores would come to under what a profile sets, in sentences.

    >>> cautions(OptionSet(write_buffer_size=131 << 10))[0][:27]
    'Memtables of 131.0 KiB: as '
    >>> cautions(OptionSet(block_cache_bytes=450 << 20))[0][-48:]
    'ed of them 56.4 GiB. bounded_memory bounds them.'
    """
    found, given = [], profile.given
    size, cache = profile.write_buffer_size or 0, profile.block_cache_bytes or 0
    if "write_buffer_size" in given and size < _SMALL_MEMTABLE_BYTES:
        found.append(
            f"Memtables of {format_bytes(size)}: as often as that much is written, there is a file"
            " more to compact. Open fewer stores, or give them more."
        )
    memtables = 0 if profile.write_buffer_manager_bytes else size
    each = memtables * (profile.max_write_buffer_number or 0)
    each += 0 if profile.block_cache_shared else cache
    if each > _MOST_OF_ONE_BYTES and {*given} & _OF_EACH:
        found.append(
            "Each RocksDB (one a partition of a store, one a segment of a window store) may take"
            f" {format_bytes(each)} of memtables and cache, a hundred of them"
            f" {format_bytes(_MANY * each)}. bounded_memory bounds them."
        )
    return found


_OF_EACH = {"write_buffer_size", "max_write_buffer_number", "block_cache_bytes"}
_LEAST_MEMTABLE_BYTES = 64 << 10  # RocksDB raises smaller ones to this (db/column_family.cc)
_LARGEST_MEMTABLE_BYTES = 64 << 20


def bounded_options(total_bytes: int, stores: int) -> dict[str, Any]:
    """Return what :func:`kstoolkit.rocksdb.profiles.named.bounded_memory` sets, with its name."""
    such = "Such as bounded_memory(512 << 20, stores=8)."
    check_whole("total_bytes", total_bytes, least=0, hint=such)
    check_whole("stores", stores, least=1, hint=such)
    whose = "one store" if stores == 1 else f"{stores} stores together"
    size = min(total_bytes // (4 * stores), _LARGEST_MEMTABLE_BYTES)
    if size < _LEAST_MEMTABLE_BYTES:
        least = format_bytes(4 * stores * _LEAST_MEMTABLE_BYTES)
        message = (
            f"{format_bytes(total_bytes)} for {stores} stores leaves {format_bytes(size)}"
            f" a memtable; RocksDB takes at least {format_bytes(_LEAST_MEMTABLE_BYTES)}."
        )
        raise ConfigurationError(message, hint=f"Give at least {least}, or open fewer stores.")
    return {
        "name": "bounded_memory",
        "purpose": f"For a process whose {whose} may take {format_bytes(total_bytes)}.",
        **_because(
            {
                "block_cache_bytes": (total_bytes, _ONE_CACHE),
                "block_cache_shared": (True, _ONE_CACHE),
                "high_pri_pool_ratio": (0.1, _ONE_CACHE),
                "write_buffer_manager_bytes": (total_bytes // 2, _ONE_BUDGET),
                "write_buffer_manager_in_cache": (True, _ONE_BUDGET),
                "write_buffer_size": (
                    size >> 20 << 20 or size,  # whole MiB where it has some, as Spark takes them
                    f"two memtables of {'each of ' * (stores > 1)}{whose} fit into that budget",
                ),
                "cache_index_and_filter_blocks": (
                    True,
                    "otherwise they lie outside of the cache, and grow with the data",
                ),
            }
        ),
    }


_ONE_CACHE = "one cache for all stores, whose size bounds them; a tenth is for indexes and filters"
_ONE_BUDGET = "one budget for the memtables of all stores, taken from that cache"


def _because(options: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    """Return options, each with its reason, as a profile is given them."""
    values = {name: value for name, (value, _) in options.items()}
    return values | {"why": {name: why for name, (_, why) in options.items()}}


_NEVER = 2**30  # as RocksDB's own PrepareForBulkLoad has it (options/options.cc)
_TOTAL_BYTES = 512 << 20

_FILTER = "most files that lack a key are not read for it"
_NO_LOG = "engines keep what would be lost elsewhere: in a changelog, in a checkpoint"
_HASHED = "a key is looked up by its hash instead of a search"
_WAITS = "files pile up for a while before writers must wait"
_NO_COMPACTION = "nothing is compacted while it is filled"
_NO_WAIT = "writers never wait for compactions"
_SMOOTH = "the disk is given its work piece by piece"
_LARGE = "fewer and larger files come of the same writes"
_LEVELS = "levels hold little twice; runs of the universal style up to three times"
_OURS = {"disable_wal": (True, _NO_LOG)}
_FILTERED = {"bloom_bits_per_key": (10.0, _FILTER), **_OURS}
_PRESETS: dict[str, tuple[str, dict[str, tuple[Any, str]]]] = {
    KAFKA_STREAMS: (
        "For comparison: what Kafka Streams 4.3 sets without a RocksDBConfigSetter.",
        {},
    ),
    SPARK: ("For comparison: what Spark 4.3's state store sets without configuration.", {}),
    "point_lookup": (
        "For readers that get single keys: filters and hash indexes, kept in memory.",
        {
            "block_cache_bytes": (256 << 20, "blocks that are asked for again are in memory"),
            "block_cache_shared": (True, "one cache for all stores of the process"),
            "prefix_bytes": (4, "the hash index knows the first bytes of keys"),
            "memtable_prefix_bloom_size_ratio": (0.1, "memtables that lack a key are not searched"),
            "memtable_whole_key_filtering": (True, "memtables that lack a key are not searched"),
            "index_type": ("hash_search", _HASHED),
            "data_block_index_type": ("binary_and_hash", _HASHED),
            **_FILTERED,
        },
    ),
    "write_heavy": (
        "For stores that are written far more than read, with memory and disk to spare.",
        {
            "write_buffer_size": (64 << 20, _LARGE),
            "max_write_buffer_number": (4, "writers go on while memtables are flushed"),
            "min_write_buffer_number_to_merge": (2, _LARGE),
            "compaction_style": ("universal", "what was written is rewritten less often"),
            "level0_file_num_compaction_trigger": (8, "what was written is rewritten less often"),
            "level0_slowdown_writes_trigger": (40, _WAITS),
            "level0_stop_writes_trigger": (60, _WAITS),
            "max_background_jobs": (4, "flushes and compactions go on side by side"),
            "max_subcompactions": (2, "a large compaction is two threads' work"),
            "bytes_per_sync": (1 << 20, _SMOOTH),
            **_FILTERED,
        },
    ),
    "bulk_load": (
        "For filling a store once; until it is compacted and opened otherwise, its files pile up.",
        {
            "write_buffer_size": (128 << 20, _LARGE),
            "max_write_buffer_number": (4, "writers go on while memtables are flushed"),
            "disable_auto_compactions": (True, _NO_COMPACTION),
            "level0_file_num_compaction_trigger": (_NEVER, _NO_COMPACTION),
            "level0_slowdown_writes_trigger": (_NEVER, _NO_WAIT),
            "level0_stop_writes_trigger": (_NEVER, _NO_WAIT),
            "soft_pending_compaction_bytes_limit": (0, _NO_WAIT),
            "hard_pending_compaction_bytes_limit": (0, _NO_WAIT),
            "max_background_jobs": (4, "memtables are flushed side by side"),
            "bytes_per_sync": (1 << 20, _SMOOTH),
            **_OURS,
        },
    ),
    "low_disk": (
        "For small disks: levels, which hold little twice, and strong compression.",
        {
            "compaction_style": ("level", _LEVELS),
            "level_compaction_dynamic_level_bytes": (True, "nine tenths are in the last level"),
            "block_size": (16 << 10, "larger blocks compress better"),
            "optimize_filters_for_hits": (True, "the last level, the largest, has no filters"),
            "compression": ("lz4", "what is rewritten soon is compressed cheaply"),
            "bottommost_compression": ("zstd", "what stays is compressed strongly"),
            **_FILTERED,
        },
    ),
}
PRESET_NAMES = (*_PRESETS, "bounded_memory")


def named_options(
    name: str, *, total_bytes: int | None = None, stores: int | None = None
) -> dict[str, Any]:
    """Return what a profile is made with: its name, its purpose, its options and their reasons."""
    if name == "bounded_memory":
        total = _TOTAL_BYTES if total_bytes is None else total_bytes
        return bounded_options(total, 1 if stores is None else stores)
    check_known("profile", name, PRESET_NAMES)
    if total_bytes is not None or stores is not None:
        message = f"The profile {name!r} takes no size and no number of stores."
        raise ConfigurationError(message, hint="Only bounded_memory does: leave them out.")
    purpose, options = _PRESETS[name]
    base = left_with(name) if name in ENGINES else {}
    return {"name": name, "purpose": purpose, **_because(options), **base}


def left_with(engine: str) -> dict[str, Any]:
    """Return what makes a profile lie over an engine: what that leaves, and what is unknown."""
    left = {name: Left(value) for name, value in engine_options(engine).items()}
    return left | {"base": engine, "unknown": SPARK_UNKNOWN if engine == SPARK else {}}
