"""Parquet files, column by column; users and actions keep the file's own dictionaries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.errors import ColumnError
from kstoolkit.events.pieces import Columns, Piece

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["read_parquet"]

BATCH_ROWS = 1 << 20


def read_parquet(path: str | Path, columns: Columns) -> Iterator[Piece]:
    """Yield the file's records, a million at a time.

    Raises
    ------
    ColumnError
        If the file lacks a column.
    OSError
        If the file is damaged.
    """
    try:
        with pq.ParquetFile(path, read_dictionary=[columns.user, columns.action]) as file:
            names = file.schema_arrow.names
            for name in columns:
                if name not in names:
                    raise ColumnError.missing(name, names, str(path))
            for batch in file.iter_batches(BATCH_ROWS, columns=sorted(set(columns)), use_threads=False):
                yield _piece(batch, columns)
    except pa.ArrowInvalid as error:
        raise OSError(str(error)) from error


def _piece(batch: pa.RecordBatch, columns: Columns) -> Piece:
    def raw(chosen: NDArray[np.intp]) -> list[str]:
        rows = batch.take(pa.array(chosen)).to_pylist()
        return [json.dumps(row, default=str, ensure_ascii=False) for row in rows]

    arrays = (batch.column(name) for name in columns)
    return Piece(*arrays, raw, [], batch.nbytes)
