"""The changelog: latest counts, as a folder of Parquet files that any tool reads.

::

    changelog/epoch=<e>/batch=<n>/part-<task>.parquet

============  ====================  ==========================================================
column        type                  meaning
============  ====================  ==========================================================
window_ms     int64                 how long the window is: tells the cascade's levels apart
window_start  timestamp[ms, UTC]    when it begins
user          string                who
action        string                what
count         int64                 how often so far: the latest value, not a difference
changed_at    timestamp[ms, UTC]    the clock of the micro-batch that reported it
============  ====================  ==========================================================

The newest (epoch, batch) wins for each (window_ms, window_start, user, action). Only batches with
a ``_done`` marker count. Each row group holds one level of one bucket of users; the file's metadata
names them, so that one user's counts are found without reading the others'.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstoolkit.counters.counters import Counters
from kstoolkit.counters.dictionaries import buckets_of
from kstoolkit.errors import InputError
from kstoolkit.pipeline.batches import Batch, BatchFolders

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SCHEMA", "Changelog", "ChangelogWriter"]

_TIME = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("window_ms", pa.int64()),
        pa.field("window_start", _TIME),
        pa.field("user", pa.string()),
        pa.field("action", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("changed_at", _TIME),
    ]
)
_TEXT = pa.dictionary(pa.int32(), pa.string())
_WRITTEN = SCHEMA.set(2, pa.field("user", _TEXT)).set(3, pa.field("action", _TEXT))
_GROUPS_KEY = "kstoolkit.row_groups"
_GROUP_ROWS = 8_000_000


class ChangelogWriter:
    """Writes one task's part of a batch: a row group for each level of each bucket."""

    def __init__(self, path: Path, *, buckets: int, changed_ms: int) -> None:
        self.buckets, self.changed_ms = buckets, changed_ms
        self.groups: list[tuple[int, int]] = []
        self.rows = 0
        # Without Arrow's own schema inside, every reader sees plain strings.
        self._file = pq.ParquetWriter(path, _WRITTEN, compression="zstd", store_schema=False)

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
                columns[0].cast(_TIME),
                columns[1],
                columns[2],
                columns[3].cast(pa.int64()),
                pa.repeat(pa.scalar(self.changed_ms, pa.int64()).cast(_TIME), rows),
            ],
            schema=_WRITTEN,
        )

    def close(self) -> None:
        """Write the file's end, with what its row groups hold."""
        told = {"buckets": self.buckets, "groups": self.groups}
        self._file.add_key_value_metadata({_GROUPS_KEY: json.dumps(told)})
        self._file.close()


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog folder, to be read.

    Parameters
    ----------
    path
        The folder that holds ``epoch=<e>``.
    """

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> Changelog:
        """Open a changelog folder, or that of a run folder.

        Raises
        ------
        InputError
            If there is none.
        """
        for candidate in (Path(path), Path(path) / "changelog"):
            if any(candidate.glob("epoch=*")):
                return cls(candidate)
        message = f"No changelog in {str(path)!r}: no epoch=<number> folder lies there."
        raise InputError(message, hint="Give a run's output folder, or its changelog folder.")

    @property
    def batches(self) -> list[Batch]:
        """The batches that count, the oldest first."""
        return BatchFolders(self.path).marked()

    def window_lengths_ms(self) -> list[int]:
        """Return the lengths of the windows that have counts here, the shortest first."""
        found: set[int] = set()
        for path in self._files():
            groups = _Groups.of(pq.ParquetFile(path))
            found.update(window_ms for _, window_ms in groups.named)
        return sorted(found)

    def counters(
        self, window_ms: int, *, users: set[str] | None = None, bucket: int | None = None
    ) -> Counters:
        """Return the latest counts of one window length, of all users or of some.

        Parameters
        ----------
        window_ms
            The window's length.
        users
            Only these.
        bucket
            Only users of this bucket.
        """
        wanted = None if users is None else pa.array(sorted(users), pa.string())
        parts = [part for path in self._files() for part in _read(path, window_ms, wanted, bucket)]
        return latest(parts)

    def buckets(self) -> int:
        """Return among how many buckets the users are spread; 1 if the files do not say."""
        spread = {_Groups.of(pq.ParquetFile(path)).buckets for path in self._files()}
        return spread.pop() if len(spread) == 1 else 1

    def _files(self) -> Iterator[Path]:
        for batch in self.batches:
            yield from batch.files(".parquet")


@dataclass(frozen=True, slots=True)
class _Groups:
    """What the row groups of a file hold."""

    buckets: int
    named: list[tuple[int, int]]

    @classmethod
    def of(cls, file: pq.ParquetFile) -> _Groups:
        metadata = file.metadata.metadata or {}
        told = json.loads(metadata.get(_GROUPS_KEY.encode(), b'{"buckets": 1, "groups": []}'))
        return cls(told["buckets"], [tuple(group) for group in told["groups"]])

    def chosen(self, window_ms: int, users: pa.Array | None, bucket: int | None) -> list[int]:
        wanted = None if users is None else set(buckets_of(users, self.buckets).tolist())
        return [
            number
            for number, (held, length_ms) in enumerate(self.named)
            if length_ms == window_ms
            and (wanted is None or held in wanted)
            and (bucket is None or held == bucket)
        ]


def _read(
    path: Path, window_ms: int, users: pa.Array | None, bucket: int | None
) -> Iterator[Counters]:
    with pq.ParquetFile(path, read_dictionary=["user", "action"]) as file:
        chosen = _Groups.of(file).chosen(window_ms, users, bucket)
        for number in chosen:
            table = file.read_row_group(number, ["window_start", "user", "action", "count"])
            if users is not None:
                table = table.filter(pc.is_in(table.column("user"), value_set=users))
            if table.num_rows:
                yield _as_counters(table)


def _as_counters(table: pa.Table) -> Counters:
    starts = table.column("window_start").cast(pa.int64()).to_numpy()
    count = table.column("count").to_numpy().astype(np.uint64)
    return Counters.of(starts, table.column("user"), table.column("action"), count)


def latest(parts: list[Counters]) -> Counters:
    """Return the newest count of every key; ``parts`` come in the order that they were written.

    Examples
    --------
    >>> one = Counters.of(np.array([0]), pa.array(["a"]), pa.array(["x"]), np.array([5], np.uint64))
    >>> two = Counters.of(np.array([0]), pa.array(["a"]), pa.array(["x"]), np.array([9], np.uint64))
    >>> latest([one, two]).count.tolist()
    [9]
    """
    while len(parts) > 1:  # counts never fall, so pairs may be folded in any order that keeps age
        pairs = zip(parts[::2], [*parts[1::2], Counters.empty()], strict=False)
        parts = [older.replaced_by(newer) for older, newer in pairs]
    return parts[0] if parts else Counters.empty()
