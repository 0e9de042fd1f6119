from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kstoolkit.events.event import REASONS
from kstoolkit.pipeline.batches import MicroBatch, StateSize
from kstoolkit.pipeline.status import RunState, RunStatus
from kstoolkit.views.runs import figures, letters, samples, tiles
from kstoolkit.views.still import still
from tests.plots.made import HOSTILE

NONE_YET = RunStatus(state=RunState.RESTING, at_ms=10_000)
BUSY = replace(
    NONE_YET,
    state=RunState.COUNTING,
    batches=(
        MicroBatch(4, 5_000, 2.0, events=3_000, findings=2, parts_seconds={"counting": 2.5}),
        MicroBatch(5, 7_000, 0.25, findings=1, backlog={"1 hour": 7}, parts_seconds={"other": 0.5}),
    ),
    num_batches=6,
    events=30_000,
    findings=11,
    newest_event_ms=4_000,
)
LAGS = [(8_000, 4_000), (10_000, 6_000)]


def test_the_newest_value_of_each_course_is_the_figure_and_no_word_is_lost() -> None:
    rows = dict(BUSY.rows())
    made = tiles(BUSY, LAGS)["tiles"]
    assert [each["texts"][-1] for each in made] == [each["text"] for each in made]
    assert [each["text"] for each in made] == ["1,500", "0.25 s", "6.0 s", "11"]
    for each in made:
        apart = [each["text"], *([each["note"]] if each["note"] else [])]
        assert re.fullmatch("[;:,]? ".join(map(re.escape, apart)), rows[each["label"]])


def test_courses_stand_on_the_clock_and_leave_out_what_is_unknown() -> None:
    rate, took, lag, found = tiles(BUSY, LAGS)["tiles"]
    assert (rate["times"], rate["values"]) == ([5_000], [1_500])
    assert (took["times"], took["values"]) == ([5_000, 7_000], [2.0, 0.25])
    assert (lag["times"], lag["values"]) == ([8_000, 10_000], [4_000, 6_000])
    assert (found["times"], found["values"]) == ([5_000, 7_000], [10, 11])


@pytest.mark.parametrize("name", ["events/s", "lag"])
def test_what_is_unknown_says_why_and_has_no_course(name: str) -> None:
    (tile,) = [each for each in tiles(NONE_YET, [])["tiles"] if each["label"] == name]
    assert (tile["text"], tile["values"]) == ("unknown", [])
    assert f"unknown {tile['note']}" == dict(NONE_YET.rows())[name]
    assert tile["note"].endswith(" yet)")


def test_a_lag_of_nothing_is_none() -> None:
    ahead = replace(BUSY, newest_event_ms=20_000)
    lag = tiles(ahead, [(10_000, 0)])["tiles"][2]
    assert (lag["text"], lag["texts"]) == ("none", ["none"])


def test_what_waits_for_its_flush_is_told_by_window() -> None:
    assert dict(figures(BUSY)["rows"])["backlog"] == "7 for windows of 1 hour"
    assert dict(figures(NONE_YET)["rows"])["backlog"] == "unknown (no batch has ended yet)"


def test_reasons_without_dead_letters_are_no_chips() -> None:
    made = letters({"no_user": 0, "no_time": 1_200, "new": 1}, "new")["buttons"]
    assert [each["label"] for each in made] == [f"{REASONS['no_time']}: 1,200", "new: 1"]
    assert [each["pressed"] for each in made] == [False, True]
    assert letters({}) == {}


def test_chips_say_each_reason_where_no_script_runs_and_stand_nowhere_twice() -> None:
    dead = replace(BUSY, dead_letters={"no_time": 1_200})
    assert f"{REASONS['no_time']}: 1,200" in still(letters(dead.dead_letters))
    assert "dead letters" not in dict(figures(dead)["rows"])
    assert dict(figures(BUSY)["rows"])["dead letters"] == "none"


def test_why_the_state_takes_less_now_and_then_is_said_where_it_is_known() -> None:
    told = MicroBatch(6, 8_000, 0.5, state=StateSize(rows=3, memory_bytes=2_048))
    known = dict(figures(replace(BUSY, batches=(told,)))["rows"])["state memory"]
    assert known.startswith("2.0 KiB; less after each tenth batch")
    assert dict(figures(BUSY)["rows"])["state memory"] == dict(BUSY.rows())["state memory"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_dead_letters_are_texts(name: str) -> None:
    letter = {"raw": name, "file": f"in/{name}", "batch": 3, "detail": name}
    html = still(samples(1, [letter]))
    for harm in ("<script", "\u202e", "\x1b", "\n"):
        assert harm not in html
    assert "batch 3" in html


def test_of_a_letter_without_text_its_file_and_detail_are_told() -> None:
    letter = {"raw": None, "file": "in/a.json", "batch": 3, "detail": "cut off"}
    (card,) = samples(9_000, [letter])["cards"]
    told = [["batch 3", "in/a.json · cut off"]]
    assert card == {"title": "1 that differ, of 9,000", "rows": told}
