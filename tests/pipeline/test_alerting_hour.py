"""Receivers that are away for an hour, beside a live run: nothing is lost, nothing waits for them.

The hour is a real one, of :func:`time.monotonic`; a minute of it stands for it where time is short.
"""

from __future__ import annotations

import socket
import statistics
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.pipeline import alerting
from tests.alertmanager import Alertmanager
from tests.pipeline.alerted import Listener, listening
from tests.pipeline.harness import BEGIN, source, until, write_lines

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("spark")]
MINUTE = pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(900)])
HOUR = pytest.param(3_600, marks=[pytest.mark.long, pytest.mark.timeout(5_400)])

BEFORE, DURING = 10, 60
"""How many users begin to be busy while receivers are there, and while two are away."""


def busy(number: int, hour: int) -> list[dict[str, str]]:
    """Return what a user does in one of its hours, where five are allowed; and an idle one."""
    begin = BEGIN + timedelta(hours=6 * number + hour)
    times = [(begin + timedelta(minutes=5 * n)).isoformat() for n in range(10)]
    doing = [{"time": each, "user": f"user {number}", "action": "read"} for each in times]
    return [*doing, {"time": times[-1], "user": "idle", "action": "read"}]


def feed(folder: Path, users: Iterable[int], pause: float) -> None:
    """Have each user open an incident, and let it grow; those before are over by then."""
    for number in users:
        for hour in (0, 1):
            write_lines(folder / f"{number}-{hour}.json", busy(number, hour))
            time.sleep(pause / 2)


def seconds_of(run: Run, begin_ms: float, end_ms: float) -> list[float]:
    """Return how long each batch took that began within a time."""
    return [each.seconds for each in run.batches() if begin_ms <= each.batch_ms < end_ms]


def in_words(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s (at most {max(seconds):.2f} s)"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def told_by(listener: Listener) -> dict[str, list[str]]:
    """Return the states of each incident, in the order in which they came."""
    told: dict[str, list[str]] = {}
    for name, state in listener.states():
        told.setdefault(name, []).append(state)
    return told


def right_of(run: Run) -> dict[str, list[str]]:
    """Return what is to be told of each incident by now."""
    found = {each.id: each.state for each in run.incidents()}
    return {name: ["open"] if state == "open" else ["open", state] for name, state in found.items()}


def passed_on(listener: Listener, state: str) -> set[str]:
    """Return the incidents of which Alertmanager has passed on that they are in a state."""
    alerts = (alert for each in listener.taken for alert in each.told["alerts"])
    return {alert["labels"]["incident"] for alert in alerts if alert["status"] == state}


@pytest.mark.parametrize("away", [MINUTE, HOUR])
def test_receivers_that_are_away_for_an_hour_lose_nothing_and_hold_up_no_batch(
    away: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]
) -> None:
    # This Alertmanager looks each second, or as soon as others' work lets it.
    monkeypatch.setattr(alerting, "_LEAST_MS", 20_000)
    pause, port = away / DURING, free_port()
    with ExitStack() as on:
        there, passed = (on.enter_context(listening()) for _ in range(2))
        manager = Alertmanager(tmp_path / "alertmanager", passed.url)
        lost = kst.webhook(f"http://127.0.0.1:{port}/hook")
        to = [kst.alertmanager(manager.url), lost, kst.webhook(f"{there.url}/hook")]
        pipeline = kst.Pipeline(
            source=source(tmp_path / "in"), rules=[kst.Ceiling("1 hour", 5)], buckets=2, alert_to=to
        )
        write_lines(tmp_path / "in" / "0-0.json", busy(0, 0))
        with listening(port) as back, manager:
            run = pipeline.start(tmp_path / "out", trigger="1 second")
            on.callback(run.stop)
            feed(tmp_path / "in", range(BEFORE), min(pause, 3))
            until(lambda: len(told_by(back)) == BEFORE, "the first incidents", seconds=300)
            until(lambda: len(passed_on(passed, "firing")) == BEFORE, "them passed on", seconds=300)
        began, began_ms = time.monotonic(), time.time() * 1_000
        feed(tmp_path / "in", range(BEFORE, BEFORE + DURING), pause)
        time.sleep(max(began + away - time.monotonic(), 0))
        lasted, back_ms = time.monotonic() - began, time.time() * 1_000
        with listening(port) as returned, manager:
            until(lambda: len(right_of(run)) == BEFORE + DURING, "all that is found", seconds=300)
            right = right_of(run)  # what comes of it after the last event: nothing more
            until(lambda: told_by(there) == right, "who was there all along", seconds=300)
            over = {name for name, states in right.items() if states[-1] == "resolved"}
            missed = len(there.taken) - len(back.taken)
            until(lambda: len(returned.taken) >= missed, "what was missed", seconds=400)
            until(lambda: over <= passed_on(passed, "resolved"), "their ends", seconds=400)
            reached = time.time() - back_ms / 1_000
        first = run.batches()[0].batch_ms + 1  # which carries what starts up
        usual, meanwhile = (
            seconds_of(run, begin, end) for begin, end in ((first, began_ms), (began_ms, back_ms))
        )
    with capsys.disabled():  # what docs/guides/alerts.md shows
        sys.stdout.write(
            f"\nTwo of three receivers were away for {lasted:,.0f} s, in which {DURING} incidents "
            f"opened, grew, and all but the last were resolved.\nA batch took {in_words(usual)} "
            f"before, and {in_words(meanwhile)} meanwhile, in {len(meanwhile):,} batches.\n"
            f"{missed} alerts that a webhook missed, and all that Alertmanager did, were told "
            f"within {reached:,.0f} s after; none twice, none lost.\n"
        )
    assert min(meanwhile) < 1.5 * min(usual) + 0.2  # others' work makes the slow ones slower
    told = told_by(back)
    for name, states in told_by(returned).items():
        told.setdefault(name, []).extend(states)
    assert told == right == right_of(run)
    assert len(over) == BEFORE + DURING - 1
    keys = [*back.keys(), *returned.keys()]
    assert len(keys) == len(set(keys))
    assert passed_on(passed, "firing") == right.keys()
