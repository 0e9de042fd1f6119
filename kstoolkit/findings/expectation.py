# ruff: noqa: RUF002 - rho is the letter of the formula
"""What count to expect of a cell's next window, and how improbable another one is.

A user's rate is known from peers and from n windows of its own, its counts are burstier than
Poisson by κ. With A = alpha + S and B = beta + n, the next count has

    mean       m = A / B
    variance   m + R + κ (m² + R),   R = m / B + ρ m²,   ρ = κ S / (A B)

R is what is not known of the rate: m / B from counting, ρ m² since a bursty history tells less.
For κ = 0 this is the classic negative binomial NB(A, B / (B + 1)): Gelman et al., *Bayesian Data
Analysis*, §2.6.

That law has the right variance, but too short a tail: with κ = 2 and 12 windows, counts of
probability 1e-4 come up thirty times as often. So rare tails are averaged, at the seven nodes of a
Gauss-Hermite rule through Wilson and Hilferty's cube root (1931) of a gamma variable,

- over the rate, where a cell has history of its own: where bursts are gamma-distributed, the rate
  given n bursty windows is inverse-gamma with the shape 1 / ρ;
- over the burst of this window, gamma with the shape 1 / κ, where it is only known from peers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.findings.tails import interval, log_upper_tail, tail_bounds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


_RARE = float(np.log(0.01))
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_Z, _WEIGHTS = _NODES[:, None], _WEIGHTS / _WEIGHTS.sum()
_LEAST_ROOT = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """What is expected of some cells: one number a cell in each; NaN where nothing is known.

    Parameters
    ----------
    mean
        The expected count, m.
    windows
        How many windows it rests on, peers' worth included: B.
    dispersion
        How much burstier than Poisson a cell is: κ.
    doubt
        How uncertain a bursty history leaves the rate: ρ, relative to m².

    Examples
    --------
    >>> one = Expectation(*(np.array([value]) for value in (6.0, 20.0, 0.1, 0.005)))
    >>> one.log_tail([61]).round(1).tolist(), [int(end[0]) for end in one.interval()]
    ([-34.8], [1, 13])
    """

    mean: Floats
    windows: Floats
    dispersion: Floats
    doubt: Floats

    @property
    def variance(self) -> Floats:
        """Of the count that is expected."""
        return self._variance(self.mean, self.doubt)

    def interval(self) -> tuple[Integers, Integers]:
        """Return the counts between which 95 % of the next windows lie; the mean must be known."""
        return interval(self.mean, self.variance)

    def log_tail(self, count: ArrayLike) -> Floats:
        """Return ln P(X >= count) for the next window."""
        x = np.asarray(count, np.float64)
        tail = log_upper_tail(x, self.mean, self.variance)
        rows = np.flatnonzero((tail < _RARE) & (self.dispersion > 0))
        tail[rows] = _average(log_upper_tail(x[rows], *self.take(rows).at_nodes()))
        return tail

    def is_rarer(self, count: ArrayLike, log_p: ArrayLike) -> NDArray[np.bool_]:
        """Return where ln P(X >= count) is not above a limit, which takes bounds alone mostly.

        Parameters
        ----------
        count
            Whole numbers from 1 on.
        log_p
            The limit; one for each count, or one for all.

        Examples
        --------
        >>> two = Expectation(*(np.array([value] * 2) for value in (6.0, 20.0, 0.1, 0.005)))
        >>> two.is_rarer([14, 61], np.log(1e-6)).tolist()
        [False, True]
        """
        x, limit = np.broadcast_arrays(np.asarray(count, np.float64), log_p)
        low, high = self._tail_bounds(x)
        rarer = high <= limit
        unsure = np.flatnonzero((low <= limit) & ~rarer)
        rarer[unsure] = self.take(unsure).log_tail(x[unsure]) <= limit[unsure]
        return rarer

    def _tail_bounds(self, x: Floats) -> tuple[Floats, Floats]:
        """Return what :meth:`log_tail` is at least and at most."""
        low, high = tail_bounds(x, self.mean, self.variance)
        rows = np.flatnonzero(self.dispersion > 0)
        bounds = tail_bounds(x[rows], *self.take(rows).at_nodes())
        low[rows], averaged = np.minimum(_average(bounds[0]), _RARE), _average(bounds[1])
        high[rows] = np.where(high[rows] < _RARE, averaged, np.maximum(high[rows], averaged))
        return low, high

    def take(self, rows: Integers) -> Expectation:
        """Return the expectation of some rows."""
        return Expectation(*(getattr(self, name)[rows] for name in self.__slots__))

    def at_nodes(self) -> tuple[Floats, Floats]:
        """Return mean and variance of the laws that a rare tail is averaged over, one a line.

        Over the rates that a bursty history of its own leaves possible; where there is none, over
        the bursts of a window, the rate being any of the peers'.
        """
        rate = self.mean / _cubed(1 - self.doubt / 9 - _Z * np.sqrt(self.doubt) / 3)
        burst = _cubed(1 - self.dispersion / 9 + _Z * np.sqrt(self.dispersion) / 3)
        mean = self.mean * burst / (_WEIGHTS @ burst)
        any_rate = mean + mean * mean / (self.mean * self.windows)
        own = self.doubt > 0
        variance = np.where(own, self._variance(rate, np.zeros_like(rate)), any_rate)
        return np.where(own, rate, mean), variance

    def _variance(self, mean: Floats, doubt: Floats) -> Floats:
        unknown = mean / self.windows + doubt * mean * mean
        return mean + unknown + self.dispersion * (mean * mean + unknown)


def _cubed(root: Floats) -> Floats:
    return np.maximum(root, _LEAST_ROOT) ** 3


def _average(log_p: Floats) -> Floats:
    return np.asarray(np.logaddexp.reduce(log_p + np.log(_WEIGHTS)[:, None], axis=0))
