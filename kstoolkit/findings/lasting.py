"""What no single count of a user shows: a level that has risen, counts too even, many newcomers.

A bucket sees the first two by a cell's own windows alone, as they are closed.

**Drift**: with m and κ the mean and dispersion of the cell's own past, r = 1 / κ, and a factor f, a
window with x events adds its log-likelihood ratio, an empty one takes away what it does at x = 0::

    C ← max(0, C + x · ln(f (m + r) / (f m + r)) - r · ln((f m + r) / (m + r)))

    Page 1954; Lucas 1985, *Counted data CUSUM's*, Technometrics 27

No window counts as more than three times the risen level, and three: a single burst is no drift.
Its surprise is C / ln 10; what that is worth is counted, as of all surprise: excursions from 0 by
how high they went. One is told once, when it passes what the budget asks.

**Evenness**: over 24 windows with mean x̄, Σ(x - x̄)² / x̄ is chi-squared with 23 degrees of freedom
if events fall by chance; its lower tail is how improbable it is that they are so even. People are
less even than chance, so this is told as it is. Below a mean of one it is not looked at.

**Newcomers**: how many users did an action for the first time, as a count of that action, judged as
the count of a user without peers is (:mod:`~kstoolkit.findings.tails`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.findings.peers import FEWEST_WINDOWS, never_null
from kstoolkit.findings.tails import log_upper_tail

if TYPE_CHECKING:
    from kstoolkit.findings.peers import Floats, Integers

RISING, AS_IS = 3, 4
"""Beside histories of cells: surprise at a level that rises, and such as is worth what it says."""

NEWCOMERS = "(newcomers)"
"""Who a finding is of that is of nobody alone."""

BLOCK = 24
_LEAST_MEAN = 1.0
_MOST_OF_RISEN, _MOST_BESIDES = 3, 3
_MOST_EVIDENCE = 60.0
_TWO_DAYS_MS = 2 * 86_400_000
_LN_10 = float(np.log(10))


@dataclass(frozen=True, slots=True)
class Watch:
    """What baselines watch beside single counts: drift by a factor, evenness, newcomers.

    Where there is a ``group``, users of one kind alone are peers.
    """

    factor: float | None = None
    evenness: bool = False
    newcomers: bool = False
    group: str | None = None

    def __bool__(self) -> bool:
        return self.factor is not None or self.evenness or self.newcomers


NOTHING = Watch()

LASTING_SCHEMA = pa.schema(
    [
        *never_null(pa.int64(), "window_start_ms"),
        *never_null(pa.string(), "user", "action"),
        *never_null(pa.int64(), "count", "history", "n", "since_ms"),
        *never_null(pa.float64(), "mean", "dispersion", "surprise", "before"),
    ]
)
"""What baselines saw of cells: ``history`` is :data:`RISING` or :data:`AS_IS` (evenness).

``n`` windows have that ``mean`` and ``dispersion``; it lasts since ``since_ms``, and was so
surprising ``before``.
"""

NEWCOMERS_SCHEMA = pa.schema(
    [
        *never_null(pa.int64(), "window_start_ms"),
        *never_null(pa.string(), "action"),
        *never_null(pa.int64(), "count"),
    ]
)
"""How many users did an action for the first time in a window."""


def ready_after(every_ms: int) -> int:
    """Return how many windows a cell has before its own past is known: of two days, or twelve.

    >>> [ready_after(hours * 3_600_000) for hours in (1, 24)]
    [48, 12]
    """
    return max(-(-_TWO_DAYS_MS // every_ms), FEWEST_WINDOWS)


@dataclass(frozen=True, slots=True, eq=False)
class Rise:
    """Evidence that levels have risen: how much, the highest since there was none, and since when.

    >>> none = np.zeros(1)
    >>> rise = Rise(none, none, none)
    >>> for hour in range(3):
    ...     told = (np.zeros(1), np.array([4.0]), np.array([0.5]))
    ...     rise = rise.after(np.array([12]), hour, told, factor=2)
    >>> print(rise.evidence.round(1), rise.since_ms)
    [3.5] [0.]
    """

    evidence: Floats
    highest: Floats
    since_ms: Floats

    def after(
        self,
        count: Integers,
        at_ms: Integers | int,
        told: tuple[Floats, Floats, Floats],
        *,
        factor: float,
    ) -> Rise:
        """Return what there is after a window; ``told`` are empty ones before it, m and κ."""
        quiet, mean, dispersion = told
        r, risen = 1 / dispersion, factor * mean
        down = r * np.log((risen + r) / (mean + r))
        each = np.log(factor * (mean + r) / (risen + r))
        begun = np.maximum(self.evidence - quiet * down, 0)
        held = np.minimum(count, _MOST_OF_RISEN * risen + _MOST_BESIDES)
        evidence = np.clip(begun + held * each - down, 0, _MOST_EVIDENCE)
        goes_on = begun > 0
        highest = np.maximum(np.where(goes_on, self.highest, 0), begun)
        return Rise(evidence, highest, np.where(goes_on, self.since_ms, at_ms))

    def surprise(self) -> tuple[Floats, Floats]:
        """Return how surprising the evidence is, and was when it was highest before."""
        return self.evidence / _LN_10, self.highest / _LN_10


def evenness(total: Floats, squares: Floats) -> Floats:
    """Return how surprisingly even 24 windows are, by the sum of their counts and of the squares.

    >>> print(evenness(np.array([240.0, 240.0]), np.array([2410.0, 2640.0])).round(1))
    [11.8  0.2]
    """
    mean = total / BLOCK
    known = mean >= _LEAST_MEAN
    spread = np.where(known, squares - total * mean, 1) / np.where(known, mean, 1)
    shape = np.full(len(total), (BLOCK - 1) / 2)
    half = np.maximum(spread / 2, 1e-12)
    return np.where(known, -log_upper_tail(shape, half, half) / _LN_10, 0)
