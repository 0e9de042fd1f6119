"""Runs in a Spark whose paths without a scheme lie elsewhere, as on a cluster with HDFS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from tests.pipeline.harness import check_exact, events, finish, newest, spawn, write_files

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

PROGRAM = """
import json, sys
from pathlib import Path

import kstoolkit as kst
from kstoolkit.pipeline.session import spark_session
from tests.pipeline.harness import events, source, write_lines

folder, elsewhere = map(Path, sys.argv[1:])
spark = spark_session("local[2]", extra={
    "spark.hadoop.fs.defaultFS": "viewfs://elsewhere/",
    "spark.hadoop.fs.viewfs.mounttable.elsewhere.linkFallback": elsewhere.as_uri(),
})
spark.createDataFrame([(1,)], "n int").write.parquet("/without a scheme")

columns = {"event_time": "time", "user": "user", "action": "action"}
ddl, read = "time string, user string, action string", f"file://{folder}/in"
sources = {
    "files": source(folder / "in"),
    "stream": kst.frame(spark.readStream.schema(ddl).json(read), **columns),
    "batch [1]": kst.frame(spark.read.schema(ddl).json(read), **columns),
}
for name, each in sources.items():
    kst.Pipeline(source=each, buckets=3, rules=[]).run(folder / name, progress=False)
write_lines(folder / "in" / "more.json", events(300, seed=12))
for name, each in sources.items():
    run = kst.Pipeline(source=each, buckets=3, rules=[]).run(folder / name, progress=False)
    counted = run.to_spark(spark, "1 day").selectExpr("sum(count)").first()
    print(json.dumps([name, counted[0]]))
"""


def test_a_run_is_where_we_look_whatever_spark_takes_a_path_without_a_scheme_for(
    tmp_path: Path,
) -> None:
    folder, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = write_files(folder / "in", events(1_000, seed=11), 3)
    code, out, errors = finish(spawn(PROGRAM, folder, elsewhere))
    assert code == 0, errors
    paths = [*before, folder / "in" / "more.json"]
    told = dict(map(json.loads, out.splitlines()))
    for name, total in told.items():
        run = kst.load_run(folder / name)
        counted = before if name.startswith("batch") else paths  # it was taken in, once
        check_exact(run, counted)
        assert total == run.summary().events
        assert newest(folder / name / "checkpoint" / "commits") >= 0
        assert list((folder / name / "checkpoint" / "state").rglob("*.changelog"))
    assert list(told) == ["files", "stream", "batch [1]"]
    assert [path.name for path in elsewhere.iterdir()] == ["without a scheme"]
