"""Reading a run's dead letters: never more of their raw text than was asked for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.events.event import SCHEMA, DeadLetters, count_reasons

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_ROWS_AT_ONCE = 1_000  # of raw text, each up to 64 Ki characters


def read_letters(out: Path, *, limit: int) -> DeadLetters:
    """Return a run's dead letters: the first ``limit``, and how many there are of each reason."""
    counted: Counter[str] = Counter()
    for _, path in _files(out):
        counted.update(count_reasons(pq.read_table(path, columns=["reason"], partitioning=None)))
    held, room = [SCHEMA.append(pa.field("batch", pa.int64())).empty_table()], limit
    for number, letters in iter_letters(out):
        if not room:
            break
        taken = letters.slice(0, room)
        numbers = pa.repeat(pa.scalar(number, pa.int64()), taken.num_rows)
        held.append(pa.table(taken).append_column("batch", numbers))
        room -= taken.num_rows
    return DeadLetters(pa.concat_tables(held), counted)


def iter_letters(out: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield a run's dead letters, some at a time, each time with the number of their batch."""
    for number, path in _files(out):
        with pq.ParquetFile(path) as file:
            for letters in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                yield number, letters


def _files(out: Path) -> Iterator[tuple[int, Path]]:
    for batch in BatchFolders(out / "dead_letters").marked():
        for path in batch.files(".parquet"):
            yield batch.number, path
