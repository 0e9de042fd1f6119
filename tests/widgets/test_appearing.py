"""What a panel loads before it is there: each in a process of its own, as the first cell is."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from kstoolkit.pipeline.batches import MicroBatch
from tests.plots.made import found, made_run

if TYPE_CHECKING:
    from pathlib import Path

PLOTS, TABLES, SPARK, ROCKSDB = "matplotlib", "pandas", "pyspark", "rocksdict"

SHOWN = """
    import sys
    import threading

    class NoThread(threading.Thread):
        # What is loaded beside the cell is not waited for: so nothing is begun there.
        def start(self): pass
        def join(self, timeout=None): pass

    threading.Thread = NoThread
    {made}
    print(*({unwanted!r} & set(sys.modules)))
"""

PANELS = {
    "the findings of a run": (
        (
            "from kstoolkit.pipeline.run import load_run\n"
            "from kstoolkit.widgets.findings import FindingsPanel\n"
            "FindingsPanel(load_run('out'))"
        ),
        {PLOTS, SPARK, ROCKSDB},
    ),
    "a run that is watched": (
        (
            "from kstoolkit.pipeline.run import load_run\n"
            "from kstoolkit.widgets.runmonitor import RunMonitor\n"
            "RunMonitor(load_run('out'))"
        ),
        {PLOTS, TABLES, SPARK, ROCKSDB},
    ),
    "the stores of a folder": (
        "from kstoolkit.widgets.stores import StorePanel\nStorePanel('.')",
        {PLOTS, TABLES, SPARK},
    ),
    "memory by the formula": (
        "from kstoolkit.widgets.memory import MemoryPanel\nMemoryPanel()",
        {PLOTS, TABLES, SPARK, ROCKSDB},
    ),
    "a profile": (
        "import kstoolkit as kst\nkst.explore('low_disk')",
        {PLOTS, TABLES, SPARK, ROCKSDB},
    ),
    "a plan of capacity": (
        "import kstoolkit as kst\nkst.explore(kst.plan_capacity(rate=1e6))",
        {PLOTS, TABLES, SPARK},
    ),
    "the lab": (
        "from kstoolkit.widgets.lab import CompactionLab\nCompactionLab()",
        {PLOTS, TABLES, SPARK, ROCKSDB},
    ),
}


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_appears_without_what_its_first_picture_does_not_need(
    panel: str, tmp_path: Path
) -> None:
    made_run(tmp_path / "out", findings=[found()], batches=[MicroBatch(0, 0, 1.0, events=8)])
    made, unwanted = PANELS[panel]
    code = dedent(SHOWN).format(made=made, unwanted=unwanted)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == []
