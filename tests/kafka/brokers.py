"""Real brokers for tests: one for the whole run, and others that a test may kill."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kstoolkit.kafka.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kafka.securedbroker import SecuredBroker

__all__ = ["broker", "own_broker", "secured"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One running broker for all tests: each takes topics with names of its own."""
    with Broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


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
