"""Where a replica lies, as people give it."""

from __future__ import annotations

import os
from pathlib import Path

from kstoolkit.errors import ConfigurationError


def replica_place(path: str | os.PathLike[str]) -> Path:
    r"""Return the folder of a replica, which need not be there.

    Raises
    ------
    ConfigurationError
        If no folder can be called so.

    Examples
    --------
    >>> replica_place("out/replica").name
    'replica'
    >>> replica_place("a\0b")
    Traceback (most recent call last):
        ...
    kstoolkit.errors.ConfigurationError: 'a\x00b' is no path of a replica.
    Hint: Give the path of its folder, as text, without a character 0.
    """
    text = _text(path)
    if text is None or "\0" in text:
        message = f"{path!r} is no path of a replica."
        hint = "Give the path of its folder, as text, without a character 0."
        raise ConfigurationError(message, hint=hint)
    return Path(text)


def _text(path: object) -> str | None:
    found = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    return found if isinstance(found, str) else None
