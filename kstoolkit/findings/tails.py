"""How improbable a count is: what to expect of a cell (user, action), and logarithms of its tails.

**Peers** first. Over all cells with n ≥ 2 windows of history, mean x̄ᵢ and variance sᵢ², the pooled
sums (:mod:`~kstoolkit.findings.peers`) say how bursty counts are, and how users' rates spread:

    κ = max(Σ wᵢ eᵢ / Σ wᵢ x̄ᵢ², 0),  wᵢ = 1 / (1 + x̄ᵢ)²              Var = m + κ m² within a user
    eᵢ = min(sᵢ² - x̄ᵢ, 4 x̄ᵢ² + 3 x̄ᵢ √(2 / nᵢ))
    μ = mean(x̄ᵢ)
    v = max(var(x̄ᵢ) - mean((x̄ᵢ + κ x̄ᵢ²) / nᵢ), ε)                   between users
    alpha = μ² / v,  beta = μ / v                                     gamma prior of a user's rate

The weights keep a single busy account from being heard above all others, and the limit of eᵢ some
jobs that do all of it in one hour of the day; and in μ and v no x̄ᵢ is more than those are that the
highest one in a hundred begins with.

**How bursty a cell is** by its own history is worth as much as that tells: κ counts for 24 windows,

    κᵢ = max((24 κ + W (sᵢ² - x̄ᵢ) / x̄ᵢ²) / (24 + W), 0.02),  W = n (x̄ᵢ κ / (1 + x̄ᵢ κ))²

**A cell's next window.** A user's rate is known from peers and, from 12 windows on, from n windows
of its own, whose counts add up to S. With A = alpha + S and B = beta + n, and g times as much as
usual done by all, the next count has

    mean       m = g A / B
    variance   m + R + κᵢ (m² + R),   R = m / B + ρ m²,   ρ = κᵢ S / (A B)

A cell with a :mod:`~kstoolkit.findings.rhythm` a has g busy(t) in place of g, and of its burstiness
``((sᵢ² - x̄ᵢ) / x̄ᵢ² - |a|² / 2) / (1 + |a|² / 2)`` in place of (sᵢ² - x̄ᵢ) / x̄ᵢ².

R is what is not known of the rate: m / B from counting, ρ m² since a bursty history tells less.
For κ = 0 this is the classic negative binomial NB(A, B / (B + 1)): Gelman et al., *Bayesian Data
Analysis*, §2.6. Where there are fewer than 30 peers, a cell with a history has κ = 0.5 instead,
alpha = 0.5 and beta = 0. **A first window** has an event by definition, and is compared with first
windows of others: mean and dispersion are those of their counts, each taken as 50 at most.

That law has the right variance, but too short a tail: with κ = 2 and 12 windows, counts of
probability 1e-4 come up thirty times as often. So rare tails are averaged, at the seven nodes of a
Gauss-Hermite rule through Wilson and Hilferty's cube root (1931) of a gamma variable,

- over the rate, where a cell has history of its own: where bursts are gamma-distributed, the rate
  given n bursty windows is inverse-gamma with the shape 1 / ρ;
- over the burst of this window, gamma with the shape 1 / κ, where it is only known from peers.

**Tails** go far beyond what a float can hold. The negative binomial is named here by its mean ``m``
and variance ``V``; with ``V <= m`` it is the Poisson. A tail is the probability of the one count
times a continued fraction; both are positive and well conditioned, so the logarithm stays exact
where the probability itself underflows. Loader 2000, "Fast and accurate computation of binomial
probabilities" (the saddle-point form of the probability); Didonato & Morris 1992, ACM TOMS 708,
eq. 9 (the incomplete beta's continued fraction); Gautschi 1979 (the incomplete gamma's).
"""

# ruff: noqa: RUF002 - rho is the letter of the formula

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from kstoolkit.findings.peers import (
    FEWEST_PEERS,
    FEWEST_WINDOWS,
    encoded,
    floats,
    integers,
    places,
    spread_of,
    whole_kind,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import ArrayLike

    from kstoolkit.findings.peers import Floats, Integers, Waves

_HALF_LOG_TAU = 0.5 * float(np.log(2 * np.pi))
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""Bernoulli terms of Stirling's series: enough for 1e-16 where the argument is 10 or more."""

_SERIES_FROM = 10
_NEARLY_EQUAL = 0.1
_PRECISION = 1e-15
_MOST_STEPS = 20_000
_STEPS_PER_CHECK = 4
_NEARLY_POISSON = 1e-13


def log_upper_tail(count: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Floats:
    """Return ln P(X >= count), for X with this mean and variance, in the shape of all three.

    From 0 on (or below) it is certain: 0.0; NaN where mean or variance is. Where the variance does
    not exceed the mean X is Poisson, otherwise negative binomial with r = mean² / (V - mean).
    """
    parts = (np.asarray(part, np.float64) for part in (count, mean, variance))
    x, m, v = np.broadcast_arrays(*parts)
    tail = np.where(np.isnan(m + v), np.nan, 0.0)
    certain = (x <= 0) | np.isnan(tail)
    poisson = ~certain & (v - m <= m * _NEARLY_POISSON)
    rest = ~(certain | poisson)
    tail[poisson] = _poisson(x[poisson], m[poisson])
    tail[rest] = _negative_binomial(x[rest], m[rest], v[rest])
    return tail + 0.0  # a zero may have come out negative


def least_log_tail(count: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Floats:
    """Return what ln P(X >= count) of a negative binomial is at least, cheaply.

    The law has one peak, so each count from x to x + h is as probable as x or x + h, or more so:
    P(X >= x) >= (h + 1) min(P(X = x), P(X = x + h)). Here h is about how far the probability takes
    to fall to a third; beyond a deviation from the mean, where the factor from a count to the next
    is y (x + r) / (x + 1) or comes down to y = 1 - mean / variance, that is 1 / (1 - factor).

    Counts are whole numbers from 1 on; the variance is larger than the mean.
    """
    parts = (np.asarray(part, np.float64) for part in (count, mean, variance))
    x, m, v = np.broadcast_arrays(*parts)
    r, q, y = m * m / (v - m), m / v, (v - m) / v
    deviation = np.sqrt(v)
    falls_by = np.maximum(1 - np.maximum(y * (x + r) / (x + 1), y), _PRECISION)
    h = np.floor(np.where(x > m + deviation, 1 / falls_by, deviation / 4))
    ends = np.minimum(_log_probability(x, r, q, y), _log_probability(x + h, r, q, y))
    return np.asarray(ends + np.log1p(h))


def interval(mean: ArrayLike, variance: ArrayLike) -> tuple[Integers, Integers]:
    """Return the counts between which 95 % lie, rare ends cut off equally."""
    m, v = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(variance, np.float64))
    return _quantile(0.025, m, v), _quantile(0.975, m, v)


def _quantile(share: float, mean: Floats, variance: Floats) -> Integers:
    """Bisect for the smallest k with P(X <= k) >= share, that is P(X >= k + 1) <= 1 - share."""
    limit = np.log1p(-share)
    low = np.full(mean.shape, -1, np.int64)
    high = np.ceil(mean + np.sqrt(variance / (1 - share))).astype(np.int64)
    while np.any(high - low > 1):
        middle = low + (high - low) // 2
        enough = log_upper_tail(middle + 1, mean, variance) <= limit
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _poisson(x: Floats, m: Floats) -> Floats:
    """P(X >= x) is the lower incomplete gamma P(x, m)."""
    log_p = -_stirling_rest(x) - _deviance(x, m) - _HALF_LOG_TAU - 0.5 * np.log(x)
    tail = np.empty_like(x)
    above = x > m
    tail[above] = log_p[above] + np.log(_converge(_gamma_series, x[above], m[above]))
    below = ~above
    rest = x[below] * _converge(_gamma_fraction, x[below], m[below])
    tail[below] = _log_complement(log_p[below] + np.log(rest))
    return tail


def _negative_binomial(x: Floats, m: Floats, v: Floats) -> Floats:
    """P(X >= x) is the incomplete beta I_y(x, r); its complement is I_(1-y)(r, x)."""
    r = m * m / (v - m)
    q, y = m / v, (v - m) / v
    log_p = _log_probability(x, r, q, y)
    tail = np.empty_like(x)
    above = x > m
    upper = (x[above], r[above], y[above], q[above], (q * (x - m))[above])
    tail[above] = log_p[above] + np.log(x[above] * _converge(_beta_fraction, *upper))
    below = ~above
    lower = (r[below], x[below], q[below], y[below], (q * (m - x))[below])
    rest = x[below] * _converge(_beta_fraction, *lower)
    tail[below] = _log_complement(log_p[below] + np.log(rest))
    return tail


def _log_complement(log_p: Floats) -> Floats:
    # Rounding may lift the probability of nearly everything a hair above one.
    return np.log1p(-np.exp(np.minimum(log_p, -1e-300)))


def _log_probability(x: Floats, r: Floats, q: Floats, y: Floats) -> Floats:
    """Return ln P(X = x) as a binomial's of r in x + r (Loader 2000, as R's dnbinom)."""
    n = x + r
    centre = _stirling_rest(n) - _stirling_rest(x) - _stirling_rest(r)
    spread = _deviance(x, n * y) + _deviance(r, n * q)
    return centre - spread - _HALF_LOG_TAU + 0.5 * np.log(r / (n * x))


def _stirling_rest(z: Floats) -> Floats:
    """Return ln Γ(z + 1) less Stirling's first terms, (z + ½) ln z - z + ½ ln 2π."""
    rest = np.empty_like(z)
    large = z >= _SERIES_FROM
    rest[large] = _stirling_series(z[large])
    small = z[~large]
    shifted = small + _SERIES_FROM
    log_gamma = (shifted + 0.5) * np.log(shifted) - shifted + _stirling_series(shifted)
    steps = np.prod([small + step for step in range(1, _SERIES_FROM + 1)], axis=0)
    rest[~large] = log_gamma - np.log(steps) - (small + 0.5) * np.log(small) + small
    return rest


def _stirling_series(z: Floats) -> Floats:
    inverse_square = 1 / (z * z)
    total = np.zeros_like(z)
    for term in reversed(_STIRLING):
        total = total * inverse_square + term
    return total / z


def _deviance(x: Floats, m: Floats) -> Floats:
    """Return x ln(x / m) + m - x without cancellation where the two are near (Loader's bd0)."""
    deviance = x * np.log(x / m) + m - x
    near = np.abs(x - m) < _NEARLY_EQUAL * (x + m)
    deviance[near] = _near_deviance(x[near], m[near])
    return deviance


def _near_deviance(x: Floats, m: Floats) -> Floats:
    ratio = (x - m) / (x + m)
    total = (x - m) * ratio
    term = 2 * x * ratio
    # The ratio is below 0.1: nine terms of ratio² reach 1e-18.
    for odd in range(3, 21, 2):
        term = term * ratio * ratio
        total = total + term / odd
    return total


def _converge(steps: Callable[..., Floats], *arguments: Floats) -> Floats:
    # Empty selections are common and would otherwise go through numpy's reductions of nothing.
    return steps(*arguments) if arguments[0].size else arguments[0]


def _gamma_series(x: Floats, m: Floats) -> Floats:
    """Return the sum of m^k / ((x + 1) ... (x + k)), for x > m."""
    total, term = np.ones_like(x), np.ones_like(x)
    for step in range(1, _MOST_STEPS):
        term = term * (m / (x + step))
        total = total + term
        if np.all(term <= _PRECISION * total):
            break
    return total


def _gamma_fraction(x: Floats, m: Floats) -> Floats:
    """Return Legendre's continued fraction of the upper incomplete gamma, for x <= m."""
    b = m + 1 - x
    d = 1 / b
    c, fraction = np.full_like(x, 1e300), d
    for step in range(1, _MOST_STEPS):
        a, b = -step * (step - x), b + 2
        d, c = 1 / (a * d + b), b + a / c
        fraction = fraction * (c * d)
        if np.all(np.abs(c * d - 1) <= _PRECISION):
            break
    return fraction


def _beta_fraction(a: Floats, b: Floats, y: Floats, q: Floats, above: Floats) -> Floats:
    """Return I_y(a, b) · B(a, b) / (y^a q^b), with q = 1 - y and ``above`` = a - (a + b) y."""
    fraction, going = np.empty_like(a), np.arange(len(a))
    c, c1 = 1 + above, 1 + 1 / a
    fixed = np.stack([a, b, y, q, c, b / a, c1])
    # Numerators and denominators, scaled so that the latest denominator is one.
    moving = np.stack([np.zeros_like(a), c1 / c, c1 / c])
    for step in range(1, _MOST_STEPS):
        last = moving[-1]
        moving = _beta_step(step, fixed, moving)
        if step % _STEPS_PER_CHECK == 0:
            fraction[going] = now = moving[-1]
            rest = np.abs(now - last) > _PRECISION * now
            if not rest.any():
                break
            # Most rows take tens of steps, large counts thousands: these go on alone.
            going, fixed, moving = going[rest], fixed[:, rest], moving[:, rest]
    return fraction


def _beta_step(step: int, fixed: Floats, moving: Floats) -> Floats:
    a, b, y, q, c, c0, c1 = fixed
    before, over_before, now = moving
    t, s = step / a, a + (2 * step - 1)
    p, e = 1 + (step - 1) / a, a / s
    w = step * (b - step) * y
    alpha = p * (p + c0) * e * e * (w * y)
    e = (1 + t) / (c1 + t + t)
    beta = step + w / s + e * (c + step * (1 + q))
    scale = alpha * over_before + beta
    return np.stack([now / scale, 1 / scale, (alpha * before + beta * now) / scale])


_RARE = float(np.log(0.01))
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_Z, _WEIGHTS = _NODES[:, None], _WEIGHTS / _WEIGHTS.sum()
_LEAST_ROOT = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """What is expected of some cells: one number a cell in each; NaN where nothing is known.

    ``mean`` is m of the formulas above, ``windows`` B, ``dispersion`` κ, and ``doubt`` ρ.

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

    def rare(self, count: ArrayLike, log_p: float) -> tuple[Integers, Floats]:
        """Return where ln P(X >= count) is not above a limit, and what it is there.

        Counts are whole numbers from 1 on. Of most of them a bound tells that they are not rare.
        """
        x = np.asarray(count, np.float64)
        # A tail above _RARE is not averaged: it is of the law that the bound is of.
        least = least_log_tail(x, self.mean, self.variance)
        rows = np.flatnonzero(least <= max(log_p, _RARE))
        tail = self.take(rows).log_tail(x[rows])
        is_rare = tail <= log_p
        return rows[is_rare], tail[is_rare]

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


_LEAST_DISPERSION = 0.02
_DISPERSION_WINDOWS = 24
_MOST_DISPERSION = 50
PRIOR_DISPERSION, _PRIOR_ALPHA = 0.5, 0.5
_CERTAIN_WINDOWS = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Peers:
    """What peers say of a cell before its own history does: one number a cell in each.

    ``alpha``, ``beta`` and ``dispersion`` (κ) are those of the formulas above, ``number`` on how
    many cells they rest; then mean, dispersion and number of others' first windows. Where there are
    too few it is NaN. ``cells`` is how many there are to test in one window.
    """

    alpha: Floats
    beta: Floats
    dispersion: Floats
    number: Integers
    first_mean: Floats
    first_dispersion: Floats
    firsts: Integers
    cells: Integers

    @classmethod
    def at(
        cls,
        pools: pa.Table,
        start_ms: Integers,
        action: pa.ChunkedArray,
        *,
        has_kinds: bool = False,
    ) -> Peers:
        """Return the peers of each cell at its window, as they were when it began.

        An action too little known takes what is known of all, of its kind where there are kinds.
        """
        starts, when = np.unique(integers(pools, "window_start_ms"), return_inverse=True)
        known = pc.unique(pools["action"]).drop_null()
        width = len(known) + 1
        code, _ = _codes(pools["action"], known)
        keys = np.append(when * width + np.where(code < 0, len(known), code), -1)
        row = np.searchsorted(starts, start_ms, side="right") - 1
        all_of_them = _place(keys, row * width + width - 1)
        code, kind = _codes(action, known)
        kind = kind if has_kinds else np.full(len(kind), -1)  # any text may hold the separator
        alike = _place(keys, np.where(kind < 0, -1, row * width + kind))
        alike = np.where(kind == -1, all_of_them, alike)
        mine = np.where(code < 0, alike, _place(keys, row * width + code))
        column = {name: np.append(floats(pools, name), value) for name, value in _NOTHING.items()}
        chosen = np.where(column["peers"][mine] >= FEWEST_PEERS, mine, alike)
        first = np.where(column["firsts"][mine] >= FEWEST_PEERS, mine, alike)
        return cls(
            alpha=column["alpha"][chosen],
            beta=column["beta"][chosen],
            dispersion=column["dispersion"][chosen],
            number=column["peers"][chosen].astype(np.int64),
            first_mean=column["first_mean"][first],
            first_dispersion=column["first_dispersion"][first],
            firsts=column["firsts"][first].astype(np.int64),
            cells=column["cells"][all_of_them].astype(np.int64),
        )

    def expect(
        self, n: Integers, total: Floats, squares: Floats, factor: Floats, rhythm: Waves | float = 0
    ) -> Expectation:
        """Return what to expect of each cell's next window, from peers and its own history.

        That is the cell's n windows, and the sums of their counts and squares. ``factor`` is how
        much more than the cell's mean is usual in that window: by the hour, or as all do more.
        """
        own = n >= FEWEST_WINDOWS
        alpha = np.where(np.isnan(self.alpha) & own, _PRIOR_ALPHA, self.alpha)
        beta = np.where(np.isnan(self.beta) & own, 0, self.beta)
        a, b = alpha + np.where(own, total, 0), beta + np.where(own, n, 0)
        pooled = np.where(np.isnan(self.dispersion), PRIOR_DISPERSION, self.dispersion)
        dispersion = own_dispersion(n, total, squares, pooled, spread_of(rhythm))
        mean, doubt = factor * a / b, dispersion * np.where(own, total, 0) / (a * b)
        fresh = (n == 0) & (self.firsts >= FEWEST_PEERS)
        return Expectation(
            np.where(fresh, factor * self.first_mean, mean),
            np.where(fresh, _CERTAIN_WINDOWS, b),
            np.where(fresh, self.first_dispersion, dispersion),
            np.where(fresh, 0, doubt),
        )


def own_dispersion(
    n: Integers, total: Floats, squares: Floats, pooled: Floats, spread: Floats | float = 0
) -> Floats:
    """Return how bursty each cell is: by its own history, as far as that tells.

    >>> pooled = np.array(PRIOR_DISPERSION)
    >>> steady, few = own_dispersion(*np.array([[96, 2], [96, 2], [192, 4]]), pooled)
    >>> print(f"{steady:.3f} {few:.3f}")
    0.349 0.505
    """
    least = np.maximum(pooled, _LEAST_DISPERSION)
    mean = total / np.maximum(n, 1)
    excess = (squares - total * mean) / np.maximum(n - 1, 1) - mean
    share = mean * least / (1 + mean * least)
    weight = np.where(n > 1, n * share * share, 0)
    own = (excess / np.maximum(mean * mean, 1e-18) - spread) / (1 + spread)
    own = np.clip(own, 0, _MOST_DISPERSION)
    shrunk = (_DISPERSION_WINDOWS * pooled + weight * own) / (_DISPERSION_WINDOWS + weight)
    return np.asarray(np.maximum(shrunk, _LEAST_DISPERSION))


_NOTHING = {
    **dict.fromkeys(("alpha", "beta", "dispersion", "first_mean", "first_dispersion"), np.nan),
    **dict.fromkeys(("peers", "firsts", "cells"), 0.0),
}


def _codes(action: pa.ChunkedArray, known: pa.Array) -> tuple[Integers, Integers]:
    """Return where each action stands among the known ones, and where all of its kind do.

    An action that is unknown, or null, is at -1; so are all of its kind where there are no kinds,
    and at -2 where that is unknown.
    """
    is_null = action.is_null().to_numpy()
    texts, row = encoded(pc.fill_null(action, "") if action.null_count else action)
    whole = whole_kind(texts)
    code, kind = (pc.fill_null(pc.index_in(t, value_set=known), -1) for t in (texts, whole))
    kind = pc.if_else(pc.and_(whole.is_valid(), pc.equal(kind, -1)), -2, kind)
    told = (np.asarray(each.to_numpy(), np.int64)[row] for each in (code, kind))
    code, kind = (np.where(is_null, -1, each) for each in told)
    return code, kind


def _place(keys: Integers, wanted: Integers) -> Integers:
    """Return where each wanted key stands; the last place, of nothing, where it does not."""
    order = np.argsort(keys)
    found = places(keys[order], np.maximum(wanted, -1))
    return np.where(found < 0, len(keys) - 1, order[found])
