"""Settings of a connection, for the two clients that there are: librdkafka's and Java's.

People give them once. Most have one name in both; where the two differ, either name will do:

==========================  ===========================================================
librdkafka                  Java
==========================  ===========================================================
``sasl.username``           ``sasl.jaas.config``, with ``sasl.password`` in it
``sasl.mechanisms``         ``sasl.mechanism``
``ssl.ca.location``         ``ssl.truststore.location``, of type PEM
``ssl.ca.pem``              ``ssl.truststore.certificates``, of type PEM
``ssl.certificate.pem``     ``ssl.keystore.certificate.chain``, of type PEM
``ssl.key.pem``             ``ssl.keystore.key``
==========================  ===========================================================

What just one of them knows is given with the client's name in front, as ``java.`` or
``librdkafka.``: ``java.default.api.timeout.ms``. A store of certificates that Java alone reads
(JKS, or PKCS #12 of those who are trusted) needs the same as PEM beside it; Java takes the store.

Files of a certificate and its key (``ssl.certificate.location``, ``ssl.key.location``) are read for
Java, which wants their text. A host's name is checked unless
``ssl.endpoint.identification.algorithm`` is ``none``.

Java reads private keys as PKCS #8 (RFC 5208) and nothing else. OpenSSL wrote others for long, and
some tools still do: ``BEGIN RSA PRIVATE KEY`` (PKCS #1), ``BEGIN EC PRIVATE KEY`` (SEC 1). They are
written anew for it, in memory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.topics import text_of, without_servers

if TYPE_CHECKING:
    from collections.abc import Mapping

_OLD_FORM = re.compile(r"-----BEGIN (RSA|EC) PRIVATE KEY-----")


def _for_java_to_read(pem: str, place: str) -> str:
    """Return a key's PEM text as PKCS #8; what is no RSA or EC key of the older kind, as it is."""
    if (found := _OLD_FORM.search(pem)) is None:
        return pem
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - for old keys alone
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as above

    try:
        key = serialization.load_pem_private_key(pem[found.start() :].encode(), None)
    except TypeError as error:
        raise _unreadable(place, f"is an encrypted {found[1]} key of an older form") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _unreadable(place, f"is no whole {found[1]} key") from error
    forms = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(*forms, serialization.NoEncryption()).decode()


def _unreadable(place: str, why: str) -> InputError:
    message = f"The key in {place!r} {why}, which Java does not read."
    return InputError(message, hint="Write it as PKCS #8: openssl pkcs8 -topk8 -in KEY -out NEW")


_JAAS = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_CLIENTS = ("java.", "librdkafka.")
_ALIKE = {"sasl.mechanisms": "sasl.mechanism"}
_FILES = {"ssl.certificate.location": "ssl.certificate.pem", "ssl.key.location": "ssl.key.pem"}
_PLACES = {"ssl.ca.location", "ssl.keystore.location", *_FILES}
_TRUST = "ssl.truststore.certificates"
_CHAIN, _KEY = "ssl.keystore.certificate.chain", "ssl.keystore.key"
_TEXTS = {"ssl.ca.pem": _TRUST, "ssl.certificate.pem": _CHAIN, "ssl.key.pem": _KEY}
_NAMED = "ssl.endpoint.identification.algorithm"
_VERIFIED = "enable.ssl.certificate.verification"


def for_librdkafka(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as librdkafka names them.

    Certificates in a form that it does not read are a ConfigurationError; a file of theirs that
    can't be read is an InputError.

    >>> jaas = 'org.x.PlainLoginModule required username="me" password="none";'
    >>> for_librdkafka({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas})["sasl.username"]
    'me'
    """
    told = _of_client("librdkafka.", options)
    for name, *values in _JAAS.findall(told.pop("sasl.jaas.config", "")):
        if name in {"username", "password"}:
            told.setdefault(f"sasl.{name}", re.sub(r"\\(.)", r"\1", "".join(values)))
    if "sasl.username" in told:
        told.setdefault("sasl.mechanism", "PLAIN")
    _trust_as_pem(told)
    _certificate_as_pem(told)
    _check_there(told)
    if not told.get(_NAMED, "https"):
        told[_NAMED] = "none"
    return told


def for_java(options: Mapping[str, str]) -> dict[str, str]:
    r"""Return the settings as Kafka's Java client names them.

    A mechanism of a user and password that Java names no module for here, and no certificate to be
    verified, are a ConfigurationError; a certificate's file that can't be read, or a key in no form
    that Java reads, is an InputError.

    >>> given = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'n"o'}
    >>> print(for_java(given)["sasl.jaas.config"])
    org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="n\"o";
    """
    told = _of_client("java.", options)
    user, password = told.pop("sasl.username", None), told.pop("sasl.password", None)
    if user is not None and "sasl.jaas.config" not in told:
        mechanism = told.setdefault("sasl.mechanism", "PLAIN")
        told["sasl.jaas.config"] = _jaas(mechanism, user, password or "")
    if told.pop(_VERIFIED, "true").lower() != "true":
        message = f"{_VERIFIED} is not true, and Java's client verifies each certificate."
        hint = "Give the broker's certificate, or its issuer's, as ssl.ca.location."
        raise ConfigurationError(message, hint=hint)
    if told.get(_NAMED) == "none":
        told[_NAMED] = ""
    return _with_trust(_with_certificate(told))


def _of_client(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that are for this client, or for both; its own ones win."""
    told = without_servers(options).items()
    both = {name: each for name, each in told if not name.startswith(_CLIENTS)}
    mine = {name.removeprefix(prefix): each for name, each in told if name.startswith(prefix)}
    return {_ALIKE.get(name, name): value for name, value in (both | mine).items()}


def _trust_as_pem(told: dict[str, str]) -> None:
    """Put whom a client trusts as librdkafka takes it."""
    kind = told.pop("ssl.truststore.type", "JKS").upper()
    place, text = told.pop("ssl.truststore.location", None), told.pop(_TRUST, None)
    told.pop("ssl.truststore.password", None)
    if told.keys() & {"ssl.ca.location", "ssl.ca.pem"}:
        return
    if text is not None:
        told["ssl.ca.pem"] = text
    elif place is not None and kind == "PEM":
        told["ssl.ca.location"] = place
    elif place is not None:
        message = f"ssl.truststore.location is of type {kind}, which librdkafka does not read."
        hint = "Give the same certificates as PEM beside it: ssl.ca.location=FILE."
        raise ConfigurationError(message, hint=hint)


def _certificate_as_pem(told: dict[str, str]) -> None:
    """Put a client's own certificate as librdkafka takes it; it reads PKCS #12, too."""
    kind = told.pop("ssl.keystore.type", "PKCS12").upper()
    for name, of_java in (("ssl.certificate.pem", _CHAIN), ("ssl.key.pem", _KEY)):
        if of_java in told:
            told.setdefault(name, told.pop(of_java))
    if "ssl.keystore.location" not in told or kind == "PKCS12":
        return
    place = told.pop("ssl.keystore.location")
    told.pop("ssl.keystore.password", None)
    if told.keys() & {"ssl.certificate.location", "ssl.certificate.pem"}:
        return
    if kind != "PEM":
        message = f"ssl.keystore.location is of type {kind}, which librdkafka does not read."
        hint = "Give it as PEM beside: ssl.certificate.location=FILE and ssl.key.location=FILE."
        raise ConfigurationError(message, hint=hint)
    told |= {"ssl.certificate.location": place, "ssl.key.location": place}


def _with_certificate(told: dict[str, str]) -> dict[str, str]:
    """Return the settings with a client's own certificate as Java takes it."""
    if "ssl.keystore.location" in told:
        return {name: each for name, each in told.items() if name not in _FILES}
    read = {_FILES.get(name, name): value for name, value in told.items()}
    for name in _FILES.keys() & told.keys():
        read[_FILES[name]] = text_of(told[name])
    named = {_TEXTS.get(name, name): value for name, value in read.items()}
    if _KEY in named:
        named[_KEY] = _for_java_to_read(named[_KEY], told.get("ssl.key.location", "ssl.key.pem"))
    return {"ssl.keystore.type": "PEM", **named} if _CHAIN in named or _KEY in named else named


def _with_trust(told: dict[str, str]) -> dict[str, str]:
    """Return the settings with whom a client trusts as Java takes it."""
    place = told.pop("ssl.ca.location", None)
    if "ssl.truststore.location" in told:
        told.pop(_TRUST, None)
    elif _TRUST in told:
        told.setdefault("ssl.truststore.type", "PEM")
    elif place is not None:
        told |= {"ssl.truststore.location": place, "ssl.truststore.type": "PEM"}
    return told


def _check_there(told: dict[str, str]) -> None:
    """Say which file is missing: librdkafka says that its BIO lib failed."""
    for name in _PLACES & told.keys():
        place = Path(told[name])
        if told[name] == "probe" or place.is_dir():  # where systems have them; a folder of them
            continue
        try:
            place.open("rb").close()
        except OSError as error:
            message = f"{str(place)!r}, which is {name}, can't be read: {error.strerror}."
            raise InputError(message, hint="Give a file that you may read.") from error


def _jaas(mechanism: str, user: str, password: str) -> str:
    module = _MODULES.get(mechanism.upper())
    if module is None:
        message = f"sasl.mechanism is {mechanism!r}, which takes no user and password here."
        hint = f"Known: {', '.join(_MODULES)}; others want sasl.jaas.config."
        raise ConfigurationError(message, hint=hint)
    return f'{module} required username="{_quoted(user)}" password="{_quoted(password)}";'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
