from __future__ import annotations

import shutil
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from kstoolkit.findings.finding import Findings
from kstoolkit.widgets.findings import _MOST_LISTED, FindingsPanel
from tests.changelog.changelogs import HOUR
from tests.findings.made import finding, findings
from tests.plots.made import HOSTILE, MORNING, OVER, TEN, found, made_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

NINE = {"window_start_ms": TEN - HOUR, "count": 3, "log10_probability": -2.0}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    told = [
        found(),
        found(user="Bo", count=7, log10_probability=-3.0),
        found(action="write", count=4, expected_high=1, log10_probability=-20.0),
        found(user="Cy", **NINE),
        found(user="Bo", **{**OVER, "window_start_ms": MORNING, "count": 9}),
    ]
    return made_run(tmp_path / "out", findings=told)


@pytest.fixture
def panel(run: Run) -> Iterator[FindingsPanel]:
    with FindingsPanel(run) as made:
        made.wait()
        yield made


def users(panel: FindingsPanel) -> list[str]:
    return [each.user for each in panel.found]


def test_the_most_severe_come_first_and_the_first_is_looked_at(panel: FindingsPanel) -> None:
    assert [each.action for each in panel.found] == ["read", "write", "read", "read", "read"]
    assert panel.list.options[0][0].startswith("Bo, “read”: 9 (ceiling 8), 2015-09-12 00:00")
    assert panel.chosen is not None
    assert panel.chosen.kind == "Ceiling"
    panel.choose(1)
    panel.wait()
    assert panel.chosen.action == "write"
    assert "Anna</bdi> did “<bdi>write</bdi>” 4 times" in panel.static_html()
    assert "<img " in panel.static_html()
    assert 'alt="Anna, “write”: 1 window flagged (1 hour 1)"' in panel.static_html()
    assert repr(panel).startswith("FindingsPanel(5 of 5 findings; 'Anna', 'write': 4 in 1 hour")


def test_each_filter_leaves_what_it_names(panel: FindingsPanel) -> None:
    filters = panel.filters
    filters.rule.value = "Ceiling 8 per 1 minute"
    assert users(panel) == ["Bo"]
    filters.rule.value = ""
    filters.window.value = "1 hour"
    assert users(panel) == ["Anna", "Anna", "Bo", "Cy"]
    filters.action.value = "write"
    assert users(panel) == ["Anna"]
    filters.action.value = ""
    filters.user.value = "cy"
    assert users(panel) == ["Cy"]
    filters.user.value = ""
    filters.since.value = datetime(2015, 9, 12, 10)  # noqa: DTZ001 - as the control has it: UTC
    assert users(panel) == ["Anna", "Anna", "Bo"]
    filters.until.value = datetime(2015, 9, 12, 10)  # noqa: DTZ001
    assert users(panel) == []
    assert panel.chosen is None
    assert panel.known.disabled
    assert "0 of 5 findings" in panel.static_html()


def test_one_goes_through_the_list_by_buttons_to_its_ends(panel: FindingsPanel) -> None:
    panel.previous.click()
    assert panel.list.value == 0
    for place in (1, 2, 3, 4, 4):
        panel.next.click()
        assert panel.list.value == place
        assert panel.chosen == panel.found[place]
    panel.previous.click()
    assert panel.list.value == 3


def test_filters_may_be_set_by_a_program_and_what_makes_no_sense_is_said(
    panel: FindingsPanel,
) -> None:
    panel.set(user="Anna", until=datetime(2015, 9, 12, 12, tzinfo=UTC), window="1 hour")
    assert users(panel) == ["Anna", "Anna"]
    panel.set(rule="no such rule")
    assert "No finding has the rule" in panel._said.value
    panel.set(colour="red")
    assert "There is no filter" in panel._said.value
    panel.choose(9)
    assert "No finding 9" in panel._said.value
    assert users(panel) == ["Anna", "Anna"]


def test_marking_a_user_writes_a_mark_and_the_findings_go_until_known_ones_are_shown(
    panel: FindingsPanel, run: Run
) -> None:
    panel.set(window="1 hour", user="Anna")
    panel.known.click()
    (mark,) = run.marks
    assert (mark.mark, mark.user, mark.incident) == ("known", "Anna", None)
    assert "is known now" in panel._said.value
    assert "marks.toml" in panel._said.value
    assert users(panel) == []
    panel.set(user="", window=None)
    assert users(panel) == ["Bo", "Bo", "Cy"]
    assert "2 about known users left out" in panel._status.value
    panel.filters.known.value = True
    assert len(panel.found) == 5
    place = next(n for n, (label, _) in enumerate(panel.list.options) if "Anna" in label)
    assert panel.list.options[place][0].startswith("known: Anna")
    panel.choose(place)
    panel.mark()
    assert len(run.marks) == 1


def test_a_damaged_file_of_marks_is_said_and_stays(panel: FindingsPanel, run: Run) -> None:
    run.folder.marks.write_text("nonsense")
    panel.again.click()
    panel.wait()
    assert "is no TOML" in panel._said.value
    assert len(panel.found) == 5
    panel.mark()
    assert "is no TOML" in panel._said.value
    assert run.folder.marks.read_text() == "nonsense"


def test_reading_again_finds_what_is_new_and_keeps_what_is_looked_at(
    panel: FindingsPanel, run: Run, tmp_path: Path
) -> None:
    panel.choose(2)
    before = panel.chosen
    more = made_run(tmp_path / "more", findings=[found(user="Di", log10_probability=-90.0)])
    (more.folder.path / "findings/epoch=0/batch=0").rename(
        run.folder.path / "findings/epoch=0/batch=1"
    )
    panel.again.click()
    panel.wait()
    assert users(panel)[:2] == ["Bo", "Di"]
    assert panel.chosen == before
    assert panel.list.value == 3


def test_of_many_the_most_severe_are_listed_and_that_is_said() -> None:
    many = [finding(user=f"user {n}", log10_probability=-float(n)) for n in range(_MOST_LISTED + 5)]
    with FindingsPanel(findings(*many)) as panel:
        panel.wait()
        assert len(panel.list.options) == _MOST_LISTED
        assert panel.list.options[0][0].startswith("user 204,")
        assert "the 200 most severe are listed" in panel._status.value
        assert "the first 20 of 205" in panel.static_html()
        panel.set(user="user 3")
        assert users(panel) == ["user 3"]


def test_findings_alone_are_drawn_with_what_they_know() -> None:
    alone = findings(finding(other_levels={"1 minute": 7, "1 day": 99}))
    with FindingsPanel(alone) as panel:
        panel.wait()
        assert "ClueBot NG, “Main”: 61 in 1 hour" in panel.static_html()
        assert panel.known.disabled
        panel.mark()
        assert "No run is given" in panel._said.value


def test_nothing_found_is_no_mistake() -> None:
    with FindingsPanel(Findings(findings().table)) as panel:
        panel.wait()
        panel.mark()
        assert "No run is given" in panel._said.value
        assert "0 of 0 findings" in panel.static_html()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text_and_can_be_known(tmp_path: Path, name: str) -> None:
    run = made_run(tmp_path / name[:3].encode().hex(), findings=[found(user=name, action=name)])
    with FindingsPanel(run) as panel:
        panel.wait()
        html = panel.static_html()
        assert "<script" not in html
        assert name not in html or "<" not in name
        assert len(repr(panel)) < 400
        assert "\n" not in repr(panel) + panel.list.options[0][0]
        panel.mark()
        assert run.marks.known == {name}
        assert users(panel) == []


def test_what_cannot_be_read_is_said(run: Run) -> None:
    damaged = next((run.folder.path / "findings").rglob("*.parquet"))
    damaged.write_bytes(b"PAR1")
    with FindingsPanel(run) as panel:
        panel.wait()
        assert "Parquet" in panel._said.value
        assert "0 of 0" in repr(panel)


def test_closing_ends_all_work(run: Run) -> None:
    before = threading.active_count()
    panel = FindingsPanel(run)
    panel.close()
    assert threading.active_count() == before
    panel.refresh()
    panel.wait()
    assert panel.list.comm is None


def test_a_run_that_is_gone_is_said_and_what_was_found_is_still_shown(
    panel: FindingsPanel, run: Run
) -> None:
    shutil.rmtree(run.folder.path)
    panel.again.click()
    panel.wait()
    assert "there is no such folder" in panel.static_html()
    assert len(panel.found) == 5


def test_half_a_letter_is_no_name_which_is_said(panel: FindingsPanel) -> None:
    panel.set(user="Bo\ud800")
    assert "is no text" in panel.static_html()
    assert len(panel.found) == 5
