"""The memory formula for a store that is there: what its files, options and log say goes in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.rocksdb.memory.numbers import check_whole
from kstoolkit.rocksdb.memory.planning import origin_of, plan_of, profile_given
from kstoolkit.rocksdb.memory.terms import Given

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable

    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.memory.planning import MemoryPlan
    from kstoolkit.rocksdb.memory.toldcache import ToldCache
    from kstoolkit.rocksdb.profiles.profile import Profile


_KEY_TRAILER_BYTES = 8  # sequence number and type, which RocksDB adds to each key in a file


def plan_for(
    profile: Profile | str | os.PathLike[str] | None,
    ssts: Collection[Sst],
    *,
    cache: ToldCache | None = None,
    column_families: int = 1,
    instances: int = 1,
    iterators: int | None = None,
) -> MemoryPlan | None:
    """Return the formula for stores like one that is there; None if its options are unknown.

    Parameters
    ----------
    profile
        What the writer opens them with, or the name of that; if it is unknown, so is the plan.
    ssts
        The files of the store, which say how large their index and filter blocks are. Where one
        doesn't, they are estimated from its keys.
    cache
        What the writer's log tells of its block cache, for a profile that doesn't.
    column_families, instances, iterators
        How many are written in each store, how many stores are open at once, and how many
        iterators in each.

    Raises
    ------
    ConfigurationError
        If ``instances`` or ``iterators`` is no whole number, or too small.
    InputError
        If ``profile`` is a text, and neither the name of a profile nor a path.
    """
    check_whole("instances", instances, least=1, hint="Give how many are open at once: 1 or more.")
    if iterators is not None:
        check_whole("iterators", iterators, least=0, hint="Give how many are open at once.")
    if profile is None:
        return None
    base = profile_given(profile)
    told = cache if base.block_cache_bytes is None else None
    given = Given(
        instances=instances,
        column_families=column_families,
        base=origin_of(base),
        origins={} if told is None else _origins(told),
        iterators=iterators,
        **_of_data(ssts),
    )
    return plan_of(_with_cache(base, told) if told else _told_nowhere(base), given)


def _told_nowhere(profile: Profile) -> Profile:
    """Return a profile that says what tells of its cache, if nothing does."""
    name = "block_cache_bytes"
    if profile.block_cache_bytes is not None or name not in profile.unknown:
        return profile
    why = f"{profile.unknown[name]}, nor does the writer's log tell of one: give profile=..."
    return profile.changed(unknown={name: why})


def _with_cache(profile: Profile, cache: ToldCache) -> Profile:
    return profile.changed(
        block_cache_bytes=cache.capacity_bytes, strict_capacity_limit=cache.is_strict
    )


def _origins(cache: ToldCache) -> dict[str, str]:
    return dict.fromkeys(("block_cache_bytes", "strict_capacity_limit"), cache.origin)


def _of_data(ssts: Collection[Sst]) -> dict[str, Any]:
    """Return what the files say of index and filter blocks, and of the keys to estimate them by."""
    blocks = {
        "index_bytes": _added(each.index_bytes for each in ssts),
        "filter_bytes": _added(each.filter_bytes for each in ssts),
    }
    entries = sum(each.num_entries for each in ssts)
    keys = _added(each.raw_key_bytes for each in ssts)
    values = _added(each.raw_value_bytes for each in ssts)
    if not entries or keys is None or values is None:
        return blocks
    return blocks | {
        "keys": entries,
        "key_bytes": max(0, round(keys / entries) - _KEY_TRAILER_BYTES),
        "value_bytes": round(values / entries),
    }


def _added(sizes: Iterable[int | None]) -> int | None:
    listed = list(sizes)
    known = [size for size in listed if size is not None]
    return sum(known) if len(known) == len(listed) else None
