"""Random draws that come out alike on every machine, to the last bit.

Numpy promises stable raw bits of a generator, but not what its distributions make of them, and
``log`` and ``exp`` differ in the last digit between processors. So all draws here are made of raw
bits with ``+ - * /`` alone, which IEEE 754 fixes.

Examples
--------
>>> draws = Draws(7, "example")
>>> [round(float(u), 6) for u in draws.uniform(3)] == [
...     round(float(u), 6) for u in Draws(7, "example").uniform(3)
... ]
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


_LN_2 = 0.6931471805599453
_SERIES_TERMS = 15
"""The series' argument is at most 1/3, so that these reach double precision."""


class Draws:
    """A named stream of random draws: the same for the same seed and name.

    Parameters
    ----------
    seed
        Any whole number from 0 on.
    stream
        What the draws are for; streams of one seed are independent of each other.
    """

    __slots__ = ("_bits",)

    def __init__(self, seed: int, stream: str) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, *stream.encode()]))

    def uniform(self, size: int) -> Floats:
        """Return ``size`` numbers in [0, 1), each a multiple of 2⁻⁵³."""
        top = self._bits.random_raw(size) >> np.uint64(11)
        return np.asarray(top * 2.0**-53, np.float64)

    def between(self, low: ArrayLike, high: ArrayLike, size: int) -> Floats:
        """Return ``size`` numbers in [low, high)."""
        least = np.asarray(low, np.float64)
        width: Floats = np.asarray(high, np.float64) - least
        return least + self.uniform(size) * width

    def integers(self, low: ArrayLike, high: ArrayLike, size: int) -> Ints:
        """Return ``size`` whole numbers from ``low`` on and below ``high``."""
        return np.floor(self.between(low, high, size)).astype(np.int64)

    def gamma(self, shape: int, size: int) -> Floats:
        """Return ``size`` gamma-distributed numbers with mean 1 and variance ``1 / shape``.

        They are means of ``shape`` exponentials (an Erlang distribution), so never 0.
        """
        total = np.zeros(size)
        for _ in range(shape):
            total -= log(1.0 - self.uniform(size))
        return total / shape + 2.0**-53

    def order(self, size: int) -> Ints:
        """Return the numbers below ``size`` in random order."""
        return np.argsort(self._bits.random_raw(size), kind="stable").astype(np.int64)


def log(values: Floats) -> Floats:
    """Return the natural logarithm of positive numbers, alike on every machine.

    ``ln(m · 2ᵉ) = e ln 2 + 2 artanh((m - 1) / (m + 1))``, with the series of artanh.

    Examples
    --------
    >>> bool(np.allclose(log(np.array([1e-9, 0.5, 1.0])), [-20.72326584, -0.69314718, 0.0]))
    True
    """
    mantissa, exponent = np.frexp(values)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for term in range(_SERIES_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return 2.0 * ratio * series + exponent * _LN_2


def pick(weights: Floats, rows: Ints, uniform: Floats) -> Ints:
    """Return a column for each of ``rows``, chosen by that row's weights.

    Parameters
    ----------
    weights
        Two-dimensional, not negative, with something positive in each row that is used.
    rows, uniform
        For each choice, its row and its draw in [0, 1).

    Examples
    --------
    >>> weights = np.array([[1.0, 1.0], [0.0, 3.0]])
    >>> pick(weights, np.array([0, 0, 1]), np.array([0.2, 0.7, 0.2])).tolist()
    [0, 1, 1]
    """
    columns = weights.shape[1]
    # One running sum over all rows makes the choices of all rows a single search. np.sum would
    # add in an order that depends on the processor; a running sum does not.
    reached = np.concatenate([[0.0], np.cumsum(weights)])
    low, high = reached[rows * columns], reached[(rows + 1) * columns]
    found = np.searchsorted(reached, low + uniform * (high - low), side="right") - 1
    chosen: Ints = np.clip(found - rows * columns, 0, columns - 1)
    return chosen
