"""Bounds of tails: they enclose the tail, and a decision by bounds is the exact one."""

from __future__ import annotations

import numpy as np
import pytest

from kstoolkit.findings.tails import Expectation, log_upper_tail, tail_bounds

ROWS = 4_000


def test_the_bounds_enclose_the_tail() -> None:
    random = np.random.default_rng(0)
    mean = np.exp(random.normal(1, 2.5, ROWS))
    variance = mean * (1 + np.exp(random.normal(0, 2.5, ROWS)))
    count = np.maximum(1, np.floor(mean * np.exp(random.normal(0, 1.2, ROWS))))
    tail = log_upper_tail(count, mean, variance)
    low, high = tail_bounds(count, mean, variance)
    slack = 1e-9 * np.abs(tail) + 1e-12
    assert np.all(low <= tail + slack)
    assert np.all(high >= tail - slack)
    assert np.median(high - low) < 3  # wide ones would decide nothing


@pytest.mark.parametrize("limit", [0.3, 0.01, 1e-4, 1e-7])
def test_a_decision_by_bounds_is_the_one_that_the_tail_itself_makes(limit: float) -> None:
    random = np.random.default_rng(1)
    mean = np.exp(random.normal(1, 2.5, ROWS))
    bursty = random.random(ROWS) > 0.2
    dispersion = np.where(bursty, np.exp(random.normal(-1, 1.5, ROWS)), 0)
    doubt = np.where(random.random(ROWS) < 0.5, 0, dispersion * random.random(ROWS) * 0.2)
    expected = Expectation(mean, np.exp(random.normal(2, 1, ROWS)), dispersion, doubt)
    far = random.exponential(4, ROWS)
    count = np.maximum(1, np.floor(mean + np.sqrt(expected.variance) * far))
    exact = expected.log_tail(count) <= np.log(limit)
    assert 0 < exact.sum() < ROWS
    assert np.array_equal(expected.is_rarer(count, np.log(limit)), exact)
