"""What a run answers when it is asked, and what its folder says to those who ask it directly."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, InputError, LimitedResultWarning
from tests.pipeline.harness import (
    NAMES,
    check_exact,
    counted,
    differences,
    events,
    oracle,
    source,
    told,
    write_files,
    write_lines,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

pytestmark = pytest.mark.spark

EVENTS = 2_000
RULES = (kst.Ceiling("1 hour", 9), kst.Ceiling("1 day", 100))
CASCADE = kst.Cascade("1 minute", "1 hour", "1 day", min_count={"1 minute": 2})


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_files(tmp_path_factory.mktemp("in"), events(EVENTS, seed=5), 3)


@pytest.fixture(scope="module")
def run(spark: object, paths: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    assert spark is not None
    pipeline = kst.Pipeline(source=source(paths[0].parent), cascade=CASCADE, rules=RULES, buckets=3)
    out = tmp_path_factory.mktemp("run") / "out"
    return pipeline.run(out, max_files_per_batch=1, progress=False)


def test_an_earlier_run_is_opened_with_all_it_knows(run: Run) -> None:
    again = kst.load_run(run.folder.path)
    assert again.summary() == run.summary()
    assert told(again) == told(run) != []
    pd.testing.assert_frame_equal(again.counts("1 hour"), run.counts("1 hour"))
    assert not again.is_active


def test_a_folder_without_a_run_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No run in"):
        kst.load_run(tmp_path)


def test_counts_are_tidy_and_sorted(run: Run) -> None:
    frame = run.counts("1 hour")
    assert list(frame.columns) == ["window_start", "window_end", "user", "action", "count"]
    assert str(frame["window_start"].dt.tz) == "UTC"
    assert (frame["window_end"] - frame["window_start"] == pd.Timedelta("1h")).all()
    assert frame["count"].dtype == np.int64
    keys = frame[["window_start", "user", "action"]]
    pd.testing.assert_frame_equal(keys, keys.sort_values(list(keys.columns), ignore_index=True))


@pytest.mark.parametrize("user", [*NAMES[:3], "nobody at all"])
def test_a_users_events_are_read_once_more_from_the_files(
    run: Run, paths: list[Path], user: str
) -> None:
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    hour = run.counts("1 hour")["window_start"].mode()[0]
    end = hour + pd.Timedelta("1h")
    there = [
        (when, row["action"])
        for row in rows
        if row.get("user") == user and hour <= (when := pd.Timestamp(row["time"])) < end
    ]
    found = run.events(user, since=hour.to_pydatetime(), until=end.to_pydatetime(), limit=9_999)
    assert sorted(zip(found["time"], found["action"], strict=True)) == sorted(there)
    assert set(found["file"]) <= {str(path) for path in paths}
    few = run.events(user, since=hour.to_pydatetime(), until=end.to_pydatetime(), limit=2)
    assert len(few) == min(2, len(there))


def test_events_are_read_as_the_run_read_them(spark: object, tmp_path: Path) -> None:
    assert spark is not None
    (tmp_path / "in").mkdir()
    told = [
        {"time": f"2025-07-01T{hour}:30:00", "user": "Ann", "action": f"a\x1f{hour}"}
        for hour in (10, 12)
    ]
    write_lines(tmp_path / "in" / "a.log", told)
    here = source(tmp_path / "in", format="json", input_timezone="Europe/Berlin")
    run = kst.Pipeline(source=here, buckets=2).run(tmp_path / "out", progress=False)
    found = run.events("Ann", since="2025-07-01T10:00Z", until="2025-07-01T11:00Z")
    assert found["action"].tolist() == ["a\x1f12"], "noon there is ten o'clock UTC"
    assert len(run.counts("1 hour", user="Ann")) == 2
    kept = json.loads((run.folder.path / "run.json").read_text()) | {"reading": None}
    (run.folder.path / "run.json").write_text(json.dumps(kept))
    with pytest.raises(ConfigurationError, match="how they were read was not kept"):
        kst.load_run(run.folder.path).events("Ann", since=0, until=1)


def test_events_of_a_file_that_is_gone_are_not_there_and_of_no_files_it_is_said(
    run: Run, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(run.folder.path, moved)
    ledger = moved / "files.jsonl"
    ledger.write_text(ledger.read_text().replace("/in", "/nowhere"))
    assert not len(kst.load_run(moved).events(NAMES[0], since="2000-01-01", until="2100-01-01"))
    told = json.loads((moved / "run.json").read_text()) | {"feed": "frame"}
    (moved / "run.json").write_text(json.dumps(told))
    with pytest.raises(ConfigurationError, match="can't be read once more"):
        kst.load_run(moved).events(NAMES[0], since=0, until=1)


@pytest.mark.parametrize("user", [*NAMES[:3], "nobody at all"])
def test_counts_of_one_user_are_those_of_all_that_are_theirs(run: Run, user: str) -> None:
    every = run.counts("1 day")
    wanted = every[every["user"] == user].reset_index(drop=True)
    pd.testing.assert_frame_equal(run.counts("1 day", user=user), wanted)


def test_a_limit_is_announced_and_can_be_lifted(run: Run) -> None:
    total = len(run.counts("1 hour", limit=None))
    with pytest.warns(LimitedResultWarning, match=f"7 of {total:,} rows are shown"):
        assert len(run.counts("1 hour", limit=7)) == 7


def test_a_window_that_is_not_counted_is_told_with_those_that_are(run: Run) -> None:
    with pytest.raises(ConfigurationError, match="no window '5 minutes'") as raised:
        run.counts("5 minutes")
    assert raised.value.hint == "It has: 1 minute, 1 hour, 1 day."


def test_a_minimum_keeps_small_counts_out_and_the_summary_says_what_that_saved(
    run: Run, paths: list[Path]
) -> None:
    minutes = oracle(paths, "1 minute")
    small = {key for key, count in minutes.items() if count == 1}
    assert differences(run, "1 minute", {k: n for k, n in minutes.items() if n > 1}) == []
    for window in ("1 hour", "1 day"):
        assert differences(run, window, oracle(paths, window)) == []
    assert run.summary().left_out >= len(small)
    assert "min_count saved" in str(run.summary())


def test_the_summary_adds_up(run: Run) -> None:
    summary = run.summary()
    assert (summary.events, summary.batches, summary.late) == (EVENTS, 3, {})
    assert 0 < summary.counters_in <= EVENTS
    assert summary.to_dict()["dead_letters"] == {}
    assert summary.state_bytes is not None
    assert summary.first_batch_seconds is not None


def test_the_state_after_each_batch_is_kept_as_spark_reported_it(run: Run) -> None:
    held = run.batches().state
    rows = [each.rows for each in held if each is not None]
    assert len(rows) == 3
    assert rows == sorted(rows)
    assert rows[0] > 0
    assert all(each is None or each.memory_bytes > 0 for each in held)
    assert run.summary().state_rows == rows[-1]


def test_the_summary_says_how_many_events_there_were(run: Run) -> None:
    summary = run.summary()
    assert str(EVENTS // 1000) in str(summary)


def test_findings_hold_the_final_counts_of_what_crossed_the_line(
    run: Run, paths: list[Path]
) -> None:
    hours, days = oracle(paths, "1 hour"), oracle(paths, "1 day")
    crossed = {key for key, n in hours.items() if n > 9}
    found: dict[str, list[tuple[int, str, str]]] = {"1 hour": [], "1 day": []}
    for each in run.findings:
        counts = {"1 hour": hours, "1 day": days}[each.window]
        key = (each.window_start_ms, each.user, each.action)
        assert each.count == counts[key]
        found[each.window].append(key)
    assert set(found["1 hour"]) <= crossed
    assert {(user, action) for _, user, action in found["1 day"]} == {
        (user, action) for (_, user, action), n in days.items() if n > 100
    }


def test_every_user_has_a_score(run: Run, paths: list[Path]) -> None:
    users = run.users()
    assert set(users["user"]) == {user for _, user, _ in oracle(paths, "1 day")}
    assert users["score"].is_monotonic_decreasing
    assert users["user"].is_unique


def test_the_changelog_is_read_by_duckdb_as_it_is(run: Run, paths: list[Path]) -> None:
    folder = run.folder.path / "changelog"
    newest = f"""
        SELECT window_ms, epoch_ms(window_start), "user", action, max("count")
        FROM read_parquet('{folder}/*/*/*.parquet', hive_partitioning = true)
        WHERE window_ms = 3600000 GROUP BY ALL
    """  # noqa: S608 - the folder is ours
    with duckdb.connect() as database:
        rows = database.execute(newest).fetchall()
    assert {(start, user, action): n for _, start, user, action, n in rows} == oracle(
        paths, "1 hour"
    )


def test_the_folder_says_which_run_it_belongs_to(run: Run) -> None:
    settings = json.loads((run.folder.path / "run.json").read_text(encoding="utf-8"))
    assert settings["windows"] == ["1 minute", "1 hour", "1 day"]
    assert settings["columns"] == {"event_time": "time", "user": "user", "action": "action"}
    assert (settings["buckets"], settings["was_live"]) == (3, False)
    assert repr(run) == f"Run({str(run.folder.path)!r}, 1 minute, 1 hour, 1 day)"


def test_only_batches_with_a_marker_count(run: Run, paths: list[Path], tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run.folder.path, copy)
    (copy / "changelog" / "epoch=0" / "batch=2" / "_done").unlink()
    torn = kst.load_run(copy)
    assert counted(torn, "1 day") == oracle(paths[:2], "1 day")


@pytest.mark.usefixtures("spark")
def test_a_simulation_is_a_source_like_any_other(tmp_path: Path) -> None:
    simulation = kst.simulate(event_count=2_000, users=40, duration="30 hours", seed=3)
    run = kst.Pipeline(source=simulation, buckets=2).run(tmp_path / "out", progress=False)
    files = sorted((tmp_path / "out" / "simulated" / "events").glob("*"))
    assert run.summary().events == len(simulation.events())
    check_exact(run, files)


@pytest.mark.usefixtures("spark")
def test_progress_goes_to_stderr_and_nothing_to_stdout(
    paths: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kst.Pipeline(source=source(paths[0]), cascade=kst.Cascade("1 day"), buckets=1).run(
        tmp_path / "out"
    )
    said = capfd.readouterr()
    assert said.out == ""
    assert "counting" in said.err
    assert "events" in said.err


def test_a_pipeline_that_makes_no_sense_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigurationError, match="buckets is 0"):
        kst.Pipeline(source=source("in"), buckets=0)
    with pytest.raises(ConfigurationError, match="is not counted"):
        kst.Pipeline(
            source=source("in"), cascade=kst.Cascade("1 day"), rules=[kst.Ceiling("1 hour", 1)]
        )
    with pytest.raises(ConfigurationError, match="holds nothing"):
        kst.Pipeline(source=source("in")).run("out", max_files_per_batch=0)


@pytest.mark.usefixtures("spark")
def test_a_rule_that_was_out_for_a_run_finds_what_one_that_stayed_finds(tmp_path: Path) -> None:
    unusual, hours = kst.Unusual("1 hour"), kst.Cascade("1 hour")

    def hour(number: int, user: str, times: int) -> list[dict[str, str]]:
        moment = f"2025-03-{1 + number // 24:02d}T{number % 24:02d}:30:00Z"
        return [{"time": moment, "user": user, "action": "read"}] * times

    names = [f"user {n}" for n in range(40)]
    ordinary = [
        (n, who, 2 + (n + len(who) * place) % 3)
        for n in range(40)
        for place, who in enumerate(names)
    ]
    late = [(39, "user 1", 2), (41, "user 1", 4)]
    parts = [ordinary, late, [(41, "user 1", 1), (50, "user 1", 60)]]
    found = []
    for name, middle in (("stayed", [unusual]), ("out", [])):
        folder = tmp_path / name
        for number, (part, rules) in enumerate(
            zip(parts, ([unusual], middle, [unusual]), strict=True)
        ):
            rows = [row for each in part for row in hour(*each)]
            write_lines(folder / "in" / f"{number}.json", rows)
            given: dict[str, Any] = {
                "source": source(folder / "in"),
                "cascade": hours,
                "rules": rules,
            }
            run = kst.Pipeline(**given, buckets=1).run(folder / "out", progress=False)
        check_exact(run, sorted((folder / "in").glob("*.json")))
        found.append(told(run))
    assert found[0] == found[1]
    assert [each[1] for each in found[0]] == ["user 1"]
