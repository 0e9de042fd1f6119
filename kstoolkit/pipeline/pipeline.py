"""A pipeline: a source of events, a cascade that counts them, rules that judge the counts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pyspark.errors import StreamingQueryException

from kstoolkit.errors import ConfigurationError, InputError, RunFailed
from kstoolkit.events.judging import Limits
from kstoolkit.events.ledger import Ledger, list_files
from kstoolkit.events.pieces import Columns
from kstoolkit.events.preview import check_columns
from kstoolkit.events.sources import Files, Frame
from kstoolkit.findings.rulefile import rules_to_json
from kstoolkit.findings.rules import DEFAULT_RULES, Unusual, material_floor, needs_baseline
from kstoolkit.pipeline import stream
from kstoolkit.pipeline.cluster import check_shared
from kstoolkit.pipeline.feeds import FileFeedPlan
from kstoolkit.pipeline.operator import Plan
from kstoolkit.pipeline.progress import Progress
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder, Settings
from kstoolkit.pipeline.session import spark_session, streaming_conf
from kstoolkit.pipeline.sink import Sink
from kstoolkit.units import Duration, format_duration, parse_duration
from kstoolkit.windows import Cascade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from kstoolkit.events.simulator import Simulation
    from kstoolkit.findings.rules import Rule

__all__ = ["Pipeline"]

BUCKETS = 8
HOUR_MS = 3_600_000
MAX_FILES, MAX_BYTES = 10_000, 256 << 20
"""What a micro-batch takes in, unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Count events in cascaded windows, find the abnormal users, and say why.

    Parameters
    ----------
    source
        Where events come from: :func:`~kstoolkit.events.sources.files`,
        :func:`~kstoolkit.events.sources.frame` or :func:`~kstoolkit.events.simulator.simulate`.
    cascade
        The windows; minutes, hours and days by default.
    rules
        What is abnormal; by default ``Unusual("1 hour", false_alarms_per_day=5)``.
    buckets
        Among how many buckets users are spread: the most tasks that can count at once. It can't be
        changed later.
    time
        ``"event"``, or ``"processing"``: windows by when an event is processed.

    Examples
    --------
    >>> import kstoolkit as kst
    >>> source = kst.files("data/sample", event_time="time", user="user", action="action")
    >>> kst.Pipeline(source=source, cascade=kst.Cascade("1 minute", "1 hour")).buckets
    8
    """

    source: Files | Frame | Simulation
    cascade: Cascade = field(default_factory=Cascade)
    rules: Sequence[Rule] | None = None
    buckets: int = BUCKETS
    time: Literal["event", "processing"] = "event"

    def __post_init__(self) -> None:
        if self.buckets < 1:
            message = f"buckets is {self.buckets}: users have to lie somewhere."
            raise ConfigurationError(message, hint="Give 1 or more; the default is 8.")
        if self.rules is None:
            object.__setattr__(self, "rules", _default_rules(self.cascade))
        for rule in self.rules or ():
            window = getattr(rule, "window", None)
            if window is not None:
                self.cascade.index(window)

    def run(
        self,
        out: str | os.PathLike[str],
        *,
        master: str | None = None,
        max_files_per_batch: int | None = None,
        max_bytes_per_batch: int = MAX_BYTES,
        progress: bool = True,
    ) -> Run:
        """Count to the end of the input, and return the run.

        Going on with an output folder adds just what is new: a file counts once, by its path.

        Parameters
        ----------
        out
            The output folder: new, empty, or an earlier run's.
        master
            Where to run; on this machine by default.
        max_files_per_batch, max_bytes_per_batch
            What a micro-batch may take in.
        progress
            Whether to show a bar on stderr.

        Raises
        ------
        UserError
            If the input, the settings or the output folder are not usable.
        RunFailed
            If Spark gave up.
        """
        limits = _BatchLimits(max_files_per_batch or MAX_FILES, max_bytes_per_batch)
        folder = RunFolder(Path(out).absolute())
        with folder.hold():
            return self._run(folder, master, limits, progress=progress)

    def start(
        self,
        out: str | os.PathLike[str],
        *,
        trigger: Duration = "10 seconds",
        master: str | None = None,
        max_files_per_batch: int | None = None,
        max_bytes_per_batch: int = MAX_BYTES,
        progress: bool = False,
    ) -> Run:
        """Keep counting what arrives, and return the run, which has a ``.stop()``.

        Started again on the same folder, it goes on where it was, however it ended.

        Parameters
        ----------
        trigger
            How often a micro-batch begins.
        out, master, max_files_per_batch, max_bytes_per_batch, progress
            As in :meth:`run`.
        """
        limits = _BatchLimits(max_files_per_batch or MAX_FILES, max_bytes_per_batch)
        folder = RunFolder(Path(out).absolute())
        every = format_duration(parse_duration(trigger))
        hold = folder.hold()
        try:
            job = self._prepare(folder, master, limits, live=True)
            shown = Progress(total_bytes=None, shown=progress)
            query = job.start(shown, processingTime=every)
        except BaseException:
            hold.release()
            raise
        return Run(folder, query=query, hold=hold, progress=shown)

    def _run(
        self, folder: RunFolder, master: str | None, limits: _BatchLimits, *, progress: bool
    ) -> Run:
        job = self._prepare(folder, master, limits, live=False)
        with Progress(total_bytes=job.total_bytes, shown=progress) as shown:
            query = job.start(shown, availableNow=True)
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                raise failed(error, folder) from error
            finally:
                query.stop()
        return Run(folder)

    def _prepare(
        self, folder: RunFolder, master: str | None, limits: _BatchLimits, *, live: bool
    ) -> _Job:
        source = self._as_source(folder)
        earlier = folder.settings()
        mine = self._settings(source, partitions=0)
        settings = mine if earlier is None else mine.continued(earlier)
        if isinstance(source, Files):
            _check_input(source, folder, live=live)
        spark = source.df.sparkSession if isinstance(source, Frame) else spark_session(
            master, log_path=folder.log
        )
        if not spark.sparkContext.master.startswith("local"):
            stream.ship_by_value()
            check_shared(spark, folder.path)
        if earlier is None:
            tasks = min(self.buckets, spark.sparkContext.defaultParallelism)
            settings = replace(settings, partitions=tasks)
        drain = live or (earlier is not None and earlier.was_live)
        folder.save(replace(settings, was_live=live))
        job = _Job(self, folder, settings, spark, limits, live=live)
        parcels = job.parcels(source)
        return replace(job, frame=stream.ticking(parcels, self.buckets, live=drain))

    def _as_source(self, folder: RunFolder) -> Files | Frame:
        if isinstance(self.source, Files | Frame):
            return self.source
        place = folder.path / "simulated"
        if not (place / "labels.json").exists():  # written last: the events are whole
            self.source.write(place / "events")
        columns = (self.source.event_time, self.source.user, self.source.action)
        return Files(str(place / "events"), Columns(*columns), None, Limits())

    def _settings(self, source: Files | Frame, partitions: int) -> Settings:
        return Settings(
            windows=self.cascade.labels,
            buckets=self.buckets,
            columns={
                "event_time": source.columns.event_time,
                "user": source.columns.user,
                "action": source.columns.action,
            },
            time=self.time,
            feed=_feed_of(source),
            partitions=partitions,
            rules=rules_to_json(self.rules),
            source=source.path if isinstance(source, Files) else "a DataFrame",
        )

    def plan(self, *, live: bool) -> Plan:
        """Return what the operator has to do."""
        windows = self.cascade.windows
        return Plan(
            cascade=self.cascade,
            buckets=self.buckets,
            live=live,
            floors=tuple(material_floor(self.rules, window) for window in windows),
            baselines=tuple(needs_baseline(self.rules, window) for window in windows),
            processing_time=self.time == "processing",
        )


@dataclass(frozen=True, slots=True)
class _BatchLimits:
    files: int
    size_bytes: int

    def __post_init__(self) -> None:
        if min(self.files, self.size_bytes) < 1:
            message = f"A micro-batch of {self.files} files or {self.size_bytes} bytes holds nothing."
            raise ConfigurationError(message, hint="Give 1 or more.")


@dataclass(frozen=True, slots=True)
class _Job:
    """A pipeline made ready for one run: session, feed, operator, sink."""

    pipeline: Pipeline
    folder: RunFolder
    settings: Settings
    spark: SparkSession
    limits: _BatchLimits
    live: bool
    frame: DataFrame | None = None

    @property
    def total_bytes(self) -> int | None:
        """Size of the files that are still to be taken in; ``None`` if there are none to see."""
        source = self.pipeline.source
        if not isinstance(source, Files):
            return None
        ledger = Ledger(self.folder.ledger)
        done = {entry.path for entry in ledger.entries(0, len(ledger))}
        paths = [path for path in list_files(source.path, source.file_format) if path not in done]
        return sum(Path(path).stat().st_size for path in paths)

    def parcels(self, source: Files | Frame) -> DataFrame:
        """Return the feed."""
        pipeline, processing = self.pipeline, self.pipeline.time == "processing"
        grain: dict[str, Any] = {
            "pane_ms": pipeline.cascade.pane_ms,
            "buckets": pipeline.buckets,
            "processing_time": processing,
        }
        if isinstance(source, Frame):
            counted = stream.frame_parcels(source.df, source.columns, source.limits, **grain)
            return counted if source.df.isStreaming else self._staged(counted)
        plan = FileFeedPlan(
            path=os.path.abspath(source.path),  # noqa: PTH100 - links and globs stay as they are
            file_format=source.file_format,
            columns=source.columns,
            limits=source.limits,
            ledger=str(self.folder.ledger),
            tasks=self.spark.sparkContext.defaultParallelism,
            max_files=self.limits.files,
            max_bytes=self.limits.size_bytes,
            **grain,
        )
        return stream.file_parcels(self.spark, plan)

    def _staged(self, counted: DataFrame) -> DataFrame:
        """Count a batch DataFrame by pane into the run's folder, once; the stream reads it there."""
        place = self.folder.staged
        if not (place / "_SUCCESS").exists():
            counted.write.mode("overwrite").parquet(str(place))
        return stream.staged_parcels(counted.sparkSession, str(place))

    def start(self, shown: Progress, **trigger: Any) -> StreamingQuery:
        """Start the query."""
        pipeline = self.pipeline
        sink = Sink(
            out=self.folder.path,
            epoch=self.settings.epoch,
            cascade=pipeline.cascade,
            buckets=pipeline.buckets,
            rules=pipeline.rules,
            on_batch=shown.batch,
        )
        conf = {**streaming_conf(), "spark.sql.shuffle.partitions": str(self.settings.partitions)}
        if self.frame is None:
            message = "The job has no frame to start from."
            raise RunFailed(message)
        with stream.settings_of(self.spark, conf):
            output = stream.cascade(self.frame, pipeline.plan(live=self.live))
            writer = output.writeStream.foreachBatch(sink).outputMode("append")
            writer = writer.queryName("kstoolkit").trigger(**trigger)
            return writer.option("checkpointLocation", str(self.folder.checkpoint)).start()


def failed(error: StreamingQueryException, folder: RunFolder) -> RunFailed:
    """Return what Spark said as one sentence, and where the rest of it is."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("OSError", "PermissionError", "MemoryError"))]
    told = causes[-1] if causes else (lines[0] if lines else "no reason given")
    message = f"Spark gave up: {told}"
    return RunFailed(
        message,
        hint=f"Nothing is lost: mend it and run again, it goes on from the last whole batch. "
        f"Spark's own words are in {folder.log}.",
    )


def _default_rules(cascade: Cascade) -> tuple[Rule, ...]:
    """Return the default rules; where there is no hour, on the window that comes nearest to one."""
    if all(rule.window in cascade.windows for rule in DEFAULT_RULES):
        return DEFAULT_RULES
    nearest = min(cascade.windows, key=lambda window: abs(log(window.size_ms / HOUR_MS)))
    return (Unusual(nearest),)


def _feed_of(source: Files | Frame) -> str:
    if isinstance(source, Files):
        return "files"
    return "frame" if source.df.isStreaming else "staged"


def _check_input(source: Files, folder: RunFolder, *, live: bool) -> None:
    """Say at once what is wrong with the files, before Spark is started for it."""
    try:
        found = list_files(source.path, source.file_format)
    except InputError:
        if live and Path(source.path).parent.is_dir() and not Path(source.path).suffix:
            return
        raise
    if not found and not live and not folder.ledger.exists():
        message = f"No events in {source.path!r}: no file there has a known format."
        raise InputError(message, hint="Files end in .json, .jsonl, .csv or .parquet (and .gz, .zst).")
    check_columns(found, source.columns, source.file_format)
