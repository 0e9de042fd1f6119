"""The options that a session's settings give to Spark's state stores, as far as memory goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.named import spark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.rocksdb.profiles.profile import Profile


_PREFIX = "spark.sql.streaming.stateStore.rocksdb."
_SIZES = {
    "write_buffer_size": ("writeBufferSizeMB", 1 << 20),
    "max_write_buffer_number": ("maxWriteBufferNumber", 1),
    "block_cache_bytes": ("blockCacheSizeMB", 1 << 20),
    "block_size": ("blockSizeKB", 1 << 10),
}
"""For each option that bears on memory: Spark's key, and its unit."""


def profile_of_settings(settings: Mapping[str, str]) -> Profile:
    """Return the profile that Spark's state stores have under some settings.

    What the settings leave open is as Spark has it. Source of keys, defaults and what
    ``boundedMemoryUsage`` sets: ``RocksDBConf``, ``RocksDBMemoryManager`` and ``RocksDB`` of Spark
    4.3.

    Parameters
    ----------
    settings
        Spark's configuration. Keys that have nothing to do with it may be there too; upper and
        lower case make no difference in keys, as with Spark.

    Raises
    ------
    ConfigurationError
        If a value is no number, or makes no sense.

    Examples
    --------
    >>> key = "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"
    >>> profile = profile_of_settings({key: "true"})
    >>> profile.block_cache_bytes >> 20, profile.write_buffer_manager_bytes >> 20
    (500, 250)
    """
    given = {key.lower(): value for key, value in settings.items()}
    options: dict[str, Any] = {
        name: int(size) * unit
        for name, (key, unit) in _SIZES.items()
        if (size := _number(given, key, default=-1)) >= 0  # -1: as RocksDB or Spark has it
    }
    if _value(given, "boundedMemoryUsage", "false").lower() == "true":
        options |= _bounded(given)
    return spark().changed(name="spark, as the session sets it", **options)


def _bounded(given: Mapping[str, str]) -> dict[str, Any]:
    """Return what one cache for all stores of a Java comes to."""
    cache_bytes = int(_number(given, "maxMemoryUsageMB", default=500)) << 20
    memtables = _number(given, "writeBufferCacheRatio", default=0.5)
    return {
        "block_cache_bytes": cache_bytes,
        "block_cache_shared": True,
        "high_pri_pool_ratio": _number(given, "highPriorityPoolRatio", default=0.1),
        "write_buffer_manager_bytes": int(cache_bytes * memtables),
        "write_buffer_manager_in_cache": True,
        "cache_index_and_filter_blocks": True,
        "pin_l0_filter_and_index_blocks_in_cache": True,
    }


def _number(given: Mapping[str, str], key: str, *, default: float) -> float:
    value = _value(given, key, str(default))
    try:
        return float(value)
    except ValueError as error:
        message = f"{_PREFIX}{key} is {value!r}, which is no number."
        raise ConfigurationError(message, hint="Spark refuses it too: set one.") from error


def _value(given: Mapping[str, str], key: str, default: str) -> str:
    return given.get(f"{_PREFIX}{key}".lower(), default)
