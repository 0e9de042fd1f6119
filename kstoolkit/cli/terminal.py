"""What a terminal gets of a command: text that can't harm it, tables, JSON lines, and an end.

A command ends with a sentence and a code, never with a traceback. What would be a warning in Python
is a line on stderr, as is what is said while brokers do not answer; hints name options as the
command line does.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import logging
import os
import re
import signal
import sys
import traceback
import unicodedata
import warnings
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import wraps
from itertools import accumulate
from threading import Event, current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

import typer

from kstoolkit.environment import CALM_NUMPY
from kstoolkit.errors import (
    ConfigurationError,
    CopyWarning,
    KstoolkitError,
    RestartsSpent,
    Sentence,
    StaleResultWarning,
    UserError,
)
from kstoolkit.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import FrameType

    from kstoolkit.errors import KafkaError

_Told = TypeVar("_Told")

_WIDEST_CELL = 44

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls, directions, and what takes no room; not the joiners that scripts and emoji need."""

_PATIENCE_SECONDS, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 600.0, 0.5, 10.0


def accept_any_text() -> None:
    """Let stdout and stderr take any text: what their encoding has not is written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def nowhere_to_print() -> bool:
    """Return whether stdout is closed, and say so; a closed stderr is left to be nowhere.

    Else the next file that is opened would take the number of the closed one, and what a library
    prints would go into it.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the end
    if sys.stdout is not None:
        return False
    note("Error: stdout is closed: there is nowhere to print to.")
    note("Hint: Leave out >&-, or send what you don't want to /dev/null.")
    return True


def quieten_libraries() -> None:
    """Keep what libraries log off stderr, and their idle threads off the cores.

    What matters of the first is said in a sentence.
    """
    logging.getLogger().addHandler(logging.NullHandler())
    for name, value in CALM_NUMPY.items():
        os.environ.setdefault(name, value)


def _visible(text: str) -> str:
    r"""Return text in which nothing hides: no control of a terminal, no change of direction.

    >>> print(_visible("Zoë \x1b[2J\n"))
    Zoë \x1b[2J\n
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def say(text: str = "") -> None:
    """Print a line of a result to stdout, in which nothing hides."""
    sys.stdout.write(f"{_visible(text)}\n")


def say_lines(text: str, indent: str = "") -> None:
    """Print each line of a text that has several."""
    for line in text.splitlines():
        say(f"{indent}{line}")


def tell(told: Any, *, as_json: bool) -> None:
    """Print a record as one JSON object, or in its own words."""
    if as_json:
        print_json([told.to_dict()])
    else:
        say_lines(str(told))


def note(text: str) -> None:
    """Print a line to stderr, beside the result."""
    sys.stderr.write(f"{_visible(text)}\n")


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    r"""Print one JSON object a line, in ASCII alone, so that no locale can spoil it.

    >>> print_json([{"user": "Zoë", "count": 2}])
    {"user": "Zo\u00eb", "count": 2}
    """
    sys.stdout.writelines(f"{json.dumps(row, allow_nan=False)}\n" for row in rows)


def print_csv(fields: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print CSV with a header: exact and in UTF-8 for programs, with nothing hidden for people."""
    stream = _exact_stdout()
    writer = csv.DictWriter(stream, fields, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    if stream.isatty():
        rows = ({n: _visible(c) if isinstance(c, str) else c for n, c in r.items()} for r in rows)
    writer.writerows(rows)


def print_texts(texts: Iterable[str]) -> None:
    """Print texts a line each: exact and in UTF-8 for programs, with nothing hidden for people."""
    stream = _exact_stdout()
    stream.writelines(f"{_visible(text) if stream.isatty() else text}\n" for text in texts)


def _exact_stdout() -> TextIO:
    stream = sys.stdout
    if not stream.isatty() and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")
    return stream


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> None:
    """Print rows under a header in columns; all but the last are cut if too long.

    ``right`` names the column that is set to the right, if there is one.

    >>> print_table(["user", "count"], [["Anna", "9"], ["名前", "1,234"]], right="count")
    user  count
    Anna      9
    名前  1,234
    """
    shown = [[_visible(cell) for cell in row] for row in [header, *rows]]
    for row in shown:
        row[:-1] = [_cut(cell) for cell in row[:-1]]
    widths = [max(map(_width, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = []
        for name, cell, width in zip(header, row, widths, strict=True):
            padding = " " * (width - _width(cell))
            cells.append(padding + cell if name == right else cell + padding)
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _cut(cell: str) -> str:
    if _width(cell) <= _WIDEST_CELL:
        return cell
    ends = list(accumulate(map(_width, cell)))
    return cell[: bisect_right(ends, _WIDEST_CELL - 1)] + "…"


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: East Asian characters take two."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def in_flags(told: _Told) -> _Told:
    """Return a text, or a record of texts, whose sentences name options as the command line does.

    >>> from kstoolkit.errors import naming
    >>> in_flags(naming("no bound is given: {bound_bytes}"))
    'no bound is given: --bound-bytes'
    >>> in_flags({"key": "retention=", "unknown": {"offset": naming("give {retention}")}})
    {'key': 'retention=', 'unknown': {'offset': 'give --retention'}}
    """
    match told:
        case Sentence():
            said: Any = told.at_terminal
        case dict():
            said = {name: in_flags(value) for name, value in told.items()}
        case list() | tuple():
            said = type(told)(in_flags(each) for each in told)
        case Records():
            said = Records([in_flags(each) for each in told], told.kind)
        case _ if is_dataclass(told) and not isinstance(told, type):
            given = {each.name: getattr(told, each.name) for each in fields(told) if each.init}
            said = replace(told, **in_flags(given))
        case _:
            said = told
    return said  # type: ignore[no-any-return] # of the same type, but for sentences


FAULT, MISTAKE, URGENT, INTERRUPTED, _NOBODY_READS, TERMINATED = 1, 2, 3, 130, 141, 143
"""Exit codes; the last three are what a shell makes of SIGINT, SIGPIPE and SIGTERM."""

_TRY_LATER = 75
"""What ``sysexits.h`` calls a failure that passes: the restarts of an hour are spent."""

_TRACEBACK = "KSTOOLKIT_TRACEBACK"

_OF_PATHS = {errno.EACCES, errno.ENAMETOOLONG, errno.ELOOP, errno.EILSEQ}
_AGAIN_S = 1.0
"""A system that ends a process and its group sends SIGTERM twice; what comes later is meant so."""

Given = ParamSpec("Given")


class Terminated(KeyboardInterrupt):
    """SIGTERM came: whatever cleans up after Ctrl-C does so now, too."""


def ending(command: Callable[Given, None]) -> Callable[Given, None]:
    """Return a command that says in a sentence what went wrong, and ends with the code for it.

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
            with _terminable(), as_notes(StaleResultWarning), as_notes(CopyWarning):
                _check_names(kwargs)
                command(*args, **kwargs)
            sys.stdout.flush()
        except typer.Exit:
            raise
        except KeyboardInterrupt as stopped:
            note("Stopped.")
            code = TERMINATED if isinstance(stopped, Terminated) else INTERRUPTED
            raise typer.Exit(code) from None
        except BrokenPipeError:  # whoever read has enough, as in ``| head``: the rest goes nowhere
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
            raise typer.Exit(_NOBODY_READS) from None
        except Exception as error:  # noqa: BLE001 - nobody shall be met by a traceback
            raise typer.Exit(_explain(error)) from None

    return ended


def _check_names(given: Mapping[str, object]) -> None:
    """Refuse names that are no text: the shell hands on any bytes, a path's may be such."""
    for name in (given.get("user"), given.get("action")):
        if isinstance(name, str) and name.encode(errors="replace").decode() != name:
            message = f"The name {name!r} is no text in UTF-8."
            raise ConfigurationError(message, hint="Have the terminal, or the script, write UTF-8.")


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end what runs as Ctrl-C does, unless somebody minds it already."""
    if (
        current_thread() is not main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
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


@contextmanager
def asked_to_stop() -> Iterator[Event]:
    """Yield what is set once somebody asks to stop; who asks twice does not wait for the batch."""
    asked = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _explain(error: Exception) -> int:
    """Say what happened and what to do, and return the code to end with."""
    if os.environ.get(_TRACEBACK):
        traceback.print_exception(error)
    message, hint = _words(error)
    note(f"Error: {message}")
    if hint:
        note(f"Hint: {in_flags(hint)}")
    if isinstance(error, RestartsSpent):
        return _TRY_LATER
    # The system refuses a path: it is too long, say, or not for this user.
    of_path = error.errno in _OF_PATHS if isinstance(error, OSError) else _has_null(error)
    return MISTAKE if isinstance(error, UserError) or of_path else FAULT


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
    hint = f"Set {_TRACEBACK}=1 to see where. Nothing that was counted is lost."
    return f"{type(error).__name__}, which should not happen: {first}", hint


@contextmanager
def left_out_as_notes() -> Iterator[None]:
    """Let each part of a store that is left out be a line on stderr, as other remarks are."""
    from kstoolkit.stores.rows.readable import LeftOutWarning  # noqa: PLC0415 - with its room

    with as_notes(LeftOutWarning):
        yield


@contextmanager
def as_notes(kind: type[Warning], begin: str = "") -> Iterator[None]:
    """Let warnings of a kind be lines on stderr, each once; others are shown as before."""
    usual, said = warnings.showwarning, set[str]()

    def shown(told: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, kind):
            usual(told, category, *where, **more)
        elif str(told) not in said:
            said.add(str(told))
            note(f"{begin}{told}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", kind)
        warnings.showwarning = shown  # type: ignore[assignment] # what it names is passed on
        yield


@dataclass(slots=True)
class Outage:
    """A time without an answer: of whom, since when, and how long the pauses have grown."""

    what: str
    began: float = field(default_factory=monotonic)
    pause: float = _FIRST_PAUSE_SECONDS

    def next_pause(self, error: KafkaError) -> float:
        """Say what is waited for, and return for how many seconds; after ten minutes, raise."""
        if monotonic() - self.began > _PATIENCE_SECONDS:
            raise error
        note(f"{self.what} can't be read ({error.message.rstrip('.')}); waiting for it.")
        pause, self.pause = self.pause, min(2 * self.pause, _LONGEST_PAUSE_SECONDS)
        return pause
