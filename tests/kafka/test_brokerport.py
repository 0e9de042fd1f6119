"""A broker at a port of one's own choice."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from kstoolkit.errors import ConfigurationError, EnvironmentFault
from kstoolkit.kafka.broker import Broker, BrokerFolder, Identity

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_what_is_no_port_is_refused(tmp_path: Path, port: int) -> None:
    with pytest.raises(ConfigurationError, match="is no port"):
        Broker(tmp_path, port=port)


def test_the_port_that_is_asked_for_is_taken() -> None:
    chosen = Identity.new(19_092)
    assert chosen.port == 19_092
    assert chosen.controller_port != 19_092


def test_a_broker_keeps_the_port_of_its_first_start(tmp_path: Path) -> None:
    BrokerFolder(tmp_path).keep(Identity.new(19_092))
    with pytest.raises(ConfigurationError, match="listens at port 19092, not at 19093"):
        Broker(tmp_path, port=19_093).start()


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentFault, match=f"listens at 127.0.0.1:{port}"):
            Broker(tmp_path, port=port).start()
    assert BrokerFolder(tmp_path).identity() is None  # so it may be another one next time
