from __future__ import annotations

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
from kstoolkit.events.simulator import _KINDS, Simulation, simulate
from kstoolkit.events.worlds import MOODS, WORLDS
from kstoolkit.findings.evaluation import ORDINARY

ACCOUNTS = {"low-and-slow", "new-user-flood", "campaign"}

numbers = st.dictionaries(st.sampled_from(sorted(_KINDS)), st.integers(0, 4))
worlds = (
    st.builds(
        lambda mood, others: [mood, *others],
        st.sampled_from(sorted(MOODS)),
        st.sets(st.sampled_from(sorted(WORLDS.keys() - MOODS - {"service"}))),
    )
    | st.none()
)
simulations = st.builds(
    simulate,
    event_count=st.integers(1, 3_000),
    users=st.integers(28, 80),
    duration=st.integers(60_000, 200_000_000),
    start=st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds the zone
    actions=st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5, unique=True),
    seed=st.integers(0, 2**70),
    abnormal=numbers,
    world=worlds,
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
    of_machines = found.kind.isin(ORDINARY)
    assert found[~of_machines].kind.value_counts().to_dict() == wanted
    assert of_machines.any() == ("jobs" in simulation.world)
    assert found.user.is_unique
    assert events.num_rows == simulation.event_count + found.extra_events.sum()
    for _, label in found.iterrows():
        there = len(inside(frame, label))
        assert there >= label.extra_events >= int(label.kind not in ORDINARY)
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


def test_days_are_busier_than_nights(ordinary: pd.DataFrame) -> None:
    hourly = ordinary.groupby(ordinary.time.dt.hour).size()
    assert hourly.idxmin() in {0, 1, 2, 3, 4}
    assert hourly.max() > 3 * hourly.min()


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
        ({"world": "lognorm"}, "Did you mean 'lognormal'?"),
        ({"world": ["mixed", "week", "gamma"]}, "moods can't be both gamma and mixed"),
        ({"users": 3, "abnormal": {"burst": 2, "ramp": 2}}, "4 of 3 ordinary users"),
    ],
)
def test_what_makes_no_sense_is_said(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        simulate(**wrong)  # type: ignore[arg-type]
    assert says in str(caught.value)


def busy_hours(events: pd.DataFrame, label: Any) -> pd.Series:
    """Return how often a label's user did its action in each hour of the simulation."""
    own = events[(events.user == label.user) & (events.action == label.action)]
    hours = pd.date_range(label.first, label.last, freq="h", inclusive="left")
    counts: pd.Series = own.groupby(own.time.dt.floor("h")).size().reindex(hours, fill_value=0)
    return counts


def test_a_busy_hour_is_so_many_times_as_busy_as_the_others() -> None:
    simulation = simulate(
        event_count=40_000,
        users=200,
        duration="8 days",
        world="gamma",
        abnormal={"eightfold-hour": 20, "25-fold-hour": 20},
    )
    events, labels = simulation.events().to_pandas(), simulation.labels().to_pandas()
    labels["first"], labels["last"] = simulation.start, simulation.start + timedelta(days=8)
    times: dict[str, list[float]] = {"eightfold-hour": [], "25-fold-hour": []}
    for label in labels.itertuples():
        hours = busy_hours(events, label)
        times[label.kind].append(hours[label.since] / hours.drop(label.since).mean())
    assert np.median(times["eightfold-hour"]) == pytest.approx(8, rel=0.3)
    assert np.median(times["25-fold-hour"]) == pytest.approx(25, rel=0.3)


def test_who_doubles_and_who_grows_slowly_does_so() -> None:
    simulation = simulate(
        event_count=400_000,
        users=100,
        duration="20 days",
        world="gamma",
        abnormal={"doubled": 10, "slow-ramp": 10},
    )
    events, labels = simulation.events().to_pandas(), simulation.labels().to_pandas()
    ratios: dict[str, list[float]] = {"doubled": [], "slow-ramp": []}
    for label in labels.itertuples():
        own = events[events.user == label.user]
        own = own if label.action is None else own[own.action == label.action]
        days = own.groupby(own.time.dt.floor("D")).size().to_numpy()
        ratios[label.kind].append(days[-3:].mean() / days[:3].mean())
    assert np.mean(ratios["doubled"]) == pytest.approx(2, rel=0.15)
    assert np.mean(ratios["slow-ramp"]) == pytest.approx(1.1**15, rel=0.25)


def test_a_campaign_is_many_new_accounts_in_one_hour() -> None:
    simulation = simulate(event_count=2_000, users=50, world="gamma", abnormal={"campaign": 500})
    events, labels = simulation.events().to_pandas(), simulation.labels().to_pandas()
    of_them = events[events.user.isin(labels.user)]
    assert labels.user.nunique() == 500
    assert of_them.time.dt.floor("h").nunique() == of_them.action.nunique() == 1
    assert of_them.groupby("user").size().max() <= 3


def test_jobs_and_services_are_labelled_and_do_what_they_do() -> None:
    simulation = simulate(
        event_count=2_000,
        users=100,
        duration="4 days",
        world=["gamma", "jobs", "service"],
        abnormal={},
    )
    events, labels = simulation.events().to_pandas(), simulation.labels().to_pandas()
    assert labels.kind.tolist() == ["nightly-job", "nightly-job", "service"]
    for label in labels.itertuples():
        hours = events[events.user == label.user].groupby(events.time.dt.floor("h")).size()
        if label.kind == "service":
            assert len(hours) == 96
            assert hours.mean() == pytest.approx(1_000, rel=0.01)
            continue
        assert len(hours) == 4
        assert len(set(hours.index.hour)) == 1
        assert 80 < hours.min() <= hours.max() < 340
