"""The command line: ``kstoolkit``, or ``python -m kstoolkit``.

Each command is a thin edge over the package's own verbs. With ``--json``, stdout carries rows and
nothing else; messages and progress go to stderr. Exit codes: 0 done, 1 a fault, 2 the user's
mistake.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from kstoolkit.environment import ENDS_WITH_ITS_COMMAND

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of this process, and return its exit code.

    >>> main(["--version"])
    kstoolkit 0.1.0
    0
    """
    gc.set_threshold(100_000)  # what is loaded stays: looking for garbage in it takes its time
    from kstoolkit.cli import terminal  # noqa: PLC0415
    from kstoolkit.cli.application import app  # noqa: PLC0415 - Typer's import has its price

    if arguments is None:
        ENDS_WITH_ITS_COMMAND.set()
    if terminal.nowhere_to_print():
        return terminal.MISTAKE
    terminal.accept_any_text()
    terminal.quieten_libraries()
    try:
        app(arguments, prog_name="kstoolkit")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except KeyboardInterrupt:  # before a command had begun
        return terminal.INTERRUPTED
    return 0
