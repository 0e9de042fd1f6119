"""A run's counts in a topic, its replica, and what the run itself tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from tests.cli.commands import given
from tests.pipeline.harness import events, source, write_lines

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("spark")]


@pytest.mark.parametrize("form", ["bundles", "blocks"])
def test_a_run_its_topic_and_its_replica_tell_the_same(
    broker: Broker, tmp_path: Path, form: str
) -> None:
    lines = write_lines(tmp_path / "events.json", events(600))
    name = f"run-and-replica-{form}"
    log = kst.kafka_changelog(name, bootstrap=broker.bootstrap, blocks=form == "blocks")
    cascade = kst.Cascade("1 minute", "1 hour")
    pipeline = kst.Pipeline(source=source(lines), cascade=cascade, changelog=log)
    pipeline.run(tmp_path / "out", progress=False)
    assert given("restore", tmp_path / "out", tmp_path / "replica").code == 0
    hours = tmp_path / "replica" / "3600000"
    for one, other in ((log.address, hours), (log.address, tmp_path / "out"), (hours, log.address)):
        answer = given("diff", one, other, "--window-size", "1 hour")
        assert (answer.code, answer.out) == (0, "")
        assert answer.err.startswith("0 added, 0 removed, 0 changed, ")
        assert int(answer.err.split()[-2].replace(",", "")) > 50
