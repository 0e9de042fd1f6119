"""Profiles with a name: the engines' own defaults, and some for one purpose each."""

from __future__ import annotations

from kstoolkit.rocksdb.profiles.presets import PRESET_NAMES, bounded_options, named_options
from kstoolkit.rocksdb.profiles.profile import Profile


def profile_names() -> tuple[str, ...]:
    """Return the names that profiles have.

    Examples
    --------
    >>> profile_names()[:2]
    ('kafka_streams', 'spark')
    """
    return PRESET_NAMES


def kafka_streams() -> Profile:
    """Return what Kafka Streams 4.3 sets on this machine.

    Examples
    --------
    >>> kafka_streams().compaction_style, kafka_streams().compression
    ('universal', 'none')
    """
    return Profile(**named_options("kafka_streams"))


def spark() -> Profile:
    """Return what Spark 4.3's RocksDB state store sets.

    Examples
    --------
    >>> spark().compaction_style, spark().compression
    ('level', 'lz4')
    """
    return Profile(**named_options("spark"))


def point_lookup() -> Profile:
    """Return a profile for many gets of single keys, present or absent.

    Indexes and filters live outside the cache, in memory for as long as their files are open:
    RocksDB would pin only those of level 0 in it, and build a hash index again at each miss.
    Keys are taken to start with 4 bytes that spread them, as those of kstoolkit's stores do; for
    other keys change ``prefix_bytes``. Iterate with the profile's ``read_options()``: without them,
    RocksDB finds nothing from a key on whose prefix is absent.

    Examples
    --------
    >>> point_lookup().index_type, point_lookup().prefix_bytes
    ('hash_search', 4)
    """
    return Profile(**named_options("point_lookup"))


def write_heavy() -> Profile:
    """Return a profile for stores that are mostly written.

    Examples
    --------
    >>> write_heavy().max_write_buffer_number
    4
    """
    return Profile(**named_options("write_heavy"))


def bulk_load() -> Profile:
    """Return a profile for filling a store once: compact it afterwards, and open it otherwise.

    Examples
    --------
    >>> bulk_load().disable_auto_compactions
    True
    """
    return Profile(**named_options("bulk_load"))


def low_disk() -> Profile:
    """Return a profile for disks that are small or dear.

    Examples
    --------
    >>> low_disk().bottommost_compression
    'zstd'
    """
    return Profile(**named_options("low_disk"))


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
        If one is no whole number, there are no stores, or less room for each one's memtables than
        RocksDB takes.

    Examples
    --------
    >>> profile = bounded_memory(512 << 20, stores=24)
    >>> profile.write_buffer_manager_bytes, profile.write_buffer_size
    (268435456, 5592405)
    """
    return Profile(**bounded_options(total_bytes, stores))


def profile_named(
    name: str, *, total_bytes: int | None = None, stores: int | None = None
) -> Profile:
    """Return the profile of this name.

    Parameters
    ----------
    name
        One of :func:`~kstoolkit.rocksdb.profiles.named.profile_names`.
    total_bytes, stores
        What ``"bounded_memory"`` asks for, 512 MiB and one store by default; no other takes them.

    Raises
    ------
    ConfigurationError
        If there is none of this name, or it takes no ``total_bytes`` and ``stores``.

    Examples
    --------
    >>> profile_named("spark").block_cache_bytes
    8388608
    """
    return Profile(**named_options(name, total_bytes=total_bytes, stores=stores))
