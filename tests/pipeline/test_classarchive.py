"""Java's classes are kept for its next start: judged by what a Java maps, and by what it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from kstoolkit.environment import Java, find_java
from kstoolkit.pipeline import classarchive
from kstoolkit.pipeline.classarchive import ClassArchive

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = """
import os
from pathlib import Path
from pyspark import SparkContext
from kstoolkit.pipeline.session import spark_session
spark = spark_session("local[1]")
maps = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()
print(spark.range(10).count(), os.environ["KSTOOLKIT_CACHE_DIR"] in maps)
"""
LOOKED_AT = """
import subprocess, sys
from pyspark import SparkContext
from kstoolkit.pipeline.session import spark_session
spark = spark_session("local[1]")
process = SparkContext._gateway.proc.pid
subprocess.run([sys.argv[1], str(process), "JFR.start"], check=True, stdout=subprocess.DEVNULL)
# Values of each type bind arguments of their own, for which Java makes up classes.
kinds = [f"cast(id as {kind}) {kind}" for kind in ("int", "float", "double", "string", "boolean")]
rows = spark.range(9).selectExpr("id", *kinds).groupBy("id", "int").count()
print(rows.mapInArrow(lambda batches: batches, "id long, i int, n long").count())
"""
MADE_SECONDS = 300


@pytest.fixture
def java() -> Java:
    return find_java()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "SPARK_HOME",
        "SPARK_SUBMIT_OPTS",
        "JDK_JAVA_OPTIONS",
    ):  # of the tests' own archive
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KSTOOLKIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def counted() -> str:
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="what a process maps is in /proc on Linux")
def test_a_start_leaves_an_archive_the_next_one_maps_it_and_one_that_is_damaged_harms_nobody(
    cache: Path, java: Java
) -> None:
    assert counted() == "10 False"
    archive = ClassArchive.of(java)
    assert archive is not None
    assert archive.folder.parent == cache
    until = time.monotonic() + MADE_SECONDS
    while not archive.file.exists() and time.monotonic() < until:
        time.sleep(0.2)
    assert counted() == "10 True"
    while len(left := sorted(each.name for each in archive.folder.iterdir())) > 2:
        assert time.monotonic() < until, left
        time.sleep(0.2)
    assert left == ["classes.jsa", "spark"]

    looking = java.home / "bin" / "jcmd"
    if looking.exists():  # in a JDK
        asked = [sys.executable, "-c", LOOKED_AT, str(looking)]
        done = subprocess.run(asked, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout.strip()) == (0, "9"), done.stderr

    whole = archive.file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no archive"):
        archive.file.unlink()
        archive.file.write_bytes(damaged)
        assert counted().startswith("10")


def test_none_is_kept_where_others_may_write_nor_where_there_is_no_room(
    cache: Path, java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = ClassArchive.of(java)
    assert archive is not None
    assert archive.folder.stat().st_mode & 0o777 == 0o700
    archive.folder.chmod(0o777)  # anyone could have Java run what is not Spark's
    assert ClassArchive.of(java) is None
    archive.folder.chmod(0o700)
    with monkeypatch.context() as patched:
        patched.setattr(classarchive, "_ROOM_BYTES", 1 << 62)
        assert ClassArchive.of(java) is None
    shutil.rmtree(cache)
    cache.write_text("a file, where the folder would be")
    assert ClassArchive.of(java) is None


def test_of_two_that_make_one_at_once_one_does_and_it_takes_over_from_one_that_was_killed(
    cache: Path, java: Java, tmp_path: Path
) -> None:
    archive = ClassArchive.of(java)
    assert archive is not None
    assert archive.folder.parent == cache
    named, program = archive.folder / "1.txt", tmp_path / "bin" / "java"
    named.touch()
    program.parent.mkdir()
    # A program that leaves what it was told, in the place of minutes of Java's.
    program.write_text('#!/bin/sh\nfor each; do case "$each" in -XX:SharedArchiveFile=*) '
                       'echo "$@" > "${each#*=}";; esac; done\n')  # fmt: skip
    program.chmod(0o755)
    making = archive.folder / "making"
    making.mkdir()
    archive.make(named, str(tmp_path), "spark.jar")
    assert not archive.file.exists()  # another one is at it
    old = time.time() - 3600
    os.utime(making, (old, old))
    archive.make(named, str(tmp_path), "spark.jar")
    told = archive.file.read_text()
    assert "-Xshare:dump" in told
    assert told.endswith("-cp spark.jar\n")
    assert not making.exists()


def test_archives_that_nobody_used_for_a_month_are_deleted_and_nothing_else(
    cache: Path, java: Java
) -> None:
    archive = ClassArchive.of(java)
    assert archive is not None
    archive.file.touch()
    (archive.folder / "77.txt").touch()  # of one that was killed
    for name in ("classes-0", "jars", "java-1"):
        (cache / name).mkdir()
        os.utime(cache / name, (0, 0))
    os.utime(archive.folder, (0, 0))
    assert archive.option() == f"-XX:SharedArchiveFile={archive.file}"  # it is used again
    archive.tidy()
    assert [each.name for each in archive.folder.iterdir()] == ["classes.jsa"]
    assert sorted(each.name for each in cache.iterdir()) == sorted(
        [archive.folder.name, "jars", "java-1"]
    )
