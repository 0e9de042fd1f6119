"""One file of the changelog, written a row group at a time.

Each row group holds one level of one bucket of users. The file's metadata names them, as JSON
under ``kstoolkit.row_groups``: ``{"buckets": 8, "groups": [[bucket, window_ms], ...]}``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.counters.counters import Counters


TIME = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("window_ms", pa.int64()),
        pa.field("window_start", TIME),
        pa.field("user", pa.string()),
        pa.field("action", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("changed_at", TIME),
    ]
)
"""The columns, as every reader sees them."""

_TEXT = pa.dictionary(pa.int32(), pa.string())
CODED = SCHEMA.set(2, pa.field("user", _TEXT)).set(3, pa.field("action", _TEXT))
"""The same, texts by dictionary: how they are at hand."""

GROUPS_KEY = "kstoolkit.row_groups"
_GROUP_ROWS = 8_000_000


class ChangelogWriter:
    """Writes one file: a row group for each level of each bucket.

    Parameters
    ----------
    path
        Where to.
    buckets
        Among how many buckets users are spread.
    changed_ms
        The clock of the micro-batch that reports the counts, epoch ms UTC.
    """

    def __init__(self, path: Path, *, buckets: int, changed_ms: int) -> None:
        self.buckets, self.changed_ms = buckets, changed_ms
        self.groups: list[tuple[int, int]] = []
        self.rows = 0
        # Without Arrow's own schema inside, every reader sees plain strings.
        self._file = pq.ParquetWriter(
            path, CODED, compression="zstd", store_schema=False, write_page_checksum=True
        )

    def write(self, bucket: int, window_ms: int, counters: Counters) -> None:
        """Write the latest counts of one level of one bucket."""
        for start in range(0, len(counters), _GROUP_ROWS):
            part = counters.take(np.arange(start, min(start + _GROUP_ROWS, len(counters))))
            self._file.write_batch(self._batch(part, window_ms), row_group_size=_GROUP_ROWS)
            self.groups.append((bucket, window_ms))
            self.rows += len(part)

    def _batch(self, counters: Counters, window_ms: int) -> pa.RecordBatch:
        columns = counters.to_batch().columns
        rows = len(counters)
        return pa.record_batch(
            [
                pa.repeat(pa.scalar(window_ms, pa.int64()), rows),
                columns[0].cast(TIME),
                columns[1],
                columns[2],
                columns[3].cast(pa.int64()),
                pa.repeat(pa.scalar(self.changed_ms, pa.int64()).cast(TIME), rows),
            ],
            schema=CODED,
        )

    def close(self) -> None:
        """Write the file's end, with what its row groups hold."""
        told = {"buckets": self.buckets, "groups": self.groups}
        self._file.add_key_value_metadata({GROUPS_KEY: json.dumps(told)})
        self._file.close()
