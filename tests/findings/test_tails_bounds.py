"""The bound of tails: none is below it, and what it decides is what the tail itself would."""

from __future__ import annotations

import numpy as np
import pytest

from kstoolkit.findings.tails import Expectation, least_log_tail, log_upper_tail

ROWS = 4_000


def test_no_tail_is_below_the_bound() -> None:
    random = np.random.default_rng(0)
    mean = np.exp(random.normal(1, 2.5, ROWS))
    variance = mean * (1 + np.exp(random.normal(0, 2.5, ROWS)))
    count = np.maximum(1, np.floor(mean * np.exp(random.normal(0, 1.2, ROWS))))
    tail = log_upper_tail(count, mean, variance)
    least = least_log_tail(count, mean, variance)
    assert np.all(least <= tail + 1e-9 * np.abs(tail) + 1e-12)
    assert np.median(tail - least) < 1.5  # a wide one would decide nothing


@pytest.mark.parametrize("limit", [0.3, 0.01, 1e-4, 1e-7])
def test_what_is_rare_is_what_the_tail_itself_says(limit: float) -> None:
    random = np.random.default_rng(1)
    mean = np.exp(random.normal(1, 2.5, ROWS))
    bursty = random.random(ROWS) > 0.2
    dispersion = np.where(bursty, np.exp(random.normal(-1, 1.5, ROWS)), 0)
    doubt = np.where(random.random(ROWS) < 0.5, 0, dispersion * random.random(ROWS) * 0.2)
    expected = Expectation(mean, np.exp(random.normal(2, 1, ROWS)), dispersion, doubt)
    far = random.exponential(4, ROWS)
    count = np.maximum(1, np.floor(mean + np.sqrt(expected.variance) * far))
    tail = expected.log_tail(count)
    exact = np.flatnonzero(tail <= np.log(limit))
    assert 0 < len(exact) < ROWS
    rows, log_p = expected.rare(count, float(np.log(limit)))
    assert np.array_equal(rows, exact)
    assert log_p == pytest.approx(tail[exact], rel=1e-12)
