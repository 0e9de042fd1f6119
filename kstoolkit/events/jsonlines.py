"""JSON lines: one object a line.

Whole chunks of lines go through Arrow's parser. Where one line of a chunk is not what it should
be, that chunk alone is read line by line, which finds the culprit and keeps its raw text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from kstoolkit.events.opening import open_stream
from kstoolkit.events.pieces import Columns, Piece

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["read_json_lines"]

CHUNK_BYTES = 8 << 20
LONGEST_LINE_BYTES = 32 << 20
_NEWLINE, _OPEN, _CLOSE = 10, ord("{"), ord("}")
_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_TEXT = pa.string()


def read_json_lines(
    path: str | Path, columns: Columns, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Piece]:
    """Yield the file's records, some megabytes at a time.

    Raises
    ------
    OSError
        If the file can't be read to its end; what was yielded before is of a damaged file.
    """
    types = dict.fromkeys(columns, _TEXT)
    for chunk, too_long in _chunks(path, chunk_bytes):
        piece = _parsed(chunk, columns, types) if not too_long else None
        if piece is None:
            piece, types = _line_by_line(chunk, columns, types)
        yield piece


def _chunks(path: str | Path, chunk_bytes: int) -> Iterator[tuple[bytes, bool]]:
    """Yield runs of whole lines; a line beyond all limits comes alone, cut, and is marked."""
    rest, skipping = b"", False
    with open_stream(path) as stream:
        while read := stream.read(chunk_bytes):
            head, newline, tail = read.rpartition(b"\n")
            if skipping:
                _, newline, kept = read.partition(b"\n")
                skipping = not newline
                rest = kept
                continue
            if newline:
                yield rest + head, False
                rest = tail
            else:
                rest += read
            if len(rest) > LONGEST_LINE_BYTES:
                yield rest[:LONGEST_LINE_BYTES], True
                rest, skipping = b"", True
    if rest.strip():
        yield rest, False


def _parsed(chunk: bytes, columns: Columns, types: dict[str, pa.DataType]) -> Piece | None:
    """Parse a chunk at once; ``None`` if a row could be anything but exactly one line."""
    lines = _Lines.of(chunk)
    if not lines.one_object_each or not _is_utf8(chunk):
        return None
    if not len(lines.starts):
        return Piece(*(pa.array([], _TEXT),) * 3, lines.raw, [], len(chunk))
    schema = pa.schema([pa.field(name, kind) for name, kind in types.items()])
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    # Twice the length: a block must hold the longest row and its successor's start.
    read = pj.ReadOptions(use_threads=False, block_size=2 * len(chunk) + 64)
    try:
        table = pj.read_json(pa.BufferReader(chunk), read, parse)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines.starts):
        return None
    arrays = (_one(table.column(name)) for name in columns)
    return Piece(*arrays, lines.raw, [], len(chunk))


def _line_by_line(
    chunk: bytes, columns: Columns, types: dict[str, pa.DataType]
) -> tuple[Piece, dict[str, pa.DataType]]:
    """Parse each line on its own, and learn the types from the first good one."""
    rows: list[dict[str, Any]] = []
    lines: list[bytes] = []
    unparseable: list[tuple[str, str]] = []
    for line in chunk.split(b"\n"):
        if not line.strip():
            continue
        try:
            rows.append(_record(line))
            lines.append(line)
        except (ValueError, RecursionError) as error:
            unparseable.append((line.decode("utf-8", "replace"), str(error)))
    values = [[_text(row.get(name)) for row in rows] for name in columns]
    learnt = {name: _TYPES.get(type(rows[0].get(name)), types[name]) for name in columns if rows}

    def raw(chosen: NDArray[np.intp]) -> list[str]:
        return [lines[place].decode("utf-8", "replace") for place in chosen]

    arrays = (pa.array(column, _TEXT) for column in values)
    return Piece(*arrays, raw, unparseable, len(chunk)), {**types, **learnt}


def _record(line: bytes) -> dict[str, Any]:
    record = json.loads(line.decode())
    if not isinstance(record, dict):
        message = f"a JSON object was expected, not {type(record).__name__}"
        raise ValueError(message)  # noqa: TRY004 - one error for all that is wrong with a line
    json.dumps(record, ensure_ascii=False).encode()  # lone surrogates have no UTF-8
    return record


def _text(value: Any) -> str | None:
    """Return a value as text, as the chunk-wise parser and a cast would."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return pa.scalar(value).cast(_TEXT).as_py() if isinstance(value, float) else str(value)
    return value if isinstance(value, str) else None


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_utf8(chunk: bytes) -> bool:
    if chunk.isascii():
        return True
    try:
        chunk.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Lines:
    """Where the lines of a chunk that hold something begin and end."""

    __slots__ = ("chunk", "ends", "one_object_each", "starts")

    def __init__(
        self, chunk: bytes, starts: NDArray[np.intp], ends: NDArray[np.intp], *, whole: bool
    ) -> None:
        self.chunk, self.starts, self.ends, self.one_object_each = chunk, starts, ends, whole

    @classmethod
    def of(cls, chunk: bytes) -> _Lines:
        """Find the lines, and whether each begins with { and ends with }.

        If each does, no row of the parser can be anything but one line, given that there are as
        many rows as lines: after a closing brace, nothing inside an object may go on with an
        opening one.
        """
        data = np.frombuffer(chunk, dtype=np.uint8)
        breaks = np.flatnonzero(data == _NEWLINE)
        starts = np.r_[0, breaks + 1]
        ends = np.r_[breaks, len(data)]
        returns = (ends > starts) & (data[np.maximum(ends - 1, 0)] == ord("\r")) if len(data) else False
        ends = ends - returns
        filled = ends > starts
        starts, ends = starts[filled], ends[filled]
        whole = bool(((data[starts] == _OPEN) & (data[ends - 1] == _CLOSE)).all())
        return cls(chunk, starts, ends, whole=whole)

    def raw(self, chosen: NDArray[np.intp]) -> list[str]:
        """Return the chosen lines."""
        return [
            self.chunk[self.starts[place] : self.ends[place]].decode("utf-8", "replace")
            for place in chosen
        ]
