from __future__ import annotations

import errno
import subprocess
import sys

import pytest
import typer

from kstoolkit.cli.endings import ending
from kstoolkit.errors import InputError, KstoolkitError, RunFailed


def ended(error: BaseException) -> int:
    @ending
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as caught:
        command()
    return caught.value.exit_code


FULL = OSError(errno.ENOSPC, "No space left on device", "out/run.json")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("No file.", hint="Give one."), 2, "Error: No file.\nHint: Give one.\n"),
        (RunFailed("Spark gave up."), 1, "Error: Spark gave up.\n"),
        (KstoolkitError("a\x1b[2J"), 1, "Error: a\\x1b[2J\n"),
        (FULL, 1, "Error: No space left on device: out/run.json.\n"),
        (KeyboardInterrupt(), 130, "Stopped.\n"),
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
from kstoolkit.cli.endings import ending
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
