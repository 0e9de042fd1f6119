"""Ours: the pipeline with its default rules, over files or over Spark's own stream of them.

python -m tests.benchmarks.ours EVENTS WORK [--frame]
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

import kstoolkit as kst
from kstoolkit.counters.counters import Counters
from kstoolkit.events.sources import Files, Frame
from kstoolkit.pipeline.batches import BatchFolders
from kstoolkit.pipeline.session import spark_session
from kstoolkit.pipeline.statistics import BatchStatistics
from tests.benchmarks.marks import WINDOWS, mark

FILES_PER_BATCH = 2
COLUMNS = {"event_time": "time", "user": "user", "action": "action"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("events", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--frame", action="store_true", help="read through Spark's own stream")
    asked = parser.parse_args()
    out = asked.work / "out"
    spark = spark_session("local[2]", log_path=asked.work / "spark.log")
    mark("begun")
    with _Watch(out):
        run = kst.Pipeline(source=_source(asked.events, frame=asked.frame)).run(
            out, max_files_per_batch=FILES_PER_BATCH, progress=False
        )
    counters = {label: run.changelog.counters(size_ms) for label, size_ms in WINDOWS.items()}
    mark(
        "told",
        counters={label: len(counted) for label, counted in counters.items()},
        bytes_per_counter={label: _bytes_each(counted) for label, counted in counters.items()},
        events=run.summary().events,
        findings=len(run.findings.to_pandas()),
    )
    spark.stop()


def _source(events: Path, *, frame: bool) -> Files | Frame:
    if not frame:
        return kst.files(events, **COLUMNS)
    stream = spark_session().readStream.schema("time timestamp, user string, action string")
    stream = stream.option("maxFilesPerTrigger", FILES_PER_BATCH)
    return kst.frame(stream.parquet(str(events)), **COLUMNS)


class _Watch:
    """Marks each batch as soon as it is marked on disk."""

    def __init__(self, out: Path) -> None:
        self.batches = BatchFolders(out / "statistics")
        self.seen = self.events = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        self._look()

    def _watch(self) -> None:
        while not self.over.wait(0.02):
            self._look()

    def _look(self) -> None:
        for batch in self.batches.marked()[self.seen :]:
            self.seen += 1
            self.events += BatchStatistics.load(batch.folder).events
            mark("counted", events=self.events)


def _bytes_each(counters: Counters) -> float:
    """Return the size of CountBlocks, an hour of one bucket in each, as they lie in state."""
    size = sum(
        len(block.encode())
        for _, of_bucket in counters.by_bucket(8)
        for _, block in of_bucket.by_segment(3_600_000)
    )
    return round(size / max(len(counters), 1), 2)


if __name__ == "__main__":
    main()
