"""How a command ends: with a sentence and a code, never with a traceback."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, ParamSpec

import typer

from kstoolkit.cli.flags import in_flags
from kstoolkit.cli.terminal import note
from kstoolkit.errors import KstoolkitError, RestartsSpent, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


FAULT, MISTAKE, INTERRUPTED, NOBODY_READS, TERMINATED = 1, 2, 130, 141, 143
"""Exit codes; the last three are what a shell makes of SIGINT, SIGPIPE and SIGTERM."""

TRY_LATER = 75
"""What ``sysexits.h`` calls a failure that passes: the restarts of an hour are spent."""

TRACEBACK = "KSTOOLKIT_TRACEBACK"

_OF_PATHS = {errno.EACCES, errno.ENAMETOOLONG, errno.ELOOP, errno.EILSEQ}
_AGAIN_S = 1.0
"""A system that ends a process and its group sends SIGTERM twice; what comes later is meant so."""

Given = ParamSpec("Given")


class Terminated(KeyboardInterrupt):
    """SIGTERM came: whatever cleans up after Ctrl-C does so now, too."""


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
            with _terminable():
                command(*args, **kwargs)
            sys.stdout.flush()
        except typer.Exit:
            raise
        except KeyboardInterrupt as stopped:
            note("Stopped.")
            code = TERMINATED if isinstance(stopped, Terminated) else INTERRUPTED
            raise typer.Exit(code) from None
        except BrokenPipeError:
            _stop_writing()
            raise typer.Exit(NOBODY_READS) from None
        except Exception as error:  # noqa: BLE001 - nobody shall be met by a traceback
            raise typer.Exit(_explain(error)) from None

    return ended


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end what runs as Ctrl-C does, unless somebody minds it already."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    heard = -_AGAIN_S

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        before, heard = heard, monotonic()
        if heard - before >= _AGAIN_S:
            raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _explain(error: Exception) -> int:
    """Say what happened and what to do, and return the code to end with."""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    message, hint = _words(error)
    note(f"Error: {message}")
    if hint:
        note(f"Hint: {in_flags(hint)}")
    if isinstance(error, RestartsSpent):
        return TRY_LATER
    return MISTAKE if isinstance(error, UserError) or _is_of_a_path(error) else FAULT


def _is_of_a_path(error: Exception) -> bool:
    """Return whether the system refuses a path: it is too long, say, or not for this user."""
    if isinstance(error, OSError):
        return error.errno in _OF_PATHS
    return _has_null(error)


def _has_null(error: Exception) -> bool:
    return isinstance(error, ValueError) and str(error).startswith("embedded null ")


def _words(error: Exception) -> tuple[str, str | None]:
    if isinstance(error, KstoolkitError):
        return error.message, error.hint
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f": {error.filename}"
        return f"{error.strerror}{place}.", None
    if _has_null(error):
        return "A path has a character 0 in it, which no file's name can have.", None
    first = (str(error).splitlines() or ["no reason given"])[0]
    hint = f"Set {TRACEBACK}=1 to see where. Nothing that was counted is lost."
    return f"{type(error).__name__}, which should not happen: {first}", hint


def _stop_writing() -> None:
    """Send to nowhere what is still to be written: whoever read has enough, as in ``| head``."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
