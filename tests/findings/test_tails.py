from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.findings.peers import (
    FEWEST_PEERS,
    FEWEST_WINDOWS,
    first_terms,
    moments_of,
    moments_of_firsts,
    moments_table,
    pools_of,
)
from kstoolkit.findings.tails import Peers, interval, log_upper_tail
from tests.findings.made import HOUR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.findings.tails import Expectation

    Floats = NDArray[np.float64]

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
        ours = log_upper_tail([count], [mean], [variance])[0]
        assert ours == pytest.approx(math.log(known), rel=1e-9, abs=1e-9 + loss)


@given(MEANS, st.floats(0, 8), SIDES)
def test_poisson_tails_agree_with_scipy(mean: float, deviations: float, side: int) -> None:
    count = max(1, math.floor(mean + side * deviations * math.sqrt(mean)))
    known = scipy.stats.poisson(mean).sf(count - 1)
    if 1e-280 < known < 1 - 1e-6:
        ours = log_upper_tail([count], [mean], [mean])[0]
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
    assert log_upper_tail([count], [mean], [variance])[0] == pytest.approx(known, rel=1e-9)


@given(MEANS, st.floats(0, 1e3), st.integers(1, 10**6))
def test_a_larger_count_is_never_less_improbable(mean: float, spread: float, count: int) -> None:
    variance = mean + spread * mean * mean
    smaller, larger = log_upper_tail([count, count + 1], [mean], [variance])
    assert larger <= smaller + 1e-9 * abs(smaller)


def test_any_count_is_at_least_zero() -> None:
    assert log_upper_tail([0, -1], [3.0], [4.0]).tolist() == [0.0, 0.0]


def test_what_is_not_known_stays_unknown() -> None:
    assert np.isnan(log_upper_tail([5], [np.nan], [np.nan])).all()


def test_no_counts_have_no_tails() -> None:
    assert log_upper_tail([], [], []).shape == (0,)


@given(st.floats(1e-3, 1e4), st.one_of(st.just(0.0), st.floats(1e-6, 50)))
def test_the_interval_is_that_of_scipys_quantiles(mean: float, spread: float) -> None:
    variance = mean + spread * mean * mean
    low, high = interval([mean], [variance])
    law = scipy.stats.poisson(mean) if variance == mean else negative_binomial(mean, variance)
    for end, share in ((int(low[0]), 0.025), (int(high[0]), 0.975)):
        assert law.cdf(end) >= share - 1e-9
        assert end == 0 or law.cdf(end - 1) <= share + 1e-9


def histories(
    users: int,
    windows: int,
    *,
    mean: float = 3.0,
    bursts: float = 0.0,
    shape: float = 1.0,
    seed: int = 1,
) -> NDArray[np.int64]:
    """Ordinary users: gamma rates, Poisson counts, each window's rate times a gamma burst."""
    random = np.random.default_rng(seed)
    rate = random.gamma(shape, mean / shape, (users, 1))
    burst = random.gamma(1 / bursts, bursts, (users, windows)) if bursts else 1.0
    return random.poisson(np.broadcast_to(rate * burst, (users, windows)))


def history_of(counts: NDArray[np.int64]) -> tuple[Any, Any, Any]:
    """Windows, sum and sum of squares of each line."""
    n = np.full(len(counts), counts.shape[1])
    return n, counts.sum(axis=1), (counts.astype(float) ** 2).sum(axis=1)


def moments(counts: NDArray[np.int64], start_ms: int = 0, action: str = "x") -> pa.Table:
    some = counts[counts.any(axis=1)]
    nowhere = np.zeros(len(some), np.int64)
    found = moments_of(start_ms, nowhere, history_of(some), np.zeros(len(some), complex))
    return moments_table([found], pa.array([action]))


def first_windows(counts: list[int], action: str = "x") -> pa.Table:
    terms = first_terms(np.zeros(len(counts), np.int64), np.array(counts, np.int64), 1)
    return moments_table([moments_of_firsts(0, terms)], pa.array([action]))


def peers_at(moments: pa.Table, starts: Any, actions: list[str]) -> Peers:
    starts = np.array(starts, np.int64)
    return Peers.at(pools_of(moments), starts, pa.chunked_array([actions], pa.string()))


def expect(counts: NDArray[np.int64], moments: pa.Table, factor: float = 1.0) -> Expectation:
    peers = peers_at(moments, np.zeros(len(counts)), ["x"] * len(counts))
    return peers.expect(*history_of(counts), np.full(len(counts), factor))


def test_a_window_takes_the_newest_pools_by_its_start_and_none_of_later_ones() -> None:
    early, late = (
        moments(histories(50, 10, mean=mean), at) for mean, at in ((2.0, 0), (20.0, 2 * HOUR))
    )
    starts = [-HOUR, 0, HOUR, 2 * HOUR, 9 * HOUR]
    peers = peers_at(pa.concat_tables([late, early]), starts, ["x"] * 5)
    rate = peers.alpha / peers.beta
    assert np.isnan(rate[0])
    assert rate[1] == rate[2]
    assert rate[3] == rate[4] > 3 * rate[1]
    assert peers.number[:2].tolist() == [0, len(histories(50, 10)[histories(50, 10).any(axis=1)])]


def test_an_action_with_few_peers_takes_those_of_all_actions() -> None:
    many, few = 170, FEWEST_PEERS - 1
    counts = 1 + histories(many + few, 10)
    told = [moments(counts[:many], action="many"), moments(counts[many:], action="few")]
    peers = peers_at(pa.concat_tables(told), [0] * 3, ["few", "many", "unheard of"])
    assert peers.number.tolist() == [many + few, many, many + few]
    assert peers.cells.tolist() == [many + few] * 3
    assert peers.alpha[0] == peers.alpha[2] != peers.alpha[1]


def test_an_action_called_nothing_is_not_all_actions() -> None:
    told = [
        moments(1 + histories(50, 10, mean=mean), action=action)
        for mean, action in ((2.0, ""), (200.0, "x"))
    ]
    peers = peers_at(pa.concat_tables(told), [0, 0], ["", "unheard of"])
    rate = peers.alpha / peers.beta
    assert rate[1] > 3 * rate[0]


def test_too_few_peers_altogether_expect_something_only_of_who_has_a_history() -> None:
    told = moments(1 + histories(FEWEST_PEERS - 1, 20))
    young, old = (expect(np.full((1, n), 6), told) for n in (FEWEST_WINDOWS - 1, FEWEST_WINDOWS))
    assert np.isnan(young.mean).all()
    assert old.mean == pytest.approx(6, abs=0.1)


def test_no_pools_at_all_are_as_too_few() -> None:
    nothing = moments(histories(9, 9)).slice(0, 0)
    assert expect(np.full((1, 20), 6), nothing).mean == pytest.approx(6, abs=0.1)
    assert np.isnan(expect(np.full((1, 1), 6), nothing).mean).all()


def test_a_history_counts_for_more_the_longer_it_is_and_for_nothing_below_twelve_windows() -> None:
    told = moments(histories(2_000, 20, mean=2, shape=4))
    means = [float(expect(np.full((1, n), 40), told).mean[0]) for n in (1, 11, 12, 48, 4_800)]
    assert means[0] == means[1] == pytest.approx(2, rel=0.1)
    assert means[1] < means[2] < means[3] < means[4]
    # A gamma prior's posterior: 4 events in 2 windows, and then those of its own.
    assert means[2] == pytest.approx((4 + 480) / (2 + 12), rel=0.05)
    assert means[4] == pytest.approx(40, rel=0.01)


def test_where_all_do_more_than_usual_so_much_more_is_expected() -> None:
    told = pa.concat_tables([moments(histories(200, 20)), first_windows([3, 4] * 20)])
    for windows in (0, 5, 30):
        counts = np.full((1, windows), 6)
        usual, busy = (expect(counts, told, factor) for factor in (1.0, 2.5))
        assert busy.mean == pytest.approx(2.5 * usual.mean)


def test_bursts_of_its_own_count_the_more_the_longer_they_were_seen() -> None:
    told = moments(histories(2_000, 40, mean=20, bursts=0.1))
    (pooled,) = peers_at(told, [0], ["x"]).dispersion
    assert pooled == pytest.approx(0.1, rel=0.1)
    own = 2.0
    found = [
        float(np.median(expect(histories(200, n, mean=200, shape=50, bursts=own), told).dispersion))
        for n in (3, 24, 96, 4_000)
    ]
    assert pooled < found[0] < found[1] < found[2] < found[3]
    assert found[1] < own / 2 + pooled
    assert found[3] == pytest.approx(own, rel=0.1)
    calm = expect(np.full((1, 4_000), 200), told).dispersion
    assert calm == pytest.approx(0.02)  # nobody is taken for calmer


def test_bursts_of_all_count_for_twenty_four_windows() -> None:
    told = moments(histories(2_000, 40, mean=20, bursts=0.1))
    (pooled,) = peers_at(told, [0], ["x"]).dispersion
    own = np.tile([0, 20_000], (1, 12))  # in so large counts each window tells as much as it can
    of_its_own = own.var(ddof=1) / own.mean() ** 2
    found = expect(own, told).dispersion
    assert found == pytest.approx((24 * pooled + 24 * of_its_own) / 48, rel=0.01)


def test_small_counts_say_little_of_bursts() -> None:
    told = moments(histories(2_000, 40, mean=20, bursts=0.5))
    (pooled,) = peers_at(told, [0], ["x"]).dispersion
    rare = np.zeros((1, 200), np.int64)
    rare[0, :3] = 1, 3, 1  # by itself, far burstier than anybody
    assert expect(rare, told).dispersion == pytest.approx(pooled, rel=0.2)


def test_a_first_window_is_expected_to_be_as_others_were() -> None:
    random = np.random.default_rng(3)
    firsts = (1 + random.negative_binomial(2, 2 / 9, 5_000)).tolist()
    told = pa.concat_tables([moments(histories(2_000, 20, mean=0.1)), first_windows(firsts)])
    newcomer = expect(np.zeros((1, 0), np.int64), told)
    held = np.minimum(firsts, 50)
    mean, variance = held.mean(), held.var(ddof=1)
    assert newcomer.mean == pytest.approx(mean)
    assert newcomer.variance == pytest.approx(variance, rel=1e-6)
    for count in (1, 4, 8, 20):  # the rare ones are averaged over bursts
        known = scipy.stats.nbinom(mean**2 / (variance - mean), mean / variance).sf(count - 1)
        assert newcomer.log_tail([count]) == pytest.approx(math.log(known), rel=1e-4)
    # Whoever has been there for a window is expected to do what all do.
    assert expect(np.full((1, 1), 1), told).mean < 0.2


def test_others_first_windows_are_those_of_the_action_if_there_are_enough() -> None:
    few, many = [3] * (FEWEST_PEERS - 1), [7, 9] * 30
    told = pa.concat_tables(
        [moments(1 + histories(50, 9), action=action) for action in ("few", "many")]
        + [first_windows(few, "few"), first_windows(many, "many")]
    )
    peers = peers_at(told, [0, 0], ["few", "many"])
    assert peers.firsts.tolist() == [len(few) + len(many), len(many)]
    assert peers.first_mean == pytest.approx([(3 * 29 + 8 * 60) / 89, 8])


def tails_of_ordinary_users(windows: int, **users: Any) -> Floats:
    found = []
    for seed in range(2):
        counts = histories(20_000, windows + 1, seed=seed, **users)
        counts = counts[counts[:, 0] > 0] if windows < 2 else counts
        past, now = counts[:, :-1], counts[:, -1]
        found.append(expect(past, moments(past)).log_tail(now))
    return np.concatenate(found)


def share_is_at_most(alpha: float, log_p: Floats, factor: float = 1) -> None:
    share = (log_p <= np.log(alpha)).mean()
    assert share <= factor * alpha + 4 * np.sqrt(factor * alpha / len(log_p))


@pytest.mark.parametrize("windows", [3, FEWEST_WINDOWS, 48])
@pytest.mark.parametrize("mean", [0.3, 3, 30])
@pytest.mark.parametrize("shape", [1, 10])
def test_ordinary_users_are_no_more_often_improbable_than_promised(
    mean: float, windows: int, shape: float
) -> None:
    log_p = tails_of_ordinary_users(windows, mean=mean, shape=shape)
    for alpha in (0.01, 0.001):
        share_is_at_most(alpha, log_p)


@pytest.mark.parametrize("mean", [0.3, 3, 30])
@pytest.mark.parametrize(("bursts", "windows"), [(0.5, 24), (0.5, 48), (2, 96)])
def test_bursty_users_with_history_are_no_more_often_improbable_than_promised(
    mean: float, bursts: float, windows: int
) -> None:
    log_p = tails_of_ordinary_users(windows, mean=mean, bursts=bursts)
    for alpha in (0.01, 0.001):
        share_is_at_most(alpha, log_p)


def test_very_bursty_users_with_little_history_are_off_by_less_than_a_factor_of_three() -> None:
    log_p = tails_of_ordinary_users(FEWEST_WINDOWS, mean=30, bursts=2)
    assert (log_p <= np.log(0.001)).mean() < 0.003


def test_abnormal_users_are_seen() -> None:
    counts = histories(20_000, 49, mean=3, bursts=0.5)
    past, now = counts[:200, :-1], counts[:200, -1] + 60
    log_p = expect(past, moments(counts[:, :-1])).log_tail(now)
    assert (log_p < np.log(1e-4)).mean() > 0.9
