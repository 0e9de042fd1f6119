"""Rules on what lasts, in a run of Spark's: they find what a look at its counts does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.findings.finding import Findings

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

RULES = (
    kst.Budget(40),
    kst.Unusual("1 hour"),
    kst.Drift("1 hour", by=[]),
    kst.TooEven("1 hour"),
    kst.Campaign("1 hour"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over five days in which there is some of everything, in two goes."""
    folder: Path = tmp_path_factory.mktemp("lasting-rules")
    made = kst.simulate(
        event_count=60_000,
        users=300,
        duration="5 days",
        start=datetime(2026, 3, 2, tzinfo=UTC),
        abnormal={"low-and-slow": 3, "doubled": 10, "campaign": 80, "25-fold-hour": 5},
        world="gamma",
        seed=5,
    )
    made.write(folder / "in" / "events")
    pipeline = kst.Pipeline(
        source=kst.files(
            str(folder / "in" / "events"), event_time="time", user="user", action="action"
        ),
        cascade=kst.Cascade("1 hour"),
        rules=RULES,
        buckets=4,
    )
    pipeline.run(folder / "out", max_files_per_batch=1, progress=False)
    return folder


def facts(findings: Findings) -> list[tuple[object, ...]]:
    chances = [round(each.log10_probability or 0, 9) for each in findings]
    keys = [(f.rule, f.user, f.action, f.window_start_ms, f.count, f.since_ms) for f in findings]
    return sorted((*key, chance) for key, chance in zip(keys, chances, strict=True))


def test_a_run_finds_what_a_look_at_its_counts_does(place: Path) -> None:
    run = kst.load_run(place / "out")
    assert {each.kind for each in run.findings} == {"Unusual", "Drift", "TooEven", "Campaign"}
    assert facts(run.findings) == facts(kst.find(place / "out", RULES))


def test_labels_say_that_machines_and_the_campaign_are_found(place: Path) -> None:
    told = kst.evaluate(kst.load_run(place / "out").findings, place / "in" / "labels.json")
    found = {each.kind: each.found for each in told.kinds}
    assert (found["low-and-slow"], found["campaign"]) == (3, 80)


def test_the_command_line_tells_since_when(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["findings", str(place / "out")]) == 0
    told = capsys.readouterr().out
    assert "and more than usual ever since" in told
    assert "users did “" in told
