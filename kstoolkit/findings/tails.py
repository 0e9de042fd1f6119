"""How improbable a count is: logarithms of upper tails, far beyond what a float can hold.

The negative binomial is named here by its mean ``m`` and variance ``V``; with ``V <= m`` it is the
Poisson. A tail is the probability of the one count times a continued fraction; both are positive
and well conditioned, so the logarithm stays exact where the probability itself underflows.

Sources: Loader 2000, "Fast and accurate computation of binomial probabilities" (the saddle-point
form of the probability); Didonato & Morris 1992, ACM TOMS 708, eq. 9 (the incomplete beta's
continued fraction); Gautschi 1979 (the incomplete gamma's).

Examples
--------
>>> import numpy as np
>>> log_upper_tail(np.array([0, 3, 4000]), np.array([1.0]), np.array([2.0])).round(6)
array([ 0.00000000e+00, -2.07944200e+00, -2.77258872e+03])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


HALF_LOG_TAU = 0.5 * float(np.log(2 * np.pi))
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""Bernoulli terms of Stirling's series: enough for 1e-16 where the argument is 10 or more."""

SERIES_FROM = 10
NEARLY_EQUAL = 0.1
PRECISION = 1e-15
MOST_STEPS = 20_000
STEPS_PER_CHECK = 4
NEARLY_POISSON = 1e-13


def log_upper_tail(count: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Floats:
    """Return ln P(X >= count), for X with this mean and variance.

    Parameters
    ----------
    count
        Whole numbers of any size; the tail from 0 on (or below) is certain: 0.0.
    mean, variance
        Of the count that is expected: positive, broadcast against ``count``. Where the variance
        does not exceed the mean X is Poisson, otherwise negative binomial with
        ``r = mean² / (variance - mean)``.

    Returns
    -------
    numpy.ndarray
        Natural logarithms, float64, in the broadcast shape; NaN where mean or variance is.

    Examples
    --------
    >>> log_upper_tail([1, 61], [6.0], [12.0]).round(3).tolist()
    [-0.016, -29.659]
    """
    x, m, v = (np.asarray(part, np.float64) for part in (count, mean, variance))
    x, m, v = np.broadcast_arrays(x, m, v)
    tail = np.where(np.isnan(m + v), np.nan, 0.0)
    certain = (x <= 0) | np.isnan(tail)
    poisson = ~certain & (v - m <= m * NEARLY_POISSON)
    negative_binomial = ~(certain | poisson)
    tail[poisson] = _poisson(x[poisson], m[poisson])
    tail[negative_binomial] = _negative_binomial(
        x[negative_binomial], m[negative_binomial], v[negative_binomial]
    )
    return tail + 0.0  # a zero may have come out negative


def tail_bounds(count: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> tuple[Floats, Floats]:
    """Return what ln P(X >= count) of a negative binomial is at least and at most, cheaply.

    From count to count the probability changes by a factor that lies on one side of
    y = 1 - mean / variance and comes ever nearer to it: where both y and the factor f at x are
    below 1, P(X >= x) <= P(X = x) / (1 - max(f, y)). And the law has one peak, so each count from
    x to x + h is as probable as x or x + h, or more so: P(X >= x) >= (h + 1) min(P(X = x),
    P(X = x + h)); here h is about how far the probability takes to fall to a third.

    Parameters
    ----------
    count
        Whole numbers from 1 on.
    mean, variance
        Broadcast against ``count``; the variance is larger than the mean.

    Examples
    --------
    >>> low, high = tail_bounds([61], [6.0], [12.0])
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([-30.57], [-29.66])
    """
    x, m, v = (np.asarray(part, np.float64) for part in (count, mean, variance))
    x, m, v = np.broadcast_arrays(x, m, v)
    r, q, y = m * m / (v - m), m / v, (v - m) / v
    at, deviation = _log_probability(x, r, q, y), np.sqrt(v)
    slope = 1 - np.maximum(y * (x + r) / (x + 1), y)
    far = x > m + deviation  # from there on it falls
    high, h = np.zeros_like(at), np.floor(deviation / 4)
    high[far] = np.minimum(at[far] - np.log(slope[far]), 0)
    h[far] = np.floor(1 / slope[far])
    low = np.minimum(at, _log_probability(x + h, r, q, y)) + np.log1p(h)
    return low, high


def interval(
    mean: ArrayLike, variance: ArrayLike, probability: float = 0.95
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the counts between which a share of ``probability`` lies, rare ends cut off equally.

    Examples
    --------
    >>> low, high = interval([6.0], [12.0])
    >>> low.tolist(), high.tolist()
    ([1], [14])
    """
    m, v = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(variance, np.float64))
    rest = (1 - probability) / 2
    return _quantile(rest, m, v), _quantile(1 - rest, m, v)


def _quantile(share: float, mean: Floats, variance: Floats) -> NDArray[np.int64]:
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
    log_p = -_stirling_rest(x) - _deviance(x, m) - HALF_LOG_TAU - 0.5 * np.log(x)
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
    tail[below] = _log_complement(
        log_p[below] + np.log(x[below] * _converge(_beta_fraction, *lower))
    )
    return tail


def _log_complement(log_p: Floats) -> Floats:
    # Rounding may lift the probability of nearly everything a hair above one.
    return np.log1p(-np.exp(np.minimum(log_p, -1e-300)))


def _log_probability(x: Floats, r: Floats, q: Floats, y: Floats) -> Floats:
    """Return ln P(X = x) as a binomial's of r in x + r (Loader 2000, as R's dnbinom)."""
    n = x + r
    centre = _stirling_rest(n) - _stirling_rest(x) - _stirling_rest(r)
    spread = _deviance(x, n * y) + _deviance(r, n * q)
    return centre - spread - HALF_LOG_TAU + 0.5 * np.log(r / (n * x))


def _stirling_rest(z: Floats) -> Floats:
    """Return ln Γ(z + 1) less Stirling's first terms, (z + ½) ln z - z + ½ ln 2π."""
    rest = np.empty_like(z)
    large = z >= SERIES_FROM
    rest[large] = _stirling_series(z[large])
    small = z[~large]
    shifted = small + SERIES_FROM
    log_gamma = (shifted + 0.5) * np.log(shifted) - shifted + _stirling_series(shifted)
    steps = np.prod([small + step for step in range(1, SERIES_FROM + 1)], axis=0)
    rest[~large] = log_gamma - np.log(steps) - (small + 0.5) * np.log(small) + small
    return rest


def _stirling_series(z: Floats) -> Floats:
    inverse_square = 1 / (z * z)
    total = np.zeros_like(z)
    for term in reversed(STIRLING):
        total = total * inverse_square + term
    return total / z


def _deviance(x: Floats, m: Floats) -> Floats:
    """Return x ln(x / m) + m - x without cancellation where the two are near (Loader's bd0)."""
    deviance = x * np.log(x / m) + m - x
    near = np.abs(x - m) < NEARLY_EQUAL * (x + m)
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
    for step in range(1, MOST_STEPS):
        term = term * (m / (x + step))
        total = total + term
        if np.all(term <= PRECISION * total):
            break
    return total


def _gamma_fraction(x: Floats, m: Floats) -> Floats:
    """Return Legendre's continued fraction of the upper incomplete gamma, for x <= m."""
    b = m + 1 - x
    d = 1 / b
    c, fraction = np.full_like(x, 1e300), d
    for step in range(1, MOST_STEPS):
        a, b = -step * (step - x), b + 2
        d, c = 1 / (a * d + b), b + a / c
        fraction = fraction * (c * d)
        if np.all(np.abs(c * d - 1) <= PRECISION):
            break
    return fraction


def _beta_fraction(a: Floats, b: Floats, y: Floats, q: Floats, above: Floats) -> Floats:
    """Return I_y(a, b) · B(a, b) / (y^a q^b), with q = 1 - y and ``above`` = a - (a + b) y."""
    fraction, going = np.empty_like(a), np.arange(len(a))
    c, c1 = 1 + above, 1 + 1 / a
    fixed = np.stack([a, b, y, q, c, b / a, c1])
    # Numerators and denominators, scaled so that the latest denominator is one.
    moving = np.stack([np.zeros_like(a), c1 / c, c1 / c])
    for step in range(1, MOST_STEPS):
        last = moving[-1]
        moving = _beta_step(step, fixed, moving)
        if step % STEPS_PER_CHECK == 0:
            fraction[going] = now = moving[-1]
            rest = np.abs(now - last) > PRECISION * now
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
