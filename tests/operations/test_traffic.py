"""Counters of traffic: beside what is drawn and counted one by one, and edits that people made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.capacity import as_counted
from kstoolkit.operations.traffic import zipf

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = (1, 7, 60, 400)


def distinct(rate: float, users: int, exponent: float, actions: int, seconds: int) -> float:
    """Draw events one by one, and count the pairs."""
    draws = np.random.default_rng(users)
    share = np.arange(1, users + 1) ** -float(exponent)
    number = draws.poisson(rate * seconds)
    who = draws.choice(users, number, p=share / share.sum())
    return len(np.unique(who * actions + draws.integers(0, actions, number)))


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 1.4])
@pytest.mark.parametrize("users", [1, 1_000, 60_000])
def test_counters_are_those_that_come_of_events_drawn_one_by_one(
    users: int, exponent: float
) -> None:
    traffic = zipf(2_000, users=users, exponent=exponent, actions=3)
    for seconds in SECONDS:
        drawn = distinct(2_000, users, exponent, 3, seconds)
        chance = 4 * np.sqrt(drawn)
        assert traffic.counters(seconds) == pytest.approx(drawn, rel=0.002, abs=chance)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(1, 1e8), st.floats(1, 1e10), st.floats(0, 3), st.integers(1, 9), st.floats(0.1, 1e6)
)
def test_however_many_there_are_it_holds_what_has_to_hold(
    rate: float, users: float, exponent: float, actions: int, seconds: float
) -> None:
    traffic = zipf(rate, users=users, exponent=exponent, actions=actions)
    assert traffic.rate == pytest.approx(rate)
    assert traffic.counters(seconds) <= min(round(users) * actions, rate * seconds) * 1.000_001
    assert 0 < traffic.changes(seconds) <= 1
    assert traffic.changes(2 * seconds) <= traffic.changes(seconds) * 1.000_001
    assert traffic.at(10 * rate).changes(seconds) == pytest.approx(traffic.changes(seconds))


def test_the_largest_partition_is_that_of_users_put_at_random_and_salt_makes_it_smaller() -> None:
    traffic = zipf(1_000, users=100_000, exponent=1.2)
    share = np.arange(1, 100_001) ** -1.2
    share /= share.sum()
    draws = np.random.default_rng(3)
    loads = [np.bincount(draws.integers(0, 50, len(share)), share).max() for _ in range(50)]
    assert traffic.largest_share(50) == pytest.approx(np.mean(loads), rel=0.05)
    shares = [traffic.largest_share(50, salt=salt) for salt in (1, 4, 16)]
    assert shares == sorted(shares, reverse=True)
    assert traffic.largest_share(1) == pytest.approx(1)


@pytest.mark.parametrize("wrong", [{"users": 0}, {"exponent": -1}, {"actions": 0}])
def test_what_is_no_traffic_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="no traffic"):
        zipf(10, **({"users": 10} | wrong))  # type: ignore[arg-type] # on purpose


@pytest.mark.spark
def test_of_people_it_says_what_other_lengths_come_to(
    wikiticker: Path, tmp_path: Path, spark: object
) -> None:
    """Edits of Wikipedia come in bursts; a run counts minutes and hours, pandas all other lengths.

    How many seconds are added up decides how many counters an event changes.
    """
    assert spark
    source = kst.files(wikiticker, event_time="time", user="user", action="channel")
    run = kst.Pipeline(source=source, rules=[]).run(tmp_path / "out")
    traffic = as_counted(run, rate=1_000).traffic
    edits = pd.read_json(wikiticker, lines=True)
    seconds = (
        pd.to_datetime(edits["time"], utc=True) - pd.Timestamp(0, tz="UTC")
    ).dt.total_seconds()
    for length in (1, 5, 10, 30, 300, 600, 7_200, 21_600, 43_200):
        pairs = edits[["user", "channel"]].assign(window=seconds // length).drop_duplicates()
        assert traffic.changes(length) == pytest.approx(len(pairs) / len(edits), rel=0.04)
