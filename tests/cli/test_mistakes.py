"""Mistakes that people make: each gets a sentence, what to do, and code 2; Spark is not started."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import COLUMNS, given, harmless

if TYPE_CHECKING:
    from pathlib import Path

RECORD = {"time": "2026-03-01T00:00:00Z", "user": "Anna", "action": "read"}


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.json"
    path.write_text(json.dumps(RECORD) + "\n")
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def mistake(*arguments: object) -> str:
    """Give a command that is a mistake, and return what it says."""
    answer = given(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "Error: " in answer.err
    assert harmless(answer.err)
    return answer.err


def test_a_wrong_column_is_named_with_the_nearest_one(events: Path, out: Path) -> None:
    said = mistake("run", events, *COLUMNS, "--user", "usr", "--out", out)
    assert "No column 'usr'" in said
    assert "Did you mean 'user'? It has: action, time, user." in said


def test_a_file_that_is_not_there_is_named(tmp_path: Path, out: Path) -> None:
    said = mistake("run", tmp_path / "no.json", *COLUMNS, "--out", out)
    assert "no.json" in said
    assert "Hint: " in said


def test_a_folder_without_events_is_said(tmp_path: Path, out: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = mistake("run", tmp_path / "empty", *COLUMNS, "--out", out)
    assert "No events in" in said
    assert ".json" in said


def test_an_output_folder_that_holds_other_files_is_left_alone(events: Path, out: Path) -> None:
    out.mkdir()
    (out / "thesis.tex").touch()
    assert "no run" in mistake("run", events, *COLUMNS, "--out", out)
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("command", ["run", "supervise", "summary", "compact", "restore"])
def test_an_output_folder_elsewhere_is_refused_and_nothing_is_made(
    command: str, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    counting = [events, *COLUMNS, "--out", "s3://bucket/x"]
    others = {"restore": [tmp_path, "s3://bucket/x"]}
    reading = others.get(command, ["s3://bucket/x"])
    said = mistake(command, *(counting if command in {"run", "supervise"} else reading))
    assert "'s3://bucket/x' is no folder of this machine, but of 's3'." in said
    assert "Hint: Give a path" in said
    assert [path.name for path in tmp_path.iterdir()] == [events.name]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--windows 7minutes,1hour", "7 minutes does not divide 1 hour"),
        ("--windows 1minute,,1hour", "has an empty place"),
        ("--windows fortnight", "'fortnight' is not a duration"),
        ("--trigger 5s", "--follow is missing"),
        ("--give-up-after 1s", "--give-up-after is for topics, and there is none"),
        ("--changelog kafka://h:1/t --give-up-after soon", "'soon' is not a duration"),
        ("--max-future soon", "'soon' is not a duration"),
        ("--lateness late", "'late' is not a duration"),
        ("--rules no.toml", "No rules can be read from no.toml"),
        ("--master here", "'here' is no Spark master"),
        ("--buckets 0", "--buckets"),
        ("--min-count 0", "--min-count"),
        ("--retention 0", "--retention"),
        ("--max-files-per-batch 0", "--max-files-per-batch"),
        ("--format xml", "'json', 'csv', 'parquet'"),
        ("--time-unit weeks", "'s', 'ms', 'us', 'ns'"),
        ("--colour", "--colour"),
    ],
)
def test_an_option_that_makes_no_sense_is_explained(
    options: str, said: str, events: Path, out: Path
) -> None:
    assert said in mistake("run", events, *COLUMNS, *options.split(), "--out", out)


@pytest.mark.parametrize("missing", ["--event-time", "--user", "--action", "--out"])
def test_what_a_run_needs_is_asked_for(missing: str, events: Path, out: Path) -> None:
    options = {"--event-time": "time", "--user": "user", "--action": "action", "--out": out}
    del options[missing]
    flat = [each for option in options.items() for each in option]
    assert missing in mistake("run", events, *flat)


def test_a_rule_on_a_window_that_is_not_counted_is_said(events: Path, out: Path) -> None:
    rules = events.with_name("rules.toml")
    rules.write_text('[[rule]]\nkind = "Ceiling"\nwindow = "1 hour"\ncount = 3\n')
    arguments = ("--windows", "1 minute", "--rules", rules, "--out", out)
    said = mistake("run", events, *COLUMNS, *arguments)
    assert "looks at 1 hour, which is not counted" in said


@pytest.mark.parametrize(
    "command", ["findings", "users", "counts", "summary", "report", "find", "compact"]
)
def test_a_folder_without_a_run_is_said(command: str, tmp_path: Path) -> None:
    said = mistake(command, tmp_path / "nothing\x1b[2J")
    assert "nothing\\x1b[2J" in said
    assert "Hint: " in said


def test_json_and_csv_together_make_no_sense(tmp_path: Path) -> None:
    said = mistake("counts", tmp_path, "--window", "1 hour", "--json", "--csv")
    assert "--json and --csv" in said


def test_an_unknown_real_sample_is_said_with_the_one_there_is() -> None:
    assert "Did you mean 'wikiticker'?" in mistake("data", "fetch", "wikitiker")


def test_the_bundled_sample_takes_no_options_that_change_it(tmp_path: Path) -> None:
    assert "fixed" in mistake("simulate", "--sample", "--users", "5", "--out", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_more_files_than_events_are_said(tmp_path: Path) -> None:
    said = mistake("simulate", "--events", 3, "--users", 50, "--files", 9_999, "--out", tmp_path)
    assert "9,999 files" in said
