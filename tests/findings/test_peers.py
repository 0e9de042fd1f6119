from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from kstoolkit.findings.peers import FEWEST_WINDOWS, MOMENTS_SCHEMA, SUMS, moment_sums, pool_moments
from kstoolkit.findings.tails import _FEWEST_PEERS, Prior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HOUR = 3_600_000


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


def sums_of(counts: NDArray[np.int64], action: Any = None, width: int = 1) -> Floats:
    n = np.full(len(counts), counts.shape[1])
    squares = (counts.astype(float) ** 2).sum(axis=1)
    codes = np.zeros(len(counts), int) if action is None else action
    return moment_sums(codes, n, counts.sum(axis=1).astype(float), squares, width)


def report(start_ms: int, action: Any, sums: Any, window_ms: int = HOUR) -> pa.Table:
    cells, pooled, *rest = sums
    row = [[window_ms], [start_ms], [action], [int(cells)], [int(pooled)], *([v] for v in rest)]
    return pa.table(row, schema=MOMENTS_SCHEMA)


def test_moments_are_those_of_the_formula() -> None:
    counts = histories(500, 20, bursts=0.5)
    mean, variance = counts.mean(axis=1), counts.var(axis=1, ddof=1)
    dispersion = (variance - mean).mean() / (mean**2).mean()
    between = mean.var(ddof=1) - ((mean + dispersion * mean**2) / 20).mean()
    sums = sums_of(counts)
    prior = Prior.of_sums(sums, sums[-1])
    assert prior.dispersion[0] == pytest.approx(dispersion)
    assert prior.alpha[0] == pytest.approx(mean.mean() ** 2 / between)
    assert prior.beta[0] == pytest.approx(mean.mean() / between)


def test_sums_of_buckets_add_up_to_those_of_all() -> None:
    counts = histories(200, 10)
    action = np.arange(200) % 3
    whole = sums_of(counts, action, 3)
    halves = [sums_of(counts[part], action[part], 3) for part in (slice(90), slice(90, None))]
    assert np.allclose(halves[0] + halves[1], whole)


def test_cells_with_one_window_count_as_tests_but_not_as_peers() -> None:
    sums = moment_sums(
        np.array([0, 0]), np.array([1, 2]), np.array([5.0, 4]), np.array([25.0, 8]), 1
    )
    assert sums[0, :2].tolist() == [2, 1]
    assert sums[0, 3] == 2.0


def test_an_action_with_few_peers_takes_those_of_all_actions() -> None:
    counts = histories(200, 10)
    action = np.r_[np.zeros(_FEWEST_PEERS - 1, int), np.ones(201 - _FEWEST_PEERS, int)]
    sums = sums_of(counts, action, 2)
    prior = Prior.of_sums(sums, sums[-1])
    assert prior.peers.tolist() == [200, 201 - _FEWEST_PEERS, 200]
    assert prior.alpha[0] == prior.alpha[2] != prior.alpha[1]


def test_too_few_peers_altogether_expect_nothing() -> None:
    sums = sums_of(histories(_FEWEST_PEERS - 1, 10))
    assert np.isnan(Prior.of_sums(sums, sums[-1]).alpha).all()


def test_a_window_takes_the_newest_moments_by_its_start_and_none_of_later_ones() -> None:
    early, late = (sums_of(histories(50, 10, mean=mean))[-1] for mean in (2.0, 20.0))
    moments = pa.concat_tables([report(0, None, early), report(2 * HOUR, None, late)])
    starts = np.array([-HOUR, 0, HOUR, 2 * HOUR, 9 * HOUR])
    prior = Prior.at(moments, starts, pa.chunked_array([["x"] * 5]))
    rate = prior.alpha / prior.beta
    assert np.isnan(rate[0])
    assert rate[1] == rate[2]
    assert rate[3] == rate[4] > 3 * rate[1]


def test_an_action_called_nothing_is_not_all_actions() -> None:
    one, everyone = (sums_of(histories(50, 10, mean=mean))[-1] for mean in (2.0, 20.0))
    moments = pa.concat_tables([report(0, "", one), report(0, None, everyone)])
    prior = Prior.at(moments, np.array([0, 0]), pa.chunked_array([["", "unheard of"]]))
    rate = prior.alpha / prior.beta
    assert rate[1] > 3 * rate[0]


def test_pooling_takes_each_bucket_at_its_newest_report_by_then() -> None:
    one = pa.concat_tables([report(0, None, np.full(7, 1.0)), report(HOUR, None, np.full(7, 2.0))])
    other = report(2 * HOUR, None, np.full(7, 10.0))
    pooled = pool_moments([one, other])
    assert pooled["window_start_ms"].to_pylist() == [0, HOUR, 2 * HOUR]
    assert pooled["cells"].to_pylist() == [11, 12, 12]
    assert pooled[SUMS[0]].to_pylist() == [11.0, 12.0, 12.0]


def test_pooling_nothing_is_nothing() -> None:
    assert pool_moments([MOMENTS_SCHEMA.empty_table()]).num_rows == 0


def tails_of_ordinary_users(**simulated: Any) -> Floats:
    found = []
    for seed in range(2):
        counts = histories(20_000, simulated["windows"] + 1, seed=seed, **simulated["users"])
        past, now = counts[:, :-1], counts[:, -1]
        sums = sums_of(past)
        prior = Prior.of_sums(sums[-1:].repeat(len(past), axis=0), sums[-1])
        expected = prior.expect(np.full(len(past), past.shape[1]), past.sum(axis=1))
        found.append(expected.log_tail(now))
    return np.concatenate(found)


def share_is_at_most(alpha: float, log_p: Floats) -> None:
    share = (log_p <= np.log(alpha)).mean()
    assert share <= alpha + 4 * np.sqrt(alpha / len(log_p))


@pytest.mark.parametrize("windows", [3, FEWEST_WINDOWS, 48])
@pytest.mark.parametrize("mean", [0.3, 3, 30])
@pytest.mark.parametrize("shape", [1, 10])
def test_ordinary_users_are_no_more_often_improbable_than_promised(
    mean: float, windows: int, shape: float
) -> None:
    users = {"mean": mean, "shape": shape}
    log_p = tails_of_ordinary_users(windows=windows, users=users)
    for alpha in (0.01, 0.001):
        share_is_at_most(alpha, log_p)


@pytest.mark.parametrize("mean", [0.3, 3, 30])
@pytest.mark.parametrize(("bursts", "windows"), [(0.5, 24), (0.5, 48), (2, 96)])
def test_bursty_users_with_history_are_no_more_often_improbable_than_promised(
    mean: float, bursts: float, windows: int
) -> None:
    users = {"mean": mean, "bursts": bursts}
    log_p = tails_of_ordinary_users(windows=windows, users=users)
    for alpha in (0.01, 0.001):
        share_is_at_most(alpha, log_p)


def test_very_bursty_users_with_little_history_are_off_by_less_than_a_factor_of_three() -> None:
    users = {"mean": 30, "bursts": 2}
    log_p = tails_of_ordinary_users(windows=FEWEST_WINDOWS, users=users)
    assert (log_p <= np.log(0.001)).mean() < 0.003


def test_abnormal_users_are_seen() -> None:
    counts = histories(20_000, 49, mean=3, bursts=0.5)
    past, now = counts[:200, :-1], counts[:200, -1] + 60
    sums = sums_of(counts[:, :-1])
    prior = Prior.of_sums(sums[-1:].repeat(200, axis=0), sums[-1])
    log_p = prior.expect(np.full(200, 48), past.sum(axis=1)).log_tail(now)
    assert (log_p < np.log(1e-4)).mean() > 0.9
