"""A run whose counts are a topic that is away: what lies in its folder is shown, as of when."""

from __future__ import annotations

import re
import shutil
import time
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.errors import KafkaError, StaleResultWarning
from tests.cli.commands import given
from tests.pipeline.harness import events, source, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("spark")]

VIEWS = (
    ("counts", "--window", "1 hour", "--json"),
    ("users", "--json"),
    ("findings", "--json"),
    ("summary",),
)


def test_what_was_read_of_a_topic_is_shown_while_it_is_away(
    own_broker: Callable[[], Broker], tmp_path: Path
) -> None:
    broker, out, never_read = own_broker(), tmp_path / "out", tmp_path / "never read"
    write_lines(tmp_path / "in" / "a.json", events(300))
    kst.Pipeline(
        source=source(tmp_path / "in"),
        cascade=kst.Cascade("1 minute", "1 hour"),
        rules=[kst.Ceiling("1 hour", 1)],
        buckets=2,
        changelog=kst.kafka_changelog("away", bootstrap=broker.bootstrap, partitions=1),
    ).run(out, progress=False)
    shutil.copytree(out, never_read)
    there = {name: given(name, out, *more) for name, *more in VIEWS}
    broker.stop()

    for name, *more in VIEWS:
        began = time.monotonic()
        answer = given(name, out, *more)
        assert time.monotonic() - began < 10, "as long as if there were nothing to show"
        assert (answer.code, answer.out) == (0, there[name].out)
        assert there[name].err == ""
        notes = [] if name == "summary" else [rf"No Kafka broker answers at .* {AS_OF}"]
        assert [len(re.findall(each, answer.err)) for each in notes] == [1] * len(notes)
    report = given("report", out)
    assert (report.code, len(re.findall(AS_OF, report.err))) == (0, 1)
    with pytest.warns(StaleResultWarning, match=AS_OF):
        assert kst.load_run(out).counts("1 hour")["count"].sum() == 300

    findings = given("findings", never_read, "--json")
    assert (findings.code, len(findings.out.splitlines())) == (
        0,
        len(there["findings"].out.splitlines()),
    )
    assert "Findings are told with the counts that they were made of." in findings.err
    with pytest.raises(KafkaError, match="No Kafka broker answers"):
        kst.load_run(never_read).counts("1 hour")

    broker.start()
    time.sleep(10)  # for so long, who did not answer is not asked again
    assert (again := given("counts", out, *VIEWS[0][1:])).err == ""
    assert again.out == there["counts"].out


AS_OF = r"Counts are as of 20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC\."
