"""The tick feed: one row for every bucket, so that a bucket nobody writes to still gets its turn.

A bucket without rows in a micro-batch is not called at all; in a live run it may still hold
counters that wait for their flush.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from kstoolkit.pipeline.parcels import PARCEL_DDL, TICK, parcel

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType


class TickFeed(DataSource):
    """One row for every bucket, each time that a micro-batch is asked for."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kstoolkit_ticks"

    def schema(self) -> str:
        """Return the columns of a parcel."""
        return PARCEL_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - called by keyword
        """Return the reader of one query."""
        return _TickReader(int(self.options["buckets"]), live=self.options["live"] == "True")


class _TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are the clock's milliseconds; they stand still unless the run is live.

    Under availableNow there is one tick and no more.
    """

    def __init__(self, buckets: int, *, live: bool) -> None:
        self.buckets, self.live = buckets, live
        self._target_ms: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"tick_ms": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target_ms = time.time_ns() // 1_000_000

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        if not self.live:
            return start
        now_ms = self._target_ms or time.time_ns() // 1_000_000
        return {"tick_ms": max(now_ms, start["tick_ms"])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:  # noqa: ARG002
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        for bucket in range(self.buckets):
            yield parcel(bucket, TICK, b"")
