"""Alerts of runs that count with Spark: at their end, as they go, and after they were killed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from tests.cli.commands import COLUMNS, given
from tests.pipeline.alerted import Listener, listening
from tests.pipeline.harness import BEGIN, kill_group, source, spawned, until, write_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RULES = (kst.Ceiling("1 hour", 5),)
USERS = 15

LIVE = """
    import sys
    from kstoolkit.pipeline.session import spark_session
    from pathlib import Path
    from tests.pipeline.test_alerting_runs import pipeline
    spark_session("local[2]")
    folder = Path(sys.argv[1])
    run = pipeline(folder, sys.argv[2]).start(
        folder / "out", trigger="1 second", max_files_per_batch=1
    )
    run.query._leading.join()
"""


def pipeline(folder: Path, url: str) -> kst.Pipeline:
    return kst.Pipeline(
        source=source(folder / "in"), rules=RULES, buckets=2, alert_to=kst.webhook(url)
    )


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


def busy(users: range, hour: int) -> list[dict[str, str]]:
    """Return events of users who do ten things within an hour, where five are allowed."""
    times = [(BEGIN + timedelta(hours=hour, minutes=5 * n)).isoformat() for n in range(10)]
    return [{"time": t, "user": f"user {n}", "action": "read"} for n in users for t in times]


def write(folder: Path, files: int = 5) -> None:
    """Write a file each for some users, whose hours lie six hours apart."""
    each = USERS // files
    for number in range(files):
        rows = busy(range(number * each, (number + 1) * each), 6 * number)
        write_lines(folder / "in" / f"{number}.json", rows)


def check_all_told(run: Run, listener: Listener) -> None:
    """Check that each incident opened, and ended if it did, in this order; and nothing else."""
    told: dict[str, list[str]] = {}
    for name, state in dict.fromkeys(listener.states()):
        told.setdefault(name, []).append(state)
    incidents = run.incidents()
    assert len(incidents) >= USERS
    ends = {each.id: [] if each.state == "open" else [each.state] for each in incidents}
    assert told == {name: ["open", *end] for name, end in ends.items()}


@pytest.mark.usefixtures("spark")
def test_a_bounded_run_tells_all_it_found_and_nothing_twice(
    tmp_path: Path, listener: Listener
) -> None:
    write(tmp_path)
    run = pipeline(tmp_path, listener.url).run(tmp_path / "out", progress=False)
    check_all_told(run, listener)
    told = len(listener.came)
    pipeline(tmp_path, listener.url).run(tmp_path / "out", progress=False)
    assert len(listener.came) == told
    assert set(Counter(listener.keys()).values()) == {1}


@pytest.mark.usefixtures("spark")
def test_a_live_run_tells_as_it_goes_and_a_receiver_that_is_away_does_not_hold_it_up(
    tmp_path: Path, listener: Listener
) -> None:
    write(tmp_path)
    listener.answer = lambda _: 503
    run = pipeline(tmp_path, listener.url).start(tmp_path / "out", trigger="1 second")
    until(lambda: listener.came, "the first alert")
    write_lines(tmp_path / "in" / "more.json", busy(range(20, 25), 40))
    until(lambda: run.summary().events == 200, "what came later")
    listener.answer = lambda _: 200
    until(lambda: len(listener.taken) >= len(run.incidents()), "all of them")
    run.stop()
    pipeline(tmp_path, listener.url).run(tmp_path / "out", progress=False)
    check_all_told(run, listener)
    assert set(Counter(listener.keys()).values()) == {1}


def only_before(listener: Listener, most: int, over: Event, _: object) -> int:
    """Take what comes; but from one on leave it open, so that its sender is killed meanwhile."""
    if len(listener.came) >= most:
        over.wait(120)
        return 503
    return 200


@pytest.mark.kill
@pytest.mark.usefixtures("spark")
def test_a_live_run_that_is_killed_while_it_tells_loses_no_alert(
    tmp_path: Path, listener: Listener
) -> None:
    write(tmp_path)
    over = Event()
    for number in (1, 4, 9):
        most = len(listener.came) + number
        listener.answer = partial(only_before, listener, most, over)
        with spawned(LIVE, tmp_path, listener.url) as process:
            until(lambda: len(listener.came) >= most, f"alert {most}")  # noqa: B023 - at once
            kill_group(process)
    over.set()
    listener.answer = lambda _: 200
    run = pipeline(tmp_path, listener.url).run(tmp_path / "out", progress=False)
    check_all_told(run, listener)
    came = Counter(each.key for each in listener.came)
    assert 0 < came.total() - len(came) <= 3


def test_the_command_line_tells_whom_it_is_given_and_whom_the_rules_name(
    tmp_path: Path, listener: Listener
) -> None:
    write(tmp_path)
    rules = tmp_path / "rules.toml"
    with listening() as other:
        rules.write_text(f'[[alert]]\nurl = "{other.url}/hook"\nsecret_env = "HOOK"\n')
        out, to = tmp_path / "out", f"{listener.url.replace('//', '//me:p4ss@')}/hook"
        command = ("run", tmp_path / "in", *COLUMNS, "--out", out, "--rules", rules)
        missing = given(*command, "--alert-to", to)
        assert missing.code == 2
        assert "alert 1: The secret is empty" in missing.err
        rules.write_text(
            f'[[alert]]\nurl = "{other.url}/hook"\n'
            '[[rule]]\nkind = "Ceiling"\nwindow = "1 hour"\ncount = 5\n'
        )
        answer = given(*command, "--alert-to", to)
        assert answer.code == 0, answer.err
        assert "p4ss" not in answer.out + answer.err
        check_all_told(kst.load_run(out), listener)
        assert other.states() == listener.states()


def test_the_command_line_says_who_could_not_be_told(tmp_path: Path, listener: Listener) -> None:
    write(tmp_path, 1)
    listener.answer = lambda _: 503
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nkind = "Ceiling"\nwindow = "1 hour"\ncount = 5\n')
    command = ("run", tmp_path / "in", *COLUMNS, "--out", tmp_path / "out", "--rules", rules)
    answer = given(*command, "--alert-to", f"{listener.url}/hook")
    assert answer.code == 0
    assert f"Alerts to {listener.url} wait: 503 Service Unavailable." in answer.err
    number = len(kst.load_run(tmp_path / "out").incidents())
    assert f"{number} alerts could not be sent to {listener.url} yet" in answer.err
    listener.answer = lambda _: 200
    assert given(*command, "--alert-to", f"{listener.url}/hook").code == 0
    check_all_told(kst.load_run(tmp_path / "out"), listener)
