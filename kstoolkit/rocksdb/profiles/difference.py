"""In which options two profiles differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.rocksdb.records import Record, Records

if TYPE_CHECKING:
    from kstoolkit.rocksdb.profiles.profile import Profile

__all__ = ["Difference", "differences", "value_text"]


@dataclass(frozen=True, slots=True)
class Difference(Record):
    """One option that two profiles set differently.

    Parameters
    ----------
    option
        Its name.
    left, right
        What each profile says; None is unknown.
    left_name, right_name
        What the profiles are called.
    why_unknown
        Why one is unknown, if so.

    Examples
    --------
    >>> print(Difference("compression", "none", None, "a", "b", "there is no file"))
    compression: 'none' (a), unknown (there is no file) (b)
    """

    option: str
    left: Any
    right: Any
    left_name: str
    right_name: str
    why_unknown: str | None = None

    def __str__(self) -> str:
        left = value_text(self.left, self.why_unknown)
        right = value_text(self.right, self.why_unknown)
        return f"{self.option}: {left} ({self.left_name}), {right} ({self.right_name})"


def differences(left: Profile, right: Profile) -> Records[Difference]:
    """Return each option in which the profiles differ, in the order of the options.

    An option that is unknown on one side is told; one that is unknown on both is not.
    """
    names = left.name or "left", right.name or "right"
    others = right.options()
    rows = [
        Difference(
            option,
            value,
            others[option],
            *names,
            left.unknown.get(option) or right.unknown.get(option),
        )
        for option, value in left.options().items()
        if value != others[option]
    ]
    return Records(rows, "options that differ")


def value_text(value: Any, why_unknown: str | None = None) -> str:
    """Return an option's value for people.

    Examples
    --------
    >>> value_text(4096), value_text(True), value_text(None, "no file")
    ('4096', 'True', 'unknown (no file)')
    """
    return f"unknown ({why_unknown or 'not told'})" if value is None else repr(value)
