"""What travels through Spark: rows of bucket, kind and bytes.

Spark never sees an event or a counter, only parcels; their payloads carry a version of their own,
so a new kstoolkit changes no schema of Spark's.

Which task counts which bucket: the buckets spread evenly over the partitions of Spark's state.

Spark puts a group into the partition that its key's hash says. Sixteen buckets by their number
would come to seven and nine of two partitions, sixty-four to 37 of 64, and each
micro-batch would wait for the fullest. So a bucket's group has another key, its *lane*: the
smallest number that is the bucket modulo how many there are, and whose hash leads where it should.

What a Python worker of Spark's is spared between its tasks.
"""

from __future__ import annotations

import gc
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from kstoolkit.counters.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_ARRIVALS = pa.schema(
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

_MOST_COUNTERS = 4_000_000
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
        if self._open_rows > _MOST_COUNTERS:
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
        if len(merged) > _MOST_COUNTERS // 2:
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
    return pa.record_batch(columns, schema=_ARRIVALS)


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


_SEED = 42
_WORD = 0xFFFF_FFFF
_SIGN = 0x8000_0000


def lanes(buckets: int, partitions: int) -> list[int]:
    """Return the lane of each bucket, such that bucket b is counted in partition b mod partitions.

    Examples
    --------
    >>> [_spark_partition(lane, 2) for lane in lanes(6, 2)]
    [0, 1, 0, 1, 0, 1]
    >>> [bucket_of(lane, 6) for lane in lanes(6, 2)]
    [0, 1, 2, 3, 4, 5]
    """
    return [
        next(
            lane
            for lane in count(bucket, buckets)
            if _spark_partition(lane, partitions) == bucket % partitions
        )
        for bucket in range(buckets)
    ]


def bucket_of(lane: int, buckets: int) -> int:
    """Return the bucket whose lane this is."""
    return lane % buckets


def _spark_partition(number: int, partitions: int) -> int:
    """Return the partition into which Spark shuffles an int: Murmur3 with seed 42, modulo.

    As ``HashPartitioning`` does it, with ``org.apache.spark.unsafe.hash.Murmur3_x86_32``.

    Examples
    --------
    >>> [_spark_partition(number, 5) for number in range(8)]
    [1, 3, 4, 1, 2, 1, 4, 2]
    """
    mixed = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    hashed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    hashed ^= 4  # bytes in an int
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    return (hashed - (hashed & _SIGN) * 2) % partitions


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _WORD


def spare_collector() -> None:
    """Take all that is loaded by now out of the garbage collector's sight, once in a process.

    Spark's workers live from task to task and collect all garbage after each one. To go through
    the modules of pandas, Arrow and Spark takes 40 ms every time, as long as a small task's work.
    What a task makes itself is collected as ever.

    To be called by a task that needs most of these modules: what is loaded later stays in sight.

    Examples
    --------
    >>> spare_collector()
    >>> gc.get_freeze_count() > 0
    True
    >>> gc.unfreeze()
    """
    if not gc.get_freeze_count():
        gc.freeze()
