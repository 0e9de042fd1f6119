from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import venv
from textwrap import dedent
from typing import TYPE_CHECKING

import psutil
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from kstoolkit.pipeline.session import spark_session, streaming_conf
from tests.pipeline.harness import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


# What these need is a process without a session, which the tests' own has.
PREAMBLE = "from kstoolkit.pipeline.session import spark_session\n"


def run_apart(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``program`` in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + dedent(program)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_active_session_is_returned_untouched(spark: SparkSession) -> None:
    spark.createDataFrame([(1,)], "n int")  # makes it the active one, whoever was before
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert spark_session("local[7]", extra={"spark.sql.shuffle.partitions": "7"}) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == before


def test_another_thread_gets_the_session_that_is_there(spark: SparkSession) -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(spark_session("local[7]")))
    thread.start()
    thread.join()
    assert found[0].sparkContext is spark.sparkContext


def test_a_session_keeps_to_loopback_has_no_page_and_tells_time_in_utc(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert (zone, os.environ["SPARK_LOCAL_IP"]) == ("UTC", "127.0.0.1")


def test_a_session_keeps_state_in_rocksdb_with_changelogs(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    spark.range(20).write.parquet(str(tmp_path / "in" / "a"))
    counts = (
        spark.readStream.schema("id long")
        .parquet(str(tmp_path / "in" / "a"))
        .groupBy(F.col("id") % 3)
        .count()
    )
    query = (
        counts.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert list((tmp_path / "checkpoint" / "state").rglob("*.changelog"))
    progress = query.lastProgress
    assert progress is not None
    assert "rocksdbCommitFlushLatency" in str(progress.stateOperators[0].customMetrics)


def test_the_settings_of_a_query_can_be_set_as_a_session_runs(spark: SparkSession) -> None:
    other = spark.newSession()
    for key, value in streaming_conf().items():
        other.conf.set(key, value)
        assert other.conf.get(key) == value


def test_nothing_shows_on_the_terminal_and_the_log_has_it_all(tmp_path: Path) -> None:
    log_path = tmp_path / "a folder" / "spark.log"
    done = run_apart(
        """
        import os
        from pyspark.errors import PySparkException
        from pyspark.sql.functions import udf

        spark = spark_session("local[1]", log_path=os.environ["LOG"])
        spark.range(3).select(udf(lambda value: print("said by a worker"))("id")).collect()
        try:
            spark.range(3).selectExpr("raise_error('the reason')").collect()
        except PySparkException as error:
            print("caught" if "the reason" in str(error) else error)
        """,
        LOG=str(log_path),
    )
    assert (done.stdout, done.stderr) == ("caught\n", "")
    log = log_path.read_text()
    assert "the reason" in log
    assert "said by a worker" in log
    assert re.search(r"^20\S+Z (WARN|ERROR) \w+: ", log, re.MULTILINE)


def test_the_users_settings_win_and_a_stopped_session_is_followed_by_a_new_one(
    tmp_path: Path,
) -> None:
    done = run_apart(
        """
        import os

        extra = {"spark.sql.session.timeZone": "Asia/Tokyo"}
        extra["spark.driver.extraJavaOptions"] = "-Dgiven=yes"
        os.environ.pop("OPENBLAS_NUM_THREADS")  # which the tests have
        spark = spark_session("local[1]", extra=extra)
        java = spark.sparkContext._jvm.System
        print(spark.conf.get("spark.sql.session.timeZone"))
        print(java.getProperty("given"), java.getProperty("log4j2.configurationFile")[:5])
        print(spark.sparkContext.getConf().get("spark.driver.memory"))
        print(java.getenv("OPENBLAS_NUM_THREADS"), os.environ.get("OPENBLAS_NUM_THREADS"))
        spark.stop()
        spark = spark_session("local[2]", app_name="again")
        print(spark.sparkContext.master, spark.sparkContext.appName, spark.range(10).count())
        """,
        KSTOOLKIT_DRIVER_MEMORY="600m",
        TMPDIR=str(tmp_path),
    )
    assert done.stderr == ""
    assert done.stdout.split("\n", 3)[:3] == ["Asia/Tokyo", "yes file:", "600m"]
    assert done.stdout.splitlines()[3:] == ["1 None", "local[2] again 10"]
    assert not list(tmp_path.glob("kstoolkit-*")), "its own temporary folder is left"


def test_what_spark_says_when_it_does_not_start_becomes_a_sentence() -> None:
    done = run_apart("spark_session('local[1]')", KSTOOLKIT_DRIVER_MEMORY="100m")
    error, hint = done.stderr.splitlines()[-2:]
    assert "EnvironmentFault: Spark did not start on 'local[1]': [INVALID_DRIVER_MEMORY" in error
    assert hint == "Hint: Run kstoolkit doctor, which says what is missing here."


def test_a_session_that_lost_its_java_is_followed_by_a_new_one() -> None:
    done = run_apart(
        """
        import threading
        from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, FinalizerWorker

        gateway = spark_session("local[1]").sparkContext._gateway
        # A thread of py4j's tells Java what Python dropped, and cries out if that dies meanwhile.
        gateway._gateway_client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)
        for thread in threading.enumerate():
            if isinstance(thread, FinalizerWorker):
                thread.join()
        gateway.proc.kill()
        gateway.proc.wait()
        spark = spark_session("local[2]")
        print(spark.range(10).count(), spark_session() is spark)
        """
    )
    assert (done.stdout, done.stderr) == ("10 True\n", "")


def test_ctrl_c_as_java_starts_leaves_no_java() -> None:
    done = run_apart(
        """
        import _thread, threading
        import psutil

        def command(process):
            try:
                return " ".join(process.cmdline())
            except psutil.Error:
                return ""

        def interrupt():
            submit = "deploy." + "SparkSubmit"  # not in this program's own words, which a fork has
            while not any(submit in command(each) for each in psutil.Process().children()):
                pass
            _thread.interrupt_main()

        threading.Thread(target=interrupt).start()
        try:
            spark_session("local[1]")
        except KeyboardInterrupt:
            print(*(child.pid for child in psutil.Process().children()))
        """
    )
    assert done.stderr == ""
    java = int(done.stdout)
    end = time.monotonic() + 30
    while psutil.pid_exists(java) and psutil.Process(java).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, f"Java ({java}) stays"
        time.sleep(0.1)


PROBLEMS = [
    ("'nowhere'", {}, "ConfigurationError", "'nowhere' is no Spark master"),
    ("'local[x]'", {}, "ConfigurationError", "is no Spark master"),
    ("'local'", {"KSTOOLKIT_DRIVER_MEMORY": "lots"}, "ConfigurationError", "no size of memory"),
    ("log_path='/'", {}, "ConfigurationError", "can't be written: Is a directory"),
    ("'local'", {"SPARK_HOME": "/nowhere"}, "EnvironmentFault", "no Spark in it"),
]


@pytest.mark.parametrize(("arguments", "environment", "error", "message"), PROBLEMS)
def test_what_cannot_work_is_said_before_spark_starts(
    arguments: str, environment: dict[str, str], error: str, message: str
) -> None:
    done = run_apart(f"spark_session({arguments})", **environment)
    last = done.stderr.splitlines()[-2:]
    assert last[0].startswith(f"kstoolkit.errors.{error}: ")
    assert message in last[0]
    assert last[1].startswith("Hint: ")


def test_a_master_that_does_not_answer_is_found_out_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{unused.getsockname()[1]}"
        done = run_apart(f"spark_session('{master}')")
    assert f"No Spark master answers at '{master}'" in done.stderr
    assert "Connection refused" in done.stderr


OTHERS_PYTHON = """
    import sys
    from pathlib import Path
    from pyspark.sql import SparkSession
    import kstoolkit as kst
    from tests.pipeline.harness import events, source, write_files

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark.getOrCreate().sparkContext.setLogLevel("OFF")
    folder = Path(sys.argv[1])
    write_files(folder / "in", events(10), 1)
    try:
        kst.Pipeline(source=source(folder / "in")).run(folder / "out", progress=False)
    except kst.errors.EnvironmentFault as error:
        print(error.message, error.hint, sep="\\n")
"""


def others() -> dict[str, str]:
    """Return the Pythons of other versions that are here, and what is to be said of each."""
    mine = sys.version_info.minor
    places = {minor: shutil.which(f"python3.{minor}") for minor in range(8, 16) if minor != mine}
    return {
        path: f"Python 3.{minor}, and this is Python 3.{mine}"
        for minor, path in places.items()
        if path and subprocess.run([path, "-V"], capture_output=True, check=False).returncode == 0
    }


def test_workers_of_another_python_are_told_in_one_sentence(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    said = {str(tmp_path / "bare" / "bin" / "python"): "which lacks numpy, pandas, pyarrow"}
    said |= dict(list(others().items())[:1])
    said["no python"] = "which does not start: No such file or directory"
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    for path, why in said.items():
        done = subprocess.run(
            [sys.executable, "-c", dedent(OTHERS_PYTHON), tmp_path],
            env=os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.splitlines() == [
            f"Spark's workers run {path!r}, {why}.",
            f"Before Spark starts, set PYSPARK_PYTHON={sys.executable}",
        ], done.stderr
