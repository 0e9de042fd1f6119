"""The store that a changelog topic stands for: what it would hold, were it restored now."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.topics import address_of, options_given
from kstoolkit.formats.streams.kinds import kinds_named
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.outputs import kafka_changelog
from kstoolkit.operations.besidetopic import kind_of, partition_of
from kstoolkit.operations.topiccounts import CountedTopic
from kstoolkit.operations.topicreading import Reading, are_counts
from kstoolkit.stores.rows.folded import FoldedRecords
from kstoolkit.stores.rows.readable import ReadAs
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from kstoolkit.events.topics import Address
    from kstoolkit.stores.rows.readable import HasRows, SerdeLike
    from kstoolkit.units import Duration


TopicStore = FoldedRecords | CountedTopic
"""What a changelog topic stands for: of Kafka Streams, or of kstoolkit's."""


def open_topic(
    topic: str,
    *,
    bootstrap: str | None = None,
    beside: HasRows | None = None,
    kind: str | None = None,
    partition: int | None = None,
    key_serde: SerdeLike | None = None,
    value_serde: SerdeLike | None = None,
    window_size: Duration | None = None,
    action: str | None = None,
    total: bool = False,
    options: Mapping[str, str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> TopicStore:
    """Return a changelog topic as a store, to compare with the one on disk, or to look into.

    The topic is read once, up to where it ends now; what transactions did not commit is left out.
    The latest record of each key is kept in a scratch folder, in memory that does not grow with
    them: the rows are those that a restore would bring. Give it to :func:`kstoolkit.diff_stores`
    as one of the two. A store drops windows and versions when they expire, a topic later or never:
    ``rows(since=…)`` of both leaves those out.

    Parameters
    ----------
    topic
        Its name, or ``"kafka://host:port/name"``. That of a store of Kafka Streams is
        ``<application.id>-<store>-changelog``; or one that a run writes its counts to.
    bootstrap
        Servers to ask first, as ``"host:port"``, with commas between.
    beside
        The store of Kafka Streams that it is compared with, open: it tells the kind, how long
        windows are, and, if it lies in the folder of a task, the partition.
    kind
        What kind of store it is the changelog of. None: as ``beside`` tells, or as is recognised
        from the records; a versioned store has to be told. A run's counts are read as such records
        if a kind is told, and neither ``action`` nor ``total``.
    partition
        Which partition to read. None: that of ``beside``, or all.
    key_serde, value_serde
        How to read keys and values; None guesses.
    window_size
        How long windows are; of a topic with a run's counts, which windows are meant.
    action, total
        Of a run's counts: those of one action, or the sums of all, as a long; neither: each
        action's, as JSON.
    options
        Settings of the connection; by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG``
        names.
    scratch
        Where to make the scratch folder; None is where temporary files go.
    progress
        Whether to show on stderr how many records are read by now.

    Raises
    ------
    InputError
        If there is no such topic.
    ConfigurationError
        If it has no such partition or no such windows, there is no such kind or serde, or
        something is told that is of topics of the other sort.
    KafkaError
        If no broker answers.

    Examples
    --------
    >>> open_topic("counts")
    Traceback (most recent call last):
    kstoolkit.errors.ConfigurationError: The topic 'counts' needs its servers named once.
    Hint: Give bootstrap='host:port', or kafka://host:port/…
    """
    return topic_store(
        address_of(topic, bootstrap),
        beside=beside,
        read_as=reading_as(kind, key_serde, value_serde, window_size),
        partition=partition,
        counted={"action": action, "total": total},
        options=options_given(options),
        scratch=scratch,
        progress=progress,
    )


def reading_as(
    kind: str | None,
    key_serde: SerdeLike | None = None,
    value_serde: SerdeLike | None = None,
    window_size: Duration | None = None,
) -> ReadAs:
    """Return how to read a topic.

    Raises
    ------
    ConfigurationError
        If there is no such kind, or the size is no length of time.
    """
    if kind is not None:
        kinds_named(kind)
    size_ms = None if window_size is None else parse_duration(window_size)
    return ReadAs(kind, key_serde, value_serde, size_ms)


def topic_store(
    address: Address,
    *,
    beside: HasRows | None,
    read_as: ReadAs,
    partition: int | None,
    counted: dict[str, Any],
    options: Mapping[str, str],
    scratch: str | os.PathLike[str] | None = None,
    progress: bool = False,
    only_counts: bool = True,
) -> TopicStore:
    """Return what a topic stands for: see :func:`open_topic`.

    Parameters
    ----------
    address
        Where the topic is.
    read_as
        How to read it.
    counted
        The action or the total of a run's counts.
    only_counts
        Whether they are an error for another topic.
    beside, partition, options, scratch, progress
        As of :func:`open_topic`.

    Raises
    ------
    ConfigurationError, InputError, KafkaError
        As of :func:`open_topic`.
    """
    if partition is None and beside is not None:
        partition = partition_of(beside)
    reading = Reading.of(Cluster(address.bootstrap, options), address, partition, shown=progress)
    parts = reading.parts()
    first = next(parts, None)
    as_they_are = read_as.kind is not None and not any(counted.values())
    if first is not None and not as_they_are and are_counts(first):
        parts.close()
        _check_is_whole(address, partition)
        topic = kafka_changelog(str(address), options=options)
        size_ms = read_as.window_size_ms
        return CountedTopic(topic, window_ms=size_ms, counted=counted, scratch=scratch)
    if only_counts and any(counted.values()):
        message = f"{address} holds no counts of kstoolkit's."
        raise ConfigurationError(message, hint="Leave action and total out.")
    told = _as_beside(read_as, beside)
    found = FoldedRecords(reading.name, told, scratch=scratch)
    try:
        for part in chain([] if first is None else [first], parts):
            found.take_in(part.keys, part.values, part.timestamps_ms, part.headers)
    except BaseException:
        found.close()
        raise
    return found


def _as_beside(read_as: ReadAs, beside: HasRows | None) -> ReadAs:
    """Return how to read a topic, with what the store beside it tells."""
    if beside is None:
        return read_as
    kind, size_ms = kind_of(beside), beside.read_as.window_size_ms
    return replace(
        read_as,
        kind=kind if read_as.kind is None else read_as.kind,
        window_size_ms=size_ms if read_as.window_size_ms is None else read_as.window_size_ms,
    )


def _check_is_whole(address: Address, partition: int | None) -> None:
    if partition is not None:
        message = f"Partition {partition} of {address} is asked for, which holds a run's counts."
        raise ConfigurationError(message, hint="Leave it out: a user's counts may lie in any.")
