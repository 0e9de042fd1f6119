from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.changelog.changelogs import HOUR, MINUTE, write
from tests.cli.commands import given, harmless, rows

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
    assert made["disk_bytes"] > 0
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
        (("get", "{}", *ASKED), "is no replica"),
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
