"""Consumer groups: where they are in their topics, who is in them, and how they are moved."""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass, replace
from io import BytesIO
from struct import unpack
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kstoolkit.errors import KafkaError
from kstoolkit.kafka.cluster import ANSWER_SECONDS, Partition, clients, said, settled, translated
from kstoolkit.records import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kstoolkit.kafka.cluster import Answer, Cluster

_INACTIVE = {"empty", "dead"}
_MADE = ("-changelog", "-repartition")
_OF_STREAMS = "stream"
_NOT_TOLD = "of a streams group, the brokers tell this client offsets alone"


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, and what it reads.

    Of a thread of Kafka Streams, ``process`` is its instance's process id, ``tasks`` are the names
    of its tasks by partition, and ``standbys`` those that it keeps ready for another.
    """

    member_id: str
    client_id: str
    host: str
    partitions: tuple[Partition, ...]
    process: str | None = None
    tasks: tuple[str, ...] = ()
    standbys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What a consumer group is at present; a Kafka Streams application's name is its id.

    ``state`` is as Kafka calls it, ``"stable"``, ``"empty"`` and so on; ``"dead"`` if there is
    none. ``committed`` has the offset of each partition's next record, where a commit was made of
    one. ``members`` is ``None`` if nobody tells who is in it, and then ``why`` says why.
    """

    name: str
    state: str
    members: tuple[Member, ...] | None
    committed: Mapping[Partition, int]
    assignor: str = ""
    why: str = ""

    @property
    def is_inactive(self) -> bool:
        """Whether nobody is known to be in it; the brokers refuse to move it if somebody is."""
        return self.state in _INACTIVE or self.members is None

    @property
    def assigned(self) -> frozenset[Partition]:
        """The partitions that its members read."""
        return frozenset(place for each in self.members or () for place in each.partitions)

    def __str__(self) -> str:
        if self.members is None:
            return f"state and members unknown ({self.why})"
        return f"{self.state}, {counted(len(self.members), 'members')}"

    @property
    def topics(self) -> list[str]:
        """The topics that it reads or has read."""
        return sorted({each.topic for each in (*self.committed, *self.assigned)})


def group_facts(cluster: Cluster, name: str) -> GroupFacts:
    """Return what a consumer group is; one that there is none of is dead, and knows no topic."""
    cluster.wait(0, lambda _: None)  # without patience there is nothing to tell
    try:
        group, committed = _settled(lambda: _described(cluster, name))
    except clients().KafkaException as error:
        if error.args[0].code() == clients().KafkaError.GROUP_ID_NOT_FOUND:
            return GroupFacts(name, "dead", (), {})
        raise said(error) from error
    offsets = {Partition(p.topic, p.partition): p.offset for p in committed if p.offset >= 0}
    state = group.state.name.lower().replace("_", " ")
    if state == "dead" and offsets:  # where there is no group, there are no offsets
        return GroupFacts(name, "unknown", None, offsets, why=_NOT_TOLD)
    members = tuple(map(_member, group.members))
    return GroupFacts(name, state, members, offsets, group.partition_assignor)


def _member(told: Any) -> Member:
    places = told.assignment.topic_partitions if told.assignment is not None else ()
    read = sorted(Partition(each.topic, each.partition) for each in places)
    return Member(told.member_id, told.client_id, told.host.removeprefix("/"), tuple(read))


_VERSION = 10  # the first version, that of Kafka 3.1, whose bytes are written as they are read here


def with_tasks(cluster: Cluster, facts: GroupFacts) -> GroupFacts:
    """Return a group whose members' tasks are told, if they are threads of Kafka Streams.

    Their assignor writes tasks into the bytes that it shares with its members, which the newer way
    to ask of a group leaves out.
    """
    if facts.assignor != _OF_STREAMS or not facts.members:
        return facts
    admin = cluster.admin()
    with translated(), warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        groups = admin.list_groups(facts.name, timeout=ANSWER_SECONDS)
    raw: dict[str | None, Any] = {each.id: each for told in groups for each in told.members}
    members = (_tasked(each, raw.get(each.member_id)) for each in facts.members)
    return replace(facts, members=tuple(members))


def _tasked(member: Member, raw: Any) -> Member:
    """Return a member with what Kafka Streams' own bytes tell, if they can be read."""
    try:
        mine, given = BytesIO(raw.metadata), BytesIO(raw.assignment)
        _skip_topics(mine, partitions=False)
        process = UUID(bytes=mine.read(28)[12:])  # after a length and two versions
        _skip_topics(given, partitions=True)
        _, version, _, tasks = unpack(">4i", given.read(16))
        if version < _VERSION:
            return member
        active = tuple(_task(given) for _ in range(tasks))
        (number,) = unpack(">i", given.read(4))
        standbys = tuple(_standby(given) for _ in range(number))
    except (AttributeError, struct.error, ValueError):
        return member
    return replace(member, process=str(process), tasks=active, standbys=standbys)


def _skip_topics(data: BytesIO, *, partitions: bool) -> None:
    """Go past the version and the topics that begin a consumer's bytes."""
    _, topics = unpack(">hi", data.read(6))
    for _ in range(topics):
        data.read(*unpack(">h", data.read(2)))
        if partitions:
            (number,) = unpack(">i", data.read(4))
            data.read(4 * number)


def _task(data: BytesIO) -> str:
    subtopology, partition, name = unpack(">3i", data.read(12))
    if name:
        message = "a topology with a name"  # which Kafka Streams has never made public
        raise ValueError(message)
    return f"{subtopology}_{partition}"


def _standby(data: BytesIO) -> str:
    task = _task(data)
    (places,) = unpack(">i", data.read(4))
    for _ in range(places):
        (length,) = unpack(">h", data.read(2))
        data.read(length + 4)
    return task


def _described(cluster: Cluster, name: str) -> tuple[Any, Any]:
    admin = cluster.admin()  # held until the answers are there: they come by its thread
    asked = clients().ConsumerGroupTopicPartitions(name)
    described = admin.describe_consumer_groups([name], request_timeout=ANSWER_SECONDS)
    group = described[name].result(2 * ANSWER_SECONDS)
    listed = admin.list_consumer_group_offsets([asked], request_timeout=ANSWER_SECONDS)
    return group, listed[name].result(2 * ANSWER_SECONDS).topic_partitions or []


def groups_of(cluster: Cluster) -> list[str]:
    """Return the names of the cluster's consumer groups."""
    admin = cluster.admin()
    with translated():
        asked = admin.list_consumer_groups(request_timeout=ANSWER_SECONDS)
        return sorted(each.group_id for each in asked.result(2 * ANSWER_SECONDS).valid)


def streams_topics(cluster: Cluster, name: str) -> list[str]:
    """Return the topics that a group has made for itself, if it is a Kafka Streams application."""
    admin = cluster.admin()
    with translated():
        topics = admin.list_topics(timeout=ANSWER_SECONDS).topics
    return sorted(each for each in topics if each.startswith(f"{name}-") and each.endswith(_MADE))


def move_group(cluster: Cluster, name: str, offsets: Mapping[Partition, int]) -> None:
    """Commit offsets in the name of a group that nobody is in; it is made if there is none.

    The cluster refuses, which is a KafkaError, if a member has come back, say.
    """
    lib = clients()
    places = [lib.TopicPartition(*each, at) for each, at in sorted(offsets.items())]
    asked = [lib.ConsumerGroupTopicPartitions(name, places)]
    admin = cluster.admin()

    def move() -> Any:
        told = admin.alter_consumer_group_offsets(asked, request_timeout=ANSWER_SECONDS)
        return told[name].result(2 * ANSWER_SECONDS).topic_partitions

    with translated():
        moved = _settled(move)
    refused = [f"{p.topic} {p.partition}: {p.error.str()}" for p in moved if p.error is not None]
    if refused:
        message = f"The group {name!r} was not moved: {'; '.join(refused)}."
        raise KafkaError(message, hint="Stop its members, and look where it is: kstoolkit lag.")


def _settled(ask: Callable[[], Answer]) -> Answer:
    """Ask until a group's coordinator answers: a broker that just started may not know it yet."""
    codes = clients().KafkaError
    loading, unknown = codes.COORDINATOR_LOAD_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE
    return settled(ask, loading, unknown, codes.NOT_COORDINATOR)
