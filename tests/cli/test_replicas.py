from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest

from tests.changelog.changelogs import HOUR, MINUTE, write
from tests.cli.commands import PROGRAM, ROOT, given, harmless, rows

if TYPE_CHECKING:
    from pathlib import Path

AT_TEN = 10 * HOUR
ASKED = ("--user", "ClueBot NG", "--window", "1 hour", "--at", "1970-01-01T10:30Z")


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run's output folder, as far as replicas care."""
    counts = {
        MINUTE: {(AT_TEN, "ClueBot NG", "Main"): 2},
        HOUR: {(AT_TEN, "ClueBot NG", "Main"): 61, (AT_TEN, "ClueBot NG", "User talk"): 1_042},
    }
    write(tmp_path / "out" / "changelog", 5, counts)
    return tmp_path / "out"


def test_restore_and_get_give_a_users_counts(run_folder: Path) -> None:
    replica = run_folder / "replica"
    made = given("restore", run_folder / "changelog", replica)
    assert made.code == 0
    assert made.out.startswith(f"The replica is in {replica}: 2 segments, ")
    assert made.out.endswith(" windows of 1 minute, 1 hour.\n")
    assert given("get", replica, *ASKED).out.splitlines() == [
        "action     count",
        "Main          61",
        "User talk  1,042",
    ]


def test_json_is_one_object_and_nothing_else(run_folder: Path) -> None:
    replica = run_folder / "replica"
    (made,) = rows(given("restore", run_folder, replica, "--json").out)
    assert made["windows"] == ["1 minute", "1 hour"]
    assert (made["segments"], made["epoch"], made["batch"]) == (2, 0, 5)
    files = [each for each in replica.glob("*/*/*") if each.is_file()]
    assert made["disk_bytes"] == sum(each.stat().st_blocks * 512 for each in files)
    assert made["sst_bytes"] == sum(each.stat().st_size for each in files if each.suffix == ".sst")
    (answer,) = rows(given("get", replica, *ASKED, "--json").out)
    assert answer == {
        "user": "ClueBot NG",
        "window_start_ms": AT_TEN,
        "window_end_ms": AT_TEN + HOUR,
        "counts": {"Main": 61, "User talk": 1_042},
        "updated_at_ms": 5_000,
        "unknown": {},
    }


def test_restoring_again_takes_in_what_is_new(run_folder: Path) -> None:
    replica = run_folder / "replica"
    given("restore", run_folder, replica)
    write(run_folder / "changelog", 6, {HOUR: {(AT_TEN, "ClueBot NG", "Main"): 62}})
    given("restore", run_folder, replica, "--profile", "point_lookup")
    answer = json.loads(given("get", replica, *ASKED, "--json").out)
    assert answer["counts"]["Main"] == 62


def test_who_did_nothing_has_no_counts_and_that_is_no_mistake(run_folder: Path) -> None:
    replica = run_folder / "replica"
    given("restore", run_folder, replica)
    nobody = given("get", replica, "--user", "\x1b[2J", *ASKED[2:])
    assert (nobody.code, nobody.out) == (0, "")
    assert "No counts of" in nobody.err
    assert harmless(nobody.err)
    told = json.loads(given("get", replica, "--user", "nobody", *ASKED[2:], "--json").out)
    assert (told["counts"], told["updated_at_ms"]) == ({}, None)
    assert "updated_at_ms" in told["unknown"]


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (("restore", "{}/nowhere", "{}/replica"), "No changelog in"),
        (("restore", "{}", "{}"), "is not empty, and no replica"),
        (
            ("restore", "{}", "{}/replica", "--profile", "point_lokup"),
            "Did you mean 'point_lookup'",
        ),
        (("restore", "{}", "{}/replica", "--every", "1 second"), "--follow is missing"),
        (("restore", "{}", "{}/replica", "--retention", "1 hour"), "name each window once"),
        (("restore", "{}", "{}/replica", "--retention", "1 hour="), "name each window once"),
        (("restore", "{}", "{}/replica", "--retention", "1 hour=a while"), "is not a duration"),
        (("restore", "{}", "{}/changelog/epoch=0/batch=5/_done/replica"), "can't be written"),
        (("get", "{}", *ASKED), "is no replica"),
        (("get", "{}/made", "--user", "\udcff", *ASKED[2:]), "is no text"),
        (
            ("get", "{}/made", *ASKED[:2], "--window", "1 day", "--at", "1970-01-01"),
            "no window '1 day'",
        ),
        (("get", "{}/made", *ASKED[:4], "--at", "noon"), "'noon' is not a time"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    run_folder: Path, mistake: tuple[str, ...], said: str
) -> None:
    given("restore", run_folder, run_folder / "made")
    answer = given(*(each.format(run_folder) for each in mistake))
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert harmless(answer.err)


def test_windows_are_kept_as_long_as_is_said_and_that_is_remembered(run_folder: Path) -> None:
    replica = run_folder / "replica"
    keep = ("--retention", "1 minute=30 minutes, 7 minutes=1 day")
    made = given("restore", run_folder, replica, *keep)
    assert "no windows of 7 minutes so far" in made.err
    later = {MINUTE: {(AT_TEN + 2 * HOUR, "ClueBot NG", "Main"): 1}}
    write(run_folder / "changelog", 6, later)
    again = given("restore", run_folder, replica)
    assert "2 segments, " in again.out
    assert again.out.endswith("; 1 was kept long enough and is dropped.\n")
    minute = given("get", replica, *ASKED[:2], "--window", "1 minute", "--at", "1970-01-01T10:00Z")
    assert "No counts of" in minute.err
    assert json.loads(given("get", replica, *ASKED, "--json").out)["counts"]["Main"] == 61


def test_quiet_prints_nothing_but_what_json_asks_for(run_folder: Path) -> None:
    assert given("restore", run_folder, run_folder / "replica", "--quiet")[:] == (0, "", "")
    (made,) = rows(given("restore", run_folder, run_folder / "replica", "-q", "--json").out)
    assert made["segments"] == 2


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_replica_keeps_up_until_it_is_stopped_and_says_its_lag(
    run_folder: Path, sign: signal.Signals
) -> None:
    replica = run_folder / "replica"
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    command = ("restore", run_folder, replica, "--follow", "--every", "20 ms", "--json")
    process = subprocess.Popen(
        [*PROGRAM, *map(str, command)], cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    try:
        shown = shown_until(ours, "0 records and 0.0 s behind; 0 records followed")
        write(run_folder / "changelog", 6, {HOUR: {(AT_TEN, "ClueBot NG", "Main"): 62}})
        shown += shown_until(ours, "0 records and 0.0 s behind; 1 record followed")
        (answer,) = rows(given("get", replica, *ASKED, "--json").out)
        second = given("restore", run_folder, replica)
        process.send_signal(sign)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
    assert answer["counts"]["Main"] == 62
    assert second.code == 2
    assert "followed by somebody else" in second.err
    assert process.returncode == 0
    assert [(each["segments"], each["batch"]) for each in rows(out)] == [(2, 6)]
    assert "Ctrl-C ends it" in shown
    assert "Traceback" not in shown


def shown_until(terminal: int, words: str) -> str:
    """Read what a terminal is shown until it is shown some words."""
    shown, end = "", time.monotonic() + 30
    while words not in shown:
        ready, _, _ = select.select([terminal], [], [], end - time.monotonic())
        assert ready, shown
        shown += os.read(terminal, 4096).decode()
    return shown
