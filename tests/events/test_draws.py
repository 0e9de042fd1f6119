from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.events.draws import Draws, log, pick


def test_the_first_draws_of_a_seed_are_these_on_every_machine() -> None:
    draws = Draws(1, "a stream")
    assert draws.uniform(3).tolist() == [
        0.04414358477502023,
        0.6958751373304484,
        0.058328456262432216,
    ]
    assert draws.integers(0, 1000, 3).tolist() == [541, 919, 28]
    assert draws.gamma(2, 2).tolist() == [3.0008605908641512, 1.4395994524505142]
    assert draws.order(6).tolist() == [1, 2, 4, 0, 3, 5]


def test_another_seed_or_another_stream_gives_other_draws() -> None:
    first = Draws(1, "a").uniform(4).tolist()
    assert first != Draws(2, "a").uniform(4).tolist()
    assert first != Draws(1, "b").uniform(4).tolist()


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_the_logarithm_is_the_logarithm(value: float) -> None:
    assert log(np.array([value]))[0] == pytest.approx(math.log(value), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("shape", [1, 2, 5])
def test_gamma_draws_have_mean_one_and_variance_one_over_the_shape(shape: int) -> None:
    drawn = Draws(3, "gamma").gamma(shape, 200_000)
    assert drawn.min() > 0
    assert drawn.mean() == pytest.approx(1, abs=0.01)
    assert drawn.var() == pytest.approx(1 / shape, rel=0.03)


def test_an_order_holds_every_number_once() -> None:
    assert sorted(Draws(3, "order").order(1000).tolist()) == list(range(1000))


def test_choices_follow_the_weights_of_their_row() -> None:
    weights = np.array([[1.0, 3.0], [1.0, 0.0]])
    rows = np.repeat([0, 1], 100_000)
    chosen = pick(weights, rows, Draws(3, "choices").uniform(len(rows)))
    assert chosen[:100_000].mean() == pytest.approx(0.75, abs=0.01)
    assert not chosen[100_000:].any()


def test_the_ends_of_a_row_are_inside_it() -> None:
    weights = np.full((3, 7), 0.1)
    rows = np.array([0, 0, 1, 1, 2, 2])
    just_below_one = 1 - 2.0**-53
    chosen = pick(weights, rows, np.array([0.0, just_below_one] * 3))
    assert chosen.tolist() == [0, 6, 0, 6, 0, 6]
