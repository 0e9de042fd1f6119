"""The statements of Java that make one Kafka Streams store what a profile says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.rocksdb.profiles.enginedefaults import kafka_streams_options
from kstoolkit.rocksdb.profiles.optioncheck import Section, options_of
from kstoolkit.rocksdb.profiles.optionset import defaults_beside
from kstoolkit.rocksdb.profiles.words import CHOICES

if TYPE_CHECKING:
    from kstoolkit.rocksdb.profiles.profile import Profile


_SETTERS = {
    "allow_fallocate": "setAllowFAllocate",
    "block_restart_interval": "setBlockRestartInterval",
    "bottommost_compression": "setBottommostCompressionType",
    "checksum": "setChecksumType",
    "compaction_pri": "setCompactionPriority",
    "compression": "setCompressionType",
    "prefix_bytes": "useFixedLengthPrefixExtractor",
}
"""Setters that aren't called set and the name of the option."""

_NO_LOG = "Kafka Streams never writes a write-ahead log, and ignores its setters"
_OWN_CALLS = "Kafka Streams makes its reads and writes itself"
_NOT_SETTABLE = {
    "disable_wal": _NO_LOG,
    "wal_bytes_per_sync": _NO_LOG,
    "max_total_wal_size": _NO_LOG,
    "sync": _NO_LOG,
    "fill_cache": _OWN_CALLS,
    "readahead_bytes": _OWN_CALLS,
    "prefix_same_as_start": _OWN_CALLS,
    "min_write_buffer_number_to_merge": "Kafka Streams flushes atomically from 4.3 on, without it",
    "atomic_flush": "left to Kafka Streams, which sets it from 4.3 on for the offsets in the store",
}

_CACHE_OPTIONS = (
    "block_cache_bytes",
    "block_cache_shared",
    "strict_capacity_limit",
    "high_pri_pool_ratio",
)
_LARGEST_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CacheObjects:
    """The cache and the write-buffer manager of a profile, as expressions of Java.

    Parameters
    ----------
    shared
        Whether all stores of the process have the same.
    cache
        The expression that makes the cache; None: Kafka Streams' own, or none at all.
    manager
        The arguments of the write-buffer manager but for its cache; None: there is none.
    """

    shared: bool
    cache: str | None
    manager: tuple[str, str] | None


def cache_objects(profile: Profile) -> CacheObjects:
    """Return what to make for the memory of a profile."""
    values = [getattr(profile, name) for name in _CACHE_OPTIONS]
    own = {**defaults_beside(profile), **kafka_streams_options()}
    manager = None
    if profile.write_buffer_manager_bytes and profile.write_buffer_manager_in_cache:
        stall = _literal(bool(profile.write_buffer_manager_allow_stall))
        manager = _literal(profile.write_buffer_manager_bytes), stall
    cache = None
    if profile.block_cache_bytes and (
        manager is not None or values != [own[name] for name in _CACHE_OPTIONS]
    ):
        strict, share = bool(profile.strict_capacity_limit), profile.high_pri_pool_ratio or 0.0
        arguments = f"{profile.block_cache_bytes}L, -1, {_literal(strict)}, {share}"
        cache = f"new LRUCache({arguments})"
    return CacheObjects(bool(profile.block_cache_shared), cache, manager)


def statements(profile: Profile) -> list[str]:
    """Return the statements for all options but the cache and the write-buffer manager."""
    values = _to_set(profile)
    plain = [
        _statement(name, values[name], option.section)
        for name, option in options_of(type(profile)).items()
        if name in values and option.section is not Section.NOWHERE and not option.inside
    ]
    return plain + _of_objects(profile, values)


def not_in_java(profile: Profile) -> dict[str, str]:
    """Return the options that the setter can't or mustn't set, and why."""
    own = defaults_beside(profile) | kafka_streams_options()
    found = {
        name: why
        for name, why in _NOT_SETTABLE.items()
        if getattr(profile, name) not in {None, own[name]}
    }
    if profile.write_buffer_manager_bytes and not profile.write_buffer_manager_in_cache:
        found["write_buffer_manager_bytes"] = "RocksJava takes this budget from a cache only"
    width = profile.universal_max_merge_width
    if width is not None and _LARGEST_INT < width != own["universal_max_merge_width"]:
        found["universal_max_merge_width"] = f"RocksJava takes up to {_LARGEST_INT}"
    unknown = {name: f"unknown ({why})" for name, why in profile.unknown.items()}
    return found | unknown


def _to_set(profile: Profile) -> dict[str, Any]:
    """Return the options that Kafka Streams and RocksDB would leave otherwise."""
    own = defaults_beside(profile) | kafka_streams_options()
    # How many jobs Kafka Streams asks for differs from machine to machine.
    own["max_background_jobs"] = None
    left_out = not_in_java(profile)
    return {
        name: value
        for name, value in profile.options().items()
        if value is not None and value != own[name] and name not in left_out
    }


def _statement(name: str, value: Any, section: Section) -> str:
    receiver = "table" if section is Section.TABLE else "options"
    if name == "bloom_bits_per_key":
        bloom = f"owned(new BloomFilter({value}))" if value else "null"
        return f"{receiver}.setFilterPolicy({bloom});"
    if name in CHOICES and isinstance(value, tuple):
        levels = ", ".join(CHOICES[name][word].in_java for word in value)
        return f"{receiver}.{_setter(name)}(List.of({levels}));"
    argument = CHOICES[name][value].in_java if name in CHOICES else _literal(value)
    return f"{receiver}.{_setter(name)}({argument});"


def _of_objects(profile: Profile, values: dict[str, Any]) -> list[str]:
    found = []
    if profile.block_cache_bytes == 0:
        found.append("table.setNoBlockCache(true);")
    for prefix, kind, setter in (
        ("universal_", "CompactionOptionsUniversal", "setCompactionOptionsUniversal"),
        ("fifo_", "CompactionOptionsFIFO", "setCompactionOptionsFIFO"),
    ):
        calls = "".join(
            f".{_setter(name.removeprefix(prefix))}({_literal(value)})"
            for name, value in values.items()
            if name.startswith(prefix)
        )
        if calls:
            found.append(f"options.{setter}(owned(new {kind}()){calls});")
    if "rate_limit_bytes_per_second" in values:
        rate = _literal(values["rate_limit_bytes_per_second"])
        found.append(f"options.setRateLimiter(owned(new RateLimiter({rate})));")
    if values.get("statistics"):
        found.append("options.setStatistics(owned(new Statistics()));")
    return found


def _setter(name: str) -> str:
    return _SETTERS.get(name) or "set" + "".join(part.capitalize() for part in name.split("_"))


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value}L" if isinstance(value, int) and value > _LARGEST_INT else str(value)
