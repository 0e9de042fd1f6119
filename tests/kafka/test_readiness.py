"""Whether a broker answers: asked of a real one, and of what only listens."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kstoolkit.kafka.readiness import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.kafka.broker import Broker

HEAD = b"\0\0\0\7"  # the number of the request that is answered


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """Listen, send this to whoever asks something, and hang up."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for answer in answers:
                connection.recv(1024)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.kafka
def test_a_broker_that_runs_is_ready(broker: Broker) -> None:
    assert is_ready(int(broker.bootstrap.rpartition(":")[2]))


def test_nobody_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not is_ready(port)


@pytest.mark.parametrize(
    "answers",
    [
        [b""],
        [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        [b"\0\0\0\6" + HEAD],  # cut off
        [b"\0\0\0\5" + HEAD + b"\0"],  # too short for an error code
        [b"\0\0\0\6" + b"\0\0\0\1" + b"\0\0"],  # to another request
        [b"\0\0\0\6" + HEAD + b"\0\x23"],  # a version that is not supported
        [b"\0\0\0\2" + HEAD],  # a length that none has
        [b"\x7f\0\0\0" + HEAD],
        [b"\0\0\0\6" + HEAD + b"\0\0", b"\0\0\0\x08" + HEAD + b"\0\0\0\0"],  # no broker yet
        [b"\0\0\0\6" + HEAD + b"\0\0", b""],
    ],
)
def test_what_answers_otherwise_is_not_ready(answers: list[bytes]) -> None:
    with answering(*answers) as port:
        assert not is_ready(port)


def test_a_broker_that_is_registered_is_ready() -> None:
    first, second = b"\0\0\0\6" + HEAD + b"\0\0", b"\0\0\0\x08" + HEAD + b"\0\0\0\1"
    with answering(first, second) as port:
        assert is_ready(port)
