"""Rows in memory that are handed out in parts, as a store's are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.formats.columns import ByteColumn, RowColumns
from kstoolkit.records import Records
from kstoolkit.stores.discovery.found import FoundSegment, FoundStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.stores.discovery.found import Engine
    from kstoolkit.stores.rows.asking import Asked

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
DAY_MS = 24 * HOUR_MS
NOON_MS = 1_700_049_600_000 // HOUR_MS * HOUR_MS  # 2023-11-15 12:00 UTC


@dataclass(frozen=True)
class Listed:
    """Rows that lie in memory, in parts."""

    parts: list[RowColumns]
    name: str = "counts"

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        assert asked.is_all
        yield from self.parts


def windows(*rows: tuple[str, int]) -> RowColumns:
    """Return rows of users and window starts; each value has 8 bytes."""
    return part([user.encode() for user, _ in rows], start=[start for _, start in rows])


def stamped(*rows: tuple[str, int | None], size: int = 8) -> RowColumns:
    """Return rows of keys and timestamps."""
    return part([key.encode() for key, _ in rows], size=size, stamp=[time for _, time in rows])


def part(
    keys: Sequence[bytes],
    *,
    size: int = 8,
    start: Sequence[int] | None = None,
    end: Sequence[int] | None = None,
    stamp: Sequence[int | None] | None = None,
    **columns: Any,
) -> RowColumns:
    return RowColumns(
        np.arange(len(keys)),
        ByteColumn.of(list(keys)),
        ByteColumn.of([bytes(size)] * len(keys)),
        window_start_ms=None if start is None else pa.array(start, pa.int64()),
        window_end_ms=None if end is None else pa.array(end, pa.int64()),
        timestamp_ms=None if stamp is None else pa.array(stamp, pa.int64()),
        **columns,
    )


def found(
    kind: str | None,
    *starts_ms: int,
    engine: Engine = "kafka-streams",
    segment_bytes: int = 1 << 20,
    disk_bytes: int = 0,
) -> FoundStore:
    """Return a store that was found, with segments that begin then."""
    segments = [FoundSegment(f"/s/counts/counts.{each}", each, segment_bytes) for each in starts_ms]
    size = segment_bytes * len(segments)
    return FoundStore(
        "/s/counts",
        engine,
        "app",
        "counts",
        kind=kind,
        segments=Records(segments, "segments"),
        size_bytes=size,
        disk_bytes=disk_bytes or size,
    )
