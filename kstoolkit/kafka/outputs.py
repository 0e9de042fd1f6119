"""Topics that a run writes to, its counts and its findings; and a changelog topic read back.

Findings are sent as JSON, one record each, as soon as a batch has judged. The key is the user. The
value is one object with these fields, of which those that a rule knows nothing of are null:

======================  =======  ==================================================================
field                   type     meaning
======================  =======  ==================================================================
``rule``, ``kind``      string   the rule's name, and which kind of rule it is
``user``, ``action``    string   who, and what
``window``              string   the window's length in words: ``1 hour``
``window_ms``           integer  the same in milliseconds; of a session, minus its gap
``window_start_ms``     integer  when the window begins, epoch ms UTC
``window_end_ms``       integer  when it ends; of a session, its last event
``count``               integer  how often the user did it in the window, as of this batch
``ceiling``             integer  the rule's ceiling
``expected_low``        integer  the range that was to be expected of this user at this time
``expected_high``       integer
``baseline_windows``    integer  how many earlier windows of the user that rests on
``peers``               integer  among how many users the range was pooled
``log10_probability``   number   how likely such a count is, as a power of ten
``first_seen_ms``       integer  the clock of the batch that found it, epoch ms UTC
``since_ms``            integer  since when it lasts, where the rule is about that; else null
``rules_version``       string   by which of the run's rules it was found
======================  =======  ==================================================================

Where an action has several parts, each is a field under its name in the place of ``action``, and
``by`` lists those that the rule looks at; the others are null.

A window that goes on growing is found again with its newer count, and a batch that had to be
repeated tells again what it told: of each (rule, user, action, window_ms, window_start_ms) the last
record counts; one with a ``log10_probability`` of 0 is none any more, now that its window is over.
Of sessions, it takes in those of the same (rule, user, action) that lie within it.

Incidents are told beside their findings: once a batch changed one, or showed that it is over, there
is a record under the key ``incident:<id>``. Its value is one object that begins with ``record``,
which is ``"incident"`` (findings have no such field), and ``version``, 1; then come the fields of
``kstoolkit incidents --json``, but for ``mark`` and ``newcomers``. Of each
key the last record counts; one without a value takes back an incident whose findings are none any
more. Where a topic's first batch finds incidents from before, all of them are told.

A changelog topic is read into a mirror, a changelog folder, batch by batch::

    mirror/topic.json · mirror/epoch=0/batch=<n>/part-00000.parquet, part-offsets.json

So a replica is restored, followed, mended and asked in the same way wherever its changelog is. Each
batch holds the latest counts of some hundred thousand records, and the offsets at which they end;
its done-marker is written last, so whoever is killed reads the same records again. Old batches are
folded into one (:mod:`kstoolkit.changelog.compaction`).

A tombstone says that the topic no longer holds a window, because it expired in the run's state. A
mirror keeps what it has of it: how long a replica keeps windows is the replica's own to say. Of
sessions it drops what began then, as another session may have swallowed it.
"""

from __future__ import annotations

import json
import time
import warnings
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.changelog.changelog import BatchFolders, Changelog
from kstoolkit.changelog.compaction import compact
from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.changelog.topic import counters_of, counters_of_blocks
from kstoolkit.counters.counters import Counters
from kstoolkit.errors import (
    ConfigurationError,
    FormatError,
    InputError,
    KafkaError,
    OutputError,
    StaleResultWarning,
)
from kstoolkit.events.topics import address_of, options_given, options_of_folder
from kstoolkit.formats.keys import is_block_key
from kstoolkit.kafka.cluster import Cluster, check_partitions, topic_made
from kstoolkit.kafka.jars import alone
from kstoolkit.kafka.reading import TopicRecords, lost, read_records
from kstoolkit.moments import moment_text
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kstoolkit.changelog.topic import TopicCounts
    from kstoolkit.events.topics import Address
    from kstoolkit.formats.keys import WindowKeys
    from kstoolkit.kafka.cluster import Log, Reach, Sleep, TopicFacts
    from kstoolkit.units import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopic:
    """A topic to write to; the fields are as :func:`kafka_changelog` takes them."""

    address: Address
    partitions: int | None = None
    patience_ms: int = 600_000
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_partitions(self.partitions)

    @property
    def cluster(self) -> Cluster:
        """Where to ask about it."""
        return Cluster(self.address.bootstrap, self.options)

    @property
    def cleanup(self) -> str:
        """What the broker does with old records."""
        return "delete"

    def made(self, tell: Log, sleep: Sleep = time.sleep) -> TopicFacts:
        """Make the topic if it is missing, which is told, and return what it is.

        Brokers that do not answer are waited for by ``sleep``; for too long, it is a KafkaError.
        """
        cluster, name = self.cluster, self.address.topic
        cluster.wait(self.patience_ms, tell, sleep)
        if topic_made(cluster, name, self.partitions, tell, cleanup=self.cleanup):
            tell(f"Made the topic {name!r}, with cleanup.policy={self.cleanup}.")
        return cluster.facts(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaFindings(OutputTopic):
    """A topic of findings and incidents, made by :func:`kafka_findings`; fields are of its base."""


def _given(
    topic: str,
    bootstrap: str | None,
    partitions: int | None,
    give_up_after: Duration,
    options: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Return the fields of :class:`OutputTopic` that an argument says."""
    address = address_of(topic, bootstrap)
    return {
        "options": options_given(options, address.bootstrap),
        "address": address,
        "partitions": partitions,
        "patience_ms": parse_duration(give_up_after, allow_zero=True),
    }


def kafka_findings(
    topic: str,
    *,
    bootstrap: str | None = None,
    partitions: int | None = None,
    give_up_after: Duration = "10 minutes",
    options: Mapping[str, str] | None = None,
) -> KafkaFindings:
    """Return a Kafka topic as a place that findings and incidents go to, beside the run's folder.

    What a record looks like is said in :mod:`kstoolkit.kafka.outputs`. The parameters and the
    errors are those of :func:`kafka_changelog`.

    Examples
    --------
    >>> str(kafka_findings("kafka://127.0.0.1:9092/found").address)
    'kafka://127.0.0.1:9092/found'
    """
    return KafkaFindings(**_given(topic, bootstrap, partitions, give_up_after, options))


_BUCKETS = 8
_RECORDS_AT_ONCE = 500_000
_GLANCE_SECONDS = 3.0
"""How long a broker is waited for where there is something to show without it."""
_SILENT: dict[str, tuple[float, KafkaError]] = {}
_SILENT_SECONDS = 10.0
"""Servers that did not answer, when and why; for so long, one report asks them once."""
_FOLDED_AT = 20  # batches
_TOPIC, _OFFSETS, _LOCK = "topic.json", "part-offsets.json", ".lock"


@dataclass(frozen=True, slots=True)
class TopicMirror(Changelog):
    """A changelog that is a topic, to be read like a folder. Made by :meth:`of`."""

    cluster: Cluster
    topic: str

    @classmethod
    def of(cls, cluster: Cluster, topic: str, path: Path) -> TopicMirror:
        """Go on with a mirror, or begin one.

        If the folder mirrors another topic, or there is none, it is an InputError.
        """
        told = {"topic": topic, "topic_id": cluster.facts(topic).topic_id}
        known = _noted(path, told)
        if known != told:
            was = f"it was {known.get('topic')!r}, or was deleted and made again"
            message = f"{str(path)!r} mirrors another topic than {topic!r} is now: {was}."
            raise InputError(message, hint="Restore into another folder.")
        return cls(path, cluster, topic)

    def refresh(self) -> int:
        """Read what the topic has by now, and return how many records that was.

        A record of no changelog is a FormatError; that the topic lost unread ones, an InputError.
        """
        with alone(self.path / _LOCK):  # of those who read the topic into it
            at, reach = self._offsets(), self._reach()
            _check_there(self.topic, at, reach)
            begin = {each: at.get(each, there.first) for each, there in reach.items()}
            end = {each: there.end for each, there in reach.items()}
            news = read_records(self.cluster, self.topic, begin, end, _RECORDS_AT_ONCE)
            done = sum(map(self._take_in, news))
            if len(self.batches) > _FOLDED_AT:
                compact(self.path)
            (self.path / _LOCK).touch()
        return done

    @staticmethod
    def read_ms(path: Path) -> int | None:
        """Return when what the topic had was last read into a folder; None if it never was."""
        place = path / _LOCK
        has_counts = place.exists() and BatchFolders(path).marked()
        return int(place.stat().st_mtime) * 1_000 if has_counts else None

    def behind(self) -> int:
        """Return how many records the topic has that were not read."""
        at = self._offsets()
        return sum(
            max(reach.end - max(at.get(each, 0), reach.first), 0)
            for each, reach in self._reach().items()
        )

    def _known(self, size_ms: int, gone: WindowKeys) -> Counters:
        """Return the sessions that were known of some keys, with a count of 0."""
        known = self.counters(size_ms, users=set(gone.names.to_pylist()))
        if not len(known):
            return known
        texts, nothing = (gone.names, pa.repeat("", len(gone))), np.zeros(len(gone), np.uint64)
        keys = Counters.of(gone.start_ms, *texts, nothing, known.parts, gone.start_ms)
        both, _ = Counters.join([known, keys])
        same = both.of_same_windows(both.take(both.count == 0))
        return replace(same, count=same.count * 0).take(same.count > 0)

    def _reach(self) -> dict[int, Reach]:
        return self.cluster.reach(self.topic, self.cluster.partitions(self.topic))

    def _offsets(self) -> dict[int, int]:
        """Return the offset in each partition up to which records were read."""
        for batch in reversed(self.batches):
            place = batch.folder / _OFFSETS
            if place.exists():
                told = json.loads(place.read_text(encoding="utf-8"))
                return {int(each): at for each, at in told.items()}
        return {}

    def _take_in(self, records: TopicRecords) -> int:
        folders = BatchFolders(self.path)
        number = max((each.number + 1 for each in folders.marked()), default=0)
        folder = folders.begin(0, number)
        found = _counts_of(records)
        sessions = {each: told for each, told in found.items() if each < 0 and len(told.gone)}
        swallowed = {each: self._known(each, told.gone) for each, told in sessions.items()}
        _write(folder / "part-00000.parquet", found, swallowed)
        reached = self._offsets() | records.reached
        (folder / _OFFSETS).write_text(json.dumps(reached), encoding="utf-8")
        folders.mark(0, number)
        return len(records)


def _check_there(topic: str, at: Mapping[int, int], reach: Mapping[int, Reach]) -> None:
    """Raise if what comes next is gone: counts that were in it would be missing for ever."""
    gone = [
        f"offsets {offset} to {reach[each].first - 1} of partition {each}"
        for each, offset in sorted(at.items())
        if each in reach and offset < reach[each].first
    ]
    if gone:
        message = lost(topic, f": {', '.join(gone)}").message
        raise InputError(message, hint="Restore into another folder, from where the topic begins.")


def _noted(path: Path, told: dict[str, str | None]) -> dict[str, str | None]:
    """Return which topic a folder mirrors, from now on or from before."""
    place = path / _TOPIC
    try:
        path.mkdir(parents=True, exist_ok=True)
        # While nothing was read into it, it may have been told a wrong topic by mistake.
        if not place.exists() or not BatchFolders(path).marked():
            place.write_text(json.dumps(told), encoding="utf-8")
        known: dict[str, str | None] = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        message = f"The topic can't be read into {str(path)!r}: {error.strerror}."
        raise OutputError(message, hint="Make room there, or mend the permissions.") from error
    return known


def _counts_of(records: TopicRecords) -> dict[int, TopicCounts]:
    keys, values, clocks = records.keys, records.values, records.timestamps_ms
    try:
        is_block = is_block_key(keys)
        whole, blocks = np.flatnonzero(~is_block), np.flatnonzero(is_block)
        found = counters_of([keys[i] for i in whole], [values[i] for i in whole])
        found |= counters_of_blocks(
            [keys[i] for i in blocks], [values[i] for i in blocks], [clocks[i] for i in blocks]
        )
    except FormatError as error:
        none = f"a record that is none of a changelog: {error.message}"
        message = f"The topic {records.topic!r} has {none}"
        raise FormatError(message, hint="Give a topic that only kstoolkit writes to.") from error
    return found


def _write(path: Path, told: dict[int, TopicCounts], swallowed: Mapping[int, Counters]) -> None:
    changed_ms = max((int(each.changed_ms.max(initial=0)) for each in told.values()), default=0)
    found = {size_ms: counts.counters for size_ms, counts in told.items()}
    for size_ms, none_more in swallowed.items():
        found[size_ms], _ = Counters.join([found[size_ms], none_more])
    parts = next((each.parts for each in found.values() if len(each)), None)
    has_ends = min(found, default=0) < 0
    writer = ChangelogWriter(
        path, buckets=_BUCKETS, changed_ms=changed_ms, parts=parts, has_ends=has_ends
    )
    with closing(writer):
        for size_ms, counters in sorted(found.items()):
            for bucket, part in counters.by_bucket(_BUCKETS):
                writer.write(bucket, size_ms, part)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaChangelog(OutputTopic):
    """A changelog topic. Made by :func:`kafka_changelog`, as whose parameters its fields are."""

    blocks: bool = False

    @property
    def cleanup(self) -> str:
        """What the broker does with old records: of whole windows, the last alone is needed."""
        return "delete" if self.blocks else "compact"

    def mirrored_in(self, folder: Path) -> TopicMirror:
        """Return the changelog as a folder, which is brought up to the topic when it is read."""
        return TopicMirror.of(self.cluster, self.address.topic, folder)

    def latest_in(self, folder: Path) -> Changelog:
        """Return the changelog as a folder that has what the topic has by now.

        If no broker answers, it has what was read before; a
        :class:`~kstoolkit.errors.StaleResultWarning` says of when; if nothing, it is a KafkaError.
        """
        read_ms = TopicMirror.read_ms(folder)
        if read_ms is None:
            return self._read_into(folder, self.cluster)
        try:
            return self._read_into(folder, self._glanced_at())
        except KafkaError as error:
            message = f"{error.message} Counts are as of {moment_text(read_ms)}."
            warnings.warn(message, StaleResultWarning, stacklevel=4)
            return Changelog(folder)

    def _read_into(self, folder: Path, cluster: Cluster) -> TopicMirror:
        mirror = TopicMirror.of(cluster, self.address.topic, folder)
        mirror.refresh()
        return mirror

    def _glanced_at(self) -> Cluster:
        """Return where to ask if a broker answers soon; one that just did not raises it again."""
        servers, now = self.address.bootstrap, time.monotonic()
        asked, error = _SILENT.get(servers, (now, None))
        if error is not None and now - asked < _SILENT_SECONDS:
            raise error
        cluster = replace(self.cluster, answer_seconds=_GLANCE_SECONDS)
        try:
            cluster.partitions(self.address.topic)
        except KafkaError as silence:
            _SILENT[servers] = time.monotonic(), silence
            raise
        return cluster


def kafka_changelog(
    topic: str,
    *,
    bootstrap: str | None = None,
    blocks: bool = False,
    partitions: int | None = None,
    give_up_after: Duration = "10 minutes",
    options: Mapping[str, str] | None = None,
) -> KafkaChangelog:
    """Return a Kafka topic as the home of a changelog: to write to, or to restore from.

    Each record is a user's window: its key the salted user and the window, its value a version byte
    and all counts of that user in that window, so that compaction keeps just the latest. When the
    window expires, a tombstone follows. The formats are drawn in
    :mod:`kstoolkit.formats.keys` and :mod:`kstoolkit.formats.topicbundle`.

    Parameters
    ----------
    topic, bootstrap, options
        As of :func:`~kstoolkit.events.topics.kafka_topic`. The topic is made if it is missing.
    blocks
        Whether to put many counts into one record: a tenth of the bytes, but compaction can't fold
        them, so the topic keeps every change.
    partitions
        How many the topic gets if it has to be made; 3 by default.
    give_up_after
        How long a run waits, with growing pauses, for brokers that do not take what it writes.

    Raises
    ------
    ConfigurationError
        If one of them makes no sense.

    Examples
    --------
    >>> kafka_changelog("counts", bootstrap="127.0.0.1:9092").address.topic
    'counts'
    """
    if blocks not in {True, False}:
        message = f"blocks is {blocks!r}."
        raise ConfigurationError(message, hint="Give True or False.")
    told = _given(topic, bootstrap, partitions, give_up_after, options)
    return KafkaChangelog(blocks=blocks, **told)


def changelog_of_folder(
    folder: str, address: str, options: Mapping[str, str] | None
) -> KafkaChangelog:
    """Return the topic that a run's folder names as its changelog: ``address``.

    ``options`` are settings of the connection; None: as the environment says. Servers that the
    settings are not said to belong to are a ConfigurationError.
    """
    bootstrap = address_of(address, None).bootstrap
    return kafka_changelog(address, options=options_of_folder(options, bootstrap, folder))
