"""In which options two profiles differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Record, Records, Source, of_source

if TYPE_CHECKING:
    import pandas as pd

    from kstoolkit.rocksdb.profiles.profile import Profile


@dataclass(frozen=True, slots=True)
class Difference(Record):
    """One option that two profiles set differently.

    Parameters
    ----------
    option
        Its name.
    left_name, right_name
        What the profiles are called.
    left, right
        What each profile says; None is unknown.
    unknown
        Why ``left`` or ``right`` is unknown, if so.

    Examples
    --------
    >>> print(Difference("compression", "a", "b", "none", None, {"right": "there is no file"}))
    compression: 'none' (a), unknown (there is no file) (b)
    """

    option: str
    left_name: str
    right_name: str
    left: Any = of_source(Source.PROFILE)
    right: Any = of_source(Source.PROFILE)
    unknown: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        left = value_text(self.left, self.unknown.get("left"))
        right = value_text(self.right, self.unknown.get("right"))
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
            *names,
            value,
            others[option],
            {
                side: profile.unknown[option]
                for side, profile in (("left", left), ("right", right))
                if option in profile.unknown
            },
        )
        for option, value in left.options().items()
        if value != others[option]
    ]
    return Records(rows, "options that differ")


def option_table(profile: Profile) -> pd.DataFrame:
    """Return one row an option: ``option``, ``value``, ``rocksdb``'s own, ``why_unknown``.

    Examples
    --------
    >>> from kstoolkit.rocksdb.profiles.profile import Profile
    >>> table = option_table(Profile(compression="lz4")).set_index("option")
    >>> table.loc["compression", ["value", "rocksdb"]].tolist()
    ['lz4', 'snappy']
    """
    import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

    own = type(profile)().options()
    rows = [
        (name, value, own[name], profile.unknown.get(name))
        for name, value in profile.options().items()
    ]
    columns = ["option", "value", "rocksdb", "why_unknown"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def value_text(value: Any, why_unknown: str | None = None) -> str:
    """Return an option's value for people.

    Examples
    --------
    >>> value_text(4096), value_text(True), value_text(None, "no file")
    ('4096', 'True', 'unknown (no file)')
    """
    return f"unknown ({why_unknown or 'not told'})" if value is None else repr(value)
