"""A pipeline: a source of events, a cascade that counts them, rules that judge the counts.

One counting has four names, each of what is there at its time::

    Pipeline ── what to count, and how: checked as it is made, and nothing is started yet
       │ run(out), start(out)
       ▼
    _Job ────── the same made ready for one output folder: settings settled, Spark there, its feed;
       │        made anew whenever its query has to be
       ▼
    SupervisedQuery ── Spark's query over a job's feed, replaced underneath when it dies
       │
       ▼
    Run ─────── the output folder, to be asked; of a live one also its query, to be stopped
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import combinations
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from pyspark.errors import PySparkException

from kstoolkit.errors import ConfigurationError, Option, UnreadableFile, naming
from kstoolkit.events.event import LIVE_FUTURE_MS, Columns, Limits, is_plain
from kstoolkit.events.files import gone_from
from kstoolkit.events.ledger import Changes
from kstoolkit.events.simulator import Simulation
from kstoolkit.events.sources import Files, Frame
from kstoolkit.events.topics import Topic, shared
from kstoolkit.findings.rulefiles import load_rules, rules_to_json, rules_version
from kstoolkit.findings.rules import (
    DEFAULT_RULES,
    Distinct,
    Rule,
    Unusual,
    as_rules,
    bys_on,
    check_windows,
    of_parts,
    rules_on,
)
from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings
from kstoolkit.pipeline import stream
from kstoolkit.pipeline.alerting import (
    BOUNDED_MS,
    LIVE_MS,
    STOP_SECONDS,
    Alerting,
    Receiver,
    receivers_of,
)
from kstoolkit.pipeline.batches import keep_state_size
from kstoolkit.pipeline.datasources import FLUSH, TICK, Due, ship_by_value
from kstoolkit.pipeline.failure import Restart, run_failed
from kstoolkit.pipeline.feeds import FileFeedPlan
from kstoolkit.pipeline.inputs import (
    check_input,
    check_same,
    check_shared,
    check_topic,
    format_taken,
    is_all_taken,
    java_options,
    listing,
    readmit_files,
    sample_values,
    schema_of,
    starting_of,
)
from kstoolkit.pipeline.operator import Plan, View
from kstoolkit.pipeline.progress import InputProgress, Progress
from kstoolkit.pipeline.rulebook import Rulebook
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder, Settings, check_log, newest_commit
from kstoolkit.pipeline.session import (
    check_workers,
    interrupting_only,
    session_of_run,
    set_for_a_while,
    spark_path,
    spark_session,
    streaming_conf,
)
from kstoolkit.pipeline.shuffle import Grain
from kstoolkit.pipeline.sink import Sink
from kstoolkit.pipeline.sparkinside import file_manager
from kstoolkit.pipeline.supervising import PATIENCE_MS, Ending, Retries, SupervisedQuery
from kstoolkit.pipeline.tidying import NOT_OURS, Tidying, tidy_or_tell
from kstoolkit.pipeline.topicfeed import (
    PoisonSearch,
    SkipList,
    needs_schema,
    sampled_schema,
    topic_feed,
    with_limit,
)
from kstoolkit.units import Duration, check_whole, format_duration, parse_duration
from kstoolkit.windows import Cascade

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.counters.counters import Widest
    from kstoolkit.kafka.cluster import Log, Sleep, TopicFacts
    from kstoolkit.kafka.outputs import OutputTopic
    from kstoolkit.pipeline.batches import MicroBatch
    from kstoolkit.pipeline.results import BatchOutput
    from kstoolkit.pipeline.supervising import Gate, Start

    Prepare = Callable[[Log, Sleep], "_Job"]

_BUCKETS = 8
_MAX_FILES, _MAX_BYTES = 10_000, 256 << 20
"""What a micro-batch takes in, unless told otherwise."""

_FIRST_NAME = "frame"
"""The name of what runs took in before there were names; it lies in the folder itself."""

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Count events in cascaded windows, find the abnormal users, and say why.

    Parameters
    ----------
    source
        Where events come from: :func:`~kstoolkit.events.sources.files`,
        :func:`~kstoolkit.events.topics.kafka_topic`, :func:`~kstoolkit.events.sources.frame` or
        :func:`~kstoolkit.events.simulator.simulate`.
    cascade
        The windows; minutes, hours and days by default.
    rules
        What is abnormal; by default ``Unusual("1 hour", false_alarms_per_day=5)``, or on the window
        nearest to an hour. Or a file of rules, read again before a live batch if changed.
    buckets
        Among how many buckets users are spread: the most tasks at once. It can't be changed later.
    changelog
        Where the latest counts go: to the run's folder by default, or to a topic, see
        :func:`~kstoolkit.kafka.outputs.kafka_changelog`.
    findings_to
        A topic that findings go to, beside the run's folder, see
        :func:`~kstoolkit.kafka.outputs.kafka_findings`.
    time
        ``"event"``, or ``"processing"``: windows by when an event is processed.
    on_batch
        A function of your own that is called with each micro-batch that changed something, a
        :class:`~kstoolkit.pipeline.results.BatchOutput`, before the batch is said to be done: a
        batch that is cut off comes again, under the same id. If it raises, the run ends with what
        it raised, or tries again if it is live and to be restarted.
    alert_to
        Who is told of incidents, one or several: :func:`~kstoolkit.pipeline.alerting.alertmanager`,
        :func:`~kstoolkit.pipeline.alerting.webhook`, or an address that tells which it is.

    Examples
    --------
    >>> import kstoolkit as kst
    >>> source = kst.files("data/sample", event_time="time", user="user", action="action")
    >>> kst.Pipeline(source=source, cascade=kst.Cascade("1 minute", "1 hour")).buckets
    8
    """

    source: Files | Frame | Simulation | Topic
    cascade: Cascade = field(default_factory=Cascade)
    rules: Rule | Sequence[Rule] | str | os.PathLike[str] | None = None
    buckets: int = _BUCKETS
    changelog: KafkaChangelog | None = None
    findings_to: KafkaFindings | None = None
    time: Literal["event", "processing"] = "event"
    on_batch: Callable[[BatchOutput], object] | None = None
    alert_to: Receiver | str | Sequence[Receiver | str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_kinds(self)
        check_whole("buckets", self.buckets, least=1, hint="Give 1 or more; the default is 8.")
        check_windows(self.judged_by, self.cascade.levels)
        receivers_of(self.alert_to)
        _check_apart(self.source, self.changelog, self.findings_to)
        if self.cascade.sessions and self.time == "processing":
            message = "Sessions are counted by the events' own time."
            raise ConfigurationError(message, hint="Leave the sessions out, or time=.")
        if self.changelog is not None and any(self.cascade.expire_ms):
            raise ConfigurationError(NOT_OURS, hint="Leave expire out; set the topic's retention.")
        if self.on_batch is not None and self.changelog is not None:
            topic = self.changelog.address
            message = f"on_batch takes counts from the run's folder; these go to {topic}."
            hint = "Leave changelog= out, and have the function send what it takes to a topic."
            raise ConfigurationError(message, hint=hint)

    @property
    def judged_by(self) -> tuple[Rule, ...]:
        """The rules, given or default; those of a file as it is by now."""
        if isinstance(self.rules, str | os.PathLike):
            return load_rules(os.fspath(self.rules)) or _default_rules(self.cascade)
        return _default_rules(self.cascade) if self.rules is None else as_rules(self.rules)

    def rulebook(self, folder: RunFolder) -> Rulebook:
        """Return the rules as they are, which a run into this folder may read again."""
        path = Path(self.rules).absolute() if isinstance(self.rules, str | os.PathLike) else None
        fixed = self if path is None else replace(self, rules=path)
        parts = _parts(self.source) or ("action",)
        return Rulebook(folder, lambda: fixed.judged_by, path, self.cascade.levels, parts)

    def run(
        self,
        out: str | os.PathLike[str],
        *,
        master: str | None = None,
        max_files_per_batch: int | None = None,
        max_bytes_per_batch: int | None = None,
        progress: bool = True,
        set_aside: str | None = None,
        readmit: str | None = None,
    ) -> Run:
        """Count to the end of the input, and return the run.

        Going on with an output folder adds what is new: a file counts once, wherever moved; one
        replaced by other contents is a new one; what is added to one is not counted, and said. If
        all files were counted, no Java is started to find that out.

        Parameters
        ----------
        out
            The output folder: new, empty, or an earlier run's.
        master
            Where to run; on this machine by default.
        max_files_per_batch, max_bytes_per_batch
            What a micro-batch may take in of files: 10,000 and 256 MiB by default.
        progress
            Whether to show a bar on stderr.
        set_aside
            A path, folder or glob of files that the run goes on without, since they keep failing:
            each becomes a dead letter. Those that were counted before stay counted.
        readmit
            A path, folder or glob of files to take in again that are dead letters as a whole:
            damaged, missing or set aside.

        Raises
        ------
        UserError
            If the input, the settings or the output folder are not usable.
        RunFailed
            If Spark gave up.
        KafkaError
            If a broker does not answer, or goes away, for longer than its topic says. Till then it
            is waited for, and the run goes on to where the topic ended as the run began.
        CheckpointError
            If a topic lost what comes next, or was made anew: it says which offsets are gone.
        """
        limits = _limits(self.source, max_files_per_batch, max_bytes_per_batch)
        folder = RunFolder.at(out)
        with folder.hold(), Progress(shown=progress) as shown:
            chosen = _chosen_files(self.source, folder, set_aside, readmit)
            ready = partial(_prepare, self, folder, rulebook=self.rulebook(folder), live=False)
            ready = partial(ready, master=master, limits=limits, set_aside=chosen)
            job = None if chosen is None and _is_all_counted(self, folder) else ready(shown.say)
            told = receivers_of(self.alert_to)
            with Alerting(folder, told, shown.say, lasts_ms=BOUNDED_MS) as alerting:
                if job is not None:
                    job.finish(shown, ready, alerting.batch_ended)
                tidy_or_tell(folder, self.cascade, shown.say)
        return Run(folder, options=_connection(self))

    def start(
        self,
        out: str | os.PathLike[str],
        *,
        trigger: Duration = "10 seconds",
        master: str | None = None,
        max_files_per_batch: int | None = None,
        max_bytes_per_batch: int | None = None,
        progress: bool = False,
        restart: Restart | bool = False,
        set_aside: str | None = None,
        readmit: str | None = None,
    ) -> Run:
        """Keep counting what arrives, and return the run, which has a ``.stop()``.

        Started again on the same folder, it goes on where it was, however it ended. A broker that
        goes away is waited for as :meth:`run` does; what else ends it, ``run.failure()`` tells.

        Parameters
        ----------
        trigger
            How often a micro-batch begins.
        out, master, max_files_per_batch, max_bytes_per_batch, progress, set_aside, readmit
            As in :meth:`run`.
        restart
            Whether a query that dies is started again, Java included if that is gone: a
            :class:`Restart`, or ``True`` for one with its defaults. The reasons are kept in the
            run's folder, in ``restarts.jsonl``. Of a topic, a batch that died thrice is searched
            for the records that it dies of, be it in Python or in Spark's expressions: they become
            dead letters (``poison``), and the run goes on.

        Raises
        ------
        UserError
            If the input, the settings or the output folder are not usable.
        KafkaError
            If no broker answers.
        """
        pipeline = _as_live(self)
        limits = _limits(self.source, max_files_per_batch, max_bytes_per_batch)
        folder = RunFolder.at(out)
        every = format_duration(parse_duration(trigger))
        with ExitStack() as undone:
            undone.enter_context(folder.hold())
            shown = undone.enter_context(Progress(shown=progress))
            chosen = _chosen_files(self.source, folder, set_aside, readmit)
            ready = partial(_prepare, pipeline, folder, rulebook=self.rulebook(folder), live=True)
            ready = partial(ready, master=master, limits=limits, set_aside=chosen)
            ready = partial(ready, trigger_ms=parse_duration(trigger))
            job = ready(shown.say)
            shown.begin(None)
            tidying = Tidying(folder, pipeline.cascade, shown.say)
            undone.callback(tidying.close)
            told = receivers_of(self.alert_to)
            alerting = Alerting(folder, told, shown.say, lasts_ms=LIVE_MS)
            undone.callback(alerting.close)

            def on_batch(done: MicroBatch) -> None:
                shown.batch(done)
                tidying.batch_ended()
                alerting.batch_ended(done)

            query = job.supervised(
                ready, on_batch, shown.say, restart=_restart(restart), processingTime=every
            )
            query.begin().lead_beside()
            closes = undone.pop_all()  # it runs: from here on, stopping it lets go of all
        closes.callback(alerting.close, STOP_SECONDS)
        return Run(folder, query=query, closes=closes, options=_connection(self))


def _connection(pipeline: Pipeline) -> Mapping[str, str] | None:
    """Return the settings with which the topics are reached that a run's counts and events are in.

    Where the two differ by more than their servers, they are those of the counts.
    """
    source, changelog = pipeline.source, pipeline.changelog
    read = source.options if isinstance(source, Topic) else None
    if changelog is None or read is None:
        return read if changelog is None else changelog.options
    return shared(changelog.options, read)


def _as_live(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline as it counts live: other clocks are held against this one."""
    source = pipeline.source
    if isinstance(source, Simulation) or source.limits.future_ms is not None:
        return pipeline
    limits = replace(source.limits, future_ms=LIVE_FUTURE_MS)
    return replace(pipeline, source=replace(source, limits=limits))


def _restart(given: object) -> Restart | None:
    if isinstance(given, bool):
        return Restart() if given else None
    if isinstance(given, Restart):
        return given
    message = f"restart is {given!r}."
    raise ConfigurationError(message, hint="Give kst.Restart(most_per_hour=5), True or False.")


def _limits(source: object, max_files: int | None, max_bytes: int | None) -> tuple[int, int]:
    """Return how many files and bytes a micro-batch may take in: one file, whatever its size."""
    if isinstance(source, Frame | Topic) and (max_files, max_bytes) != (None, None):
        message = "max_files_per_batch and max_bytes_per_batch are of files, and there are none."
        hint = "Leave them out; a topic has max_records_per_batch, a streaming DataFrame its own."
        raise ConfigurationError(message, hint=hint)
    files = _MAX_FILES if max_files is None else max_files
    size_bytes = _MAX_BYTES if max_bytes is None else max_bytes
    if min(files, size_bytes) < 1:
        message = f"A micro-batch of {files} files or {size_bytes} bytes holds nothing."
        raise ConfigurationError(message, hint="Give 1 or more.")
    return files, size_bytes


def _chosen_files(
    source: object, folder: RunFolder, set_aside: str | None, readmit: str | None
) -> str | None:
    """Take in again what is to be, and return what is to be left out."""
    for name, given in {"set_aside": set_aside, "readmit": readmit}.items():
        if given is not None and not isinstance(source, Files):
            message = "The events are in no files that could be set aside or taken in again."
            raise ConfigurationError(message, hint=naming("Leave {it} out.", it=Option(name)))
        if not (given is None or given.strip()):
            message = "An empty text would name every file."
            hint = naming("Give {it} a path, a folder or a glob.", it=Option(name))
            raise ConfigurationError(message, hint=hint)
    if readmit is not None:
        readmit_files(folder, readmit)
    # Tasks look elsewhere for what is relative.
    return None if set_aside is None else os.path.abspath(set_aside)  # noqa: PTH100


def _default_rules(cascade: Cascade) -> tuple[Rule, ...]:
    """Return the default rules; where there is no hour, on the window that comes nearest to one."""
    nearest = min(cascade.windows, key=lambda window: abs(log(window.size_ms / _HOUR_MS)))
    return DEFAULT_RULES if nearest.size_ms == _HOUR_MS else (Unusual(nearest),)


def _check_kinds(pipeline: Pipeline) -> None:
    """Raise, before Spark is started, if something was given for something else."""
    checks: dict[str, tuple[Callable[[Any], bool], str]] = {
        "source": (_is_source, "kst.files(…), kst.kafka_topic(…), kst.frame(…) or kst.simulate(…)"),
        "cascade": (lambda given: isinstance(given, Cascade), "kst.Cascade('1 minute', '1 hour')"),
        "rules": (_are_rules, "a list of rules; kst.load_rules('rules.toml') reads a file"),
        "changelog": (
            lambda given: isinstance(given, KafkaChangelog | None),
            "kst.kafka_changelog(…), or None for the run's folder",
        ),
        "findings_to": (
            lambda given: isinstance(given, KafkaFindings | None),
            "kst.kafka_findings(…), or None",
        ),
        "buckets": (lambda given: type(given) is int, "a whole number"),
        "time": (lambda given: given in {"event", "processing"}, "'event' or 'processing'"),
        "on_batch": (
            lambda given: given is None or callable(given),
            "a function of one kst.BatchOutput, or None",
        ),
    }
    for name, (is_right, wanted) in checks.items():
        if not is_right(getattr(pipeline, name)):
            message = f"{name} is {getattr(pipeline, name)!r}."
            raise ConfigurationError(message, hint=f"Give {wanted}.")


def _is_source(given: object) -> bool:
    if isinstance(given, Frame):
        return hasattr(given.df, "sparkSession")
    return isinstance(given, Files | Simulation | Topic)


def _are_rules(given: object) -> bool:
    if given is None or isinstance(given, str | os.PathLike):
        return True
    return isinstance(given, Iterable) and all(isinstance(each, Rule) for each in given)


def _check_apart(
    source: object, changelog: OutputTopic | None, findings_to: OutputTopic | None
) -> None:
    """Raise if two of a pipeline's topics are the same one: it would read what it wrote, say."""
    given = {"source": source if isinstance(source, Topic) else None}
    named = {**given, "changelog": changelog, "findings_to": findings_to}
    topics = {name: each.address for name, each in named.items() if each is not None}
    for (one, mine), (other, theirs) in combinations(topics.items(), 2):
        servers = set(mine.bootstrap.split(",")) & set(theirs.bootstrap.split(","))
        if servers and mine.topic == theirs.topic:
            message = f"{one} and {other} are the same topic, {mine}."
            raise ConfigurationError(message, hint="Give each a topic of its own.")


@dataclass(frozen=True, slots=True)
class _Job:
    """One run, ready to start; ``ending`` is of a topic alone."""

    pipeline: Pipeline
    folder: RunFolder
    settings: Settings
    spark: SparkSession
    feed: DataFrame
    live: bool
    rulebook: Rulebook
    tell: Log
    ending: Ending | None = None

    def start(
        self,
        on_batch: Callable[[MicroBatch], None],
        gate: Gate,
        *,
        on_wide: Callable[[Widest], None],
        flush: bool = False,
        **trigger: Any,
    ) -> StreamingQuery:
        """Start the query, whose batches pass the gate; ``trigger`` is Spark's.

        One that is there to ``flush`` has one batch, in which all levels are due.
        """
        pipeline, spark = self.pipeline, self.spark
        query: StreamingQuery | None = None
        due, parts = Due(self.folder.due), self.settings.parts
        judged_by = (*pipeline.judged_by, *self.rulebook.known)
        rules = of_parts(judged_by, ("action",) if parts is None else parts)
        kind, at_once = FLUSH if flush else TICK, self.settings.was_live

        def ended(batch: MicroBatch) -> None:
            keep_state_size(self.folder, self.settings.epoch, query)  # of the one before
            on_batch(batch)

        sink = Sink(
            out=self.folder.path,
            epoch=self.settings.epoch,
            cascade=pipeline.cascade,
            buckets=pipeline.buckets,
            rules=rules,
            rules_version=rules_version(pipeline.judged_by),
            on_batch=ended,
            topic=pipeline.changelog,
            findings_to=pipeline.findings_to,
            due=due,
            live=self.live,
            hand_to=pipeline.on_batch,
            parts=parts,
            on_wide=on_wide,
        )
        plan = _operator_plan(pipeline, rules, live=self.live)
        feed = self.feed
        # A DataFrame of anyone's stays as it is, with what else it keeps in the checkpoint.
        if flush and self.settings.feed != "frame":
            feed = stream.still_feed(spark)
        feed = stream.ticking(feed, spark, pipeline.buckets, due, kind=kind, at_once=at_once)
        output = stream.cascade(feed, plan, self.settings.partitions)
        # One that takes nothing in has nothing to be checked.
        step = gate.before(sink, (lambda _: None) if flush else self._check)
        writer = output.writeStream.foreachBatch(step).outputMode("append")
        writer = writer.queryName("kstoolkit").trigger(**trigger)
        checkpoint = spark_path(self.folder.checkpoint)
        conf = streaming_conf() | file_manager(spark, checkpoint)
        conf["spark.sql.shuffle.partitions"] = str(self.settings.partitions)
        if self.settings.feed == "files":  # few rows, each of many bytes: code for them never pays
            conf |= {"spark.sql.codegen.wholeStage": "false"}
            conf |= {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
        with set_for_a_while(output.sparkSession, conf):
            query = writer.option("checkpointLocation", checkpoint).start()
        return query

    def supervised(
        self,
        prepare: Prepare,
        on_batch: Callable[[MicroBatch], None],
        tell: Log,
        restart: Restart | None = None,
        **trigger: Any,
    ) -> SupervisedQuery:
        """Return the query as one that outlives what it can, not begun yet.

        ``prepare`` makes the same job anew; ``tell`` is told when the query dies and goes on.
        """
        source = self.pipeline.source
        patience_ms = source.patience_ms if isinstance(source, Topic) else PATIENCE_MS
        retries = Retries(self.folder, patience_ms, tell, restart)

        told: list[Widest] = []

        def on_wide(widest: Widest) -> None:
            if not told:  # once, however it grows
                told.append(widest)
                tell(f"{widest} Each is counted on its own: leave out a part that tells all apart.")

        def start(job: _Job) -> Start:
            def started(gate: Gate, *, flush: bool = False) -> StreamingQuery:
                when = {"availableNow": True} if flush else trigger
                return job.start(on_batch, gate, on_wide=on_wide, flush=flush, **when)

            return started

        query = SupervisedQuery(
            start(self), lambda tell, sleep: start(prepare(tell, sleep)), retries, tell
        )
        query.at_rest = partial(keep_state_size, self.folder, self.settings.epoch, query)
        if isinstance(source, Files):
            retries.is_gone = partial(_is_gone, source, self.folder)
            changes = Changes(self.folder.ledger)
            changes.look()  # what was told as it was found
            query.look = lambda: list(map(tell, changes.in_words()))
        if isinstance(source, Topic):
            grain = _grain(self.pipeline)
            topic = replace(source, columns=replace(source.columns, items=grain.names))
            retries.set_aside = PoisonSearch(
                topic, grain, self.folder, self.settings, query.check_wanted
            ).set_aside
        return query

    def finish(
        self,
        progress: Progress,
        prepare: Prepare,
        beside: Callable[[MicroBatch], None] = lambda _: None,
    ) -> None:
        """Run to the end of the input, whatever of it passes; ``beside`` is told of each batch."""
        source = self.pipeline.source
        paths: Iterable[str] = listing(source, self.folder) if isinstance(source, Files) else []
        reached = InputProgress(self.folder.ledger, self.folder.checkpoint, paths)
        progress.begin(reached.total_bytes)

        def on_batch(done: MicroBatch) -> None:
            progress.reach(reached.after(done.batch))
            progress.batch(done)
            beside(done)

        def again(tell: Log, sleep: Sleep) -> _Job:
            return replace(prepare(tell, sleep), ending=self.ending)  # the run is the same

        query = self.supervised(again, on_batch, progress.say, availableNow=True)
        with interrupting_only(self.spark):
            query.lead()
        keep_state_size(self.folder, self.settings.epoch, query)
        self.folder.save(replace(self.settings, was_live=False))

    def _check(self, batch: int) -> None:
        """Raise if a batch can't be counted as it stands: by other rules, past the end, say."""
        source = self.pipeline.source
        if isinstance(source, Topic):  # another one's offsets would mean other records
            check_same(source, self.folder, self.settings)
        if self.ending is not None:
            self.ending.check(batch)
        if self.live:
            self.rulebook.check(batch, self.tell)


def _is_gone(source: Files, folder: RunFolder, path: str) -> bool:
    try:
        out = str(folder.path)
        return bool(gone_from(source.path, source.file_format, [path], without=out))
    except UnreadableFile:  # nor does the system tell that
        return False


def _grain(pipeline: Pipeline) -> Grain:
    is_processing = pipeline.time == "processing"
    parts = _parts(pipeline.source)
    sessions = tuple(session.label for session in pipeline.cascade.sessions)
    items = tuple((each.item, each.window.size_ms) for each in _distinct(pipeline))
    return Grain(pipeline.cascade.pane_ms, pipeline.buckets, is_processing, parts, sessions, items)


def _parts(source: Files | Frame | Simulation | Topic) -> tuple[str, ...] | None:
    return None if isinstance(source, Simulation) else source.columns.parts


def _distinct(pipeline: Pipeline) -> list[Distinct]:
    """Return the rules that look at what is touched, one a column and kind of window."""
    rules = [rule for rule in pipeline.judged_by if isinstance(rule, Distinct)]
    return list({(rule.item, rule.window): rule for rule in rules}.values())


def _operator_plan(pipeline: Pipeline, rules: Sequence[Rule], *, live: bool) -> Plan:
    views = []
    for level, window in enumerate(pipeline.cascade.levels):
        for by in bys_on(rules, window):
            on = rules_on(rules, window, by)
            views.append(View(level, by, on.floor, on.limit, on.need_baseline, on.watch))
    return Plan(
        cascade=pipeline.cascade,
        buckets=pipeline.buckets,
        live=live,
        views=tuple(views),
        rules=tuple(rules),
        processing_time=pipeline.time == "processing",
        whole=pipeline.changelog is not None and not pipeline.changelog.blocks,
    )


def _is_all_counted(pipeline: Pipeline, folder: RunFolder) -> bool:
    """Whether all was counted and judged to its end: then no Java is needed."""
    source, earlier = pipeline.source, folder.settings() if folder.has_begun else None
    if earlier is None or earlier.was_live or not isinstance(source, Files):
        return False
    if pipeline.changelog is not None or pipeline.findings_to is not None:
        return False
    is_same = _settings(pipeline, source).continued(earlier) == earlier
    return is_same and is_all_taken(source, folder)


def _prepare(
    pipeline: Pipeline,
    folder: RunFolder,
    tell: Log,
    sleep: Sleep = time.sleep,
    *,
    rulebook: Rulebook,
    master: str | None,
    limits: tuple[int, int],
    live: bool,
    set_aside: str | None = None,
    trigger_ms: int | None = None,
) -> _Job:
    """Check the input and the folder, start Spark, and return the run, ready to start.

    Brokers that do not answer are waited for by ``sleep``, a while each time, and ``tell`` is told.
    """
    pipeline = replace(pipeline, rules=rulebook.rules)
    folder.repair_epoch()
    folder.forget_uncommitted()
    check_log(folder.checkpoint)
    source = _source_of(pipeline, folder)
    earlier = folder.settings() if folder.has_begun else None
    of_parts(pipeline.judged_by, source.columns.parts or ("action",))  # or say what is wrong
    mine = _settings(pipeline, source)
    items = tuple(dict.fromkeys(rule.item for rule in _distinct(pipeline)))
    source = replace(source, columns=replace(source.columns, items=items))
    settings = mine if earlier is None else mine.continued(earlier)
    facts = None
    if isinstance(source, Files):
        check_input(source, folder, tell, live=live)
    elif isinstance(source, Topic):
        facts = check_topic(source, folder, earlier, tell, sleep)
        settings = replace(settings, topic_id=facts.topic_id)
    for topic in (pipeline.changelog, pipeline.findings_to):
        if topic is not None:
            topic.made(tell, sleep)
    spark = _session(source, folder, master)
    if earlier is None:
        settings = _settled(settings, source, folder, spark, pipeline.buckets)
    # What a live run held back is flushed by the ticks of the next one, of whatever kind.
    settings = replace(settings, was_live=live or (earlier is not None and earlier.was_live))
    folder.save(settings)
    if isinstance(source, Topic):
        source = with_limit(source, spark, folder, trigger_ms)
    feed = _feed(pipeline, source, settings, folder, spark, limits, facts, set_aside, tell)
    ending = None if live else _ending(facts, folder)
    rulebook.note()
    return _Job(pipeline, folder, settings, spark, feed, live, rulebook, tell, ending)


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
    return Settings(
        windows=pipeline.cascade.labels,
        buckets=pipeline.buckets,
        columns=source.columns.told(),
        time=pipeline.time,
        feed=_kind_of(source),
        partitions=0,
        rules=rules_to_json(pipeline.judged_by),
        source=_in_words(source),
        min_count=pipeline.cascade.min_count,
        changelog=None if pipeline.changelog is None else str(pipeline.changelog.address),
        reading={"limits": asdict(source.limits), "file_format": source.file_format}
        if isinstance(source, Files)
        else None,
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
        options = java_options(source, master)
        extra = {"spark.driver.extraJavaOptions": " ".join(options)} if options else {}
        spark = spark_session(master, log_path=folder.log, extra=extra)
    if str(spark.sparkContext.master).startswith("local"):
        check_workers(spark.sparkContext)
    else:
        ship_by_value()
        check_shared(spark, folder.path)
    return session_of_run(spark)


def _feed(  # noqa: PLR0917 - all that a run is made of
    pipeline: Pipeline,
    source: Files | Frame | Topic,
    settings: Settings,
    folder: RunFolder,
    spark: SparkSession,
    limits: tuple[int, int],
    facts: TopicFacts | None,
    set_aside: str | None,
    tell: Log,
) -> DataFrame:
    grain = _grain(pipeline)
    if isinstance(source, Topic):
        reset = settings.starting_offsets
        starting = "earliest" if facts is None else starting_of(source, facts, reset)
        skipped = SkipList(folder.skipped, settings.topic_id).read()
        schema = settings.input_schema
        return topic_feed(spark, source, starting, grain, schema, skipped=skipped)
    if isinstance(source, Frame):
        counted = stream.frame_feed(source.df, source.columns, source.limits, grain)
        return counted if source.df.isStreaming else _staged(counted, source.name, folder, tell)
    max_files, max_bytes = limits
    plan = FileFeedPlan(
        path=os.path.abspath(source.path),  # noqa: PTH100 - links and globs stay as they are
        file_format=source.file_format,
        columns=source.columns,
        limits=source.limits,
        ledger=str(folder.ledger),
        tasks=spark.sparkContext.defaultParallelism,
        max_files=max_files,
        max_bytes=max_bytes,
        row_schema=settings.input_schema,
        grain=grain,
        set_aside=set_aside,
    )
    if settings.feed == "files":
        return stream.file_feed(spark, plan)
    plan = replace(plan, file_format=format_taken(source, folder))
    return stream.line_feed(spark, plan)


def _staged(counted: DataFrame, name: str, folder: RunFolder, tell: Log) -> DataFrame:
    """Count a batch DataFrame by pane into the run's folder, once; the stream reads it there.

    What is not whole lies elsewhere: what the stream has seen counts.
    """
    place = folder.staged / f"name={quote(name, safe='')}"
    before_names = (folder.staged / "_SUCCESS").exists()
    if place.exists() or (before_names and name == _FIRST_NAME):
        tell(f"The frame {name!r} was taken in before, and is not again; name= tells another.")
        return stream.staged_feed(counted.sparkSession, folder.staged)
    try:
        with interrupting_only(counted.sparkSession):
            counted.write.mode("overwrite").parquet(spark_path(folder.staging))
    except PySparkException as error:
        raise run_failed(error, folder) from error
    for each in () if before_names else folder.staged.glob("*.parquet"):
        each.unlink()  # of one that was not whole before there were names
    folder.staged.mkdir(exist_ok=True)
    folder.staging.replace(place)
    return stream.staged_feed(counted.sparkSession, folder.staged)
