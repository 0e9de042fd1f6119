"""Which windows a run would count in part, if it began anew at some offsets.

A new epoch's state is empty, and its counts replace the earlier ones. So a window of which all
records are read again is counted right, and one of which none is read keeps its count; one of which
a part is read gets a count that is too low.

Which these are, the timestamps of the records around the offsets tell, if the events of a partition
lie in the order of time, and records' timestamps are their events' times, as ``kstoolkit produce``
writes them: every window that ends after the first moment at which reading begins in a partition,
and starts before the last one up to which there are records that are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.kafka.groups import Partition
from kstoolkit.kafka.reading import record_times
from kstoolkit.operations.resetplan import PartWindows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kstoolkit.kafka.cluster import Cluster, Reach
    from kstoolkit.windows import Window


@dataclass(frozen=True, slots=True)
class Cuts:
    """The moments at which reading begins, epoch ms, by partition, as far as records tell.

    Parameters
    ----------
    begin_ms
        From when on records are read.
    cut_ms
        Up to when there are, or were, records that are not read; nothing for partitions that are
        read whole.
    """

    begin_ms: Mapping[int, int]
    cut_ms: Mapping[int, int]


def cuts_of(
    cluster: Cluster, topic: str, reach: Mapping[int, Reach], targets: Mapping[int, int]
) -> Cuts:
    """Return when reading begins at some offsets.

    Raises
    ------
    KafkaError
        If no broker tells the times of records.
    """
    there = {each: at for each, at in targets.items() if at < reach[each].end}
    before = {each: at - 1 for each, at in targets.items() if at > reach[each].first}
    begins, cuts = (
        {place.number: moment_ms for place, moment_ms in times.items()}
        for times in record_times(cluster, *(_placed(topic, each) for each in (there, before)))
    )
    cut_ms = {each: moment_ms + 1 for each, moment_ms in cuts.items()}
    # Where all that came before is gone from the topic, it may have been as new as what is there.
    gone = {each for each, at in targets.items() if at == reach[each].first > 0}
    cut_ms |= {each: begins[each] for each in gone & begins.keys()}
    # Beyond the newest record, the next one comes later.
    begin_ms = {each: begins.get(each, cut_ms.get(each)) for each in targets}
    return Cuts({each: at for each, at in begin_ms.items() if at is not None}, cut_ms)


def _placed(topic: str, offsets: Mapping[int, int]) -> dict[Partition, int]:
    return {Partition(topic, each): at for each, at in offsets.items()}


def windows_in_part(
    windows: Iterable[Window], begin_ms: Iterable[int], cut_ms: Iterable[int]
) -> list[PartWindows]:
    """Return the windows that have records which are read, and others which are not.

    Parameters
    ----------
    windows
        Of a cascade.
    begin_ms
        From when on records are read, in each partition.
    cut_ms
        Up to when there are records that are not.

    Examples
    --------
    >>> from kstoolkit.windows import as_window
    >>> minute, hour = as_window("1 minute"), as_window("1 hour")
    >>> windows_in_part([minute, hour], [120_000, 180_000], [120_000])
    [PartWindows(window='1 hour', first_start_ms=0, last_end_ms=3600000)]
    """
    first, last = min(begin_ms, default=0), max(cut_ms, default=0)
    found = []
    for window in windows:
        # The first that ends after `first`, and the last that starts before `last`.
        start = window.start_of(first) - window.size_ms + window.every_ms
        newest = window.start_of(last - 1)
        if last > 0 and start <= newest:
            found.append(
                PartWindows(
                    window=window.label,
                    first_start_ms=start,
                    last_end_ms=newest + window.size_ms,
                )
            )
    return found
