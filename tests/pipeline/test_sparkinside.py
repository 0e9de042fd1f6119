"""Runs on a pyspark that has other names inside: counts stay exact, whatever is gone of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pyspark
import pytest

import kstoolkit as kst
from kstoolkit.errors import FormatError
from kstoolkit.pipeline import sparkinside
from kstoolkit.pipeline.session import spark_session
from tests.pipeline.harness import ROOT, check_exact, events, source, write_files, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTS = ("_gateway", "_jvm", "_jsc", "_jsq", "_jdf", "_jsparkSession", "_active_spark_context")


@pytest.fixture(scope="session")
def without(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return what makes a pyspark, all of it, whose parts of some names are called otherwise."""
    known: dict[tuple[str, ...], Path] = {}

    def made(*names: str) -> Path:
        if names not in known:
            known[names] = _other_pyspark(tmp_path_factory.mktemp("other"), names)
        return known[names]

    return made


def _other_pyspark(home: Path, names: tuple[str, ...]) -> Path:
    whole, words = Path(pyspark.__file__).parent, re.compile(rf"\b({'|'.join(names)})\b")
    left_out = shutil.ignore_patterns("jars", "bin", "tests", "__pycache__", "examples", "ml")
    shutil.copytree(whole, home / "pyspark", ignore=left_out)
    for name in ("jars", "bin"):
        (home / "pyspark" / name).symlink_to(whole / name, target_is_directory=True)
    found = 0
    for path in (home / "pyspark").rglob("*.py"):
        text, number = words.subn(r"\1_elsewhere", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
        found += number
    assert found, f"pyspark has none of {names}"
    return home


def run_on(home: Path, program: str, *arguments: object) -> str:
    """Run a program on another pyspark, its workers too, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", dedent(program), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (home, ROOT)))},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


COUNTING = """
    import sys
    from pathlib import Path

    import pyspark
    import kstoolkit as kst
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.harness import events, source, write_lines

    folder, home = map(Path, sys.argv[1:])
    assert Path(pyspark.__file__).is_relative_to(home), pyspark.__file__
    spark = spark_session("local[2]")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    spark.udf.register("theirs", lambda name: name)
    columns = {"event_time": "time", "user": "theirs(user)", "action": "action"}
    stream = spark.readStream.schema("time string, user string, action string")
    sources = {
        "files": source(folder / "in"),
        "lines": kst.files(folder / "in", **columns),
        "stream": kst.frame(stream.json(f"file://{folder}/in"), **columns),
    }
    for number in range(2):
        for name, each in sources.items():
            pipeline = kst.Pipeline(source=each, buckets=3, rules=[])
            pipeline.run(folder / name, progress=False)
        write_lines(folder / "in" / "more.json", events(300, seed=12))
    live = kst.Pipeline(source=sources["files"], buckets=3, rules=[]).start(folder / "live")
    live.query.processAllAvailable()
    print(live.is_active, live.query.lastProgress["batchId"])
    live.stop()
    names = ("spark.sql.shuffle.partitions", "spark.sql.streaming.checkpointFileManagerClass")
    print(*(spark.conf.get(name, None) for name in names))
"""


@pytest.mark.parametrize(
    "names",
    [
        PARTS,
        *(pytest.param((each,), marks=pytest.mark.long) for each in (*PARTS[:4], "_jsparkSession")),
    ],
    ids="-".join,
)
def test_counts_are_exact_without_parts_of_pyspark(
    without: Callable[..., Path], names: tuple[str, ...], tmp_path: Path
) -> None:
    home = without(*names)
    paths = write_files(tmp_path / "in", events(1_000, seed=11), 3)
    said = run_on(home, COUNTING, tmp_path, home).splitlines()
    paths.append(tmp_path / "in" / "more.json")
    for name in ("files", "lines", "stream", "live"):
        check_exact(kst.load_run(tmp_path / name), paths)
        state = tmp_path / name / "checkpoint" / "state" / "0"
        assert {each.name for each in state.iterdir()} - {"_metadata", "_stateSchema"} == {"0", "1"}
    assert said == ["True 0", "7 None"], "the session is not as it was"


DYING = """
    import sys
    from pathlib import Path

    import psutil
    import kstoolkit as kst
    from kstoolkit.operations.metrics import _java_metrics
    from tests.pipeline.harness import source, until

    folder = Path(sys.argv[1])
    pipeline = kst.Pipeline(source=source(folder / "in"), buckets=3, rules=[])
    live = pipeline.start(folder / "out", restart=kst.Restart(first_pause="1 ms"))
    live.query.processAllAvailable()
    print(_java_metrics(counts_here=True)[0].documentation)
    try:
        kst.spark_memory()
    except kst.errors.ConfigurationError as error:
        print(error.message)
    java, = (each for each in psutil.Process().children() if "java" in each.name())
    java.kill()
    until(lambda: not live.is_active, "the run to end")
    print(live.failure().message)
    try:
        pipeline.run(folder / "other", progress=False)
    except kst.errors.EnvironmentFault as error:
        print(error.message)
"""


@pytest.mark.usefixtures("spark")
def test_a_java_that_died_is_told_where_no_other_can_be_started(
    without: Callable[..., Path], tmp_path: Path
) -> None:
    paths = write_files(tmp_path / "in", events(500, seed=11), 2)
    said = run_on(without(*PARTS), DYING, tmp_path).splitlines()
    ended = "Spark's Java has ended, and this pyspark starts no other in the same process."
    unknown = "Unknown: the session has no Java on this side"
    assert unknown in said[0]
    assert said[1] == "This Spark session has been stopped, or shows nothing of its Java."
    assert said[2:] == [ended, ended]
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), buckets=3, rules=[])
    check_exact(pipeline.run(tmp_path / "out", progress=False), paths)


def test_a_checkpoint_is_written_as_spark_does_where_it_has_no_manager_that_renames(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = "spark.sql.streaming.checkpointFileManagerClass"
    here = f"file://{tmp_path}"
    assert sparkinside.file_manager(spark, here) == {setting: sparkinside._RENAMING}
    for elsewhere in ("s3a://bucket/x", "hdfs:///x", str(tmp_path)):
        assert sparkinside.file_manager(spark, elsewhere) == {}
    assert setting not in spark.conf.getAll, "what is not of runs is Spark's to choose"
    monkeypatch.setattr(sparkinside, "_RENAMING", f"{sparkinside._RENAMING}Elsewhere")
    assert sparkinside.file_manager(spark, here) == {}
    paths = write_files(tmp_path / "in", events(500, seed=11), 2)
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), buckets=3, rules=[])
    pipeline.run(tmp_path / "out", progress=False)
    monkeypatch.undo()  # what the one has written, the other one reads
    paths.append(write_lines(tmp_path / "in" / "more.json", events(300, seed=12)))
    check_exact(pipeline.run(tmp_path / "out", progress=False), paths)


@pytest.mark.usefixtures("spark")
def test_an_offset_log_of_another_version_stops_a_run_with_a_sentence(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "in", events(500, seed=11), 2)
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), buckets=3, rules=[])
    pipeline.run(tmp_path / "out", progress=False)
    log = tmp_path / "out" / "checkpoint" / "offsets" / "0"
    known = log.read_text()
    log.write_text(known.replace("v1\n", "v3\n", 1))
    paths.append(write_lines(tmp_path / "in" / "more.json", events(300, seed=12)))
    for begin in (pipeline.run, pipeline.start):
        with pytest.raises(FormatError, match=r"^A log of offsets of version 3: "):
            begin(tmp_path / "out", progress=False)
    log.write_text(known)
    check_exact(pipeline.run(tmp_path / "out", progress=False), paths)


def test_a_session_knows_no_class_that_is_nowhere(spark: SparkSession) -> None:
    before = spark_session()
    assert sparkinside.finds_class(spark, "org.apache.spark.sql.SparkSession")
    assert not sparkinside.finds_class(spark, "org.apache.spark.sql.SparkSessionElsewhere")
    assert spark_session() is before, "to ask makes no other session the active one"
