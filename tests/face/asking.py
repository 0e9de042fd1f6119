"""Commands as users give them, through the one function that no refactoring moves."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kstoolkit.cli import main

__all__ = ["COLUMNS", "PLAIN", "ROOT", "Answer", "answered", "commands", "rows"]

ROOT = Path(__file__).parents[2]
COLUMNS = ("--event-time", "time", "--user", "user", "--action", "action")
PLAIN = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
"""A terminal of a fixed width, without colours."""


class Answer(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


def answered(*arguments: object) -> Answer:
    """Give a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(each) for each in arguments])
    return Answer(code, out.getvalue(), err.getvalue())


def rows(text: str) -> list[dict[str, Any]]:
    """Read one JSON object a line; anything else there is an error."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(row, dict) for row in found)
    return found


@cache
def commands() -> tuple[str, ...]:
    """Return the words of every command, groups before what is in them, as the help lists them."""
    return tuple(_below(""))


def _below(group: str) -> list[str]:
    told = answered(*group.split(), "--help").out.partition("\nCommands:\n")[2]
    names = [line.split()[0] for line in told.partition("\n\n")[0].splitlines()]
    return [group, *(each for name in names for each in _below(f"{group} {name}".strip()))]
