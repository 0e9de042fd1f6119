"""Runs that are kept alive, in processes of their own whose Java is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from kstoolkit.cli.run import run, supervise
from tests.cli.commands import COLUMNS, answered, given, rows, started
from tests.pipeline.harness import newest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

RECORD = {"time": "2026-03-01T00:00:00Z", "user": "Anna", "action": "read"}


def until(true: Callable[[], Any], process: subprocess.Popen[bytes], seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, answered(process).err
        if found := true():
            return found
        time.sleep(0.1)
    message = f"Waited {seconds} s."
    raise TimeoutError(message)


def java_of(process: subprocess.Popen[bytes]) -> psutil.Process | None:
    for child in psutil.Process(process.pid).children(recursive=True):
        if "java" in child.name() and child.status() != psutil.STATUS_ZOMBIE:
            return child
    return None


def put(folder: Path, name: str, number: int) -> None:
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text((json.dumps(RECORD) + "\n") * number)
    hidden.rename(folder / name)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.kill
def test_a_supervised_run_outlives_its_java_until_the_restarts_are_spent(tmp_path: Path) -> None:
    events, out, alive = tmp_path / "events", tmp_path / "out", tmp_path / "alive"
    put(events, "a.json", 5)
    options = (*COLUMNS, "--out", out, "--trigger", "1 second", "--alive-file", alive)
    commits = out / "checkpoint" / "commits"
    process = started("supervise", events, *options, "--restarts-per-hour", 1, "--master", "local")
    try:
        until((commits / "0").exists, process)
        until(alive.exists, process)
        first = until(lambda: java_of(process), process)
        first.kill()
        put(events, "b.json", 3)
        until((out / "restarts.jsonl").exists, process)
        before = newest(commits)
        until(lambda: newest(commits) > before, process)
        until(lambda: java_of(process), process).kill()
        answer = answered(process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert answer.code == 75
    assert "Spark's Java ended" in answer.err
    assert "It was started again 1 times within an hour." in answer.err
    assert rows(given("summary", out, "--json").out)[0]["events"] == 8
    (told,) = [json.loads(line) for line in (out / "restarts.jsonl").read_text().splitlines()]
    assert told["reason"].startswith("Spark's Java ended")


def test_supervise_takes_what_run_takes() -> None:
    assert supervise.__annotations__.keys() == run.__annotations__.keys() - {"follow", "return"}
    answer = given("supervise", "no/such", *COLUMNS, "--out", "o", "--follow")
    assert answer.code == 2
    assert "--follow" in answer.err


@pytest.mark.parametrize("option", ["--alive-file", "--restarts-per-hour"])
def test_a_bounded_run_has_nothing_to_keep_alive(option: str, tmp_path: Path) -> None:
    answer = given("run", "no/such", *COLUMNS, "--out", tmp_path / "o", option, 1)
    assert answer.code == 2
    assert f"{option} is for a run without an end" in answer.err
