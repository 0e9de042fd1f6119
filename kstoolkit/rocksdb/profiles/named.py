"""Profiles with a name: the engines' own defaults, and some for one purpose each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.rocksdb.profiles.presets import PRESET_NAMES, bounded_options, named_options
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    import os


def profile_names() -> tuple[str, ...]:
    """Return the names that profiles have.

    >>> profile_names()[:2]
    ('kafka_streams', 'spark')
    """
    return PRESET_NAMES


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
        If one is no whole number, there are no stores, or too little room for each one's memtables.

    Examples
    --------
    >>> profile = bounded_memory(512 << 20, stores=24)
    >>> profile.write_buffer_manager_bytes, profile.write_buffer_size
    (268435456, 5242880)
    """
    return Profile(**bounded_options(total_bytes, stores))


def profile_named(
    name: str, *, total_bytes: int | None = None, stores: int | None = None
) -> Profile:
    """Return the profile of this name; its ``purpose`` says what it is good for.

    Parameters
    ----------
    name
        One of :func:`~kstoolkit.rocksdb.profiles.named.profile_names`; another is a
        ConfigurationError.
    total_bytes, stores
        What ``"bounded_memory"`` asks for, 512 MiB and one store by default; no other takes them.

    Examples
    --------
    >>> profile_named("spark").block_cache_bytes
    8388608
    """
    return Profile(**named_options(name, total_bytes=total_bytes, stores=stores))


def profile_given(profile: Profile | str | os.PathLike[str] | None) -> Profile:
    """Return the profile that was given: itself, by its name, or by a path; RocksDB's own if None.

    What is neither the name of a profile nor a path with an OPTIONS file is an InputError.
    """
    if profile is None or isinstance(profile, Profile):
        return profile or Profile()
    if isinstance(profile, str) and profile in PRESET_NAMES:
        return profile_named(profile)
    return Profile.from_options(profile)
