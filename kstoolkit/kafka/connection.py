"""Settings of a connection, for the two clients that there are: librdkafka's and Java's.

People give them once. Most have one name in both; where the two differ, either name will do:

==========================  ===========================================================
librdkafka                  Java
==========================  ===========================================================
``sasl.username``           ``sasl.jaas.config``, with ``sasl.password`` in it
``sasl.mechanisms``         ``sasl.mechanism``
``ssl.ca.location``         ``ssl.truststore.location``, of type PEM
``ssl.certificate.pem``     ``ssl.keystore.certificate.chain``, of type PEM
``ssl.key.pem``             ``ssl.keystore.key``
==========================  ===========================================================

What just one of them knows is given with the client's name in front, as ``java.`` or
``librdkafka.``: ``java.default.api.timeout.ms``.

Files of a certificate and its key (``ssl.certificate.location``, ``ssl.key.location``) are read for
Java, which wants their text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CONFIG_FILE", "for_java", "for_librdkafka", "options_of_environment", "read_options"]

CONFIG_FILE = "KSTOOLKIT_KAFKA_CONFIG"
"""The environment variable that names a file with settings of the connection."""

_JAAS = re.compile(r"""(\w+)\s*=\s*"((?:[^"\\]|\\.)*)\"""")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_CLIENTS = ("java.", "librdkafka.")
_ALIKE = {"sasl.mechanisms": "sasl.mechanism"}
_TEXTS = {
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
_FILES = {"ssl.certificate.location": "ssl.certificate.pem", "ssl.key.location": "ssl.key.pem"}


def for_librdkafka(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as librdkafka names them.

    Examples
    --------
    >>> jaas = 'org.x.PlainLoginModule required username="me" password="none";'
    >>> for_librdkafka({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas})["sasl.username"]
    'me'
    """
    told = _of_client("librdkafka.", options)
    for name, value in _JAAS.findall(told.pop("sasl.jaas.config", "")):
        if name in {"username", "password"}:
            told.setdefault(f"sasl.{name}", re.sub(r"\\(.)", r"\1", value))
    return told


def for_java(options: Mapping[str, str]) -> dict[str, str]:
    r"""Return the settings as Kafka's Java client names them.

    Raises
    ------
    ConfigurationError
        If the mechanism of a user and password is one that Java names no module for here.
    InputError
        If a file of a certificate can't be read.

    Examples
    --------
    >>> given = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'n"o'}
    >>> print(for_java(given)["sasl.jaas.config"])
    org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="n\"o";
    """
    told = _of_client("java.", options)
    user, password = told.pop("sasl.username", None), told.pop("sasl.password", None)
    if user is not None and "sasl.jaas.config" not in told:
        told["sasl.jaas.config"] = _jaas(told.get("sasl.mechanism", "PLAIN"), user, password or "")
    for name, meant in _FILES.items():
        if name in told:
            told[meant] = _text_of(told.pop(name))
    if any(name in told for name in _TEXTS):
        told.setdefault("ssl.keystore.type", "PEM")
    if "ssl.ca.location" in told:
        told["ssl.truststore.location"] = told.pop("ssl.ca.location")
        told["ssl.truststore.type"] = "PEM"
    return {_TEXTS.get(name, name): value for name, value in told.items()}


def read_options(path: str | Path) -> dict[str, str]:
    """Return the settings that a file has, one ``name=value`` a line, as Kafka's own tools read.

    Raises
    ------
    InputError
        If it can't be read, or a line of it is none.
    """
    told: dict[str, str] = {}
    for number, line in enumerate(_text_of(str(path)).splitlines(), 1):
        name, equals, value = line.strip().partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals or not name.strip():
            message = f"Line {number} of {str(path)!r} is no setting."  # what it says may be secret
            raise InputError(message, hint="Write name=value, one a line.")
        told[name.strip()] = value.strip()
    return told


def options_of_environment() -> dict[str, str]:
    """Return the settings of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names, if it does."""
    path = os.environ.get(CONFIG_FILE)
    return read_options(path) if path else {}


def _of_client(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that are for this client, or for both."""
    mine = {name.removeprefix(prefix): value for name, value in options.items()}
    both = {name: each for name, each in mine.items() if not name.startswith(_CLIENTS)}
    return {_ALIKE.get(name, name): value for name, value in both.items()}


def _jaas(mechanism: str, user: str, password: str) -> str:
    module = _MODULES.get(mechanism.upper())
    if module is None:
        message = f"sasl.mechanism is {mechanism!r}, which takes no user and password here."
        raise ConfigurationError(
            message, hint=f"Known: {', '.join(_MODULES)}; others want sasl.jaas.config."
        )
    return f'{module} required username="{_quoted(user)}" password="{_quoted(password)}";'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path!r} can't be read: {getattr(error, 'strerror', None) or error}."
        raise InputError(message, hint="Give a text file that you may read.") from error
