"""A run on a topic for the tests of lag and reset; who changes its folder takes a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.operations.topicruns import BEGIN_MS, TopicRun, events, run_on_topic

if TYPE_CHECKING:
    from kstoolkit.kafka.broker import Broker


@pytest.fixture(scope="session")
def topic_run(
    broker: Broker,
    spark: object,  # noqa: ARG001 - started before the run is
    tmp_path_factory: pytest.TempPathFactory,
) -> TopicRun:
    """A run that has counted 1,000 events of nearly three hours, in two partitions."""
    out = tmp_path_factory.mktemp("topic run") / "out"
    return run_on_topic(broker, f"lag-and-reset-{uuid4().hex[:12]}", events(BEGIN_MS, 1_000), out)


@pytest.fixture
def name() -> str:
    """Return a name that no topic and no group has, also if the test runs again."""
    return f"operations-{uuid4().hex[:12]}"
