"""How large RocksDB means each level to be, by the options that a store was opened with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.rocksdb.profiles.profile import Profile


def level_targets(profile: Profile, sizes: Mapping[int, int]) -> dict[int, float]:
    """Return the target size of each level below level 0; none if the options tell none.

    Source: ``VersionStorageInfo::CalculateBaseBytes`` in RocksDB's ``db/version_set.cc``.

    Parameters
    ----------
    profile
        The options. Other styles than level have no targets.
    sizes
        Bytes of each level of one column family, level 0 too.

    Examples
    --------
    >>> from kstoolkit.rocksdb.profiles.profile import Profile
    >>> static = Profile(level_compaction_dynamic_level_bytes=False, max_bytes_for_level_base=100)
    >>> [round(size) for size in list(level_targets(static, {1: 5}).values())[:3]]
    [100, 1000, 10000]
    """
    base, step = profile.max_bytes_for_level_base, profile.max_bytes_for_level_multiplier
    num_levels = profile.num_levels
    if profile.compaction_style != "level" or base is None or step is None or num_levels is None:
        return {}
    if not profile.level_compaction_dynamic_level_bytes:
        return {level: base * step ** (level - 1) for level in range(1, num_levels)}
    return _dynamic(base, step, num_levels, sizes)


def _dynamic(base: int, step: float, num_levels: int, sizes: Mapping[int, int]) -> dict[int, float]:
    """Return targets that are worked out upwards, from the largest level."""
    filled = [level for level, size in sizes.items() if level > 0 and size > 0]
    if not filled:
        return {}
    first = min(filled)
    size = max(sizes[level] for level in filled) / step ** (num_levels - 1 - first)
    if size <= base / step:
        size = base / step + 1
    else:
        while first > 1 and size > base:
            first, size = first - 1, size / step
        size = min(size, base)
    return {level: max(size * step ** (level - first), base) for level in range(first, num_levels)}
