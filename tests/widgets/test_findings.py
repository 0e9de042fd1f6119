from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.findings.finding import Findings
from kstoolkit.moments import moment_of
from kstoolkit.widgets.findings import FindingsPanel
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
    """The rows of the list."""
    user = panel.face.part("people")["columns"][0]
    return [user["words"][code] for code in user["codes"]]


def told(panel: FindingsPanel) -> str:
    return "".join(text for text, _ in panel.face.part("sentence")["told"])


def said(panel: FindingsPanel) -> str:
    return str(panel.face.part("said").get("text", ""))


def buttons(panel: FindingsPanel, name: str = "marks") -> dict[str, dict[str, Any]]:
    return {each["label"]: each for each in panel.face.part(name).get("buttons", ())}


def test_each_user_stands_once_and_who_deserves_a_look_is_looked_at(panel: FindingsPanel) -> None:
    assert users(panel) == ["Anna", "Bo", "Cy"]
    assert len(panel.found) == 4
    assert panel.chosen is not None
    assert panel.chosen.user == "Anna"
    assert told(panel).startswith("Anna stood out in 1 window")
    assert repr(panel).startswith("FindingsPanel(3 users, 4 incidents; Incident(")
    panel.choose("Nobody")
    assert said(panel) == "No 'Nobody': there are 3 users."
    panel.choose("Cy")
    static = panel.static_html()
    assert "<bdi>Cy</bdi> did “<bdi>read</bdi>” 3 times" in static
    assert 'alt="Cy, “read”: 1 window flagged (1 hour 1)"' in static


def test_choosing_a_user_shows_its_counts_around_the_incident(panel: FindingsPanel) -> None:
    panel.choose(0)
    assert told(panel).startswith("Anna stood out in 1 window with “read” and “write”")
    strips = panel.face.part("strips")
    assert [each["label"] for each in strips["strips"]] == ["1 minute", "1 hour", "1 day"]
    assert strips["outlined"] == [TEN, TEN + HOUR]
    assert strips["zoom"] == [TEN - 6 * HOUR, TEN + 7 * HOUR]
    hours = strips["strips"][1]
    assert (hours["counts"], hours["flagged"], hours["high"]) == ([4], [0], 1)  # of its peak: write
    assert panel.face.chosen == {"people": 0}


def test_the_incidents_of_one_user_are_gone_through(panel: FindingsPanel) -> None:
    assert not buttons(panel, "which")
    panel.choose(1)
    assert len(buttons(panel, "which")) == 2
    panel.face._handle_custom_msg({"pressed": ["which", 1]}, [])
    assert panel.chosen is not None
    assert panel.chosen.peak.window == "1 minute"
    assert [each["pressed"] for each in buttons(panel, "which").values()] == [False, True]
    panel.choose(1, 0)
    assert panel.chosen.peak.window == "1 hour"


def test_a_choice_in_an_older_list_is_nobody_elses(panel: FindingsPanel) -> None:
    panel.face._handle_custom_msg({"chosen": ["people", 1, "Cy"]}, [])
    assert panel.chosen is not None
    assert panel.chosen.user == "Anna"
    panel.face._handle_custom_msg({"chosen": ["people", 1, "Bo"]}, [])
    assert panel.chosen.user == "Bo"


def test_events_of_one_user_never_stand_below_another(
    panel: FindingsPanel, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.face._handle_custom_msg({"window": ["strips", 1, TEN]}, [])
    read = type(run).events

    def slowly(*given: Any, **named: Any) -> Any:
        panel.choose("Bo")
        return read(*given, **named)

    monkeypatch.setattr(type(run), "events", slowly)
    panel.face._handle_custom_msg({"pressed": ["raw", "raw"]}, [])
    panel.wait()
    assert panel.chosen is not None
    assert panel.chosen.user == "Bo"
    assert panel.face.part("raw") == {}


def test_a_window_tells_all_that_the_user_did_in_it_and_the_counts_agree(
    panel: FindingsPanel, run: Run
) -> None:
    panel.face._handle_custom_msg({"window": ["strips", 1, TEN]}, [])
    done = panel.face.part("done")
    counts = run.counts("1 hour", user="Anna")
    counts = counts[counts.window_start == moment_of(TEN)]
    action, events = done["columns"]
    shown = {
        action["words"][code]: n for code, n in zip(action["codes"], events["values"], strict=True)
    }
    assert (
        shown == dict(zip(counts.action, counts["count"], strict=True)) == {"read": 55, "write": 4}
    )
    assert "10:00 and 11:00 UTC on 12 September 2015" in done["label"]
    panel.choose(2)
    assert panel.face.part("done") == {}


def test_marking_a_user_says_which_file_has_it_and_undo_takes_it_back(
    panel: FindingsPanel, run: Run
) -> None:
    assert str(run.folder.marks) in buttons(panel)["Known"]["title"]
    assert buttons(panel)["Undo"]["disabled"]
    for mark in ("known", "confirmed", "muted"):
        panel.face._handle_custom_msg({"pressed": ["marks", mark]}, [])
        (kept,) = run.marks
        assert (kept.mark, kept.user, kept.incident) == (mark, "Anna", None)
        assert f"Anna is {mark} now: {str(run.folder.marks)!r} says so" in said(panel)
        pressed = [label for label, each in buttons(panel).items() if each.get("pressed")]
        assert pressed == [mark.capitalize()]
        assert panel.chosen is not None
        assert panel.chosen.user == "Anna"
    panel.face._handle_custom_msg({"pressed": ["marks", "undo"]}, [])
    assert len(run.marks) == 0
    assert "1 mark taken back" in said(panel)
    assert panel.chosen is not None
    assert panel.chosen.user == "Anna"


def test_a_damaged_file_of_marks_is_said_and_stays(panel: FindingsPanel, run: Run) -> None:
    run.folder.marks.write_text("nonsense")
    panel.refresh()
    panel.wait()
    assert "is no TOML" in said(panel)
    assert len(users(panel)) == 3
    panel.mark()
    assert "is no TOML" in said(panel)
    panel.unmark()
    assert "is no TOML" in said(panel)
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
    panel.face._handle_custom_msg({"pressed": ["marks", "again"]}, [])
    panel.wait()
    assert users(panel) == ["Di", "Anna", "Bo", "Cy"]
    assert before is not None
    assert panel.chosen is not None
    assert panel.chosen.id == before.id
    assert panel.face.chosen == {"people": 3}


def test_findings_alone_are_drawn_with_what_they_know() -> None:
    alone = findings(finding(other_levels={"1 minute": 7, "1 day": 99}))
    with FindingsPanel(alone) as panel:
        panel.wait()
        assert "ClueBot NG, “Main”: 61 in 1 hour" in panel.static_html()
        (strip,) = panel.face.part("strips")["strips"]
        assert (strip["counts"], strip["low"], strip["high"]) == ([61], 2, 14)
        assert [each["label"] for each in panel.face.part("people")["columns"]][-1] == "windows"
        assert panel.face.part("marks") == {}
        panel.mark()
        assert "No run is given" in said(panel)


def test_nothing_found_is_no_mistake() -> None:
    with FindingsPanel(Findings(findings().table)) as panel:
        panel.wait()
        assert said(panel) == "Nothing was found."
        panel.mark()
        assert "No run is given" in said(panel)
        panel.choose(0)
        assert "No 0: there are 0 users" in said(panel)
        assert "No users." in panel.static_html()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text_and_can_be_known(tmp_path: Path, name: str) -> None:
    run = made_run(tmp_path / name[:3].encode().hex(), findings=[found(user=name, action=name)])
    with FindingsPanel(run) as panel:
        panel.wait()
        html = panel.static_html()
        assert "<script" not in html
        assert name not in html or "<" not in name
        assert len(repr(panel)) < 400
        assert "\n" not in repr(panel) + users(panel)[0]
        assert users(panel)[0].isprintable()
        panel.mark()
        assert run.marks.known == {name}


def test_what_cannot_be_read_is_said(run: Run) -> None:
    damaged = next((run.folder.path / "findings").rglob("*.parquet"))
    damaged.write_bytes(b"PAR1")
    with FindingsPanel(run) as panel:
        panel.wait()
        assert "Parquet" in said(panel)
        assert "0 incidents" in repr(panel)


def test_closing_ends_all_work(run: Run) -> None:
    before = threading.active_count()
    panel = FindingsPanel(run)
    panel.close()
    assert threading.active_count() == before
    panel.refresh()
    panel.wait()
    assert panel.face.comm is None


def test_a_run_that_is_gone_is_said_and_what_was_found_is_still_shown(
    panel: FindingsPanel, run: Run
) -> None:
    shutil.rmtree(run.folder.path)
    panel.refresh()
    panel.wait()
    assert "there is no such folder" in said(panel)
    assert len(users(panel)) == 3
    assert "there is no such folder" in panel.static_html()
