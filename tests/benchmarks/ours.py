"""Ours: the pipeline with its default rules, over files, Spark's own stream of them, or a topic.

python -m tests.benchmarks.ours EVENTS WORK [--frame | --topic [--changelog bundles|blocks]]

A topic has the events already: see :mod:`tests.benchmarks.broker`. With ``--by-bucket`` what came
out is added up bucket by bucket, however much that is, and not looked at any closer. With
``--by-the-hour`` no minutes are counted.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import kstoolkit as kst
from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.environment import ENDS_WITH_ITS_COMMAND
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.session import spark_session
from tests.benchmarks.broker import RECORDS_PER_BATCH, TOPIC
from tests.benchmarks.contestant import CORES, WINDOWS, arguments, mark
from tests.benchmarks.footprint import block_bytes_each, dict_bytes_each

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.events.sources import Files, Frame
    from kstoolkit.events.topics import Topic
    from kstoolkit.kafka.outputs import KafkaChangelog
    from kstoolkit.pipeline.batches import RunSummary


def main() -> None:
    asked = arguments("frame", "topic", "by-bucket", "by-the-hour")
    ENDS_WITH_ITS_COMMAND.set()  # as a command's process does
    out = asked.work / "out"
    with _Watch(out):
        pipeline = kst.Pipeline(
            source=_source(asked),
            cascade=kst.Cascade(*_windows(asked)),
            changelog=_changelog(asked),
            buckets=asked.buckets,
        )
        # A DataFrame and a topic have limits of their own.
        limit = None if asked.frame or asked.topic else asked.files_per_batch
        run = pipeline.run(out, master=f"local[{CORES}]", max_files_per_batch=limit, progress=False)
    summary = run.summary()
    mark(
        "told",
        **(_added_up(run.changelog, asked) if asked.by_bucket else _looked_at(run.changelog)),
        events=summary.events,
        findings=len(run.findings.to_pandas()),
        dead_letters=summary.dead_letters,
        changelog_records_per_million=round(summary.changelog_records / summary.events * 1e6),
        changelog_bytes_per_million=round(summary.changelog_bytes / summary.events * 1e6),
        **_one_per_event(asked.changelog, summary),
    )
    spark_session().stop()


def _looked_at(changelog: Changelog) -> dict[str, Any]:
    """Return what came out, and what a counter takes of it."""
    counters = {label: changelog.counters(size_ms) for label, size_ms in WINDOWS.items()}
    return {
        "counters": {label: len(counted) for label, counted in counters.items()},
        "totals": {label: counted.total for label, counted in counters.items()},
        "block_bytes_per_counter": {
            label: block_bytes_each(counters[label], size_ms) for label, size_ms in WINDOWS.items()
        },
        "dict_bytes_per_counter": dict_bytes_each(counters["1 minute"]),
    }


def _windows(asked: argparse.Namespace) -> dict[str, int]:
    return dict(islice(WINDOWS.items(), int(asked.by_the_hour), None))


def _added_up(changelog: Changelog, asked: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Return what came out, with one bucket's counters in memory at a time."""
    told: dict[str, dict[str, int]] = {name: Counter() for name in ("counters", "totals")}
    for label, size_ms in _windows(asked).items():
        for bucket in range(changelog.buckets()):
            counters = changelog.counters(size_ms, bucket=bucket)
            told["counters"][label] += len(counters)
            told["totals"][label] += counters.total
    return told


def _source(asked: argparse.Namespace) -> Files | Frame | Topic:
    if asked.topic:
        address = os.environ[TOPIC]
        given = kst.kafka_topic(address, event_time="time", user="user", action="action")
        return replace(given, max_records_per_batch=int(os.environ[RECORDS_PER_BATCH]))
    if not asked.frame:
        return kst.files(asked.events, event_time="time", user="user", action="action")
    spark = spark_session(f"local[{CORES}]", log_path=asked.work / "spark.log")
    stream = spark.readStream.schema("time timestamp, user string, action string")
    stream = stream.option("maxFilesPerTrigger", asked.files_per_batch)
    events = stream.parquet(str(asked.events))
    return kst.frame(events, event_time="time", user="user", action="action")


def _one_per_event(form: str | None, summary: RunSummary) -> dict[str, int]:
    """Return what a record for each event and window would come to, in records of the same size."""
    if form != "bundles":
        return {}
    records = len(WINDOWS) * 1_000_000
    size = summary.changelog_bytes / summary.changelog_records
    return {
        "one_per_event_records_per_million": records,
        "one_per_event_bytes_per_million": round(records * size),
    }


def _changelog(asked: argparse.Namespace) -> KafkaChangelog | None:
    if asked.changelog is None:
        return None
    address = f"{os.environ[TOPIC]}-{asked.work.name}"
    return kst.kafka_changelog(address, blocks=asked.changelog == "blocks")


class _Watch:
    """Marks the start, which is when the run's settings are saved, and each batch that is done."""

    def __init__(self, out: Path) -> None:
        self.settings, self.begun = out / "run.json", False
        self.batches = BatchFolders(out / "statistics")
        self.newest, self.events = -1, 0
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
        if not self.begun and self.settings.exists():
            self.begun = True
            mark("begun")
        # By their numbers: there are fewer folders again once some are folded.
        for batch in [each for each in self.batches.marked() if each.number > self.newest]:
            self.newest = batch.number
            self.events += MicroBatch.load(batch.folder).events
            mark("counted", events=self.events)


if __name__ == "__main__":
    main()
