"""Runs that lie one behind the other in a column: where their parts are, and their sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def run_edges(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each run begins, and behind them where the last one ends.

    Examples
    --------
    >>> run_edges(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    found = np.zeros(len(size) + 1, np.int64)
    np.cumsum(size, out=found[1:])
    return found


def run_places(begins: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return begin, begin + 1, ... for each run of a given size.

    Examples
    --------
    >>> run_places(np.array([10, 50]), np.array([2, 3])).tolist()
    [10, 11, 50, 51, 52]
    """
    before = run_edges(size)
    found = np.arange(before[-1])
    found += np.repeat(begins - before[:-1], size)
    return found


def run_sums(values: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of each run.

    Examples
    --------
    >>> run_sums(np.array([1, 2, 3, 4]), np.array([2, 0, 2])).tolist()
    [3, 0, 7]
    """
    total: NDArray[np.int64] = np.diff(run_edges(values)[run_edges(size)])
    return total
