"""Records of a changelog topic that wait to be sent: a Parquet file of keys and values.

Tasks write them, then Spark sends them; a batch that is repeated writes and sends the same again,
which changes nothing, as the last record of each key counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstoolkit.changelog.topicblocks import blocks_of
from kstoolkit.changelog.topicrecords import records_of
from kstoolkit.formats.countblock import BlockKey

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.counters.counters import Counters


_SCHEMA = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class Outbox:
    """Which micro-batch the records are of.

    Parameters
    ----------
    epoch, batch
        Its numbers.
    blocks
        Whether many counts share a record.
    """

    epoch: int
    batch: int
    blocks: bool


class OutboxWriter:
    """Writes one file of records.

    Parameters
    ----------
    path
        Where to.
    outbox
        Which batch they are of, and in which form.
    changed_ms
        The clock of the micro-batch that reports the counts, epoch ms UTC.
    """

    def __init__(self, path: Path, outbox: Outbox, *, changed_ms: int) -> None:
        self.outbox, self.changed_ms = outbox, changed_ms
        self.rows = 0
        self.size_bytes = 0
        self._file = pq.ParquetWriter(path, _SCHEMA, compression="zstd")

    def write(self, bucket: int, window_ms: int, counters: Counters) -> None:
        """Write counts of one level of one bucket: whole users' windows, or what changed."""
        if self.outbox.blocks:
            first = BlockKey(
                bucket=bucket,
                epoch=self.outbox.epoch,
                batch=self.outbox.batch,
                part=0,
                size_ms=window_ms,
            )
            blocks = list(blocks_of(counters, first))
            self._write(pa.array([k for k, _ in blocks]), pa.array([v for _, v in blocks]))
        else:
            self._write(*records_of(counters, size_ms=window_ms, changed_ms=self.changed_ms))

    def forget(self, window_ms: int, counters: Counters) -> None:
        """Write tombstones of the users' windows that some counts are of."""
        if not self.outbox.blocks:
            keys, _ = records_of(counters, size_ms=window_ms, changed_ms=self.changed_ms)
            self._write(keys, pa.nulls(len(keys), pa.binary()))

    def close(self) -> None:
        """Write the file's end."""
        self._file.close()

    def _write(self, keys: pa.Array, values: pa.Array) -> None:
        batch = pa.record_batch([keys.cast(pa.binary()), values.cast(pa.binary())], schema=_SCHEMA)
        self._file.write_batch(batch)
        self.rows += batch.num_rows
        self.size_bytes += sum(_bytes_of(column) for column in batch.columns)


def _bytes_of(texts: pa.Array) -> int:
    return pc.sum(pc.binary_length(texts)).as_py() or 0
