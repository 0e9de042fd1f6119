"""A run that is ready to start: its query, and its way to the end of the input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kstoolkit.events.sources import Files
from kstoolkit.events.topics import Topic
from kstoolkit.findings.rules import material_floor, needs_baseline
from kstoolkit.pipeline import stream
from kstoolkit.pipeline.inputfiles import input_paths
from kstoolkit.pipeline.mending import PATIENCE_MS, Mending
from kstoolkit.pipeline.operator import Plan
from kstoolkit.pipeline.poison import set_poison_aside
from kstoolkit.pipeline.progress import InputProgress
from kstoolkit.pipeline.session import streaming_conf
from kstoolkit.pipeline.sink import Sink
from kstoolkit.pipeline.statesizes import StateSizes
from kstoolkit.pipeline.supervising import SupervisedQuery
from kstoolkit.pipeline.topicchecks import check_same

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.pipeline.ending import Ending
    from kstoolkit.pipeline.pipeline import Pipeline
    from kstoolkit.pipeline.progress import Progress
    from kstoolkit.pipeline.restarts import Restart
    from kstoolkit.pipeline.runfolder import RunFolder, Settings
    from kstoolkit.pipeline.statistics import BatchStatistics
    from kstoolkit.pipeline.supervising import Gate, Ready, Rest, Tell


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
    ending
        Where it ends, if it is on a topic and not without an end.
    """

    pipeline: Pipeline
    folder: RunFolder
    settings: Settings
    parcels: DataFrame
    live: bool
    ending: Ending | None = None

    def start(
        self, on_batch: Callable[[BatchStatistics], None], gate: Gate, **trigger: Any
    ) -> StreamingQuery:
        """Start the query, whose batches pass the gate; ``trigger`` is Spark's."""
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
            findings_to=pipeline.findings_to,
        )
        conf = {**streaming_conf(), "spark.sql.shuffle.partitions": str(self.settings.partitions)}
        with stream.settings_of(spark, conf):
            plan = _operator_plan(pipeline, live=self.live)
            output = stream.cascade(self.parcels, plan, self.settings.partitions)
            step = gate.before(sink, self._check)
            writer = output.writeStream.foreachBatch(step).outputMode("append")
            writer = writer.queryName("kstoolkit").trigger(**trigger)
            sizes.query = writer.option("checkpointLocation", str(self.folder.checkpoint)).start()
            return sizes.query

    def supervised(
        self,
        ready: Ready,
        on_batch: Callable[[BatchStatistics], None],
        tell: Callable[[str], None],
        restart: Restart | None = None,
        **trigger: Any,
    ) -> SupervisedQuery:
        """Return the query as one that outlives what it can, not begun yet.

        Parameters
        ----------
        ready
            Makes the same run ready anew, with what it waits for told; how it waits is given, too.
        on_batch
            Told what each batch came to.
        tell
            Called with a line when the query dies and goes on.
        restart
            How often it is started again, if it is.
        trigger
            Spark's.
        """
        source = self.pipeline.source
        patience_ms = source.patience_ms if isinstance(source, Topic) else PATIENCE_MS
        mend = Mending(self.folder, patience_ms, tell, restart)
        start: Any = partial(_start, on_batch=on_batch, **trigger)
        query = SupervisedQuery(self, ready, start, mend, tell)
        mend.set_aside = lambda: set_poison_aside(self, query.check_wanted)
        return query

    def finish(self, progress: Progress, ready: Ready) -> None:
        """Run to the end of the input, whatever of it passes.

        Raises
        ------
        KafkaError
            If a broker stayed away.
        CheckpointError
            If a topic is no longer what it was.
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

        def again(tell: Tell, rest: Rest) -> Job:
            return replace(ready(tell, rest), ending=self.ending)  # the run is the same

        query = self.supervised(again, on_batch, progress.say, availableNow=True)
        query.lead()
        StateSizes(self.folder.path, self.settings.epoch, query).keep()
        self.folder.save(replace(self.settings, was_live=False))

    def _check(self, batch: int) -> None:
        """Raise if a topic is another one by now, or the batch at hand reaches past the end."""
        source = self.pipeline.source
        if isinstance(source, Topic):  # another one's offsets would mean other records
            check_same(source, self.folder, self.settings)
        if self.ending is not None:
            self.ending.check(batch)


def _start(job: Job, gate: Gate, **options: Any) -> StreamingQuery:
    return job.start(gate=gate, **options)


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
