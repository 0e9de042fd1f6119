"""Incidents: what touches, ids that stay, what grows together, against a plain replay."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.finding import Choice
from kstoolkit.findings.incidents import MERGED, STATES, incidents_of, states_of
from kstoolkit.windows import length_label
from tests.findings.made import UNKNOWN, finding, findings

if TYPE_CHECKING:
    import pyarrow as pa

    from kstoolkit.findings.incidents import Incidents

HOUR = 3_600_000
LIMIT: dict[str, Any] = {
    "rule": "Ceiling 25 per 1 hour",
    "kind": "Ceiling",
    "ceiling": 25,
    **UNKNOWN,
}
FAR = 1 << 50


def told(*batches: list[dict[str, Any]]) -> list[pa.Table]:
    """Return what batches told, each at its own time."""
    return [
        findings(*(finding(**row | {"first_seen_ms": clock}) for row in rows)).table
        for clock, rows in enumerate(batches, start=1)
    ]


def at(hour: int, user: str = "Anna", size: int = 1, **more: Any) -> dict[str, Any]:
    window = {"window": length_label(size * HOUR), "window_ms": size * HOUR}
    return {"user": user, "window_start_ms": hour * HOUR, **window, **more}


def seen(incidents: Incidents) -> list[tuple[str | None, int, int, str, int]]:
    """Return whom each is about, its hours, its state and its findings, the first one first."""
    return [
        (each.user, each.since_ms // HOUR, each.until_ms // HOUR, each.state, len(each.findings))
        for each in sorted(incidents, key=lambda each: (each.since_ms, str(each.user)))
    ]


def test_findings_of_one_user_that_touch_are_one_whatever_their_window_action_and_rule() -> None:
    rows = [
        at(10),
        at(11, action="Talk"),
        at(11, rule="Ceiling 9 per 1 hour", kind="Ceiling", ceiling=9),
        at(0, size=24),
        at(15, user="Bo"),
        at(19, user="Bo"),
        at(23, user="Bo"),
    ]
    found = incidents_of(told(rows), reached_ms=FAR)
    assert seen(found) == [("Anna", 0, 24, "resolved", 4), ("Bo", 15, 24, "resolved", 3)]
    assert seen(incidents_of(told(rows), gap="2 hours", reached_ms=FAR))[1:] == [
        ("Bo", 15, 16, "resolved", 1),
        ("Bo", 19, 24, "resolved", 2),  # a third one within days is none
    ]


def test_an_id_stays_when_it_grows_also_when_what_came_before_is_told_later() -> None:
    first = incidents_of(told([at(10)]), reached_ms=0)
    later = incidents_of(told([at(10)], [at(11)], [at(8), at(9)]), reached_ms=0)
    assert len(later) == 1
    assert later[0].id == first[0].id
    assert (later[0].since_ms, later[0].windows) == (8 * HOUR, 4)
    assert (later[0].opened_ms, later[0].told_ms) == (1, 3)
    assert incidents_of(told([at(8)]), reached_ms=0)[0].id != first[0].id


@pytest.mark.parametrize(
    ("hours", "number"),
    [
        ([2, 26, 50, 74], 1),  # each night
        ([2, 27, 49], 1),  # an hour later, or earlier
        ([2, 74], 1),  # over a weekend
        ([2, 98], 2),  # four days later
        ([2, 14, 26], 1),  # what lies between is of the story
        ([2, 14, 38], 2),  # of two times of day
        ([2, 8], 2),
        ([2, 8, 16], 2),  # who has two gets no third one
        ([2, 8, 81], 2),  # within three days,
        ([2, 8, 82], 3),  # and one more after that
    ],
)
@pytest.mark.parametrize("is_live", [True, False])
def test_what_recurs_at_the_same_time_of_the_next_days_is_one_incident(
    hours: list[int], number: int, *, is_live: bool
) -> None:
    batches = [[at(hour)] for hour in hours] if is_live else [[at(hour) for hour in hours]]
    found = incidents_of(told(*batches), reached_ms=FAR)
    lasting = [each for each in found if each.state != MERGED]
    assert len(lasting) == number
    assert lasting[-1].since_ms == 2 * HOUR
    assert lasting[-1].id == incidents_of(told([at(2)]), reached_ms=0)[0].id
    if is_live:  # others are none of its own
        ids = {each.id for end in range(1, len(hours)) for each in prefix(batches, end)}
        assert ids <= {each.id for each in found}


def prefix(batches: list[list[Any]], end: int) -> Incidents:
    return incidents_of(told(*batches[:end]), reached_ms=FAR)


def test_an_incident_of_each_night_is_over_by_day_and_open_again() -> None:
    def state(*hours: int, now: int) -> str:
        (found,) = incidents_of(told(*([at(hour)] for hour in hours)), reached_ms=now * HOUR)
        return found.state

    assert [state(2, now=5), state(2, now=6)] == ["open", "resolved"]
    assert [state(2, 26, now=29), state(2, 26, now=30)] == ["open", "resolved"]


def test_what_was_of_two_is_merged_where_a_night_before_is_told_late() -> None:
    """What recurs reaches to what was told before, and changes nothing of that."""
    early = told([at(14)], [at(26)])
    late = told([at(14)], [at(26)], [at(2)])
    ids = {each.id for each in incidents_of(early, reached_ms=0)}
    found = incidents_of(late, reached_ms=0)
    assert {each.id for each in found} == ids
    assert [each.state for each in found].count(MERGED) == 1


def test_of_two_that_grow_together_the_older_goes_on_and_the_other_is_merged() -> None:
    apart = told([at(20)], [at(10)])
    old, young = (
        next(e for e in incidents_of(apart, reached_ms=0) if e.since_ms == h * HOUR)
        for h in (20, 10)
    )
    found = incidents_of([*apart, *told([], [], [at(13), at(16)])], reached_ms=0)
    assert seen(found) == [("Anna", 10, 11, MERGED, 1), ("Anna", 10, 21, "open", 4)]
    merged = next(each for each in found if each.state == MERGED)
    assert (merged.id, merged.merged_into) == (young.id, old.id)
    assert {each.id for each in found} == {old.id, young.id}


def test_what_grew_together_is_there_beside_any_number_of_others() -> None:
    for others in range(8):
        rows = [[at(0, user=f"A{number}") for number in range(others)]]
        rows += [[at(hour, user="Bo")] for hour in (0, 8, 4)]
        found = [each for each in incidents_of(told(*rows), reached_ms=FAR) if each.state != MERGED]
        assert sum(len(each.findings) for each in found) == others + 3


def test_it_is_resolved_by_what_has_come_since_or_by_the_clock_where_nothing_comes() -> None:
    tables = told([at(10)])

    def state(**given: int) -> str:
        return incidents_of(tables, **given)[0].state  # type: ignore[arg-type]

    assert state(reached_ms=14 * HOUR - 1) == "open"
    assert state(reached_ms=14 * HOUR) == "resolved"
    assert state(reached_ms=0, clock_ms=14 * HOUR - 1) == "open"
    assert state(reached_ms=0, clock_ms=14 * HOUR) == "resolved"


def test_what_is_found_no_more_is_no_evidence_and_still_keeps_the_id() -> None:
    gone = at(10, log10_probability=0.0)
    before = incidents_of(told([at(10)], [at(11)]), reached_ms=0)[0]
    after = incidents_of(told([at(10)], [at(11)], [gone]), reached_ms=0)[0]
    assert after.id == before.id
    assert (len(after.findings), after.since_ms) == (1, 11 * HOUR)
    assert len(incidents_of(told([at(10)], [gone]), reached_ms=0)) == 0


def test_what_lasts_counts_from_when_it_began() -> None:
    drift = at(20, rule="Drift 1 hour", kind="Drift", since_ms=12 * HOUR)
    assert len(incidents_of(told([at(10), drift]), reached_ms=0)) == 1


def test_excess_counts_no_event_twice_and_the_sentence_tells_it() -> None:
    rows = [
        at(10, count=30, expected_high=10),
        at(11, count=20, expected_high=10),
        at(10, count=30, **LIMIT),
        at(0, size=24, count=50, expected_high=45),
    ]
    (incident,) = incidents_of(told(rows), reached_ms=0)
    assert incident.excess == 30
    assert "stood out in 3 windows" in incident.sentence
    assert "30 more than expected" in incident.sentence
    assert incident.sentence.count("Anna") == 1
    assert incident.certainty == "sure"


@pytest.mark.parametrize(
    ("chances", "grade"), [([-5.0], "hint"), ([-6.5], "likely"), ([-9.0], "sure")]
)
def test_certainty_follows_the_least_probable_finding(chances: list[float], grade: str) -> None:
    rows = [at(n, log10_probability=chance) for n, chance in enumerate(chances)]
    assert incidents_of(told(rows), reached_ms=0)[0].certainty == grade


def test_a_campaign_is_of_its_action_and_of_no_user() -> None:
    crowd: dict[str, Any] = {"kind": "Campaign", "rule": "Campaign 1 hour", "user": "(newcomers)"}
    rows = [at(10, **crowd), at(10, **crowd | {"action": "Talk"}), at(10, user="(newcomers)")]
    found = incidents_of(told(rows), reached_ms=0)
    assert sorted(str(each.user) for each in found) == ["(newcomers)", "None", "None"]
    assert all("did" in each.sentence for each in found)


def test_they_are_chosen_by_user_action_time_state_and_id() -> None:
    rows = [at(10), at(30), at(10, user="Bo", action="Talk")]
    found = incidents_of(told(rows), reached_ms=15 * HOUR)
    assert len(found.of(Choice(user="Anna"))) == 2
    assert len(found.of(Choice(action="Talk"))) == 1
    assert len(found.of(Choice(since_ms=12 * HOUR))) == 1
    assert seen(found.of(Choice(), "open")) == [("Anna", 30, 31, "open", 1)]
    assert found.named(found[0].id[:6]).id == found[0].id
    with pytest.raises(ConfigurationError, match="There is no state 'opn'"):
        found.of(Choice(), "opn")
    with pytest.raises(ConfigurationError, match="No incidents are called 'x'"):
        found.named("x")
    frame = found.to_pandas()
    assert list(frame["id"]) == [each.id for each in found]
    assert str(frame["since"].dtype) == "datetime64[ms, UTC]"


def plainly(batches: list[list[int]], gap: int) -> set[tuple[int, frozenset[int]]]:
    """Return which hour opened each incident that lasts, and its hours: one by one, slowly."""
    now: list[tuple[int, set[int], int, int]] = []  # with its span: first and last hour
    told: set[int] = set()
    for hours in batches:
        new, told = set(hours) - told, told | set(hours)
        parts: list[tuple[set[int], int, int]] = []
        for low, high, hour in sorted((*reach(hour, told), hour) for hour in new):
            if parts and low - parts[-1][2] - 1 <= gap:
                same, first, last = parts.pop()
                parts.append((same | {hour}, first, max(last, high)))
            else:
                parts.append(({hour}, low, high))
        for part, low, high in parts:
            away = {each[0]: max(each[2] - high, low - each[3]) - 1 for each in now}
            near = [each for each in now if away[each[0]] <= gap]
            days = [each for each in now if away[each[0]] <= 72]
            if not near and len(days) > 1:  # a third one is none: the nearer takes it, or the older
                near = sorted(days, key=lambda each: away[each[0]])[:1]
            first, last = (
                min(low, *(each[2] for each in near), low),
                max(high, *(each[3] for each in near), high),
            )
            opened = near[0][0] if near else opener(part, told)
            hours_of = part.union(*(each[1] for each in near))
            place = now.index(near[0]) if near else len(now)
            now = [each for each in now if each not in near]
            now.insert(place, (opened, hours_of, first, last))
    return {(opened, frozenset(hours)) for opened, hours, *_ in now}


def reach(hour: int, told: set[int]) -> tuple[int, int]:
    """Return from which hour to which it reaches: what recurs, to where it was, or will be."""
    same = {other for other in told if (abs(other - hour) + 1) % 24 <= 2 < abs(other - hour) < 74}
    return min(same | {hour}), max(same | {hour})


def opener(part: set[int], told: set[int]) -> int:
    """Return which of those that are told at once has the name: the one that reaches back most."""
    return min(part, key=lambda hour: (reach(hour, told)[0], hour))


@cache
def ids_of_hours() -> dict[int, str]:
    """Return the name that an incident has of each hour that it may be opened by."""
    return {hour: incidents_of(told([at(hour)]), reached_ms=0)[0].id for hour in range(241)}


@given(
    st.lists(st.lists(st.integers(0, 240), max_size=4), min_size=1, max_size=6), st.integers(1, 4)
)
def test_ids_and_hours_are_those_of_a_plain_replay(batches: list[list[int]], gap: int) -> None:
    tables = told(*([at(hour) for hour in hours] for hours in batches))
    found = incidents_of(tables, gap=f"{gap} hours", reached_ms=50 * HOUR)
    states = found.table["state"].to_pylist()
    of_each = states_of(tables, gap=f"{gap} hours", reached_ms=50 * HOUR)
    assert of_each == {state: states.count(state) for state in STATES}
    names = ids_of_hours()
    lasting = {
        (each.id, frozenset(int(row.window_start_ms) // HOUR for row in each.findings))
        for each in found
        if each.state != MERGED
    }
    assert lasting == {(names[opened], hours) for opened, hours in plainly(batches, gap)}
