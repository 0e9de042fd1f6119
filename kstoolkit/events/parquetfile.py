"""Parquet files, column by column; users and actions keep the file's own dictionaries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.events.opening import check_name
from kstoolkit.events.pieces import Piece, require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from kstoolkit.events.pieces import Columns


BATCH_ROWS = 1 << 20
_DAMAGE = (pa.ArrowException, UnicodeDecodeError)


def parquet_names(path: str | Path) -> list[str]:
    """Return the names of a file's columns.

    Raises
    ------
    OSError
        If the file can't be read, or is damaged.
    """
    return list(_schema(path).names)


def read_parquet(path: str | Path, columns: Columns) -> Iterator[Piece]:
    """Yield the file's records, a million at a time.

    Raises
    ------
    ColumnError
        If the file lacks a column, or has it twice.
    OSError
        If the file is damaged.
    """
    schema = _schema(path)
    require(columns, schema.names, str(path))
    chosen = {"columns": sorted(set(columns)), "use_threads": False}
    texts = (columns.user, columns.action)
    dictionaries = [name for name in texts if not pa.types.is_nested(schema.field(name).type)]
    try:
        with pq.ParquetFile(
            path, read_dictionary=dictionaries, page_checksum_verification=True
        ) as file:
            for batch in file.iter_batches(BATCH_ROWS, **chosen):
                yield _parquet_piece(batch, columns)
    except _DAMAGE as error:
        raise OSError(str(error)) from error


def read_parquet_rows(path: str | Path, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows with all their columns, so many at a time.

    Raises
    ------
    OSError
        If the file is damaged.
    """
    check_name(path)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield from file.iter_batches(batch_rows, use_threads=False)
    except _DAMAGE as error:
        raise OSError(str(error)) from error


def _schema(path: str | Path) -> pa.Schema:
    check_name(path)
    try:
        return pq.read_schema(path)
    except _DAMAGE as error:
        raise OSError(str(error)) from error


def _parquet_piece(batch: pa.RecordBatch, columns: Columns) -> Piece:
    def raw(chosen: NDArray[np.intp]) -> list[str]:
        rows = batch.take(pa.array(chosen))
        values = zip(*(_values(column) for column in rows.columns), strict=True)
        records = (dict(zip(rows.schema.names, each, strict=True)) for each in values)
        return [json.dumps(record, default=str, ensure_ascii=False) for record in records]

    times, users, actions = (_checked(batch.column(name)) for name in columns)
    return Piece(times, users, actions, raw, size_bytes=batch.nbytes)


def _checked(column: pa.Array) -> pa.Array:
    """Return the column; a damaged page can point outside its dictionary."""
    if not pa.types.is_dictionary(column.type):
        return column
    return pa.DictionaryArray.from_arrays(column.indices, column.dictionary)


def _values(column: pa.Array) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):  # text that is no UTF-8, or a year beyond Python's last
        texts = column.cast(pa.string()).cast(pa.binary()).to_pylist()
        return [None if text is None else text.decode("utf-8", "replace") for text in texts]
