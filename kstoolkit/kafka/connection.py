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

Private keys as Java reads them: PKCS #8 and nothing else.

OpenSSL wrote others for long, and some tools still do: ``BEGIN RSA PRIVATE KEY`` (PKCS #1, RFC
8017, appendix A.1.2) and ``BEGIN EC PRIVATE KEY`` (SEC 1, RFC 5915). PKCS #8 (RFC 5208) is the same
key in an envelope that names its algorithm, and for EC the curve::

    SEQUENCE { INTEGER 0, SEQUENCE { algorithm, parameters }, OCTET STRING { the key } }

Whether a broker answers: two requests of Kafka's protocol over a plain socket.

An open port is not enough, as the listener opens before the broker may be asked for anything. A
request is ``int32 length | int16 api key | int16 api version | int32 correlation id | int16 length
of the client id | client id | body``, an answer ``int32 length | int32 correlation id | body``; all
big-endian.

Why a broker that is there does not let a client in: what to mend, instead of waiting for it.

librdkafka goes on trying whatever is wrong. It does not say why it does not trust a certificate,
and nothing at all of a server that speaks TLS where it does not. So servers are asked once more, by
plain sockets. They are told no secret.
"""

from __future__ import annotations

import base64
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.topics import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_BLOCK = re.compile(r"-----BEGIN (RSA|EC) PRIVATE KEY-----([^-]*)-----END \1 PRIVATE KEY-----")
_OLD_AND_ENCRYPTED = re.compile(r"-----BEGIN (RSA|EC) PRIVATE KEY-----\s*Proc-Type")

_INTEGER, _OCTETS, _NAME, _SEQUENCE, _PARAMETERS = 0x02, 0x04, 0x06, 0x30, 0xA0
_VERSION = bytes([_INTEGER, 1, 0])
_RSA = bytes.fromhex("06092a864886f70d010101" + "0500")  # 1.2.840.113549.1.1.1, without parameters
_EC = bytes.fromhex("06072a8648ce3d0201")  # 1.2.840.10045.2.1
_LONG = 0x80


def _for_java_to_read(pem: str, place: str) -> str:
    """Return a key's PEM text as PKCS #8; what is no RSA or EC key of the older kind, as it is.

    Parameters
    ----------
    pem
        What the file says.
    place
        Where it was found.

    Raises
    ------
    InputError
        If the key is of an older kind, and encrypted or damaged.

    Examples
    --------
    >>> _for_java_to_read("-----BEGIN PRIVATE KEY-----", "key.pem")
    '-----BEGIN PRIVATE KEY-----'
    """
    if (found := _OLD_AND_ENCRYPTED.search(pem)) is not None:
        raise _unreadable(place, f"is an encrypted {found[1]} key of an older form")
    if (found := _BLOCK.search(pem)) is None:
        return pem
    kind, body = found.groups()
    try:
        key = base64.b64decode("".join(body.split()), validate=True)
        algorithm = _RSA if kind == "RSA" else _EC + _curve(key)
    except (ValueError, LookupError) as error:
        raise _unreadable(place, f"is no whole {kind} key") from error
    whole = _told(_SEQUENCE, _VERSION + _told(_SEQUENCE, algorithm) + _told(_OCTETS, key))
    lines = "\n".join(textwrap.wrap(base64.b64encode(whole).decode(), 64))
    return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"


def _curve(key: bytes) -> bytes:
    """Return the name of an EC key's curve, as it stands in the key."""
    ((_, inside),) = _parts(key)
    (name,) = (body for tag, body in _parts(inside) if tag == _PARAMETERS)
    ((tag, _),) = _parts(name)
    if tag != _NAME:
        raise LookupError
    return name


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and content of each value that stands in some DER (X.690, 8.1)."""
    while der:
        tag, size, begin = der[0], der[1], 2
        if size & _LONG:
            begin += size & ~_LONG
            size = int.from_bytes(der[2:begin], "big")
        if len(der) < begin + size:
            raise IndexError
        yield tag, der[begin : begin + size]
        der = der[begin + size :]


def _told(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < _LONG:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, _LONG | len(digits)]) + digits + content


def _unreadable(place: str, why: str) -> InputError:
    message = f"The key in {place!r} {why}, which Java does not read."
    return InputError(message, hint="Write it as PKCS #8: openssl pkcs8 -topk8 -in KEY -out NEW")


_JAAS = re.compile(
    r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""",
)
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

    Raises
    ------
    ConfigurationError
        If certificates are given in a form that it does not read.
    InputError
        If a file that they name can't be read.

    Examples
    --------
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

    Raises
    ------
    ConfigurationError
        If the mechanism of a user and password is one that Java names no module for here, or no
        certificate shall be verified.
    InputError
        If a file of a certificate can't be read, or its key is in no form that Java reads.

    Examples
    --------
    >>> given = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": 'n"o'}
    >>> print(for_java(given)["sasl.jaas.config"])
    org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="n\"o";
    """
    told = _of_client("java.", options)
    user, password = told.pop("sasl.username", None), told.pop("sasl.password", None)
    if user is not None and "sasl.jaas.config" not in told:
        mechanism = told.setdefault("sasl.mechanism", "PLAIN")
        told["sasl.jaas.config"] = _jaas(mechanism, user, password or "")
    _check_verified(told)
    if told.get(_NAMED) == "none":
        told[_NAMED] = ""
    return _with_trust(_with_certificate(told))


def _of_client(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that are for this client, or for both; its own ones win."""
    both = {name: each for name, each in options.items() if not name.startswith(_CLIENTS)}
    mine = {
        name.removeprefix(prefix): each for name, each in options.items() if name.startswith(prefix)
    }
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


def _check_verified(told: dict[str, str]) -> None:
    if told.pop(_VERIFIED, "true").lower() != "true":
        message = f"{_VERIFIED} is not true, and Java's client verifies each certificate."
        hint = "Give the broker's certificate, or its issuer's, as ssl.ca.location."
        raise ConfigurationError(message, hint=hint)


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
