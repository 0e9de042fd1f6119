"""A followed input, in a process of its own, stopped as people and systems do."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.cli.commands import COLUMNS, answered, given, harmless, rows, started

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORD = {"time": "2026-03-01T00:00:00Z", "user": "Anna", "action": "read"}


def wait_for(path: Path, process: subprocess.Popen[bytes], seconds: float = 150) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, answered(process).err
        assert time.monotonic() < end, f"waited {seconds} s for {path}"
        time.sleep(0.1)


@pytest.mark.parametrize(
    "sign", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
def test_following_goes_on_until_it_is_stopped_and_lets_go_of_the_folder(
    sign: signal.Signals, tmp_path: Path
) -> None:
    events, out = tmp_path / "events", tmp_path / "out"
    events.mkdir()
    (events / "a.json").write_text(json.dumps(RECORD) + "\n")
    follow = ("run", events, *COLUMNS, "--out", out, "--follow", "--trigger", "1 second")
    process = started(*follow)
    wait_for(out / "statistics" / "epoch=0" / "batch=0" / "_done", process)
    second = given("run", events, *COLUMNS, "--out", out)
    os.killpg(process.pid, sign)
    answer = answered(process)
    assert second.code == 2
    assert "Another run is writing" in second.err
    assert answer.code == 0
    assert "Stopped. The same command goes on from here." in answer.err
    assert "counting" in answer.err
    assert harmless(answer.err)
    assert rows(given("summary", out, "--json").out)[0]["events"] == 1
    with (out / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_ctrl_c_stops_a_run_in_a_sentence_and_the_next_one_goes_on(tmp_path: Path) -> None:
    events, out = tmp_path / "events.json", tmp_path / "out"
    events.write_text(json.dumps(RECORD) + "\n")
    process = started("run", events, *COLUMNS, "--out", out)
    wait_for(out / "checkpoint" / "offsets", process)
    os.killpg(process.pid, signal.SIGINT)
    answer = answered(process)
    assert (answer.code, answer.out) == (130, "")
    assert "Stopped; nothing is lost. The same command goes on from here." in answer.err
    assert harmless(answer.err)


@pytest.mark.long
def test_a_run_whose_java_is_killed_says_so_and_the_next_one_goes_on(tmp_path: Path) -> None:
    events, out = tmp_path / "events.json", tmp_path / "out"
    events.write_text(json.dumps(RECORD) + "\n")
    for options in ((), ("--follow", "--trigger", "1 second")):
        process = started("run", events, *COLUMNS, "--out", out, *options)
        wait_for(out / "checkpoint" / "offsets", process)
        if options:
            wait_for(out / "statistics" / "epoch=0" / "batch=0" / "_done", process)
        (java,) = psutil.Process(process.pid).children()
        java.kill()
        answer = answered(process)
        assert (answer.code, answer.out) == (1, "")
        assert "Error: Spark's Java ended while it counted" in answer.err
        assert "Traceback" not in answer.err
    again = given("run", events, *COLUMNS, "--out", out)
    assert again.code == 0, again.err
    assert rows(given("summary", out, "--json").out)[0]["events"] == 1
