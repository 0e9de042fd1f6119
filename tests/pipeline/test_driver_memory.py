"""How much the driver's Python holds at most, as the kernel saw it; and that where is no matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.findings.calibration import Everyone
from kstoolkit.pipeline import sink
from tests.benchmarks.driver import write_events
from tests.pipeline.harness import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from kstoolkit.findings.rules import Rule

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOM_MIB = 40
"""A hundred times as many actions were 312 MiB more when the driver added up what buckets tell."""


def peak_mib(folder: Path, actions: int) -> float:
    """Return the most that a run's own process held, of 15,000 users in 32 buckets."""
    write_events(folder, 15_000, actions, days=2)
    words = ["--count", "--folder", str(folder), "--buckets", "32", "--windows", "1 hour"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.driver", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["findings"] > 0
    return float(told["peak"] / 1024)


@pytest.mark.parametrize("actions", [1_500, pytest.param(5_000, marks=pytest.mark.long)])
def test_many_times_as_many_actions_are_no_more_in_the_driver(tmp_path: Path, actions: int) -> None:
    few, many = (peak_mib(tmp_path / str(number), number) for number in (50, actions))
    assert many < few + ROOM_MIB


def kept(run: kst.Run) -> tuple[pa.Table, list[Everyone]]:
    """Return what a run found, without its clock, and what its batches kept of all users."""
    found = run._reported().drop_columns(["first_seen_ms"])
    paths = sorted((run.folder.path / "statistics").rglob("part-everyone.parquet"))
    known = [each.as_py() for path in paths for each in pq.read_table(path)["known"]]
    return found, [Everyone.decode(each) for each in known]


def test_findings_are_the_same_to_the_last_digit_where_a_task_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events(tmp_path, 3_000, 40, days=2)
    *early, late = sorted((tmp_path / "events").iterdir())
    asked = kst.files(tmp_path / "events", event_time="time", user="user", action="action")
    rules: list[Rule] = [kst.Unusual("1 hour", 50), kst.Campaign("1 hour", 5)]
    rules.append(kst.Drift("1 hour", 1.5, 40))
    told = []
    for number, here_bytes in enumerate([1 << 30, -1]):
        monkeypatch.setattr(sink, "HERE_BYTES", here_bytes)
        cascade = kst.Cascade("1 hour")
        pipeline = kst.Pipeline(source=asked, cascade=cascade, rules=rules, buckets=3)
        late.rename(tmp_path / late.name)
        pipeline.run(tmp_path / str(number), max_files_per_batch=len(early) // 2 + 1)
        (tmp_path / late.name).rename(late)  # what is told of it is added to what was kept
        told.append(kept(pipeline.run(tmp_path / str(number))))
    (here, known), (there, known_there) = told
    assert len(here) > 0
    assert here.equals(there)
    assert len(known) == len(known_there) > 1
    for one, other in zip(known, known_there, strict=True):
        assert one.moments.equals(other.moments)
        assert one.facts.equals(other.facts)
        assert one.closed_ms == other.closed_ms
        assert (one.calibration.counts == other.calibration.counts).all()
        assert one.newcomers.equals(other.newcomers)
        assert one.arrived == other.arrived
