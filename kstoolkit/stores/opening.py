"""With which options the segments of a replica are opened; they share one block cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.rocksdb.profiles.rocksdict import rocksdict_options, shared_memory

if TYPE_CHECKING:
    from rocksdict import Options


REPLICA = Profile(
    name="replica",
    purpose="For replicas that nobody gave a profile: point queries from many small segments.",
    block_cache_bytes=64 << 20,
    block_cache_shared=True,
    bloom_bits_per_key=10.0,
    compression="lz4",
    disable_wal=True,
)
"""What a replica is opened with unless told otherwise."""


def as_profile(profile: Profile | str | None) -> Profile:
    """Return a profile: the one of a name, or the replica's own.

    Raises
    ------
    ConfigurationError
        If there is none of this name.

    Examples
    --------
    >>> as_profile(None).name, as_profile("spark").name
    ('replica', 'spark')
    """
    if profile is None:
        return REPLICA
    return profile_named(profile) if isinstance(profile, str) else profile


def segment_options(profile: Profile) -> Options:
    """Return options of which any number of segments may be opened with one block cache.

    Whatever the profile says of the write-ahead log, there is none: a segment's writes count once
    they are flushed.
    """
    return rocksdict_options(profile, shared_memory(profile))
