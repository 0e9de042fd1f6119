"""The block cache that a writer told of in its log, which no OPTIONS file holds.

RocksDB writes the options of each column family's tables as it opens a store, at any log level:
``block_cache: 0x7f48083210c0``, and under ``block_cache_options`` the capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.records import Source, counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.rocksdb.log.header import ToldOption


_TOLD = ("block_cache", "block_cache_name", "capacity", "strict_capacity_limit")
_NO_CACHE = {"(nil)", "0x0", "0", "nullptr"}


@dataclass(frozen=True, slots=True)
class ToldCache:
    """The block caches of a store's column families; those at one address are one.

    Parameters
    ----------
    capacity_bytes
        How large they may get together.
    addresses
        Where each was in the writer's memory: stores of one process that tell the same one share
        it.
    name
        What kind of cache: ``"LRUCache"``.
    is_strict
        Whether they refuse what there is no room for.
    num_column_families
        How many column families have one.
    """

    capacity_bytes: int
    addresses: tuple[str, ...]
    name: str
    is_strict: bool
    num_column_families: int

    @property
    def origin(self) -> str:
        """Where that is from, for people."""
        places = ", ".join(self.addresses)
        users = counted(self.num_column_families, "column families")
        return f"{Source.LOG}, {self.name} at {places} for {users}"


def told_cache(options: Iterable[ToldOption]) -> ToldCache | None:
    """Return the block caches of a store by what its log tells; None if it doesn't tell of all.

    Parameters
    ----------
    options
        What the writer told when it opened the store.

    Examples
    --------
    >>> from kstoolkit.rocksdb.log.header import ToldOption
    >>> told = {"block_cache": "0x7f48", "capacity": "8388608"}
    >>> families = [ToldOption(cf, *each) for cf in ("default", "offsets") for each in told.items()]
    >>> cache = told_cache(families)
    >>> cache.capacity_bytes, cache.num_column_families
    (8388608, 2)
    """
    families: dict[str | None, dict[str, str]] = {}
    for each in options:
        if each.name in _TOLD:  # the first capacity is the block cache's; others may follow
            families.setdefault(each.column_family, {}).setdefault(each.name, each.value)
    having = [told for told in families.values() if told.get("block_cache", "0") not in _NO_CACHE]
    caches = {told["block_cache"]: told for told in having}
    sizes = [told.get("capacity", "") for told in caches.values()]
    if not sizes or not all(size.isdecimal() for size in sizes):
        return None
    return ToldCache(
        sum(map(int, sizes)),
        tuple(caches),
        having[0].get("block_cache_name", "a cache"),
        all(told.get("strict_capacity_limit") == "1" for told in having),
        len(having),
    )
