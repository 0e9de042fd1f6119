"""The laws of simulated worlds against the laws that they are named for: numpy's own draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.events.worlds import (
    MOODS,
    WORLDS,
    Draws,
    Laws,
    Span,
    _exp,
    _log,
    act,
    habits_of,
    pick,
    power,
)

HOUR_MS = 3_600_000
WEEK = Span(1_772_409_600_000, 1_772_409_600_000 + 168 * HOUR_MS)  # from Monday, 2 March 2026


def test_rates_fall_from_user_to_user_and_share_everything_out() -> None:
    shares = Laws((), 0).rates(1_000)
    assert (np.diff(shares) < 0).all()
    assert shares.sum() == pytest.approx(1)


def test_users_live_in_more_than_one_zone_and_like_different_actions() -> None:
    drawn = habits_of(Draws(1, "habits"), 1_000, 4)
    assert len(set(drawn.phase.tolist())) > 5
    assert set(drawn.mix.argmax(axis=1).tolist()) == {0, 1, 2, 3}


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
    assert _log(np.array([value]))[0] == pytest.approx(math.log(value), rel=1e-14, abs=1e-15)


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


@given(st.floats(min_value=-700, max_value=700))
def test_the_exponential_is_the_exponential(value: float) -> None:
    assert _exp(np.array([value]))[0] == pytest.approx(math.exp(value), rel=1e-13)


def test_a_power_is_a_power() -> None:
    assert power(1.1, np.array([0.0, 1.0, 2.5])) == pytest.approx([1, 1.1, 1.1**2.5])


def quantiles(drawn: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.quantile(drawn, [0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999])
    return found


LAWS = np.random.default_rng(1)
SPREAD = math.sqrt(math.log(1.5))
SIZE = 400_000


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("gamma", LAWS.gamma(2, 1 / 2, SIZE)),
        ("lognormal", LAWS.lognormal(-SPREAD * SPREAD / 2, SPREAD, SIZE)),
        ("pareto", (LAWS.pareto(1 + math.sqrt(3), SIZE) + 1) * math.sqrt(3) / (1 + math.sqrt(3))),
    ],
)
def test_moods_follow_the_law_that_they_are_named_for(name: str, theirs: np.ndarray) -> None:
    mine = Laws((name,), 0).moods(Draws(5, name), SIZE // 100, 100)
    assert quantiles(mine) == pytest.approx(quantiles(theirs), rel=0.06)
    assert mine.mean() == pytest.approx(1, abs=0.01)


def test_normal_and_steep_gamma_draws_follow_their_laws() -> None:
    draws = Draws(2, "normal")
    assert quantiles(draws.normal(SIZE)) == pytest.approx(
        quantiles(LAWS.standard_normal(SIZE)), abs=0.05
    )
    steep, theirs = draws.any_gamma(1 / 3, SIZE), LAWS.gamma(1 / 3, 3, SIZE)
    assert quantiles(steep)[2:] == pytest.approx(quantiles(theirs)[2:], rel=0.06)
    assert steep.var() == pytest.approx(3, rel=0.05)


def test_lasting_moods_are_alike_from_hour_to_hour() -> None:
    moods = np.log(Laws(("lasting",), 0).moods(Draws(5, "lasting"), 4_000, 100))
    now, next_hour, next_day = moods[:, :76].ravel(), moods[:, 1:77].ravel(), moods[:, 24:].ravel()
    assert np.corrcoef(now, next_hour)[0, 1] == pytest.approx(0.9, abs=0.01)
    assert np.corrcoef(now, next_day)[0, 1] == pytest.approx(0.9**24, abs=0.03)


def test_people_of_a_mixed_world_are_of_three_kinds() -> None:
    variance = Laws(("mixed",), 0).moods(Draws(5, "mixed"), 4_000, 400).var(axis=1)
    assert (variance == 0).mean() == pytest.approx(2 / 5, abs=0.03)
    assert ((variance > 0.3) & (variance < 0.8)).mean() == pytest.approx(2 / 5, abs=0.03)
    assert (variance > 1.2).mean() == pytest.approx(1 / 5, abs=0.04)


def test_a_week_has_nights_and_a_weekend_and_a_surge_is_one_hour() -> None:
    flat, week, surge = (
        Laws(names, 3).usual(np.zeros(2, np.int64), WEEK)[0]
        for names in (("gamma",), ("gamma", "week"), ("gamma", "surge"))
    )
    assert set(flat) == {1.0}
    days = week.reshape(7, 24)
    assert days[5:].sum() == pytest.approx(2 * 0.3 * days[0].sum())
    assert days[0].max() > 5 * days[0].min()
    assert sorted(surge)[-2:] == [1.0, 3.0]


def test_newcomers_are_a_fifth_and_begin_later() -> None:
    first = Laws(("newcomers",), 0).first_hours(20_000, WEEK)
    assert (first > 0).mean() == pytest.approx(0.2, abs=0.02)
    assert not Laws(("gamma",), 0).first_hours(100, WEEK).any()


def test_sittings_are_half_an_hour_of_several_events() -> None:
    counts, habits = np.full(400, 50), habits_of(Draws(1, "habits"), 400, 1)
    span = Span(WEEK.start_ms, WEEK.start_ms + 8 * 168 * HOUR_MS)
    first = np.zeros(400, np.int64)
    acts = act(Draws(1, "acts"), counts, habits, span, Laws(("sittings",), 0), first_hours=first)
    order = np.lexsort((acts.time_ms, acts.user))
    gaps = np.diff(acts.time_ms[order])[np.diff(acts.user[order]) == 0]
    assert np.bincount(acts.user).tolist() == counts.tolist()
    assert 0.75 < (gaps < HOUR_MS // 2).mean() < 0.85  # of five events four follow another


def test_every_law_is_told_in_words() -> None:
    assert len(set(WORLDS.values())) == len(WORLDS) > len(MOODS)
