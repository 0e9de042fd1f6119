"""A profile as rocksdict takes it, and what rocksdict can't set."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import rocksdict
from rocksdict import (
    BlockBasedOptions,
    Cache,
    FifoCompactOptions,
    Options,
    ReadOptions,
    SliceTransform,
    UniversalCompactOptions,
    WriteBufferManager,
    WriteOptions,
)

from kstoolkit.rocksdb.profiles.options import OPTIONS, OptionPlace, defaults_beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.rocksdb.profiles.options import OptionSet

_LARGEST_WIDTH = 2**31 - 1
_REFILL_MICROSECONDS, _FAIRNESS = 100_000, 10  # RocksDB's own (include/rocksdb/rate_limiter.h)


def rocksdict_options(profile: OptionSet, shared: SharedMemory | None = None) -> Options:
    """Return the options of a store, raw bytes in and out; unknown ones are left as RocksDB's."""
    memory = shared or shared_memory(profile)
    known = {name: value for name, value in profile.options().items() if value is not None}
    options = Options(raw_mode=True)
    options.create_if_missing(create_if_missing=True)
    for name, value in _plain(known, OptionPlace.STORE, OptionPlace.FAMILY).items():
        _set(options, name, value)
    _set_objects(options, profile, known)
    options.set_block_based_table_factory(_table(known, memory))
    if memory.write_buffer_manager is not None:
        options.set_write_buffer_manager(memory.write_buffer_manager)
    return options


def shared_memory(profile: OptionSet) -> SharedMemory:
    """Return a profile's cache and write-buffer manager, made anew, for stores that share them."""
    cache_bytes = _or_own(profile, "block_cache_bytes")
    cache = Cache(cache_bytes) if cache_bytes else None
    memtables_bytes = _or_own(profile, "write_buffer_manager_bytes")
    if not memtables_bytes:
        return SharedMemory(cache)
    allow_stall = bool(profile.write_buffer_manager_allow_stall)
    if cache is None or not profile.write_buffer_manager_in_cache:
        return SharedMemory(cache, WriteBufferManager(memtables_bytes, allow_stall))
    charged = WriteBufferManager.new_write_buffer_manager_with_cache
    return SharedMemory(cache, charged(memtables_bytes, allow_stall, cache))


def not_in_rocksdict(profile: OptionSet) -> dict[str, str]:
    """Return the options that a store opened through rocksdict won't have, and why."""
    left = defaults_beside(profile)
    lacking = {
        name: f"rocksdict has no setter; it leaves {left[name]!r}"
        for name, value in profile.options().items()
        if not OPTIONS[name].in_rocksdict and value is not None and value != left[name]
    }
    if _universal_changes(profile) and (profile.universal_max_merge_width or 0) > _LARGEST_WIDTH:
        said = f"rocksdict takes up to 2**31 - 1; it leaves {_LARGEST_WIDTH}"
        lacking["universal_max_merge_width"] = said
    left_so = "RocksDB's own value is left"
    return lacking | {name: f"unknown ({w}); {left_so}" for name, w in profile.unknown.items()}


def read_options(profile: OptionSet) -> ReadOptions:
    """Return rocksdict's options for reads."""
    options = ReadOptions()
    if profile.fill_cache is False:
        # rocksdict's stub forgot the argument.
        options.fill_cache(*(False,))  # type: ignore[call-arg]
    if profile.readahead_bytes:
        options.set_readahead_size(profile.readahead_bytes)
    if profile.prefix_same_as_start:
        options.set_prefix_same_as_start(v=True)
    elif profile.prefix_bytes != 0:
        # Or seeking a key whose prefix is absent would end the iteration.
        options.set_total_order_seek(v=True)
    return options


def write_options(profile: OptionSet) -> WriteOptions:
    """Return rocksdict's options for writes."""
    options = WriteOptions()
    # An attribute, whatever rocksdict's stub says.
    options.disable_wal = bool(profile.disable_wal)  # type: ignore[assignment, method-assign]
    options.sync = bool(profile.sync)
    return options


def _set_objects(options: Options, profile: OptionSet, known: dict[str, Any]) -> None:
    """Set what rocksdict takes as objects, or as calls of a form of their own."""
    if prefix_bytes := known.get("prefix_bytes"):
        options.set_prefix_extractor(SliceTransform.create_fixed_prefix(prefix_bytes))
    if levels := known.get("compression_per_level"):
        options.set_compression_per_level([_word("compression_per_level", word) for word in levels])
    if rate := known.get("rate_limit_bytes_per_second"):
        options.set_ratelimiter(rate, _REFILL_MICROSECONDS, _FAIRNESS)
    if known.get("statistics"):
        options.enable_statistics()
    if _universal_changes(profile):
        options.set_universal_compaction_options(_universal(known))
    if "fifo_max_table_files_size" in known:
        fifo = FifoCompactOptions()
        fifo.max_table_files_size = known["fifo_max_table_files_size"]
        options.set_fifo_compaction_options(fifo)


def _universal_changes(profile: OptionSet) -> bool:
    """Return whether the universal style is told anything: rocksdict then narrows a merge."""
    return any(name.startswith("universal_") for name in profile.changes())


def _universal(known: dict[str, Any]) -> UniversalCompactOptions:
    options = UniversalCompactOptions()
    for name, value in known.items():
        if name.startswith("universal_") and value <= _LARGEST_WIDTH:
            setattr(options, name.removeprefix("universal_"), value)
    return options


def _table(known: dict[str, Any], memory: SharedMemory) -> BlockBasedOptions:
    options = BlockBasedOptions()
    for name, value in _plain(known, OptionPlace.TABLE).items():
        _set(options, name, value)
    if known.get("bloom_bits_per_key"):
        options.set_bloom_filter(known["bloom_bits_per_key"], block_based=False)
    if memory.cache is not None:
        options.set_block_cache(memory.cache)
    elif known.get("block_cache_bytes") == 0:
        options.disable_cache()
    return options


def _plain(known: dict[str, Any], *places: OptionPlace) -> dict[str, Any]:
    """Return the options of some places that are set by one value each."""
    special = {"prefix_bytes", "compression_per_level", "bloom_bits_per_key"}
    return {
        name: known[name]
        for name, option in OPTIONS.items()
        if name in known and option.place in places and not option.inside and option.in_rocksdict
        if name not in special and known[name] != "same"
    }


def _set(options: Options | BlockBasedOptions, name: str, value: Any) -> None:
    option = OPTIONS[name]
    called = option.rocksdict or option.called or name.replace("level0", "level_zero")
    setter: Callable[[Any], None] = getattr(options, f"set_{called}")
    setter(_word(name, value) if option.words else value)


def _word(name: str, word: str) -> Any:
    return attrgetter(str(OPTIONS[name].words[word].in_rocksdict))(rocksdict)()


def _or_own(profile: OptionSet, name: str) -> int:
    value: int | None = getattr(profile, name)
    own: int = OPTIONS[name].default
    return own if value is None else value


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """RocksDB objects that count memory: one of each for all the stores that are given it.

    A store keeps alive what it was opened with; keep this record to ask the objects what is used.
    Without a cache each store has RocksDB's own of 32 MiB; without a manager its own limits only.
    """

    cache: Cache | None = None
    write_buffer_manager: WriteBufferManager | None = None
