"""Settings of the connection to Kafka, from a file: what is secret stands in no command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CONFIG_FILE", "options_of_environment", "read_options", "text_of"]

CONFIG_FILE = "KSTOOLKIT_KAFKA_CONFIG"
"""The environment variable that names a file with settings of the connection."""


def read_options(path: str | Path) -> dict[str, str]:
    r"""Return the settings that a file has, one ``name=value`` a line, as Kafka's own tools read.

    What begins with ``#`` or ``!`` is a comment. A line that ends with a backslash goes on in the
    next one, whose indent does not count. Elsewhere a backslash stands for itself.

    Raises
    ------
    InputError
        If it can't be read, or a line of it is none.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w") as file:
    ...     print("# ours\nclient.id = count\\\n  er", file=file, flush=True)
    ...     read_options(file.name)
    {'client.id': 'counter'}
    """
    told: dict[str, str] = {}
    for number, line in _lines(text_of(str(path))):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            message = f"Line {number} of {str(path)!r} is no setting."  # what it says may be secret
            raise InputError(message, hint="Write name=value, one a line.")
        told[name.strip()] = value.strip()
    return told


def options_of_environment() -> dict[str, str]:
    """Return the settings of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names, if it does."""
    path = os.environ.get(CONFIG_FILE)
    return read_options(path) if path else {}


def text_of(path: str) -> str:
    """Return what a file says.

    Raises
    ------
    InputError
        If it can't be read, or is no text.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path!r} can't be read: {getattr(error, 'strerror', None) or error}."
        raise InputError(message, hint="Give a text file that you may read.") from error


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield whole lines without comments and empty ones, and the number of each one's first."""
    number, begun = 0, ""
    for at, line in enumerate(text.splitlines(), 1):
        part = line.strip()
        if not begun and (not part or part[0] in "#!"):
            continue
        number = number if begun else at
        begun += part
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
        else:
            yield number, begun
            begun = ""
    if begun:
        yield number, begun
