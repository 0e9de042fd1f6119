from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from kstoolkit.findings.calibration import Everyone
from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings
from kstoolkit.findings.rules import Ceiling, Exempt, Longer, Unusual, rules_on
from kstoolkit.findings.scoring import CANDIDATES_SCHEMA, SURPRISES_SCHEMA, Brief, Scored, score
from kstoolkit.formats.actions import with_parts
from tests.findings.made import HOUR, MINUTE, Watch, counted, hourly

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kstoolkit.findings.rules import Rule

    Floats = NDArray[np.float64]

HISTORY = 96


def hour_of(counts: dict[str, int], hour: int, action: str = "x") -> pa.Table:
    return counted([(hour, user, action, count) for user, count in counts.items() if count])


def draws(users: int, hours: int, seed: int = 5, last: float = 1) -> NDArray[np.int64]:
    """Half of the users are there from the beginning, the others come one after the other.

    In the last hour all do so many times as much as usual.
    """
    random = np.random.default_rng(seed)
    rate = random.gamma(2, 1, (users, 1)) * np.where(np.arange(hours) == hours - 1, last, 1)
    counts = random.poisson(rate * random.gamma(2, 0.5, (users, hours)))
    begin = np.where(np.arange(users) < users // 2, 0, random.integers(0, hours, users))
    return np.where(np.arange(hours) < begin[:, None], 0, counts)


def known(value: float | None) -> float:
    assert value is not None
    return value


@pytest.fixture(scope="module")
def taught() -> Watch:
    watch = Watch(Unusual("1 hour"))
    watch.close(hourly(draws(1_500, HISTORY)), HISTORY)
    return watch


@pytest.fixture
def learnt(taught: Watch) -> Watch:
    """Everyone has 96 hours of history."""
    return deepcopy(taught)


def found(watch: Watch, counts: dict[str, int], *rules: Rule, hour: int = HISTORY) -> Findings:
    watch.rules = rules
    return watch.close(hour_of(counts, hour), hour + 1, seen_ms=77)


def test_a_count_far_above_ones_own_history_is_a_finding(learnt: Watch) -> None:
    (finding,) = found(learnt, {"user 7": 90, "user 8": 2}, Unusual("1 hour"))
    assert (finding.user, finding.count, finding.first_seen_ms) == ("user 7", 90, 77)
    assert known(finding.expected_low) <= known(finding.expected_high) < 30
    assert 90 <= known(finding.baseline_windows) <= HISTORY
    assert 1_300 <= known(finding.peers) <= 1_500
    assert known(finding.probability) < 1e-6


def test_a_large_count_by_a_newcomer_is_judged_against_first_windows_of_others(
    learnt: Watch,
) -> None:
    counts = {"stranger": 200, "guest": 3}
    (finding,) = found(learnt, counts, Unusual("1 hour"))
    assert (finding.user, finding.baseline_windows) == ("stranger", 0)
    assert "no history of its own" in finding.sentence
    assert known(finding.expected_low) == 1  # it would be no first window else
    assert 1_300 <= known(finding.peers) <= 1_500


def test_who_has_little_history_is_judged_against_peers(learnt: Watch) -> None:
    for hour in range(3):
        assert not found(learnt, {"guest": 2}, Unusual("1 hour"), hour=HISTORY + hour)
    (finding,) = found(learnt, {"guest": 200}, Unusual("1 hour"), hour=HISTORY + 3)
    assert (finding.user, finding.baseline_windows) == ("guest", 3)


def test_a_count_that_was_there_before_is_none_to_tell_of(learnt: Watch) -> None:
    found(learnt, {"user 7": 95}, hour=HISTORY)
    found(learnt, {"user 7": 95, "user 9": 95}, hour=HISTORY + 1)
    again = found(learnt, {"user 7": 90, "user 9": 90}, Unusual("1 hour"), hour=HISTORY + 2)
    assert [finding.user for finding in again] == ["user 9"]  # once is no usage yet


def test_where_all_do_more_nobody_is_found_for_doing_so() -> None:
    begin = HISTORY - 1
    usual, busy = (hourly(draws(1_500, HISTORY, last=last)) for last in (1, 4))
    watch = Watch(Unusual("1 hour", false_alarms_per_day=24))
    watch.close(usual.filter(pa.array(usual["window_start_ms"].to_numpy() < begin * HOUR)), begin)
    now = busy.filter(pa.array(busy["window_start_ms"].to_numpy() == begin * HOUR))
    some = now.filter(pa.array(np.arange(len(now)) % 10 == 0))
    found = [deepcopy(watch).close(counts, HISTORY) for counts in (now, some)]
    everybody, a_tenth = map(len, found)
    assert everybody <= 10
    assert a_tenth > 2 * everybody  # of whom more is not expected


def test_a_probability_too_small_for_a_float_still_ranks(learnt: Watch) -> None:
    findings = found(learnt, {"user 7": 10**9, "user 8": 10**10}, Unusual("1 hour"))
    assert [f.count for f in findings.top(2)] in ([10**9, 10**10], [10**10, 10**9])
    least = min(known(f.log10_probability) for f in findings)
    assert findings.top(1)[0].log10_probability == least
    assert np.isfinite(least)


BURSTS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "gamma": lambda random, shape: random.gamma(2, 0.5, shape),
    "lognormal": lambda random, shape: random.lognormal(-0.32, 0.8, shape),
    "on and off": lambda random, shape: np.where(random.random(shape) < 1 / 3, 3.0, 0.0),
    "day and night": lambda random, shape: np.resize(
        1 + 0.9 * np.sin(np.arange(24) * 2 * np.pi / 24) * random.random(), shape
    ),
}


@pytest.mark.parametrize("law", BURSTS)
def test_false_alarms_stay_within_the_budget_whatever_the_law(law: str) -> None:
    users, hours, budget = 1_000, 10 * 24, 5
    random = np.random.default_rng(9)
    rate = random.lognormal(0.5, 1, (users, 1))
    counts = random.poisson(rate * BURSTS[law](random, (users, hours)))
    begin = np.where(np.arange(users) < users // 2, 0, random.integers(0, hours, users))
    counts[np.arange(hours) < begin[:, None]] = 0
    alarms = Watch(Unusual("1 hour", budget)).close(hourly(counts), hours)
    day = [finding.window_start_ms // (24 * HOUR) for finding in alarms]
    assert sum(each >= 3 for each in day) <= 7 * budget + 3 * np.sqrt(7 * budget)
    # On the first days it is learnt what surprise is worth.
    assert sum(each < 3 for each in day) <= 3 * 4 * budget


def test_a_larger_budget_finds_no_less(learnt: Watch) -> None:
    counts = {f"user {user}": 5 + user // 50 for user in range(1_500)}
    sizes = [
        len(found(deepcopy(learnt), counts, Unusual("1 hour", budget)))
        for budget in (0.001, 1, 1000)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


def test_counts_below_the_minimum_are_never_unusual(learnt: Watch) -> None:
    assert found(deepcopy(learnt), {"user 7": 90}, Unusual("1 hour", min_count=90))
    assert not found(deepcopy(learnt), {"user 7": 90}, Unusual("1 hour", min_count=91))
    rules = [Unusual("1 hour", 1, min_count=91), Unusual("1 hour", 2, min_count=90)]
    (finding,) = found(learnt, {"user 7": 90}, *rules)
    assert finding.rule == rules[1].name


def test_without_peers_there_is_no_statistical_finding() -> None:
    assert not found(Watch(), {"a": 10**6}, Unusual("1 hour"), hour=0)


def test_who_has_a_history_is_judged_by_it_though_there_are_no_peers() -> None:
    watch = Watch(Unusual("1 hour"))
    watch.close(counted([(hour, "a", "x", 3) for hour in range(40)]), 40)
    (finding,) = found(watch, {"a": 200}, Unusual("1 hour"), hour=40)
    assert finding.baseline_windows == 40
    assert known(finding.expected_high) < 20


def test_for_a_day_and_until_enough_was_seen_nobody_is_judged_by_peers() -> None:
    counts = draws(600, 60, seed=1)
    for begin, is_silent in ((23, True), (50, False)):
        for who in ("stranger", "guest"):
            watch = Watch()
            watch.close(hourly(counts[:, : begin - 1]), begin - 1)
            found(watch, {"guest": 2}, Unusual("1 hour"), hour=begin - 1)
            silent = found(watch, {who: 200}, Unusual("1 hour"), hour=begin)
            assert not silent if is_silent or who == "stranger" else silent
    # Of first windows there were hardly 500 by then.


def test_what_nothing_can_be_said_of_is_counted() -> None:
    watch = Watch(Unusual("1 hour"))
    watch.close(counted([(0, "a", "x", 5), (0, "b", "x", 4)]), 1)
    assert watch.unjudged == 1  # counts below five are never unusual anyway


def test_a_ceiling_needs_no_baseline() -> None:
    scored = score(
        hour_of({"a": 101, "b": 100}, 0), None, rules_on([Ceiling("1 hour", 100)], "1 hour")
    )
    findings = Findings(scored.findings)
    assert [(f.user, f.ceiling, f.probability) for f in findings] == [("a", 100, None)]
    assert findings[0].expected == "unknown (no baseline)"
    assert (len(scored.candidates), len(scored.surprises)) == (0, 0)


def test_a_ceiling_beside_a_baseline_tells_what_was_expected(learnt: Watch) -> None:
    findings = found(learnt, {"user 7": 101}, Ceiling("1 hour", 100), Unusual("1 hour"))
    assert [f.kind for f in findings] == ["Ceiling", "Unusual"]
    assert findings[0].expected_high == findings[1].expected_high


def test_a_ceiling_on_some_actions_leaves_others_alone() -> None:
    material = pa.concat_tables([hour_of({"a": 9}, 0, "login"), hour_of({"b": 9}, 0, "read")])
    scored = score(material, None, rules_on([Ceiling("1 hour", 5, actions=["login"])], "1 hour"))
    assert scored.findings["user"].to_pylist() == ["a"]


def test_exempt_users_are_never_found(learnt: Watch) -> None:
    rules: list[Rule] = [Unusual("1 hour"), Ceiling("1 hour", 50), Exempt(pattern="user [78]")]
    assert not found(learnt, {"user 7": 90, "user 8": 90}, *rules)


def test_rules_on_other_windows_are_passed_over() -> None:
    assert not found(Watch(), {"a": 101}, Ceiling("1 minute", 100), hour=0)


def test_no_counts_give_no_findings(learnt: Watch) -> None:
    assert not found(learnt, {}, Unusual("1 hour"), Ceiling("1 hour", 3))


def test_findings_have_the_stored_schema(learnt: Watch) -> None:
    table = found(learnt, {"user 7": 90}, Unusual("1 hour"), Ceiling("1 hour", 50)).table
    assert len(table) == 2
    assert table.schema == FINDINGS_SCHEMA
    table.validate(full=True)


def test_by_default_a_finding_is_first_seen_at_its_windows_end() -> None:
    scored = score(hour_of({"a": 9}, 3), None, rules_on([Ceiling("1 hour", 5)], "1 hour"))
    assert scored.findings["first_seen_ms"].to_pylist() == [4 * HOUR]


def test_scoring_the_same_again_says_the_same(learnt: Watch) -> None:
    once, again = (found(deepcopy(learnt), {"user 7": 90}, Unusual("1 hour")) for _ in range(2))
    assert len(once) == 1
    assert once.table.equals(again.table)


def scored_once(watch: Watch, counts: dict[str, int], *rules: Rule) -> tuple[Scored, Brief]:
    """What is said of counts before they are judged; closing them changes a copy alone."""
    closed = deepcopy(watch.buckets[0]).close(hour_of(counts, HISTORY), (HISTORY + 1) * HOUR)
    everyone = Everyone.decode(watch.everyone.encode())
    everyone.add([closed.moments], [closed.facts])
    brief = everyone.brief((HISTORY + 1) * HOUR)
    return score(closed.material, brief, rules_on(rules, "1 hour")), brief


def test_what_is_told_of_all_users_comes_back_as_it_was(learnt: Watch) -> None:
    counts = {f"user {number}": 40 for number in range(1_500)}
    _, brief = scored_once(learnt, counts)
    again = Brief.decode(brief.encode())
    assert again.pools.equals(brief.pools)
    assert again.busy.equals(brief.busy)
    assert again.warm_ms == brief.warm_ms
    hours = np.array([HISTORY - 1, HISTORY, HISTORY + 1]) * HOUR
    for rhythm in (np.zeros(3, complex), np.ones(3, complex)):
        assert np.array_equal(again.factor(hours, rhythm), brief.factor(hours, rhythm))
    assert brief.factor(hours, np.zeros(3, complex))[1] > 2


def test_what_is_not_decided_yet_comes_back_as_it_was(learnt: Watch) -> None:
    scored, _ = scored_once(learnt, {"user 7": 90, "user 8": 9, "late": 6}, Unusual("1 hour"))
    again = Scored.decode(scored.encode())
    assert len(again.candidates) > 0
    assert again.candidates.equals(scored.candidates)
    assert again.surprises.equals(scored.surprises)
    assert again.unjudged == scored.unjudged
    nothing = Scored.decode(Scored().encode())
    assert (nothing.candidates.schema, nothing.surprises.schema) == (
        CANDIDATES_SCHEMA,
        SURPRISES_SCHEMA,
    )


def test_each_surprising_count_is_counted_once_however_many_rules_there_are(learnt: Watch) -> None:
    counts = {f"user {number}": 20 + number for number in range(40)}
    one, two = (
        scored_once(learnt, counts, *(Unusual("1 hour", budget) for budget in budgets))[0]
        for budgets in ((5,), (5, 50))
    )
    assert one.surprises.equals(two.surprises)
    assert sum(one.surprises["counts"].to_pylist()) == 40
    assert len(two.candidates) >= 2 * len(one.candidates) > 0
    assert min(one.surprises["bin"].to_pylist()) >= 10  # less than one in ten is no surprise


def test_a_window_that_is_not_over_is_judged_and_counted_nowhere(learnt: Watch) -> None:
    seen = learnt.buckets[0].compare(hour_of({"user 7": 90, "stranger": 9}, HISTORY))
    brief = learnt.everyone.brief(HISTORY * HOUR)
    going_on = seen.append_column("is_open", pa.array([True, True]))
    young = Brief(brief.pools, brief.busy, warm_ms=(HISTORY + 1) * HOUR)
    for known_of_all, unjudged in ((brief, 0), (young, 1)):
        scored = score(going_on, known_of_all, rules_on([Unusual("1 hour")], "1 hour"))
        assert "user 7" in scored.candidates["user"].to_pylist()
        assert scored.candidates["is_open"].to_pylist() == [True] * len(scored.candidates)
        assert (len(scored.surprises), scored.unjudged) == (0, 0)
        closed = score(seen, known_of_all, rules_on([Unusual("1 hour")], "1 hour"))
        assert closed.unjudged == unjudged
        assert len(closed.surprises) > 0


def test_tests_are_all_cells_with_history_in_each_window_of_a_day(learnt: Watch) -> None:
    scored, brief = scored_once(learnt, {"user 7": 90}, Unusual("1 hour", 5))
    whole = [row for row in brief.pools.to_pylist() if row["action"] is None][-1]
    (least,) = scored.candidates["least_surprise"].to_pylist()
    assert least == pytest.approx(np.log10(whole["cells"] * 24 / 5))


def test_sums_over_parts_are_looked_at_by_rules_on_them_alone() -> None:
    rules = [Ceiling("1 hour", 5), Ceiling("1 hour", 7, by=["verb"])]
    counts = hour_of({"a": 9, "b": 6}, 0, "read")
    by_verb = counts.cast(with_parts(counts.schema, ("verb",)))
    found = Findings(score(by_verb, None, rules_on(rules, "1 hour", ("verb",))).findings)
    assert [(each.user, each.by) for each in found] == [("a", ("verb",))]
    assert json.loads(found.table["by"][0].as_py()) == ["verb"]
    whole = Findings(score(counts, None, rules_on(rules, "1 hour")).findings)
    assert [(each.user, each.by) for each in whole] == [("a", None), ("b", None)]


def test_of_sessions_it_is_told_when_they_began_and_ended() -> None:
    window, gap = "session 30 minutes", 30 * MINUTE
    counts = counted([(2, "a", "x", 9), (2, "b", "x", 9)], gap)
    began = pa.array([2 * gap + 7, 2 * gap + 8])
    ends = pa.array([2 * gap + 7 + 2 * HOUR, 2 * gap + 8 + MINUTE])
    sessions = counts.append_column("began_ms", began).append_column("end_ms", ends)
    rules: list[Rule] = [Longer(window, "1 hour"), Ceiling(window, 8)]
    scored = score(sessions, None, rules_on(rules, window))
    told = [
        (each.kind, each.user, each.window_start_ms, each.session_end_ms)
        for each in Findings(scored.findings)
    ]
    a, b = zip("ab", began.to_pylist(), ends.to_pylist(), strict=True)
    assert told == [("Longer", *a), ("Ceiling", *a), ("Ceiling", *b)]
    assert scored.findings["first_seen_ms"].to_pylist() == [a[2], a[2], b[2]]
