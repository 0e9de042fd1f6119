from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import typer

from kstoolkit.cli.terminal import Terminated, ending
from kstoolkit.errors import InputError, KstoolkitError, RunFailed
from tests.cli.commands import PROGRAM, ROOT, answered, given, started

if TYPE_CHECKING:
    from pathlib import Path


def ended(error: BaseException) -> int:
    @ending
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as caught:
        command()
    return caught.value.exit_code


SHOULD_NOT = (
    "Error: {}, which should not happen: {}\n"
    "Hint: Set KSTOOLKIT_TRACEBACK=1 to see where. Nothing that was counted is lost.\n"
)
FULL = OSError(errno.ENOSPC, "No space left on device", "out/run.json")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("No file.", hint="Give one."), 2, "Error: No file.\nHint: Give one.\n"),
        (RunFailed("Spark gave up."), 1, "Error: Spark gave up.\n"),
        (KstoolkitError("a\x1b[2J"), 1, "Error: a\\x1b[2J\n"),
        (FULL, 1, "Error: No space left on device: out/run.json.\n"),
        (OSError(errno.ENAMETOOLONG, "File name too long"), 2, "Error: File name too long.\n"),
        (PermissionError(errno.EACCES, "Denied", "a"), 2, "Error: Denied: a.\n"),
        (ValueError("too little"), 1, SHOULD_NOT.format("ValueError", "too little")),
        (KeyboardInterrupt(), 130, "Stopped.\n"),
        (Terminated(), 143, "Stopped.\n"),
        (typer.Exit(7), 7, ""),
    ],
)
def test_a_command_ends_with_a_sentence_and_a_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(error) == code
    assert tuple(capsys.readouterr()) == ("", said)


def test_what_nobody_foresaw_is_one_sentence_and_how_to_see_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(ZeroDivisionError("division\nby zero")) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: ZeroDivisionError, which should not happen: division\nHint: ")
    assert "KSTOOLKIT_TRACEBACK=1" in said
    assert "Traceback (" not in said


def test_who_asks_for_the_traceback_gets_it_with_the_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KSTOOLKIT_TRACEBACK", "1")
    assert ended(ZeroDivisionError()) == 1
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert "Error: ZeroDivisionError, which should not happen: no reason given" in said


def test_a_command_that_works_returns() -> None:
    ending(lambda: None)()


MANY_LINES = """
import sys
from kstoolkit.cli.terminal import ending
from kstoolkit.cli.terminal import print_json
import typer
try:
    ending(lambda: print_json({"n": n} for n in range(10**7)))()
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", MANY_LINES], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b'{"n": 0}\n'
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_sigterm_ends_a_command_as_ctrl_c_does_and_is_let_go_afterwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cleaned: list[str] = []

    @ending
    def command() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)  # as who ends a process and its group sends it
            cleaned.append("all")

    with pytest.raises(typer.Exit) as caught:
        command()
    assert (caught.value.exit_code, cleaned) == (143, ["all"])
    assert capsys.readouterr().err == "Stopped.\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_who_minds_sigterm_already_goes_on_doing_so() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        ending(lambda: signal.raise_signal(signal.SIGTERM))()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


@pytest.mark.kill
def test_sigterm_leaves_nothing_of_a_comparison_behind(tmp_path: Path) -> None:
    process = started("compare-profiles", "spark", "--writes", 10**9, "--folder", tmp_path)
    until = time.monotonic() + 60
    while not list(tmp_path.glob("*/store/LOG")) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    answer = answered(process)
    assert (answer.code, answer.out, answer.err) == (143, "", "Stopped.\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments", [("levels", "no/such"), ("--version",), ("profile", "spark"), ("nonsense",)]
)
def test_a_closed_stdout_is_said_before_anything_is_done(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *PROGRAM, *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: stdout is closed: there is nowhere to print to.\nHint: ")
    assert len(done.stderr.splitlines()) == 2


def test_a_closed_stderr_hurts_nobody() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" 2>&-', "sh", *PROGRAM, "levels", "no/such"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")


LONG, NULL = "x" * 300, "a\0b"
AT = ("--user", "Anna", "--window", "1 hour", "--at", "2015-09-12")


@pytest.mark.parametrize("path", [LONG, NULL], ids=["long", "null"])
@pytest.mark.parametrize(
    "command",
    [
        *(("inspect",), ("levels",), ("memory",), ("advice",), ("log",), ("profile",)),
        *(("stores",), ("rows",), ("growth",), ("findings",), ("users",), ("summary",)),
        *(("report",), ("find",), ("compact",), ("compare-profiles",), ("get", *AT)),
        *(("counts", "--window", "1 hour"), ("diff", "."), ("export", "--to", "out.csv")),
        *(("restore", "."), ("compare-profiles", "spark", "--folder")),
        *(("compare-profiles", "spark", "--replay"), ("simulate", "--out")),
    ],
    ids=" ".join,
)
def test_a_path_that_no_system_takes_is_the_users_mistake(
    command: tuple[str, ...], path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = given(*command, path)
    assert (answer.code, answer.out) == (2, ""), answer.err
    assert "Error: " in answer.err
    assert "should not happen" not in answer.err
    assert "damaged" not in answer.err
