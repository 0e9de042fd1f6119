"""JSON lines: one object a line.

Whole chunks of lines go through Arrow's parser. Where a line of a chunk is not what it should be,
the chunk is halved until the culprit's neighbours are few; these are read line by line, which
keeps the raw text of each bad one. Both ways read a good line alike.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from kstoolkit.events.jsonchunks import (
    CHUNK_BYTES,
    LONGEST_LINE_BYTES,
    Lines,
    chunks_of,
    shown,
)
from kstoolkit.events.pieces import Piece
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.events.pieces import Columns


_FEW_BYTES = 64 << 10
_MOST_DIGITS = 4_000
"""Python turns no longer number into an int."""

_TEXT = pa.string()
_TYPES = {str: _TEXT, int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
Types = dict[str, pa.DataType]
"""The type of each field that is read."""


def read_json_lines(
    path: str | Path,
    columns: Columns,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    longest_bytes: int = LONGEST_LINE_BYTES,
) -> Iterator[Piece]:
    """Yield the file's records, some megabytes at a time.

    Parameters
    ----------
    path
        The file, plain or compressed. A byte order mark at its start is passed over.
    columns
        Which fields are what.
    chunk_bytes
        How much is read at a time.
    longest_bytes
        A longer line is not parsed; its beginning becomes a dead letter.

    Raises
    ------
    OSError
        If the file can't be read to its end; what was yielded before is of a damaged file.
    """
    types: Types = dict.fromkeys(columns, _TEXT)
    for chunk in chunks_of(path, chunk_bytes, longest_bytes):
        yield from _pieces(chunk, columns, types, longest_bytes)


def read_json_texts(path: str | Path) -> Iterator[tuple[list[str], list[tuple[str, str]]]]:
    """Yield the file's records as text, one JSON object each, and (raw text, why) of what is none.

    For parsers that take more than that: Spark's passes over what follows an object, and takes
    single quotes.

    Raises
    ------
    OSError
        If the file can't be read to its end; what was yielded before is of a damaged file.
    """
    for chunk in chunks_of(path, CHUNK_BYTES, LONGEST_LINE_BYTES):
        lines = Lines.of(chunk)
        if lines.may_be_objects(LONGEST_LINE_BYTES) and rows_in(chunk) == len(lines.starts):
            yield lines.raw(np.arange(len(lines.starts))), []
        else:
            yield _sifted_lines(chunk)


def rows_in(chunk: bytes) -> int | None:
    """Return how many objects a chunk holds; ``None`` if not all of it is such."""
    try:
        return _parsed(chunk, {}).num_rows if chunk.strip() else 0
    except pa.ArrowInvalid:
        return None


def _sifted_lines(chunk: bytes) -> tuple[list[str], list[tuple[str, str]]]:
    good, bad = [], []
    for line in chunk.split(b"\n"):
        if not line.strip() and len(line) <= LONGEST_LINE_BYTES:
            continue
        try:
            parse_record(line, (), LONGEST_LINE_BYTES)
            good.append(shown(line))
        except ValueError as error:
            bad.append((shown(line), str(error)))
    return good, bad


def _pieces(chunk: bytes, columns: Columns, types: Types, longest_bytes: int) -> Iterator[Piece]:
    """Parse a chunk at once; else its halves; else line by line."""
    piece = parse_chunk(chunk, columns, types, longest_bytes)
    middle = chunk.find(b"\n", len(chunk) // 2) if piece is None else -1
    if piece is not None:
        yield piece
    elif len(chunk) <= _FEW_BYTES or middle < 0:
        yield _line_by_line(chunk, columns, types, longest_bytes)
    else:
        yield from _pieces(chunk[:middle], columns, types, longest_bytes)
        yield from _pieces(chunk[middle + 1 :], columns, types, longest_bytes)


def parse_chunk(chunk: bytes, columns: Columns, types: Types, longest_bytes: int) -> Piece | None:
    """Parse a chunk at once; ``None`` if a row could be anything but exactly one line."""
    lines = Lines.of(chunk)
    if not lines.may_be_objects(longest_bytes):
        return None
    if not len(lines.starts):
        return Piece(*(pa.array([], _TEXT),) * 3, lines.raw, size_bytes=len(chunk))
    try:
        table = _parsed(chunk, types)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines.starts):
        return None
    times, users, actions = (_one(table.column(name)) for name in columns)
    return Piece(times, users, actions, lines.raw, size_bytes=len(chunk))


def _parsed(chunk: bytes, types: Types) -> pa.Table:
    """Return the fields that have a type; other fields are passed over, however deep they are."""
    schema = pa.schema([pa.field(name, kind) for name, kind in types.items()])
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    # Twice the length: a block must hold the longest row and its successor's start.
    read = pj.ReadOptions(use_threads=False, block_size=2 * len(chunk) + 64)
    return pj.read_json(pa.BufferReader(chunk), read, parse)


def _line_by_line(chunk: bytes, columns: Columns, types: Types, longest_bytes: int) -> Piece:
    """Parse each line on its own, and learn the types from the first good one."""
    rows: list[dict[str, Any]] = []
    lines: list[bytes] = []
    unparseable: list[tuple[str, str]] = []
    for line in chunk.split(b"\n"):
        if not line.strip() and len(line) <= longest_bytes:
            continue
        try:
            rows.append(parse_record(line, columns, longest_bytes))
            lines.append(line)
        except ValueError as error:
            unparseable.append((shown(line), str(error)))
    if rows:
        types.update(learnt(rows[0], columns))
    texts = [pa.array([text_of(row.get(name)) for row in rows], _TEXT) for name in columns]

    def raw(chosen: NDArray[np.intp]) -> list[str]:
        return [shown(lines[place]) for place in chosen]

    return Piece(texts[0], texts[1], texts[2], raw, unparseable, len(chunk))


def parse_record(line: bytes, columns: Iterable[str], longest_bytes: int) -> dict[str, Any]:
    """Return the object that a line, or a value of several lines, is.

    Raises
    ------
    ValueError
        If it is no single JSON object, or a longer one.
    """
    if len(line) > longest_bytes:
        message = f"a line longer than {format_bytes(longest_bytes)}"
        raise ValueError(message)
    text = line.decode()
    try:
        record = json.loads(text, parse_int=_integer)
        if "\\u" in text:
            json.dumps(record, ensure_ascii=False).encode()  # lone surrogates have no UTF-8
    except RecursionError:
        return _deep(line, columns)
    if not isinstance(record, dict):
        message = f"a JSON object was expected, not {type(record).__name__}"
        raise ValueError(message)  # noqa: TRY004 - one error for all that is wrong with a line
    return record


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


def _deep(line: bytes, columns: Iterable[str]) -> dict[str, Any]:
    """Read the columns alone: Arrow's parser does not recurse, but wants to know their types."""
    if _parsed(line, {}).num_rows != 1 or not line.rstrip().endswith(b"}"):
        message = "more than one JSON value in a line"
        raise ValueError(message)
    record: dict[str, Any] = {}
    for name in columns:
        for kind in _TYPES.values():
            try:
                record.setdefault(name, _parsed(line, {name: kind}).column(name)[0].as_py())
            except pa.ArrowInvalid:
                continue
    return record


def learnt(record: dict[str, Any], columns: Columns) -> Types:
    """Return the types of a record's fields, as far as columns of them read like single values.

    Users and actions that are fractions do not: an int among them would lose digits.
    """
    kinds = {name: _TYPES.get(type(record.get(name))) for name in columns}
    return {
        name: kind
        for name, kind in kinds.items()
        if kind is not None and (kind != pa.float64() or name == columns.event_time)
    }


def text_of(value: Any) -> str | None:
    """Return a value as text, as the chunk-wise parser and a cast would."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return value if isinstance(value, str) else None


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
