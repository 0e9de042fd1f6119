"""A profile as Spark's configuration, and what Spark can't set."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Record
from kstoolkit.rocksdb.profiles.options import OPTIONS, OptionSet
from kstoolkit.rocksdb.profiles.presets import SPARK, SPARK_UNKNOWN, left_by, told_to

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "spark.sql.streaming.stateStore."
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SHARED = {
    "block_cache_bytes",
    "block_cache_shared",
    "high_pri_pool_ratio",
    "write_buffer_manager_bytes",
    "write_buffer_manager_in_cache",
}
"""What Spark's boundedMemoryUsage sets together."""

_CACHED = {"cache_index_and_filter_blocks", "pin_l0_filter_and_index_blocks_in_cache"}
"""What it sets beside it, always."""

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
    settings, why
        Spark's configuration, as ``SparkSession.builder.config(map=...)`` takes it, and why each
        setting was chosen, as far as the profile says.
    unset
        Each option that was set otherwise than Spark leaves it and can't be told to it, and why.

    Examples
    --------
    >>> SparkConf({"a": "1"}, {"b": "no key"})
    SparkConf(1 settings; 1 options that Spark can't set: b)
    """

    settings: dict[str, str]
    unset: dict[str, str]
    why: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        told = settings_text(self.settings, self.why)
        return "\n".join([told, *(f"# not set: {n}: {why}" for n, why in self.unset.items())])

    def __repr__(self) -> str:
        names = f": {', '.join(self.unset)}" if self.unset else ""
        return (
            f"SparkConf({len(self.settings)} settings;"
            f" {len(self.unset)} options that Spark can't set{names})"
        )


def settings_text(settings: Mapping[str, Any], why: Mapping[str, str]) -> str:
    """Return settings, one a line, each reason once before those that it is of.

    >>> print(settings_text({"a": 1, "b": 2, "c": 3}, {"a": "both", "b": "both"}))
    # both
    a=1
    b=2
    c=3
    """
    lines = []
    for reason, names in groupby(settings, key=lambda name: why.get(name, "")):
        lines += [f"# {reason}"] if reason else []
        lines += [f"{name}={settings[name]}" for name in names]
    return "\n".join(lines)


def spark_conf(profile: OptionSet) -> SparkConf:
    """Return the settings for what was set otherwise than by Spark, and what can't be set."""
    settings = {f"{_PREFIX}providerClass": _PROVIDER}
    bounded, left = _bounded(profile), left_by(SPARK, profile)
    settings |= bounded
    why = dict.fromkeys(bounded, profile.why.get("block_cache_bytes", ""))
    unset: dict[str, str] = {}
    for name, value in told_to(SPARK, profile).items():
        if bounded and name in _SHARED | _CACHED:
            continue
        setting = _setting(name, value, profile)
        settings |= setting
        why |= dict.fromkeys(setting, profile.why.get(name, ""))
        if not setting:
            unset[name] = why_not(name, left[name])
    for name, reason in profile.unknown.items():
        unset[name] = f"unknown ({reason}); Spark's own value is left"
    return SparkConf(settings, unset, {key: reason for key, reason in why.items() if reason})


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


def why_not(name: str, left: Any = None) -> str:
    """Return why Spark can't be told an option, and what it leaves."""
    key, unit = OPTIONS[name].spark
    whole = f"{key} takes whole units of {unit} bytes" if unit > 1 else "Spark has no key for it"
    why = _WHY_NOT.get(name, whole)
    return why if left is None else f"{why}; it leaves {left!r}"


def _bounded(profile: OptionSet) -> dict[str, str]:
    """Return the settings of one cache that bounds all; none if the profile has no such."""
    if not (profile.block_cache_shared and profile.write_buffer_manager_in_cache):
        return {}
    cache, memtables = profile.block_cache_bytes, profile.write_buffer_manager_bytes
    share = profile.high_pri_pool_ratio
    if not cache or not memtables or share is None or cache % (1 << 20):
        return {}
    if memtables / cache + share >= 1:
        return {}
    found = {
        "boundedMemoryUsage": "true",
        "maxMemoryUsageMB": str(cache >> 20),
        "writeBufferCacheRatio": repr(memtables / cache),
        "highPriorityPoolRatio": repr(share),
    }
    return {f"{_PREFIX}rocksdb.{key}": value for key, value in found.items()}
