"""A run that is ready to start: its query, and its way to the end of the input.

A micro-batch that ends its workers time and again: which records do it is tried out.

The batch's offsets are in Spark's log and stay there. What is found goes to the skip list, by which
the feed leaves it out, as dead letters, when the batch is counted again.

A pipeline made ready for one run: input checked, settings settled, session, feed.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kstoolkit.errors import ConfigurationError, KafkaError
from kstoolkit.events.event import Columns, Limits
from kstoolkit.events.opening import format_of
from kstoolkit.events.sources import Files, Frame, is_plain
from kstoolkit.events.topics import Topic
from kstoolkit.findings.rules import material_floor, needs_baseline, rules_to_json
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.pipeline import stream
from kstoolkit.pipeline.batches import keep_state_size
from kstoolkit.pipeline.counting import place_of
from kstoolkit.pipeline.failure import cause_in_words, is_kafkas, run_failed
from kstoolkit.pipeline.feeds import FileFeedPlan
from kstoolkit.pipeline.inputs import (
    check_input,
    check_same,
    check_shared,
    check_topic,
    input_paths,
    java_options,
    sample_values,
    schema_of,
    starting_of,
)
from kstoolkit.pipeline.operator import Plan
from kstoolkit.pipeline.runfolder import RunFolder, Settings, newest_commit, offsets_reached
from kstoolkit.pipeline.session import InputProgress, spark_session, streaming_conf
from kstoolkit.pipeline.shuffle import Grain
from kstoolkit.pipeline.sink import Sink
from kstoolkit.pipeline.supervising import PATIENCE_MS, Ending, Mending, SupervisedQuery
from kstoolkit.pipeline.topicfeed import (
    SkipList,
    culprits,
    needs_schema,
    sampled_schema,
    topic_feed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.kafka.cluster import TopicFacts
    from kstoolkit.pipeline.batches import MicroBatch
    from kstoolkit.pipeline.failure import Restart
    from kstoolkit.pipeline.pipeline import Pipeline
    from kstoolkit.pipeline.session import Progress
    from kstoolkit.pipeline.supervising import Gate, Ready, Rest, Tell
    from kstoolkit.pipeline.topicfeed import Ranges


_SHOWN = 3


def _set_poison_aside(job: Job, check_wanted: Callable[[], None]) -> str | None:
    """Find the records that the batch at hand dies of, put them on the skip list, and say which.

    Parameters
    ----------
    job
        The run.
    check_wanted
        Called before each trial; what it raises ends the search.

    Returns
    -------
    str or None
        A sentence; ``None`` if it is not single records, or not of a topic, or if Kafka could not
        be read meanwhile.
    """
    topic = job.pipeline.source
    if not isinstance(topic, Topic):
        return None
    skipped = SkipList(job.folder.skipped, job.settings.topic_id)

    def works(tried: Ranges) -> bool:
        check_wanted()
        return _works(_counted(job, topic, tried, skipped))

    try:
        ranges = _at_hand(job, topic)
        found = culprits(works, ranges) if ranges else {}
    except KafkaError:
        return None
    if not found:
        return None
    skipped.add(found)
    name = topic.address.topic
    places = [place_of(name, each, at) for each, offsets in found.items() for at in offsets]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    shown = "; ".join(places[:_SHOWN])
    return f"Records that end whatever counts them become dead letters: {shown}{more}."


def _at_hand(job: Job, topic: Topic) -> Ranges:
    """Return the offsets of the batch that Spark has planned and not committed."""
    checkpoint, name = job.folder.checkpoint, topic.address.topic
    committed = newest_commit(checkpoint)
    batch = 0 if committed is None else committed + 1
    ends = offsets_reached(checkpoint, batch, name) or {}
    begins = offsets_reached(checkpoint, batch - 1, name) if batch else None
    missing = [each for each in ends if each not in (begins or {})]
    cluster = Cluster(topic.address.bootstrap, topic.options)
    reach = cluster.reach(name, missing) if missing else {}
    first = {each: at.first for each, at in reach.items()}
    if not batch:
        first |= job.settings.starting_offsets
    first |= begins or {}
    return {each: (first[each], end) for each, end in ends.items() if first[each] < end}


def _counted(job: Job, topic: Topic, tried: Ranges, skipped: SkipList) -> DataFrame:
    pipeline = job.pipeline
    grain = _grain(pipeline)
    spark = spark_session(log_path=job.folder.log)
    begins = {each: first for each, (first, _) in tried.items()}
    ends = {each: end for each, (_, end) in tried.items()}
    return topic_feed(
        spark,
        topic,
        begins,
        grain,
        job.settings.input_schema,
        skipped=skipped.read(),
        ending=ends,
    )


def _works(counted: DataFrame) -> bool:
    try:
        counted.write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JJavaError) as error:
        if is_kafkas(error):
            raise KafkaError(cause_in_words(error)) from error
        return False
    return True


@dataclass(frozen=True, slots=True)
class Job:
    """One run, ready to start.

    Parameters
    ----------
    pipeline, folder, settings
        What is run, and where.
    feed
        The feed and the ticks.
    live
        Whether it is without an end.
    ending
        Where it ends, if it is on a topic and not without an end.
    """

    pipeline: Pipeline
    folder: RunFolder
    settings: Settings
    feed: DataFrame
    live: bool
    ending: Ending | None = None

    def start(
        self, on_batch: Callable[[MicroBatch], None], gate: Gate, **trigger: Any
    ) -> StreamingQuery:
        """Start the query, whose batches pass the gate; ``trigger`` is Spark's."""
        pipeline, spark = self.pipeline, self.feed.sparkSession
        query: StreamingQuery | None = None

        def ended(batch: MicroBatch) -> None:
            keep_state_size(self.folder, self.settings.epoch, query)  # of the one before
            on_batch(batch)

        sink = Sink(
            out=self.folder.path,
            epoch=self.settings.epoch,
            cascade=pipeline.cascade,
            buckets=pipeline.buckets,
            rules=pipeline.judged_by,
            on_batch=ended,
            topic=pipeline.changelog,
            findings_to=pipeline.findings_to,
        )
        conf = {**streaming_conf(), "spark.sql.shuffle.partitions": str(self.settings.partitions)}
        with stream.settings_of(spark, conf):
            plan = _operator_plan(pipeline, live=self.live)
            output = stream.cascade(self.feed, plan, self.settings.partitions)
            step = gate.before(sink, self._check)
            writer = output.writeStream.foreachBatch(step).outputMode("append")
            writer = writer.queryName("kstoolkit").trigger(**trigger)
            query = writer.option("checkpointLocation", str(self.folder.checkpoint)).start()
            return query

    def supervised(
        self,
        ready: Ready,
        on_batch: Callable[[MicroBatch], None],
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
        mend.set_aside = lambda: _set_poison_aside(self, query.check_wanted)
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

        def on_batch(done: MicroBatch) -> None:
            progress.reach(reached.after(done.batch))
            progress.batch(done)

        def again(tell: Tell, rest: Rest) -> Job:
            return replace(ready(tell, rest), ending=self.ending)  # the run is the same

        query = self.supervised(again, on_batch, progress.say, availableNow=True)
        query.lead()
        keep_state_size(self.folder, self.settings.epoch, query)
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


def _grain(pipeline: Pipeline) -> Grain:
    is_processing = pipeline.time == "processing"
    return Grain(pipeline.cascade.pane_ms, pipeline.buckets, is_processing)


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
    feed = stream.ticking(feed, pipeline.buckets, live=settings.was_live)
    ending = None if live else _ending(facts, folder)
    return Job(pipeline, folder, settings, feed, live, ending)


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
    grain = _grain(pipeline)
    if isinstance(source, Topic):
        told = settings.starting_offsets
        starting = "earliest" if facts is None else starting_of(source, facts, told)
        skipped = SkipList(folder.skipped, settings.topic_id).read()
        schema = settings.input_schema
        return topic_feed(spark, source, starting, grain, schema, skipped=skipped)
    if isinstance(source, Frame):
        counted = stream.frame_feed(source.df, source.columns, source.limits, grain)
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
        grain=grain,
    )
    if settings.feed == "files":
        return stream.file_feed(spark, plan)
    plan = replace(plan, file_format=format_of(input_paths(source, folder)[0], source.file_format))
    return stream.line_feed(spark, plan)


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
    return stream.staged_feed(counted.sparkSession, str(folder.staged))
