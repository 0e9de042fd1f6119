"""How far it is: what a row goes through until it is printed, an event until it is found.

Both are traced in real processes, Spark's workers among them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STORE = ROOT / "data" / "stores" / "kafka-streams"

MOST_FOR_A_ROW = 35
MOST_FOR_AN_EVENT = 56
"""It was 42: whether a cell has a rhythm of the day is a question of its own. A run is asked for
incidents, marks and stories, and a pipeline tells whoever wants to be alerted: four more; it
follows its rules as they change, and tells topics of incidents: two more; and Arrow streams are
written where blocks are. How Java starts sooner, what is leant on inside Spark, whether a folder is
of this machine, and where a large text is cut: four more. What Spark's planners load of a feed is
light, and apart from what reads it: one more; and so is which files were taken in, from what they
hold."""

COUNT = """
import sys
import kstoolkit as kst

events = kst.files(sys.argv[1], event_time="time", user="user", action="action")
rules = [kst.Ceiling("1 minute", 5), kst.Unusual("1 hour", false_alarms_per_day=5)]
windows = kst.Cascade("1 minute", "1 hour", "1 day")
pipeline = kst.Pipeline(source=events, cascade=windows, rules=rules)
print(len(pipeline.run(sys.argv[2], progress=False).findings))
"""


def entered(tmp_path: Path, *command: str) -> tuple[str, set[str]]:
    """Run Python with this, and return what it printed and which modules were entered."""
    notes = tmp_path / "entered.txt"
    path = os.pathsep.join([str(ROOT / "tests" / "ways"), str(ROOT)])
    environment = os.environ | {"KSTOOLKIT_TEST_WAY": str(notes), "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, set(notes.read_text().split())


def test_a_row_of_a_store_is_printed_by_few_modules(tmp_path: Path) -> None:
    store = next(STORE.rglob("CURRENT")).parent
    printed, modules = entered(tmp_path, "-m", "kstoolkit", "rows", str(store), "--limit", "1")
    assert len(printed.splitlines()) == 1
    assert {"kstoolkit.formats.columns", "kstoolkit.rocksdb.opening"} <= modules
    assert len(modules) <= MOST_FOR_A_ROW, sorted(modules)


@pytest.mark.spark
def test_an_event_becomes_a_finding_through_few_modules(tmp_path: Path) -> None:
    event = {"time": "2026-03-03T10:00:00Z", "user": "anna", "action": "delete"}
    (tmp_path / "events.json").write_text(f"{json.dumps(event)}\n" * 9)
    where = str(tmp_path / "events.json"), str(tmp_path / "out")
    printed, modules = entered(tmp_path, "-c", COUNT, *where)
    assert printed.split()[-1] == "1"
    assert {"kstoolkit.counters.bucket", "kstoolkit.findings.scoring"} <= modules
    assert len(modules) <= MOST_FOR_AN_EVENT, sorted(modules)
