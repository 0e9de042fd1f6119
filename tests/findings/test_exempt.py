"""Exemptions with an end, or from some rules: what is found, and what others are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import kstoolkit as kst
from kstoolkit.findings.finding import KEY
from kstoolkit.findings.stories import find_in_windows

if TYPE_CHECKING:
    from kstoolkit.findings.rules import Rule

HOUR = 3_600_000
BUSY, UNTIL = "user 0", 60


@pytest.fixture(scope="module")
def counts() -> pa.Table:
    """Counts of 60 users in 96 hours: one does a hundred times as much in every tenth."""
    draws = np.random.default_rng(7)
    hour, user = (each.ravel() for each in np.meshgrid(np.arange(96), np.arange(60)))
    count = draws.poisson(2, len(hour)) + np.where((user == 0) & (hour % 10 == 5), 200, 0)
    count += np.where((user == 1) & (hour == 70), 60, 0)
    there = count > 0
    return pa.table(
        {
            "window_start_ms": hour[there] * HOUR,
            "user": [f"user {each}" for each in user[there]],
            "action": ["x"] * int(there.sum()),
            "count": count[there],
        }
    )


def found(counts: pa.Table, *rules: Rule) -> set[tuple[object, ...]]:
    told = find_in_windows({"1 hour": counts}, rules).table.select([*KEY, "expected_high"])
    return {tuple(row.values()) for row in told.to_pylist()}


def of(told: set[tuple[object, ...]], user: str) -> set[tuple[object, ...]]:
    return {row for row in told if row[1] == user}


UNUSUAL, CEILING = kst.Unusual("1 hour"), kst.Ceiling("1 hour", 50)


def test_until_then_a_user_is_neither_found_nor_learnt_from(counts: pa.Table) -> None:
    exempt = kst.Exempt([BUSY], until=UNTIL * HOUR)
    told = found(counts, UNUSUAL, CEILING, exempt)
    later = [
        row
        for row in counts.to_pylist()
        if row["user"] != BUSY or row["window_start_ms"] >= UNTIL * HOUR
    ]
    assert told == found(pa.Table.from_pylist(later), UNUSUAL, CEILING)
    assert {int(str(row[4])) // HOUR for row in of(told, BUSY)} == {65, 75, 85, 95}
    assert found(counts, UNUSUAL, CEILING) != told


def test_from_one_rule_a_user_is_exempt_and_others_go_on(counts: pa.Table) -> None:
    both = found(counts, UNUSUAL, CEILING)
    told = found(counts, UNUSUAL, CEILING, kst.Exempt([BUSY], rules=["Ceiling"]))
    assert told == {row for row in both if row[1] != BUSY or str(row[0]).startswith("Unusual")}
    assert of(told, BUSY) != of(both, BUSY)
    assert of(told, BUSY)


def test_from_each_rule_that_looks_is_from_all_of_them(counts: pa.Table) -> None:
    one_by_one = kst.Exempt([BUSY], rules=["Ceiling", "Unusual 1 hour"])
    assert found(counts, UNUSUAL, CEILING, one_by_one) == found(
        counts, UNUSUAL, CEILING, kst.Exempt([BUSY])
    )
    others = counts.filter(pa.array([user != BUSY for user in counts["user"].to_pylist()]))
    assert found(counts, UNUSUAL, CEILING, one_by_one) == found(others, UNUSUAL, CEILING)


def test_a_pattern_has_an_end_too(counts: pa.Table) -> None:
    told = found(counts, CEILING, kst.Exempt(pattern="user 0", until=UNTIL * HOUR))
    assert {int(str(row[4])) // HOUR for row in of(told, BUSY)} == {65, 75, 85, 95}
