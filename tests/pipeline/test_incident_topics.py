"""Incidents in a topic on a real broker: what its newest records say is what the run says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from tests.kafka.clients import make_topic, read_all
from tests.pipeline.harness import FIELDS_OF_FINDINGS, finish, source, spawned, write_lines

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker
    from kstoolkit.pipeline.results import BatchOutput
    from kstoolkit.pipeline.run import Run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.kill,
    pytest.mark.usefixtures("spark"),
]

BURSTS = [
    [("Ann", 0), ("Bo", 1)],
    [("Ann", 8)],  # Bo's is over
    [("Cy", 9)],  # nothing new of Ann
    [("Ann", 4), ("Bo", 3)],  # late, so that two of Ann grow together; Bo's grows
    [("Cy", 20)],
]
PROGRAM = """
    import os, signal, sys
    from pathlib import Path
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.test_incident_topics import pipeline

    def dies(output):
        if output.id == 3:
            os.killpg(0, signal.SIGKILL)

    spark_session("local[2]")
    folder = Path(sys.argv[1])
    pipeline(folder, sys.argv[2], dies).run(
        folder / "out", max_files_per_batch=1, progress=False
    )
"""


def pipeline(folder: Path, bootstrap: str, on_batch: Any = None) -> kst.Pipeline:
    return kst.Pipeline(
        source=source(folder / "in"),
        cascade=kst.Cascade("1 minute", "1 hour"),
        rules=[kst.Ceiling("1 hour", 5)],
        findings_to=kst.kafka_findings(folder.name, bootstrap=bootstrap),
        on_batch=on_batch,
        buckets=3,
    )


def write_bursts(folder: Path) -> None:
    for number, bursts in enumerate(BURSTS):
        rows = [
            {"time": f"2025-03-01T{hour:02}:00:{n:02}Z", "user": user, "action": "read"}
            for user, hour in bursts
            for n in range(10)
        ]
        write_lines(folder / f"{number}.json", rows)


def folded(broker: Broker, topic: str) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
    """Return the newest incident of each key, the findings, and how many records were repeated."""
    held: dict[str, Any] = {}
    findings, seen, again = [], set(), 0
    for message in read_all(broker, topic):
        key, value = (message.key() or b"").decode(), message.value()
        again += (key, value) in seen
        seen.add((key, value))
        record = None if value is None else json.loads(value)
        if record is not None and "record" not in record:
            findings.append(record)
            assert key == record["user"]
        elif record is None:
            held.pop(key.removeprefix("incident:"), None)
        else:
            assert key == f"incident:{record['id']}"
            held[record["id"]] = record
    return held, findings, again


def told(run: Run) -> dict[str, Any]:
    beside = {"mark", "newcomers"}
    about: dict[str, Any] = {"record": "incident", "version": 1}
    each_told = [about | each for each in run.incidents().to_dicts()]
    return {each["id"]: {n: v for n, v in each.items() if n not in beside} for each in each_told}


def test_the_newest_records_are_the_run_s_incidents_also_after_a_kill(
    broker: Broker, tmp_path: Path
) -> None:
    make_topic(broker, tmp_path.name, 2)
    write_bursts(tmp_path / "in")
    with spawned(PROGRAM, tmp_path, broker.bootstrap) as driver:
        assert finish(driver)[0] == -9
    held, _, again = folded(
        broker, tmp_path.name
    )  # the batch sent what it changed, and was not marked
    assert again == 0
    assert {each["state"] for each in held.values()} == {"open", "resolved", "merged"}

    seen: list[BatchOutput] = []
    run = pipeline(tmp_path, broker.bootstrap, seen.append).run(
        tmp_path / "out", max_files_per_batch=1, progress=False
    )
    held, findings, again = folded(broker, tmp_path.name)
    assert [output.id for output in seen] == [3, 4]  # the one that was killed was repeated
    assert again > 0
    assert held == told(run)
    states = run.incidents().table["state"].to_pylist()
    assert sorted(states) == ["merged", "open", "resolved", "resolved", "resolved"]
    assert {tuple(each) for each in findings} == {FIELDS_OF_FINDINGS}
    assert {(each["user"], each["window_start_ms"] // 3_600_000 % 24) for each in findings} == {
        each for bursts in BURSTS for each in bursts
    }


@pytest.mark.long
def test_what_a_batch_told_that_was_cut_off_is_taken_back_if_it_is_known_by_then(
    broker: Broker, tmp_path: Path
) -> None:
    make_topic(broker, tmp_path.name, 2)
    write_bursts(tmp_path / "in")
    with spawned(PROGRAM, tmp_path, broker.bootstrap) as driver:
        assert finish(driver)[0] == -9
    held = folded(broker, tmp_path.name)[0]
    assert [each["findings"] for each in held.values() if each["user"] == "Bo"] == [2]
    kst.load_run(tmp_path / "out").mark("Bo", "known")
    run = pipeline(tmp_path, broker.bootstrap).run(
        tmp_path / "out", max_files_per_batch=1, progress=False
    )
    held = folded(broker, tmp_path.name)[0]
    assert [each["findings"] for each in held.values() if each["user"] == "Bo"] == [1]
    assert held == told(run)
