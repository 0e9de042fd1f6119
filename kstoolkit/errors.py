"""What can go wrong, as one tree. Messages say what happened, with which value, and what to do.

``UserError`` and what derives from it are the user's mistakes: the command line ends with code 2
and prints the message alone. Every other ``KstoolkitError`` is a fault: code 1.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import sys
from ast import literal_eval
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNREADABLE = re.compile(
    r"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*") can't be (read|listed): ([^\n]+)\.$""",
    re.MULTILINE,
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_FILE_URL = re.compile(r"file:(?://(?:localhost)?)?(/(?!/).*)", re.IGNORECASE | re.DOTALL)


class Sentence(str):
    """Text that names options: as Python writes them, and at a terminal as flags.

    Parameters
    ----------
    in_python
        The text, as it reads wherever nobody asks for another.
    at_terminal
        The same for whoever types commands.

    Examples
    --------
    >>> sentence = Sentence("Say overwrite=True.", "Say --overwrite.")
    >>> sentence, sentence.at_terminal
    ('Say overwrite=True.', 'Say --overwrite.')
    """

    __slots__ = ("at_terminal",)
    at_terminal: str

    def __new__(cls, in_python: str, at_terminal: str | None = None) -> Self:
        """Keep both; without the second, they are the same."""
        made = super().__new__(cls, in_python)
        made.at_terminal = in_python if at_terminal is None else at_terminal
        return made


@dataclass(frozen=True, slots=True)
class Option:
    """The name of an option, with what may stand behind it in Python, and at a terminal.

    >>> Option("column_family", "...").in_python, Option("column_family").at_terminal
    ('column_family=...', '--column-family')
    """

    name: str
    value: str = ""
    flag: str | None = None

    @property
    def in_python(self) -> str:
        """As an argument is written."""
        return f"{self.name}={self.value}"

    @property
    def at_terminal(self) -> str:
        """As a flag."""
        return self.flag or f"--{self.name.replace('_', '-')}"


def naming(text: str, **values: object) -> Sentence:
    """Return a sentence that names options, each in braces; other words in braces are ``values``.

    >>> told = naming("Give {action} or {total}.", total=Option("total", "True"))
    >>> told, told.at_terminal
    ('Give action= or total=True.', 'Give --action or --total.')
    """
    words = (_Words(values, where) for where in ("in_python", "at_terminal"))
    return Sentence(*map(text.format_map, words))


class _Words(dict[str, object]):
    """What stands for the words in braces: of options their names, of sentences their words."""

    def __init__(self, values: dict[str, object], where: str) -> None:
        super().__init__({name: getattr(value, where, value) for name, value in values.items()})
        self._where = where

    def __missing__(self, name: str) -> str:
        return str(getattr(Option(name), self._where))


class KstoolkitError(Exception):
    """Anything that kstoolkit itself raises on purpose.

    Parameters
    ----------
    message
        What happened, with the value at fault.
    hint
        What to do about it; printed on a line of its own. One that names options is a
        :class:`Sentence`, so that the command line says flags.

    Examples
    --------
    >>> print(KstoolkitError("No events in 'a.json': the file is empty.", hint="Give another."))
    No events in 'a.json': the file is empty.
    Hint: Give another.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message if hint is None else f"{message}\nHint: {hint}")


class UserError(KstoolkitError):
    """A mistake in what the user gave: exit code 2 on the command line."""


class ConfigurationError(UserError, ValueError):
    """An argument, option or rule that makes no sense."""


class InputError(UserError):
    """Input that is missing, empty or not what was said of it."""


class ColumnError(InputError):
    """A column that the input does not have."""

    @classmethod
    def missing(cls, column: str, available: Iterable[str], where: str) -> ColumnError:
        """Build the error for ``column``, proposing the nearest of the ``available`` ones.

        Examples
        --------
        >>> print(ColumnError.missing("usr", ["time", "user"], "data/a.json"))
        No column 'usr' in data/a.json.
        Hint: Did you mean 'user'? It has: time, user.
        """
        names = sorted(available)
        has = f"It has: {', '.join(names) or 'none'}."
        return cls(f"No column {column!r} in {where}.", hint=f"{guessed(column, names)}{has}")


class OutputError(UserError):
    """An output folder that can't be used: in use by another run, not a run, not shared."""


class CheckpointError(UserError):
    """A checkpoint that belongs to another configuration."""


class EnvironmentFault(UserError):
    """Something missing on this machine: Java, Spark, a package."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: no traceback helps to mend a machine."""
        return [str(self)]


class FormatError(KstoolkitError):
    """Bytes that are not what they should be."""

    @classmethod
    def version(cls, what: str, found: int, known: int) -> FormatError:
        """Build the error of a version byte that this kstoolkit does not know.

        Examples
        --------
        >>> print(FormatError.version("CountBlock", 9, 1))
        A CountBlock of version 9: this kstoolkit reads up to version 1.
        Hint: It was written by a newer kstoolkit: upgrade with pip install -U kstoolkit.
        """
        return cls(
            f"A {what} of version {found}: this kstoolkit reads up to version {known}.",
            hint="It was written by a newer kstoolkit: upgrade with pip install -U kstoolkit.",
        )


class KafkaError(KstoolkitError):
    """A Kafka cluster that does not answer, or does not do what it was asked."""


class UnreadableFile(KstoolkitError):
    """A file that the system let nobody read, or a folder, for longer than a moment.

    ``alone`` is a glob that names just this one.

    Examples
    --------
    >>> print(UnreadableFile("/mnt/a.json", "Stale file handle").message)
    '/mnt/a.json' can't be read: Stale file handle.
    """

    def __init__(self, path: str, why: str, *, how: str = "read") -> None:
        self.path, self.why, self.how = path, why, how
        self.alone = glob.escape(path)
        hint = "Nothing of it is counted, and nothing is lost: mend it and run again."
        if how == "read":
            hint += " To go on without it, give {set_aside}."
        else:
            hint += " To pass it over, name the files by a glob."
        option = Option("set_aside", repr(self.alone), f"--set-aside {shlex.quote(self.alone)}")
        super().__init__(f"{path!r} can't be {how}: {why}.", hint=naming(hint, set_aside=option))

    @classmethod
    def found_in(cls, text: str) -> UnreadableFile | None:
        """Return the one that a text tells of, as Spark makes a text of each error.

        Examples
        --------
        >>> told = f"Traceback: {UnreadableFile('/mnt/a.json', 'Stale file handle')} at Java…"
        >>> UnreadableFile.found_in(told).path
        '/mnt/a.json'
        """
        found = _UNREADABLE.search(text)
        return None if found is None else cls(literal_eval(found[1]), found[3], how=found[2])


class RunFailed(KstoolkitError):
    """A run that Spark ended with an error; the cause is chained."""


class OnBatchFailed(RunFailed):
    """A run whose own function for each batch raised something, which is chained.

    Examples
    --------
    >>> print(OnBatchFailed(print, 7, KeyError("user")).message)
    The function print of on_batch failed with batch 7: KeyError: 'user'.
    """

    def __init__(self, function: object, batch: int, error: BaseException) -> None:
        name = getattr(function, "__name__", type(function).__name__)
        said = ": ".join([type(error).__name__, *str(error).splitlines()[:1]]).rstrip(".")
        message = f"The function {name} of on_batch failed with batch {batch}: {said}."
        hint = "Nothing is lost: mend it and run again, it is called with the same batch and id."
        super().__init__(message, hint=hint)


class RestartsSpent(RunFailed):
    """A run that died more often than it may be started again."""


class LimitedResultWarning(UserWarning):
    """Fewer rows came back than there are."""


class StaleResultWarning(UserWarning):
    """What is shown was read some time ago: where it comes from does not answer."""


class CopyWarning(UserWarning):
    """What lies elsewhere is copied before it can be read, which takes time and room."""


class LargeReportWarning(UserWarning):
    """A report takes more room than whoever gets it by mail may like."""


def guessed(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return what a name may have been meant for, as the begin of a hint; nothing if nothing."""
    near = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"Did you mean {near[0]!r}? " if near else ""


def check_known(what: str, name: object, known: Iterable[object]) -> None:
    """Raise a ConfigurationError that says what there is, unless this is one of them."""
    if name not in (there := list(known)):
        names = list(map(str, there))
        message = f"There is no {what} {name!r}."
        hint = f"{guessed(str(name), names)}There are: {', '.join(names)}."
        raise ConfigurationError(message, hint=hint)


def local_folder(given: str | os.PathLike[str]) -> Path:
    """Return a folder that is written to; one of another scheme than ``file:`` is an OutputError.

    >>> str(local_folder("runs/mine")), str(local_folder("file:///runs/a%20b"))
    ('runs/mine', '/runs/a b')
    >>> print(local_folder("s3://bucket/x"))
    Traceback (most recent call last):
    kstoolkit.errors.OutputError: 's3://bucket/x' is no folder of this machine, but of 's3'.
    Hint: Give a path, and copy from there; or where it is mounted, as /mnt/bucket/x.
    """
    text = os.fspath(given)
    if (url := _FILE_URL.fullmatch(text)) is not None:
        return Path(unquote(url[1]))
    if (scheme := _SCHEME.match(text)) is not None:
        message = f"{text!r} is no folder of this machine, but of {scheme[1]!r}."
        hint = "Give a path, and copy from there; or where it is mounted, as /mnt/bucket/x."
        raise OutputError(message, hint=hint)
    return Path(given)


def to_stderr(line: str) -> None:
    """Print a line to stderr, where it is in the way of no result; in a notebook, to stdout."""
    print(line, file=sys.stdout if hasattr(sys.stderr, "pub_thread") else sys.stderr, flush=True)
