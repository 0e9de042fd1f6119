"""One run of a small file whose names are hostile, and every command that reads what it left."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.cli.commands import COLUMNS, PROGRAM, Answer, answered, given, harmless, rows, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
HOUR_MS = 3_600_000
BEGIN_MS = int(BEGIN.timestamp() * 1000)
LOUD, QUIET = "\x1b[2J\x1b]0;mine\x07", ("Zoë", "名前", "=cmd()", 'quo"te, and\nline')
ACTION = "re\u202ead"


def event(user: str, **since: float) -> str:
    time = (BEGIN + timedelta(**since)).isoformat()
    return json.dumps({"time": time, "user": user, "action": ACTION})


EVENTS = [
    *(event(user, minutes=7 * n) for n in range(50) for user in (*QUIET, LOUD)),
    *(event(LOUD, hours=3, seconds=n) for n in range(300)),
    '{"time": "2026-03-01T00:00:00Z", "action": "read"}',
    "no JSON",
]
RULES = """
[[rule]]
kind = "Ceiling"
window = "1 hour"
count = {count}
"""


class Place(NamedTuple):
    """Where a run was made, and what the command answered."""

    events: Path
    out: Path
    rules: Path
    answer: Answer

    @property
    def command(self) -> tuple[object, ...]:
        return ("run", self.events, *COLUMNS, "--out", self.out, "--rules", self.rules)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("run")
    events, out, rules = folder / "events", folder / "out", folder / "rules.toml"
    events.mkdir()
    (events / "a.json").write_text("".join(f"{line}\n" for line in EVENTS), encoding="utf-8")
    rules.write_text(RULES.format(count=100))
    place = Place(events, out, rules, Answer(-1, "", ""))
    # Its stdout has no encoding for most of these names, and no locale.
    process = started(*place.command, LC_ALL="C", PYTHONIOENCODING="ascii")
    return place._replace(answer=answered(process))


def test_a_run_ends_with_its_figures_the_incidents_and_what_to_type_next(place: Place) -> None:
    code, out, err = place.answer
    assert code == 0, err
    assert "550" in next(line for line in out.splitlines() if line.startswith("events"))
    assert "dead letters: it has no user" in out
    found = next(line for line in out.splitlines() if line.startswith(" 1. "))
    assert "309 times between 03:00 and 04:00 UTC on 1 March 2026" in found
    assert f"kstoolkit incidents {place.out}" in out
    assert "counting" in err


def test_nothing_from_the_data_can_command_the_terminal(place: Place) -> None:
    assert harmless(place.answer.out)
    assert "\\x1b[2J\\x1b]0;mine\\x07 did" in place.answer.out
    assert place.answer.out.isascii()
    for command in ("findings", "users", "summary", "counts --window day"):
        name, *options = command.split()
        answer = given(name, place.out, *options)
        assert harmless(answer.out), command
        assert "\u202e" not in answer.out, command


def test_counts_as_json_are_all_of_them_in_order(place: Place) -> None:
    answer = given("counts", place.out, "--window", "1 hour", "--json")
    found = rows(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert all(
        row.keys() == {"window_start_ms", "window_end_ms", "user", "action", "count"}
        for row in found
    )
    assert sum(row["count"] for row in found) == len(EVENTS) - 2
    loudest = max(found, key=lambda row: int(row["count"]))
    start = BEGIN_MS + 3 * HOUR_MS
    assert tuple(loudest.values()) == (start, start + HOUR_MS, LOUD, ACTION, 309)
    keys = [(row["window_start_ms"], row["user"]) for row in found]
    assert keys == sorted(keys)


def test_counts_as_csv_are_the_same_rows(place: Place) -> None:
    hourly = ("counts", place.out, "--window", "1 hour")
    read = csv.DictReader(io.StringIO(given(*hourly, "--csv").out, newline=""))
    as_json = rows(given(*hourly, "--json").out)
    assert list(read) == [{name: str(value) for name, value in row.items()} for row in as_json]


def test_counts_of_one_user_are_that_users(place: Place) -> None:
    found = rows(given("counts", place.out, "--window", "day", "--user", LOUD, "--json").out)
    assert [(row["user"], row["count"]) for row in found] == [(LOUD, 350)]


def test_a_table_that_is_cut_says_so(place: Place) -> None:
    answer = given("counts", place.out, "--window", "1 minute", "--limit", 2)
    *table, last = answer.out.splitlines()
    assert len(table) == 3
    assert last.startswith("2 of ")
    assert "shown" not in given("counts", place.out, "--window", "day").out


def test_counts_of_nobody_are_said_to_be_none(place: Place) -> None:
    answer = given("counts", place.out, "--window", "day", "--user", "nobody")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "No counts of 'nobody' in windows of 1 day.\n"
    as_json = given("counts", place.out, "--window", "day", "--user", "nobody", "--json")
    assert as_json == (0, "", "")


@pytest.mark.parametrize("window", [(), ("--window", "2 hours")])
def test_a_window_that_is_missing_or_wrong_is_answered_with_those_there_are(
    window: tuple[str, ...], place: Place
) -> None:
    answer = given("counts", place.out, *window)
    assert answer.code == 2
    assert all(label in answer.err for label in ("1 minute", "1 hour", "1 day"))


def test_findings_as_json_have_what_others_rely_on(place: Place) -> None:
    (found,) = rows(given("findings", place.out, "--json").out)
    assert found["user"] == LOUD
    assert found["window_start_ms"] == BEGIN_MS + 3 * HOUR_MS
    assert (found["rule"], found["window"]) == ("Ceiling 100 per 1 hour", "1 hour")
    assert (found["action"], found["count"]) == (ACTION, 309)
    assert found["sentence"].startswith(f"{LOUD} did")
    unknown = ("expected_low", "expected_high", "probability")
    assert [found[name] for name in unknown] == [None, None, None]


def test_other_rules_judge_the_same_counts(place: Place, tmp_path: Path) -> None:
    lower, higher = tmp_path / "lower.toml", tmp_path / "higher.toml"
    lower.write_text(RULES.format(count=8))
    higher.write_text(RULES.format(count=500))
    many = rows(given("find", place.out, "--rules", lower, "--json").out)
    assert {row["user"] for row in many} == {*QUIET, LOUD}
    shown = given("find", place.out / "changelog", "--rules", lower, "--limit", 1)
    assert len(shown.out.splitlines()) == 2
    assert f"1 of {len(many)} findings are shown" in shown.out
    assert given("find", place.out, "--rules", higher) == (
        0,
        "",
        "Nothing was found: no count breaks a rule.\n",
    )


def test_users_come_with_score_and_reason_most_abnormal_first(place: Place) -> None:
    found = rows(given("users", place.out, "--json").out)
    assert {row["user"] for row in found} == {*QUIET, LOUD}
    assert found[0]["user"] == LOUD
    assert all(row["reason"] for row in found)
    scores = [row["score"] for row in found]
    assert scores == sorted(scores, reverse=True)


def test_the_summary_as_json_is_one_object(place: Place) -> None:
    (found,) = rows(given("summary", place.out, "--json").out)
    assert found["events"] == len(EVENTS) - 2
    assert found["dead_letters"] == {"no_user": 1, "unparseable": 1}
    assert (found["late"], found["batches"]) == ({}, 1)


def test_the_report_is_written_where_it_was_asked_for(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    answer = given("report", place.out, "--html", path)
    assert answer == (0, f"The report is in {path}.\n", "")
    assert "<!doctype html>" in path.read_text(encoding="utf-8")[:100].lower()


def test_a_report_that_cannot_be_written_is_a_sentence(place: Place, tmp_path: Path) -> None:
    answer = given("report", place.out, "--html", tmp_path / "no" / "report.html")
    assert (answer.code, answer.out) == (2, "")
    assert "can't be written" in answer.err
    assert harmless(answer.err)


def test_a_full_disk_is_a_sentence_and_a_fault(place: Place) -> None:
    command = [*PROGRAM, "findings", str(place.out), "--json"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"Error: No space left on device.\n")


def test_another_configuration_is_refused_and_nothing_is_lost(place: Place) -> None:
    before = given("summary", place.out, "--json")
    answer = given(*place.command, "--windows", "1 minute,1 day")
    assert answer.code == 2
    assert "1 hour" in answer.err
    assert given("summary", place.out, "--json") == before


def test_a_second_run_adds_nothing_and_says_so(place: Place, spark: SparkSession) -> None:
    assert spark.range(1).count() == 1  # the session that is there is the one that is used
    before = given("counts", place.out, "--window", "1 minute", "--json").out
    answer = given(*place.command)
    assert answer.code == 0
    assert "No events were added: every file there had been counted before." in answer.out
    assert given("counts", place.out, "--window", "1 minute", "--json").out == before
    assert len(rows(given("findings", place.out, "--json").out)) == 1


def test_a_run_on_new_files_adds_just_these_and_prints_json_alone(
    place: Place, spark: SparkSession
) -> None:
    assert spark.range(1).count() == 1
    (place.events / "b.json").write_text(event("Zoë", days=1) + "\n", encoding="utf-8")
    answer = given(*place.command, "--json", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    (found,) = rows(answer.out)
    assert found["events"] == len(EVENTS) - 1
    assert found == rows(given("summary", place.out, "--json").out)[0]


def test_a_file_that_fails_ends_a_run_with_1_until_it_is_set_aside_or_mended(
    tmp_path: Path, spark: SparkSession
) -> None:
    assert spark.range(1).count() == 1
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "a.csv").write_text("time,user,action\n2025-07-01 10:00:00,Ann,read\n")
    failing = folder / "b.json"
    failing.symlink_to("/proc/self/mem")  # whose first byte nobody can read
    command = ("run", folder, *COLUMNS, "--out", out, "--quiet", "--input-timezone", "Asia/Tokyo")
    first = given(*command)
    assert first.code == 1
    assert f"'{failing}' can't be read: Input/output error." in first.err
    assert "--set-aside" in first.err
    assert harmless(first.err)
    assert given(*command, "--set-aside", folder / "b*").code == 0
    (summary,) = rows(given("summary", out, "--json").out)
    assert (summary["events"], summary["dead_letters"]) == (1, {"set_aside": 1})
    failing.unlink()
    failing.write_text(event("Bo") + "\n", encoding="utf-8")
    assert given(*command, "--readmit", folder / "b*").code == 0
    found = rows(given("counts", out, "--window", "1 hour", "--json").out)
    assert sorted((row["user"], row["window_start_ms"] // HOUR_MS) for row in found) == [
        (
            "Ann",
            int(datetime(2025, 7, 1, 1, tzinfo=UTC).timestamp()) // 3_600,
        ),  # ten o'clock in Tokyo
        ("Bo", BEGIN_MS // HOUR_MS),
    ]


def test_compacting_keeps_the_counts(place: Place) -> None:
    before = given("counts", place.out, "--window", "1 minute", "--json").out
    assert given("compact", place.out).code == 0
    (again,) = rows(given("compact", place.out, "--json").out)
    assert again["batches_folded"] == 0
    assert given("counts", place.out, "--window", "1 minute", "--json").out == before
