"""Real brokers for tests: one for the whole run, and others that a test may kill."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest

from kstoolkit.kafka.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kafka.securedbroker import SecuredBroker

__all__ = ["begin", "broker", "end", "own_broker", "secured"]

_FOLDER = "KSTOOLKIT_TEST_BROKER"
"""The environment variable for where the broker lives that all processes of tests share."""


def begin() -> None:
    """Choose a place for the broker of all tests, in the first of their processes."""
    os.environ[_FOLDER] = mkdtemp(prefix="kstoolkit-broker-")


def end() -> None:
    """End the broker if a test has started it, in the process that outlives all others."""
    folder = Path(os.environ[_FOLDER])
    Broker(folder).kill()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def broker() -> Broker:
    """One running broker for all tests: each takes topics with names of its own."""
    return Broker(os.environ[_FOLDER]).start()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """One running broker behind TLS, passwords and certificates, for all tests."""
    from tests.kafka.securedbroker import SecuredBroker

    with SecuredBroker(tmp_path_factory.mktemp("secured")) as started:
        yield started


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Callable[[], Broker]]:
    """Make and start a broker, as many as asked for, which this test may stop, kill and start."""
    with ExitStack() as at_the_end:
        made: list[Broker] = []

        def make() -> Broker:
            one = Broker(tmp_path / f"own broker {len(made)}")
            at_the_end.callback(one.kill)
            made.append(one)
            return one.start()

        yield make
