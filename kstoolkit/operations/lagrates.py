"""How fast a reader reads, how fast records arrive, and when the two meet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.kafka.groups import Partition
from kstoolkit.pipeline.runfolder import newest_commit, offsets_reached
from kstoolkit.pipeline.sink import BatchStatistics
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.operations.readers import Positions, RunReader


_BATCHES = 20
"""The newest batches tell how fast a run is; older ones, how fast it was."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Records a second by partition, and why there is none.

    Examples
    --------
    >>> Pace({}, "nothing was read yet").why
    'nothing was read yet'
    """

    per_second: Mapping[Partition, float]
    why: str | None = None

    @property
    def whole(self) -> float | None:
        """Of all partitions together; ``None`` if unknown."""
        return sum(self.per_second.values()) if self.per_second else None


def arriving(before: Positions | None, now: Positions) -> Pace:
    """Return how fast records came in between two looks."""
    if before is None or now.at_seconds <= before.at_seconds:
        return Pace({}, "not measured: it takes two looks")
    apart = now.at_seconds - before.at_seconds
    found = {}
    for place, reach in now.reach.items():
        earlier = before.reach.get(place)
        if reach is not None and earlier is not None and reach.end >= earlier.end:
            found[place] = (reach.end - earlier.end) / apart
    return Pace(found, None if found else "the topic was made again meanwhile")


def commits_read(before: Positions | None, now: Positions) -> Pace:
    """Return how fast a group went on between two looks, by its commits.

    Consumers commit some seconds apart: where none came between, nothing is known.
    """
    if not now.reads:
        return Pace(dict.fromkeys(now.positions, 0.0))
    if before is None or now.at_seconds <= before.at_seconds:
        return Pace({}, "not measured: it takes two looks")
    apart = now.at_seconds - before.at_seconds
    moved = {
        place: (at - before.positions[place]) / apart
        for place, at in now.positions.items()
        if place in before.positions and at >= before.positions[place]
    }
    if not any(moved.values()):
        return Pace({}, f"no commit came within {apart:,.0f} s: look longer, over=...")
    return Pace(moved)


def batches_read(reader: RunReader) -> Pace:
    """Return how fast a run is while a batch runs, by its newest batches.

    What each took in is the difference of the offsets that Spark's log has; how long it took is in
    the run's statistics.
    """
    epoch = reader.settings().epoch
    marked = BatchFolders(reader.folder.path / "statistics").marked()
    recent = [each for each in marked if each.epoch == epoch][-_BATCHES:]
    newest = newest_commit(reader.folder.checkpoint)
    seconds, records = 0.0, Counter[Partition]()
    for told in (BatchStatistics.load(each.folder) for each in recent):
        taken = _taken(reader, told) if newest is not None and told.batch <= newest else {}
        if any(taken.values()):
            seconds += told.seconds
            records.update(taken)
    if not seconds:
        return Pace({}, "no batch tells how many records it took")
    return Pace({place: number / seconds for place, number in records.items()})


def _taken(reader: RunReader, told: BatchStatistics) -> dict[Partition, int]:
    """Return how many records a batch took of each partition; nothing where it is not told."""
    ended = offsets_reached(reader.folder.checkpoint, told.batch, reader.topic)
    began = offsets_reached(reader.folder.checkpoint, told.batch - 1, reader.topic)
    if ended is None or (began is None and told.batch):
        return {}
    if began is None:
        began = _beginning(reader, told, ended)
    return {Partition(reader.topic, p): at - began[p] for p, at in ended.items() if p in began}


def _beginning(reader: RunReader, told: BatchStatistics, ended: dict[int, int]) -> dict[int, int]:
    """Return where the first batch began: where a reset said, or at 0 if it took all from there."""
    told_to = reader.settings().starting_offsets
    records = told.events + sum(told.dead_letters.values())
    return told_to or (dict.fromkeys(ended, 0) if records == sum(ended.values()) else {})


def meeting(waiting: int, read: float | None, arrives: float | None) -> tuple[float | None, bool]:
    """Return in how many seconds nothing waits any more, and whether that is ever.

    Examples
    --------
    >>> meeting(100, 30.0, 10.0), meeting(100, 10.0, 10.0), meeting(0, None, None)
    ((5.0, True), (None, False), (0.0, True))
    """
    if waiting == 0:
        return 0.0, True
    if read == 0:
        return None, False
    if read is None or arrives is None:
        return None, True
    return (waiting / (read - arrives), True) if read > arrives else (None, False)


def never(read: float, arrives: float) -> str:
    """Return why a reader never catches up, in words."""
    if not read:
        return "never at this rate: nothing is read"
    return f"never at this rate: {_rate(arrives)} arrive a second, and {_rate(read)} are read"


def _rate(value: float) -> str:
    return format_count(value) if value >= 10 else f"{value:.1f}"  # noqa: PLR2004 - digits
