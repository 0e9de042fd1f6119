"""Commands as the tests give them: in this process, or in one of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from kstoolkit.cli.application import app

ROOT = Path(__file__).parents[2]
COLUMNS = ("--event-time", "time", "--user", "user", "--action", "action")
PROGRAM = (sys.executable, "-m", "kstoolkit")


class Answer(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


def given(*arguments: object) -> Answer:
    """Give a command in this process."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    return Answer(result.exit_code, result.stdout, result.stderr)


def started(*arguments: object, **environment: str) -> subprocess.Popen[bytes]:
    """Give a command in a process of its own, at the head of its own group, as a shell does."""
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def answered(process: subprocess.Popen[bytes]) -> Answer:
    """Wait for a command, and return what it answered."""
    try:
        out, err = process.communicate(timeout=200)
    finally:
        if process.poll() is None:
            process.kill()
    return Answer(process.returncode, out.decode(), err.decode())


def rows(text: str) -> list[dict[str, Any]]:
    """Read one JSON object a line; anything else there is an error."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(row, dict) for row in found)
    return found


def harmless(text: str) -> bool:
    """Return whether nobody is met by a traceback, and nothing commands a terminal."""
    commands = [c for c in text if c < " " and c not in "\n\r"]
    return "Traceback" not in text and not commands
