"""A run that is ready to start: its query, and its way to the end of the input."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from kstoolkit.events.sources import Files
from kstoolkit.findings.rules import material_floor, needs_baseline
from kstoolkit.pipeline import stream
from kstoolkit.pipeline.failure import JAVA_IS_GONE, java_ended, run_failed
from kstoolkit.pipeline.inputfiles import input_paths
from kstoolkit.pipeline.operator import Plan
from kstoolkit.pipeline.progress import InputProgress
from kstoolkit.pipeline.session import streaming_conf
from kstoolkit.pipeline.sink import Sink
from kstoolkit.pipeline.statesizes import StateSizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.pipeline.pipeline import Pipeline
    from kstoolkit.pipeline.progress import Progress
    from kstoolkit.pipeline.runfolder import RunFolder, Settings
    from kstoolkit.pipeline.statistics import BatchStatistics

__all__ = ["Job"]

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Job:
    """One run, ready to start.

    Parameters
    ----------
    pipeline, folder, settings
        What is run, and where.
    parcels
        The feed and the ticks.
    live
        Whether it is without an end.
    """

    pipeline: Pipeline
    folder: RunFolder
    settings: Settings
    parcels: DataFrame
    live: bool

    def start(self, on_batch: Callable[[BatchStatistics], None], **trigger: Any) -> StreamingQuery:
        """Start the query; ``trigger`` is Spark's."""
        pipeline, spark = self.pipeline, self.parcels.sparkSession
        sizes = StateSizes(self.folder.path, self.settings.epoch)
        sink = Sink(
            out=self.folder.path,
            epoch=self.settings.epoch,
            cascade=pipeline.cascade,
            buckets=pipeline.buckets,
            rules=pipeline.judged_by,
            on_batch=sizes.kept_before(on_batch),
            topic=pipeline.changelog,
        )
        conf = {**streaming_conf(), "spark.sql.shuffle.partitions": str(self.settings.partitions)}
        with stream.settings_of(spark, conf):
            plan = _operator_plan(pipeline, live=self.live)
            output = stream.cascade(self.parcels, plan, self.settings.partitions)
            writer = output.writeStream.foreachBatch(sink).outputMode("append")
            writer = writer.queryName("kstoolkit").trigger(**trigger)
            sizes.query = writer.option("checkpointLocation", str(self.folder.checkpoint)).start()
            return sizes.query

    def finish(self, progress: Progress) -> None:
        """Run to the end of the input.

        Raises
        ------
        RunFailed
            If Spark gave up.
        """
        source = self.pipeline.source
        paths = input_paths(source, self.folder) if isinstance(source, Files) else []
        reached = InputProgress(self.folder.ledger, self.folder.checkpoint, paths)
        progress.begin(reached.total_bytes)

        def on_batch(done: BatchStatistics) -> None:
            progress.reach(reached.after(done.batch))
            progress.batch(done)

        try:
            query = self.start(on_batch, availableNow=True)
            _wait(query)
            StateSizes(self.folder.path, self.settings.epoch, query).keep()
        except (StreamingQueryException, Py4JJavaError) as error:
            raise run_failed(error, self.folder) from error
        except JAVA_IS_GONE as error:
            raise java_ended(self.folder) from error
        self.folder.save(replace(self.settings, was_live=False))


def _wait(query: StreamingQuery) -> None:
    """Wait for the query's end.

    Waited for here, not in Java: Ctrl-C has Spark cancel its jobs, which it can't do over a
    connection that is itself waiting for an answer.
    """
    try:
        while query.isActive:
            time.sleep(_LOOK_SECONDS)
        query.awaitTermination()  # raises what it ended with
    finally:
        with suppress(*JAVA_IS_GONE):
            query.stop()


def _operator_plan(pipeline: Pipeline, *, live: bool) -> Plan:
    rules, windows = pipeline.judged_by, pipeline.cascade.windows
    return Plan(
        cascade=pipeline.cascade,
        buckets=pipeline.buckets,
        live=live,
        floors=tuple(material_floor(rules, window) for window in windows),
        baselines=tuple(needs_baseline(rules, window) for window in windows),
        processing_time=pipeline.time == "processing",
        whole=pipeline.changelog is not None and not pipeline.changelog.blocks,
    )
