"""What no single count shows, judged by scipy's laws and by sums made one event at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.calibration import Everyone
from kstoolkit.findings.lasting import RISING, Rise, Watch, evenness
from kstoolkit.findings.rulefiles import rules_from_json, rules_to_json
from kstoolkit.findings.rules import of_parts, rules_on
from kstoolkit.findings.stories import find_in_windows
from tests.findings.made import DAY, HOUR, counted, hourly

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kstoolkit.findings.finding import Findings
    from kstoolkit.findings.rules import Rule

ALL = Watch(2.0, evenness=True, newcomers=True)


def found(counts: np.ndarray[tuple[int, int], np.dtype[np.int64]], *rules: Rule) -> Findings:
    return find_in_windows({"1 hour": hourly(counts)}, rules)


@given(st.lists(st.integers(0, 60), min_size=24, max_size=24).filter(lambda x: sum(x) >= 24))
def test_evenness_is_the_lower_tail_of_chi_squared(counts: list[int]) -> None:
    x = np.array(counts, np.float64)
    told = evenness(np.array([x.sum()]), np.array([(x * x).sum()]))[0]
    spread = ((x - x.mean()) ** 2).sum() / x.mean()
    right = -scipy.stats.chi2.logcdf(max(spread, 2e-12), 23) / math.log(10)
    assert told == pytest.approx(right, rel=1e-8, abs=1e-9)


def test_below_one_a_window_nothing_is_even() -> None:
    assert evenness(np.array([23.0, 24.0]), np.array([23.0, 24.0])).round().tolist()[0] == 0


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=40),
    st.floats(0.2, 10),
    st.floats(0.05, 3),
    st.sampled_from([1.5, 2.0, 4.0]),
)
def test_evidence_is_the_sum_of_likelihood_ratios_that_never_falls_below_none(
    counts: list[int], mean: float, dispersion: float, factor: float
) -> None:
    rise, right, quiet = Rise(*np.zeros((3, 1))), 0.0, 0
    for hour, count in enumerate(counts):
        held = min(count, 3 * factor * mean + 3)
        right = min(max(right + likelihood_ratio(held, mean, dispersion, factor), 0), 60)
        if not count and hour < len(counts) - 1:  # empty windows are seen by the next one alone
            quiet += 1
            continue
        past = np.array([quiet]), np.array([mean]), np.array([dispersion])
        rise, quiet = rise.after(np.array([count]), hour, past, factor=factor), 0
    assert rise.evidence[0] == pytest.approx(right, rel=1e-9, abs=1e-9)


def likelihood_ratio(count: float, mean: float, dispersion: float, factor: float) -> float:
    """ln P(count | risen) - ln P(count | as usual); scipy knows whole numbers, which is linear."""
    r, whole = 1 / dispersion, math.floor(count)
    laws = [scipy.stats.nbinom(r, r / (r + m)) for m in (factor * mean, mean)]
    at, above = (laws[0].logpmf(n) - laws[1].logpmf(n) for n in (whole, whole + 1))
    return float(at + (count - whole) * (above - at))


def test_who_does_twice_as_much_from_an_hour_on_is_found_once_with_since_when() -> None:
    draw = np.random.default_rng(3)
    counts = draw.poisson(6, (300, 200))
    counts[7, 120:] = draw.poisson(12, 80)
    told = found(counts, kst.Drift("1 hour"))
    (mine,) = [each for each in told if each.user == "user 7"]
    assert 116 <= (mine.since_ms or 0) // HOUR <= 122
    assert 120 <= mine.window_start_ms // HOUR <= 130
    assert (mine.expected_low or 0) <= 6 <= (mine.expected_high or 0)
    assert len(told) <= 1 + 8 * 5


@pytest.mark.parametrize("budget", [0.5, 5, 50, 500])
def test_a_rise_of_the_only_user_is_found_however_large_the_budget_is(budget: float) -> None:
    counts = np.array([[1, 0, 2] * 20 + [8] * 30])
    told = found(counts, kst.Drift("1 hour", false_alarms_per_day=budget))
    assert len(told) == 1
    assert 58 <= (told[0].since_ms or 0) // HOUR <= 61


def test_false_alarms_of_drift_keep_their_budget_where_no_law_of_ours_holds() -> None:
    draw = np.random.default_rng(4)
    mean = draw.lognormal(0.5, 1, (1_000, 1)) * draw.lognormal(-0.32, 0.8, (1_000, 240))
    told = found(draw.poisson(mean), kst.Drift("1 hour", false_alarms_per_day=3))
    assert 1 <= len(told) <= 3 * 10 * 1.3


def test_an_even_machine_is_found_at_its_24th_hour_and_no_person_is() -> None:
    draw = np.random.default_rng(5)
    people = draw.poisson(5 * draw.gamma(2, 0.5, (2_000, 72)))
    people[0] = 9 + np.arange(72) % 2
    told = found(people, kst.TooEven("1 hour"))
    assert [(each.user, each.window_start_ms // HOUR) for each in told] == [
        ("user 0", 23 + 24 * day) for day in range(3)
    ]
    assert told[0].since_ms == 0
    assert "as evenly in each hour since" in told[0].sentence


def campaign(at: int, *rules: Rule) -> Findings:
    """Five are new in each hour, and at some hour 200."""
    rows = [(0, f"old {n}", "x", 3) for n in range(500)]
    rows += [(hour, f"new {hour} {n}", "x", 1) for hour in range(1, 80) for n in range(5)]
    rows += [(at, f"crowd {n}", "x", 1) for n in range(200)]
    return find_in_windows({"1 hour": counted(rows)}, rules)


def test_a_campaign_is_found_in_its_hour() -> None:
    (told,) = campaign(70, kst.Campaign("1 hour"))
    assert (told.user, told.action, told.count) == ("(newcomers)", "x", 205)
    assert told.window_start_ms == 70 * HOUR
    assert told.sentence.startswith("205 users did “x” for the first time between 22:00 and 23:00")


def test_newcomers_of_the_first_day_and_exempted_ones_are_no_campaign() -> None:
    assert not campaign(12, kst.Campaign("1 hour"))
    assert not campaign(70, kst.Campaign("1 hour"), kst.Exempt(pattern="crowd.*"))


def test_a_finding_of_newcomers_tells_all_labels_that_begin_in_its_window() -> None:
    told = campaign(70, kst.Campaign("1 hour"))
    since = [f"1970-01-03T22:0{n}:00Z" for n in range(3)] + ["1970-01-03T20:00:00Z"]
    labels = {"user": [f"crowd {n}" for n in range(4)], "since": since}
    labels |= {"action": ["x", "x", "y", "x"], "kind": ["campaign"] * 4}
    (kind,) = kst.evaluate(told, pa.table(labels)).kinds
    assert kind.found == 2


def test_what_is_watched_survives_as_bytes_and_costs_nothing_where_it_is_not() -> None:
    draw = np.random.default_rng(6)
    counts = hourly(draw.poisson(4, (50, 120)))
    early = counts.filter(np.asarray(counts["window_start_ms"]) < 60 * HOUR)
    late = counts.filter(np.asarray(counts["window_start_ms"]) >= 60 * HOUR)
    whole, parted = (Baselines.empty(HOUR, watch=ALL) for _ in range(2))
    first = parted.close(early, 60 * HOUR)
    parted = Baselines.decode(parted.encode(), ALL)
    second = parted.close(late, 120 * HOUR)
    told = whole.close(counts, 120 * HOUR)
    both = [*first.lasting.to_pylist(), *second.lasting.to_pylist()]
    assert both == told.lasting.to_pylist()
    assert any(row["history"] == RISING for row in both)
    plain = Baselines.empty(HOUR)
    plain.close(counts, 120 * HOUR)
    assert plain.cells.watched.nbytes == 0
    assert "rise" not in plain.cells.to_table().column_names


def test_what_is_known_of_all_survives_as_bytes() -> None:
    rows = [(hour, f"{hour} {n}", "x", 1) for hour in range(60) for n in range(1 + hour % 3)]
    closed = Baselines.empty(HOUR, watch=ALL).close(counted(rows), 60 * HOUR)
    everyone = Everyone(HOUR)
    everyone.add([closed.moments], [closed.facts], [closed.lasting], [closed.newcomers])
    rules, window = of_parts([kst.Campaign("1 hour", 100)], ["action"]), kst.Cascade("1 hour")
    on = rules_on(rules, window.levels[0])
    everyone.watched(on, 40 * HOUR)
    again = Everyone.decode(everyone.encode())
    assert again.arrived == everyone.arrived != b""
    assert again.newcomers.equals(everyone.newcomers)
    assert len(again.newcomers) == 20
    (one,), (other,) = (e.watched(on, DAY * 9) for e in (again, everyone))
    assert one.candidates.equals(other.candidates)


LEARNING = (kst.Unusual("1 hour"), kst.Drift("1 hour"), kst.TooEven("1 hour"))


def test_a_budget_is_shared_by_the_rules_that_learn() -> None:
    shared = of_parts([kst.Budget(6), kst.Ceiling("1 hour", 9), *LEARNING], ["action"])
    assert [rule.name.rpartition(", ")[2] for rule in shared[1:]] == ["2 false alarms a day"] * 3
    alone = of_parts(LEARNING, ["action"])
    assert [rule.name.rpartition(", ")[2] for rule in alone] == ["5 false alarms a day"] * 3


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([kst.Budget(5), kst.Unusual("1 hour", 2)], "Beside Budget of 5.*Unusual 1 hour, 2 false"),
        ([kst.Budget(5), kst.Budget(2)], "Beside Budget of 5.*Budget of 2"),
        ([kst.Drift("1 hour"), kst.Drift("1 hour", 3)], "Two rules Drift look at 1 hour"),
        ([kst.Budget(5)], "No rule shares the Budget of 5"),
        ([kst.Budget(5), kst.Ceiling("1 hour", 9)], "No rule shares the Budget of 5"),
        ([kst.Ceiling("1 hour", 9)] * 2, "'Ceiling 9 per 1 hour' is there twice"),
        ([kst.Budget(5), *[kst.TooEven("1 hour")] * 2], "'TooEven 1 hour, 2.5 .*' is there twice"),
    ],
)
def test_rules_that_can_not_be_together_are_refused(rules: Sequence[Rule], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        of_parts(rules, ["action"])


@pytest.mark.parametrize("kind", [kst.Drift, kst.TooEven, kst.Campaign])
@pytest.mark.parametrize("window", ["session 30 minutes", "1 hour every 20 minutes"])
def test_windows_that_do_not_follow_each_other_are_refused(kind: type, window: str) -> None:
    with pytest.raises(ConfigurationError, match="windows that follow each other"):
        kind(window)


@pytest.mark.parametrize("factor", [1, 0.5, -2, "2"])
def test_a_drift_is_upward(factor: float) -> None:
    with pytest.raises(ConfigurationError, match="factor"):
        kst.Drift("1 hour", factor)


def test_files_hold_the_rules_that_watch(tmp_path: Path) -> None:
    text = (
        'kind = "Budget"\nfalse_alarms_per_day = 4\n[[rule]]\nkind = "Drift"\nwindow = "1 hour"\n'
    )
    text += 'factor = 3\nby = []\n[[rule]]\nkind = "TooEven"\nwindow = "1 hour"\n'
    text += '[[rule]]\nkind = "Campaign"\nwindow = "1 day"\n'
    (tmp_path / "rules.toml").write_text(f"[[rule]]\n{text}", encoding="utf-8")
    rules = kst.load_rules(tmp_path / "rules.toml")
    right = (kst.Budget(4), kst.Drift("1 hour", 3, by=[]), kst.TooEven("1 hour"))
    assert rules == (*right, kst.Campaign("1 day"))
    assert rules_from_json(rules_to_json(rules)) == rules
