"""Which Java a run starts for itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from kstoolkit.environment import find_java
from kstoolkit.pipeline.inputs import java_options
from tests.pipeline.harness import ROOT, events, source, write_files

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


def test_a_run_chooses_a_light_collector(tmp_path: Path) -> None:
    write_files(tmp_path / "in", events(100), 1)
    done = subprocess.run(
        [sys.executable, "-c", dedent(PROGRAM), tmp_path / "in", tmp_path / "out"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    number, *names = done.stdout.split()
    assert done.returncode == 0, done.stderr
    assert number == "100"
    assert set(names) == {"Copy", "MarkSweepCompact"}


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_the_collector_that_the_environment_names_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    java, files = str(find_java().home / "bin" / "java"), source(tmp_path)
    usual = java_options(files)
    monkeypatch.setenv(variable, "-XX:+UseParallelGC")
    flags = [java, *java_options(files), "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(flags, capture_output=True, text=True, check=True)
    assert re.search(r"UseParallelGC +:?= true", done.stdout)

    both = subprocess.run([java, *usual, "-version"], capture_output=True, text=True, check=False)
    assert "Multiple garbage collectors selected" in both.stdout + both.stderr
