"""The rhythm of a day, beside least squares on days that are left out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.findings.peers import spread_of
from kstoolkit.findings.rhythm import (
    TOO_FEW,
    busy_at,
    has_rhythm,
    is_shown_none,
    rhythm_of,
    wave_at,
)

HOUR, DAY = 3_600_000, 86_400_000


def kept(
    counts: np.ndarray, first_ms: int = 0, every_ms: int = HOUR
) -> tuple[Any, Any, np.ndarray]:
    """Return what is kept of one cell's counts, a window each."""
    start = first_ms + np.arange(len(counts)) * every_ms
    waves = counts * np.exp(2j * np.pi * (start % DAY) / DAY)
    is_odd = start // DAY % 2 == 1
    halves = np.array([waves[~is_odd].sum()]), np.array([waves[is_odd].sum()])
    history = (len(counts), counts.sum(), (counts.astype(float) ** 2).sum())
    return halves, tuple(map(np.array, zip(history))), np.array([first_ms])


def rhythm(counts: np.ndarray, first_ms: int = 0, every_ms: int = HOUR) -> complex:
    return complex(rhythm_of(*kept(counts, first_ms, every_ms), every_ms)[0])


def fitted(counts: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the wave that least squares fits to counts less their mean, cosine and sine."""
    angle = 2 * np.pi * start / DAY
    columns = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.asarray(np.linalg.lstsq(columns, counts, rcond=None)[0])


@pytest.mark.parametrize("hours", [1, 3, 6])
def test_so_few_events_never_show_one_that_none_of_such_cells_is_looked_for(hours: int) -> None:
    slots = 24 // hours
    for first, days in itertools.product(range(2 * slots), (0, slots // 2, slots, 3 * slots)):
        windows = 2 * slots + days
        pairs = itertools.combinations_with_replacement(range(windows), TOO_FEW)
        counts = np.array([np.bincount(pair, minlength=windows) for pair in pairs])
        first_ms = first * hours * HOUR
        start = first_ms + np.arange(windows) * hours * HOUR
        waves, is_odd = counts * wave_at(start), start // DAY % 2 == 1
        halves = waves[:, ~is_odd].sum(axis=1), waves[:, is_odd].sum(axis=1)
        history = np.full(len(counts), windows), counts.sum(axis=1), (counts**2.0).sum(axis=1)
        assert not rhythm_of(halves, history, np.full(len(counts), first_ms), hours * HOUR).any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([1, 2, 4, 6]))
def test_it_is_taken_where_least_squares_on_the_other_days_predicts_better(
    seed: int, pairs: int, hours: int
) -> None:
    random = np.random.default_rng(seed)
    start = np.arange(0, 2 * pairs * DAY, hours * HOUR)
    level = 1 + random.random() * np.cos(2 * np.pi * start / DAY - random.random() * 6)
    counts = random.poisson(5 * random.random() * level)
    if not counts.any():
        return
    is_odd, less = start // DAY % 2 == 1, counts - counts.mean()
    gain, waves = 0.0, []
    for half in (is_odd, ~is_odd):
        wave = fitted(less[half], start[half])
        angle = 2 * np.pi * start[~half] / DAY
        predicted = wave[0] * np.cos(angle) + wave[1] * np.sin(angle)
        gain += (less[~half] ** 2 - (less[~half] - predicted) ** 2).sum()
        waves.append(wave)
    spread = max(counts.var(ddof=1), counts.mean())
    told = rhythm(counts, every_ms=hours * HOUR)
    if abs(gain / (2 * spread) - 3) > 1e-9:
        assert bool(told) == (gain / (2 * spread) > 3)
    if told:
        both = fitted(less, start) / counts.mean()
        assert np.isclose(np.angle(told), np.angle(complex(*both)))
        assert abs(told) <= np.hypot(*both) * (1 + 1e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 6]), st.sampled_from([1.0, 4.0]))
def test_what_is_shown_none_is_shown_none_later_unless_something_is_added(
    seed: int, hours: int, overlap: float
) -> None:
    random, slots = np.random.default_rng(seed), 24 // hours
    windows = 2 * slots + int(random.integers(0, 5 * slots))
    first_ms = int(random.integers(0, 2 * slots)) * hours * HOUR
    start = first_ms + np.arange(windows) * hours * HOUR
    rates = random.gamma(0.5, 0.3, (200, 1)) * (1 + np.cos(2 * np.pi * start / DAY))
    counts = random.poisson(rates)
    counts = counts[counts.sum(axis=1) > TOO_FEW]
    waves, is_odd = counts * wave_at(start), start // DAY % 2 == 1
    halves = waves[:, ~is_odd].sum(axis=1), waves[:, is_odd].sum(axis=1)
    total, squares = counts.sum(axis=1), (counts**2.0).sum(axis=1)
    n = np.full(len(counts), windows)
    is_none = is_shown_none(halves, (n, total), hours * HOUR, overlap)
    for later in [*range(3 * slots), 20 * slots, 28 * slots]:
        history = n + later, total, squares
        firsts = np.full(len(counts), first_ms)
        shown = rhythm_of(halves, history, firsts, hours * HOUR, overlap) != 0
        assert not (shown & is_none).any()


def test_most_that_have_no_rhythm_need_not_be_looked_at_again() -> None:
    random = np.random.default_rng(3)
    counts = random.poisson(0.05, (2_000, 10 * 24))
    counts = counts[counts.sum(axis=1) > TOO_FEW]
    start = np.arange(240) * HOUR
    waves, is_odd = counts * wave_at(start), start // DAY % 2 == 1
    halves = waves[:, ~is_odd].sum(axis=1), waves[:, is_odd].sum(axis=1)
    is_none = is_shown_none(halves, (np.full(len(counts), 240), counts.sum(axis=1)), HOUR)
    assert is_none.mean() > 0.7


@pytest.mark.parametrize("begins", [5, 13, 22, 24, 47])
def test_a_day_that_is_seen_by_half_is_no_rhythm(begins: int) -> None:
    for hours in range(48, 130):
        assert rhythm(np.full(hours, 7), begins * HOUR) == 0


@pytest.mark.parametrize(("begins", "hours"), [(0, 192), (7, 192), (19, 101)])
def test_a_rhythm_is_found_as_large_as_it_is(begins: int, hours: int) -> None:
    start = (begins + np.arange(hours)) * HOUR
    busy = 1 + 0.8 * np.cos(2 * np.pi * start / DAY - 2)
    told = rhythm(np.round(1000 * busy), begins * HOUR)
    assert abs(told) == pytest.approx(0.8, rel=0.1)
    assert busy_at(start, np.full(hours, told)) == pytest.approx(busy, abs=0.1)
    assert spread_of(np.array(told)) == pytest.approx(0.32, rel=0.2)


def test_where_there_is_none_one_is_seldom_taken_for_one() -> None:
    random = np.random.default_rng(7)
    counts = random.poisson(2 * random.gamma(2, 1 / 2, (3_000, 192)))
    told = np.array([rhythm(each) for each in counts])
    assert (told != 0).mean() < 0.04
    assert np.abs(told).max() < 0.6


def test_windows_that_overlap_show_no_more_than_those_that_do_not() -> None:
    random = np.random.default_rng(8)
    counts = random.poisson(random.gamma(2, 1 / 2, (400, 8 * 288)))
    sums = np.cumsum(np.pad(counts, ((0, 0), (1, 0))), axis=1)
    hours = sums[:, 12:] - sums[:, :-12]  # begin each five minutes
    told = [
        [rhythm_of(*kept(each, every_ms=HOUR // 12), HOUR // 12, overlap)[0] != 0 for each in hours]
        for overlap in (1, 12)
    ]
    assert np.mean(told[1]) < 0.04 < np.mean(told[0])


def test_half_of_the_days_alone_is_none() -> None:
    start = np.arange(192) * HOUR
    busy = np.where(start // DAY % 2 == 1, 1 + np.cos(2 * np.pi * start / DAY), 1)
    assert rhythm(np.round(100 * busy)) == 0


def test_it_takes_two_days() -> None:
    busy = np.tile(np.round(100 * (1 + np.cos(2 * np.pi * np.arange(24) / 24))), 3)
    assert rhythm(busy[:47]) == 0
    assert rhythm(busy[:48]) != 0


def test_only_windows_that_make_up_a_day_have_one() -> None:
    told = [has_rhythm(hours * HOUR) for hours in (1, 2, 6, 8, 12, 24, 7)]
    assert told == [True, True, True, False, False, False, False]
    assert not has_rhythm(0)
    assert rhythm(np.array([100, 0] * 8), every_ms=DAY // 2) == 0


def test_no_hour_is_empty_or_less() -> None:
    night = busy_at(np.array([DAY // 2]), np.array([1.8 + 0j]))
    assert night.tolist() == [0.1]
    assert wave_at(DAY // 4 - DAY).round(9).tolist() == 1j
