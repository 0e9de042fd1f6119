"""Whether a run can begin with its topic, or go on with it where it was."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from kstoolkit.errors import CheckpointError, ConfigurationError, InputError
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.pipeline.offsets import newest_commit, offsets_reached
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kstoolkit.events.topics import Topic
    from kstoolkit.kafka.cluster import Reach, Rest, Tell, TopicFacts
    from kstoolkit.pipeline.runfolder import RunFolder, Settings


_SAMPLED = 100  # records a partition

_RESET = "kstoolkit reset {out} --to earliest, which says what would be counted twice"


def check_topic(
    topic: Topic, folder: RunFolder, earlier: Settings | None, tell: Tell, rest: Rest
) -> TopicFacts:
    """Wait for the topic's broker, and return what the topic is.

    Raises
    ------
    KafkaError
        If no broker answers for as long as the topic says.
    InputError
        If there is no such topic.
    CheckpointError
        If it is another topic than that of the run's earlier batches, or has lost what comes next.
    """
    cluster = Cluster(topic.address.bootstrap, topic.options)
    cluster.wait(topic.patience_ms, tell, rest)
    following = _next_offsets(folder, topic.address.topic)
    try:
        facts = cluster.facts(topic.address.topic)
    except InputError as error:
        if not following:
            raise
        raise _lost(topic, folder, "deleted") from error
    _check_id(topic, folder, earlier, facts.topic_id)
    _check_offsets(following, facts, folder.path)
    return facts


def check_same(topic: Topic, folder: RunFolder, settings: Settings) -> None:
    """Raise unless the topic is still the one that the run began with.

    Raises
    ------
    KafkaError
        If no broker answers.
    CheckpointError
        If it is another one.
    """
    cluster = Cluster(topic.address.bootstrap, topic.options)
    _check_id(topic, folder, settings, cluster.topic_id(topic.address.topic))


def _check_id(topic: Topic, folder: RunFolder, known: Settings | None, found: str | None) -> None:
    before = None if known is None else known.topic_id
    if None not in {before, found} and before != found:
        raise _lost(topic, folder, "deleted and made again since this run began")


def _lost(topic: Topic, folder: RunFolder, how: str) -> CheckpointError:
    name = topic.address.topic
    following = _next_offsets(folder, name)
    places = ", ".join(f"{at} of partition {each}" for each, at in sorted(following.items()))
    gone = f" Gone are the offsets from {places} on." if places else ""
    hint = f"Offsets mean other records now. See {_RESET.format(out=folder.path)}."
    return CheckpointError(f"The topic {name!r} was {how}.{gone}", hint=hint)


def starting_of(topic: Topic, facts: TopicFacts, reset: Mapping[int, int]) -> str | dict[int, int]:
    """Return where an epoch's first run begins, as Spark's source takes it.

    Parameters
    ----------
    topic, facts
        What is read.
    reset
        The offsets that a reset named, which count before what the topic says; empty if none did.

    Raises
    ------
    ConfigurationError
        If an offset is named that is not there, or a partition.
    """
    if reset:
        return {each: reset.get(each, at.first) for each, at in facts.reach.items()}
    if isinstance(topic.starting, str):
        return topic.starting
    partitions = sorted(facts.reach)
    if isinstance(topic.starting, datetime):
        cluster = Cluster(topic.address.bootstrap, topic.options)
        moment_ms = round(topic.starting.timestamp() * 1_000)
        return cluster.offsets_at(facts.name, partitions, moment_ms)
    _check_named(topic.starting, facts)
    return {each: topic.starting.get(each, facts.reach[each].first) for each in partitions}


def sample_values(topic: Topic) -> list[bytes]:
    """Return the values of some of the topic's records, to see their fields in.

    Raises
    ------
    InputError
        If it has none.
    """
    cluster = Cluster(topic.address.bootstrap, topic.options)
    values = cluster.sample(topic.address.topic, _SAMPLED)
    if not values:
        message = f"The topic {topic.address.topic!r} has no record yet to see fields in."
        raise InputError(message, hint="Say them: schema='at long, who string'.")
    return values


def _next_offsets(folder: RunFolder, topic: str) -> dict[int, int]:
    """Return the offset of each partition that the next batch begins with, as far as is known."""
    committed = newest_commit(folder.checkpoint)
    if committed is not None:
        return offsets_reached(folder.checkpoint, committed, topic) or {}
    settings = folder.settings() if folder.has_begun else None
    return {} if settings is None else settings.starting_offsets


def _check_offsets(following: Mapping[int, int], facts: TopicFacts, out: Path) -> None:
    wrong = [
        _told(each, at, facts.reach.get(each))
        for each, at in sorted(following.items())
        if (reach := facts.reach.get(each)) is None or not reach.first <= at <= reach.end
    ]
    if wrong:
        message = f"The topic {facts.name!r} has not what comes next: {'; '.join(wrong)}."
        raise CheckpointError(message, hint=f"See {_RESET.format(out=out)}.")


def _told(partition: int, at: int, reach: Reach | None) -> str:
    if reach is None:
        return f"partition {partition} is gone"
    if at < reach.first:
        gone = f"offsets {at} to {reach.first - 1} are gone ({format_count(reach.first - at)})"
        return f"of partition {partition}, {gone}"
    return f"partition {partition} ends at offset {reach.end}, and {at} comes next"


def _check_named(named: Mapping[int, int], facts: TopicFacts) -> None:
    for partition, at in named.items():
        reach = facts.reach.get(partition)
        if reach is None or not reach.first <= at <= reach.end:
            message = f"starting has offset {at} of partition {partition}, which is not there."
            held = "; ".join(f"{p}: {r.first} to {r.end}" for p, r in sorted(facts.reach.items()))
            raise ConfigurationError(message, hint=f"{facts.name!r} has {held}.")
