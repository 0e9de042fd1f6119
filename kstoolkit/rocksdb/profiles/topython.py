"""A profile as the Python that makes it, and opens stores with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstoolkit.rocksdb.profiles.profile import Profile


def python_source(profile: Profile) -> str:
    """Return a program that makes rocksdict's options of a profile.

    Examples
    --------
    >>> from kstoolkit.rocksdb.profiles.profile import Profile
    >>> print(python_source(Profile(compression="lz4")))
    from kstoolkit.rocksdb.profiles.profile import Profile
    <BLANKLINE>
    profile = Profile(
        compression='lz4',
    )
    options = profile.to_rocksdict()
    reads, writes = profile.read_options(), profile.write_options()
    """
    arguments = "".join(f"    {key}={value!r},\n" for key, value in profile.changes().items())
    made = f"Profile(\n{arguments})" if arguments else "Profile()"
    return (
        f"from kstoolkit.rocksdb.profiles.profile import Profile\n\nprofile = {made}\n"
        "options = profile.to_rocksdict()\n"
        "reads, writes = profile.read_options(), profile.write_options()"
    )
