"""What is published in a Maven repository: a name, and the version of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kstoolkit.errors import ConfigurationError

_PART = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, order=True)
class Artifact:
    """A jar in a Maven repository.

    Parameters
    ----------
    group
        Who publishes it, such as ``"org.apache.kafka"``.
    name
        What it is, such as ``"kafka-clients"``.
    version
        Which one of it, such as ``"4.3.1"``.

    Raises
    ------
    ConfigurationError
        If a part is empty, or has characters that none has.

    Examples
    --------
    >>> print(Artifact("org.apache.kafka", "kafka-clients", "4.3.1"))
    org.apache.kafka:kafka-clients:4.3.1
    """

    group: str
    name: str
    version: str

    def __post_init__(self) -> None:
        if not all(_PART.fullmatch(part) for part in (self.group, self.name, self.version)):
            message = f"{str(self)!r} is no artifact of a Maven repository."
            raise ConfigurationError(message, hint="Give group, name and version.")

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"
