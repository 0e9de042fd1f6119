"""Sessions beside windows, from files to counts, judged by DuckDB and Spark's session windows."""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from pyspark.sql import functions as sf

import kstoolkit as kst
from kstoolkit.changelog.compaction import compact
from kstoolkit.errors import CheckpointError, ConfigurationError
from kstoolkit.pipeline.tidying import compact_run
from tests.cli.commands import given
from tests.counters.test_sessions import BATCHES, Event, Told
from tests.pipeline.harness import (
    events,
    kill_group,
    newest,
    source,
    spawned,
    until,
    write_files,
    write_lines,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kstoolkit.pipeline.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

EACH, ALL = kst.Session("20 minutes", longest="7 days"), kst.Session("5 minutes", "7 days", by=[])
Rows = list[tuple[Any, ...]]

PROGRAM = """
    import sys
    from pathlib import Path
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.test_sessions import pipeline
    spark_session("local[2]")
    folder = Path(sys.argv[1])
    pipeline(folder).run(folder / "out", max_files_per_batch=1, progress=False)
"""


def pipeline(folder: Path) -> kst.Pipeline:
    """Return a run of windows and of two kinds of sessions."""
    cascade = kst.Cascade("1 hour", EACH, ALL)
    return kst.Pipeline(source=source(folder / "in"), cascade=cascade, rules=(), buckets=3)


def expected(paths: list[Path], session: kst.Session) -> Rows:
    """Find islands in the events by DuckDB, which knows nothing of ours."""
    group = '"user"' if session.is_over_all else '"user", action'
    query = f"""
        WITH events AS (
            SELECT epoch_ms(time) AS ms, "user", action
            FROM read_json(?, format = 'newline_delimited', columns =
                 {{'time': 'TIMESTAMP', 'user': 'VARCHAR', 'action': 'VARCHAR'}})),
        paused AS (
            SELECT *, ms - lag(ms) OVER (PARTITION BY {group} ORDER BY ms) > {session.gap_ms} AS new
            FROM events),
        numbered AS (
            SELECT *, count(*) FILTER (new) OVER (PARTITION BY {group} ORDER BY ms) AS number
            FROM paused),
        spans AS (
            SELECT {group}, number, min(ms) AS first, max(ms) AS last FROM numbered GROUP BY ALL)
        SELECT first, last, "user", action, count(*)
        FROM numbered JOIN spans USING ({group}, number)
        GROUP BY ALL ORDER BY ALL"""  # noqa: S608 - of our own names
    with duckdb.connect() as database:
        return database.execute(query, [[str(path) for path in paths]]).fetchall()


def told(frame: pd.DataFrame) -> Rows:
    times = [
        [int(each.timestamp() * 1_000) for each in frame[name]]
        for name in ("window_start", "window_end")
    ]
    columns = [frame[name].tolist() for name in ("user", "action", "count")]
    return sorted(zip(*times, *columns, strict=True))


def check(run: Run, paths: list[Path]) -> None:
    for session in (EACH, ALL):
        right = expected(paths, session)
        assert len({row[2] for row in right}) > 10
        assert told(run.counts(session.label, limit=None)) == right


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files in no order of time, and a run that has counted them one by one."""
    folder: Path = tmp_path_factory.mktemp("sessions")
    write_files(folder / "in", events(1_500, users=30, hours=20), 5)
    pipeline(folder).run(folder / "out", max_files_per_batch=1, progress=False)
    return folder


def test_they_are_those_of_all_events_at_once_whatever_file_these_came_in(place: Path) -> None:
    run = kst.load_run(place / "out")
    check(run, sorted((place / "in").iterdir()))
    assert run.settings.windows == ("1 hour", EACH.label, ALL.label)


def test_they_are_sparks_session_windows_but_for_the_gap_at_the_end(
    place: Path, spark: SparkSession
) -> None:
    read = spark.read.schema("time timestamp, user string, action string")
    counted = read.json(str(place / "in")).transform(kst.count_sessions(gap="20 minutes"))
    theirs = counted.toPandas()
    theirs["window_end"] -= pd.Timedelta(milliseconds=EACH.gap_ms)
    run = kst.load_run(place / "out")
    utc = {name: theirs[name].dt.tz_localize("UTC") for name in ("window_start", "window_end")}
    assert told(theirs.assign(**utc)) == told(run.counts(EACH, limit=None))


@drawn(BATCHES)
@settings(max_examples=5)  # each asks Spark
def test_whatever_comes_in_whatever_order_they_are_those_of_count_sessions(
    spark: SparkSession, batches: list[list[Event]]
) -> None:
    ours = Told(kst.Session("20 minutes", longest="7 days"))
    for batch in batches:
        ours.take(batch)
    rows = [event for batch in batches for event in batch]
    frame = spark.createDataFrame(rows, "user string, ms long, action string")
    frame = frame.withColumn("time", sf.timestamp_millis("ms"))
    counted = frame.transform(kst.count_sessions("20 minutes")).select(
        "user",
        sf.unix_millis("window_start"),
        "action",
        sf.unix_millis("window_end") - EACH.gap_ms,
        "count",
    )
    theirs = {tuple(row[:3]): tuple(row[3:]) for row in counted.collect()}
    assert ours.latest == theirs


def test_spark_and_the_command_read_what_python_reads(place: Path, spark: SparkSession) -> None:
    run = kst.load_run(place / "out")
    read = run.to_spark(spark, ALL.label).toPandas()
    utc = {name: read[name].dt.tz_localize("UTC") for name in ("window_start", "window_end")}
    assert told(read.assign(**utc)) == told(run.counts(ALL, limit=None))
    printed = given("counts", place / "out", "--window", EACH.label, "--json", "--limit", "100000")
    lines = [json.loads(line) for line in printed.out.splitlines()]
    names = ("window_start_ms", "window_end_ms", "user", "action", "count")
    rows = sorted(tuple(line[name] for name in names) for line in lines)
    assert rows == told(run.counts(EACH, limit=None))


def test_a_fold_keeps_them_and_who_swallowed_whom(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "in", events(900, seed=3, users=20), 6)
    run = pipeline(tmp_path).run(tmp_path / "out", max_files_per_batch=1, progress=False)
    compact(run.folder.path)
    check(run, paths)
    more = write_files(tmp_path / "more", events(300, seed=4, users=20), 1)
    moved = [path.rename(tmp_path / "in" / f"more-{path.name}") for path in more]
    again = pipeline(tmp_path).run(tmp_path / "out", progress=False)
    compact(again.folder.path)
    check(again, [*paths, *moved])


@pytest.mark.kill
@pytest.mark.slow
def test_a_killed_run_goes_on_exactly(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "in", events(1_200, seed=5, users=30), 5)
    commits = tmp_path / "out" / "checkpoint" / "commits"
    with spawned(PROGRAM, tmp_path) as process:
        until(lambda: newest(commits) >= 1, "two batches", seconds=240)
        kill_group(process)
    run = pipeline(tmp_path).run(tmp_path / "out", max_files_per_batch=1, progress=False)
    check(run, paths)


def test_a_live_run_flushes_them_at_its_stop(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "in", events(600, seed=6, users=20, hours=3), 2)
    cascade = kst.Cascade("1 hour", EACH, ALL, lateness="7 days")
    live = kst.Pipeline(source=source(tmp_path / "in"), cascade=cascade, rules=(), buckets=2)
    run = live.start(tmp_path / "out", trigger="100 ms")
    try:
        until(lambda: run.counts("1 hour")["count"].sum() == 600, "all events")
        paths += write_files(tmp_path / "later", events(200, seed=7, users=20, hours=3), 1)
        paths[-1] = paths[-1].rename(tmp_path / "in" / "later.json")
    finally:
        until(lambda: run.summary().events == 800, "what came later")
        run.stop()
    check(run, paths)


def test_sessions_expire_once_their_longest_has_passed_besides_and_others_stay(
    tmp_path: Path,
) -> None:
    short = kst.Session("20 minutes", longest="12 hours")
    day_ms, rows = 86_400_000, events(600, seed=6, users=20, hours=90)
    in_order = sorted(rows, key=lambda row: row["time"])
    paths = [
        write_lines(tmp_path / "in" / f"{number}.json", in_order[150 * number :][:150])
        for number in range(4)
    ]
    cascade = kst.Cascade("1 hour", short, ALL)
    run = kst.Pipeline(source=source(tmp_path / "in"), cascade=cascade, rules=(), buckets=2).run(
        tmp_path / "out", max_files_per_batch=1, progress=False
    )
    every = told(run.counts(short, limit=None))
    assert every == expected(paths, short)
    compact_run(run.folder.path, {short.label: "1 day"})
    assert told(run.counts(ALL.label, limit=None)) == expected(paths, ALL)
    left = told(run.counts(short, limit=None))
    gone = [row for row in every if row not in left]
    assert left == [row for row in every if row in left]
    assert min(len(gone), len(left)) > 50
    # Its clock is in the midst of the newest 32 batches, which are all that there are.
    reached_ms = median(
        hour.timestamp() * 1_000 for hour in run.counts("1 hour", limit=None).iloc[:, 0]
    )
    assert max(row[1] for row in gone) <= reached_ms - day_ms
    assert min(row[0] for row in left) >= reached_ms - day_ms - short.longest_ms - 3_600_000


def test_what_is_not_counted_by_sessions_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="own time"):
        kst.Pipeline(
            source=source(tmp_path), cascade=kst.Cascade("1 hour", EACH), time="processing"
        )
    with pytest.raises(ConfigurationError, match="session 20 minutes"):
        kst.Pipeline(source=source(tmp_path), rules=[kst.Ceiling(EACH, 5)])


def test_a_run_goes_on_with_the_sessions_that_it_began_with(place: Path) -> None:
    other = kst.Cascade("1 hour", EACH)
    changed = kst.Pipeline(source=source(place / "in"), cascade=other, rules=(), buckets=3)
    with pytest.raises(CheckpointError):
        changed.run(place / "out", progress=False)


def test_windows_beside_them_are_counted_as_ever(place: Path) -> None:
    run = kst.load_run(place / "out")
    read = duckdb.read_json(f"{place / 'in'}/*", format="newline_delimited")
    ((number, users),) = read.aggregate('count(*), count(DISTINCT "user")').fetchall()
    assert run.counts("1 hour", limit=None)["count"].sum() == number
    assert len(run.users()) == users
