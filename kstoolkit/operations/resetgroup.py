"""A consumer group that is moved to other offsets, as Kafka's own tool does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kstoolkit.errors import CheckpointError, ConfigurationError
from kstoolkit.kafka.groups import Partition, group_facts, move_group, streams_topics
from kstoolkit.operations.resetplan import Move, ResetPlan
from kstoolkit.operations.resettargets import targets_of, to_in_words
from kstoolkit.records import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kstoolkit.kafka.groups import GroupFacts
    from kstoolkit.operations.readers import GroupReader


def reset_group(
    reader: GroupReader, to: str | datetime | dict[int, int], *, dry_run: bool
) -> ResetPlan:
    """Return what a reset of a consumer group does; do it, unless it is only planned.

    Raises
    ------
    CheckpointError
        If it is to be done, and the group has members.
    ConfigurationError
        If the group reads several topics, or none, and none is named.
    KafkaError
        If no broker answers.
    """
    facts = group_facts(reader.cluster, reader.group)
    topic = reader.topic or _only_topic(reader)
    plan = _planned_for_group(reader, facts, topic, to)
    if dry_run:
        return plan
    if plan.refusal is not None:
        message = f"The group {reader.group!r} is in use: {_members(facts)}."
        raise CheckpointError(message, hint="Stop its consumers first; then reset it.")
    targets = {Partition(each.topic, each.partition): each.target for each in plan.moves}
    move_group(reader.cluster, reader.group, targets)
    return replace(plan, done=True)


def _only_topic(reader: GroupReader) -> str:
    topics = reader.facts().topics
    if len(topics) == 1:
        return topics[0]
    message = f"Which topic? The group {reader.group!r} has read {len(topics)}."
    raise ConfigurationError(message, hint=f"Give topic=...; it has: {', '.join(topics)}.")


def _planned_for_group(
    reader: GroupReader, facts: GroupFacts, topic: str, to: str | datetime | dict[int, int]
) -> ResetPlan:
    reach = reader.cluster.facts(topic, committed=False).reach
    known = {each.number: at for each, at in facts.committed.items() if each.topic == topic}
    targets = targets_of(to, reader.cluster, topic, reach, known)
    if isinstance(to, Mapping):  # the others stay as they are
        targets = {each: targets[each] for each in to}
    moves = tuple(
        Move.of(Partition(topic, each), reach[each], known.get(each), at)
        for each, at in sorted(targets.items())
    )
    busy = None if facts.is_inactive else f"It is in use ({_members(facts)}): stop it first."
    plan = ResetPlan(reader=reader.name, to=to_in_words(to), done=False, moves=moves, refusal=busy)
    return replace(plan, warnings=tuple(_group_warnings(reader, topic, plan)))


def _group_warnings(reader: GroupReader, topic: str, plan: ResetPlan) -> Iterator[str]:
    if plan.again_records:
        yield (
            f"Whatever the group does with records, it does again with "
            f"{counted(plan.again_records, 'records')}."
        )
    if plan.skipped_records:
        yield f"The group will never see {counted(plan.skipped_records, 'records')}."
    if streams_topics(reader.cluster, reader.group):
        yield (
            f"{reader.group!r} is a Kafka Streams application: its state stores and the topics "
            f"that it made itself know what it has read of {topic!r}. Where they have to be made "
            "anew too, use Kafka's own kafka-streams-application-reset."
        )


def _members(facts: GroupFacts) -> str:
    return f"it is {facts.state}, with {counted(facts.members, 'members')}"
