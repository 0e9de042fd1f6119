"""A changelog topic as a changelog folder: what was read of it lies there, batch by batch.

::

    mirror/topic.json · mirror/epoch=0/batch=<n>/part-00000.parquet, part-offsets.json

So a replica is restored, followed, mended and asked in the same way wherever its changelog is. Each
batch holds the latest counts of some hundred thousand records, and the offsets at which they end;
its done-marker is written last, so whoever is killed reads the same records again. Old batches are
folded into one (:mod:`kstoolkit.changelog.compaction`).

A tombstone says that the topic no longer holds a window, because it expired in the run's state. A
mirror keeps what it has of it: how long a replica keeps windows is the replica's own to say.
"""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.changelog.changelog import BatchFolders, Changelog
from kstoolkit.changelog.compaction import compact
from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.changelog.topic import counters_of, counters_of_blocks
from kstoolkit.errors import FormatError, InputError, OutputError
from kstoolkit.formats.keys import is_block_key
from kstoolkit.kafka.reading import Records, lost, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kstoolkit.counters.counters import Counters
    from kstoolkit.kafka.cluster import Cluster, Reach


_BUCKETS = 8
_RECORDS_AT_ONCE = 500_000
_FOLDED_AT = 20  # batches
_TOPIC, _OFFSETS, _LOCK = "topic.json", "part-offsets.json", ".lock"


@dataclass(frozen=True, slots=True)
class TopicMirror(Changelog):
    """A changelog that is a topic, to be read like a folder. Made by :meth:`of`.

    Parameters
    ----------
    path
        The folder.
    cluster, topic
        Where the topic is, and its name.
    """

    cluster: Cluster
    topic: str

    @classmethod
    def of(cls, cluster: Cluster, topic: str, path: Path) -> TopicMirror:
        """Go on with a mirror, or begin one.

        Raises
        ------
        InputError
            If there is no such topic, or the folder mirrors another one.
        OutputError
            If the folder can't be written.
        KafkaError
            If no broker answers.
        """
        told = {"topic": topic, "topic_id": cluster.facts(topic).topic_id}
        known = _noted(path, told)
        if known != told:
            message = (
                f"{str(path)!r} mirrors another topic than {topic!r} is now: it was "
                f"{known.get('topic')!r}, or was deleted and made again."
            )
            raise InputError(message, hint="Restore into another folder.")
        return cls(path, cluster, topic)

    def refresh(self) -> int:
        """Read what the topic has by now, and return how many records that was.

        Raises
        ------
        KafkaError
            If no broker answers.
        FormatError
            If a record is none of a changelog.
        InputError
            If the topic has lost records since that were not read.
        """
        with _alone(self.path):
            reach = self._reach()
            done = sum(self._take_in(records) for records in self._news(reach))
            if len(self.batches) > _FOLDED_AT:
                compact(self.path)
        return done

    def behind(self) -> int:
        """Return how many records the topic has that were not read."""
        at = self._offsets()
        return sum(
            max(reach.end - max(at.get(each, 0), reach.first), 0)
            for each, reach in self._reach().items()
        )

    def _reach(self) -> dict[int, Reach]:
        return self.cluster.reach(self.topic, self.cluster.partitions(self.topic))

    def _news(self, reach: dict[int, Reach]) -> Iterator[Records]:
        at = self._offsets()
        _check_there(self.topic, at, reach)
        begin = {each: at.get(each, there.first) for each, there in reach.items()}
        end = {each: there.end for each, there in reach.items()}
        yield from read_records(self.cluster, self.topic, begin, end, _RECORDS_AT_ONCE)

    def _offsets(self) -> dict[int, int]:
        """Return the offset in each partition up to which records were read."""
        for batch in reversed(self.batches):
            place = batch.folder / _OFFSETS
            if place.exists():
                told = json.loads(place.read_text(encoding="utf-8"))
                return {int(each): at for each, at in told.items()}
        return {}

    def _take_in(self, records: Records) -> int:
        folders = BatchFolders(self.path)
        marked = folders.marked()
        number = marked[-1].number + 1 if marked else 0
        folder = folders.begin(0, number)
        _write(folder / "part-00000.parquet", _counts_of(records))
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


def _counts_of(records: Records) -> dict[int, tuple[Counters, int]]:
    """Return the latest counts by window size, and when the newest of them changed."""
    keys = records.keys
    try:
        is_block = is_block_key(keys)
        whole = np.flatnonzero(~is_block)
        told: dict[int, tuple[Counters, int]] = {}
        found = counters_of([keys[i] for i in whole], [records.values[i] for i in whole])
        if is_block.any():
            chosen = np.flatnonzero(is_block)
            found |= counters_of_blocks(
                [keys[i] for i in chosen],
                [records.values[i] for i in chosen],
                [records.timestamps_ms[i] for i in chosen],
            )
    except FormatError as error:
        message = (
            f"The topic {records.topic!r} has a record that is none of a changelog: {error.message}"
        )
        raise FormatError(message, hint="Give a topic that only kstoolkit writes to.") from error
    for size_ms, counts in found.items():
        told[size_ms] = counts.counters, int(counts.changed_ms.max(initial=0))
    return told


def _write(path: Path, told: dict[int, tuple[Counters, int]]) -> None:
    changed_ms = max((newest for _, newest in told.values()), default=0)
    writer = ChangelogWriter(path, buckets=_BUCKETS, changed_ms=changed_ms)
    try:
        for size_ms, (counters, _) in sorted(told.items()):
            for bucket, part in counters.by_bucket(_BUCKETS):
                writer.write(bucket, size_ms, part)
    finally:
        writer.close()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for other readers of the topic; the kernel lets go when the process ends."""
    with (folder / _LOCK).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
