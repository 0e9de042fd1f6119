"""A pipeline made ready for one run: input checked, session, feed, operator, sink."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.pandas.types import from_arrow_schema

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.judging import Limits
from kstoolkit.events.ledger import list_files
from kstoolkit.events.opening import format_of
from kstoolkit.events.pieces import Columns
from kstoolkit.events.preview import check_columns
from kstoolkit.events.rows import row_types
from kstoolkit.events.sources import Files, Frame, is_plain
from kstoolkit.findings.rulefile import rules_to_json
from kstoolkit.findings.rules import material_floor, needs_baseline
from kstoolkit.pipeline import stream
from kstoolkit.pipeline.cluster import check_shared
from kstoolkit.pipeline.failure import JAVA_IS_GONE, java_ended, run_failed
from kstoolkit.pipeline.feeds import FileFeedPlan
from kstoolkit.pipeline.operator import Plan
from kstoolkit.pipeline.progress import InputProgress
from kstoolkit.pipeline.runfolder import RunFolder, Settings
from kstoolkit.pipeline.session import spark_session, streaming_conf
from kstoolkit.pipeline.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.pipeline.pipeline import Pipeline
    from kstoolkit.pipeline.progress import Progress
    from kstoolkit.pipeline.statistics import BatchStatistics

__all__ = ["BatchLimits", "Job", "prepare"]

_SEEN_FILES = 3
_LOOK_SECONDS = 0.05

_QUICK_JAVA = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Where files are read in Python, Java handles parcels of bytes only: its optimising compiler would
cost more than it saves, a third of the CPU of a run of some minutes."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What a micro-batch may take in: at least one file, whatever its size."""

    files: int
    size_bytes: int

    def __post_init__(self) -> None:
        if min(self.files, self.size_bytes) < 1:
            message = (
                f"A micro-batch of {self.files} files or {self.size_bytes} bytes holds nothing."
            )
            raise ConfigurationError(message, hint="Give 1 or more.")


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
        sink = Sink(
            out=self.folder.path,
            epoch=self.settings.epoch,
            cascade=pipeline.cascade,
            buckets=pipeline.buckets,
            rules=pipeline.judged_by,
            on_batch=on_batch,
        )
        conf = {**streaming_conf(), "spark.sql.shuffle.partitions": str(self.settings.partitions)}
        with stream.settings_of(spark, conf):
            plan = _operator_plan(pipeline, live=self.live)
            output = stream.cascade(self.parcels, plan, self.settings.partitions)
            writer = output.writeStream.foreachBatch(sink).outputMode("append")
            writer = writer.queryName("kstoolkit").trigger(**trigger)
            return writer.option("checkpointLocation", str(self.folder.checkpoint)).start()

    def finish(self, progress: Progress) -> None:
        """Run to the end of the input.

        Raises
        ------
        RunFailed
            If Spark gave up.
        """
        source = self.pipeline.source
        paths = _paths(source, self.folder) if isinstance(source, Files) else []
        reached = InputProgress(self.folder.ledger, self.folder.checkpoint, paths)
        progress.begin(reached.total_bytes)

        def on_batch(done: BatchStatistics) -> None:
            progress.reach(reached.after(done.batch))
            progress.batch(done)

        try:
            _wait(self.start(on_batch, availableNow=True))
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


def prepare(
    pipeline: Pipeline,
    folder: RunFolder,
    *,
    master: str | None,
    limits: BatchLimits,
    live: bool,
) -> Job:
    """Check the input and the folder, start Spark, and return the run, ready to start.

    Raises
    ------
    UserError
        If the input, the settings or the folder are not usable.
    """
    source = _source_of(pipeline, folder)
    earlier = folder.settings() if folder.has_begun else None
    mine = _settings(pipeline, source)
    settings = mine if earlier is None else mine.continued(earlier)
    if isinstance(source, Files):
        _check_input(source, folder, live=live)
    spark = _session(source, folder, master)
    if earlier is None:
        settings = _settled(settings, source, folder, spark, pipeline.buckets)
    # What a live run held back is flushed by the ticks of the next one, of whatever kind.
    settings = replace(settings, was_live=live or (earlier is not None and earlier.was_live))
    folder.save(settings)
    feed = _feed(pipeline, source, settings, folder, spark, limits)
    parcels = stream.ticking(feed, pipeline.buckets, live=settings.was_live)
    return Job(pipeline, folder, settings, parcels, live)


def _source_of(pipeline: Pipeline, folder: RunFolder) -> Files | Frame:
    source = pipeline.source
    if isinstance(source, Files | Frame):
        return source
    place = folder.path / "simulated"
    if not (place / "labels.json").exists():  # written last: then the events are whole
        source.write(place / "events")
    columns = Columns(source.event_time, source.user, source.action)
    return Files(str(place / "events"), columns, None, Limits())


def _settings(pipeline: Pipeline, source: Files | Frame) -> Settings:
    event_time, user, action = source.columns
    return Settings(
        windows=pipeline.cascade.labels,
        buckets=pipeline.buckets,
        columns={"event_time": event_time, "user": user, "action": action},
        time=pipeline.time,
        feed=_kind_of(source),
        partitions=0,
        rules=rules_to_json(pipeline.judged_by),
        source=source.path if isinstance(source, Files) else "a DataFrame",
        min_count=pipeline.cascade.min_count,
    )


def _kind_of(source: Files | Frame) -> str:
    if isinstance(source, Files):
        return "files" if is_plain(source.columns) else "lines"
    return "frame" if source.df.isStreaming else "staged"


def _settled(
    settings: Settings, source: Files | Frame, folder: RunFolder, spark: SparkSession, buckets: int
) -> Settings:
    """Return the settings with what a run's first start decides for good."""
    is_local = str(spark.sparkContext.master).startswith("local")
    # A cluster's executors may yet be arriving: what they are together by now says little.
    partitions = min(buckets, spark.sparkContext.defaultParallelism) if is_local else buckets
    settings = replace(settings, partitions=partitions)
    if settings.feed == "lines" and isinstance(source, Files):
        settings = replace(settings, input_schema=_schema_of(source, folder, spark))
    return settings


def _session(source: Files | Frame, folder: RunFolder, master: str | None) -> SparkSession:
    if isinstance(source, Frame):
        spark = source.df.sparkSession
    else:
        java = _QUICK_JAVA if is_plain(source.columns) else {}
        spark = spark_session(master, log_path=folder.log, extra=java)
    if not str(spark.sparkContext.master).startswith("local"):
        stream.ship_by_value()
        check_shared(spark, folder.path)
    return spark


def _feed(  # noqa: PLR0917 - all that a run is made of
    pipeline: Pipeline,
    source: Files | Frame,
    settings: Settings,
    folder: RunFolder,
    spark: SparkSession,
    limits: BatchLimits,
) -> DataFrame:
    grain: dict[str, Any] = {
        "pane_ms": pipeline.cascade.pane_ms,
        "buckets": pipeline.buckets,
        "processing_time": pipeline.time == "processing",
    }
    if isinstance(source, Frame):
        counted = stream.frame_parcels(source.df, source.columns, source.limits, **grain)
        return counted if source.df.isStreaming else _staged(counted, folder)
    plan = FileFeedPlan(
        path=os.path.abspath(source.path),  # noqa: PTH100 - links and globs stay as they are
        file_format=source.file_format,
        columns=source.columns,
        limits=source.limits,
        ledger=str(folder.ledger),
        tasks=spark.sparkContext.defaultParallelism,
        max_files=limits.files,
        max_bytes=limits.size_bytes,
        row_schema=settings.input_schema,
        **grain,
    )
    if settings.feed == "files":
        return stream.file_parcels(spark, plan)
    plan = replace(plan, file_format=format_of(_paths(source, folder)[0], source.file_format))
    return stream.line_parcels(spark, plan)


def _staged(counted: DataFrame, folder: RunFolder) -> DataFrame:
    """Count a batch DataFrame by pane into the run's folder, once; the stream reads it there.

    Raises
    ------
    RunFailed
        If Spark can't read or count it.
    """
    if not (folder.staged / "_SUCCESS").exists():
        try:
            counted.write.mode("overwrite").parquet(str(folder.staged))
        except PySparkException as error:
            raise run_failed(error, folder) from error
    return stream.staged_parcels(counted.sparkSession, str(folder.staged))


def _operator_plan(pipeline: Pipeline, *, live: bool) -> Plan:
    rules, windows = pipeline.judged_by, pipeline.cascade.windows
    return Plan(
        cascade=pipeline.cascade,
        buckets=pipeline.buckets,
        live=live,
        floors=tuple(material_floor(rules, window) for window in windows),
        baselines=tuple(needs_baseline(rules, window) for window in windows),
        processing_time=pipeline.time == "processing",
    )


def _paths(source: Files, folder: RunFolder) -> list[str]:
    return list_files(source.path, source.file_format, without=str(folder.path))


def _check_input(source: Files, folder: RunFolder, *, live: bool) -> None:
    """Say at once what is wrong with the files, before Spark is started for it."""
    found = _paths(source, folder)
    begins = not live and not folder.ledger.exists()
    if not found and begins:
        message = f"No events in {source.path!r}: no file there has a known format."
        raise InputError(
            message, hint="Files end in .json, .jsonl, .csv or .parquet (and .gz, .zst)."
        )
    if begins and all(_is_empty(path) for path in found):
        files = "the file is empty" if len(found) == 1 else f"all {len(found)} files are empty"
        message = f"No events in {source.path!r}: {files}."
        raise InputError(message, hint="Fill it, or give another.")
    check_columns(found, source.columns, source.file_format)


def _is_empty(path: str) -> bool:
    try:
        return Path(path).stat().st_size == 0
    except FileNotFoundError:
        return True


def _schema_of(source: Files, folder: RunFolder, spark: SparkSession) -> str:
    """Return the columns that expressions may name, from the first files, as Spark's JSON.

    Raises
    ------
    InputError
        If there is no file to see them in.
    """
    paths = _paths(source, folder)[:_SEEN_FILES]
    if not paths:
        message = f"No file in {source.path!r} yet to see columns in."
        raise InputError(message, hint="Expressions need one; plain column names do not.")
    if format_of(paths[0], source.file_format) == "json":
        return stream.json_schema(spark, paths).json()
    return str(from_arrow_schema(row_types(paths[0], source.file_format)).json())
