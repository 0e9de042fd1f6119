from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.calibration import Calibration, Everyone
from kstoolkit.findings.finding import Findings
from kstoolkit.findings.peers import FACTS_SCHEMA, MOMENTS_SCHEMA
from kstoolkit.findings.rules import Unusual
from kstoolkit.findings.scoring import (
    BINS,
    BINS_PER_DECADE,
    FIRST,
    KNOWN,
    LIGHTEST,
    SURPRISES_SCHEMA,
    YOUNG,
    Scored,
)
from kstoolkit.findings.stories import merge_findings
from tests.findings.made import DAY, HOUR, Watch, counted, hourly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Found = dict[tuple[str, int], float]
    """The chance of each finding, by user and start."""


# What surprise is worth.


def moments(cells: int, known: int) -> pa.Table:
    """Cells with history, of which some know enough of themselves; all do four an hour."""
    sums = [4.0 * known, 0.0, 0.0, 0.0, 0.1 * cells, 1.0 * cells, 4.0 * cells, 17.0 * cells]
    row = [0, "x", 2, cells, known, cells, 0, *sums, *(each * cells for each in (0.1, 0.4, 1.7))]
    return pa.table([[each] for each in row], schema=MOMENTS_SCHEMA)


def of_firsts(number: int) -> pa.Table:
    sums = [*([0.0] * 6), 3.0 * number, 20.0 * number, 0.0, 0.0, 0.0]
    row = [0, "x", None, number, 0, 0, 0, *sums]
    return pa.table([[each] for each in row], schema=MOMENTS_SCHEMA)


def facts(hour: int, firsts: int = 0) -> pa.Table:
    return pa.table([[hour * HOUR], [0], [0], [firsts]], schema=FACTS_SCHEMA)


def surprises(hour: int, surprise: Floats, history: int = KNOWN) -> pa.Table:
    some = surprise[surprise >= 1]
    bins, counts = np.unique((some * BINS_PER_DECADE).astype(int), return_counts=True)
    same = [np.full(len(bins), each) for each in (hour * HOUR, history)]
    return pa.table([*same, bins, counts], schema=SURPRISES_SCHEMA)


def judged(everyone: Everyone, hour: int, surprise: Floats, history: int = KNOWN) -> None:
    """Let an hour pass in which counts were so surprising."""
    everyone.add([], [facts(hour, len(surprise) if history == FIRST else 0)])
    told = Scored(surprises=surprises(hour, surprise, history))
    everyone.judge([told], (hour + 1) * HOUR)


def taught(
    rate: float, history: int, *, cells: int = 20_000, windows: int = 100, seed: int = 0
) -> Everyone:
    """Everyone, after windows of surprises of which P(Z ≥ z) = 10^(-rate · z)."""
    random, everyone = np.random.default_rng(seed), Everyone(HOUR)
    everyone.add([moments(cells, cells if history == KNOWN else 0), of_firsts(100)], [])
    for hour in range(windows):
        surprise = random.exponential(1 / (rate * math.log(10)), cells)
        judged(everyone, hour, surprise, history)
    return everyone


def worth(everyone: Everyone, surprise: Any, history: int) -> Floats:
    told = np.asarray(surprise, np.float64)
    return everyone.calibration.surprise(told, np.full(len(told), history))


@pytest.mark.parametrize("history", [FIRST, YOUNG, KNOWN])
@pytest.mark.parametrize("rate", [0.4, 0.6, 0.8, 1, 1.2])
def test_a_surprise_is_worth_what_its_frequency_says(rate: float, history: int) -> None:
    everyone = taught(rate, history)
    told = np.array([3.0, 6.0, 9.0, 20.0]) / rate
    assert worth(everyone, told, history) == pytest.approx([3, 6, 9, 20], rel=0.08)


def test_what_is_beyond_all_that_was_seen_is_worth_less_where_that_had_a_heavy_tail() -> None:
    random, everyone = np.random.default_rng(1), Everyone(HOUR)
    everyone.add([moments(20_000, 20_000)], [])
    for hour in range(100):
        # Nominal all the way to one in a hundred, and a power law behind.
        surprise = random.exponential(1 / math.log(10), 20_000)
        behind = surprise > 2
        surprise[behind] = 2 + 3 * (surprise[behind] - 2)
        judged(everyone, hour, surprise)
    found = worth(everyone, [2 + 3 * 2, 2 + 3 * 4], KNOWN)
    assert found == pytest.approx([4, 6], rel=0.08)


def test_however_light_the_tail_surprise_is_worth_hardly_more_than_it_says() -> None:
    found = worth(taught(2, KNOWN), [6.0, 12.0, 18.0], KNOWN)
    assert np.all(np.diff(found) <= 6 / 0.7 + 1e-9)
    assert np.all(np.diff(found) > 6)


@st.composite
def calibrations(draw: st.DrawFn) -> Calibration:
    """Any that there may be: tails of any form, much seen and little."""
    random = np.random.default_rng(draw(st.integers(0, 999)))
    made = Calibration()
    for _ in range(draw(st.integers(0, 3))):
        counts = np.zeros((5, BINS))
        for kind in range(3):
            bins = (draw(st.floats(0.05, 3)) * random.exponential(1, 300) + 1) * BINS_PER_DECADE
            np.add.at(counts[kind], np.minimum(bins.astype(int), BINS - 1), 1)
        made.learn(counts, counts.sum(axis=1) * draw(st.floats(1, 1e4)), 0.9)
    return made


@given(calibrations(), st.lists(st.floats(60, 400), min_size=2, max_size=30))
def test_what_is_more_surprising_is_worth_more_and_by_hardly_more_than_it_says(
    calibration: Calibration, told: list[float]
) -> None:
    surprise = np.sort(told)  # all of it beyond what was seen
    for kind in (FIRST, YOUNG, KNOWN):
        found = calibration.surprise(surprise, np.full(len(told), kind))
        assert np.all(found >= 0)
        assert np.all(np.diff(found) >= -1e-9)
        assert np.all(np.diff(found) <= np.diff(surprise) / 0.7 + 1e-9)


def test_before_five_hundred_were_seen_only_who_has_a_history_is_surprising() -> None:
    random = np.random.default_rng(0)
    for cells, is_enough in ((499, False), (500, True)):
        for kind in (FIRST, YOUNG, KNOWN):
            everyone = Everyone(HOUR)
            everyone.add([moments(cells, cells if kind == KNOWN else 0), of_firsts(100)], [])
            judged(everyone, 0, random.exponential(1 / math.log(10), cells), kind)
            (found,) = worth(everyone, [9.0], kind)
            if not is_enough:
                assert found == (9.0 if kind == KNOWN else 0.0)
            else:
                assert found > 0


def test_first_windows_are_not_counted_before_there_are_thirty_to_compare_with() -> None:
    for firsts, is_enough in ((29, False), (30, True)):
        everyone = Everyone(HOUR)
        everyone.add([moments(100, 100), of_firsts(firsts)], [])
        judged(everyone, 0, np.full(5_000, 1.0), FIRST)
        assert (worth(everyone, [9.0], FIRST)[0] > 0) == is_enough


def test_each_history_is_calibrated_by_its_own() -> None:
    everyone = taught(0.5, KNOWN)
    assert worth(everyone, [8.0], KNOWN) == pytest.approx([4], rel=0.1)
    assert worth(everyone, [8.0], YOUNG).tolist() == [0]
    assert worth(everyone, [8.0], FIRST).tolist() == [0]


def test_a_few_real_bursts_hide_no_others() -> None:
    random, everyone = np.random.default_rng(2), Everyone(HOUR)
    everyone.add([moments(2_000, 2_000)], [])
    for hour in range(200):
        surprise = random.exponential(1 / math.log(10), 2_000)
        surprise[0] = 40 if hour % 10 == 0 else 0  # a twentieth of what is beyond one in 500
        judged(everyone, hour, surprise)
    assert worth(everyone, [40.0], KNOWN)[0] > 20


def test_older_windows_count_for_less() -> None:
    random, everyone = np.random.default_rng(3), Everyone(HOUR)
    everyone.add([moments(3_000, 3_000)], [])
    for hour in range(1_500):
        rate = 0.4 if hour < 200 else 0.8
        judged(everyone, hour, random.exponential(1 / (rate * math.log(10)), 3_000))
        if hour == 199:
            assert worth(everyone, [10.0], KNOWN) == pytest.approx([4], rel=0.1)
    assert worth(everyone, [10.0], KNOWN) == pytest.approx([8], rel=0.1)


def test_windows_in_which_nothing_happened_were_seen_too() -> None:
    """Of cells that do anything in every tenth hour, a tenth is as surprising as it says."""
    random = np.random.default_rng(4)
    often, seldom = Everyone(HOUR), Everyone(HOUR)
    for everyone in (often, seldom):
        everyone.add([moments(20_000, 20_000)], [])
    for hour in range(0, 400, 10):
        surprise = random.exponential(2, 20_000)
        for quiet in range(10):
            judged(often, hour + quiet, surprise if quiet == 0 else surprise[:0])
        judged(seldom, hour, surprise)
    told = [4.0, 8.0, 16.0]
    seldom.add([], [facts(399)])
    seldom.judge([], 400 * HOUR)
    assert worth(seldom, told, KNOWN) == pytest.approx(worth(often, told, KNOWN), rel=0.02)


# What is found, and found no more.


USERS, HOURS = 400, 96
RULE = Unusual("1 hour", false_alarms_per_day=40)


def community(seed: int = 7) -> NDArray[np.int64]:
    """Users who come one after the other, by another law than the detector's, and some bursts."""
    random = np.random.default_rng(seed)
    rate = random.lognormal(0.7, 0.8, (USERS, 1))
    busy = 1 + 0.5 * np.sin(np.arange(HOURS) * 2 * np.pi / 24)
    counts = random.poisson(rate * busy * random.lognormal(-0.1, 0.45, (USERS, HOURS)))
    begin = np.where(np.arange(USERS) < USERS // 2, 0, random.integers(0, HOURS, USERS))
    counts[np.arange(HOURS) < begin[:, None]] = 0
    for burst in range(12):
        counts[random.integers(0, USERS), 30 + 5 * burst] = 60
    return counts


def between(counts: NDArray[np.int64], begin: int, end: int) -> pa.Table:
    return hourly(counts[:, begin:end], begin)


def known_by(table: pa.Table | Findings) -> Found:
    rows = table if isinstance(table, Findings) else Findings(table)
    found = {(row.user, row.window_start_ms): row.log10_probability for row in rows}
    assert len(found) == len(rows)
    return {key: value for key, value in found.items() if value is not None}


def found_in(cuts: list[int], buckets: int = 1, *, kept: bool = False) -> Found:
    """What is found where hours are closed in several steps, and users lie in several buckets."""
    counts, watch, found = community(), Watch(RULE, buckets=buckets), []
    for begin, end in zip([0, *cuts], [*cuts, HOURS], strict=True):
        found.append(watch.close(between(counts, begin, end), end).table)
        if kept:
            watch.everyone = Everyone.decode(watch.everyone.encode())
    return known_by(pa.concat_tables(found))


@pytest.fixture(scope="module")
def at_once() -> Found:
    found = found_in([])
    assert len(found) > 20
    return found


@settings(max_examples=8)
@given(st.sets(st.integers(1, HOURS - 1), max_size=12), st.integers(1, 4), st.integers(0, 1))
def test_however_hours_are_judged_in_steps_and_users_lie_in_buckets_the_same_is_found(
    at_once: Found, cuts: set[int], buckets: int, kept: int
) -> None:
    assert found_in(sorted(cuts), buckets, kept=bool(kept)) == pytest.approx(at_once, abs=1e-6)


def test_hours_judged_one_by_one_are_as_all_at_once(at_once: Found) -> None:
    assert found_in(list(range(1, HOURS))) == pytest.approx(at_once, abs=1e-6)


def test_the_bursts_are_among_what_is_found_and_the_first_day_has_none_by_peers(
    at_once: Found,
) -> None:
    counts = community()
    bursts = {(f"user {who}", hour * HOUR) for who, hour in np.argwhere(counts == 60)}
    assert len(bursts) >= 12
    assert len(at_once.keys() & bursts) >= 10
    begin = {f"user {who}": int(np.argmax(row > 0)) for who, row in enumerate(counts)}
    early = [key for key in at_once if key[1] < DAY]
    assert all(at // HOUR - begin[user] >= 12 for user, at in early)


@pytest.fixture(scope="module")
def told_by_each() -> list[Everyone]:
    """What six buckets tell of two days."""
    counts, each = community(), []
    for number in range(6):
        mine = np.where(np.arange(USERS)[:, None] % 6 == number, counts, 0)
        closed = Baselines.empty(HOUR).close(between(mine, 0, 48), 48 * HOUR)
        each.append(Everyone(HOUR, closed_ms={number: (number + 20) * HOUR}))
        each[-1].add([closed.moments], [closed.facts])
    return each


@settings(max_examples=8)
@given(st.permutations(range(6)), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_what_buckets_tell_adds_up_in_any_grouping_and_order(
    told_by_each: list[Everyone], order: list[int], group: list[int]
) -> None:
    whole, together = Everyone(HOUR), Everyone(HOUR)
    whole.take_in(told_by_each)
    parts = [Everyone(HOUR) for _ in range(3)]
    for number in order:
        parts[group[number]].take_in([Everyone.decode(told_by_each[number].encode())])
    together.take_in(parts)
    assert together.facts.equals(whole.facts)
    assert (together.since_ms, together.closed_ms) == (whole.since_ms, whole.closed_ms)
    assert (together.closed_by(6), together.closed_by(7)) == (20 * HOUR, -(1 << 62))
    one, other = (known.brief(48 * HOUR) for known in (together, whole))
    assert len(one.busy) > 5
    for found, right in ((one.busy, other.busy), (one.pools, other.pools)):
        assert found.select(keys_of(found)).equals(right.select(keys_of(right)))
        for name in set(found.column_names) - set(keys_of(found)):
            columns = [np.asarray(table[name].to_numpy(), float) for table in (found, right)]
            assert columns[0] == pytest.approx(columns[1], rel=1e-6, nan_ok=True)


def keys_of(table: pa.Table) -> list[str]:
    return [name for name in ("window_start_ms", "action") if name in table.column_names]


def test_how_busy_all_are_is_what_those_who_are_known_do_beyond_what_is_usual() -> None:
    rows = [(hour, f"user {who}", "x", 4) for hour in range(30) for who in range(40)]
    rows += [(30, f"user {who}", "x", 10) for who in range(40)]
    rows += [(31, f"user {who}", "x", 4) for who in range(39)] + [(31, "user 39", "x", 10**6)]
    rows += [(32, f"user {who}", "x", 2) for who in range(40)]
    closed = Baselines.empty(HOUR).close(counted(rows), 33 * HOUR)
    everyone = Everyone(HOUR)
    everyone.add([closed.moments], [closed.facts])
    brief = everyone.brief(33 * HOUR)
    found = brief.factor(np.array([12, 29, 30, 31, 32, 99]) * HOUR, np.zeros(6, complex))
    assert found == pytest.approx([1, 1, 2.5, (39 * 4 + 20) / 160, 1, 1], rel=0.01)
    assert brief.warm_ms == DAY
    assert not len(everyone.brief(30 * HOUR).busy)  # what is not over tells nothing


def test_who_has_a_rhythm_is_busy_beyond_what_the_hour_makes_of_it() -> None:
    usual = [0, 0, 0, 0, 0, 0, 4, 8, 12, 16, 20, 20, 20, 20, 20, 20, 16, 12, 8, 4, 0, 0, 0, 0]
    rows = [(at, f"user {u}", "x", usual[at % 24]) for at in range(144) for u in range(40)]
    rows += [(at, f"even {u}", "x", 6) for at in range(144) for u in range(10)]
    rows += [(at, f"user {u}", "x", 3 * usual[at % 24]) for at in (156, 162) for u in range(40)]
    rows += [(at, f"even {u}", "x", 6) for at in (156, 162) for u in range(10)]
    closed = Baselines.empty(HOUR).close(counted([row for row in rows if row[-1]]), 163 * HOUR)
    everyone = Everyone(HOUR)
    everyone.add([closed.moments], [closed.facts])
    brief, at = everyone.brief(163 * HOUR), np.array([132, 156, 138, 162]) * HOUR
    plain = brief.factor(at, np.zeros(4, complex))
    rhythmic = brief.factor(at, np.ones(4, complex))
    # At noon, and at six in the evening; no count is taken as more than five times the mean.
    told = (40 * np.array([20, 40, 8, 24]) + 60) / (40 * 200 / 24 + 60)
    assert plain == pytest.approx(told, rel=0.1)
    assert rhythmic == pytest.approx([1, 2, 1, 3], rel=0.25)
    known = closed.material.filter(pc.equal(closed.material["window_start_ms"], 156 * HOUR))
    has_rhythm = np.hypot(known["cosine"], known["sine"]) > 0
    assert has_rhythm.tolist() == [who.as_py().startswith("user") for who in known["user"]]


def test_before_thirty_are_known_nobody_is_called_busy() -> None:
    rows = [(hour, f"user {who}", "x", 4) for hour in range(30) for who in range(29)]
    rows += [(30, f"user {who}", "x", 20) for who in range(29)]
    closed = Baselines.empty(HOUR).close(counted(rows), 31 * HOUR)
    everyone = Everyone(HOUR)
    everyone.add([closed.moments], [closed.facts])
    assert not len(everyone.brief(31 * HOUR).busy)


def watched(until: int = 60) -> Watch:
    watch = Watch(RULE)
    watch.close(between(community(), 0, until), until)
    return watch


def about(user: str, found: Findings) -> list[tuple[int, float | None]]:
    return [(row.count, row.log10_probability) for row in found if row.user == user]


def test_a_provisional_finding_that_holds_stays() -> None:
    watch = watched()
    first = watch.close(counted([]), 60, counted([(60, "user 3", "x", 300)]), seen_ms=1)
    closing = pa.concat_tables([between(community(), 61, 62), counted([(60, "user 3", "x", 310)])])
    second = watch.close(closing, 62, seen_ms=2)
    ((count, chance),) = about("user 3", first)
    assert count == 300
    assert chance is not None
    assert chance < -5
    kept = Findings(merge_findings([first.table, second.table]))
    assert [count for count, _ in about("user 3", kept)] == [310]
    assert [row.first_seen_ms for row in kept if row.user == "user 3"] == [1]


def test_a_provisional_finding_that_does_not_hold_is_told_again_as_certain_and_dropped() -> None:
    watch, counts = watched(), community()
    user, count = "user 0", 15
    first = watch.close(counted([]), 60, counted([(60, user, "x", count)]))
    assert len(about(user, first)) == 1
    assert about(user, first)[0][1] != 0
    watch.everyone = Everyone.decode(watch.everyone.encode())
    assert about(user, watch.close(counted([]), 60)) == []  # nothing more while it goes on
    counts[:, 60] *= 5  # all did more in that hour, as is known once it is over
    counts[0, 60] = count
    second = watch.close(between(counts, 60, 61), 61)
    assert about(user, second) == [(count, 0.0)]
    assert about(user, Findings(merge_findings([first.table]))) != []
    assert about(user, Findings(merge_findings([first.table, second.table]))) == []
    assert about(user, watch.close(between(counts, 61, 62), 62)) == []  # nor a third time


def test_what_is_not_over_teaches_nobody_what_surprise_is_worth() -> None:
    one, other = watched(), watched()
    one.close(counted([]), 60, between(community(), 60, 70))
    found = [each.close(between(community(), 60, 96), 96).table for each in (one, other)]
    right = known_by(found[1])
    taken_back = {key for key, chance in known_by(found[0]).items() if chance == 0}
    told = {key: chance for key, chance in known_by(found[0]).items() if key not in taken_back}
    assert right.keys()
    assert told == pytest.approx(right)


def test_everyone_comes_back_as_it_was_and_judges_alike() -> None:
    watch, counts = watched(), community()
    watch.close(counted([]), 60, counted([(60, "user 3", "x", 300)]))
    watch.everyone.closed_ms = {3: 7, 0: 1 << 60}
    again = Everyone.decode(watch.everyone.encode())
    for name in ("every_ms", "closed_ms", "since_ms", "judged_ms", "moments", "facts", "told"):
        assert getattr(again, name) == getattr(watch.everyone, name)
    assert np.array_equal(again.calibration.counts, watch.everyone.calibration.counts)
    assert np.array_equal(again.calibration.seen, watch.everyone.calibration.seen)
    assert again.encode() == watch.everyone.encode()
    other = watched()
    other.everyone = again
    found = [each.close(between(counts, 60, 96), 96) for each in (watch, other)]
    assert len(found[0]) > 5
    assert found[0].table.equals(found[1].table)


def test_who_knows_nothing_comes_back_too() -> None:
    again = Everyone.decode(Everyone(HOUR).encode())
    assert (again.every_ms, again.since_ms, again.judged_ms) == (HOUR, None, None)
    assert len(again.judge([], 5 * HOUR)) == 0
    assert again.brief(5 * HOUR).warm_ms > 1 << 60


def test_a_copy_goes_its_own_way() -> None:
    watch = watched()
    before = watch.everyone.encode()
    other = watched()
    other.everyone = Everyone.decode(watch.everyone.encode())
    other.everyone.closed_ms[0] = 5
    other.close(between(community(), 60, 96), 96, between(community(), 95, 96))
    assert watch.everyone.encode() == before
    assert other.everyone.encode() != before


@pytest.mark.parametrize("slope", [0.3, 0.6, 1.0, 3.0])
def test_more_surprise_is_worth_more_and_nowhere_more_than_the_lightest_tail(slope: float) -> None:
    draws = np.random.default_rng(7).exponential(1 / (slope * np.log(10)), 2_000_000)
    counts = np.zeros((5, BINS))
    bins = (draws[draws >= 1] * BINS_PER_DECADE).astype(int)
    np.add.at(counts[KNOWN], np.minimum(bins, BINS - 1), 1)
    calibration = Calibration(counts, np.array([0.0, 0.0, len(draws)]))
    told = np.arange(1.0, 20.0, 0.05)
    worth = calibration.surprise(told, np.full(len(told), KNOWN))
    assert np.all(np.diff(worth) >= -1e-12)
    assert np.all(worth <= told / LIGHTEST + 1e-12)
    seen = told <= np.log10(len(draws)) / slope - 1 / slope
    assert worth[seen] == pytest.approx(np.minimum(told * slope, told / LIGHTEST)[seen], abs=0.4)
