"""Which Java a run starts for itself."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.harness import ROOT, events, write_files

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
from kstoolkit.pipeline.session import spark_session
from tests.pipeline.harness import source
import kstoolkit as kst

pipeline = kst.Pipeline(source=source(sys.argv[1]), cascade=kst.Cascade("1 hour"), rules=[])
run = pipeline.run(sys.argv[2], master="local[1]", progress=False)
factory = spark_session()._jvm.java.lang.management.ManagementFactory
print(run.summary().events, *(each.getName() for each in factory.getGarbageCollectorMXBeans()))
"""


@pytest.mark.parametrize(
    ("given", "collectors"),
    [
        ("", {"Copy", "MarkSweepCompact"}),
        pytest.param("-XX:+UseParallelGC", {"PS", "MarkSweep", "Scavenge"}, marks=pytest.mark.long),
    ],
    ids=["chosen", "named"],
)
def test_a_run_chooses_a_light_collector_unless_the_environment_names_one(
    tmp_path: Path, given: str, collectors: set[str]
) -> None:
    write_files(tmp_path / "in", events(100), 1)
    options = f"{os.environ['JDK_JAVA_OPTIONS']} {given}"
    done = subprocess.run(
        [sys.executable, "-c", dedent(PROGRAM), tmp_path / "in", tmp_path / "out"],
        env=os.environ | {"JDK_JAVA_OPTIONS": options, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    number, *names = done.stdout.split()
    assert done.returncode == 0, done.stderr
    assert number == "100"
    assert set(names) == collectors
