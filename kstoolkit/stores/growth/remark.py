"""One sentence of a verdict, and how much it matters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Weight(IntEnum):
    """What a sentence is about; the lower, the earlier it stands."""

    OVERDUE = 0
    CAUSE = 1
    USE = 2
    IN_ORDER = 3
    UNKNOWN = 4


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence.

    Parameters
    ----------
    weight
        What it is about.
    share
        Which share of the store it concerns, from 0 to 1: the larger, the earlier it stands.
    text
        The sentence.
    """

    weight: Weight
    share: float
    text: str
