"""Which profile each store of an application has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.storenames import EVERY_STORE, pattern_expression

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.rocksdb.profiles.profile import Profile


@dataclass(frozen=True, slots=True)
class ProfileMap:
    """Profiles by the names of stores; the first pattern that a name matches decides.

    Parameters
    ----------
    profiles
        Patterns, in which ``*`` is any text and ``?`` one character, with their profiles. The last
        one must be ``"*"``, so that no store is without.

    Raises
    ------
    ConfigurationError
        If a pattern comes twice, or the last is not ``"*"``.

    Examples
    --------
    >>> from kstoolkit.rocksdb.profiles.named import kafka_streams, point_lookup
    >>> stores = ProfileMap.of({"counts-*": point_lookup(), "*": kafka_streams()})
    >>> stores.for_store("counts-1h").name, stores.for_store("sessions").name
    ('point_lookup', 'kafka_streams')
    """

    profiles: tuple[tuple[str, Profile], ...]

    def __post_init__(self) -> None:
        patterns = [pattern for pattern, _ in self.profiles]
        twice = sorted({each for each in patterns if patterns.count(each) > 1})
        if twice:
            message = f"The pattern {twice[0]!r} comes twice."
            raise ConfigurationError(message, hint="Give each pattern one profile.")
        if EVERY_STORE not in patterns[-1:]:
            message = f"The last pattern is not '*': {', '.join(patterns) or 'there is none'}."
            raise ConfigurationError(message, hint="End with '*' and the profile of all others.")

    @classmethod
    def of(cls, profiles: Mapping[str, Profile]) -> ProfileMap:
        """Return the map of a dictionary, in its order."""
        return cls(tuple(profiles.items()))

    def for_store(self, name: str) -> Profile:
        """Return the profile of the store of this name."""
        fits = (
            profile
            for pattern, profile in self.profiles
            if re.fullmatch(pattern_expression(pattern), name, re.DOTALL)
        )
        return next(fits)

    def to_java(self, class_name: str) -> str:
        """Return one Kafka Streams ``RocksDBConfigSetter`` that sets all of them.

        Profiles whose shared caches are alike share one.

        Raises
        ------
        ConfigurationError
            If ``class_name`` is no name of a Java class.
        """
        from kstoolkit.rocksdb.profiles.tojava import java_setter  # noqa: PLC0415 - only if asked

        return java_setter(class_name, self.profiles)

    def __repr__(self) -> str:
        told = ", ".join(f"{pattern!r}: {profile.name!r}" for pattern, profile in self.profiles)
        return f"ProfileMap({told})"
