"""What writes a batch's parts: on nodes without anything of ours, and when tasks go wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext

import kstoolkit as kst
from kstoolkit.changelog.changelog import BatchFolders, Changelog
from kstoolkit.counters.counters import Counters
from kstoolkit.events.event import letters
from kstoolkit.formats.countblock import to_ipc
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.operator import COUNTS, OUTPUT_DDL, View, _limited
from kstoolkit.pipeline.shuffle import DEAD_LETTERS
from kstoolkit.pipeline.sink import Sink
from tests.pipeline.harness import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SENT = """
    import sys
    from pathlib import Path
    from pyspark import cloudpickle
    from kstoolkit.changelog.topic import Outbox
    from kstoolkit.pipeline.sink import _BatchPlaces, _writing
    from kstoolkit.pipeline.datasources import ship_by_value

    ship_by_value()
    outbox = {outbox}
    places = _BatchPlaces("changelog", "findings", "dead_letters", (60_000,), 4, outbox)
    Path(sys.argv[1]).write_bytes(cloudpickle.dumps(_writing(places)))
"""

ARRIVED = """
    import sys
    from pathlib import Path

    class Bare:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {"google", "kstoolkit", "rocksdict"}:
                raise ModuleNotFoundError(f"No module named {name!r} on this node")

    sys.meta_path.insert(0, Bare())
    from pyspark import cloudpickle
    write = cloudpickle.loads(Path(sys.argv[1]).read_bytes())
    print(write.__name__)
"""


def said(program: str, path: Path) -> str:
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", dedent(program), path],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "outbox", ["None", "Outbox(0, 1, blocks=False)", "Outbox(0, 1, blocks=True)"]
)
def test_a_task_travels_to_a_node_without_kstoolkit_or_protobuf(
    outbox: str, tmp_path: Path
) -> None:
    sent = tmp_path / "task"
    assert not said(SENT.format(outbox=outbox), sent)
    assert said(ARRIVED, sent) == "write"


MINUTE_MS = 60_000
RULES = [kst.Ceiling("1 minute", 5)]


def counted_rows(users: dict[str, int], *, dead: bool) -> list[tuple[Any, ...]]:
    """Return what the operator hands on of a bucket: counts, what rules need, dead letters."""
    names = [name for name, times in users.items() for _ in range(times)]
    counters = Counters.of(np.full(len(names), 0), pa.array(names), pa.array(["read"] * len(names)))
    material = _limited(View(0, None, 1, 1, baseline=False), counters)
    rows = [(0, COUNTS, 0, 7, counters.encode())]
    rows += ((0, kind, level, 7, payload) for kind, level, payload in material)
    if dead:
        spoilt = letters(["unparseable"], ["{"])
        rows.append((0, DEAD_LETTERS, -1, 7, to_ipc(spoilt)))
    return rows


@dataclass
class Disturbed:
    """A DataFrame of the operator's output whose first attempts write something else, and fail."""

    frame: DataFrame
    first: list[tuple[Any, ...]]
    written: Any = None

    @property
    def sparkSession(self) -> SparkSession:  # noqa: N802 - Spark's name
        return self.frame.sparkSession

    def mapInArrow(self, write: Any, ddl: str) -> DataFrame:  # noqa: N802 - Spark's name
        self.written, rows = (write, ddl), self.first
        schema = self.frame.schema.names

        def disturbed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            task = TaskContext.get()
            if task is None or task.attemptNumber():
                yield from write(batches)
                return
            columns = [pa.array(column) for column in zip(*rows, strict=True)]
            yield from write(iter([pa.record_batch(columns, names=schema)]))
            message = "The first attempt fails once its files are written."
            raise OSError(message)

        return self.frame.mapInArrow(disturbed, ddl)

    def late(self, rows: list[tuple[Any, ...]]) -> None:
        """Have a task go on that nobody waits for."""
        write, ddl = self.written
        frame = self.sparkSession.createDataFrame(rows, self.frame.schema).coalesce(1)
        frame.mapInArrow(write, ddl).collect()


DISTURBED = """
    import sys
    from pathlib import Path
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.test_sink import disturb

    disturb(spark_session("local[2, 2]"), Path(sys.argv[1]))
"""


def disturb(spark: SparkSession, out: Path) -> None:
    """Write a batch whose first attempt fails, and on which a task goes on after it is marked."""
    sink = Sink(out, 0, kst.Cascade("1 minute"), 1, RULES, "", lambda _: None)
    wanted, other = counted_rows({"Ann": 9}, dead=False), counted_rows({"Bo": 8}, dead=True)
    frame = Disturbed(spark.createDataFrame(wanted, OUTPUT_DDL).coalesce(1), other)
    sink(frame, 0)  # type: ignore[arg-type] # Spark's, but for an attempt that fails
    frame.late(counted_rows({"Cy": 7}, dead=False))


@pytest.mark.spark
def test_attempts_that_fail_or_go_on_for_too_long_add_nothing_to_a_batch(tmp_path: Path) -> None:
    said(DISTURBED, tmp_path)
    found = Changelog.open(tmp_path).counters(MINUTE_MS).to_table().to_pylist()
    assert [(row["user"], row["count"]) for row in found] == [("Ann", 9)]
    for kind, files in {"findings": 1, "changelog": 1, "dead_letters": 0}.items():
        batches = BatchFolders(tmp_path / kind).marked()
        assert sum(len(batch.files("")) for batch in batches) == files, kind
    (batch,) = BatchFolders(tmp_path / "findings").marked()
    (path,) = batch.files(".parquet")
    assert pq.read_table(path)["user"].to_pylist() == ["Ann"]
    (statistics,) = BatchFolders(tmp_path / "statistics").marked()
    told = MicroBatch.load(statistics.folder)
    assert (told.findings, told.changelog_records, told.dead_letters) == (1, 1, {})
