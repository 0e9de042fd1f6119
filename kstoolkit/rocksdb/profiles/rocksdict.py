"""What an OPTIONS file says of each of a profile's options, and why it is silent of some.

A profile as rocksdict takes it, and what rocksdict can't set.

A profile as the Python that makes it, and opens stores with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    ChecksumType,
    DataBlockIndexType,
    DBCompactionStyle,
    DBCompressionType,
    FifoCompactOptions,
    Options,
    ReadOptions,
    SliceTransform,
    UniversalCompactOptions,
    WriteBufferManager,
    WriteOptions,
)

from kstoolkit.errors import ConfigurationError, FormatError, InputError
from kstoolkit.rocksdb.files.options import option_in, parse_options
from kstoolkit.rocksdb.profiles.options import (
    CHOICES,
    Section,
    defaults_beside,
    options_of,
    word_of,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.options import OptionsSection
    from kstoolkit.rocksdb.profiles.options import Option
    from kstoolkit.rocksdb.profiles.profile import Profile


_SETTERS = {
    "level0_file_num_compaction_trigger": "set_level_zero_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger": "set_level_zero_slowdown_writes_trigger",
    "level0_stop_writes_trigger": "set_level_zero_stop_writes_trigger",
    "memtable_prefix_bloom_size_ratio": "set_memtable_prefix_bloom_ratio",
    "compression": "set_compression_type",
    "bottommost_compression": "set_bottommost_compression_type",
    "checksum": "set_checksum_type",
    "data_block_hash_table_util_ratio": "set_data_block_hash_ratio",
}
"""Setters that aren't called set_ and the name of the option."""

_CLASSES = {
    "compression": DBCompressionType,
    "compression_per_level": DBCompressionType,
    "bottommost_compression": DBCompressionType,
    "compaction_style": DBCompactionStyle,
    "index_type": BlockBasedIndexType,
    "data_block_index_type": DataBlockIndexType,
    "checksum": ChecksumType,
}

_LACKING = {
    "strict_capacity_limit",
    "high_pri_pool_ratio",
    "whole_key_filtering",
    "optimize_filters_for_memory",
    "cache_index_and_filter_blocks_with_high_priority",
    "compaction_pri",
    "ttl",
    "periodic_compaction_seconds",
    "delayed_write_rate",
    "allow_fallocate",
    "avoid_flush_during_shutdown",
    "info_log_level",
}
"""Options that rocksdict 0.3.29 can't set."""

_LARGEST_WIDTH = 2**31 - 1
_REFILL_MICROSECONDS, _FAIRNESS = 100_000, 10  # RocksDB's own (include/rocksdb/rate_limiter.h)


def rocksdict_options(profile: Profile, shared: SharedMemory | None = None) -> Options:
    """Return the options of a store, raw bytes in and out; unknown ones are left as RocksDB's."""
    memory = shared or shared_memory(profile)
    known = {name: value for name, value in profile.options().items() if value is not None}
    options = Options(raw_mode=True)
    options.create_if_missing(create_if_missing=True)
    for name, value in _plain(known, profile, Section.STORE, Section.FAMILY).items():
        _set(options, name, value)
    _set_objects(options, profile, known)
    options.set_block_based_table_factory(_table(profile, known, memory))
    if memory.write_buffer_manager is not None:
        options.set_write_buffer_manager(memory.write_buffer_manager)
    return options


def shared_memory(profile: Profile) -> SharedMemory:
    """Return the cache and write-buffer manager of a profile, made anew.

    Give the same to the options of all stores that are to share them.
    """
    return SharedMemory.of(
        cache_bytes=_or_own(profile, "block_cache_bytes"),
        memtables_bytes=_or_own(profile, "write_buffer_manager_bytes"),
        memtables_in_cache=bool(profile.write_buffer_manager_in_cache),
        allow_stall=bool(profile.write_buffer_manager_allow_stall),
    )


def not_in_rocksdict(profile: Profile) -> dict[str, str]:
    """Return the options that a store opened through rocksdict won't have, and why."""
    left = defaults_beside(profile)
    lacking = {
        name: f"rocksdict has no setter; it leaves {left[name]!r}"
        for name, value in profile.options().items()
        if name in _LACKING and value is not None and value != left[name]
    }
    if _universal_changes(profile) and (profile.universal_max_merge_width or 0) > _LARGEST_WIDTH:
        said = f"rocksdict takes up to 2**31 - 1; it leaves {_LARGEST_WIDTH}"
        lacking["universal_max_merge_width"] = said
    return lacking | _unknown(profile)


def read_options(profile: Profile) -> ReadOptions:
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


def write_options(profile: Profile) -> WriteOptions:
    """Return rocksdict's options for writes."""
    options = WriteOptions()
    # An attribute, whatever rocksdict's stub says.
    options.disable_wal = bool(profile.disable_wal)  # type: ignore[assignment, method-assign]
    options.sync = bool(profile.sync)
    return options


def _set_objects(options: Options, profile: Profile, known: dict[str, Any]) -> None:
    """Set what rocksdict takes as objects, or as calls of a form of their own."""
    if known.get("prefix_bytes"):
        options.set_prefix_extractor(SliceTransform.create_fixed_prefix(known["prefix_bytes"]))
    if known.get("compression_per_level"):
        levels = [_word("compression_per_level", word) for word in known["compression_per_level"]]
        options.set_compression_per_level(levels)
    if known.get("rate_limit_bytes_per_second"):
        rate = known["rate_limit_bytes_per_second"]
        options.set_ratelimiter(rate, _REFILL_MICROSECONDS, _FAIRNESS)
    if known.get("statistics"):
        options.enable_statistics()
    if _universal_changes(profile):
        options.set_universal_compaction_options(_universal(known))
    if "fifo_max_table_files_size" in known:
        fifo = FifoCompactOptions()
        fifo.max_table_files_size = known["fifo_max_table_files_size"]
        options.set_fifo_compaction_options(fifo)


def _universal_changes(profile: Profile) -> bool:
    """Return whether the universal style is told anything: rocksdict then narrows a merge."""
    return any(name.startswith("universal_") for name in profile.changes())


def _universal(known: dict[str, Any]) -> UniversalCompactOptions:
    options = UniversalCompactOptions()
    for name, value in known.items():
        if name.startswith("universal_") and value <= _LARGEST_WIDTH:
            setattr(options, name.removeprefix("universal_"), value)
    return options


def _table(profile: Profile, known: dict[str, Any], memory: SharedMemory) -> BlockBasedOptions:
    options = BlockBasedOptions()
    for name, value in _plain(known, profile, Section.TABLE).items():
        _set(options, name, value)
    if known.get("bloom_bits_per_key"):
        options.set_bloom_filter(known["bloom_bits_per_key"], block_based=False)
    if memory.cache is not None:
        options.set_block_cache(memory.cache)
    elif known.get("block_cache_bytes") == 0:
        options.disable_cache()
    return options


def _plain(known: dict[str, Any], profile: Profile, *sections: Section) -> dict[str, Any]:
    """Return the options of some sections that are set by one value each."""
    special = {"prefix_bytes", "compression_per_level", "bloom_bits_per_key"} | _LACKING
    return {
        name: known[name]
        for name, option in options_of(type(profile)).items()
        if name in known and option.section in sections and not option.inside
        if name not in special and known[name] != "same"
    }


def _set(options: Options | BlockBasedOptions, name: str, value: Any) -> None:
    setter: Callable[[Any], None] = getattr(options, _SETTERS.get(name, f"set_{name}"))
    setter(_word(name, value) if name in CHOICES else value)


def _word(name: str, word: str) -> Any:
    return getattr(_CLASSES[name], str(CHOICES[name][word].in_rocksdict))()


def _or_own(profile: Profile, name: str) -> int:
    value: int | None = getattr(profile, name)
    own: int = options_of(type(profile))[name].default
    return own if value is None else value


def _unknown(profile: Profile) -> dict[str, str]:
    return {
        name: f"unknown ({why}); RocksDB's own value is left"
        for name, why in profile.unknown.items()
    }


def python_source(profile: Profile) -> str:
    """Return a program that makes rocksdict's options of a profile.

    Examples
    --------
    >>> from kstoolkit.rocksdb.profiles.profile import Profile
    >>> print(python_source(Profile(compression="lz4")))
    from kstoolkit.rocksdb.profiles.profile import Profile
    <BLANKLINE>
    profile = Profile(
        compression='lz4',
    )
    options = profile.to_rocksdict()
    reads, writes = profile.read_options(), profile.write_options()
    """
    arguments = "".join(f"    {key}={value!r},\n" for key, value in profile.changes().items())
    made = f"Profile(\n{arguments})" if arguments else "Profile()"
    return (
        f"from kstoolkit.rocksdb.profiles.profile import Profile\n\nprofile = {made}\n"
        "options = profile.to_rocksdict()\n"
        "reads, writes = profile.read_options(), profile.write_options()"
    )


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


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """RocksDB objects that count memory: one of each for all the stores that are given it.

    A store keeps alive what it was opened with; keep this record to ask the objects what is used.

    Parameters
    ----------
    cache
        The block cache; None: RocksDB's own default of 32 MiB a store.
    write_buffer_manager
        The budget for memtables; None: each store has its own limits only.

    Examples
    --------
    >>> SharedMemory.of(cache_bytes=1 << 20).cache.get_usage()
    0
    """

    cache: Cache | None = None
    write_buffer_manager: WriteBufferManager | None = None

    @classmethod
    def of(
        cls,
        *,
        cache_bytes: int,
        memtables_bytes: int = 0,
        memtables_in_cache: bool = False,
        allow_stall: bool = False,
    ) -> SharedMemory:
        """Make the objects.

        Parameters
        ----------
        cache_bytes
            Size of the cache; 0: none.
        memtables_bytes
            What all memtables together may take; 0: no limit but each store's own.
        memtables_in_cache
            Whether memtables take their room from the cache, so that its size bounds both.
        allow_stall
            Whether writers wait when the memtables are over their budget.

        Raises
        ------
        ConfigurationError
            If memtables are to take room from a cache that isn't there.
        """
        cache = Cache(cache_bytes) if cache_bytes else None
        if not memtables_bytes:
            return cls(cache)
        if not memtables_in_cache:
            return cls(cache, WriteBufferManager(memtables_bytes, allow_stall))
        if cache is None:
            message = "Memtables are to take their room from a block cache of 0 bytes."
            raise ConfigurationError(message, hint="Give cache_bytes, or memtables_in_cache=False.")
        charged = WriteBufferManager.new_write_buffer_manager_with_cache
        return cls(cache, charged(memtables_bytes, allow_stall, cache))
