from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.changelog.changelogs import HOUR, MINUTE
from tests.plots.made import COUNTS, HOSTILE, MORNING, OVER, TEN, found, made_run

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    minutes = [found(**OVER, window_start_ms=TEN + n * MINUTE, count=9) for n in (8, 9)]
    write = found(action="write", count=4, expected_high=1, log10_probability=-20.0)
    return made_run(tmp_path / "out", findings=[found(), write, *minutes])


def test_a_history_has_every_level_of_the_cascade_in_the_order_of_time(run: Run) -> None:
    history = run.history("Anna", action="read")
    assert [level.window.label for level in history.levels] == ["1 minute", "1 hour", "1 day"]
    hours = history.levels[1]
    assert hours.times_ms.tolist() == [MORNING + n * HOUR for n in range(11)]
    assert hours.counts.tolist() == [3] * 10 + [55]


def test_all_actions_together_are_summed_up(run: Run) -> None:
    assert run.history("Anna").levels[1].counts.tolist() == [3] * 10 + [59]
    assert run.history("Anna").levels[2].counts.tolist() == [89]


def test_flagged_windows_are_those_of_each_level_folded_or_not(run: Run) -> None:
    levels = run.history("Anna", action="read").levels
    flagged = [level.flagged_ms.tolist() for level in levels]
    assert flagged == [[TEN + 8 * MINUTE, TEN + 9 * MINUTE], [TEN], []]


def test_a_story_tells_the_range_of_its_own_finding(run: Run) -> None:
    stories = {each.action: run.story(each) for each in run.findings if each.window == "1 hour"}
    assert stories["read"].levels[1].expected_high == 14
    assert stories["write"].levels[1].expected_high == 1
    assert stories["read"].levels[0].ceiling == 8
    assert stories["write"].action == "write"


def test_as_a_table_it_has_one_row_a_window(run: Run) -> None:
    frame = run.history("Anna", action="read").to_pandas()
    assert list(frame) == ["window", "window_start", "window_end", "count", "flagged"]
    assert len(frame) == 10 + 11 + 1
    assert frame["flagged"].sum() == 3
    day = frame[frame["window"] == "1 day"].iloc[0]
    assert (day["window_start"].isoformat(), day["count"]) == ("2015-09-12T00:00:00+00:00", 85)


def test_text_and_html_state_the_same_facts(run: Run) -> None:
    history = run.history("Anna", action="read")
    told = "'Anna', 'read': 1 minute, 1 hour, 1 day; 3 flagged windows"
    assert repr(history) == f"UserHistory({told})"
    html = history._repr_html_()
    assert told.replace("'", "&#x27;") in html
    usual = "2\N{EN DASH}14"
    assert f"<td>1 hour</td><td>11</td><td>55</td><td>1</td><td>{usual}</td>" in html
    assert repr(history.levels[2]).startswith("LevelCounts(1 day: windows with counts 1, highest")


def test_of_nobody_there_are_no_counts(run: Run) -> None:
    history = run.history("Nobody")
    assert [level.counts.size for level in history.levels] == [0, 0, 0]
    assert history.to_pandas().empty


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    script = HOSTILE[1]
    counts = {length: {(MORNING, script, "read"): 5} for length in COUNTS}
    html = made_run(tmp_path / "out", counts=counts).history(script, action=script)._repr_html_()
    assert "<script>" not in html
