"""Who reads topics: a run, whose positions Spark's offset log has, or a consumer group."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.topics import address_of, options_given, parse_address
from kstoolkit.kafka.cluster import Cluster, Reach
from kstoolkit.kafka.groups import GroupFacts, Partition, group_facts, groups_of
from kstoolkit.pipeline.run import Run, load_run
from kstoolkit.pipeline.runfolder import newest_commit, offsets_reached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.kafka.cluster import TopicFacts
    from kstoolkit.pipeline.runfolder import RunFolder, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Where a reader is at one moment.

    Parameters
    ----------
    state
        Whether it reads, in words.
    reads
        Whether anybody reads at present.
    reach
        The offsets that each partition has; ``None`` if there is no such partition any more.
    positions
        The offset of the next record to be read, where that is known.
    unknown
        Why it is not known elsewhere.
    at_seconds
        The clock at that moment; it never goes back.
    """

    state: str
    reads: bool
    reach: Mapping[Partition, Reach | None]
    positions: Mapping[Partition, int]
    unknown: Mapping[Partition, str] = field(default_factory=dict)
    at_seconds: float = field(default_factory=time.monotonic)


class Reader(Protocol):
    """Who reads topics."""

    @property
    def cluster(self) -> Cluster:
        """Where the topics are."""

    @property
    def name(self) -> str:
        """Who it is, in words."""

    def look(self) -> Positions:
        """Return where it is now."""


@dataclass(frozen=True, slots=True)
class RunReader:
    """A run that reads a topic.

    Parameters
    ----------
    folder
        The run's.
    cluster, topic
        What it reads.
    given
        The folder as it was given.
    """

    folder: RunFolder
    cluster: Cluster
    topic: str
    given: str

    @property
    def name(self) -> str:
        """Who it is, in words."""
        return f"run {self.given!r}"

    def look(self) -> Positions:
        """Return where it is now: after the newest batch that Spark has committed."""
        facts = self.cluster.facts(self.topic)
        positions = self.positions(facts)
        places = {Partition(self.topic, each): reach for each, reach in facts.reach.items()}
        reads = self.folder.is_held()
        return Positions(
            state="counting" if reads else "not counting at present",
            reads=reads,
            reach=places | {each: None for each in positions if each not in places},
            positions=positions,
            unknown=dict.fromkeys(places.keys() - positions.keys(), self._why(facts)),
        )

    def settings(self) -> Settings:
        """Return the run's settings.

        Raises
        ------
        InputError
            If there is no run any more.
        """
        return Run(self.folder).settings

    def positions(self, facts: TopicFacts) -> dict[Partition, int]:
        """Return the offset that comes next, of each partition where it is known."""
        if self.is_another(facts):
            return {}
        committed = newest_commit(self.folder.checkpoint)
        if committed is None:
            reached = self.settings().starting_offsets
        else:
            reached = offsets_reached(self.folder.checkpoint, committed, self.topic) or {}
        return {Partition(self.topic, each): at for each, at in reached.items()}

    def is_another(self, facts: TopicFacts) -> bool:
        """Whether the topic is not the one that the run has read, but one of the same name."""
        known = self.settings().topic_id
        return None not in {known, facts.topic_id} and known != facts.topic_id

    def _why(self, facts: TopicFacts) -> str:
        if self.is_another(facts):
            return "the topic was deleted and made again since; kstoolkit reset names a way on"
        if newest_commit(self.folder.checkpoint) is None:
            return "no batch is committed yet"
        return "the partition is new, and no batch has read from it yet"


@dataclass(frozen=True, slots=True)
class GroupReader:
    """A consumer group; a Kafka Streams application is one, called as its ``application.id``.

    Parameters
    ----------
    cluster, group
        Which.
    topic
        The only topic that is of interest; by default all that it reads.
    """

    cluster: Cluster
    group: str
    topic: str | None = None

    @property
    def name(self) -> str:
        """Who it is, in words."""
        return f"group {self.group!r}"

    def facts(self) -> GroupFacts:
        """Return what the group is.

        Raises
        ------
        InputError
            If there is no such group.
        KafkaError
            If the cluster does not say.
        """
        facts = group_facts(self.cluster, self.group)
        if facts.state == "dead" and not facts.committed:
            others = [each for each in groups_of(self.cluster) if each]
            message = f"No consumer group {self.group!r} at {self.cluster.bootstrap!r}."
            there = f"There are: {', '.join(others[:20])}." if others else "There is none at all."
            raise InputError(message, hint=there)
        return facts

    def look(self) -> Positions:
        """Return where it is now: what it has committed, of all partitions of its topics."""
        facts = self.facts()
        names = facts.topics if self.topic is None else [self.topic]
        reach = {place: at for name in names for place, at in self._reach(name, facts).items()}
        positions = {place: at for place, at in facts.committed.items() if place in reach}
        why = "nothing is committed"
        return Positions(
            state=f"{facts.state}, {facts.members} member{'' if facts.members == 1 else 's'}",
            reads=bool(facts.members),
            reach=reach,
            positions=positions,
            unknown=dict.fromkeys(reach.keys() - positions.keys(), why),
        )

    def _reach(self, topic: str, facts: GroupFacts) -> dict[Partition, Reach | None]:
        if topic != self.topic and not self.cluster.has(topic):
            return {each: None for each in facts.committed if each.topic == topic}
        # A consumer may read what is not committed, so open transactions hold nothing back.
        found = self.cluster.reach(topic, self.cluster.partitions(topic), committed=False)
        return {Partition(topic, each): at for each, at in found.items()}


def reader_of(
    what: Run | str | os.PathLike[str],
    *,
    bootstrap: str | None,
    topic: str | None,
    options: Mapping[str, str] | None,
) -> RunReader | GroupReader:
    """Return who reads: a run or its folder; with ``bootstrap``, a consumer group.

    Raises
    ------
    InputError
        If there is no such run.
    ConfigurationError
        If the run reads no topic, or what is given makes no sense.
    """
    if options is None and isinstance(what, Run):
        options = what.options
    settings = options_given(options)
    if bootstrap is not None:
        return _group(what, bootstrap, topic, settings)
    run = _run(what)
    given = run.folder.shown if isinstance(what, Run) else os.fspath(what)
    address = parse_address(run.settings.source)
    if run.settings.feed != "topic" or address is None:
        message = f"The run {given!r} reads no topic: {run.settings.source!r}."
        hint = "A consumer group needs bootstrap='host:port' beside."
        raise ConfigurationError(message, hint=hint)
    return RunReader(run.folder, Cluster(address.bootstrap, settings), address.topic, given)


def _run(what: object) -> Run:
    if isinstance(what, Run):
        return what
    if isinstance(what, str | os.PathLike):
        return load_run(Path(what))
    message = f"{what!r} is no run, and no folder of one."
    raise ConfigurationError(message, hint="Give either, or a group's name and bootstrap.")


def _group(
    what: object, bootstrap: str, topic: str | None, options: Mapping[str, str]
) -> GroupReader:
    if not isinstance(what, str) or not what:
        message = f"{what!r} is no name of a consumer group, and bootstrap is given."
        raise ConfigurationError(message, hint="Leave out bootstrap: a run knows its servers.")
    servers = address_of("any" if topic is None else topic, bootstrap).bootstrap
    return GroupReader(Cluster(servers, options), what, topic)
