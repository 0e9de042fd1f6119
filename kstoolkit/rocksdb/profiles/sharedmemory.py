"""The block cache and the memtable budget that several stores of one process share."""

from __future__ import annotations

from dataclasses import dataclass

from rocksdict import Cache, WriteBufferManager

from kstoolkit.errors import ConfigurationError


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
