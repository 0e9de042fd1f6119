"""Consumer groups: where they are in their topics, who is in them, and how they are moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import KafkaError
from kstoolkit.kafka.cluster import ANSWER_SECONDS, Partition, clients, said, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kstoolkit.kafka.cluster import Answer, Cluster

_INACTIVE = {"empty", "dead"}
_MADE = ("-changelog", "-repartition")


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What a consumer group is at present; a Kafka Streams application's name is its id.

    ``state`` is as Kafka calls it, ``"stable"``, ``"empty"`` and so on; ``"dead"`` if there is
    none. ``committed`` has the offset of each partition's next record, where a commit was made of
    one; ``assigned`` are the partitions that its members read.
    """

    name: str
    state: str
    members: int
    committed: Mapping[Partition, int]
    assigned: frozenset[Partition]

    @property
    def is_inactive(self) -> bool:
        """Whether nobody is in it, so that nobody commits."""
        return self.state in _INACTIVE

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
            return GroupFacts(name, "dead", 0, {}, frozenset())
        raise said(error) from error
    return GroupFacts(
        name=name,
        state=group.state.name.lower().replace("_", " "),
        members=len(group.members),
        committed={Partition(p.topic, p.partition): p.offset for p in committed if p.offset >= 0},
        assigned=frozenset(
            Partition(each.topic, each.partition)
            for member in group.members
            if member.assignment is not None
            for each in member.assignment.topic_partitions
        ),
    )


def _described(cluster: Cluster, name: str) -> tuple[Any, Any]:
    """Return a group's description, and what it has committed."""
    admin = cluster.admin()  # held until the answers are there: they come by its thread
    asked = clients().ConsumerGroupTopicPartitions(name)
    described = admin.describe_consumer_groups([name], request_timeout=ANSWER_SECONDS)
    group = described[name].result(2 * ANSWER_SECONDS)
    listed = admin.list_consumer_group_offsets([asked], request_timeout=ANSWER_SECONDS)
    return group, listed[name].result(2 * ANSWER_SECONDS).topic_partitions or []


def groups_of(cluster: Cluster) -> list[str]:
    """Return the names of the cluster's consumer groups."""
    admin = cluster.admin()
    try:
        asked = admin.list_consumer_groups(request_timeout=ANSWER_SECONDS)
        return sorted(each.group_id for each in asked.result(2 * ANSWER_SECONDS).valid)
    except clients().KafkaException as error:
        raise said(error) from error


def streams_topics(cluster: Cluster, name: str) -> list[str]:
    """Return the topics that a group has made for itself, if it is a Kafka Streams application."""
    admin = cluster.admin()
    try:
        topics = admin.list_topics(timeout=ANSWER_SECONDS).topics
    except clients().KafkaException as error:
        raise said(error) from error
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

    try:
        moved = _settled(move)
    except lib.KafkaException as error:
        raise said(error) from error
    refused = [f"{p.topic} {p.partition}: {p.error.str()}" for p in moved if p.error is not None]
    if refused:
        message = f"The group {name!r} was not moved: {'; '.join(refused)}."
        raise KafkaError(message, hint="Stop its members, and look where it is: kstoolkit lag.")


def _settled(ask: Callable[[], Answer]) -> Answer:
    """Ask until a group's coordinator answers: a broker that just started may not know it yet."""
    codes = clients().KafkaError
    loading, unknown = codes.COORDINATOR_LOAD_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE
    return settled(ask, loading, unknown, codes.NOT_COORDINATOR)
