"""The store that a changelog topic stands for: what it would hold, were it restored now.

A topic is read once, from where it begins to where it ends now, into a scratch folder. If its first
records' keys are those of a run's counts, it is a :class:`CountedTopic`, read as replicas do; else
it is the changelog of a store of Kafka Streams, whose kind and partition a store beside it tells.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from kstoolkit.changelog.changelog import MIRROR
from kstoolkit.errors import ConfigurationError, FormatError, naming
from kstoolkit.events.topics import address_of, options_given
from kstoolkit.formats.countblock import BlockKey
from kstoolkit.formats.keys import decode_topic_keys, is_block_key
from kstoolkit.formats.streams.kinds import Kind, kinds_named
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.outputs import changelog_of_folder, kafka_changelog
from kstoolkit.kafka.reading import read_records
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.rocksdb.files.shadow import new_scratch_folder
from kstoolkit.stores.comparing.folders import Together
from kstoolkit.stores.discovery.places import real_path, streams_place
from kstoolkit.stores.rows.counts import changelog_counts
from kstoolkit.stores.rows.folded import FoldedRecords, ReadOnce
from kstoolkit.stores.rows.readable import HasRows, NamedRows, Readable, ReadAs
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.rows.statestore import StateStore, StreamSource
from kstoolkit.units import format_count, parse_duration
from kstoolkit.windows import length_label

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Mapping

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.events.topics import Address
    from kstoolkit.kafka.cluster import Reach
    from kstoolkit.kafka.outputs import KafkaChangelog
    from kstoolkit.kafka.reading import TopicRecords
    from kstoolkit.stores.rows.counts import Counted
    from kstoolkit.stores.rows.readable import RowSource, SerdeLike
    from kstoolkit.units import Duration


class CountedTopic(ReadOnce):
    """A run's latest counts, of windows of one length, as rows: one for each user and window.

    Made by :func:`kstoolkit.open_topic`; ``with`` closes it, and removes what was made. ``counted``
    is as of :func:`kstoolkit.stores.rows.counts.changelog_counts`. No such windows, or none told of
    several, is a ConfigurationError; a record that is no run's count a FormatError.
    """

    def __init__(
        self,
        topic: KafkaChangelog,
        *,
        window_ms: int | None,
        counted: Counted,
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        self.name = str(topic.address)
        with ExitStack() as opening:
            place = new_scratch_folder(scratch)
            opening.callback(place.remove)
            mirror = topic.mirrored_in(place.path / MIRROR)
            mirror.refresh()
            self._counts = _counts(mirror, self.name, window_ms, counted)
            self.read_as = self._counts.read_as
            self._close = weakref.finalize(self, opening.pop_all().close)

    @property
    def source(self) -> RowSource:
        """Where the rows lie."""
        self._check_open()
        return self._counts.source

    @property
    def kind(self) -> str:
        """What kind of store it is: one of windows."""
        return str(Kind.WINDOW)


def topic_of_run(
    path: str | os.PathLike[str], options: Mapping[str, str] | None = None
) -> KafkaChangelog | None:
    """Return the topic that a run writes its counts to; None if it has none, or is no run.

    ``options`` are settings of the connection; None: as the environment says.
    """
    settings = RunFolder(Path(path)).settings()
    if settings is None or settings.changelog is None:
        return None
    return changelog_of_folder(str(path), settings.changelog, options)


def counts_of_run(
    topic: KafkaChangelog, path: str | os.PathLike[str], *, window_ms: int | None, counted: Counted
) -> Readable:
    """Return the latest counts of a run whose changelog is a topic, as rows.

    What the topic has is read into the run's folder, where :attr:`kstoolkit.Run.changelog` has it
    too, so that the next one reads only what is new. ``window_ms`` and ``counted`` are as of
    :class:`CountedTopic`; no such windows, or none told of several, is a ConfigurationError.
    """
    mirror = topic.mirrored_in(Path(path) / MIRROR)
    mirror.refresh()
    return _counts(mirror, f"{path}, {topic.address}", window_ms, counted)


def _counts(mirror: Changelog, name: str, window_ms: int | None, counted: Counted) -> Readable:
    lengths_ms = mirror.window_lengths_ms()
    known = ", ".join(map(length_label, lengths_ms)) or "none"
    if window_ms is None:
        message = f"{name} has counts of windows of {known}."
        raise ConfigurationError(message, hint=naming("Say of which, by {window_size}."))
    if window_ms not in lengths_ms:
        message = f"{name} has no counts of windows of {length_label(window_ms)}."
        raise ConfigurationError(message, hint=f"It has: {known}.")
    found = changelog_counts(mirror, window=window_ms, **counted)
    source = NamedRows(f"{name}, {length_label(window_ms)}", found.source.read)
    return Readable(source, key_serde=found.key_serde, value_serde=found.value_serde)


_AT_ONCE, _LOOKED_AT = 50_000, 1_000  # records
_LONGEST_MS = 10 * 366 * 86_400_000  # that a window of a run's is believed to be


def _are_counts(records: TopicRecords) -> bool:
    """Return whether some records are of a run's counts: their keys are like no others."""
    keys = records.keys[:_LOOKED_AT]
    is_block = is_block_key(keys)
    try:
        blocks = [BlockKey.decode(keys[at]) for at in np.flatnonzero(is_block)]
        decode_topic_keys([keys[at] for at in np.flatnonzero(~is_block)])
    except FormatError:
        return False
    return bool(keys) and all(each.size_ms <= _LONGEST_MS for each in blocks)


def _reach_of(cluster: Cluster, address: Address, partition: int | None) -> dict[int, Reach]:
    """Return where each partition of a topic, or one of them, begins and ends now."""
    partitions = cluster.partitions(address.topic)
    if partition is not None and partition not in partitions:
        message = f"{address} has no partition {partition}."
        hint = f"It has {format_count(len(partitions))}, from 0 on."
        raise ConfigurationError(message, hint=hint)
    return cluster.reach(address.topic, partitions if partition is None else [partition])


def _parts_of(
    cluster: Cluster, topic: str, reach: Mapping[int, Reach], *, shown: bool
) -> Generator[TopicRecords]:
    """Yield the records, many at a time; if ``shown``, stderr says how many are read by now."""
    begin = {each: at.first for each, at in reach.items()}
    end = {each: at.end for each, at in reach.items()}
    total = sum(end.values()) - sum(begin.values())
    bar = tqdm(total=total, unit=" records", unit_scale=True, disable=not shown, file=sys.stderr)
    with bar, closing(read_records(cluster, topic, begin, end, _AT_ONCE)) as records:
        for each in records:
            bar.update(len(each))
            yield each


def _partition_of(store: HasRows) -> int | None:
    """Return the partition of the task in whose folder a store lies; None if it lies in none."""
    if isinstance(store, SegmentedStore):
        folders = list(store.segments.folders.values())
    else:
        folders = [store.path] if isinstance(store, StateStore) else []
    places = [streams_place(real_path(folder)) for folder in folders[:1]]
    return next((place.partition for place in places if place is not None), None)


def begins_ms(store: HasRows) -> int | None:
    """Return from when on a store has all its windows: its first segment's begin, if it has any."""
    source = store.source
    sources = source.sources if isinstance(source, Together) else [source]
    spans = [
        [part.span_ms.start for part in each.parts if part.span_ms is not None]
        for each in sources
        if isinstance(each, StreamSource)
    ]
    return max((min(starts) for starts in spans if starts), default=None)


def _kind_in(source: RowSource) -> str | None:
    """Return the kind of a store, or of all the partitions that are taken together."""
    if isinstance(source, StreamSource):
        return str(source.kind)
    if not isinstance(source, Together):
        return None
    kinds = [kind for each in source.sources if (kind := _kind_in(each)) is not None]
    return max(kinds, key=kinds.count, default=None)  # one without rows may look like another


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
    where: Mapping[str, str | None] | None = None,
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
    bootstrap, options
        Servers to ask first, as ``"host:port"``, with commas between; and settings of the
        connection, by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names.
    beside
        The store of Kafka Streams that it is compared with, open: it tells the kind, how long
        windows are, and, if it lies in the folder of a task, the partition.
    kind
        What kind of store it is the changelog of. None: as ``beside`` tells, or as is recognised
        from the records; a versioned store has to be told. A run's counts are read as such records
        if a kind is told, and none of ``action``, ``total`` and ``where``.
    partition
        Which partition to read. None: that of ``beside``, or all.
    key_serde, value_serde
        How to read keys and values; None guesses.
    window_size
        How long windows are; of a topic with a run's counts, which windows are meant.
    action, total, where
        Of a run's counts: those of one action, the sums of all, or of those with these values of
        their parts, as a long; none of it: each action's, as JSON.
    scratch, progress
        Where to make the scratch folder, by default where temporary files go; and whether to show
        on stderr how many records are read by now.

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
    address = address_of(topic, bootstrap)
    return topic_store(
        address,
        beside=beside,
        read_as=reading_as(kind, key_serde, value_serde, window_size),
        partition=partition,
        counted={"action": action, "total": total, "where": where},
        options=options_given(options, address.bootstrap),
        scratch=scratch,
        progress=progress,
    )


def reading_as(
    kind: str | None,
    key_serde: SerdeLike | None = None,
    value_serde: SerdeLike | None = None,
    window_size: Duration | None = None,
) -> ReadAs:
    """Return how to read a topic; no such kind, or no such length of time: a ConfigurationError."""
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
    counted: Counted,
    options: Mapping[str, str],
    scratch: str | os.PathLike[str] | None = None,
    progress: bool = False,
    only_counts: bool = True,
) -> TopicStore:
    """Return what a topic stands for, and fail, as :func:`open_topic`.

    ``counted`` has the action, the total or the values of parts of a run's counts; whether they are
    an error for another topic, ``only_counts`` says.
    """
    if partition is None and beside is not None:
        partition = _partition_of(beside)
    cluster = Cluster(address.bootstrap, options)
    reach = _reach_of(cluster, address, partition)
    parts = _parts_of(cluster, address.topic, reach, shown=progress)
    first = next(parts, None)
    as_they_are = read_as.kind is not None and not any(counted.values())
    if first is not None and not as_they_are and _are_counts(first):
        parts.close()
        if partition is not None:
            message = (
                f"Partition {partition} of {address} is asked for, which holds a run's counts."
            )
            raise ConfigurationError(message, hint="Leave it out: a user's counts may lie in any.")
        topic = kafka_changelog(str(address), options=options)
        size_ms = read_as.window_size_ms
        return CountedTopic(topic, window_ms=size_ms, counted=counted, scratch=scratch)
    if only_counts and any(counted.values()):
        message = f"{address} holds no counts of kstoolkit's."
        raise ConfigurationError(message, hint="Leave action, total and where out.")
    name = str(address) if partition is None else f"{address}, {partition}"
    found = FoldedRecords(name, _as_beside(read_as, beside), scratch=scratch)
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
    kind = beside.kind if isinstance(beside, FoldedRecords) else _kind_in(beside.source)
    size_ms = read_as.window_size_ms or beside.read_as.window_size_ms
    return replace(read_as, kind=read_as.kind or kind, window_size_ms=size_ms)
