"""A profile under which the memory of many stores has one bound."""

from __future__ import annotations

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.units import format_bytes

__all__ = ["bounded_memory"]

_LEAST_MEMTABLE_BYTES = 64 << 10  # RocksDB raises smaller ones to this (db/column_family.cc)
_LARGEST_MEMTABLE_BYTES = 64 << 20


def bounded_memory(total_bytes: int, stores: int) -> Profile:
    """Return a profile under which stores of one process together stay near ``total_bytes``.

    One cache holds blocks, indexes and filters, and pays for the memtables, which get half of it.
    What iterators pin, and what the allocator doesn't give back, is outside.

    Parameters
    ----------
    total_bytes
        The size of the cache.
    stores
        How many stores are open at once: partitions times segments times stores.

    Raises
    ------
    ConfigurationError
        If there are no stores, or less room for each one's memtables than RocksDB takes.

    Examples
    --------
    >>> profile = bounded_memory(512 << 20, stores=24)
    >>> profile.write_buffer_manager_bytes, profile.write_buffer_size
    (268435456, 5592405)
    """
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
    return Profile(
        name="bounded_memory",
        purpose=f"For a process whose {whose} may take {format_bytes(total_bytes)}.",
        block_cache_bytes=total_bytes,
        block_cache_shared=True,
        high_pri_pool_ratio=0.1,
        write_buffer_manager_bytes=memtables_bytes,
        write_buffer_manager_in_cache=True,
        write_buffer_size=memtable_bytes,
        cache_index_and_filter_blocks=True,
        pin_l0_filter_and_index_blocks_in_cache=True,
        bloom_bits_per_key=10.0,
        compression="lz4",
        disable_wal=True,
    )
