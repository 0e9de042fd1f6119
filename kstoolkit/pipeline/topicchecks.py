"""Whether a run can begin with its topic, or go on with it where it was."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from kstoolkit.errors import CheckpointError, ConfigurationError, InputError
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.pipeline.offsets import newest_commit, offsets_reached
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kstoolkit.events.topics import Topic
    from kstoolkit.kafka.cluster import Reach, TopicFacts
    from kstoolkit.pipeline.runfolder import RunFolder, Settings

__all__ = ["check_topic", "sample_values", "starting_of"]

_SAMPLED = 100  # records a partition

_RESET = "kstoolkit reset {out} --to earliest, which says what would be counted twice"


def check_topic(
    topic: Topic, folder: RunFolder, earlier: Settings | None, tell: Callable[[str], None]
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
    cluster.wait(topic.patience_ms, tell)
    facts = cluster.facts(topic.address.topic)
    known = None if earlier is None else earlier.topic_id
    if None not in {known, facts.topic_id} and known != facts.topic_id:
        message = f"The topic {facts.name!r} was deleted and made again since this run began."
        hint = f"Its offsets mean other records now. See {_RESET.format(out=folder.path)}."
        raise CheckpointError(message, hint=hint)
    _check_offsets(_next_offsets(folder.checkpoint, facts.name), facts, folder.path)
    return facts


def starting_of(topic: Topic, facts: TopicFacts) -> str | dict[int, int]:
    """Return where a first run begins, as Spark's source takes it.

    Raises
    ------
    ConfigurationError
        If an offset is named that is not there, or a partition.
    """
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


def _next_offsets(checkpoint: Path, topic: str) -> dict[int, int]:
    """Return the offset of each partition that the next batch begins with, as far as is known."""
    committed = newest_commit(checkpoint)
    if committed is None:
        return {}
    return offsets_reached(checkpoint, committed, topic) or {}


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
