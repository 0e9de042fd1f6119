"""What a task does with the operator's output: each parcel goes to its file, the rest is reported.

A file is written under a hidden name of this attempt and moved to its place when it is whole, so
that two attempts at one task can't spoil each other's work: they move the same content there.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.counters.counters import Counters
from kstoolkit.pipeline.operator import COUNTS, GONE, MATERIAL, STATISTICS
from kstoolkit.pipeline.parcels import LETTERS, from_ipc
from kstoolkit.pipeline.worker import spare_collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.changelog.topic import Outbox


REPORT_DDL = "kind string, bucket int, level int, payload binary"
"""What a writing task tells the driver."""

MATERIAL_SUFFIX = ".material"

_REPORT = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("bucket", pa.int32()),
        pa.field("level", pa.int32()),
        pa.field("payload", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Places:
    """Where a batch's parts go.

    Parameters
    ----------
    changelog, findings, dead_letters
        The batch's folders.
    lengths_ms
        The window length of each level.
    buckets
        Among how many buckets users are spread.
    outbox
        Whose records wait here, where the changelog is a topic.
    """

    changelog: str
    findings: str
    dead_letters: str
    lengths_ms: tuple[int, ...]
    buckets: int
    outbox: Outbox | None = None


def writing(places: Places) -> Any:
    """Return a function for ``mapInArrow``: the operator's parcels in, reports out."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        if task is None:
            return
        spare_collector()
        reports: list[tuple[str, int, int, bytes]] = []
        part = _Part(places, task.partitionId(), task.taskAttemptId())
        with ExitStack() as part.open_files:
            for batch in batches:
                rows = batch.to_pylist()  # parcels: a handful for each bucket
                reports.extend(_reported(row) for row in rows if not part.write(row))
        reports.append((STATISTICS, -1, -1, json.dumps(part.publish()).encode()))
        yield _as_batch(reports)

    return write


def _reported(row: dict[str, Any]) -> tuple[str, int, int, bytes]:
    return row["kind"], row["bucket"], row["level"], row["payload"]


def _as_batch(reports: list[tuple[str, int, int, bytes]]) -> pa.RecordBatch:
    columns = zip(zip(*reports, strict=True), _REPORT, strict=True)
    return pa.record_batch([pa.array(list(c), kind.type) for c, kind in columns], schema=_REPORT)


@dataclass(slots=True)
class _Part:
    """One task's part of a batch."""

    places: Places
    number: int
    attempt: int
    open_files: ExitStack = field(default_factory=ExitStack)
    moves: list[tuple[Path, Path]] = field(default_factory=list)
    dead_letters: dict[str, int] = field(default_factory=dict)
    changelog: Any = None
    letters: pq.ParquetWriter | None = None

    def write(self, row: dict[str, Any]) -> bool:
        """Write a parcel to its file; ``False`` if it is of a kind that has none."""
        kind = row["kind"]
        if kind == COUNTS:
            length_ms = self.places.lengths_ms[row["level"]]
            changelog = self._changelog(row["now_ms"])
            changelog.write(row["bucket"], length_ms, Counters.decode(row["payload"]))
        elif kind == GONE:
            changelog = self._changelog(row["now_ms"])
            if self.places.outbox is not None:
                length_ms = self.places.lengths_ms[row["level"]]
                changelog.forget(length_ms, Counters.decode(row["payload"]))
        elif kind == LETTERS:
            self._write_letters(from_ipc(row["payload"]))
        elif kind == MATERIAL:
            length_ms = self.places.lengths_ms[row["level"]]
            name = f"{row['bucket']:05d}-{length_ms}{MATERIAL_SUFFIX}"
            self._path(self.places.findings, name).write_bytes(row["payload"])
        return kind in {COUNTS, GONE, LETTERS, MATERIAL}

    def publish(self) -> dict[str, Any]:
        """Move the files to their places, and return what they came to."""
        size_bytes = 0
        for hidden, place in self.moves:
            if place.parent == Path(self.places.changelog):
                size_bytes += hidden.stat().st_size
            os.replace(hidden, place)  # noqa: PTH105 - says that it is atomic
        if self.places.outbox is not None and self.changelog is not None:
            size_bytes = self.changelog.size_bytes
        return {
            "records": self.changelog.rows if self.changelog else 0,
            "bytes": size_bytes,
            "dead_letters": self.dead_letters,
        }

    def _changelog(self, now_ms: int) -> Any:
        if self.changelog is None:
            path = self._path(self.places.changelog, f"{self.number:05d}.parquet")
            outbox, buckets = self.places.outbox, self.places.buckets
            if outbox is None:
                self.changelog = ChangelogWriter(path, buckets=buckets, changed_ms=now_ms)
            else:
                # Only here: protobuf's classes can't travel to nodes that lack kstoolkit.
                from kstoolkit.changelog.topic import OutboxWriter  # noqa: PLC0415

                self.changelog = OutboxWriter(path, outbox, changed_ms=now_ms)
            self.open_files.callback(self.changelog.close)
        return self.changelog

    def _write_letters(self, table: pa.Table) -> None:
        if self.letters is None:
            path = self._path(self.places.dead_letters, f"{self.number:05d}.parquet")
            writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            self.letters = self.open_files.enter_context(writer)
        self.letters.write_table(table)
        for each in table.column("reason").combine_chunks().value_counts().to_pylist():
            known = self.dead_letters.get(each["values"], 0)
            self.dead_letters[each["values"]] = known + each["counts"]

    def _path(self, folder: str, name: str) -> Path:
        """Return a hidden name, which no glob takes in, and remember where the file belongs."""
        hidden = Path(folder) / f".{self.attempt}-{name}.tmp"
        self.moves.append((hidden, Path(folder) / f"part-{name}"))
        return hidden
