"""What peers say of a cell (user, action) before its own history does.

From the pooled sums come the numbers that say how the rates of all users spread, and how bursty
each one is:

    κ = max(mean(sᵢ² - x̄ᵢ) / mean(x̄ᵢ²), 0)                  Var = m + κ m² within a user
    μ = mean(x̄ᵢ)
    v = max(var(x̄ᵢ) - mean((x̄ᵢ + κ x̄ᵢ²) / nᵢ), ε)          between users
    alpha = μ² / v,  beta = μ / v                             gamma prior of a user's rate

over all cells (user, action) with n ≥ 2 windows of history; what to expect of a cell then
is said in :mod:`~kstoolkit.findings.expectation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.expectation import Expectation
from kstoolkit.findings.moments import SUMS
from kstoolkit.findings.texts import codes_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


FEWEST_PEERS = 30
"""Fewer cells with history than this say nothing about peers."""

FEWEST_WINDOWS = 12
"""From here on a user's own history counts; until then peers are all there is to compare with."""

_COLUMNS = ("cells", "pooled_cells", *SUMS)
_LEAST_SPREAD = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """What peers say of a cell before its own history does; one number, or one a cell, in each.

    Parameters
    ----------
    alpha, beta
        Of the gamma distribution of rates: the mean rate is ``alpha / beta``.
    dispersion
        κ, how much burstier than Poisson a user is.
    peers
        On how many cells it rests.
    tests
        How many cells there are to test in one window.

    Where peers are too few everything but ``peers`` and ``tests`` is NaN.
    """

    alpha: Floats
    beta: Floats
    dispersion: Floats
    peers: Floats
    tests: Floats

    @classmethod
    def of_sums(cls, sums: Floats, everyone: Floats) -> Prior:
        """Return the prior of each row of :func:`moment_sums`.

        A row with fewer than :data:`FEWEST_PEERS` peers takes ``everyone``, the row of all actions.

        Examples
        --------
        >>> import numpy as np
        >>> from kstoolkit.findings.moments import moment_sums
        >>> n, total = np.full(40, 10), np.repeat([10.0, 30.0], 20)
        >>> sums = moment_sums(np.zeros(40, int), n, total, total**2 / 10 + total, 1)
        >>> prior = Prior.of_sums(sums, sums[-1])
        >>> (prior.alpha / prior.beta).tolist(), prior.peers.tolist()
        ([2.0, 2.0], [40.0, 40.0])
        """
        few = sums[:, 1:2] < FEWEST_PEERS
        used = np.where(few, everyone, sums)
        _, pooled, excess, mean, square, mean_per_n, square_per_n = used.T
        enough = (pooled >= FEWEST_PEERS) & (mean > 0)
        k = np.where(enough, pooled, np.nan)
        dispersion = np.maximum(excess / np.where(enough, square, np.nan), 0)
        mu = mean / k
        sampling = (mean_per_n + dispersion * square_per_n) / k
        spread = np.maximum((square - k * mu * mu) / (k - 1) - sampling, _LEAST_SPREAD)
        tests = np.broadcast_to(np.atleast_2d(everyone)[:, 0], k.shape)
        return cls(mu * mu / spread, mu / spread, dispersion, pooled, tests)

    @classmethod
    def at(cls, moments: pa.Table, start_ms: Integers, action: pa.ChunkedArray) -> Prior:
        """Return the prior of each cell at its window: of the newest moments by then.

        Parameters
        ----------
        moments
            Of :data:`MOMENTS_SCHEMA`, one row a window start and action.
        start_ms, action
            One a cell; the action as text or dictionary.
        """
        starts, when = np.unique(moments["window_start_ms"].to_numpy(), return_inverse=True)
        known = pc.unique(moments["action"]).drop_null()
        width = len(known) + 1
        keys = when * width + _action_codes(moments["action"], known)
        order = np.argsort(keys)
        sums = np.column_stack([moments[name].to_numpy() for name in _COLUMNS])[order]
        row = np.searchsorted(starts, start_ms, side="right") - 1
        mine = _rows_of(keys[order], sums, row * width + _action_codes(action, known))
        everyone = _rows_of(keys[order], sums, row * width + width - 1)
        return cls.of_sums(mine, everyone)

    def take(self, rows: Integers) -> Prior:
        """Return the prior of some rows."""
        return Prior(*(getattr(self, name)[rows] for name in self.__slots__))

    def expect(self, n: Integers, total: Integers | Floats) -> Expectation:
        """Return what to expect of each cell's next window, from peers and its own history.

        Own history speaks from :data:`FEWEST_WINDOWS` windows on.

        Parameters
        ----------
        n, total
            Windows of the cell's own, and the sum of their counts.
        """
        own = n >= FEWEST_WINDOWS
        known = np.where(own, total, 0)
        a, b = self.alpha + known, self.beta + np.where(own, n, 0)
        return Expectation(a / b, b, self.dispersion, self.dispersion * known / (a * b))


def _action_codes(action: pa.ChunkedArray, known: pa.Array) -> Integers:
    """Return where each action stands among the known ones; others, and null, come after them."""
    null = np.zeros(len(action), bool)
    if action.null_count:
        null = action.is_null().to_numpy()
        action = pc.fill_null(action, "")
    codes = codes_in(action, known)
    return np.where(null | (codes < 0), len(known), codes)


def _rows_of(keys: Integers, sums: Floats, wanted: Integers) -> Floats:
    """Return the sums of the wanted keys; those of a key that is not there are zero."""
    padded_keys, padded = np.append(keys, -1), np.vstack([sums, np.zeros(len(_COLUMNS))])
    found = np.searchsorted(keys, wanted)
    return padded[np.where(padded_keys[found] == wanted, found, len(keys))]
