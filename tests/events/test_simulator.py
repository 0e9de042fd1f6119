from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.simulator import (
    _KINDS,
    Simulation,
    _Draws,
    _habits,
    _log,
    _pick,
    _rates,
    simulate,
)

ACCOUNTS = {"low-and-slow", "new-user-flood"}

numbers = st.dictionaries(st.sampled_from(sorted(_KINDS)), st.integers(0, 4))
simulations = st.builds(
    simulate,
    event_count=st.integers(1, 3_000),
    users=st.integers(12, 80),
    duration=st.integers(60_000, 200_000_000),
    start=st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds the zone
    actions=st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5, unique=True),
    seed=st.integers(0, 2**70),
    abnormal=numbers,
)


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    many = dict.fromkeys(_KINDS, 5)
    return simulate(event_count=60_000, users=600, seed=5, abnormal=many)


@pytest.fixture(scope="module")
def events(simulation: Simulation) -> pd.DataFrame:
    frame: pd.DataFrame = simulation.events().to_pandas()
    return frame


@pytest.fixture(scope="module")
def labels(simulation: Simulation) -> pd.DataFrame:
    frame: pd.DataFrame = simulation.labels().to_pandas()
    return frame


@pytest.fixture(scope="module")
def ordinary(events: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    return events[~events.user.isin(labels.user)]


def of_kind(labels: pd.DataFrame, kind: str) -> list[pd.Series[Any]]:
    return [label for _, label in labels[labels.kind == kind].iterrows()]


def inside(events: pd.DataFrame, label: pd.Series[Any]) -> pd.DataFrame:
    own = events[
        (events.user == label.user) & events.time.between(label.since, label.until, "left")
    ]
    done: pd.DataFrame = own if label.action is None else own[own.action == label.action]
    return done


def busiest_minute(events: pd.DataFrame) -> int:
    return int(events.groupby(["user", events.time.dt.floor("min")]).size().max())


@settings(max_examples=60, deadline=None)
@given(simulations)
def test_labels_match_events(simulation: Simulation) -> None:
    events, labels = simulation.events(), simulation.labels()
    wanted = {kind: number for kind, number in simulation.abnormal.items() if number}
    frame = events.to_pandas()
    found = labels.to_pandas()
    assert found.kind.value_counts().to_dict() == wanted
    assert found.user.is_unique
    assert events.num_rows == simulation.event_count + found.extra_events.sum()
    for _, label in found.iterrows():
        there = len(inside(frame, label))
        assert there >= label.extra_events > 0
        if label.kind in ACCOUNTS:
            assert there == label.extra_events == (frame.user == label.user).sum()


@settings(max_examples=60, deadline=None)
@given(simulations)
def test_events_lie_in_the_time_asked_for_and_in_its_order(simulation: Simulation) -> None:
    events = simulation.events()
    times = events["time"].cast(pa.int64()).to_numpy()
    start_ms = (simulation.start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert (np.diff(times) >= 0).all()
    assert times[0] >= start_ms
    assert times[-1] < start_ms + simulation.duration_ms
    assert set(events["action"].to_pylist()) <= set(simulation.actions)
    assert not any(column.null_count for column in events.columns)


def test_a_seed_gives_the_same_events_again(simulation: Simulation) -> None:
    again = simulate(event_count=60_000, users=600, seed=5, abnormal=dict(simulation.abnormal))
    assert again == simulation
    assert again.events().equals(simulation.events())
    assert again.labels().equals(simulation.labels())


def test_another_seed_gives_other_events() -> None:
    one, other = (simulate(event_count=500, users=50, seed=seed) for seed in (1, 2))
    assert not one.events().equals(other.events())
    assert not one.labels().equals(other.labels())


def test_ordinary_events_stay_as_they_are_when_abnormal_ones_are_added() -> None:
    without = simulate(event_count=2_000, users=50, abnormal={}).events().to_pandas()
    added = simulate(event_count=2_000, users=50, abnormal=dict.fromkeys(_KINDS, 2))
    both = without.merge(added.events().to_pandas().drop_duplicates(), how="left", indicator=True)
    assert (both["_merge"] == "both").all()


def test_the_start_may_be_in_any_zone() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    start = datetime(2026, 3, 2, 9, tzinfo=UTC)
    utc, here = (
        simulate(event_count=500, users=50, start=moment)
        for moment in (start, start.astimezone(zone))
    )
    assert here.events().equals(utc.events())


def test_a_few_users_make_most_of_the_events(ordinary: pd.DataFrame) -> None:
    totals = ordinary.groupby("user").size().sort_values(ascending=False)
    assert totals.head(len(totals) // 10).sum() > 0.4 * totals.sum()
    assert totals.mean() > 1.5 * totals.median()


def test_rates_fall_from_user_to_user_and_share_everything_out() -> None:
    shares = _rates(1_000)
    assert (np.diff(shares) < 0).all()
    assert shares.sum() == pytest.approx(1)


def test_days_are_busier_than_nights(ordinary: pd.DataFrame) -> None:
    hourly = ordinary.groupby(ordinary.time.dt.hour).size()
    assert hourly.idxmin() in {0, 1, 2, 3, 4}
    assert hourly.max() > 3 * hourly.min()


def test_users_live_in_more_than_one_zone_and_like_different_actions() -> None:
    drawn = _habits(_Draws(1, "habits"), 1_000, 4)
    assert len(set(drawn.phase.tolist())) > 5
    assert set(drawn.mix.argmax(axis=1).tolist()) == {0, 1, 2, 3}


def test_ordinary_users_are_bursty() -> None:
    start = datetime(2026, 3, 2, tzinfo=UTC)
    events = simulate(event_count=60_000, users=60, start=start, abnormal={}).events().to_pandas()
    hours = pd.crosstab(events.user, (events.time - start) // timedelta(hours=1)).to_numpy()
    one_day, next_day = hours[:, :24], hours[:, 24:]
    # The same hour of two days has the same rhythm; of Poisson counts this ratio would be 1.
    assert ((one_day - next_day) ** 2).sum() > 5 * (one_day + next_day).sum()


def test_a_burst_lasts_minutes_and_no_ordinary_minute_is_like_it(
    events: pd.DataFrame, labels: pd.DataFrame, ordinary: pd.DataFrame
) -> None:
    most = busiest_minute(ordinary)
    for label in of_kind(labels, "burst"):
        assert timedelta(minutes=2) <= label.until - label.since <= timedelta(minutes=5)
        assert busiest_minute(inside(events, label)) > 3 * most
        assert len(events[(events.user == label.user) & (events.time < label.since)]) > 10


def test_a_ramp_grows_over_hours(events: pd.DataFrame, labels: pd.DataFrame) -> None:
    for label in of_kind(labels, "ramp"):
        assert label.until - label.since >= timedelta(hours=6)
        third = (label.until - label.since) / 3
        part = (inside(events, label).time - label.since) // third
        first, second, last = part.value_counts().reindex([0, 1, 2], fill_value=0)
        assert last > 1.3 * second > 1.3 * first


def test_low_and_slow_is_even_and_never_sleeps(events: pd.DataFrame, labels: pd.DataFrame) -> None:
    for label in of_kind(labels, "low-and-slow"):
        own = inside(events, label)
        gaps = own.time.diff().dropna()
        assert own.time.dt.floor("h").nunique() == 48
        assert gaps.max() < 1.25 * gaps.mean()
        assert busiest_minute(own) == 1


def test_a_flood_comes_from_new_accounts_at_about_one_time(
    events: pd.DataFrame, labels: pd.DataFrame
) -> None:
    flood = labels[labels.kind == "new-user-flood"]
    first_seen = events[events.user.isin(flood.user)].groupby("user").time.min()
    assert len(first_seen) == 5
    assert first_seen.max() - first_seen.min() < timedelta(hours=1, minutes=20)
    assert len(set(flood.action)) == 1
    assert (flood.until - flood.since <= timedelta(minutes=20)).all()
    assert (flood.extra_events >= 80).all()


def test_a_shared_account_does_more_at_other_hours_and_other_things(
    events: pd.DataFrame, labels: pd.DataFrame, simulation: Simulation
) -> None:
    for label in of_kind(labels, "shared-account"):
        own = events[events.user == label.user]
        before, after = own[own.time < label.since], own[own.time >= label.since]
        hours = [(label.since - simulation.start), (label.until - label.since)]
        assert len(after) / hours[1].total_seconds() > 4 * len(before) / hours[0].total_seconds()
        assert len(set(after.action)) > 1


def test_names_do_not_tell_who_is_abnormal(events: pd.DataFrame, labels: pd.DataFrame) -> None:
    plain = r"\w+\.\w+"
    assert events.user.str.fullmatch(plain).all()
    assert labels.user.str.fullmatch(plain).all()


def test_a_simulation_names_its_columns_as_a_source_does(simulation: Simulation) -> None:
    names = [simulation.event_time, simulation.user, simulation.action]
    assert names == simulation.events().column_names


def test_a_simulation_travels_to_other_processes_and_can_be_a_key(simulation: Simulation) -> None:
    copy = pickle.loads(pickle.dumps(simulation))  # noqa: S301 - our own bytes
    assert {simulation: "found"}[copy] == "found"


def test_its_repr_is_one_line_of_facts(simulation: Simulation) -> None:
    assert "\n" not in repr(simulation)
    for fact in ("event_count=60000", "users=600", "duration='2 days'", "seed=5", "'burst': 5"):
        assert fact in repr(simulation)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"event_count": 0}, "event_count is 0"),
        ({"users": 0}, "users is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"duration": "1 second"}, "duration_ms is 1000"),
        ({"start": datetime(2026, 3, 2)}, "no time zone"),  # noqa: DTZ001 - that is the mistake
        ({"actions": []}, "no actions"),
        ({"actions": ["view", "view"]}, "no actions"),
        ({"actions": [""]}, "no actions"),
        ({"abnormal": {"bursts": 1}}, "Did you mean 'burst'?"),
        ({"abnormal": {"burst": -1}}, "'burst' is -1"),
        ({"users": 3, "abnormal": {"burst": 2, "ramp": 2}}, "4 of 3 ordinary users"),
    ],
)
def test_what_makes_no_sense_is_said(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        simulate(**wrong)  # type: ignore[arg-type]
    assert says in str(caught.value)


def test_the_first_draws_of_a_seed_are_these_on_every_machine() -> None:
    draws = _Draws(1, "a stream")
    assert draws.uniform(3).tolist() == [
        0.04414358477502023,
        0.6958751373304484,
        0.058328456262432216,
    ]
    assert draws.integers(0, 1000, 3).tolist() == [541, 919, 28]
    assert draws.gamma(2, 2).tolist() == [3.0008605908641512, 1.4395994524505142]
    assert draws.order(6).tolist() == [1, 2, 4, 0, 3, 5]


def test_another_seed_or_another_stream_gives_other_draws() -> None:
    first = _Draws(1, "a").uniform(4).tolist()
    assert first != _Draws(2, "a").uniform(4).tolist()
    assert first != _Draws(1, "b").uniform(4).tolist()


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_the_logarithm_is_the_logarithm(value: float) -> None:
    assert _log(np.array([value]))[0] == pytest.approx(math.log(value), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("shape", [1, 2, 5])
def test_gamma_draws_have_mean_one_and_variance_one_over_the_shape(shape: int) -> None:
    drawn = _Draws(3, "gamma").gamma(shape, 200_000)
    assert drawn.min() > 0
    assert drawn.mean() == pytest.approx(1, abs=0.01)
    assert drawn.var() == pytest.approx(1 / shape, rel=0.03)


def test_an_order_holds_every_number_once() -> None:
    assert sorted(_Draws(3, "order").order(1000).tolist()) == list(range(1000))


def test_choices_follow_the_weights_of_their_row() -> None:
    weights = np.array([[1.0, 3.0], [1.0, 0.0]])
    rows = np.repeat([0, 1], 100_000)
    chosen = _pick(weights, rows, _Draws(3, "choices").uniform(len(rows)))
    assert chosen[:100_000].mean() == pytest.approx(0.75, abs=0.01)
    assert not chosen[100_000:].any()


def test_the_ends_of_a_row_are_inside_it() -> None:
    weights = np.full((3, 7), 0.1)
    rows = np.array([0, 0, 1, 1, 2, 2])
    just_below_one = 1 - 2.0**-53
    chosen = _pick(weights, rows, np.array([0.0, just_below_one] * 3))
    assert chosen.tolist() == [0, 6, 0, 6, 0, 6]
