"""Incidents as parts of a view, held against what the incidents themselves tell."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kstoolkit.findings.incidents import CERTAINTIES, Incidents, incidents_of
from kstoolkit.views.findings import People, strips
from tests.changelog.changelogs import HOUR, MINUTE
from tests.findings.made import finding, findings
from tests.plots.made import HOSTILE, TEN, found, made_run

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.views.parts import Part


def some(seed: int, number: int = 300) -> Incidents:
    random = np.random.default_rng(seed)
    made = [
        finding(
            user=f"user {random.integers(40)}",
            action=str(random.choice(["read", "write", "a, b"])),
            window_start_ms=TEN + int(random.integers(400)) * HOUR,
            count=int(random.integers(1, 900)),
            log10_probability=-float(random.uniform(2, 30)),
        )
        for _ in range(number)
    ]
    table = findings(*made).table
    return incidents_of([table], reached_ms=TEN + 200 * HOUR)


def texts(part: Part, label: str) -> list[str]:
    (column,) = (each for each in part["columns"] if each["label"] == label)
    return [column["words"][code] for code in column["codes"]]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_row_tells_what_its_users_incidents_tell(seed: int) -> None:
    incidents = some(seed)
    people = People(incidents)
    part = json.loads(json.dumps(people.table()))
    assert sorted(texts(part, "user")) == sorted({each.who for each in incidents})
    spans = part["columns"][2]
    for row, who in enumerate(texts(part, "user")):
        own = [each for each in incidents if each.who == who]
        at = slice(spans["firsts"][row], spans["firsts"][row + 1])
        drawn = Counter(
            (spans["span"][0] + start * MINUTE, count, spans["whats"][what])
            for start, count, what in zip(
                spans["starts"][at], spans["counts"][at], spans["what"][at], strict=True
            )
        )
        told = [(f.window_start_ms, f.count, f.what) for each in own for f in each.findings]
        assert drawn == Counter(told)
        assert part["columns"][4]["values"][row] == sum(each.windows for each in own)
        assert texts(part, "certainty")[row] == min(
            (each.certainty for each in own), key=CERTAINTIES.index
        )
        assert set(texts(part, "actions")[row].split(", ")) == {
            word for each in own for action in each.actions for word in action.split(", ")
        }
        assert texts(part, "state")[row] == (
            "open" if any(each.state == "open" for each in own) else own[0].state
        )
        assert {each.id for each in people.of(row)} == {each.id for each in own}


def test_a_campaign_is_no_user_of_that_name() -> None:
    campaign = finding(user="", kind="Campaign", action="join", count=40)
    of_it = incidents_of([findings(campaign).table], reached_ms=TEN)[0].who
    user = finding(user=of_it, window_start_ms=TEN + 90 * HOUR)
    both = People(incidents_of([findings(campaign, user).table], reached_ms=TEN))
    assert len(both) == 2
    assert both.names == [of_it, of_it]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_sent_with_what_can_not_be_seen(name: str) -> None:
    told = findings(finding(user=name, action=name))
    part = People(incidents_of([told.table], reached_ms=TEN)).table()
    for text in (texts(part, "user")[0], texts(part, "actions")[0], part["columns"][2]["whats"][0]):
        assert text.isprintable()
        assert len(text) < 250


def test_strips_have_each_window_of_the_history_and_its_limits(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out", findings=[found()])
    (incident,) = run.incidents()
    history = run.story(incident.peak)
    part = json.loads(json.dumps(strips(history, incident)))
    for strip, level in zip(part["strips"], history.levels, strict=True):
        starts = [strip["origin"] + units * strip["unit"] for units in strip["starts"]]
        assert starts == level.times_ms.tolist()
        assert strip["counts"] == level.counts.tolist()
        flagged = [starts[at] for at in strip["flagged"]]
        assert flagged == level.flagged_ms.tolist()
        assert (strip["low"], strip["high"]) == (level.expected_low, level.expected_high)
        assert strip["at"] == (level.expected_at_ms and list(level.expected_at_ms))
    assert part["strips"][1]["said"] == ["expected 2–14"]  # noqa: RUF001


def test_of_very_many_windows_those_around_the_incident_are_sent(tmp_path: Path) -> None:
    minutes = {(TEN + n * MINUTE, "Anna", "read"): 1 for n in range(-9_000, 4_000)}
    hours = {(TEN + n * HOUR, "Anna", "read"): 60 for n in range(-150, 67)}
    run = made_run(tmp_path / "out", counts={MINUTE: minutes, HOUR: hours}, findings=[found()])
    (incident,) = run.incidents()
    part = strips(run.story(incident.peak), incident)
    minute, hour, _ = part["strips"]
    assert len(minute["starts"]) <= 5_002
    begin, end = (minute["origin"] + at * MINUTE for at in (0, minute["starts"][-1]))
    assert begin < TEN - 40 * HOUR < TEN + 40 * HOUR < end, "as far on both sides"
    starts = [hour["origin"] + at * HOUR for at in hour["starts"]]
    assert starts[0] - HOUR < begin < starts[0] + HOUR, "no level says that there is nothing"
    assert len(hour["starts"]) == len(hour["counts"]) < 217
    assert [starts[at] for at in hour["flagged"]] == [TEN]
    assert part["all"] == "All that is here"


def test_numbers_beyond_what_a_browser_holds_are_its_largest() -> None:
    told = findings(finding(count=2**53))
    part = People(incidents_of([told.table], reached_ms=TEN)).table()
    assert part["columns"][2]["counts"] == [2**53 - 1]


def test_a_window_whose_counts_are_gone_stands_alone_with_its_own_count(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out", findings=[found(count=55)])
    (incident,) = run.incidents()
    history = run.story(incident.peak)
    before = tuple(each.where(each.times_ms < TEN) for each in history.levels)
    (only,) = strips(replace(history, levels=before), incident)["strips"]
    assert only["counts"] == [55]
    assert only["none"].startswith("unknown")
