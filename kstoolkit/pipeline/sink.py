"""What becomes of a micro-batch: its output is written where it stays, then judged.

One Spark action runs the operator and writes; a second one, over the little that rules could flag,
scores it. Between the two the buckets' moments are pooled, which is all that the driver computes.
A batch that Spark repeats writes the same again.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.changelog.topic import Outbox
from kstoolkit.findings.peers import MOMENTS_SCHEMA, pool_moments
from kstoolkit.findings.scoring import score
from kstoolkit.pipeline.operator import MOMENTS, STATISTICS
from kstoolkit.pipeline.parcels import from_ipc, to_ipc
from kstoolkit.pipeline.sending import send_counts, send_findings
from kstoolkit.pipeline.statistics import BatchStatistics, Moments
from kstoolkit.pipeline.writing import MATERIAL_SUFFIX, REPORT_DDL, Places, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from kstoolkit.findings.rules import Rule
    from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings
    from kstoolkit.windows import Cascade, Window


CHANGELOG, FINDINGS, DEAD_LETTERS, TOLD = "changelog", "findings", "dead_letters", "statistics"
OUTBOX = "outbox"
KINDS = (FINDINGS, DEAD_LETTERS, TOLD, CHANGELOG)
"""The folders of a run, in the order in which a batch is marked in them."""


@dataclass(frozen=True, slots=True)
class Sink:
    """The function of Spark's ``foreachBatch`` for one run.

    Parameters
    ----------
    out, epoch
        The run's folder, and the number that batches are filed under, beside their own.
    cascade, buckets, rules
        What is counted and judged.
    on_batch
        Told what each batch came to.
    topic
        The changelog, where it is a topic.
    findings_to
        The topic that findings go to, if there is one.
    """

    out: Path
    epoch: int
    cascade: Cascade
    buckets: int
    rules: Sequence[Rule]
    on_batch: Callable[[BatchStatistics], None]
    topic: KafkaChangelog | None = None
    findings_to: KafkaFindings | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write and judge one micro-batch."""
        began = time.monotonic()
        folders = {kind: BatchFolders(self.out / self._folder(kind)) for kind in KINDS}
        place = {kind: folders[kind].begin(self.epoch, batch) for kind in KINDS}
        reports = frame.mapInArrow(writing(self._places(place, batch)), REPORT_DDL).collect()
        if self.topic is not None:
            send_counts(frame.sparkSession, place[CHANGELOG], self.topic)
        moments = Moments.load(folders[TOLD].folder(self.epoch, batch - 1))
        for row in reports:
            if row.kind == MOMENTS:
                moments.report(row.level, row.bucket, bytes(row.payload))
        moments.save(place[TOLD])
        told = [json.loads(bytes(row.payload)) for row in reports if row.kind == STATISTICS]
        now_ms = max((report.get("now_ms", 0) for report in told), default=0)
        found = self._judge(frame, place[FINDINGS], moments, now_ms)
        if found and self.findings_to is not None:
            send_findings(frame.sparkSession, place[FINDINGS], self.findings_to)
        statistics = BatchStatistics.of(
            batch, told, self.cascade.labels, seconds=time.monotonic() - began, findings=found
        )
        statistics.save(place[TOLD])
        for kind in KINDS:
            folders[kind].mark(self.epoch, batch)
        self.on_batch(statistics)

    def _folder(self, kind: str) -> str:
        return OUTBOX if kind == CHANGELOG and self.topic is not None else kind

    def _places(self, place: dict[str, Path], batch: int) -> Places:
        topic = self.topic
        return Places(
            changelog=str(place[CHANGELOG]),
            findings=str(place[FINDINGS]),
            dead_letters=str(place[DEAD_LETTERS]),
            lengths_ms=tuple(window.size_ms for window in self.cascade.windows),
            buckets=self.buckets,
            outbox=None if topic is None else Outbox(self.epoch, batch, topic.blocks),
        )

    def _judge(self, frame: DataFrame, folder: Path, moments: Moments, now_ms: int) -> int:
        """Score on the executors what rules could flag; return how many findings there were."""
        files = sorted(folder.glob(f"part-*{MATERIAL_SUFFIX}"))
        if not files:
            return 0
        pooled = {level: to_ipc(pool_moments(moments.of_level(level))) for level in moments.levels}
        by_length = {
            window.size_ms: (window, pooled.get(level))
            for level, window in enumerate(self.cascade.windows)
        }
        spark = frame.sparkSession
        named = spark.createDataFrame([(str(path),) for path in files], "path string")
        scoring = _scoring(by_length, tuple(self.rules), now_ms)
        done = named.coalesce(spark.sparkContext.defaultParallelism).mapInArrow(
            scoring, "found long"
        )
        found = int(sum(row.found for row in done.collect()))
        for path in files:
            path.unlink()
        return found


def _scoring(
    by_length: dict[int, tuple[Window, bytes | None]], rules: tuple[Rule, ...], now_ms: int
) -> Any:
    """Return a function for ``mapInArrow``: names of material files in, numbers of findings out."""

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = 0
        for batch in batches:
            for name in batch.column(0).to_pylist():
                path = Path(name)
                length_ms = int(path.stem.rsplit("-", 1)[1])
                window, pooled = by_length[length_ms]
                moments = MOMENTS_SCHEMA.empty_table() if pooled is None else from_ipc(pooled)
                material = from_ipc(path.read_bytes())
                findings = score(material, moments, rules, window, seen_ms=now_ms)
                _write(findings, path.with_suffix(".parquet"))
                found += findings.num_rows
        yield pa.record_batch([pa.array([found], pa.int64())], names=["found"])

    return judge


def _write(findings: pa.Table, path: Path) -> None:
    if findings.num_rows:
        hidden = path.with_name(f".{os.getpid()}-{path.name}")
        pq.write_table(findings, hidden, compression="zstd")
        hidden.replace(path)
