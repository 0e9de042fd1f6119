from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kstoolkit.kafka import broker as processes
from kstoolkit.kafka.broker import Process, _process_with

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["proc", "ps"], autouse=True)
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Ask the system both ways: Linux's, and that of the others."""
    if request.param == "ps":
        monkeypatch.setattr(processes, "_PROC", tmp_path)
    return str(request.param)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def known(process: subprocess.Popen[bytes]) -> Process:
    found = _process_with(process.pid)
    assert found is not None
    return found


def test_a_process_is_known_by_its_number_and_its_start(sleeper: subprocess.Popen[bytes]) -> None:
    found = known(sleeper)
    assert found.is_alive()
    assert found == known(sleeper)
    assert not Process(sleeper.pid, f"{found.started} earlier").is_alive()


def test_another_process_with_its_number_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    Process(sleeper.pid, "of another").signal(signal.SIGKILL)
    assert not known(sleeper).is_gone_within(0.1)


def test_one_that_ended_is_gone_though_nobody_has_asked_how(
    sleeper: subprocess.Popen[bytes],
) -> None:
    found = known(sleeper)
    found.signal(signal.SIGKILL)
    assert found.is_gone_within(10)
    found.signal(signal.SIGKILL)  # nothing to do
    assert sleeper.returncode is None


def test_there_is_none_with_a_number_that_was_given_back() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert _process_with(ended.pid) is None


def test_a_name_with_brackets_and_spaces_is_not_taken_for_more(tmp_path: Path) -> None:
    program = tmp_path / "a) Z (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        assert known(process).started == known(process).started
        assert known(process).is_alive()
        process.kill()


@pytest.mark.parametrize("source", ["proc"], indirect=True)  # ps tells of the first thread alone
def test_one_whose_other_threads_still_run_is_not_gone() -> None:
    exit_of_a_thread = {"x86_64": 60, "aarch64": 93}[platform.machine()]
    program = f"""
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall({exit_of_a_thread}, 0)
"""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        found = known(process)
        stat = Path(f"/proc/{process.pid}/stat")
        while ") Z " not in stat.read_text():
            time.sleep(0.02)
        assert found.is_alive()
        process.kill()
        assert found.is_gone_within(10)


def test_this_process_is_alive() -> None:
    assert _process_with(os.getpid()) is not None
