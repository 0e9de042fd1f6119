from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings
from kstoolkit.findings.peers import pool_moments
from kstoolkit.findings.rules import Ceiling, Exempt, Unusual
from kstoolkit.findings.scoring import score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.findings.rules import Rule

HOUR = 3_600_000
HISTORY = 24


def hour_of(counts: dict[str, int], hour: int, action: str = "x") -> pa.Table:
    users = [user for user, count in counts.items() if count]
    return pa.table(
        {
            "window_start_ms": np.full(len(users), hour * HOUR),
            "user": pa.array(users, pa.string()).dictionary_encode(),
            "action": pa.array([action] * len(users), pa.string()).dictionary_encode(),
            "old": np.zeros(len(users), np.int64),
            "count": np.array([counts[user] for user in users], np.int64),
        }
    )


def draws(users: int, hours: int, seed: int = 5) -> NDArray[np.int64]:
    random = np.random.default_rng(seed)
    rate = random.gamma(2, 1, (users, 1))
    return random.poisson(rate * random.gamma(2, 0.5, (users, hours)))


def people(counts: NDArray[np.int64], hour: int) -> dict[str, int]:
    return {f"user {user}": int(count) for user, count in enumerate(counts[:, hour])}


def known(value: float | None) -> float:
    assert value is not None
    return value


@pytest.fixture
def learnt() -> Baselines:
    counts = draws(300, HISTORY)
    baselines = Baselines.empty(HOUR)
    for hour in range(HISTORY):
        baselines.observe(hour_of(people(counts, hour), hour))
    return baselines


def found(
    baselines: Baselines, counts: dict[str, int], rules: list[Rule], hour: int = HISTORY
) -> Findings:
    seen = baselines.observe(hour_of(counts, hour))
    moments = pool_moments([seen.moments])
    return Findings(score(seen.material, moments, rules, "1 hour", seen_ms=77))


def test_a_count_far_above_ones_own_history_is_a_finding(learnt: Baselines) -> None:
    finding = found(learnt, {"user 7": 90, "user 8": 2}, [Unusual("1 hour")])[0]
    assert (finding.user, finding.count, finding.first_seen_ms) == ("user 7", 90, 77)
    assert known(finding.expected_low) <= known(finding.expected_high) < 30
    assert known(finding.baseline_windows) >= 12
    assert 250 <= known(finding.peers) <= 300
    assert known(finding.probability) < 1e-6


def test_a_large_count_by_a_newcomer_is_judged_against_peers(learnt: Baselines) -> None:
    finding = found(learnt, {"stranger": 200}, [Unusual("1 hour")])[0]
    assert finding.baseline_windows == 0
    assert "no history of its own" in finding.sentence


def test_a_probability_too_small_for_a_float_still_ranks(learnt: Baselines) -> None:
    findings = found(learnt, {"user 7": 10**9, "user 8": 10**10}, [Unusual("1 hour")])
    assert [f.probability for f in findings] == [0.0, 0.0]
    least = min(known(f.log10_probability) for f in findings)
    assert findings.top(1)[0].log10_probability == least


def test_false_alarms_stay_within_the_budget() -> None:
    counts = draws(2_000, 72, seed=9)
    baselines, alarms = Baselines.empty(HOUR), []
    for hour in range(72):
        hourly = found(baselines, people(counts, hour), [Unusual("1 hour", 5)], hour)
        alarms += [hour // 24] * len(hourly)
    first_day = alarms.count(0)
    assert len(alarms) - first_day <= 2 * 5 + 3 * np.sqrt(2 * 5)
    # On the first day peers have little history, and everyone is a newcomer.
    assert first_day <= 3 * 5


def test_a_larger_budget_finds_no_less() -> None:
    counts = {f"user {user}": 5 + user // 10 for user in range(300)}
    sizes = []
    for budget in (0.001, 1, 1000):
        baselines = Baselines.empty(HOUR)
        for hour, row in enumerate(draws(300, HISTORY).T):
            baselines.observe(hour_of(people(row[:, None], 0), hour))
        sizes.append(len(found(baselines, counts, [Unusual("1 hour", budget)])))
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


def test_counts_below_the_minimum_are_never_unusual(learnt: Baselines) -> None:
    assert not found(learnt, {"user 7": 90}, [Unusual("1 hour", min_count=91)])


def test_without_peers_there_is_no_statistical_finding() -> None:
    assert not found(Baselines.empty(HOUR), {"a": 10**6}, [Unusual("1 hour")])


def test_a_ceiling_needs_no_baseline() -> None:
    findings = found(Baselines.empty(HOUR), {"a": 101, "b": 100}, [Ceiling("1 hour", 100)])
    assert [(f.user, f.ceiling, f.probability) for f in findings] == [("a", 100, None)]
    assert findings[0].expected == "unknown (no baseline)"


def test_a_ceiling_beside_a_baseline_tells_what_was_expected(learnt: Baselines) -> None:
    findings = found(learnt, {"user 7": 101}, [Ceiling("1 hour", 100), Unusual("1 hour")])
    assert [f.kind for f in findings] == ["Ceiling", "Unusual"]
    assert findings[0].expected_high == findings[1].expected_high


def test_a_ceiling_on_some_actions_leaves_others_alone() -> None:
    material = pa.concat_tables([hour_of({"a": 9}, 0, "login"), hour_of({"b": 9}, 0, "read")])
    findings = score(material, None, [Ceiling("1 hour", 5, actions=["login"])], "1 hour")
    assert findings["user"].to_pylist() == ["a"]


def test_exempt_users_are_never_found(learnt: Baselines) -> None:
    rules: list[Rule] = [Unusual("1 hour"), Ceiling("1 hour", 50), Exempt(pattern="user [78]")]
    assert not found(learnt, {"user 7": 90, "user 8": 90}, rules)


def test_rules_on_other_windows_are_passed_over() -> None:
    assert not found(Baselines.empty(HOUR), {"a": 101}, [Ceiling("1 minute", 100)])


def test_no_counts_give_no_findings(learnt: Baselines) -> None:
    assert not found(learnt, {}, [Unusual("1 hour"), Ceiling("1 hour", 3)])


def test_findings_have_the_stored_schema(learnt: Baselines) -> None:
    table = found(learnt, {"user 7": 90}, [Unusual("1 hour"), Ceiling("1 hour", 50)]).table
    assert table.schema == FINDINGS_SCHEMA
    table.validate(full=True)


def test_by_default_a_finding_is_first_seen_at_its_windows_end() -> None:
    findings = score(hour_of({"a": 9}, 3), None, [Ceiling("1 hour", 5)], "1 hour")
    assert findings["first_seen_ms"].to_pylist() == [4 * HOUR]


def test_scoring_the_same_again_says_the_same(learnt: Baselines) -> None:
    block = learnt.encode()
    once = found(Baselines.decode(block), {"user 7": 90}, [Unusual("1 hour")])
    again = found(Baselines.decode(block), {"user 7": 90}, [Unusual("1 hour")])
    assert once.table.equals(again.table)
