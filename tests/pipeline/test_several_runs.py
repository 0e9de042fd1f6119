"""Several runs in one session at once, which keep out of each other's way and of the user's."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

import kstoolkit as kst
from tests.pipeline.harness import (
    check_exact,
    events,
    finish,
    source,
    spawned,
    until,
    write_files,
    write_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

pytestmark = pytest.mark.spark

CASCADE = kst.Cascade("1 minute", "1 hour", flush={"1 hour": "0 s"}, lateness="7 days")


def pipeline(folder: Path, **options: Any) -> kst.Pipeline:
    return kst.Pipeline(**{"source": source(folder), "cascade": CASCADE, "buckets": 2, **options})


def of_the_user(spark: SparkSession) -> dict[str, Any]:
    """Return what a user has in a session of theirs."""
    active = SparkSession.getActiveSession()
    java: Any = spark._jsparkSession
    return {
        "settings": dict(spark.conf.getAll),
        "told": {(row.key, row.value) for row in spark.sql("SET -v").collect()},
        "queries": spark.streams.active,
        "tables": [table.name for table in spark.catalog.listTables()],
        "sources": java.sessionState().dataSourceManager().dataSourceExists("kstoolkit_files"),
        "active": active is not None and active._jsparkSession.equals(java),
    }


@pytest.fixture
def users(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with settings, a view and a function of a user's, active as in a notebook."""
    mine = spark.newSession()
    mine.createDataFrame([("Ann",)], "who string").createOrReplaceTempView("theirs")
    mine.udf.register("shouted", lambda text: text.upper())
    for name, value in {
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.execution.arrow.pyspark.enabled": "false",
    }.items():
        mine.conf.set(name, value)
    yield mine
    spark.createDataFrame([(1,)], "n int")  # makes it the active one again


@pytest.fixture
def stopped() -> Iterator[Callable[[Run], Run]]:
    """Have live runs stopped in the end."""
    begun: list[Run] = []

    def keep(run: Run) -> Run:
        begun.append(run)
        return run

    yield keep
    for run in begun:
        run.stop()


def test_a_backfill_beside_a_live_run_and_the_users_session_is_as_it_was(
    users: SparkSession, tmp_path: Path, stopped: Callable[[Run], Run]
) -> None:
    before = of_the_user(users)
    assert (before["queries"], before["tables"], before["active"]) == ([], ["theirs"], True)
    paths = {
        name: write_files(tmp_path / name, events(400, seed=n), 2) for n, name in enumerate("abc")
    }
    live = stopped(pipeline(tmp_path / "a", buckets=3).start(tmp_path / "live", trigger="300 ms"))
    assert of_the_user(users) == before
    backfill = pipeline(tmp_path / "b", buckets=1).run(tmp_path / "out", progress=False)
    assert of_the_user(users) == before
    frame = users.read.schema("time string, user string, action string").json(str(tmp_path / "c"))
    told = kst.frame(frame, event_time="time", user="user", action="action")
    framed = pipeline(tmp_path / "c", source=told).run(tmp_path / "framed", progress=False)
    assert of_the_user(users) == before
    paths["a"].append(write_lines(tmp_path / "a" / "more.json", events(100, seed=9)))
    until(lambda: live.summary().events == 500, "the live run to go on")
    assert users.sql("SELECT shouted(who) AS told FROM theirs").collect()[0].told == "ANN"
    live.stop()
    for run, name in ((live, "a"), (backfill, "b"), (framed, "c")):
        check_exact(run, paths[name])
    assert of_the_user(users) == before


@pytest.mark.usefixtures("users")
def test_functions_and_settings_of_the_session_hold_in_expressions(tmp_path: Path) -> None:
    row = {"time": "2025-03-01 09:30:00", "user": "ann", "action": "read"}
    write_lines(tmp_path / "in" / "a.json", [row])
    given = kst.files(
        tmp_path / "in", event_time="to_timestamp(time)", user="shouted(user)", action="action"
    )
    run = pipeline(tmp_path, source=given).run(tmp_path / "out", progress=False)
    (told,) = run.counts("1 hour").to_dict("records")
    assert (told["user"], str(told["window_start"])) == ("ANN", "2025-03-01 00:00:00+00:00")


@pytest.mark.usefixtures("spark")
def test_runs_started_at_once_from_threads_count_exactly_and_end_on_their_own(
    tmp_path: Path, stopped: Callable[[Run], Run]
) -> None:
    names, runs, failed = "abcd", dict[str, Any](), list[BaseException]()
    paths = {
        name: write_files(tmp_path / name, events(300, seed=n), 2) for n, name in enumerate(names)
    }
    together = threading.Barrier(len(names))

    def begin(number: int, name: str) -> None:
        mine, out = pipeline(tmp_path / name, buckets=number + 1), tmp_path / f"out {name}"
        try:
            together.wait()
            if name in "ab":
                runs[name] = stopped(mine.start(out, trigger="300 ms"))
            else:
                runs[name] = mine.run(out, progress=False, max_files_per_batch=1)
        except BaseException as error:  # noqa: BLE001 - of a thread's
            failed.append(error)

    threads = [threading.Thread(target=begin, args=each) for each in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for run in (runs["a"], runs["b"]):
        until(partial(_has, run, 300), "its events")
    assert len(kst.spark_memory().state.queries) == 2
    runs["a"].stop()
    paths["b"].append(write_lines(tmp_path / "b" / "more.json", events(50, seed=9)))
    until(lambda: runs["b"].summary().events == 350, "the other one's events")
    assert (runs["b"].is_active, runs["b"].failure()) == (True, None)
    runs["b"].stop()
    for name in names:
        check_exact(runs[name], paths[name])


def _has(run: Run, number: int) -> bool:
    return run.summary().events == number


INTERRUPTED = """
    import os, signal, sys, threading, time
    from pathlib import Path
    import kstoolkit as kst
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.harness import events, until, write_lines
    from tests.pipeline.test_several_runs import pipeline

    folder = Path(sys.argv[1])
    spark = spark_session("local[2]")
    live = pipeline(folder / "in").start(folder / "live", trigger="100 ms")
    until(lambda: live.summary().events, "the live run's first")
    def interrupt():
        until((folder / "back" / "checkpoint" / "offsets" / "1").exists, "a batch")
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        pipeline(folder / "many").run(folder / "back", progress=False, max_files_per_batch=1)
    except KeyboardInterrupt:
        write_lines(folder / "in" / "more.json", events(50, seed=9))
        until(lambda: live.summary().events == 150, "the live run to go on")
        print(live.is_active, live.failure(), live.restarts)
    live.stop()
"""


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.long
def test_ctrl_c_of_one_run_leaves_the_other(tmp_path: Path) -> None:
    write_files(tmp_path / "in", events(100), 1)
    write_files(tmp_path / "many", events(600, seed=2), 60)
    with spawned(INTERRUPTED, tmp_path) as process:
        code, out, errors = finish(process)
    assert (code, out) == (0, "True None 0\n"), errors
    paths = sorted((tmp_path / "many").glob("*.json"))
    again = pipeline(tmp_path / "many").run(tmp_path / "back", progress=False)
    check_exact(again, paths)
