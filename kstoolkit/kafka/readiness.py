"""Whether a broker answers: two requests of Kafka's protocol over a plain socket.

An open port is not enough, as the listener opens before the broker may be asked for anything. A
request is ``int32 length | int16 api key | int16 api version | int32 correlation id | int16 length
of the client id | client id | body``, an answer ``int32 length | int32 correlation id | body``; all
big-endian.
"""

from __future__ import annotations

import socket
import struct

_CLIENT = b"kstoolkit"
_API_VERSIONS = (18, 0, b"")
_METADATA_OF_NO_TOPIC = (3, 1, b"\0\0\0\0")
_CORRELATION = 7
_ANSWER_S = 2.0
_LARGEST_ANSWER_BYTES = 1 << 20
_INT = struct.Struct(">i")

NO_ANSWER = (OSError, EOFError, struct.error)
"""What asking raises where no broker answers as one does."""


def is_ready(port: int, *, host: str = "127.0.0.1") -> bool:
    """Return whether a broker at this port speaks the protocol, and is registered and unfenced.

    Parameters
    ----------
    port
        Where it listens for clients.
    host
        And on which address.

    Examples
    --------
    >>> is_ready(9)  # nobody listens there
    False
    """
    try:
        with socket.create_connection((host, port), _ANSWER_S) as connection:
            return speaks_kafka(connection) and has_a_broker(connection)
    except NO_ANSWER:
        return False


def speaks_kafka(connection: socket.socket) -> bool:
    """Return whether it is a broker that answers here, also one that wants a password first."""
    (error,) = struct.unpack_from(">h", _answer(connection, *_API_VERSIONS))
    return bool(error == 0)


def has_a_broker(connection: socket.socket) -> bool:
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
