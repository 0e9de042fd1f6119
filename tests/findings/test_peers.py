from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.findings.peers import (
    FACTS_SCHEMA,
    FEWEST_PEERS,
    FEWEST_WINDOWS,
    MOMENTS_SCHEMA,
    POOLS_SCHEMA,
    encoded,
    first_terms,
    grid_ms,
    moments_of,
    moments_of_firsts,
    moments_table,
    pools_of,
    streamed,
    streams_in,
    summed,
)
from tests.findings.made import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterable

    Cells = list[tuple[str, list[int]]]
    """An action, and a count in each window of history."""

NOT_SUMMED = ("window_start_ms", "action", "octave")


TEXTS = st.lists(st.sampled_from(["a", "b", "", "ä", "name"]), max_size=9)


@given(st.lists(TEXTS, max_size=5), TEXTS)
def test_texts_are_told_by_code_however_they_lie_in_chunks(
    chunks: list[list[str]], more: list[str]
) -> None:
    shared = pa.array([*"cab", "", "ä", "name"])
    places = {text: place for place, text in enumerate(shared.to_pylist())}
    codes = [pa.array([places[text] for text in chunk], pa.int32()) for chunk in chunks]
    of_one = [pa.DictionaryArray.from_arrays(each, shared) for each in codes]
    of_several = [pa.array(chunk, pa.string()).dictionary_encode() for chunk in chunks]
    kind = pa.dictionary(pa.int32(), pa.string())
    last = pa.array(more, pa.string()).dictionary_encode()
    for told in (of_one, of_several, [*of_one, last], [pa.array(c, pa.string()) for c in chunks]):
        right = [text for chunk in told for text in chunk.to_pylist()]
        texts, places_of = encoded(pa.chunked_array(told, told[0].type if told else kind))
        assert texts.take(pa.array(places_of)).to_pylist() == right
        assert set(texts.to_pylist()) == set(right)


def moments(cells: Cells, start_ms: int = 0, rhythm: list[complex] | None = None) -> pa.Table:
    actions = sorted({action for action, _ in cells})
    codes = np.array([actions.index(action) for action, _ in cells], np.int64)
    history = (
        np.array([len(counts) for _, counts in cells], np.int64),
        np.array([sum(counts) for _, counts in cells], np.int64),
        np.array([sum(count**2 for count in counts) for _, counts in cells], np.float64),
    )
    waves = np.zeros(len(cells), complex) if rhythm is None else np.array(rhythm, complex)
    found = moments_of(start_ms, codes, history, waves)
    return moments_table([found], pa.array(actions, pa.string()))


def moments_of_first_counts(firsts: Iterable[tuple[str, int]], start_ms: int = 0) -> pa.Table:
    action, count = zip(*firsts, strict=True)
    actions = sorted(set(action))
    codes = np.array([actions.index(each) for each in action], np.int64)
    terms = first_terms(codes, np.array(count, np.int64), len(actions))
    return moments_table([moments_of_firsts(start_ms, terms)], pa.array(actions, pa.string()))


def octave_of(counts: list[int]) -> int:
    return math.frexp(sum(counts) / len(counts))[1] - 1


def excess_of(counts: list[int], wave: complex = 0) -> float:
    """What the variance is beyond chance and the day's wave, or as much as is heard of one cell."""
    mean = statistics.fmean(counts)
    most = 4 * mean**2 + 3 * mean * math.sqrt(2 / len(counts))
    return min(statistics.variance(counts) - mean - mean**2 * spread_of_wave(wave), most)


def spread_of_wave(wave: complex) -> float:
    """The variance of 1 + Re(a* e^iθ), as it is seen at a thousand moments of a day."""
    around = np.exp(2j * np.pi * np.arange(1000) / 1000)
    return float(np.var(1 + (np.conj(wave) * around).real))


def rates_of_many(peers: int, seed: int = 0, actions: str = "xyz") -> Cells:
    """Users as they are: rates over several octaves, bursts, and some with hardly any history."""
    random = np.random.default_rng(seed)
    cells = []
    for number in range(peers):
        rate, windows = random.lognormal(0, 1.5), int(random.integers(1, 40))
        counts = random.poisson(rate * random.gamma(2, 0.5, windows))
        counts[0] += 1  # history begins with an event
        cells.append((actions[number % len(actions)], counts.tolist()))
    return cells


def by_octave(
    cells: Cells, waves: list[complex]
) -> dict[tuple[Any, ...], list[tuple[list[int], complex]]]:
    groups: dict[tuple[Any, ...], list[tuple[list[int], complex]]] = {}
    for (action, counts), wave in zip(cells, waves, strict=True):
        groups.setdefault((action, octave_of(counts)), []).append((counts, wave))
    return groups


@given(st.integers(1, 120), st.integers(0, 99))
def test_moments_are_those_of_the_formula_by_action_and_octave(peers: int, seed: int) -> None:
    cells, random = rates_of_many(peers, seed), np.random.default_rng(seed)
    waves = [complex(*random.normal(0, 0.6, 2)) * bool(random.random() < 0.5) for _ in cells]
    right = {}
    for key, histories in by_octave(cells, waves).items():
        peered = [each for each in histories if len(each[0]) >= 2]
        old = [(statistics.fmean(c), w) for c, w in histories if len(c) >= FEWEST_WINDOWS]
        mean = [statistics.fmean(counts) for counts, _ in peered]
        excess = [excess_of(*each) for each in peered]
        weight = [(1 + each) ** -2 for each in mean]
        square = [m * m * (1 + spread_of_wave(w)) for m, (_, w) in zip(mean, peered, strict=True)]
        n = [len(counts) for counts, _ in peered]
        right[key] = [
            *(len(histories), len(old), len(peered), sum(bool(wave) for _, wave in old)),
            math.fsum(m for m, _ in old),
            math.fsum(m for m, wave in old if wave),
            math.fsum(m * wave.real for m, wave in old),
            math.fsum(m * wave.imag for m, wave in old),
            math.fsum(w * e for w, e in zip(weight, excess, strict=True)),
            math.fsum(w * s for w, s in zip(weight, square, strict=True)),
            *(math.fsum(mean), math.fsum(m * m for m in mean)),
            math.fsum(1 / each for each in n),
            math.fsum(m / each for m, each in zip(mean, n, strict=True)),
            math.fsum(m * m / each for m, each in zip(mean, n, strict=True)),
        ]
    table = moments(cells, 7, waves)
    assert table.schema == MOMENTS_SCHEMA
    found = {tuple(key): values for _, *key, values in rows_of(table)}
    assert set(table["window_start_ms"].to_pylist()) == {7}
    assert len(table) == len(right)
    assert found.keys() == right.keys()
    for key, values in right.items():
        assert found[key] == pytest.approx(values, rel=1e-9, abs=1e-9)


def rows_of(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    for row in table.to_pylist():
        keys = [row.pop(name) for name in NOT_SUMMED if name in row]
        yield (*keys, list(row.values()))


@given(st.lists(st.integers(0, 4), min_size=80, max_size=80), st.integers(0, 99))
def test_sums_of_buckets_add_up_to_those_of_all(bucket: list[int], seed: int) -> None:
    cells = rates_of_many(len(bucket), seed)
    each_bucket = [
        moments([cell for cell, number in zip(cells, bucket, strict=True) if number == mine])
        for mine in sorted(set(bucket))
    ]
    halves = [summed(each_bucket[:2], MOMENTS_SCHEMA), summed(each_bucket[2:], MOMENTS_SCHEMA)]
    whole = summed([moments(cells)], MOMENTS_SCHEMA)
    added = summed(halves[::-1], MOMENTS_SCHEMA)
    assert added.schema == MOMENTS_SCHEMA
    for one, other in zip(rows_of(added), rows_of(whole), strict=True):
        assert one[:-1] == other[:-1]
        assert one[-1] == pytest.approx(other[-1], rel=1e-9, abs=1e-9)


def test_sums_of_several_times_and_of_first_windows_stay_apart() -> None:
    early, late = (moments([("x", [3, 4])], start) for start in (0, HOUR))
    first = moments_of_first_counts([("x", 3)])
    added = summed([late, early, first, early], MOMENTS_SCHEMA)
    assert [(at, octave, values[0]) for at, _, octave, values in rows_of(added)] == [
        (0, 1, 2),
        (0, None, 1),
        (HOUR, 1, 1),
    ]


def test_facts_of_buckets_add_up_window_by_window() -> None:
    def facts(*rows: tuple[int, ...]) -> pa.Table:
        return pa.table(list(map(list, zip(*rows, strict=True))), schema=FACTS_SCHEMA)

    added = summed([facts((2, 5, 4, 1), (1, 7, 0, 0)), facts((2, 10, 6, 3))], FACTS_SCHEMA)
    assert added.schema == FACTS_SCHEMA
    assert [tuple(row.values()) for row in added.to_pylist()] == [(1, 7, 0, 0), (2, 15, 10, 4)]
    assert summed([], FACTS_SCHEMA).equals(FACTS_SCHEMA.empty_table())


def law(histories: list[list[int]]) -> tuple[float, float, float]:
    """Alpha, beta and dispersion, a peer at a time."""
    peers = sorted((each for each in histories if len(each) >= 2), key=octave_of, reverse=True)
    weight = [(1 + statistics.fmean(each)) ** -2 for each in peers]
    excess = [excess_of(each) for each in peers]
    rate = [statistics.fmean(each) for each in peers]
    dispersion = sum(w * e for w, e in zip(weight, excess, strict=True))
    dispersion /= sum(w * m * m for w, m in zip(weight, rate, strict=True))
    dispersion, number, octaves = max(dispersion, 0.0), 0, list(map(octave_of, peers))
    for octave in sorted(set(octaves), reverse=True):
        size = octaves.count(octave)
        if number + size > len(peers) // 100:
            cap = statistics.fmean(rate[number : number + size])
            rate[:number] = [cap] * number
            break
        number += size
    mean = statistics.fmean(rate)
    sampling = statistics.fmean(
        (m + dispersion * m * m) / len(each) for m, each in zip(rate, peers, strict=True)
    )
    between = max(statistics.variance(rate) - sampling, 1e-9)
    return mean * mean / between, mean / between, dispersion


def pool_of(pools: pa.Table, action: str | None) -> dict[str, Any]:
    (row,) = (row for row in pools.to_pylist() if row["action"] == action)
    return row  # type: ignore[no-any-return]


@given(st.integers(150, 800), st.integers(0, 99))
def test_pools_are_what_the_peers_say_one_by_one(peers: int, seed: int) -> None:
    cells = rates_of_many(peers, seed, actions="xxxyyz")
    pools = pools_of(moments(cells))
    assert pools.schema == POOLS_SCHEMA
    assert pools["action"].to_pylist() == ["x", "y", "z", None]
    for action in ("x", "y", "z", None):
        mine = [counts for each, counts in cells if action in {None, each}]
        old = [counts for counts in mine if len(counts) >= FEWEST_WINDOWS]
        row = pool_of(pools, action)
        assert (row["cells"], row["known_cells"]) == (len(mine), len(old))
        assert row["level"] == pytest.approx(sum(map(statistics.fmean, old)))
        assert row["peers"] == sum(len(counts) >= 2 for counts in mine)
        right = law(mine) if row["peers"] >= FEWEST_PEERS else [math.nan] * 3
        found = [row[name] for name in ("alpha", "beta", "dispersion")]
        assert found == pytest.approx(right, rel=1e-6, nan_ok=True)
        assert math.isnan(row["first_mean"])
        assert row["firsts"] == 0


def test_one_in_a_hundred_with_enormous_rates_hardly_moves_what_is_known_of_all() -> None:
    calm = rates_of_many(400, actions="x")
    shaken = [*calm, *[("x", [10**6] * 20)] * 3]
    plain, winsorised = (pool_of(pools_of(moments(each)), "x") for each in (calm, shaken))
    rates = [each["alpha"] / each["beta"] for each in (plain, winsorised)]
    assert rates[1] < 2 * rates[0]
    assert winsorised["alpha"] > plain["alpha"] / 3
    # One more is more than one in a hundred, and counts for what it is.
    more = pool_of(pools_of(moments([*shaken, ("x", [10**6] * 20)])), "x")
    assert more["alpha"] / more["beta"] > 1000 * rates[0]


def test_busy_cells_say_no_more_of_dispersion_than_all_others_together() -> None:
    random = np.random.default_rng(1)
    steady = [("x", (1 + random.poisson(2, 30)).tolist()) for _ in range(200)]
    bursty = [("x", (1000 * random.gamma(0.5, 2, 30)).astype(int).tolist()) for _ in range(10)]
    assert pool_of(pools_of(moments(bursty * 3)), "x")["dispersion"] > 1
    assert pool_of(pools_of(moments(steady + bursty)), "x")["dispersion"] < 0.2


def test_jobs_that_do_all_of_it_in_one_hour_of_the_day_are_heard_as_dispersion_of_four() -> None:
    job = [1_000 if hour % 24 == 3 else 0 for hour in range(240)]
    assert excess_of(job) < 0.2 * statistics.variance(job)
    row = pool_of(pools_of(moments([("x", job)] * 40)), "x")
    assert row["dispersion"] == pytest.approx(4, rel=0.01)


def test_cells_with_one_window_count_as_tests_but_not_as_peers() -> None:
    cells = [*[("x", [4, 4])] * 30, *[("x", [900])] * 7]
    row = pool_of(pools_of(moments(cells)), None)
    assert (row["cells"], row["peers"], row["known_cells"]) == (37, 30, 0)
    assert row["alpha"] / row["beta"] == pytest.approx(4)


def test_too_few_peers_say_nothing_until_there_are_thirty() -> None:
    for peers in (FEWEST_PEERS - 1, FEWEST_PEERS):
        row = pool_of(pools_of(moments([("x", [3, 5])] * peers)), None)
        said = [not math.isnan(row[name]) for name in ("alpha", "beta", "dispersion")]
        assert said == [peers >= FEWEST_PEERS] * 3


@given(st.lists(st.integers(1, 200), min_size=25, max_size=60))
def test_first_windows_have_a_law_of_their_own_of_which_none_counts_above_fifty(
    counts: list[int],
) -> None:
    peers = moments([("x", [1, 1])] * 40)
    table = moments_of_first_counts([("x", count) for count in counts])
    row = pool_of(pools_of(summed([peers, table], MOMENTS_SCHEMA)), "x")
    assert (row["firsts"], row["peers"], row["cells"]) == (len(counts), 40, 40)
    if len(counts) < FEWEST_PEERS:
        assert math.isnan(row["first_mean"])
        return
    held = [min(count, 50) for count in counts]
    mean, variance = statistics.fmean(held), statistics.variance(held)
    assert row["first_mean"] == pytest.approx(mean)
    dispersion = max(variance - mean, 1e-6) / mean**2
    assert row["first_dispersion"] == pytest.approx(dispersion, rel=1e-6, abs=1e-9)


def test_an_action_nobody_began_with_has_no_first_windows() -> None:
    found = moments_of_firsts(0, np.array([[0.0, 0, 0], [2, 5, 13]]))
    table = moments_table([found], pa.array(["x", "y"]))
    assert [(action, octave) for _, action, octave, _ in rows_of(table)] == [("y", None)]


def test_each_time_has_pools_of_its_own() -> None:
    early, late = (moments([("x", [rate, rate])] * 40, at) for rate, at in ((2, 0), (20, HOUR)))
    pools = pools_of(pa.concat_tables([late, early]))
    rates = [row["alpha"] / row["beta"] for row in pools.to_pylist() if row["action"] == "x"]
    assert rates == pytest.approx([2, 20])


def test_no_moments_are_no_pools() -> None:
    assert pools_of(MOMENTS_SCHEMA.empty_table()).equals(POOLS_SCHEMA.empty_table())


@given(st.integers(1, 40))
def test_peers_are_looked_at_about_every_six_hours_as_windows_begin(hours: int) -> None:
    grid = grid_ms(hours * HOUR)
    assert grid % (hours * HOUR) == 0
    assert max(6, hours) <= grid // HOUR < 6 + hours
    assert grid_ms(DAY) == DAY


def test_tables_come_back_out_of_one_stream_behind_the_other() -> None:
    tables = [moments([("x", [3, 4])]), FACTS_SCHEMA.empty_table(), pa.table({"a": [1, 2]})]
    for one, other in zip(streams_in(streamed(*tables)), tables, strict=True):
        assert one.equals(other)


@pytest.mark.parametrize(
    ("counts", "octave"),
    [([1, 1], 0), ([4, 4], 2), ([1, 0], -1), ([1, 0, 0], -2), ([1023, 1023], 9)],
)
def test_the_octave_of_a_rate_is_that_of_the_power_of_two_below_it(
    counts: list[int], octave: int
) -> None:
    assert moments([("x", counts)])["octave"].to_pylist() == [octave]
