"""A pipeline: a source of events, a cascade that counts them, rules that judge the counts.

Whether what a pipeline is given is of the right kind: said before Spark is started.

Whether the topics that a pipeline reads and writes are topics apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.simulator import Simulation
from kstoolkit.events.sources import Files, Frame
from kstoolkit.events.topics import Topic
from kstoolkit.findings.rules import DEFAULT_RULES, Ceiling, Exempt, Unusual, check_windows
from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings
from kstoolkit.pipeline.failure import Restart
from kstoolkit.pipeline.job import BatchLimits, prepare
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.pipeline.session import Progress
from kstoolkit.units import Duration, format_duration, parse_duration
from kstoolkit.windows import Cascade

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from kstoolkit.events.topics import Address
    from kstoolkit.findings.rules import Rule
    from kstoolkit.kafka.outputs import OutputTopic


def _check_kinds(pipeline: Pipeline) -> None:
    """Raise if something of a pipeline was given for something else.

    Raises
    ------
    ConfigurationError
        What it is, and what it should be.
    """
    checks = {
        "source": (_is_source, "kst.files(…), kst.kafka_topic(…), kst.frame(…) or kst.simulate(…)"),
        "cascade": (lambda given: isinstance(given, Cascade), "kst.Cascade('1 minute', '1 hour')"),
        "rules": (_are_rules, "a list of rules; kst.load_rules('rules.toml') reads a file"),
        "changelog": (_is_changelog, "kst.kafka_changelog(…), or None for the run's folder"),
        "findings_to": (_is_findings_topic, "kst.kafka_findings(…), or None"),
        "buckets": (lambda given: type(given) is int, "a whole number"),
        "time": (lambda given: given in {"event", "processing"}, "'event' or 'processing'"),
    }
    for name, (is_right, wanted) in checks.items():
        if not is_right(getattr(pipeline, name)):
            message = f"{name} is {getattr(pipeline, name)!r}."
            raise ConfigurationError(message, hint=f"Give {wanted}.")


def _is_source(given: object) -> bool:
    if isinstance(given, Frame):
        return hasattr(given.df, "sparkSession")
    return isinstance(given, Files | Simulation | Topic)


def _is_findings_topic(given: object) -> bool:
    return given is None or isinstance(given, KafkaFindings)


def _is_changelog(given: object) -> bool:
    return given is None or isinstance(given, KafkaChangelog)


def _are_rules(given: object) -> bool:
    if not isinstance(given, Iterable):
        return given is None
    return all(isinstance(each, Ceiling | Unusual | Exempt) for each in given)


def _check_apart(
    source: object, changelog: OutputTopic | None, findings_to: OutputTopic | None
) -> None:
    """Raise if two of a pipeline's topics are the same one: it would read what it wrote, say.

    Raises
    ------
    ConfigurationError
        Which two.
    """
    given = {"source": source if isinstance(source, Topic) else None}
    named = {**given, "changelog": changelog, "findings_to": findings_to}
    topics = {name: each.address for name, each in named.items() if each is not None}
    for (one, mine), (other, theirs) in combinations(topics.items(), 2):
        if _are_same(mine, theirs):
            message = f"{one} and {other} are the same topic, {mine}."
            raise ConfigurationError(message, hint="Give each a topic of its own.")


def _are_same(one: Address, other: Address) -> bool:
    servers = set(one.bootstrap.split(",")) & set(other.bootstrap.split(","))
    return one.topic == other.topic and bool(servers)


_BUCKETS = 8
_MAX_FILES, _MAX_BYTES = 10_000, 256 << 20
"""What a micro-batch takes in, unless told otherwise."""

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
        What is abnormal; by default ``Unusual("1 hour", false_alarms_per_day=5)``, or on the
        window that comes nearest to an hour.
    buckets
        Among how many buckets users are spread: the most tasks that can count at once. It can't be
        changed later.
    changelog
        Where the latest counts go: to the run's folder by default, or to a topic, see
        :func:`~kstoolkit.kafka.outputs.kafka_changelog`.
    findings_to
        A topic that findings go to, beside the run's folder, see
        :func:`~kstoolkit.kafka.outputs.kafka_findings`.
    time
        ``"event"``, or ``"processing"``: windows by when an event is processed.

    Examples
    --------
    >>> import kstoolkit as kst
    >>> source = kst.files("data/sample", event_time="time", user="user", action="action")
    >>> kst.Pipeline(source=source, cascade=kst.Cascade("1 minute", "1 hour")).buckets
    8
    """

    source: Files | Frame | Simulation | Topic
    cascade: Cascade = field(default_factory=Cascade)
    rules: Sequence[Rule] | None = None
    buckets: int = _BUCKETS
    changelog: KafkaChangelog | None = None
    findings_to: KafkaFindings | None = None
    time: Literal["event", "processing"] = "event"

    def __post_init__(self) -> None:
        _check_kinds(self)
        if self.buckets < 1:
            message = f"buckets is {self.buckets}: users have to lie somewhere."
            raise ConfigurationError(message, hint="Give 1 or more; the default is 8.")
        check_windows(self.judged_by, self.cascade.windows)
        _check_apart(self.source, self.changelog, self.findings_to)

    @property
    def judged_by(self) -> tuple[Rule, ...]:
        """The rules, given or default."""
        return _default_rules(self.cascade) if self.rules is None else tuple(self.rules)

    def run(
        self,
        out: str | os.PathLike[str],
        *,
        master: str | None = None,
        max_files_per_batch: int | None = None,
        max_bytes_per_batch: int = _MAX_BYTES,
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
        KafkaError
            If a broker does not answer, or goes away, for longer than its topic says. Till then it
            is waited for, and the run goes on to where the topic ended as the run began.
        CheckpointError
            If a topic lost what comes next, or was made anew: it says which offsets are gone.
        """
        limits = _limits(max_files_per_batch, max_bytes_per_batch)
        folder = RunFolder(Path(out).absolute())
        with folder.hold(), Progress(shown=progress) as shown:
            ready = partial(prepare, self, folder, master=master, limits=limits, live=False)
            ready(tell=shown.say).finish(shown, lambda tell, rest: ready(tell=tell, rest=rest))
        return Run(folder, options=_connection(self))

    def start(
        self,
        out: str | os.PathLike[str],
        *,
        trigger: Duration = "10 seconds",
        master: str | None = None,
        max_files_per_batch: int | None = None,
        max_bytes_per_batch: int = _MAX_BYTES,
        progress: bool = False,
        restart: Restart | bool = False,
    ) -> Run:
        """Keep counting what arrives, and return the run, which has a ``.stop()``.

        Started again on the same folder, it goes on where it was, however it ended. A broker that
        goes away is waited for as :meth:`run` does; what else ends it, ``run.failure()`` tells.

        Parameters
        ----------
        trigger
            How often a micro-batch begins.
        out, master, max_files_per_batch, max_bytes_per_batch, progress
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
        limits = _limits(max_files_per_batch, max_bytes_per_batch)
        folder = RunFolder(Path(out).absolute())
        every = format_duration(parse_duration(trigger))
        with ExitStack() as undone:
            hold = undone.enter_context(folder.hold())
            shown = undone.enter_context(Progress(shown=progress))
            ready = partial(prepare, self, folder, master=master, limits=limits, live=True)
            job = ready(tell=shown.say)
            shown.begin(None)
            query = job.supervised(
                lambda tell, rest: ready(tell=tell, rest=rest),
                shown.batch,
                shown.say,
                restart=_restart(restart),
                processingTime=every,
            )
            query.begin().lead_beside()
            undone.pop_all()  # it runs: from here on, stopping it lets go of both
        options = _connection(self)
        return Run(folder, query=query, hold=hold, progress=shown, options=options)


def _connection(pipeline: Pipeline) -> Mapping[str, str] | None:
    """Return the settings with which the topic is reached that a run's counts or events are in."""
    if pipeline.changelog is not None:
        return pipeline.changelog.options
    return pipeline.source.options if isinstance(pipeline.source, Topic) else None


def _restart(given: object) -> Restart | None:
    if isinstance(given, bool):
        return Restart() if given else None
    if isinstance(given, Restart):
        return given
    message = f"restart is {given!r}."
    raise ConfigurationError(message, hint="Give kst.Restart(most_per_hour=5), True or False.")


def _limits(max_files: int | None, max_bytes: int) -> BatchLimits:
    return BatchLimits(_MAX_FILES if max_files is None else max_files, max_bytes)


def _default_rules(cascade: Cascade) -> tuple[Rule, ...]:
    """Return the default rules; where there is no hour, on the window that comes nearest to one."""
    nearest = min(cascade.windows, key=lambda window: abs(log(window.size_ms / _HOUR_MS)))
    return DEFAULT_RULES if nearest.size_ms == _HOUR_MS else (Unusual(nearest),)
