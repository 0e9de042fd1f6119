"""What travels through Spark: rows of bucket, kind and bytes.

Spark never sees an event or a counter, only parcels; their payloads carry a version of their own,
so a new kstoolkit changes no schema of Spark's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kstoolkit.counters.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


ARRIVALS = pa.schema(
    [
        pa.field("bucket", pa.int32()),
        pa.field("kind", pa.string()),
        pa.field("payload", pa.binary()),
    ]
)
"""Columns of what a feed hands to the operator."""

PARCEL_DDL = "bucket int, kind string, payload binary"
"""The same, as Spark writes it."""

BLOCK, LETTERS, TICK = "block", "letters", "tick"

MOST_COUNTERS = 4_000_000
"""So many counters are held as columns before they are put aside as bytes."""


class Tally:
    """The counters of a file, or of a task's files, while they are read.

    Counts are merged as they come; when there are many they are put aside as CountBlocks, a few
    bytes each. So a file can be counted whole, and dropped whole if its end is damaged.
    """

    def __init__(self, buckets: int) -> None:
        self.buckets = buckets
        self.letters: list[bytes] = []
        self._open: list[Counters] = []
        self._open_rows = 0
        self._aside: list[tuple[int, bytes]] = []

    def add(self, counters: Counters, letters: Iterable[pa.RecordBatch] = ()) -> None:
        """Add the counters of a piece, and its dead letters."""
        self.letters.extend(to_ipc(batch) for batch in letters)
        self._open.append(counters)
        self._open_rows += len(counters)
        if self._open_rows > MOST_COUNTERS:
            self._merge()

    def absorb(self, other: Tally) -> None:
        """Take over all that another tally holds."""
        self._aside.extend(other._aside)
        for counters in other._open:
            self.add(counters)
        self.letters.extend(other.letters)

    def parcels(self) -> Iterator[pa.RecordBatch]:
        """Yield everything as parcels: a CountBlock a bucket, and the dead letters."""
        self._put_aside()
        for bucket, block in self._aside:
            yield parcel(bucket, BLOCK, block)
        for number, letters in enumerate(self.letters):
            yield parcel(number % self.buckets, LETTERS, letters)

    def _merge(self) -> None:
        merged = Counters.merge(self._open)
        self._open, self._open_rows = [merged], len(merged)
        if len(merged) > MOST_COUNTERS // 2:
            self._put_aside()

    def _put_aside(self) -> None:
        merged = Counters.merge(self._open)
        self._aside.extend((n, part.encode()) for n, part in merged.by_bucket(self.buckets))
        self._open, self._open_rows = [], 0


def parcel(bucket: int, kind: str, payload: bytes) -> pa.RecordBatch:
    """Return one parcel as a batch of one row."""
    columns = [
        pa.array([bucket], pa.int32()),
        pa.array([kind], pa.string()),
        pa.array([payload], pa.binary()),
    ]
    return pa.record_batch(columns, schema=ARRIVALS)


def to_ipc(batch: pa.RecordBatch | pa.Table) -> bytes:
    """Return columns as the bytes of an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")  # as a global it could not be pickled
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def from_ipc(payload: bytes) -> pa.Table:
    """Return the columns of an Arrow IPC stream."""
    return pa.ipc.open_stream(pa.py_buffer(payload)).read_all()
