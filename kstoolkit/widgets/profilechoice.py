"""Profiles to choose some of: those that have names, and one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipywidgets import Checkbox, HBox, Layout

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import plain
from kstoolkit.rocksdb.lab.comparing import chosen_profiles
from kstoolkit.rocksdb.profiles.named import profile_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.profiles.profile import Profile


_LONGEST_NAME = 28


class ProfileChoice(HBox):  # type: ignore[misc] # ipywidgets carries no types
    """A box to tick for each profile.

    Parameters
    ----------
    profiles
        Which are ticked at first: names, or profiles of one's own, offered beside the named ones.

    Examples
    --------
    >>> choice = ProfileChoice(["spark"])
    >>> choice.choose("spark", "low_disk")
    >>> choice.names()
    ['spark', 'low_disk']
    >>> choice.close()
    """

    def __init__(self, profiles: Sequence[str | Profile]) -> None:
        own = {each.name: each for each in chosen_profiles(profiles)}
        self._offered: dict[str, str | Profile] = {**own}
        self._offered |= {name: name for name in profile_names() if name not in own}
        self.boxes = {
            name: Checkbox(
                value=name in own,
                description=short_name(name),
                indent=False,
                layout=Layout(width="auto"),
            )
            for name in self._offered
        }
        super().__init__(list(self.boxes.values()))
        self.add_class("kst-wraps")

    def choose(self, *names: str) -> None:
        """Tick these, and no others.

        Raises
        ------
        ConfigurationError
            If one of them is not offered.
        """
        for name in names:
            if name not in self.boxes:
                message = f"No profile {name!r:.80} is offered."
                raise ConfigurationError(message, hint=f"There are {', '.join(self.boxes)}.")
        for name, box in self.boxes.items():
            box.value = name in names

    def names(self) -> list[str]:
        """Return the names of those that are ticked."""
        return [name for name, box in self.boxes.items() if box.value]

    def profiles(self) -> list[str | Profile]:
        """Return those that are ticked."""
        return [self._offered[name] for name in self.names()]


def short_name(name: str) -> str:
    r"""Return the name of a profile as a label or a sentence has it.

    Examples
    --------
    >>> short_name("spark, changed"), short_name("a\0b"), len(short_name("x" * 10_000))
    ('spark, changed', 'a[U+0000]b', 28)
    """
    ends = name if len(name) <= 2 * _LONGEST_NAME else name[:_LONGEST_NAME] + name[-_LONGEST_NAME:]
    seen = plain(ends)
    if len(seen) <= _LONGEST_NAME:
        return seen
    half = _LONGEST_NAME // 2
    return f"{seen[:half]}…{seen[1 - half :]}"
