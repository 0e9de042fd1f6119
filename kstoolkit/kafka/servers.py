"""Whether a server answers as a broker; and if it lets nobody in, why: what to mend.

An open port is not enough, as the listener opens before the broker may be asked for anything. So it
is asked, by Kafka's protocol over a plain socket. A request is ``int32 length | int16 api key |
int16 api version | int32 correlation id | int16 length of the client id | client id | body``, an
answer ``int32 length | int32 correlation id | body``; all big-endian.

librdkafka goes on trying whatever is wrong. It does not say why it does not trust a certificate,
and nothing at all of a server that speaks TLS where it does not. So servers are asked once more, by
plain sockets. They are told no secret.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_CLIENT = b"kstoolkit"
_API_VERSIONS = (18, 0, b"")
_METADATA_OF_NO_TOPIC = (3, 1, b"\0\0\0\0")
_CORRELATION = 7
_ANSWER_S = 2.0
_LARGEST_ANSWER_BYTES = 1 << 20
_INT = struct.Struct(">i")
_NO_ANSWER = (OSError, EOFError, struct.error)
"""What asking raises where no broker answers as one does."""


def is_ready(port: int) -> bool:
    """Return whether a broker on loopback speaks the protocol, and is registered and unfenced."""
    try:
        with socket.create_connection(("127.0.0.1", port), _ANSWER_S) as connection:
            return _speaks_kafka(connection) and _has_a_broker(connection)
    except _NO_ANSWER:
        return False


def _speaks_kafka(connection: socket.socket) -> bool:
    """Return whether it is a broker that answers here, also one that wants a password first."""
    (error,) = struct.unpack_from(">h", _answer(connection, *_API_VERSIONS))
    return bool(error == 0)


def _has_a_broker(connection: socket.socket) -> bool:
    """Return whether it knows a broker; whoever wants a password first hangs up instead."""
    (brokers,) = _INT.unpack_from(_answer(connection, *_METADATA_OF_NO_TOPIC))
    return bool(brokers > 0)


def _answer(connection: socket.socket, api: int, version: int, body: bytes) -> bytes:
    """Send a request, and return the body of the answer to it."""
    head = struct.pack(">hhih", api, version, _CORRELATION, len(_CLIENT))
    request = head + _CLIENT + body
    connection.sendall(_INT.pack(len(request)) + request)
    length, correlation = (_INT.unpack(_exactly(connection, _INT.size))[0] for _ in range(2))
    if correlation != _CORRELATION or not _INT.size <= length <= _LARGEST_ANSWER_BYTES:
        raise EOFError
    return _exactly(connection, length - _INT.size)


def _exactly(connection: socket.socket, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        part = connection.recv(size_bytes - len(received))
        if not part:
            raise EOFError
        received += part
    return received


_SECONDS = 1.5
_ASKED = 3  # servers
_SAID = re.compile(r"(?:\w+://)?(?P<server>\S+?)/(?:bootstrap|\d+): (?P<what>.*?)(?: \(after .*)?")
_OF_PASSWORDS = re.compile(r"SASL|sasl")
_MAY_PASS = re.compile(r"Local:|[Dd]isconnect|[Tt]imed? ?out|[Ss]hutting down")
"""Words of a refusal that is none: the connection broke off on the way."""
_ALERT = re.compile(r"alert (?!close|internal)([a-z ]+)")
_UNTRUSTED = "certificate verify failed"
_GIVEN = "They stand in options=…, or in the file of --kafka-config or KSTOOLKIT_KAFKA_CONFIG."
_BY_TLS = {"SSL", "SASL_SSL"}


class _Welcome(Enum):
    """How a server answers to somebody without a password."""

    nobody = auto()
    no_kafka = auto()  # somebody listens, who speaks otherwise
    password = auto()  # a broker that hangs up on whoever shows none
    in_full = auto()


@dataclass(frozen=True, slots=True)
class _Server:
    """One that a client is to ask first."""

    name: str

    def connected(self) -> socket.socket:
        host, _, port = self.name.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), _SECONDS)

    def by_tls(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        connection = self.connected()
        try:
            host = self.name.rpartition(":")[0].strip("[]")
            return context.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise

    def speaks_tls(self) -> bool:
        try:
            self.by_tls(_trusting_anybody()).close()
        except ssl.SSLError as error:
            return "ALERT" in str(error.reason)  # it wants other ciphers or a certificate
        except OSError:
            return False
        return True

    def welcome(self, context: ssl.SSLContext | None = None) -> _Welcome:
        """Return how it answers, by TLS if a context is given."""
        try:
            connection = self.connected() if context is None else self.by_tls(context)
        except ssl.SSLError:
            return _Welcome.no_kafka
        except OSError:
            return _Welcome.nobody
        with connection:
            return _welcome(connection)

    def distrust(self, settings: Mapping[str, str]) -> str:
        """Return why its certificate is not trusted, as OpenSSL says it."""
        try:
            self.by_tls(_trusting(settings)).close()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message.rstrip(".")
        except OSError:
            pass
        return "it could not be verified"


def _welcome(connection: socket.socket) -> _Welcome:
    try:
        if not _speaks_kafka(connection):
            return _Welcome.no_kafka
    except _NO_ANSWER:
        return _Welcome.no_kafka
    try:
        _has_a_broker(connection)
    except TimeoutError:
        return _Welcome.no_kafka
    except _NO_ANSWER:
        return _Welcome.password
    return _Welcome.in_full


def refusal(
    bootstrap: str, settings: Mapping[str, str], heard: Sequence[str]
) -> ConfigurationError | None:
    """Return why no server lets a client in; ``None`` if that may pass by itself.

    ``settings`` are as librdkafka names them; ``heard`` is what it said about them so far.

    >>> said = "sasl_ssl://a:1/bootstrap: SASL authentication error: Who? (after 3ms in state X)"
    >>> print(refusal("a:1", {}, [said]))
    The broker at 'a:1' does not let this client in: SASL authentication error: Who?.
    Hint: Mend sasl.username, sasl.password, sasl.mechanism or security.protocol. They stand in ...
    """
    told = _of_password(heard)
    if told is not None:
        return told
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    for server in map(_Server, bootstrap.split(",")[:_ASKED]):
        if protocol in _BY_TLS:
            why = _with_tls(server, protocol, settings, " ".join(heard))
        else:
            why = _without_tls(server, protocol)
        if why is not None:
            return why
    return None


def last_words(heard: Sequence[str]) -> str | None:
    """Return what librdkafka said last of a server; ``None`` if nothing.

    >>> last_words(["a:1/bootstrap: Connect to ipv4#1.2.3.4:1 failed: refused (after 0ms in ...)"])
    'Connect to ipv4#1.2.3.4:1 failed: refused'
    """
    words = [what for _, what in _parted(heard)]
    return words[-1] if words else None


def _of_password(heard: Sequence[str]) -> ConfigurationError | None:
    for server, what in _parted(heard):
        if _OF_PASSWORDS.match(what) and not _MAY_PASS.search(what):
            message = f"The broker at {server!r} does not let this client in: {what.rstrip(' .:')}."
            hint = "Mend sasl.username, sasl.password, sasl.mechanism or security.protocol."
            return ConfigurationError(message, hint=f"{hint} {_GIVEN}")
    return None


def _parted(heard: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield which server each was about, and what it was."""
    for said in heard:
        if (found := _SAID.fullmatch(said)) is not None:
            yield found["server"], found["what"]


def _with_tls(
    server: _Server, protocol: str, settings: Mapping[str, str], heard: str
) -> ConfigurationError | None:
    if _UNTRUSTED in heard:
        return _untrusted(server, settings)
    if (alert := _ALERT.search(heard)) is not None:
        return _not_taken(server, settings, alert[1].strip())
    if server.welcome() in {_Welcome.in_full, _Welcome.password}:
        message = f"The broker at {server.name!r} speaks no TLS, and security.protocol={protocol}."
        hint = "Give its port for TLS, or security.protocol=PLAINTEXT or SASL_PLAINTEXT."
        return ConfigurationError(message, hint=hint)
    return _wants_password(server, protocol, _trusting_anybody()) if protocol == "SSL" else None


def _without_tls(server: _Server, protocol: str) -> ConfigurationError | None:
    if server.welcome() is _Welcome.no_kafka and server.speaks_tls():
        message = f"The broker at {server.name!r} speaks TLS, and security.protocol={protocol}."
        hint = f"Set security.protocol to SSL or SASL_SSL, and ssl.ca.location. {_GIVEN}"
        return ConfigurationError(message, hint=hint)
    return _wants_password(server, protocol, None) if protocol == "PLAINTEXT" else None


def _untrusted(server: _Server, settings: Mapping[str, str]) -> ConfigurationError:
    why = server.distrust(settings)
    message = f"The certificate of the broker at {server.name!r} is not trusted: {why}."
    if "mismatch" in why:
        hint = "Give a name of the broker that its certificate is for."
    else:
        hint = "Give the certificate of whoever issued it, as PEM: ssl.ca.location=FILE."
    return ConfigurationError(message, hint=hint)


def _not_taken(server: _Server, settings: Mapping[str, str], alert: str) -> ConfigurationError:
    if any(name.startswith(("ssl.certificate.", "ssl.keystore.")) for name in settings):
        message = f"The broker at {server.name!r} does not take the client's certificate: {alert}."
        hint = "Give one that is issued for it: ssl.certificate.location and ssl.key.location."
    else:
        message = f"The broker at {server.name!r} wants a certificate of the client: {alert}."
        hint = f"Give ssl.certificate.location=FILE and ssl.key.location=FILE. {_GIVEN}"
    return ConfigurationError(message, hint=hint)


def _wants_password(
    server: _Server, protocol: str, context: ssl.SSLContext | None
) -> ConfigurationError | None:
    # Twice, as a broker that is just ending hangs up, too.
    if any(server.welcome(context) is not _Welcome.password for _ in range(2)):
        return None
    message = f"The broker at {server.name!r} wants a password, and security.protocol={protocol}."
    hint = f"Set security.protocol=SASL_{protocol}, sasl.mechanism, sasl.username, sasl.password."
    return ConfigurationError(message, hint=f"{hint} {_GIVEN}")


def _trusting(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Return what verifies certificates as the settings say."""
    place = settings.get("ssl.ca.location")
    is_folder = place is not None and Path(place).is_dir()
    context = ssl.create_default_context(
        cafile=None if is_folder else place,
        capath=place if is_folder else None,
        cadata=settings.get("ssl.ca.pem"),
    )
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm") != "none"
    return context


def _trusting_anybody() -> ssl.SSLContext:
    """Return what asks whoever it is: they are told nothing, and what they say is not believed."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
