"""At the terminal: kstoolkit's own counts against a store of Kafka Streams, and their changelog."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from tests.changelog.changelogs import HOUR, MINUTE, write
from tests.cli.commands import given, rows
from tests.replica.replicas import restored
from tests.stores.kafkastreams.archives import unpacked
from tests.stores.streamsstores import START_MS, int64, write_minutes, write_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.changelog.changelogs import Rows

OF_MINUTES = ("--window-size", "1 minute")


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory, "3.9.2")


@pytest.fixture(scope="module")
def theirs(streams: Path) -> Path:
    """Where a windowed count store lies."""
    [found] = [each for each in kst.discover(streams / "clean") if each.store == "actions-1m"]
    return streams / "clean" / found.path


@pytest.fixture(scope="module")
def events(streams: Path) -> dict[tuple[int, str], int]:
    """How many events of a user fell into a window: what the application read out of its store."""
    told = json.loads((streams / "expected" / "clean.json").read_text("utf-8"))
    [found] = [each["rows"] for each in told["stores"] if each["store"] == "actions-1m"]
    return {(row["start"], row["key"]): row["value"]["value"] for row in found}


@pytest.fixture
def ours(tmp_path: Path, events: dict[tuple[int, str], int]) -> Path:
    """Our counts of the same events: of each user and window the first one is a login."""
    counted: Rows = {(start, user, "login"): 1 for start, user in events}
    counted |= {
        (start, user, "act"): number - 1 for (start, user), number in events.items() if number > 1
    }
    write(tmp_path / "run" / "changelog", 1, {MINUTE: counted, HOUR: {(0, "Anna", "act"): 1}})
    return tmp_path / "run"


def test_a_count_store_of_kafka_streams_is_compared_with_our_counts(
    theirs: Path, ours: Path, events: dict[tuple[int, str], int]
) -> None:
    answer = given("diff", theirs, ours, *OF_MINUTES, "--total", "--json")
    told = rows(answer.out)
    # A read hides rows that have expired: the store still holds them.
    oldest = min(start for start, _ in events)
    assert all(row["change"] == "removed" and row["window_start_ms"] < oldest for row in told)
    assert answer.err == f"0 added, {len(told)} removed, 0 changed, {len(events)} equal.\n"
    assert len(events) > 70


def test_a_count_that_differs_is_shown_with_both(
    theirs: Path, ours: Path, events: dict[tuple[int, str], int]
) -> None:
    (start, user), number = next((at, n) for at, n in events.items() if at[1])
    write(ours / "changelog", 2, {MINUTE: {(start, user, "act"): 1000}})
    told = rows(given("diff", theirs, ours, *OF_MINUTES, "--total", "--json").out)
    [changed] = [row for row in told if row["change"] == "changed"]
    assert (changed["key"], changed["window_start_ms"]) == (user, start)
    assert (changed["value_a"], changed["value_b"]) == (number, 1001)


def test_one_action_is_compared_alone(theirs: Path, ours: Path) -> None:
    told = rows(given("diff", theirs, ours, *OF_MINUTES, "--action", "login", "--json").out)
    assert {row["value_b"] for row in told if row["change"] == "changed"} == {1}


def test_a_replica_is_compared_with_its_changelog_and_with_kafka_streams(
    theirs: Path, ours: Path, events: dict[tuple[int, str], int]
) -> None:
    replica = ours / "replica"
    restored(ours / "changelog", replica).close()
    level = replica / str(MINUTE)
    equal = f"{len(events)} equal.\n"
    for changelog in (ours, ours / "changelog"):
        answer = given("diff", level, changelog, *OF_MINUTES)
        assert (answer.code, answer.out) == (0, "")
        assert answer.err == f"0 added, 0 removed, 0 changed, {equal}"
    assert given("diff", theirs, level, *OF_MINUTES, "--total").err.endswith(equal)
    write(ours / "changelog", 2, {MINUTE: {(0, "Bo", "act"): 5}})
    answer = given("diff", level, ours, *OF_MINUTES)
    window = "[1970-01-01 00:00:00.000 to 1970-01-01 00:01:00.000]"
    assert answer.out == f"+ 'Bo' {window}: {{\"act\": 5}}\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "counts of windows of 1 minute, 1 hour.\nHint: Say of which, by --window-size."),
        (("--window-size", "1 day"), "no windows of 1 day"),
        ((*OF_MINUTES, "--total", "--action", "act"), "Hint: Give --action or --total."),
        ((*OF_MINUTES, "--versions", 1, 2), "only Spark's checkpoints keep several"),
    ],
)
def test_what_cannot_be_compared_is_a_mistake(
    ours: Path, options: tuple[object, ...], told: str
) -> None:
    answer = given("diff", ours, ours, *options)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err


def test_in_python_folders_are_compared_alike(
    theirs: Path, ours: Path, events: dict[tuple[int, str], int]
) -> None:
    told: dict[str, Any] = {"window_size": "1 minute", "total": True}
    with kst.diff_stores(theirs, ours, **told) as diff:
        assert (diff.added, diff.changed, diff.equal) == (0, 0, len(events))
    with kst.open_store(theirs) as store, kst.diff_stores(store, str(ours), **told) as diff:
        assert (diff.changed, diff.equal) == (0, len(events))
    with kst.diff_stores(theirs, ours, window_size="1 minute", by_value=True) as diff:
        assert diff.equal == 0
    with pytest.raises(ConfigurationError, match="Neither side is a folder of kstoolkit's counts"):
        kst.diff_stores(theirs, theirs, total=True)
    with (
        kst.open_store(theirs) as store,
        pytest.raises(ConfigurationError, match="open already: window_size can't be told"),
    ):
        kst.diff_stores(store, store, window_size="1 minute")


def test_all_partitions_of_a_store_are_one_side(tmp_path: Path) -> None:
    ours, state = tmp_path / "run", tmp_path / "state" / "my-app"
    starts = range(START_MS, START_MS + HOUR, 10 * MINUTE)
    write_minutes(state / "0_0" / "minutes", ["Anna"], segments=1)
    write_minutes(state / "0_1" / "minutes", ["Bo"], segments=1)
    write_store(state / "0_1" / "rocksdb" / "other", default={b"x": int64(1)})
    counted: Rows = {
        (start, user, "act"): start // MINUTE for start in starts for user in ("Anna", "Bo")
    }
    write(ours / "changelog", 1, {MINUTE: counted})
    which = ("--store", "minutes", *OF_MINUTES, "--total")
    answer = given("diff", tmp_path / "state", ours, *which)
    assert answer.err == "0 added, 0 removed, 0 changed, 12 equal.\n"
    with kst.diff_stores(
        tmp_path / "state", ours, store="minutes", window_size="1 minute", total=True
    ) as diff:
        assert (diff.equal, diff.removed) == (12, 0)
    answer = given("diff", tmp_path / "state", ours, "--store", "hours", *OF_MINUTES)
    assert (answer.code, answer.out) == (2, "")
    assert "no store 'hours'" in answer.err
    assert "Hint: There are: minutes, other." in answer.err
    write_minutes(tmp_path / "state" / "app-2" / "0_0" / "minutes", ["Cy"], segments=1)
    answer = given("diff", tmp_path / "state", ours, *which)
    assert answer.code == 2
    assert "2 applications or operators" in answer.err


def test_differences_are_written_to_a_file(theirs: Path, ours: Path, tmp_path: Path) -> None:
    path = tmp_path / "diff.csv"
    answer = given("diff", theirs, ours, *OF_MINUTES, "--to", path)
    assert (answer.code, answer.out) == (0, "")
    assert " changed, " in answer.err
    lines = path.read_text("utf-8").splitlines()
    assert lines[0].startswith('"change","key"')
    assert len(lines) > 70
    assert given("diff", theirs, ours, *OF_MINUTES, "--to", path).code == 2
    again = given("diff", theirs, ours, *OF_MINUTES, "--to", path, "--overwrite", "--limit", 3)
    assert again.code == 0
    assert len(path.read_text("utf-8").splitlines()) == 4


def test_stores_of_others_have_no_actions(theirs: Path) -> None:
    answer = given("diff", theirs, theirs, "--action", "act")
    assert (answer.code, answer.out) == (2, "")
    assert "Hint: Leave --action, --total and --where out." in answer.err
