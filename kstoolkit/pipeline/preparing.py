"""A pipeline made ready for one run: input checked, settings settled, session, feed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.event import Columns, Limits
from kstoolkit.events.opening import format_of
from kstoolkit.events.sources import Files, Frame, is_plain
from kstoolkit.events.topics import Topic
from kstoolkit.findings.rules import rules_to_json
from kstoolkit.pipeline import stream
from kstoolkit.pipeline.cluster import check_shared
from kstoolkit.pipeline.ending import Ending
from kstoolkit.pipeline.failure import run_failed
from kstoolkit.pipeline.feeds import FileFeedPlan
from kstoolkit.pipeline.inputfiles import check_input, input_paths, schema_of
from kstoolkit.pipeline.javaoptions import java_options
from kstoolkit.pipeline.job import Job
from kstoolkit.pipeline.offsets import newest_commit
from kstoolkit.pipeline.runfolder import RunFolder, Settings
from kstoolkit.pipeline.session import spark_session
from kstoolkit.pipeline.skiplist import SkipList
from kstoolkit.pipeline.topicchecks import check_topic, sample_values, starting_of
from kstoolkit.pipeline.topicfeed import Grain, needs_schema, sampled_schema, topic_parcels

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from kstoolkit.kafka.cluster import TopicFacts
    from kstoolkit.pipeline.pipeline import Pipeline


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


def prepare(
    pipeline: Pipeline,
    folder: RunFolder,
    *,
    master: str | None,
    limits: BatchLimits,
    live: bool,
    tell: Callable[[str], None],
    rest: Callable[[float], None] = time.sleep,
) -> Job:
    """Check the input and the folder, start Spark, and return the run, ready to start.

    Brokers that do not answer are waited for by ``rest``, a while each time, and ``tell`` is told.

    Raises
    ------
    UserError
        If the input, the settings or the folder are not usable.
    KafkaError
        If no broker answers.
    """
    folder.mend_epoch()
    source = _source_of(pipeline, folder)
    earlier = folder.settings() if folder.has_begun else None
    mine = _settings(pipeline, source)
    settings = mine if earlier is None else mine.continued(earlier)
    facts = None
    if isinstance(source, Files):
        check_input(source, folder, live=live)
    elif isinstance(source, Topic):
        facts = check_topic(source, folder, earlier, tell, rest)
        settings = replace(settings, topic_id=facts.topic_id)
    for topic in (pipeline.changelog, pipeline.findings_to):
        if topic is not None:
            topic.made(tell, rest)
    spark = _session(source, folder, master)
    if earlier is None:
        settings = _settled(settings, source, folder, spark, pipeline.buckets)
    # What a live run held back is flushed by the ticks of the next one, of whatever kind.
    settings = replace(settings, was_live=live or (earlier is not None and earlier.was_live))
    folder.save(settings)
    feed = _feed(pipeline, source, settings, folder, spark, limits, facts)
    parcels = stream.ticking(feed, pipeline.buckets, live=settings.was_live)
    ending = None if live else _ending(facts, folder)
    return Job(pipeline, folder, settings, parcels, live, ending)


def _ending(facts: TopicFacts | None, folder: RunFolder) -> Ending | None:
    if facts is None:
        return None
    committed = newest_commit(folder.checkpoint)
    ends = {each: at.end for each, at in facts.reach.items()}
    first = 0 if committed is None else committed + 1
    return Ending(facts.name, ends, folder.checkpoint, first)


def _source_of(pipeline: Pipeline, folder: RunFolder) -> Files | Frame | Topic:
    source = pipeline.source
    if isinstance(source, Files | Frame | Topic):
        return source
    place = folder.path / "simulated"
    if not (place / "labels.json").exists():  # written last: then the events are whole
        source.write(place / "events")
    columns = Columns(source.event_time, source.user, source.action)
    return Files(str(place / "events"), columns, None, Limits())


def _settings(pipeline: Pipeline, source: Files | Frame | Topic) -> Settings:
    event_time, user, action = source.columns
    return Settings(
        windows=pipeline.cascade.labels,
        buckets=pipeline.buckets,
        columns={"event_time": event_time, "user": user, "action": action},
        time=pipeline.time,
        feed=_kind_of(source),
        partitions=0,
        rules=rules_to_json(pipeline.judged_by),
        source=_in_words(source),
        min_count=pipeline.cascade.min_count,
        changelog=None if pipeline.changelog is None else str(pipeline.changelog.address),
    )


def _kind_of(source: Files | Frame | Topic) -> str:
    if isinstance(source, Topic):
        return "topic"
    if isinstance(source, Files):
        return "files" if is_plain(source.columns) else "lines"
    return "frame" if source.df.isStreaming else "staged"


def _in_words(source: Files | Frame | Topic) -> str:
    if isinstance(source, Topic):
        return str(source.address)
    return source.path if isinstance(source, Files) else "a DataFrame"


def _settled(
    settings: Settings,
    source: Files | Frame | Topic,
    folder: RunFolder,
    spark: SparkSession,
    buckets: int,
) -> Settings:
    """Return the settings with what a run's first start decides for good."""
    is_local = str(spark.sparkContext.master).startswith("local")
    # A cluster's executors may yet be arriving: what they are together by now says little.
    partitions = min(buckets, spark.sparkContext.defaultParallelism) if is_local else buckets
    settings = replace(settings, partitions=partitions)
    if settings.feed == "lines" and isinstance(source, Files):
        settings = replace(settings, input_schema=schema_of(source, folder, spark))
    if isinstance(source, Topic) and needs_schema(source):
        values = sample_values(source) if source.schema is None else []
        settings = replace(settings, input_schema=sampled_schema(spark, source, values))
    return settings


def _session(source: Files | Frame | Topic, folder: RunFolder, master: str | None) -> SparkSession:
    if isinstance(source, Frame):
        spark = source.df.sparkSession
    else:
        options = java_options(source)
        extra = {"spark.driver.extraJavaOptions": " ".join(options)} if options else {}
        spark = spark_session(master, log_path=folder.log, extra=extra)
    if not str(spark.sparkContext.master).startswith("local"):
        stream.ship_by_value()
        check_shared(spark, folder.path)
    return spark


def _feed(  # noqa: PLR0917 - all that a run is made of
    pipeline: Pipeline,
    source: Files | Frame | Topic,
    settings: Settings,
    folder: RunFolder,
    spark: SparkSession,
    limits: BatchLimits,
    facts: TopicFacts | None,
) -> DataFrame:
    grain: dict[str, Any] = {
        "pane_ms": pipeline.cascade.pane_ms,
        "buckets": pipeline.buckets,
        "processing_time": pipeline.time == "processing",
    }
    if isinstance(source, Topic):
        told = settings.starting_offsets
        starting = "earliest" if facts is None else starting_of(source, facts, told)
        skipped = SkipList(folder.skipped, settings.topic_id).read()
        schema = settings.input_schema
        return topic_parcels(spark, source, starting, Grain(**grain), schema, skipped=skipped)
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
    plan = replace(plan, file_format=format_of(input_paths(source, folder)[0], source.file_format))
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
