"""How CSV and Parquet files are read: column by column, in pieces, with each record's raw text.

Every value of a CSV file, which has a header line, is text until it is judged. Users and actions of
a Parquet file keep its own dictionaries.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from kstoolkit.events.event import Piece, in_columns, require
from kstoolkit.events.opening import Part, WholeLineEnds, check_name, damage_told, open_stream
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.events.event import Columns

_CHUNK_BYTES = 8 << 20
_HEADER_BYTES = 1 << 20
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_SUBSTITUTE = "\x1a"  # what ASCII has for a garbled character


def csv_header(path: str | Path) -> list[str]:
    """Return the names in the file's first line; none if there is nothing in it."""
    return _header(path)[0]


def read_csv(
    path: str | Path, columns: Columns, part: Part | None = None, *, chunk_bytes: int = _CHUNK_BYTES
) -> Iterator[Piece]:
    """Yield the records of a file, or of a part; none may be longer than ``chunk_bytes``.

    A byte order mark at its start is passed over. Raises what :func:`read_csv_rows` does.
    """
    header = csv_header(path)
    places = [header.index(name) for name in columns if name in header]
    for batch, unparseable in read_csv_rows(path, columns, part, chunk_bytes=chunk_bytes):
        found = in_columns(batch.column(place) for place in places)
        yield Piece(*found, partial(_lines, batch), unparseable)


def read_csv_rows(
    path: str | Path, columns: Columns, part: Part | None = None, *, chunk_bytes: int = _CHUNK_BYTES
) -> Iterator[tuple[pa.RecordBatch, list[tuple[str, str]]]]:
    """Yield the file's rows with all their columns, and (raw text, why) of records that are none.

    Columns are called by their place, from ``"0"`` on. What is not UTF-8 has a substitute, and none
    of ``columns`` has any of it. A header without one of ``columns``, or with two of a name, is a
    ColumnError; a file that can't be read to its end an OSError.
    """
    header, blank_lines = _header(path)
    if not header:
        return
    require(columns, header, str(path))
    ragged: list[tuple[str, str]] = []

    def skip(row: pv.InvalidRow) -> str:
        told = f"{row.actual_columns} values in place of {row.expected_columns}"
        ragged.append((_shown(row.text or ""), told))
        return "skip"

    event = replace(columns, items=())  # whatever is in an item, the event is one
    places = [header.index(name) for name in event]
    skipped_lines = 0 if part is not None and part[0] else blank_lines + 1
    options = _options(len(header), skipped_lines, chunk_bytes, skip)
    clean = _Clean(open_stream(path, part))
    try:
        with damage_told(), pa.PythonFile(clean, "r") as stream:
            for batch in pv.open_csv(stream, *options):
                told, ragged[:] = list(ragged), []
                garbled = clean.has_substituted
                yield _sifted(batch, places, told) if garbled else (batch, told)
    except OSError as error:
        if "straddl" not in str(error):
            raise
        longest = format_bytes(chunk_bytes)
        message = f"a record is longer than {longest}; is a quote never closed?"
        raise OSError(message) from error
    if ragged:
        nothing = pa.array([], pa.string())
        names = [str(place) for place in range(len(header))]
        yield pa.record_batch([nothing] * len(names), names), ragged


def _header(path: str | Path) -> tuple[list[str], int]:
    """Return the names in the first line that holds something, and how many lines precede it."""
    with open_stream(path) as stream:
        first = stream.read(_HEADER_BYTES).decode("utf-8-sig", "replace")
    try:
        for place, row in enumerate(csv.reader(io.StringIO(first, newline=""))):
            if row:
                return row, place
    except csv.Error as error:
        message = f"its first line is no CSV header: {error}"
        raise OSError(message) from error
    return [], 0


def _options(
    width: int, skipped_lines: int, chunk_bytes: int, skip: object
) -> tuple[pv.ReadOptions, pv.ParseOptions, pv.ConvertOptions]:
    # Columns go by number: names may be there twice, or not be UTF-8.
    names = [str(place) for place in range(width)]
    named = {"column_names": names, "skip_rows_after_names": skipped_lines}
    reading = pv.ReadOptions(use_threads=False, block_size=chunk_bytes, **named)
    parsing = pv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip)
    converting = pv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, check_utf8=False
    )
    return reading, parsing, converting


def _sifted(
    batch: pa.RecordBatch, places: list[int], unparseable: list[tuple[str, str]]
) -> tuple[pa.RecordBatch, list[tuple[str, str]]]:
    """Return the rows of a batch that are not garbled where it counts, and the others as raw."""
    found = [np.array(pc.match_substring(batch.column(place), _SUBSTITUTE)) for place in places]
    garbled = np.logical_or.reduce(found)
    texts = _lines(batch, np.flatnonzero(garbled))
    told = [*unparseable, *((text, "not UTF-8") for text in texts)]
    return batch.filter(pa.array(~garbled)), told


def _lines(batch: pa.RecordBatch, chosen: NDArray[np.intp]) -> list[str]:
    values = [column.to_pylist() for column in batch.take(pa.array(chosen)).columns]
    return [_shown(_line(row)) for row in zip(*values, strict=True)]


def _line(values: tuple[str, ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()


def _shown(text: str) -> str:
    return text.replace(_SUBSTITUTE, "\N{REPLACEMENT CHARACTER}")


class _Clean(WholeLineEnds):
    """Whole line ends, a substitute for each byte that is not UTF-8, and a line end at its end.

    Arrow can't tell of a row with too few values if it can't decode the row.
    """

    def __init__(self, stream: pa.NativeFile) -> None:
        super().__init__(stream)
        self.has_substituted = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._ready, self._next, self._has_begun = b"", b"", False

    def more(self, size: int) -> bytes:
        if not self._has_begun:
            self._has_begun, self._next = True, self._stream.read(size)
        while self._next and not self._ready:
            read, self._next = self._next, self._stream.read(size)
            self._ready = self._cleaned(read, is_last=not self._next)
        ready, self._ready = self._ready[:size], self._ready[size:]
        return ready

    def _cleaned(self, read: bytes, *, is_last: bool) -> bytes:
        if not read.isascii() or self._decoder.getstate()[0]:
            text = self._decoder.decode(read, final=is_last)
            text, number = _NOT_UTF8.subn(_SUBSTITUTE, text)
            self.has_substituted |= number > 0
            read = text.encode()
        return read + b"\n" if is_last and not read.endswith(b"\n") else read


_BATCH_ROWS = 1 << 20


def parquet_names(path: str | Path) -> list[str]:
    """Return the names of a file's columns."""
    return list(parquet_schema(path).names)


def parquet_parts(path: str, number: int) -> list[Part]:
    """Return up to so many parts of a file, each of row groups, of about as many rows."""
    with damage_told():
        known = pq.read_metadata(path)
    rows = np.array([known.row_group(place).num_rows for place in range(known.num_row_groups)])
    wanted = known.num_rows * np.arange(1, number) / number
    edges = {0, *np.searchsorted(rows.cumsum() - rows / 2, wanted).tolist(), len(rows)}
    return list(pairwise(sorted(edges)))


def read_parquet(path: str | Path, columns: Columns, part: Part | None = None) -> Iterator[Piece]:
    """Yield a million records at a time, of a part alone; an OSError says that it is damaged."""
    schema = parquet_schema(path)
    require(columns, schema.names, str(path))
    chosen = {"columns": sorted(set(columns)), "use_threads": False}
    _, *texts = columns
    dictionaries = [name for name in texts if not pa.types.is_nested(schema.field(name).type)]
    reading: dict[str, Any] = {"read_dictionary": dictionaries, "page_checksum_verification": True}
    groups = None if part is None else range(*part)
    with damage_told(), pq.ParquetFile(path, **reading) as file:
        for batch in file.iter_batches(_BATCH_ROWS, groups, **chosen):
            yield _parquet_piece(batch, columns)


def read_parquet_rows(path: str | Path, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows with all their columns, so many at a time."""
    check_name(path)
    with damage_told(), pq.ParquetFile(path, page_checksum_verification=True) as file:
        yield from file.iter_batches(batch_rows, use_threads=False)


def parquet_schema(path: str | Path) -> pa.Schema:
    """Return the file's columns; an OSError says that it is damaged."""
    check_name(path)
    with damage_told():
        return pq.read_schema(path)


def _parquet_piece(batch: pa.RecordBatch, columns: Columns) -> Piece:
    def raw(chosen: NDArray[np.intp]) -> list[str]:
        rows = batch.take(pa.array(chosen))
        values = zip(*(_values(column) for column in rows.columns), strict=True)
        records = (dict(zip(rows.schema.names, each, strict=True)) for each in values)
        return [json.dumps(record, default=str, ensure_ascii=False) for record in records]

    found = in_columns(_checked(batch.column(name)) for name in columns)
    return Piece(*found, raw)


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
