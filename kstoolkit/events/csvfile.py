"""CSV with a header line; every value is text until it is judged."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pv

from kstoolkit.errors import ColumnError
from kstoolkit.events.judging import as_text
from kstoolkit.events.opening import open_stream
from kstoolkit.events.pieces import Columns, Piece

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["csv_header", "read_csv"]

CHUNK_BYTES = 8 << 20


def csv_header(path: str | Path) -> list[str]:
    """Return the names in the file's first line."""
    with open_stream(path) as stream:
        first = stream.read(CHUNK_BYTES).decode("utf-8-sig", "replace")
    return next(csv.reader(io.StringIO(first)), [])


def read_csv(path: str | Path, columns: Columns, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Piece]:
    """Yield the file's records, some megabytes at a time.

    Raises
    ------
    ColumnError
        If the header lacks a column.
    OSError
        If the file can't be read to its end.
    """
    header = csv_header(path)
    if not header:
        return
    for name in columns:
        if name not in header:
            raise ColumnError.missing(name, header, str(path))
    unparseable: list[tuple[str, str]] = []

    def skip(row: pv.InvalidRow) -> str:
        told = f"{row.actual_columns} values in place of {row.expected_columns}"
        unparseable.append((row.text or "", told))
        return "skip"

    reading = pv.ReadOptions(use_threads=False, block_size=chunk_bytes)
    parsing = pv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip)
    converting = pv.ConvertOptions(
        column_types=dict.fromkeys(header, pa.binary()), strings_can_be_null=False, check_utf8=False
    )
    try:
        with open_stream(path) as stream, pv.open_csv(stream, reading, parsing, converting) as reader:
            for batch in reader:
                yield _piece(batch, columns, unparseable)
                unparseable = []
    except pa.ArrowInvalid as error:
        raise OSError(str(error)) from error
    if unparseable:
        nothing = pa.array([], pa.string())
        yield Piece(nothing, nothing, nothing, lambda _: [], unparseable)


def _piece(batch: pa.RecordBatch, columns: Columns, unparseable: list[tuple[str, str]]) -> Piece:
    def raw(chosen: NDArray[np.intp]) -> list[str]:
        rows = batch.take(pa.array(chosen))
        values = [[v.decode("utf-8", "replace") for v in c.to_pylist()] for c in rows.columns]
        return [_line(row) for row in zip(*values, strict=True)]

    told = list(unparseable)
    unparseable.clear()
    arrays = (as_text(batch.column(name)) for name in columns)
    return Piece(*arrays, raw, told, batch.nbytes)


def _line(values: tuple[str, ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()
