"""Runs without an end: what arrives is counted soon, and stopping, killing, lateness do no harm."""

from __future__ import annotations

import random
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import mean
from threading import Thread
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

import kstoolkit as kst
from kstoolkit.counters.counters import Counters
from kstoolkit.errors import InputError, OutputError
from kstoolkit.pipeline.run import iter_dead_letters
from tests.cli.commands import given
from tests.pipeline.harness import (
    BEGIN,
    HOUR,
    MINUTE,
    check_exact,
    counted,
    differences,
    events,
    finish,
    kill_group,
    newest,
    oracle,
    source,
    spawned,
    until,
    write_files,
    write_lines,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kstoolkit.pipeline.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

LEVELS = ("1 minute", "1 hour", "1 day")
SOON = kst.Cascade(*LEVELS, flush=dict.fromkeys(LEVELS, "0 s"))
EPOCH_DAY = "1970-01-02T"

Starter = "Callable[..., Run]"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Start live runs over ``in`` into ``out``; those still running are stopped in the end."""
    (tmp_path / "in").mkdir()
    begun: list[Run] = []

    def starting(
        trigger: str = "500 ms", restart: Any = None, max_files: int | None = None, **options: Any
    ) -> Run:
        given = {"source": source(tmp_path / "in"), "cascade": SOON, "buckets": 2, **options}
        begun.append(
            kst.Pipeline(**given).start(
                tmp_path / "out",
                trigger=trigger,
                restart=restart or False,
                max_files_per_batch=max_files,
            )
        )
        return begun[-1]

    yield starting
    for run in begun:
        run.stop()


def event(moment: str, user: str = "Ann", action: str = "read") -> dict[str, str]:
    return {"time": moment, "user": user, "action": action}


def counts_reach(run: Run, window: str, total: int) -> None:
    """Wait until a window's counts add up to a number, and see that they stay there."""
    until(
        lambda: _total(run, window) >= total, f"{total} events in {window}", seconds=120, every=0.2
    )
    assert _total(run, window) == total


def _total(run: Run, window: str) -> int:
    return sum(counted(run, window).values())


def events_reach(run: Run, total: int) -> None:
    """Wait until so many events have come in, late ones too."""
    until(lambda: run.summary().events == total, f"{total} events")


def batches(run: Run) -> int:
    return run.summary().batches


def next_batch(run: Run, more: int = 1) -> None:
    """Wait until so many more micro-batches are done."""
    wanted = batches(run) + more
    until(lambda: batches(run) >= wanted, f"batch {wanted}", seconds=60, every=0.1)


def test_files_dropped_in_while_it_runs_are_counted_and_judged_at_once(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(rules=[kst.Ceiling("1 hour", 10)])
    assert run.is_active
    assert run.failure() is None
    paths = [write_lines(tmp_path / "in" / "a.json", [event("2025-03-01T10:00:00Z")] * 9)]
    counts_reach(run, "1 day", 9)
    assert len(run.findings) == 0
    paths.append(write_lines(tmp_path / "in" / "b.json", [event("2025-03-01T10:59:00Z")] * 3))
    counts_reach(run, "1 day", 12)
    until(lambda: len(run.findings), "the finding of an hour that is not over", seconds=20)
    assert [(f.user, f.count, f.window) for f in run.findings] == [("Ann", 12, "1 hour")]
    paths.append(write_lines(tmp_path / "in" / "c.json", [event("2025-03-01T10:30:00Z")] * 2))
    until(lambda: [f.count for f in run.findings] == [14], "the finding's newest count", seconds=60)
    assert run.is_active
    for window in LEVELS[1:]:  # the last ones came too late for their minute, as live runs go
        assert differences(run, window, oracle(paths, window)) == []


@pytest.mark.long
def test_hops_that_divide_nothing_are_exact_in_a_live_run(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    hops = ("5 seconds every 2 seconds", "1 minute", "7 minutes every 3 minutes")
    cascade = kst.Cascade(*hops, retention=100, flush=dict.fromkeys(hops, "1 s"))
    run = start(cascade=cascade, rules=[kst.Ceiling(hops[2], 40)])
    paths = []
    for number in range(3):
        came = events(150, seed=number, users=5, hours=0.1)
        paths.append(write_lines(tmp_path / "in" / f"{number}.json", came))
        events_reach(run, 150 * (number + 1))
    counts_reach(run, hops[2], sum(oracle(paths, hops[2]).values()))
    run.stop()
    check_exact(run, paths)
    assert run.summary().late == {}
    of_hop = {key: count for key, count in counted(run, hops[2]).items() if count > 40}
    assert {(f.window_start_ms, f.user, f.action): f.count for f in run.findings} == of_hop


def test_a_stopped_run_goes_on_where_it_was(start: Callable[..., Run], tmp_path: Path) -> None:
    paths = [write_lines(tmp_path / "in" / "a.json", [event("2025-03-01T10:00:00Z")] * 5)]
    first = start()
    counts_reach(first, "1 day", 5)
    first.stop()
    assert not first.is_active
    assert first.failure() is None
    paths.append(write_lines(tmp_path / "in" / "b.json", [event("2025-03-01T10:00:30Z")] * 2))
    second = start()
    counts_reach(second, "1 day", 7)
    second.stop()
    check_exact(second, paths)
    assert second.summary().events == 7


@pytest.mark.long
def test_windows_of_a_live_run_expire_and_no_others(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    cascade = kst.Cascade("1 minute", "1 hour", lateness="30 days", expire={"1 minute": "2 hours"})
    run, paths = start(cascade=cascade, max_files=1), []  # a file's batch is its own
    for half in range(34):  # thirty-two make a fold
        moment = f"2025-03-01T{half // 2:02d}:{half % 2 * 30:02d}:00Z"
        rows: list[Any] = [event(moment, f"user {n}") for n in range(5)]
        paths.append(write_lines(tmp_path / "in" / f"{half:02d}.json", rows))
        if half % 17 == 16:
            events_reach(run, 5 * len(paths))
    run.stop()
    again = kst.Pipeline(source=source(tmp_path / "in"), cascade=cascade, buckets=2)
    done = again.run(tmp_path / "out", progress=False)  # folds what is left, to the end
    assert differences(done, "1 hour", oracle(paths, "1 hour")) == []
    kept = counted(done, "1 minute")
    minutes = oracle(paths, "1 minute")
    newest_ms = max(at for at, _, _ in minutes)
    assert all(minutes[key] == count for key, count in kept.items())
    assert {key for key in minutes if key[0] > newest_ms - 2 * 3_600_000} <= set(kept)
    assert not [key for key in kept if key[0] < newest_ms - 10 * 3_600_000]


def test_who_stops_a_run_a_second_time_waits_until_all_is_flushed(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    paths = write_files(tmp_path / "in", events(300, hours=0.01), 1)
    held_back = kst.Cascade(*LEVELS, flush=dict.fromkeys(LEVELS[1:], "7 days"), retention=4)
    run = start(cascade=held_back, buckets=2)
    counts_reach(run, "1 day", 300)
    paths.append(write_lines(tmp_path / "in" / "new.json", events(40, hours=0.01, seed=5)))
    counts_reach(run, "1 minute", 340)
    first = Thread(target=run.stop)
    first.start()
    time.sleep(0.2)
    assert run.folder.is_held()
    run.stop()
    check_exact(run, paths)
    first.join()


def test_a_stop_says_when_the_run_s_folder_is_gone(
    start: Callable[..., Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lines(tmp_path / "in" / "a.json", [event("2025-03-01T10:00:00Z")])
    run = start()
    counts_reach(run, "1 day", 1)
    query = run.query
    assert query is not None
    # Counts are seen before their batch ends: what still writes would bring the folder back.
    until(
        lambda: (
            newest(tmp_path / "out" / "checkpoint" / "commits") == 0
            and not query.status["isTriggerActive"]
        ),
        "the batch's end",
    )
    (tmp_path / "out").rename(tmp_path / "gone")
    run.stop()
    assert f"No run in '{tmp_path / 'out'}': there is no such folder." in capsys.readouterr().err
    with pytest.raises(InputError, match="No run in"):
        run.summary()


def test_a_second_run_on_the_same_output_is_refused_until_the_first_ends(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    write_lines(tmp_path / "in" / "a.json", [event("2025-03-01T10:00:00Z")])
    run = start()
    with pytest.raises(OutputError, match=r"Another run is writing to .*out'\."):
        kst.Pipeline(source=source(tmp_path / "in")).run(tmp_path / "out")
    with pytest.raises(OutputError, match="Another run is writing"):
        start()
    counts_reach(run, "1 day", 1)
    run.stop()
    again = kst.Pipeline(source=source(tmp_path / "in"), buckets=2).run(
        tmp_path / "out", progress=False
    )
    assert again.summary().events == 1


def test_what_is_late_for_a_window_still_counts_in_the_longer_ones(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(
        cascade=kst.Cascade(*LEVELS, retention=2, flush=dict.fromkeys(LEVELS, "0 s")), buckets=1
    )
    rows = [
        event("2025-03-01T12:00:00Z"),
        event("2025-03-03T12:00:00Z"),
        event("2025-03-03T12:12:00Z"),
    ]
    for number, row in enumerate(rows):
        write_lines(tmp_path / "in" / f"{number}.json", [row])
        events_reach(run, number + 1)
    late = [
        event("2025-03-03T12:00:59Z"),  # a minute that is over and gone; its hour is open
        event("2025-03-03T09:00:00Z"),  # so is its hour; its day is open
        event("2025-03-01T12:00:00Z"),  # so is its day
    ]
    write_lines(tmp_path / "in" / "late.json", late)
    events_reach(run, 6)
    assert run.summary().late == {"1 minute": 3, "1 hour": 2, "1 day": 1}
    assert [_total(run, window) for window in LEVELS] == [3, 4, 5]


@pytest.mark.parametrize("max_future", [None, pytest.param("1 day", marks=pytest.mark.long)])
def test_one_client_whose_clock_is_eight_hours_ahead_makes_nobody_late(
    start: Callable[..., Run], tmp_path: Path, max_future: str | None
) -> None:
    now = datetime.now(UTC)
    ahead, paths = event((now + timedelta(hours=8)).isoformat(), user="ahead"), []
    busy = kst.Ceiling("1 hour", 15)
    run = start(source=source(tmp_path / "in", max_future=max_future), rules=[busy])
    for number in range(4):
        begin = now - timedelta(minutes=30 - 7 * number)
        rows = [
            event((begin + timedelta(seconds=n % 400)).isoformat(), user=f"user {n % 50}")
            for n in range(1_000)
        ]
        if number == 3:  # the clocks of two are a little ahead: of one, too much for a live run
            soon = {str(n): (now + timedelta(minutes=n)).isoformat() for n in (4, 7)}
            rows.extend(event(moment, user=who) for who, moment in soon.items())
        paths.append(write_lines(tmp_path / "in" / f"{number}.json", [ahead, *rows]))
        until(lambda: _total(run, "1 hour") >= len(paths) * 1_000, "its events")
    run.stop()
    assert run.summary().late == {}
    for window in LEVELS:
        expected = oracle(paths, window)
        if max_future is None:
            expected = {key: n for key, n in expected.items() if key[1] not in {"ahead", "7"}}
        assert differences(run, window, expected) == []
    assert run.dead_letters.by_reason == ({} if max_future else {"future_time": 5})
    found = {(f.user, f.window_start_ms) for f in run.findings if f.window == "1 hour"}
    hours = oracle(paths, "1 hour").items()
    assert found == {(user, at) for (at, user, _), number in hours if number > 15}


@pytest.mark.long
def test_old_data_counted_again_is_late_for_nobody_though_a_clock_is_ahead_alone_in_its_bucket(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    ahead = event("2020-03-01T20:00:00Z", user="ahead")
    run, paths = start(buckets=16), []
    for number in range(3):
        begin = datetime(2020, 3, 1, 12, number, tzinfo=UTC)
        rows = [
            event((begin + timedelta(seconds=n % 60)).isoformat(), user=f"user {n}")
            for n in range(4 if number == 0 else 200)
        ]
        paths.append(write_lines(tmp_path / "in" / f"{number}.json", [ahead, *rows]))
        events_reach(run, sum(len(path.read_text().splitlines()) for path in paths))
    run.stop()
    assert run.summary().late == {}
    check_exact(run, paths)


def test_old_data_counted_again_is_late_for_nobody_though_a_clock_is_ahead_alone_in_its_file(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    ahead = [event("2020-03-01T20:00:00Z", user="ahead")]  # read by a task of its own
    four = [event("2020-03-01T12:00:00Z", user=f"user {n}") for n in range(4)]
    incoming = tmp_path / "in"
    paths = [write_lines(incoming / "a.json", ahead), write_lines(incoming / "b.json", four)]
    run = start(buckets=16)
    events_reach(run, 5)
    assert len([each for each in run.batches() if each.events]) == 1
    for minute in (1, 2):
        late = [event(f"2020-03-01T12:0{minute}:00Z", user=f"user {n}") for n in range(200)]
        paths.append(write_lines(incoming / f"{minute}.json", late))
        events_reach(run, 5 + 200 * minute)
    run.stop()
    assert run.summary().late == {}
    check_exact(run, paths)


def test_a_file_that_fails_for_a_while_is_counted_by_a_run_that_may_start_again(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    paths = [write_lines(tmp_path / "in" / "a.json", [event("2025-03-01T10:00:00Z")] * 5)]
    run = start(restart=kst.Restart(most_per_hour=50, longest_pause="1 second"))
    counts_reach(run, "1 day", 5)
    failing = tmp_path / "in" / "b.json"
    failing.symlink_to("/proc/self/mem")  # whose first byte nobody can read
    until(lambda: run.restarts, "the run to start again")
    told = (tmp_path / "out" / "restarts.jsonl").read_text()
    assert f"'{failing}' can't be read: Input/output error." in told
    paths.append(write_lines(failing, [event("2025-03-01T10:00:30Z")] * 2))
    counts_reach(run, "1 day", 7)
    run.stop()
    check_exact(run, paths)
    assert (len(run.dead_letters), run.failure()) == (0, None)


def test_a_window_whose_state_is_gone_is_not_reported_anew(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(
        cascade=kst.Cascade(*LEVELS, retention=1, flush=dict.fromkeys(LEVELS, "0 s")), buckets=1
    )
    first = [event("2025-03-01T12:00:10Z")] * 7
    write_lines(tmp_path / "in" / "0.json", first)
    counts_reach(run, "1 minute", 7)
    write_lines(tmp_path / "in" / "1.json", [event("2025-03-09T12:00:00Z")])
    counts_reach(run, "1 minute", 8)
    write_lines(tmp_path / "in" / "2.json", [event("2025-03-01T12:00:20Z")])
    events_reach(run, 9)
    found = counted(run, "1 minute")
    # The changelog keeps what it was told, though state has forgotten it.
    assert sorted(found.values()) == [1, 7]


def test_buckets_that_nobody_writes_to_are_flushed_by_ticks(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    slow = kst.Cascade(*LEVELS, flush={"1 minute": "0 s", "1 hour": "3 s", "1 day": "6 s"})
    paths = write_files(tmp_path / "in", events(200, hours=0.01), 1)
    run = start(cascade=slow, buckets=4)
    counts_reach(run, "1 day", 200)
    check_exact(run, paths)


def test_where_nothing_comes_any_more_one_micro_batch_flushes_all_buckets(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    slow = kst.Cascade(*LEVELS, flush=dict.fromkeys(LEVELS[1:], "20 s"))
    paths = write_files(tmp_path / "in", events(400, hours=0.01), 1)
    run = start(cascade=slow, buckets=8)  # one of them is due each 2.5 s
    counts_reach(run, "1 minute", 400)
    paths.append(write_lines(tmp_path / "in" / "new.json", events(200, hours=0.01, seed=5)))
    counts_reach(run, "1 minute", 600)
    before = batches(run)
    counts_reach(run, "1 day", 600)
    assert batches(run) - before <= 2
    check_exact(run, paths)


def test_a_bounded_run_after_a_live_one_flushes_what_that_held_back(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    paths = write_files(tmp_path / "in", events(300, hours=0.01), 1)
    held_back = kst.Cascade(*LEVELS, flush=dict.fromkeys(LEVELS[1:], "7 days"), retention=4)
    # The first flush of all is due at once, whatever the interval; what comes after it waits.
    run = start(cascade=held_back, buckets=3)
    counts_reach(run, "1 minute", 300)
    paths.append(write_lines(tmp_path / "in" / "new.json", events(40, hours=0.01, seed=5)))
    counts_reach(run, "1 minute", 340)
    assert _total(run, "1 day") == 300
    cut_off(run)
    bounded = kst.Pipeline(source=source(tmp_path / "in"), cascade=held_back, buckets=3).run(
        tmp_path / "out", progress=False
    )
    check_exact(bounded, paths)


def cut_off(run: Run) -> None:
    """End a live run as a kill would, between two batches."""
    assert run.query is not None
    StreamingQuery.stop(run.query)
    until(lambda: not run.is_active, "its end")
    run.closes.close()


def test_a_stop_flushes_all_levels_and_what_is_read_before_is_told_as_of_when(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    paths = write_files(tmp_path / "in", events(300, hours=0.01), 1)
    held_back = kst.Cascade(*LEVELS, flush=dict.fromkeys(LEVELS[1:], "7 days"), retention=4)
    run = start(cascade=held_back, buckets=3)
    counts_reach(run, "1 day", 300)
    flushed = datetime.now(UTC)
    paths.append(write_lines(tmp_path / "in" / "new.json", events(40, hours=0.01, seed=5)))
    counts_reach(run, "1 minute", 340)
    as_of = run.as_of()
    assert set(as_of) == set(LEVELS[1:])
    assert all(each is not None and each < flushed for each in as_of.values())
    assert "1 day as of" in str(run.summary())
    run.report(tmp_path / "report.html")
    assert "1 day as of" in (tmp_path / "report.html").read_text()
    told = f"Counts of 1 day as of {as_of['1 day']:%Y-%m-%d %H:%M:%S} UTC; what came later waits"
    for name, more in {"counts": ["--window", "1 day"], "users": ["--json"]}.items():
        assert told in given(name, tmp_path / "out", *more).err
    assert "as of" not in given("counts", tmp_path / "out", "--window", "1 minute").err
    run.stop()
    assert run.as_of() == {}
    check_exact(run, paths)
    again = start(cascade=held_back, buckets=3)
    paths.append(write_lines(tmp_path / "in" / "more.json", events(20, hours=0.01, seed=6)))
    counts_reach(again, "1 minute", 360)
    again.stop()
    check_exact(again, paths)


def test_an_idle_live_run_makes_no_micro_batches_but_when_a_flush_is_due(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    slow = kst.Cascade(*LEVELS, flush={"1 minute": "0 s", "1 hour": "4 s", "1 day": "8 s"})
    paths = write_files(tmp_path / "in", events(200, hours=0.01), 1)
    run = start(cascade=slow, buckets=2, trigger="100 ms")
    counts_reach(run, "1 day", 200)
    paths.append(write_lines(tmp_path / "in" / "new.json", events(40, hours=0.01, seed=5)))
    counts_reach(run, "1 day", 240)
    until(lambda: not run.as_of(), "all flushed")
    made = batches(run)
    assert made < 12, "one for each file, and for what was due of each bucket"
    time.sleep(3)
    assert batches(run) == made
    assert run.rests
    check_exact(run, paths)


def test_a_live_run_hands_on_no_more_than_its_limit_and_says_what_waits(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    cascade = kst.Cascade("1 minute", "1 hour", flush={"1 hour": "0 s"}, max_counters_per_flush=20)
    paths = write_files(tmp_path / "in", events(120, hours=0.5), 1)
    run = start(cascade=cascade, buckets=1)
    until(lambda: run.summary().backlog.get("1 minute"), "a backlog", every=0.05)
    counts_reach(run, "1 hour", 120)
    check_exact(run, paths)
    until(lambda: not run.summary().backlog, "nothing to wait")


PROGRAM = """
    import sys, time
    import kstoolkit as kst
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.harness import source
    spark_session("local[2]")
    cascade = kst.Cascade("1 minute", "1 hour", "1 day", flush={"1 hour": "0 s", "1 day": "7 days"})
    kst.Pipeline(source=source(sys.argv[1]), cascade=cascade, buckets=2).start(
        sys.argv[2], trigger="200 ms"
    )
    print("started", flush=True)
    time.sleep(600)
"""


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.slow
def test_a_killed_live_run_leaves_no_lock_and_nothing_half_counted(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "in", events(400, hours=0.02), 3)
    with spawned(PROGRAM, tmp_path / "in", tmp_path / "out") as process:
        until((tmp_path / "out" / "run.json").exists, "the run to begin")
        counts_reach(kst.load_run(tmp_path / "out"), "1 minute", 400)
        with pytest.raises(OutputError, match="Another run is writing"):
            kst.Pipeline(source=source(tmp_path / "in"), buckets=2).run(tmp_path / "out")
        paths.append(write_lines(tmp_path / "in" / "new.json", events(50, seed=3, hours=0.02)))
        kill_group(process)
    bounded = kst.Pipeline(source=source(tmp_path / "in"), buckets=2).run(
        tmp_path / "out", progress=False
    )
    check_exact(bounded, paths)
    assert bounded.summary().events == 450


def test_processing_time_counts_by_the_clock_of_the_batch(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    cascade = kst.Cascade("1 second", "1 hour", flush={"1 hour": "0 s"})
    begun = time.time_ns() // 1_000_000
    write_lines(tmp_path / "in" / "a.json", [event("1999-12-31T10:00:00Z")] * 4)
    run = start(cascade=cascade, time="processing")
    counts_reach(run, "1 hour", 4)
    time.sleep(1.1)
    write_lines(tmp_path / "in" / "b.json", [event("2001-01-01T10:00:00Z")] * 3)
    counts_reach(run, "1 hour", 7)
    ended = time.time_ns() // 1_000_000
    found = counted(run, "1 second")
    assert sorted(found.values()) == [3, 4]
    assert all(begun - 1_000 < start_ms <= ended for start_ms, _, _ in found)


def test_a_folder_that_is_empty_is_followed_until_something_comes(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start()
    next_batch(run)
    path = write_lines(tmp_path / "in" / "sub" / "a.json", [event("2025-03-01T10:00:00Z")])
    counts_reach(run, "1 day", 1)
    check_exact(run, [path])


@pytest.mark.long
def test_counts_of_windows_that_a_live_run_forgot_are_still_answered(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    rows = sorted(events(300, hours=6), key=lambda row: row["time"])
    run = start(
        cascade=kst.Cascade("1 minute", "1 hour", retention=1, flush={"1 hour": "0 s"}), buckets=1
    )
    paths = []
    for number in range(3):
        part = rows[number * 100 : (number + 1) * 100]
        paths.append(write_lines(tmp_path / "in" / f"{number}.json", part))
        counts_reach(run, "1 hour", 100 * (number + 1))
    assert differences(run, "1 minute", oracle(paths, "1 minute")) == []
    assert {start // HOUR * HOUR % MINUTE for start, _, _ in counted(run, "1 hour")} == {0}


def folders(run: Run) -> dict[str, int]:
    kinds = ("changelog", "dead_letters", "statistics")
    return {kind: len([*(run.folder.path / kind).glob("epoch=0/batch=*")]) for kind in kinds}


@pytest.mark.long
def test_batches_of_a_bounded_run_are_folded_at_its_end_and_those_of_a_live_one_as_it_goes(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    paths: list[Path] = []

    def more() -> Path:
        number = len(paths)
        rows: list[Any] = [event(f"2025-03-01T10:{number % 5:02d}:00Z", f"user {number}")] * 3
        paths.append(write_lines(tmp_path / "in" / f"{number:03d}.json", [*rows, "no JSON"]))
        return paths[-1]

    for _ in range(32):
        more()
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), cascade=SOON, buckets=2)
    run = pipeline.run(tmp_path / "out", max_files_per_batch=1, progress=False)
    assert run.summary().batches == len(run.batches()) == 32
    assert folders(run) == dict.fromkeys(("changelog", "dead_letters", "statistics"), 17)
    check_exact(run, paths)
    live = start(trigger="100 ms", max_files=1)
    for _ in range(18):
        more()
    events_reach(live, 3 * len(paths))
    until(lambda: folders(live)["statistics"] < 17 + 18, "the thread to fold", seconds=60)
    live.stop()
    assert not [each for each in threading.enumerate() if each.name == "kstoolkit-tidying"]
    again = start(trigger="100 ms")
    more()
    events_reach(again, 3 * len(paths))
    again.stop()
    check_exact(again, paths)
    assert again.summary().dead_letters == {"unparseable": len(paths)}
    letters = [row for rows in iter_dead_letters(again.folder.path) for row in rows.to_pylist()]
    assert sorted(row["file"] for row in letters) == sorted(map(str, paths))
    assert [each.batch for each in again.batches()] == list(range(again.summary().batches))


HELD, OUTRUN_SECONDS = 500, 121
OUTRUN = """
    import sys, time
    from pathlib import Path
    import kstoolkit as kst
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.harness import source
    place = Path(sys.argv[1])
    spark_session("local[2]")
    levels = "1 minute", "1 hour", "1 day"
    cascade = kst.Cascade(
        *levels, flush=dict.fromkeys(levels, "0 s"), max_counters_per_flush=int(sys.argv[2])
    )
    run = kst.Pipeline(source=source(place / "in"), cascade=cascade, buckets=2).start(
        place / "out", trigger="1 second", max_files_per_batch=2
    )
    while not (place / "stop").exists():
        if not run.is_active:
            raise run.failure() or SystemExit("the run has ended")
        time.sleep(0.1)
    run.stop()
"""


@dataclass(slots=True)
class Outrunning:
    """A producer whose files come faster than a run takes them, however fast the machine is.

    At any time it has written as many more than were taken as are to wait by then, in the end
    ``most``.
    """

    place: Path
    most: int = 40
    per_file: int = 1_000
    draw: random.Random = field(default_factory=lambda: random.Random(7))
    paths: list[Path] = field(default_factory=list)

    def write(self) -> None:
        """Write files until the time is over."""
        begun = time.monotonic()
        while (spent := (time.monotonic() - begun) / OUTRUN_SECONDS) < 1:
            if self.waiting() < 3 + self.most * spent:
                self._write_file(BEGIN + timedelta(seconds=20 * len(self.paths)))
            else:
                time.sleep(0.02)

    def waiting(self) -> int:
        """Return how many files no batch has taken that Spark's own logs tell to be done."""
        logs = self.place / "out" / "checkpoint"
        batch = newest(logs / "commits")
        offsets = (logs / "offsets" / str(batch)).read_text() if batch >= 0 else '{"files": 0}'
        return len(self.paths) - int(re.findall(r'"files":\s*(\d+)', offsets)[0])

    def _write_file(self, begin: datetime) -> None:
        moments = (self.draw.randrange(60_000) for _ in range(self.per_file))
        rows = [
            event(
                (begin + timedelta(milliseconds=at)).isoformat(),
                f"user {self.draw.randrange(5_000)}",
            )
            for at in moments
        ]
        path = self.place / "in" / f"{len(self.paths):05d}.json"
        self.paths.append(write_lines(path, rows))


@dataclass(slots=True)
class Watched:
    """What was seen of a run and of its source, look after look."""

    waiting: list[int] = field(default_factory=list)
    resident_mib: list[float] = field(default_factory=list)
    held: list[dict[tuple[int, int], int]] = field(default_factory=list)

    def look(self, waiting: int, pid: int) -> None:
        self.waiting.append(waiting)
        self.resident_mib.append(resident_mib(pid))

    def most_held(self) -> dict[tuple[int, int], int]:
        """Return the most that any look found pending in each level of each bucket."""
        places = {place for each in self.held for place in each}
        return {place: max(each.get(place, 0) for each in self.held) for place in sorted(places)}


def resident_mib(pid: int) -> float:
    """Return what a process and all its children have in memory."""
    process, total = psutil.Process(pid), 0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += each.memory_info().rss
    return total / (1 << 20)


def pending(spark: SparkSession, checkpoint: Path) -> dict[tuple[int, int], int] | None:
    """Return how many counters each bucket and level holds, as Spark's reader has the state.

    Nothing is returned if the run, which goes on meanwhile, has removed files that were being read.
    """
    reader = spark.read.format("statestore").option("stateVarName", "blocks")
    try:
        rows = reader.load(str(checkpoint)).where("user_map_key.key LIKE 'pending/%'").collect()
    except (PySparkException, Py4JJavaError):
        return None
    held = {}
    for row in rows:
        level = int(row.user_map_key.key.removeprefix("pending/"))
        held[row.key[0] % 2, level] = len(Counters.decode(bytes(row.user_map_value.block)))
    return held


def thirds(figures: list[float] | list[int]) -> list[float]:
    """Return the mean of each third."""
    third = len(figures) // 3
    return [mean(figures[n * third : (n + 1) * third]) for n in range(3)]


def watched(process: subprocess.Popen[str], producer: Outrunning, spark: SparkSession) -> Watched:
    """Look at a run while files come, and until it has caught up."""
    seen, checkpoint = Watched(), producer.place / "out" / "checkpoint"
    writing = Thread(target=producer.write)
    writing.start()
    while writing.is_alive():
        seen.look(producer.waiting(), process.pid)
        if len(seen.waiting) % 6 == 0 and (held := pending(spark, checkpoint)) is not None:
            seen.held.append(held)
        writing.join(1)
    until(lambda: producer.waiting() == 0, "it to catch up", seconds=120)
    until(lambda: pending(spark, checkpoint) == {}, "nothing to be held", every=0.5)
    return seen


@pytest.mark.long
@pytest.mark.slow
def test_a_source_that_outruns_the_flushes_of_a_run_waits_and_nothing_piles_up_in_the_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    producer = Outrunning(tmp_path)
    with spawned(OUTRUN, tmp_path, HELD) as process:
        begun = tmp_path / "out" / "checkpoint" / "commits" / "0"
        until(lambda: begun.exists() or process.poll() is not None, "the first batch")
        seen = watched(process, producer, spark)
        (tmp_path / "stop").touch()
        code, _, errors = finish(process)
    assert code == 0, errors
    assert len(seen.held) >= 6
    everywhere = [(bucket, level) for bucket in range(2) for level in range(3)]
    assert seen.most_held() == dict.fromkeys(everywhere, HELD)
    waiting = thirds(seen.waiting)
    assert max(seen.waiting) >= 24
    assert waiting == sorted(waiting), "ever more waits, where it can"
    first, _, last = thirds(seen.resident_mib)
    assert last <= 1.25 * first
    run = kst.load_run(tmp_path / "out")
    summary = run.summary()
    assert (summary.late, summary.dead_letters, summary.backlog) == ({}, {}, {})
    assert summary.events == len(producer.paths) * producer.per_file
    check_exact(run, producer.paths)
