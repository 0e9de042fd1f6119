"""Which Java a run starts, told by the command line of its process."""

from __future__ import annotations

import os
import re
import subprocess
from threading import Event
from typing import TYPE_CHECKING

import psutil
import pytest

import kstoolkit as kst
from kstoolkit.environment import find_java
from kstoolkit.pipeline import inputs
from tests.cli.commands import COLUMNS
from tests.pipeline.harness import events, finish, spawn, until, write_files

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

COMMAND = (
    "import os, sys; os.execv(sys.executable, [sys.executable, '-m', 'kstoolkit', *sys.argv[1:]])"
)
CALLED = "import sys; from kstoolkit.cli import main; sys.exit(main(sys.argv[1:]))"
IN_PYTHON = """
import sys
import kstoolkit as kst
from tests.pipeline.harness import source

kst.Pipeline(source=source(sys.argv[2])).run(sys.argv[-3], master=sys.argv[-1], progress=False)
"""
QUICK = {"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}


def told(program: str, folder: Path, master: str) -> set[str]:
    """Run a program that counts, and return what the Java that it starts was told of this."""
    write_files(folder / "in", events(100), 1)
    asked = ["run", folder / "in", *COLUMNS, "--out", folder / "out", "--master", master]
    process = spawn(program, *asked)
    command = until(lambda: submitted(process.pid), "Java to start")
    code, _, errors = finish(process)
    assert code == 0, errors
    return set(re.findall(r"-XX:\+Use\w+GC|-XX:TieredStopAtLevel=\d", command))


def submitted(process: int) -> str:
    """Return the command of the Java that a process has started; nothing before."""
    try:
        commands = [" ".join(each.cmdline()) for each in psutil.Process(process).children()]
    except psutil.NoSuchProcess:
        return ""
    return next((each for each in commands if "SparkSubmit" in each and "-cp" in each), "")


@pytest.mark.parametrize(
    ("program", "master", "wanted"),
    [
        pytest.param(COMMAND, "local[2]", QUICK, id="command"),
        pytest.param(COMMAND, "local[5]", set(), id="five-cores", marks=pytest.mark.long),
        pytest.param(CALLED, "local[2]", set(), id="within-a-program", marks=pytest.mark.long),
        pytest.param(IN_PYTHON, "local[2]", set(), id="python"),
    ],
)
def test_java_is_told_what_is_best_for_a_run_alone_where_it_ends_with_its_command(
    tmp_path: Path, program: str, master: str, wanted: set[str]
) -> None:
    assert told(program, tmp_path, master) == wanted


def test_java_keeps_a_collector_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"{os.environ['JDK_JAVA_OPTIONS']} -XX:+UseParallelGC")
    assert told(COMMAND, tmp_path, "local[1]") == {"-XX:TieredStopAtLevel=1"}


def test_java_optimises_later_for_a_topic_and_starts_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseSerialGC")
    monkeypatch.setattr(inputs, "ENDS_WITH_ITS_COMMAND", ending := Event())
    topic = kst.kafka_topic(
        "kafka://localhost:9/a", event_time="time", user="user", action="action"
    )
    assert inputs.java_options(topic, "local[2]") == []
    ending.set()
    asked = inputs.java_options(topic, "local[2]")
    assert inputs.java_options(topic, "local[5]") == []
    java = [str(find_java().home / "bin" / "java"), *asked, "-XX:+PrintFlagsFinal", "-version"]
    told = subprocess.run(java, capture_output=True, text=True, check=True).stdout
    flags = dict(re.findall(r"(Tier4\w+Threshold)\s*=\s*(\d+)", told))
    assert sorted(f"-XX:{name}={value}" for name, value in flags.items()) == sorted(asked)
