from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.findings.tails import _log_upper_tail, interval

MEANS = st.floats(1e-4, 1e5)
SIDES = st.sampled_from([-1, 1])
SPREADS = st.floats(1e-9, 1e3)


def negative_binomial(mean: float, variance: float) -> Any:
    return scipy.stats.nbinom(mean * mean / (variance - mean), mean / variance)


@given(MEANS, SPREADS, st.floats(0, 8), SIDES)
def test_tails_agree_with_scipy_where_scipy_can_hold_them(
    mean: float, spread: float, deviations: float, side: int
) -> None:
    variance = mean + spread * mean * mean
    count = max(1, math.floor(mean + side * deviations * math.sqrt(variance)))
    known = negative_binomial(mean, variance).sf(count - 1)
    if 1e-280 < known < 1 - 1e-6:  # scipy's own lower tail loses digits beyond
        # scipy takes 1 - p from a rounded p, which costs digits where p is nearly one.
        loss = 1e-14 * count * variance / (variance - mean)
        ours = _log_upper_tail([count], [mean], [variance])[0]
        assert ours == pytest.approx(math.log(known), rel=1e-9, abs=1e-9 + loss)


@given(MEANS, st.floats(0, 8), SIDES)
def test_poisson_tails_agree_with_scipy(mean: float, deviations: float, side: int) -> None:
    count = max(1, math.floor(mean + side * deviations * math.sqrt(mean)))
    known = scipy.stats.poisson(mean).sf(count - 1)
    if 1e-280 < known < 1 - 1e-6:
        ours = _log_upper_tail([count], [mean], [mean])[0]
        assert ours == pytest.approx(math.log(known), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("mean", "variance", "count"),
    [(0.01, 0.0101, 300), (3, 4, 2_000), (50, 51, 5_000), (1e4, 1e4 + 1, 40_000)],
)
def test_tails_beyond_what_a_float_can_hold_are_the_sum_of_their_terms(
    mean: float, variance: float, count: int
) -> None:
    terms = negative_binomial(mean, variance).logpmf(np.arange(count, count + 3_000))
    known = np.logaddexp.reduce(terms)
    assert known < math.log(5e-324)
    assert _log_upper_tail([count], [mean], [variance])[0] == pytest.approx(known, rel=1e-9)


@given(MEANS, st.floats(0, 1e3), st.integers(1, 10**6))
def test_a_larger_count_is_never_less_improbable(mean: float, spread: float, count: int) -> None:
    variance = mean + spread * mean * mean
    smaller, larger = _log_upper_tail([count, count + 1], [mean], [variance])
    assert larger <= smaller + 1e-9 * abs(smaller)


def test_any_count_is_at_least_zero() -> None:
    assert _log_upper_tail([0, -1], [3.0], [4.0]).tolist() == [0.0, 0.0]


def test_what_is_not_known_stays_unknown() -> None:
    assert np.isnan(_log_upper_tail([5], [np.nan], [np.nan])).all()


def test_no_counts_have_no_tails() -> None:
    assert _log_upper_tail([], [], []).shape == (0,)


@given(st.floats(1e-3, 1e4), st.one_of(st.just(0.0), st.floats(1e-6, 50)))
def test_the_interval_is_that_of_scipys_quantiles(mean: float, spread: float) -> None:
    variance = mean + spread * mean * mean
    low, high = interval([mean], [variance])
    law = scipy.stats.poisson(mean) if variance == mean else negative_binomial(mean, variance)
    for end, share in ((int(low[0]), 0.025), (int(high[0]), 0.975)):
        assert law.cdf(end) >= share - 1e-9
        assert end == 0 or law.cdf(end - 1) <= share + 1e-9
