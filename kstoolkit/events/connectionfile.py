"""Settings of the connection to Kafka, from a file: what is secret stands in no command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def options_given(options: object) -> dict[str, str]:
    """Return settings as texts; of none, those of the file that the environment names.

    Parameters
    ----------
    options
        A mapping of names to texts, numbers or truth values; or None.

    Raises
    ------
    ConfigurationError
        If they are no settings. What they are instead may be secret, and is not shown.

    Examples
    --------
    >>> options_given({"security.protocol": "SSL", "linger.ms": 20, "enable.idempotence": True})
    {'security.protocol': 'SSL', 'linger.ms': '20', 'enable.idempotence': 'true'}
    """
    if options is None:
        return options_of_environment()
    hint = "Give a mapping of texts, as {'security.protocol': 'SSL'}."
    if not isinstance(options, Mapping):
        message = f"The options of the connection are of type {type(options).__name__}."
        raise ConfigurationError(message, hint=hint)
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            message = f"The option {name!r} is of type {type(value).__name__}."
            raise ConfigurationError(message, hint=hint)
    return {name: _as_text(value) for name, value in options.items()}


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


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
