"""A profile under which the memory of many stores has one bound."""

from __future__ import annotations

from typing import Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.units import format_bytes

_LEAST_MEMTABLE_BYTES = 64 << 10  # RocksDB raises smaller ones to this (db/column_family.cc)
_LARGEST_MEMTABLE_BYTES = 64 << 20


def bounded_options(total_bytes: int, stores: int) -> dict[str, Any]:
    """Return what :func:`kstoolkit.rocksdb.profiles.named.bounded_memory` sets, with its name.

    Raises
    ------
    ConfigurationError
        As it says.

    Examples
    --------
    >>> bounded_options(512 << 20, stores=24)["write_buffer_size"]
    5592405
    """
    _check_whole("total_bytes", total_bytes)
    _check_whole("stores", stores)
    if stores < 1:
        message = f"There can't be {stores} stores."
        raise ConfigurationError(message, hint="Give how many are open at once, such as stores=8.")
    memtables_bytes = total_bytes // 2
    memtable_bytes = min(memtables_bytes // (2 * stores), _LARGEST_MEMTABLE_BYTES)
    if memtable_bytes < _LEAST_MEMTABLE_BYTES:
        least = format_bytes(4 * stores * _LEAST_MEMTABLE_BYTES)
        message = (
            f"{format_bytes(total_bytes)} for {stores} stores leaves {format_bytes(memtable_bytes)}"
            f" a memtable; RocksDB takes at least {format_bytes(_LEAST_MEMTABLE_BYTES)}."
        )
        raise ConfigurationError(message, hint=f"Give at least {least}, or open fewer stores.")
    whose = "one store" if stores == 1 else f"{stores} stores together"
    return {
        "name": "bounded_memory",
        "purpose": f"For a process whose {whose} may take {format_bytes(total_bytes)}.",
        "block_cache_bytes": total_bytes,
        "block_cache_shared": True,
        "high_pri_pool_ratio": 0.1,
        "write_buffer_manager_bytes": memtables_bytes,
        "write_buffer_manager_in_cache": True,
        "write_buffer_size": memtable_bytes,
        "cache_index_and_filter_blocks": True,
        "pin_l0_filter_and_index_blocks_in_cache": True,
        "bloom_bits_per_key": 10.0,
        "compression": "lz4",
        "disable_wal": True,
    }


def _check_whole(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        message = f"{name} is {value!r}, which is no whole number."
        raise ConfigurationError(message, hint="Such as bounded_memory(512 << 20, stores=8).")
