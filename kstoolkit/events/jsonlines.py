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

from kstoolkit.events.opening import open_stream
from kstoolkit.events.pieces import Piece
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.events.pieces import Columns

__all__ = ["read_json_lines"]

CHUNK_BYTES = 8 << 20
LONGEST_LINE_BYTES = 32 << 20
_FEW_BYTES = 64 << 10
_MOST_DIGITS = 4_000
"""Python turns no longer number into an int."""

_BOM = b"\xef\xbb\xbf"
_NEWLINE, _RETURN, _OPEN, _CLOSE = b"\n\r{}"
_TEXT = pa.string()
_TYPES = {str: _TEXT, int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_Types = dict[str, pa.DataType]


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
    types: _Types = dict.fromkeys(columns, _TEXT)
    for chunk in _chunks(path, chunk_bytes, longest_bytes):
        yield from _pieces(chunk, columns, types, longest_bytes)


def _chunks(path: str | Path, chunk_bytes: int, longest_bytes: int) -> Iterator[bytes]:
    """Yield runs of whole lines; of a line that is too long, a beginning that is too long."""
    held, skipping = b"", False
    with open_stream(path) as stream:
        begin = stream.read(len(_BOM)).removeprefix(_BOM)
        while read := begin + stream.read(chunk_bytes):
            begin = b""
            if skipping:
                _, newline, read = read.partition(b"\n")
                skipping = not newline
            if skipping:
                continue
            lines, newline, rest = read.rpartition(b"\n")
            if newline:
                yield held + lines
                held = b""
            held += rest
            if len(held) > longest_bytes:
                yield held[: longest_bytes + 1]
                held, skipping = b"", True
    if held:
        yield held


def _pieces(chunk: bytes, columns: Columns, types: _Types, longest_bytes: int) -> Iterator[Piece]:
    """Parse a chunk at once; else its halves; else line by line."""
    piece = _parsed(chunk, columns, types, longest_bytes)
    middle = chunk.find(b"\n", len(chunk) // 2) if piece is None else -1
    if piece is not None:
        yield piece
    elif len(chunk) <= _FEW_BYTES or middle < 0:
        yield _line_by_line(chunk, columns, types, longest_bytes)
    else:
        yield from _pieces(chunk[:middle], columns, types, longest_bytes)
        yield from _pieces(chunk[middle + 1 :], columns, types, longest_bytes)


def _parsed(chunk: bytes, columns: Columns, types: _Types, longest_bytes: int) -> Piece | None:
    """Parse a chunk at once; ``None`` if a row could be anything but exactly one line."""
    lines = _Lines.of(chunk)
    if not lines.one_object_each or lines.longest_bytes > longest_bytes:
        return None
    if b"\0" in chunk or not _is_utf8(chunk):
        return None
    if not len(lines.starts):
        return Piece(*(pa.array([], _TEXT),) * 3, lines.raw, size_bytes=len(chunk))
    try:
        table = _read(chunk, types)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines.starts):
        return None
    times, users, actions = (_one(table.column(name)) for name in columns)
    return Piece(times, users, actions, lines.raw, size_bytes=len(chunk))


def _read(chunk: bytes, types: _Types) -> pa.Table:
    """Return the fields that have a type; other fields are passed over, however deep they are."""
    schema = pa.schema([pa.field(name, kind) for name, kind in types.items()])
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    # Twice the length: a block must hold the longest row and its successor's start.
    read = pj.ReadOptions(use_threads=False, block_size=2 * len(chunk) + 64)
    return pj.read_json(pa.BufferReader(chunk), read, parse)


def _line_by_line(chunk: bytes, columns: Columns, types: _Types, longest_bytes: int) -> Piece:
    """Parse each line on its own, and learn the types from the first good one."""
    rows: list[dict[str, Any]] = []
    lines: list[bytes] = []
    unparseable: list[tuple[str, str]] = []
    for line in chunk.split(b"\n"):
        if not line.strip() and len(line) <= longest_bytes:
            continue
        try:
            rows.append(_record(line, columns, longest_bytes))
            lines.append(line)
        except ValueError as error:
            unparseable.append((_shown(line), str(error)))
    if rows:
        types.update(_learnt(rows[0], columns))
    texts = [pa.array([_text(row.get(name)) for row in rows], _TEXT) for name in columns]

    def raw(chosen: NDArray[np.intp]) -> list[str]:
        return [_shown(lines[place]) for place in chosen]

    return Piece(texts[0], texts[1], texts[2], raw, unparseable, len(chunk))


def _record(line: bytes, columns: Columns, longest_bytes: int) -> dict[str, Any]:
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


def _deep(line: bytes, columns: Columns) -> dict[str, Any]:
    """Read the columns alone: Arrow's parser does not recurse, but wants to know their types."""
    if _read(line, {}).num_rows != 1 or not line.rstrip().endswith(b"}"):
        message = "more than one JSON value in a line"
        raise ValueError(message)
    record: dict[str, Any] = {}
    for name in columns:
        for kind in _TYPES.values():
            try:
                record.setdefault(name, _read(line, {name: kind}).column(name)[0].as_py())
            except pa.ArrowInvalid:
                continue
    return record


def _learnt(record: dict[str, Any], columns: Columns) -> _Types:
    """Return the types of a record's fields, as far as columns of them read like single values.

    Users and actions that are fractions do not: an int among them would lose digits.
    """
    kinds = {name: _TYPES.get(type(record.get(name))) for name in columns}
    return {
        name: kind
        for name, kind in kinds.items()
        if kind is not None and (kind != pa.float64() or name == columns.event_time)
    }


def _text(value: Any) -> str | None:
    """Return a value as text, as the chunk-wise parser and a cast would."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return value if isinstance(value, str) else None


def _shown(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")


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

    __slots__ = ("chunk", "ends", "longest_bytes", "one_object_each", "starts")

    def __init__(self, chunk: bytes, starts: NDArray[np.intp], ends: NDArray[np.intp]) -> None:
        self.chunk, self.starts, self.ends = chunk, starts, ends
        self.longest_bytes = int((ends - starts).max(initial=0))
        self.one_object_each = False

    @classmethod
    def of(cls, chunk: bytes) -> _Lines:
        """Find the lines, and whether each begins with { and ends with }.

        If each does, no row of the parser can be anything but one line, given that there are as
        many rows as lines: after a closing brace, nothing inside an object may go on with an
        opening one.
        """
        data = np.frombuffer(chunk, dtype=np.uint8)
        breaks = np.flatnonzero(data == _NEWLINE)
        starts, ends = np.r_[0, breaks + 1], np.r_[breaks, len(data)]
        filled = ends > starts
        lines = cls(chunk, starts[filled], ends[filled])
        lines.ends = lines.ends - (data[lines.ends - 1] == _RETURN)
        filled = lines.ends > lines.starts
        lines.starts, lines.ends = lines.starts[filled], lines.ends[filled]
        opened, closed = data[lines.starts] == _OPEN, data[lines.ends - 1] == _CLOSE
        lines.one_object_each = bool(opened.all() and closed.all())
        return lines

    def raw(self, chosen: NDArray[np.intp]) -> list[str]:
        """Return the chosen lines."""
        return [
            self.chunk[self.starts[place] : self.ends[place]].decode("utf-8", "replace")
            for place in chosen
        ]
