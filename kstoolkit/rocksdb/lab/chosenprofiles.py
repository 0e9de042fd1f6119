"""Which profiles are compared, each with a name of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.named import profile_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.profiles.profile import Profile


def chosen_profiles(given: Sequence[str | Profile]) -> list[Profile]:
    """Return profiles by their names, or as they are; one without a name gets a number for one.

    Raises
    ------
    ConfigurationError
        If there are none, no profile has such a name, or two have one name.

    Examples
    --------
    >>> from kstoolkit.rocksdb.profiles.profile import Profile
    >>> [each.name for each in chosen_profiles(["spark", Profile(block_size=8192)])]
    ['spark', 'profile 2']
    """
    if isinstance(given, str):  # a sequence of strings, too
        given = [given]
    found = [profile_named(each) if isinstance(each, str) else each for each in given]
    named = [
        each if each.name else each.changed(name=f"profile {number}")
        for number, each in enumerate(found, 1)
    ]
    names = [each.name for each in named]
    if not names:
        message = "There are no profiles to compare."
        raise ConfigurationError(message, hint="Give some, such as ['kafka_streams', 'spark'].")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"Two profiles are called {twice!r}."
        raise ConfigurationError(message, hint="Tell them apart: profile.changed(name=...).")
    return named
