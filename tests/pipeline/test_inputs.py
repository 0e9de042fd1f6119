"""A run on a real standalone cluster, whose nodes have nothing of ours, and lose one midway."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import psutil
import pyspark
import pytest

import kstoolkit as kst
from kstoolkit.environment import find_java
from tests import quickjava
from tests.pipeline.harness import (
    check_exact,
    events,
    finish,
    kill_group,
    newest,
    spawn,
    until,
    write_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow]

# Read by every Python that a worker starts, before anything else.
NOTHING_OF_OURS = """
    import sys

    class Refusing:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {"kstoolkit", "tests"}:
                raise ModuleNotFoundError(f"No module named {name!r} on this node")

    sys.meta_path.insert(0, Refusing())
"""

PROGRAM = """
    import sys
    import kstoolkit as kst
    from kstoolkit.errors import UserError
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.harness import source

    given, out, master, *more = sys.argv[1:]
    small = {
        **dict(setting.split("=", 1) for setting in more),
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    spark = spark_session(master, extra=small)

    def looking(batches):
        import pyarrow as pa
        for batch in batches:
            try:
                import kstoolkit
                found = "found"
            except ModuleNotFoundError as error:
                found = str(error)
            yield pa.record_batch([pa.array([found])], names=["found"])

    seen = spark.range(2, numPartitions=2).mapInArrow(looking, "found string").collect()
    print({row.found for row in seen})
    try:
        kst.Pipeline(source=source(given), buckets=4).run(
            out, master=master, max_files_per_batch=1, progress=False
        )
    except UserError as error:
        print(error)
        sys.exit(2)
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master and its workers, each a process of its own."""

    master: str
    workers: list[subprocess.Popen[bytes]]
    log: Path = field(repr=False)

    def counting(self) -> list[psutil.Process]:
        """Return the Pythons that executors have for their tasks."""
        executors = [
            each
            for worker in self.workers
            for each in psutil.Process(worker.pid).children()
            if "CoarseGrainedExecutorBackend" in _command(each)
        ]
        pythons = [each for executor in executors for each in executor.children(recursive=True)]
        return [each for each in pythons if not each.children() and "pyspark" in _command(each)]

    def kill_worker(self) -> None:
        """Kill one worker and its executors, which are its children."""
        worker = next(each for each in self.workers if each.poll() is None)
        executors = psutil.Process(worker.pid).children(recursive=True)
        assert any("CoarseGrainedExecutorBackend" in _command(each) for each in executors)
        for each in (psutil.Process(worker.pid), *executors):
            with suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGKILL)
        worker.wait()


def _command(process: psutil.Process) -> str:
    """Return a process's command line; a program that has just ended has none."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def launch(
    folder: Path, name: str, *arguments: str, host: str = "127.0.0.1", **environment: str
) -> subprocess.Popen[bytes]:
    """Start a master or a worker; what it says goes to a file."""
    home = Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0])
    ours = {
        "SPARK_HOME": str(home),
        "JDK_JAVA_OPTIONS": quickjava.of_spark(),  # which its executors inherit
        "SPARK_LOCAL_IP": host,
        "JAVA_HOME": str(find_java().home),
        "PYTHONPATH": "",
    }
    program = ["bin/spark-class", f"org.apache.spark.deploy.{name.lower()}.{name}"]
    ports = ["--host", host, "--port", "0", "--webui-port", "0"]
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [home / program[0], program[1], *ports, *arguments],
            env=os.environ | ours | environment,
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    node = folder / "node"
    node.mkdir()
    (node / "sitecustomize.py").write_text(dedent(NOTHING_OF_OURS))
    master = launch(folder, "Master")
    processes = [master]
    try:
        url = until(
            lambda: _said(folder / "Master.log", r"at (spark://127\.0\.0\.1:\d+)"), "a master"
        )
        for number in range(2):
            options = [
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(folder / f"work{number}"),
            ]
            host = f"127.0.0.{number + 1}"  # Spark tries a task twice on different hosts alone
            worker = launch(folder, "Worker", *options, url, host=host, PYTHONPATH=str(node))
            processes.append(worker)
        registered = r"(?s)(Registering worker.*){2}"
        until(lambda: _said(folder / "Master.log", registered), "two workers")
        yield Cluster(url, processes[1:], folder / "Master.log")
    finally:
        for process in processes:
            _end(process)


def _said(log: Path, pattern: str) -> str | None:
    found = re.search(pattern, log.read_text(errors="replace"))
    return found[1] if found else None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(30)
        psutil.wait_procs(children, timeout=10)


@pytest.mark.long
def test_an_output_folder_that_the_cluster_does_not_share_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", events(50), 1)
    # A path that is another place for each process, as one on a disk of its own is for each node.
    out = "/proc/self/cwd/out"
    process = spawn(
        f"import os; os.chdir({str(tmp_path)!r})" + "\n" + dedent(PROGRAM),
        tmp_path / "in",
        out,
        cluster.master,
    )
    code, said, errors = finish(process)
    assert code == 2, errors
    assert "tasks wrote to '/proc/self/cwd/out' on the cluster, but it did not arrive here." in said
    assert "Hint: A cluster needs an output folder that all its nodes and the driver share" in said
    assert not (tmp_path / "out" / "checkpoint").exists()


@pytest.mark.long
def test_a_file_that_is_gone_for_the_workers_alone_ends_the_run_and_is_counted_by_the_next(
    cluster: Cluster, tmp_path: Path
) -> None:
    paths, out = write_files(tmp_path / "in", events(50), 2), tmp_path / "out"
    program = f"import os; os.chdir({str(tmp_path)!r})" + "\n" + dedent(PROGRAM)
    code, _, errors = finish(spawn(program, "/proc/self/cwd/in", out, cluster.master))
    assert code == 1, errors
    assert re.search("'/proc/self/cwd/in/0..json' can't be read: No such file or dir", errors)
    assert newest(out / "checkpoint" / "commits") == -1
    code, _, errors = finish(spawn(program, "/proc/self/cwd/in", out, "local[1]"))
    assert code == 0, errors
    run = kst.load_run(out)
    check_exact(run, paths)
    assert len(run.dead_letters) == 0


SPECULATING = (
    "spark.speculation=true",
    "spark.speculation.interval=50ms",
    "spark.speculation.minTaskRuntime=200ms",
    "spark.speculation.multiplier=1.1",
    "spark.speculation.quantile=0.5",
    "spark.eventLog.enabled=true",
    "spark.eventLog.compress=false",
)


@pytest.mark.long
def test_tasks_that_spark_tries_twice_at_once_are_counted_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    paths, out = write_files(tmp_path / "in", events(4_000), 20), tmp_path / "out"
    log = tmp_path / "events"
    log.mkdir()
    settings = [*SPECULATING, f"spark.eventLog.dir={log.as_uri()}"]
    process = spawn(PROGRAM, tmp_path / "in", out, cluster.master, *settings)
    draw = random.Random(3)
    try:
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess, IndexError):
                _hold_up(draw.choice(cluster.counting()))
            time.sleep(0.3)
        code, said, errors = finish(process)
    finally:
        if process.poll() is None:
            kill_group(process)
    assert code == 0, said + errors
    assert "StateStoreRDD" in _tried_twice(log), "no task that counts and writes was"
    run = kst.load_run(out)
    check_exact(run, paths)
    assert (run.summary().events, run.summary().batches) == (4_000, 20)


def _hold_up(process: psutil.Process) -> None:
    process.suspend()
    time.sleep(2)
    process.resume()


def _tried_twice(log: Path) -> set[str]:
    """Return of which kinds of data tasks were that Spark tried twice at once, by its own log."""
    lines = [line for path in log.rglob("events_*") for line in path.read_text().splitlines()]
    told = [json.loads(line) for line in lines]
    ended = [each for each in told if each["Event"] == "SparkListenerTaskEnd"]
    stages = {each["Stage ID"] for each in ended if each["Task Info"]["Speculative"]}
    done = [each["Stage Info"] for each in told if each["Event"] == "SparkListenerStageCompleted"]
    return {rdd["Name"] for each in done if each["Stage ID"] in stages for rdd in each["RDD Info"]}


def test_a_worker_killed_midway_changes_no_count(cluster: Cluster, tmp_path: Path) -> None:
    paths, out = write_files(tmp_path / "in", events(3_000), 6), tmp_path / "out"
    process = spawn(PROGRAM, tmp_path / "in", out, cluster.master)
    offsets = out / "checkpoint" / "offsets"
    try:
        until(
            lambda: process.poll() is not None or newest(offsets) >= 2,
            "the third batch",
            seconds=180,
        )
        assert process.poll() is None, finish(process)
        cluster.kill_worker()
        assert newest(out / "checkpoint" / "commits") < len(paths) - 1, "the kill came too late"
        code, said, errors = finish(process)
    finally:
        if process.poll() is None:
            kill_group(process)
    assert code == 0, said + errors
    assert said.strip() == "{\"No module named 'kstoolkit' on this node\"}"
    run = kst.load_run(out)
    check_exact(run, paths)
    assert (run.summary().events, run.summary().batches) == (3_000, 6)
