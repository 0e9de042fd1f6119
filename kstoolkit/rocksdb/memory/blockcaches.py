"""The block caches behind some open stores: each counted once, however many stores share it.

RocksDB answers for the cache of whichever store is asked. Two that share one give the same figures
and, in ``rocksdb.block-cache-entry-stats``, the same address, by which they are told apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocksdict import Rdict


_IDENTITY = re.compile(r"^Block cache (\S+@\S+) capacity: ", re.MULTILINE)
_MEMTABLES = re.compile(r"\bWriteBuffer\((\d+),")


@dataclass(frozen=True, slots=True)
class BlockCache:
    """One block cache.

    Parameters
    ----------
    identity
        What RocksDB calls it: its kind and address.
    capacity_bytes, usage_bytes, pinned_bytes
        How large it may get, is, and how much of that is pinned: inside the usage.
    charged_with_memtables
        Whether memtables take their room from it, so that its usage holds them too.
    num_users
        How many column families of those that were asked have it.
    """

    identity: str
    capacity_bytes: int
    usage_bytes: int
    pinned_bytes: int
    charged_with_memtables: bool
    num_users: int


def block_caches(handles: Iterable[Rdict]) -> list[BlockCache]:
    """Return each cache once; a column family without a cache adds none.

    Parameters
    ----------
    handles
        Open column families, of one store or of several in this process.

    Raises
    ------
    Exception
        What rocksdict raises.
    """
    users: dict[str, list[Rdict]] = {}
    for place, handle in enumerate(handles):
        if handle.property_int_value("rocksdb.block-cache-capacity") is not None:
            users.setdefault(_identity(handle, place), []).append(handle)
    return [_cache(identity, having) for identity, having in users.items()]


def _identity(handle: Rdict, place: int) -> str:
    found = _IDENTITY.search(_entry_stats(handle))
    return found[1] if found else f"of handle {place}"


def _cache(identity: str, users: list[Rdict]) -> BlockCache:
    one = users[0]
    memtables = _MEMTABLES.search(_entry_stats(one))
    return BlockCache(
        identity,
        capacity_bytes=_size(one, "capacity"),
        usage_bytes=_size(one, "usage"),
        pinned_bytes=_size(one, "pinned-usage"),
        charged_with_memtables=memtables is not None and int(memtables[1]) > 0,
        num_users=len(users),
    )


def _size(handle: Rdict, what: str) -> int:
    return handle.property_int_value(f"rocksdb.block-cache-{what}") or 0


def _entry_stats(handle: Rdict) -> str:
    return handle.property_value("rocksdb.block-cache-entry-stats") or ""
