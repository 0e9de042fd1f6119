"""``kstoolkit lag`` and ``kstoolkit reset``, on groups of a real broker."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import kstoolkit as kst
from tests.cli.commands import answered, given, harmless, rows, started
from tests.kafka.clients import make_topic, write
from tests.plots.made import made_run

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker


@pytest.fixture
def group(broker: Broker) -> str:
    """A group that has read 12 of 20 records of a topic of its name."""
    name = f"cli-lag-{uuid4().hex[:12]}"
    make_topic(broker, name)
    write(broker, name, [b"x"] * 20, time_ms=1_740_787_200_000)
    kst.reset(name, {0: 12}, topic=name, bootstrap=broker.bootstrap, dry_run=False)
    return name


@pytest.mark.kafka
def test_the_lag_of_a_group_is_a_table_or_json(broker: Broker, group: str) -> None:
    asked = ("lag", f"kafka://{broker.bootstrap}", "--group", group, "--over", "1 second")

    shown = given(*asked)

    first, _, header, row = shown.out.splitlines()
    assert first.startswith(f"group '{group}', empty, 0 members: 8 records behind in 1 partition")
    assert first.endswith("caught up never at this rate: nothing is read.")
    assert header.split()[:5] == ["topic", "partition", "position", "end", "lag"]
    assert row.split()[:5] == [group, "0", "12", "20", "8"]
    (told,) = rows(given(*asked, "--json").out)
    assert (told["lag_records"], told["catch_up_seconds"]) == (8, None)
    assert told["partitions"][0]["position"] == 12
    assert told["why"] == "never at this rate: nothing is read"


@pytest.mark.kafka
def test_watching_prints_a_line_at_a_time_until_it_is_stopped(broker: Broker, group: str) -> None:
    asked = ("lag", f"kafka://{broker.bootstrap}/{group}", "--group", group, "--watch", "--json")
    watching = started(*asked, "--over", "1 second")
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())
    write(broker, group, [b"x"] * 30)
    while (told := json.loads(watching.stdout.readline()))["lag_records"] == 8:
        pass
    watching.send_signal(signal.SIGINT)
    answer = answered(watching)
    assert (first["lag_records"], first["measured_seconds"]) == (8, None)
    assert told["lag_records"] == 38
    assert told["partitions"][0]["arriving_per_second"] > 0
    assert (answer.code, harmless(answer.err)) == (130, True)


@pytest.mark.kafka
def test_a_reset_is_a_plan_until_it_is_told_to_be_done(broker: Broker, group: str) -> None:
    asked = ("reset", f"kafka://{broker.bootstrap}", "--group", group, "--to")

    plan = given(*asked, "0=5")

    assert plan.code == 0
    sentence, _, header, row = plan.out.splitlines()
    assert sentence == (
        f"group '{group}' to offset 5 of partition 0, not done yet: "
        "7 records read again, 0 skipped."
    )
    assert " ".join(header.split()) == "topic partition position new position read again skipped"
    assert row.split() == [group, "0", "12", "5", "7", "0"]
    assert plan.err.splitlines()[-1] == "Nothing was changed: --execute does it."
    (told,) = rows(given(*asked, "latest", "--json").out)
    assert (told["done"], told["skipped_records"]) == (False, 8)
    (done,) = rows(given(*asked, "2025-03-01T00:00Z", "--execute", "--json").out)
    assert (done["done"], done["moves"][0]["target"]) == (True, 0)
    (lag,) = rows(
        given(
            "lag", f"kafka://{broker.bootstrap}", "--group", group, "--over", "0 seconds", "--json"
        ).out
    )
    assert lag["lag_records"] == 20


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lag", "kafka://127.0.0.1:1"), "no --group is given"),
        (("lag", "127.0.0.1:1", "--group", "g"), "are no servers of the group 'g'"),
        (("lag", "kafka://nowhere", "--group", "g"), "'nowhere' is no server"),
        (("lag", "no/such/run"), "No run in"),
        (("reset", "no/such/run", "--to", "earliest"), "No run in"),
        (("reset", "kafka://127.0.0.1:1", "--group", "g", "--to", "soon"), "to is 'soon'"),
        (("reset", "no/such/run", "--to", "latest", "--topic", "t"), "topic is 't'"),
        (("reset", "no/such/run", "--to", "0=5,0=7"), "'0=5,0=7' names a partition twice"),
        (("reset", "no/such/run", "--to", "0001-01-01T00:00+14:00"), "UTC has no year"),
    ],
)
def test_what_makes_no_sense_is_a_mistake(arguments: tuple[str, ...], said: str) -> None:
    answer = given(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_a_run_on_files_has_no_lag(tmp_path: Path) -> None:
    made_run(tmp_path / "out")
    for command in (("lag",), ("reset", "--to", "earliest")):
        answer = given(command[0], tmp_path / "out", *command[1:])
        assert answer.code == 2
        assert "reads no topic: 'data/edits.json.gz'" in answer.err
