"""A profile as Spark's configuration, and what Spark can't set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstoolkit.records import Record
from kstoolkit.rocksdb.profiles.options import OPTIONS, OptionSet
from kstoolkit.rocksdb.profiles.presets import SPARK, SPARK_UNKNOWN

_PREFIX = "spark.sql.streaming.stateStore."
_PROVIDER = (
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"  # ships with Spark
)
_SHARED = {
    "block_cache_bytes",
    "block_cache_shared",
    "high_pri_pool_ratio",
    "write_buffer_manager_bytes",
    "write_buffer_manager_in_cache",
}
"""What Spark's boundedMemoryUsage sets together."""

_TOGETHER = (
    "Spark takes it with boundedMemoryUsage alone: one cache for all, which pays for the memtables"
    " and keeps a share for index and filter blocks, with room left"
)
_WHY_NOT = SPARK_UNKNOWN | dict.fromkeys(sorted(_SHARED), _TOGETHER)


@dataclass(frozen=True, slots=True)
class SparkConf(Record):
    """What Spark can be told of a profile, and what it can't.

    Parameters
    ----------
    settings
        Spark's configuration, as ``SparkSession.builder.config(map=...)`` takes it.
    unset
        Each option that Spark would leave otherwise than the profile has it, and why.

    Examples
    --------
    >>> SparkConf({"a": "1"}, {"b": "no key"})
    SparkConf(1 settings; 1 options that Spark can't set: b)
    """

    settings: dict[str, str]
    unset: dict[str, str]

    def __str__(self) -> str:
        told = [f"{key}={value}" for key, value in self.settings.items()]
        return "\n".join(told + [f"# not set: {name}: {why}" for name, why in self.unset.items()])

    def __repr__(self) -> str:
        names = f": {', '.join(self.unset)}" if self.unset else ""
        return (
            f"SparkConf({len(self.settings)} settings;"
            f" {len(self.unset)} options that Spark can't set{names})"
        )


def spark_conf(profile: OptionSet) -> SparkConf:
    """Return the settings in which the profile differs from Spark's own, and what can't be set."""
    settings = {f"{_PREFIX}providerClass": _PROVIDER}
    unset: dict[str, str] = {}
    bounded = _is_bounded(profile)
    left = _left(bounded=bounded)
    if bounded:
        settings |= _bounded(profile)
    for name, value in profile.options().items():
        if value is None:
            unset[name] = f"unknown ({profile.unknown[name]}); Spark's own value is left"
        elif value != left[name] and not (bounded and name in _SHARED):
            setting = _setting(name, value, profile)
            settings |= setting
            if not setting:
                unset[name] = _why_not(name, left[name])
    return SparkConf(settings, unset)


def _setting(name: str, value: Any, profile: OptionSet) -> dict[str, str]:
    """Return Spark's setting for an option; empty if it has none for this value."""
    option = OPTIONS[name]
    key, unit = option.spark
    # What all stores were to share would be given to each of them.
    if not key or (name == "block_cache_bytes" and profile.block_cache_shared):
        return {}
    setting = f"{_PREFIX}rocksdb.{key}"
    if option.words:
        return {setting: str(option.words[value].in_spark)}
    if isinstance(value, bool):
        return {setting: str(value).lower()}
    return {} if value % unit else {setting: str(value // unit)}


def _why_not(name: str, left: Any) -> str:
    key, unit = OPTIONS[name].spark
    whole = f"{key} takes whole units of {unit} bytes" if unit > 1 else "Spark has no key for it"
    why = _WHY_NOT.get(name, whole)
    return why if left is None else f"{why}; it leaves {left!r}"


def _left(*, bounded: bool) -> dict[str, Any]:
    """Return what Spark leaves where nothing is configured."""
    own = OptionSet().options() | SPARK | dict.fromkeys(SPARK_UNKNOWN)
    blocks = ("cache_index_and_filter_blocks", "pin_l0_filter_and_index_blocks_in_cache")
    return own | (dict.fromkeys(blocks, True) if bounded else {})


def _is_bounded(profile: OptionSet) -> bool:
    if not (profile.block_cache_shared and profile.write_buffer_manager_in_cache):
        return False
    cache, memtables = profile.block_cache_bytes, profile.write_buffer_manager_bytes
    share = profile.high_pri_pool_ratio
    if not cache or not memtables or share is None or cache % (1 << 20):
        return False
    return memtables / cache + share < 1


def _bounded(profile: OptionSet) -> dict[str, str]:
    cache, memtables = profile.block_cache_bytes or 0, profile.write_buffer_manager_bytes or 0
    found = {
        "boundedMemoryUsage": "true",
        "maxMemoryUsageMB": str(cache >> 20),
        "writeBufferCacheRatio": repr(memtables / cache),
        "highPriorityPoolRatio": repr(profile.high_pri_pool_ratio),
    }
    return {f"{_PREFIX}rocksdb.{key}": value for key, value in found.items()}
