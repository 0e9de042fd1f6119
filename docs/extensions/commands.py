"""The reference of every command, from the words that ``kstoolkit COMMAND --help`` says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.testing import CliRunner
from written import write

from kstoolkit.cli.application import app as commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

PAGE = Path(__file__).parents[1] / "reference" / "commands.md"
HEAD = """# Every command

What `kstoolkit COMMAND --help` says. `--json` prints one JSON object a line and nothing else on
stdout; messages and progress go to stderr.
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before any page is read."""
    app.connect("builder-inited", lambda _: write_page(PAGE))
    return {"parallel_read_safe": True}


def write_page(path: Path) -> None:
    """Write one section a command, where they are not the same already."""
    sections = [HEAD, *(section(words) for words in names(typer.main.get_command(commands)))]
    write(path, "\n".join(sections))


def names(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield each command's words, the one without any first, in the order of the help."""
    below = getattr(command, "commands", {})
    if not words or not below:
        yield words
    for name, each in below.items():
        yield from names(each, (*words, name))


def section(words: tuple[str, ...]) -> str:
    """Return the section of one command."""
    said = CliRunner(env={"COLUMNS": "92", "TERMINAL_WIDTH": "92"}).invoke(
        commands, [*words, "--help"], prog_name="kstoolkit", catch_exceptions=False
    )
    if said.exit_code != os.EX_OK:
        message = f"kstoolkit {' '.join(words)} --help ended with {said.exit_code}: {said.output}"
        raise ValueError(message)
    return f"## kstoolkit {' '.join(words)}".rstrip() + f"\n\n```text\n{said.output.strip()}\n```\n"
