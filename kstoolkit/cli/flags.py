"""Hints that name arguments of Python, in the words of the command line."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import KstoolkitError

if TYPE_CHECKING:
    from collections.abc import Iterator


_SENTENCES = {"unknown", "verdict"}

_FLAGS = {
    "action": "--action",
    "bound_bytes": "--bound-bytes",
    "column_family": "--column-family",
    "instances": "--instances",
    "iterators": "--iterators",
    "key": "--key",
    "kind": "--kind",
    "look": "--look",
    "other_folders": "--other-folder",
    "over": "--over",
    "overwrite": "--overwrite",
    "pid": "--pid",
    "profile": "--profile",
    "retention": "--retention",
    "since": "--since",
    "topic": "--topic",
    "total": "--total",
    "until": "--until",
    "version": "--version",
    "window_size": "--window-size",
}
_ARGUMENT = re.compile(
    rf"(?<![\w(])(?P<name>{'|'.join(_FLAGS)})=(?P<value>\.\.\.|True|\[\.\.\.\]|\['[^']*'\]|(?![\[\w]))"
)
_NO_FOLDERS = "other_folders=[] "
_WORDS = {
    "Give scratch= (or TMPDIR) ": "Set TMPDIR to ",
    "Give the key's bytes instead": "Give the key's bytes in hex, as --key 0x00ff",
    "the prefix in bytes": "the prefix in hex, as --prefix 0x00ff",
    "Read another version of": "Read another --version of",
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


def reasons_in_flags(told: dict[str, Any]) -> dict[str, Any]:
    """Return a record as it is, but for the sentences in it: keys and values are the user's.

    Examples
    --------
    >>> reasons_in_flags({"key": "retention=", "unknown": {"offset": "give retention="}})
    {'key': 'retention=', 'unknown': {'offset': 'give --retention'}}
    """
    return {
        name: _in_flags(value) if name in _SENTENCES else _of_part(value)
        for name, value in told.items()
    }


def _of_part(value: Any) -> Any:
    if isinstance(value, list):
        return [_of_part(each) for each in value]
    return reasons_in_flags(value) if isinstance(value, dict) else value


def _in_flags(told: Any) -> Any:
    """Return sentences; anything else there is the user's, as a column that is called so."""
    match told:
        case dict():
            return {name: _in_flags(why) for name, why in told.items()}
        case list():
            return [_in_flags(sentence) for sentence in told]
        case str():
            return in_flags(told)
    return told


@contextmanager
def hints_in_flags() -> Iterator[None]:
    """Let what goes wrong meanwhile say what to do in the words of the command line."""
    try:
        yield
    except KstoolkitError as error:
        error.hint = None if error.hint is None else in_flags(error.hint)
        raise
