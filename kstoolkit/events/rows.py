"""Files as rows with their raw text, for those who name columns by SQL expressions.

JSON goes out line by line, unparsed: Spark parses it by the schema that the run fixed. CSV and
Parquet go out as columns. A file is read to its end before its first row goes out, so that of a
damaged one nothing is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from kstoolkit.events.csvfile import csv_header
from kstoolkit.events.dead_letters import storable
from kstoolkit.events.jsonchunks import CHUNK_BYTES, LONGEST_LINE_BYTES, chunks_of
from kstoolkit.events.jsonlines import read_json_texts
from kstoolkit.events.opening import WholeLineEnds, format_of, open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


RAW, FILE, NOW, BROKEN = "_raw", "_file", "_admitted_ms", "_broken"
"""Columns beside the file's own: raw text, path, the clock to judge by, what was wrong."""

_CHUNK_BYTES = 4 << 20
_DAMAGE = (OSError, pa.ArrowException, UnicodeDecodeError, KeyError)
"""What Arrow raises of files that are not what they should be; KeyError of a name that is twice."""

_Told = tuple[pa.RecordBatch, list[str] | None]
_FIRST_BYTES = 1 << 20


def row_types(path: str, file_format: str | None) -> pa.Schema:
    """Return the columns that rows of such files have, beside those of ours.

    JSON has none of its own here: its lines are parsed by Spark.
    """
    match format_of(path, file_format):
        case "parquet":
            return _plain(pq.read_schema(path))
        case "csv":
            return pa.schema([pa.field(name, pa.string()) for name in csv_header(path)])
        case "json":
            return pa.schema([])


def first_lines(path: str) -> list[str]:
    """Return the first lines of a file, at most a megabyte of them."""
    with open_stream(path) as stream:
        read = stream.read(_FIRST_BYTES)
    whole_lines, newline, _ = read.rpartition(b"\n")
    cut = len(read) == _FIRST_BYTES and newline
    return [
        line.decode("utf-8-sig", "replace")
        for line in (whole_lines if cut else read).split(b"\n")
        if line.strip()
    ]


def read_rows(
    path: str, admitted_ms: int, file_format: str | None, types: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows; of one that can't be read to its end, a single row that says so."""
    try:
        _read_to_the_end(path, file_format, types)
    except _DAMAGE as error:
        yield _with_ours(_nothing(types), path, admitted_ms, broken=[str(error)])
        return
    for batch, broken in _batches(path, file_format, types):
        if batch.num_rows:
            yield _with_ours(batch, path, admitted_ms, broken=broken)
    if format_of(path, file_format) == "csv":
        yield from _ragged(path, admitted_ms, types)


def _read_to_the_end(path: str, file_format: str | None, types: pa.Schema) -> None:
    if format_of(path, file_format) == "json":  # its lines are judged one by one, as they go out
        pieces: Iterator[object] = chunks_of(path, CHUNK_BYTES, LONGEST_LINE_BYTES)
    else:
        pieces = _batches(path, file_format, types)
    for _ in pieces:
        pass


def _batches(path: str, file_format: str | None, types: pa.Schema) -> Iterator[_Told]:
    """Yield the file's columns, a text column :data:`RAW` the last, and what is wrong with each."""
    match format_of(path, file_format):
        case "parquet":
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(use_threads=False):
                    yield _conformed(batch, types), None
        case "csv":
            if csv_header(path):
                yield from _csv(path, types)
        case "json":
            for good, bad in read_json_texts(path):
                yield _texts(good), None
                yield _texts([raw for raw, _ in bad]), [why for _, why in bad]


def _csv(path: str, types: pa.Schema) -> Iterator[_Told]:
    for batch in _open_csv(path, lambda _: "skip"):
        yield _conformed(batch, types), None


def _ragged(path: str, admitted_ms: int, types: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a row for each record that has more or fewer values than the header."""
    found: list[tuple[str, str]] = []

    def keep(row: pv.InvalidRow) -> str:
        told = f"{row.actual_columns} values in place of {row.expected_columns}"
        found.append((row.text or "", told))
        return "skip"

    if csv_header(path):
        for _ in _open_csv(path, keep):
            pass
    for text, told in found:
        nothing = [pa.nulls(1, field.type) for field in types]
        row = pa.record_batch([*nothing, pa.array([text])], names=[*types.names, RAW])
        yield _with_ours(row, path, admitted_ms, broken=[told])


def _open_csv(path: str, invalid: Callable[[pv.InvalidRow], str]) -> Iterator[pa.RecordBatch]:
    reading = pv.ReadOptions(use_threads=False, block_size=_CHUNK_BYTES)
    parsing = pv.ParseOptions(newlines_in_values=True, invalid_row_handler=invalid)
    converting = pv.ConvertOptions(column_types={name: pa.string() for name in csv_header(path)})
    with (
        pa.PythonFile(WholeLineEnds(open_stream(path)), "r") as stream,
        pv.open_csv(stream, reading, parsing, converting) as reader,
    ):
        yield from reader


def _texts(lines: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(lines, pa.string())], names=[RAW])


def _conformed(batch: pa.RecordBatch, types: pa.Schema) -> pa.RecordBatch:
    """Return the columns that the run fixed, in their types; one that a file lacks is null."""
    columns = [
        _cast(batch.column(field.name), field)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in types
    ]
    raw = pa.nulls(batch.num_rows, pa.string())  # told from the columns where it is needed
    return pa.record_batch([*columns, raw], names=[*types.names, RAW])


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column in the type that the run fixed, if that leaves what it means.

    A number cast to a timestamp would be taken for microseconds, whatever it counts.
    """
    if pa.types.is_temporal(column.type) != pa.types.is_temporal(field.type) and not (
        pa.types.is_string(column.type) or pa.types.is_string(field.type)
    ):
        message = f"its column {field.name!r} is {column.type}; this run's is {field.type}"
        raise pa.ArrowInvalid(message)
    return column.cast(field.type)


def _nothing(types: pa.Schema) -> pa.RecordBatch:
    columns = [pa.nulls(1, field.type) for field in types]
    return pa.record_batch([*columns, pa.array([""])], names=[*types.names, RAW])


def _with_ours(
    batch: pa.RecordBatch, path: str, admitted_ms: int, *, broken: list[str] | None = None
) -> pa.RecordBatch:
    rows = batch.num_rows
    return pa.record_batch(
        [
            *batch.columns,
            pa.repeat(pa.scalar(storable(path), pa.string()), rows),
            pa.repeat(pa.scalar(admitted_ms, pa.int64()), rows),
            pa.nulls(rows, pa.string()) if broken is None else pa.array(broken, pa.string()),
        ],
        names=[*batch.schema.names, FILE, NOW, BROKEN],
    )


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema with dictionaries as the texts that they stand for."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema([pa.field(field.name, field.type) for field in fields])
