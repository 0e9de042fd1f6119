"""The help of every command, word for word, as a terminal of 100 columns shows it."""

from __future__ import annotations

from tests.face.asking import answered, commands
from tests.face.goldens import FOLDER, check, typers_words


def golden_of(command: str) -> str:
    """Return the golden of a command: the dash tells ``broker`` from ``broker-start``."""
    return f"help/{'-'.join(['kstoolkit', *command.split()])}.txt"


def test_the_help_of_every_command_is_as_it_was() -> None:
    for command in commands():
        answer = answered(*command.split(), "--help")
        assert (answer.code, answer.err) == (0, "")
        check(golden_of(command), answer.out, whose=typers_words())


def test_no_command_is_gone() -> None:
    kept = {path.name for path in (FOLDER / "help").glob("kstoolkit*.txt")}
    assert kept == {golden_of(command).removeprefix("help/") for command in commands()}
