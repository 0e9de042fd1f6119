"""What of a store could not be read, and was left out: said once, and kept to be asked for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


_NAMED = 3


class LeftOutWarning(UserWarning):
    """A part of a store that is not in what is shown of it."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A folder among a store's segments whose rows are not shown, and why.

    Examples
    --------
    >>> from pathlib import Path
    >>> print(LeftOut(Path("counts/old"), "it is no segment of 'counts'"))
    counts/old: it is no segment of 'counts'
    """

    path: Path
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def say_left_out(path: Path, parts: list[LeftOut]) -> None:
    """Warn once of all that is left out of a store.

    Parameters
    ----------
    path
        The store's folder.
    parts
        What is left out; of nothing, nothing is said.
    """
    if not parts:
        return
    what = "One part" if len(parts) == 1 else f"{len(parts)} parts"
    is_ = "is" if len(parts) == 1 else "are"
    told = " ".join(f"{each.path.name}: {each.why.rstrip('.')}." for each in parts[:_NAMED])
    more = f" And {len(parts) - _NAMED} more." if len(parts) > _NAMED else ""
    message = f"{what} of the store {path} {is_} left out. {told}{more}"
    warnings.warn(message, LeftOutWarning, stacklevel=3)


def say_damage(path: Path, damage: str) -> None:
    """Warn that a store is read as far as it goes.

    Parameters
    ----------
    path
        The store's folder.
    damage
        What of it is lost.
    """
    message = f"The store {path} is read as far as it goes: {damage}."
    warnings.warn(message, LeftOutWarning, stacklevel=3)
