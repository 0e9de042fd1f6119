"""Incidents, marks and stories at the command line: what is printed, written, and refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kstoolkit.cli.incidents import Said, State
from kstoolkit.findings.incidents import STATES
from kstoolkit.findings.marks import MARKS
from kstoolkit.pipeline.batches import MicroBatch
from tests.changelog.changelogs import HOUR
from tests.cli.commands import given, rows
from tests.plots.made import HOSTILE, TEN, found, made_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    told = [
        found(),
        found(action="write", count=4, expected_high=1, log10_probability=-20.0),
        found(user="Bo", count=7, log10_probability=-3.0),
        found(user="Bo", count=9, window_start_ms=TEN + 9 * HOUR),
    ]
    made_run(tmp_path / "out", findings=told)
    return tmp_path / "out"


def test_the_states_and_marks_that_can_be_asked_for_are_those_there_are() -> None:
    assert [each.value for each in State] == list(STATES)
    assert [each.value for each in Said] == list(MARKS)


def test_incidents_are_told_once_and_chosen(out: Path) -> None:
    told = given("incidents", out)
    assert told.code == 0
    assert told.out.count("Anna stood out") == 1
    assert "with “read” and “write”" in told.out
    assert len(rows(given("incidents", out, "--json").out)) == 3
    assert [r["user"] for r in rows(given("incidents", out, "--user", "ann", "--json").out)] == [
        "Anna"
    ]
    assert len(rows(given("incidents", out, "--action", "write", "--json").out)) == 1
    assert len(rows(given("incidents", out, "--since", TEN + 2 * HOUR, "--json").out)) == 1
    assert len(rows(given("incidents", out, "--gap", "12 hours", "--json").out)) == 2
    assert "1 of 3 incidents are shown" in given("incidents", out, "--limit", 1).out
    assert given("incidents", out, "--state", "opn").code == 2
    none = given("incidents", out, "--user", "nobody")
    assert (none.code, none.out, none.err) == (0, "", "None of 3 incidents.\n")
    none = given("findings", out, "--user", "nobody")
    assert (none.code, none.out, none.err) == (0, "", "None of 4 findings.\n")


def test_a_run_without_incidents_says_so(tmp_path: Path) -> None:
    made_run(tmp_path / "out", findings=[])
    assert given("incidents", tmp_path / "out").err == "No incidents.\n"
    assert given("findings", tmp_path / "out").err.startswith("Nothing was found")


def test_a_mark_of_a_name_that_no_incident_is_of_says_so(out: Path) -> None:
    assert given("mark", out, "Anna", "known").err == ""
    assert "No incident is of 'Ann' so far" in given("mark", out, "Ann", "known").err


def test_a_mark_that_is_over_as_it_is_made_says_so(out: Path) -> None:
    over = given("mark", out, "Anna", "muted", "--until", "2020-01-01")
    assert "2020-01-01 is over" in over.err
    assert given("mark", out, "Anna", "muted", "--until", "2999-01-01").err == ""


def test_the_ranking_says_who_is_marked(out: Path) -> None:
    given("mark", out, "Anna", "known")
    given("mark", out, "Bo", "muted", "--until", "2020-01-01")
    told = {r["user"]: r["reason"] for r in rows(given("users", out, "--json").out)}
    assert told.pop("Anna").endswith("; marked known.")
    assert not [each for each in told.values() if "marked" in each]


def test_findings_are_chosen_likewise(out: Path) -> None:
    assert len(rows(given("findings", out, "--user", "Bo", "--json").out)) == 2
    assert len(rows(given("findings", out, "--action", "write", "--json").out)) == 1
    assert len(rows(given("findings", out, "--since", TEN + 2 * HOUR, "--json").out)) == 1


def test_a_mark_is_said_kept_listed_and_taken_back(out: Path) -> None:
    name = rows(given("incidents", out, "--user", "Anna", "--json").out)[0]["id"]
    said = given("mark", out, name, "confirmed", "--why", "she said so")
    assert said.out.startswith(f"incident {name} of Anna is confirmed: she said so (")
    rule = ("--rule", "Unusual", "--until", "2030-01-01")
    assert "for Unusual until 2030-01-01 00:00 UTC" in given("mark", out, "Bo", "muted", *rule).out
    listed = rows(given("marks", out, "--json").out)
    assert [(each["mark"], each["user"], each["incident"]) for each in listed] == [
        ("confirmed", "Anna", name),
        ("muted", "Bo", None),
    ]
    marked = {r["user"]: r["mark"] for r in rows(given("incidents", out, "--json").out)}
    assert marked == {"Anna": "confirmed", "Bo": "muted"}
    assert f"{name}  resolved, sure, confirmed, 2 findings" in given("incidents", out).out
    assert given("unmark", out, name).code == 0
    again = given("unmark", out, name)
    assert again.code == 2
    assert f"Nothing is said of '{name}'" in again.err
    assert given("mark", out, "Anna", "knwn").code == 2
    assert given("mark", out, "Anna", "known", "--until", "soon").code == 2


def test_a_story_has_counts_shares_incidents_and_marks(out: Path) -> None:
    given("mark", out, "Anna", "muted", "--why", "a holiday")
    told = given("story", out, "Anna")
    assert told.code == 0
    for part in (
        "read 95.5 %",
        "write 4.5 %",
        "1 hour",
        "expected",
        "a holiday",
        "Anna stood out",
        "muted, 2 findings",
    ):
        assert part in told.out
    (row,) = rows(given("story", out, "Anna", "--json").out)
    assert [each["window"] for each in row["levels"]] == ["1 minute", "1 hour", "1 day"]
    assert sum(each["count"] for each in row["levels"][2]["counts"]) == row["events"] == 89
    assert {each["action"]: each["count"] for each in row["actions"]} == {"read": 85, "write": 4}
    assert [each["user"] for each in row["incidents"]] == ["Anna"]
    nobody = given("story", out, "Ann")
    assert nobody.code == 2
    assert "Nothing is counted of 'Ann'" in nobody.err


def test_a_story_says_which_counts_wait_for_a_flush(tmp_path: Path) -> None:
    done = MicroBatch(batch=0, batch_ms=0, seconds=1, events=5, as_of_ms={"1 day": TEN})
    made_run(tmp_path / "out", batches=[done])
    assert "Counts of 1 day as of 2015-09-12 10:00" in given("story", tmp_path / "out", "Anna").err


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_can_be_asked_for_and_marked(tmp_path: Path, name: str) -> None:
    made_run(tmp_path / "out", findings=[found(user=name, action=name)])
    if "\x00" not in name:  # which no argument can have
        assert given("mark", tmp_path / "out", name, "known").code == 0
        assert given("story", tmp_path / "out", name).code == 0
    for command in ("incidents", "marks"):
        told = given(command, tmp_path / "out")
        assert told.code == 0
        assert "\x1b" not in told.out
        assert "\u202e" not in told.out


def test_a_story_of_no_name_is_of_nobody(out: Path) -> None:
    told = given("story", out, "")
    assert (told.code, told.out) == (2, "")
    assert "Nothing is counted of ''." in told.err


def test_a_gap_longer_than_time_is_told_is_refused(out: Path) -> None:
    for gap in ("999999999999 days", f"{'9' * 400} days"):
        told = given("incidents", out, "--gap", gap)
        assert (told.code, told.out) == (2, "")
        assert "is longer than all of time" in told.err
    assert given("incidents", out, "--gap", "9999 years").code == 0


def test_findings_that_are_damaged_are_named_with_what_to_do(out: Path) -> None:
    (file,) = (out / "findings").rglob("*.parquet")
    whole = file.read_bytes()
    middle = len(whole) // 4
    broken = whole[:middle] + bytes(64) + whole[middle + 64 :]
    for damage in (b"", b"x" * 100, broken):
        file.write_bytes(damage)
        for command in (
            ("incidents",),
            ("findings",),
            ("users",),
            ("story", "Anna"),
            ("mark", "Anna", "muted"),
        ):
            told = given(command[0], out, *command[1:])
            assert (told.code, told.out) == (1, ""), command
            assert f"{file} is damaged: " in told.err
            assert "Hint: Restore it" in told.err
        assert "incidents" in given("summary", out).out


def test_findings_that_are_gone_are_not_told_as_if_nothing_was_found(tmp_path: Path) -> None:
    run = tmp_path / "out"
    made_run(run, batches=[MicroBatch(0, 0, 8.0, events=80, findings=3)])
    for command in (("incidents",), ("findings",), ("users",), ("story", "Anna")):
        told = given(command[0], run, *command[1:])
        assert (told.code, told.out) == (2, ""), command
        assert f"3 findings of this run are gone: {run / 'findings'} has none." in told.err
    assert "the findings that tell are gone" in given("summary", run).out


def test_a_name_that_is_no_utf8_is_refused(out: Path) -> None:
    name = os.fsdecode("lucía".encode("latin-1"))
    for command in ("incidents", "findings", "counts"):
        window = ("--window", "1 hour") if command == "counts" else ()
        told = given(command, out, *window, "--user", name)
        assert (told.code, told.out) == (2, "")
        assert r"The name 'luc\udceda' is no text in UTF-8." in told.err
    assert given("story", out, name).code == 2
    assert given("incidents", out, "--action", name).code == 2
    assert given("incidents", out, "--user", "lucía").code == 0


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}"])
def test_a_batch_s_figures_that_are_damaged_are_named_with_what_to_do(
    tmp_path: Path, damage: str
) -> None:
    run = tmp_path / "out"
    made_run(run, batches=[MicroBatch(0, 0, 8.0, events=80)])
    (file,) = (run / "statistics").rglob("*.json")
    file.write_text(damage)
    for command in ("incidents", "summary", "users"):
        told = given(command, run)
        assert (told.code, told.out) == (1, "")
        assert f"{file} is damaged: " in told.err
        assert "should not happen" not in told.err


def test_marks_that_are_a_link_to_itself_are_told(out: Path) -> None:
    marks = out / "marks.toml"
    marks.symlink_to(marks)
    for command in (("marks",), ("mark", "Anna", "known"), ("unmark", "Anna")):
        told = given(command[0], out, *command[1:])
        assert (told.code, told.out) == (2, "")
        assert "Too many levels of symbolic links" in told.err


def test_no_name_makes_lines_of_its_own_in_a_story(tmp_path: Path) -> None:
    user, action = "Anna\nmarked     confirmed", "read\u2028marked     confirmed"
    run = made_run(tmp_path / "out", findings=[found(user=user, action=action)])
    run.mark(user, "muted", why="she\x85marked     confirmed")
    told = given("story", tmp_path / "out", user).out
    assert [line for line in told.splitlines() if line.startswith("marked")] == [
        line for line in told.split("\n") if line.startswith("marked     Anna[U+000A]marked")
    ]
    assert len(told.splitlines()) == len(str(run.story("Anna")).splitlines()) + 2
