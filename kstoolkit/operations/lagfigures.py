"""The figures of a lag: what waits, how old it is, how long it takes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kstoolkit.kafka.reading import record_times
from kstoolkit.operations.lagrates import (
    Pace,
    arriving,
    batches_read,
    commits_read,
    meeting,
    never,
)
from kstoolkit.operations.lagrecord import LagOfPartition, TopicLag
from kstoolkit.operations.readers import RunReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.kafka.cluster import Reach
    from kstoolkit.kafka.groups import Partition
    from kstoolkit.operations.readers import GroupReader, Positions


def lag_of(reader: RunReader | GroupReader, before: Positions | None, now: Positions) -> TopicLag:
    """Return how far a reader is behind, with rates since it was looked at before, if it was.

    Raises
    ------
    KafkaError
        If no broker tells the times of records.
    """
    read = batches_read(reader) if isinstance(reader, RunReader) else commits_read(before, now)
    arrives = arriving(before, now)
    behind = _times_behind(reader, now)
    rows = [_row(place, now, read, arrives, behind) for place in sorted(now.reach)]
    waiting = [each.lag_records for each in rows if each.lag_records is not None]
    whole, why = _until(sum(waiting), read, arrives, read.whole, arrives.whole)
    if isinstance(reader, RunReader):  # a batch takes of all partitions in the same proportion
        rows = [_shared(each, whole, why) for each in rows]
    elif waiting:
        whole, why = _last_of(rows)
    if not waiting:
        whole, why = None, rows[0].unknown["lag_records"] if rows else "there is no partition"
    return TopicLag(
        reader=reader.name,
        state=now.state,
        at_ms=time.time_ns() // 1_000_000,
        partitions=tuple(rows),
        catch_up_seconds=whole,
        why=why,
    )


def _row(
    place: Partition, now: Positions, read: Pace, arrives: Pace, behind: Mapping[Partition, float]
) -> LagOfPartition:
    reach, position = now.reach[place], now.positions.get(place)
    waiting, gone, why = _waiting(reach, position, now.unknown.get(place, "not told"))
    reads, comes = read.per_second.get(place), arrives.per_second.get(place)
    told: dict[str, tuple[Any, str | None]] = {
        "end_offset": (None if reach is None else reach.end, why),
        "position": (position, why),
        "lag_records": (waiting, why),
        "lag_seconds": (behind.get(place), why or "the records' timestamps do not tell"),
        "read_per_second": (reads, read.why or "nothing of it was read meanwhile"),
        "arriving_per_second": (comes, arrives.why or "the partition is new"),
        "catch_up_seconds": (None, why),
    }
    if waiting is not None:
        told["catch_up_seconds"] = _until(waiting, read, arrives, reads, comes)
    if waiting == 0:
        told["lag_seconds"] = (0.0, None)
    return LagOfPartition(
        topic=place.topic,
        partition=place.number,
        gone_records=gone,
        **{name: value for name, (value, _) in told.items()},
        unknown={name: str(reason) for name, (value, reason) in told.items() if value is None},
    )


def _waiting(reach: Reach | None, position: int | None, why: str) -> tuple[int | None, int, str]:
    """Return how many records wait, how many are gone unread, and why the former is unknown."""
    if reach is None:
        return None, 0, "the partition is gone"
    if position is None:
        return (0, 0, why) if reach.first == reach.end else (None, 0, why)
    if position > reach.end:
        return None, 0, "the position is past the end: the topic was deleted and made again"
    return reach.end - max(position, reach.first), max(reach.first - position, 0), ""


def _until(
    waiting: int, read: Pace, arrives: Pace, reads: float | None, comes: float | None
) -> tuple[float | None, str | None]:
    """Return in how many seconds nothing waits any more, or why that is not known, or never."""
    seconds, ever = meeting(waiting, reads, comes)
    if seconds is not None:
        return seconds, None
    if not ever:
        return None, never(reads or 0.0, comes or 0.0)
    why = read.why if reads is None else arrives.why
    return None, why or "no rate is known of it"


def _shared(row: LagOfPartition, whole: float | None, why: str | None) -> LagOfPartition:
    if not row.lag_records:
        return row
    unknown = {name: each for name, each in row.unknown.items() if name != "catch_up_seconds"}
    if whole is None:
        unknown["catch_up_seconds"] = str(why)
    return replace(row, catch_up_seconds=whole, unknown=unknown)


def _last_of(rows: list[LagOfPartition]) -> tuple[float | None, str | None]:
    """Return when the last partition is caught up with, or why that is not known, or never."""
    late = [each for each in rows if each.lag_records is not None]
    whys = [each.unknown["catch_up_seconds"] for each in late if each.catch_up_seconds is None]
    if whys:
        return None, next((why for why in whys if why.startswith("never")), whys[0])
    return max(each.catch_up_seconds or 0.0 for each in late), None


def _times_behind(reader: RunReader | GroupReader, now: Positions) -> dict[Partition, float]:
    """Return how much older the next record of each partition is than its newest, in seconds."""
    begins, ends = {}, {}
    for place, position in now.positions.items():
        reach = now.reach.get(place)
        if reach is not None and (at := max(position, reach.first)) < reach.end:
            begins[place], ends[place] = at, reach.end - 1
    begun, ended = record_times(reader.cluster, begins, ends)
    return {
        place: max(ended[place] - begun[place], 0) / 1_000 for place in begun.keys() & ended.keys()
    }
