"""Hints that name arguments of Python, in the words of the command line."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kstoolkit.errors import KstoolkitError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["hints_in_flags", "in_flags"]

_FLAGS = {
    "action": "--action",
    "bound_bytes": "--bound-bytes",
    "column_family": "--column-family",
    "instances": "--instances",
    "iterators": "--iterators",
    "look": "--look",
    "other_folders": "--other-folder",
    "overwrite": "--overwrite",
    "pid": "--pid",
    "profile": "--profile",
    "retention": "--retention",
    "since": "--since",
    "total": "--total",
    "window_size": "--window-size",
}
_ARGUMENT = re.compile(
    rf"(?<![\w(])(?P<name>{'|'.join(_FLAGS)})=(?P<value>\.\.\.|True|\[\.\.\.\]|\['[^']*'\]|(?![\[\w]))"
)
_NO_FOLDERS = "other_folders=[] "
_WORDS = {
    "Give scratch= (or TMPDIR) ": "Set TMPDIR to ",
    "give rows(since=..., until=...), or raise disk_bytes": "give --since or --until",
    _NO_FOLDERS: f"in Python, {_NO_FOLDERS}",
}


def in_flags(text: str) -> str:
    """Return a text in which arguments that the commands have as options are named as those.

    Examples
    --------
    >>> in_flags("no bound is given: bound_bytes=...")
    'no bound is given: --bound-bytes'
    >>> in_flags("Give them as other_folders=[...], or other_folders=['a/SSTs'].")
    "Give them as --other-folder PATH, or --other-folder 'a/SSTs'."
    >>> in_flags("Give scratch= (or TMPDIR) a folder of your own.")
    'Set TMPDIR to a folder of your own.'
    """
    for argument, words in _WORDS.items():
        text = text.replace(argument, words)
    return _ARGUMENT.sub(_flag, text)


def _flag(match: re.Match[str]) -> str:
    value = match["value"]
    if value.startswith("["):
        value = "PATH" if value == "[...]" else value[1:-1]
        return f"{_FLAGS[match['name']]} {value}"
    return _FLAGS[match["name"]]


@contextmanager
def hints_in_flags() -> Iterator[None]:
    """Let what goes wrong meanwhile say what to do in the words of the command line."""
    try:
        yield
    except KstoolkitError as error:
        error.hint = None if error.hint is None else in_flags(error.hint)
        raise
