"""Which windows a run would count in part, if it began anew at some offsets.

A new epoch's state is empty, and its counts replace the earlier ones. So a window of which all
records are read again is counted right, and one of which none is read keeps its count; one of which
a part is read gets a count that is too low.

Which these are, the timestamps of the records at the offsets tell, if the events of a partition lie
in the order of time, and records' timestamps are their events' times, as ``kstoolkit produce``
writes them. Reading begins at the moments m₁ … mₙ, one for each partition: every window that ends
after the first of them and starts before the last one has records on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.kafka.groups import Partition
from kstoolkit.kafka.recordtimes import record_times
from kstoolkit.operations.resetplan import PartWindows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kstoolkit.kafka.cluster import Cluster, Reach
    from kstoolkit.windows import Window

__all__ = ["beginnings", "windows_in_part"]


def beginnings(
    cluster: Cluster, topic: str, reach: Mapping[int, Reach], targets: Mapping[int, int]
) -> dict[int, int]:
    """Return the moment at which reading begins, epoch ms, of each partition where it is told.

    Where nothing is left to be read, it is just after the newest record.

    Raises
    ------
    KafkaError
        If no broker tells the times of records.
    """
    asked = {
        Partition(topic, each): min(at, reach[each].end - 1)
        for each, at in targets.items()
        if reach[each].end > reach[each].first
    }
    (times,) = record_times(cluster, asked)
    ends = {each for each, at in targets.items() if at == reach[each].end}
    return {place.number: at + (place.number in ends) for place, at in times.items()}


def windows_in_part(
    windows: Iterable[Window], begin_ms: Iterable[int], cut_ms: Iterable[int]
) -> list[PartWindows]:
    """Return the windows that have records before and after where reading begins.

    Parameters
    ----------
    windows
        Of a cascade.
    begin_ms
        The moments at which reading begins.
    cut_ms
        Those of them before which there were other records.

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
