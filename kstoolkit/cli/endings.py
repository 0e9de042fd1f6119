"""How a command ends: with a sentence and a code, never with a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import typer

from kstoolkit.cli.terminal import note
from kstoolkit.errors import KstoolkitError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FAULT", "INTERRUPTED", "MISTAKE", "ending"]

FAULT, MISTAKE, INTERRUPTED, NOBODY_READS = 1, 2, 130, 141
"""Exit codes; the last two are what a shell makes of SIGINT and SIGPIPE."""

TRACEBACK = "KSTOOLKIT_TRACEBACK"

Given = ParamSpec("Given")


def ending(command: Callable[Given, None]) -> Callable[Given, None]:
    """Return a command that says in a sentence what went wrong, and ends with the code for it.

    Examples
    --------
    >>> @ending
    ... def fails() -> None:
    ...     raise OSError(28, "No space left on device", "out/run.json")
    >>> try:
    ...     fails()
    ... except typer.Exit as end:
    ...     print(end.exit_code)
    1
    """

    @wraps(command)
    def ended(*args: Given.args, **kwargs: Given.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            note("Stopped.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _stop_writing()
            raise typer.Exit(NOBODY_READS) from None
        except Exception as error:  # noqa: BLE001 - nobody shall be met by a traceback
            raise typer.Exit(_explain(error)) from None

    return ended


def _explain(error: Exception) -> int:
    """Say what happened and what to do, and return the code to end with."""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    message, hint = _words(error)
    note(f"Error: {message}")
    if hint:
        note(f"Hint: {hint}")
    return MISTAKE if isinstance(error, UserError) else FAULT


def _words(error: Exception) -> tuple[str, str | None]:
    if isinstance(error, KstoolkitError):
        return error.message, error.hint
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f": {error.filename}"
        return f"{error.strerror}{place}.", None
    first = (str(error).splitlines() or ["no reason given"])[0]
    hint = f"Set {TRACEBACK}=1 to see where. Nothing that was counted is lost."
    return f"{type(error).__name__}, which should not happen: {first}", hint


def _stop_writing() -> None:
    """Send to nowhere what is still to be written: whoever read has enough, as in ``| head``."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
