"""How JSON is read: files of one object a line, and values of one object each, as in a topic.

Whole chunks of lines go through Arrow's parser. Where a line of a chunk is not what it should be,
the chunk is halved until its neighbours are few; these are read line by line, which keeps the raw
text of each bad one. Both ways read a good line alike.

Values go through the same parser, so a field reads alike wherever it comes from; but a value may be
of several lines, and which record is the bad one must be known by its place.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kstoolkit.events.event import Piece, in_columns
from kstoolkit.events.opening import BOM, Part, open_stream
from kstoolkit.formats.columns import is_utf8
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.events.event import Actions, Columns

_CHUNK_BYTES = 8 << 20
LONGEST_LINE_BYTES = 32 << 20
_NEWLINE, _RETURN, _OPEN, _CLOSE = b"\n\r{}"


def chunks_of(
    path: str | Path,
    chunk_bytes: int = _CHUNK_BYTES,
    longest_bytes: int = LONGEST_LINE_BYTES,
    part: Part | None = None,
) -> Iterator[bytes]:
    """Yield runs of whole lines; of a line that is too long, a beginning that is too long."""
    held, skipping = b"", False
    with open_stream(path, part) as stream:
        begin = stream.read(len(BOM)).removeprefix(BOM)
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


class Lines:
    """Where the lines of a chunk that hold something begin and end."""

    __slots__ = ("chunk", "ends", "longest_bytes", "one_object_each", "starts")

    def __init__(self, chunk: bytes) -> None:
        """Find the lines, and whether each begins with { and ends with }.

        If each does, no row of the parser can be anything but one line, given as many rows as
        lines: after a closing brace, nothing inside an object may go on with an opening one.
        """
        data = np.frombuffer(chunk, dtype=np.uint8)
        breaks = np.flatnonzero(data == _NEWLINE)
        starts, ends = np.r_[0, breaks + 1], np.r_[breaks, len(data)]
        starts, ends = starts[ends > starts], ends[ends > starts]
        self.longest_bytes = int((ends - starts).max(initial=0))
        ends = ends - (data[ends - 1] == _RETURN)
        self.chunk, self.starts, self.ends = chunk, starts[ends > starts], ends[ends > starts]
        opened, closed = data[self.starts] == _OPEN, data[self.ends - 1] == _CLOSE
        self.one_object_each = bool(opened.all() and closed.all())

    def may_be_objects(self, longest_bytes: int) -> bool:
        """Whether a parser that takes as many rows from the chunk as it has lines took each line.

        Such a parser passes over NUL and over bytes that are no UTF-8, so there must be none.
        """
        are_likely = self.one_object_each and self.longest_bytes <= longest_bytes
        return are_likely and b"\0" not in self.chunk and is_utf8(self.chunk)

    def raw(self, chosen: NDArray[np.intp]) -> list[str]:
        """Return the chosen lines."""
        return [
            self.chunk[self.starts[place] : self.ends[place]].decode("utf-8", "replace")
            for place in chosen
        ]


_FEW_BYTES = 64 << 10
_MOST_DIGITS = 4_000  # Python turns no longer number into an int
_TEXT = pa.string()
_TYPES = {str: _TEXT, int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
Types = dict[str, pa.DataType]  # the type of each field that is read


def read_json_lines(
    path: str | Path,
    columns: Columns,
    part: Part | None = None,
    *,
    chunk_bytes: int = _CHUNK_BYTES,
    longest_bytes: int = LONGEST_LINE_BYTES,
) -> Iterator[Piece]:
    """Yield the file's records, or a part's, some megabytes at a time.

    A byte order mark at its start is passed over. A line longer than ``longest_bytes`` is not
    parsed; its beginning becomes a dead letter. If the file can't be read to its end (OSError),
    what was yielded before is of a damaged file.
    """
    types: Types = dict.fromkeys(columns, _TEXT)
    for chunk in chunks_of(path, chunk_bytes, longest_bytes, part):
        yield from _pieces(chunk, columns, types, longest_bytes)


def read_json_texts(path: str | Path) -> Iterator[tuple[list[str], list[tuple[str, str]]]]:
    """Yield the file's records as text, one JSON object each, and (raw text, why) of what is none.

    For parsers that take more: Spark's passes over what follows an object, and takes single quotes.
    If the file can't be read to its end (OSError), what was yielded is of a damaged file.
    """
    for chunk in chunks_of(path):
        lines = Lines(chunk)
        if lines.may_be_objects(LONGEST_LINE_BYTES) and _rows_in(chunk) == len(lines.starts):
            yield lines.raw(np.arange(len(lines.starts))), []
        else:
            good, bad = list[str](), list[tuple[str, str]]()
            for text, found in _each_line(chunk, (), LONGEST_LINE_BYTES):
                bad += [(text, found)] if isinstance(found, str) else []
                good += [] if isinstance(found, str) else [text]
            yield good, bad


def _rows_in(chunk: bytes) -> int | None:
    """Return how many objects a chunk holds; ``None`` if not all of it is such."""
    try:
        return _parsed(chunk, {}).num_rows if chunk.strip() else 0
    except pa.ArrowInvalid:
        return None


def _each_line(
    chunk: bytes, columns: Iterable[str], longest_bytes: int
) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Yield each line that holds something, with the object that it is, or why it is none."""
    for line in chunk.split(b"\n"):
        if line.strip() or len(line) > longest_bytes:
            shown = line.removesuffix(b"\r").decode("utf-8", "replace")  # whatever its bytes are
            yield shown, _record_or_why(line, columns, longest_bytes)


def _record_or_why(text: bytes, columns: Iterable[str], longest_bytes: int) -> dict[str, Any] | str:
    try:
        return _parse_record(text, columns, longest_bytes)
    except ValueError as error:
        return str(error)


def _pieces(chunk: bytes, columns: Columns, types: Types, longest_bytes: int) -> Iterator[Piece]:
    """Parse a chunk at once; else its halves; else line by line."""
    piece = _parse_chunk(chunk, columns, types, longest_bytes)
    middle = chunk.find(b"\n", len(chunk) // 2) if piece is None else -1
    if piece is not None:
        yield piece
    elif len(chunk) <= _FEW_BYTES or middle < 0:
        # Each line on its own, and the types are learnt from the first good one.
        told = list(_each_line(chunk, columns, longest_bytes))
        bad = [(text, why) for text, why in told if isinstance(why, str)]
        good = [(text, found) for text, found in told if not isinstance(found, str)]
        read = _columns_of([record for _, record in good], columns, types)
        yield Piece(*read, lambda chosen: [good[place][0] for place in chosen], bad)
    else:
        yield from _pieces(chunk[:middle], columns, types, longest_bytes)
        yield from _pieces(chunk[middle + 1 :], columns, types, longest_bytes)


def _parse_chunk(chunk: bytes, columns: Columns, types: Types, longest_bytes: int) -> Piece | None:
    """Parse a chunk at once; ``None`` if a row could be anything but exactly one line."""
    lines = Lines(chunk)
    if not lines.may_be_objects(longest_bytes):
        return None
    if not len(lines.starts):
        nothing = in_columns(pa.array([], _TEXT) for _ in columns)
        return Piece(*nothing, lines.raw)
    try:
        table = _parsed(chunk, types).combine_chunks()
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines.starts):
        return None
    found = in_columns(table[name].chunk(0) for name in columns)
    return Piece(*found, lines.raw)


def _parsed(chunk: bytes, types: Types) -> pa.Table:
    """Return the fields that have a type; other fields are passed over, however deep they are."""
    schema = pa.schema([pa.field(name, kind) for name, kind in types.items()])
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    # Twice the length: a block must hold the longest row and its successor's start.
    read = pj.ReadOptions(use_threads=False, block_size=2 * len(chunk) + 64)
    return pj.read_json(pa.BufferReader(chunk), read, parse)


def _columns_of(
    records: list[dict[str, Any]], columns: Columns, types: Types
) -> tuple[pa.Array, pa.Array, Actions]:
    """Return the columns as text, and learn their types from the first record."""
    if records:
        types.update(_learnt(records[0], columns))
    told = ([_text_of(each.get(name)) for each in records] for name in columns)
    return in_columns(pa.array(texts, _TEXT) for texts in told)


def _parse_record(line: bytes, columns: Iterable[str], longest_bytes: int) -> dict[str, Any]:
    """Return the object that a line, or a value of several, is; or say why not: ValueError."""
    if len(line) > longest_bytes:
        message = f"a line longer than {format_bytes(longest_bytes)}"
        raise ValueError(message)
    text = line.decode()
    try:
        record = json.loads(text, parse_int=lambda n: int(n) if len(n) <= _MOST_DIGITS else n)
        if "\\u" in text:
            json.dumps(record, ensure_ascii=False).encode()  # lone surrogates have no UTF-8
    except RecursionError:
        return _deep(line, columns)
    if not isinstance(record, dict):
        message = f"a JSON object was expected, not {type(record).__name__}"
        raise ValueError(message)  # noqa: TRY004 - one error for all that is wrong with a line
    return record


def _deep(line: bytes, columns: Iterable[str]) -> dict[str, Any]:
    """Read the columns alone: Arrow's parser does not recurse, but wants to know their types."""
    if _parsed(line, {}).num_rows != 1 or not line.rstrip().endswith(b"}"):
        message = "more than one JSON value in a line"
        raise ValueError(message)
    record: dict[str, Any] = {}
    for name in columns:
        for kind in _TYPES.values():
            with suppress(pa.ArrowInvalid):
                record.setdefault(name, _parsed(line, {name: kind}).column(name)[0].as_py())
    return record


def _learnt(record: dict[str, Any], columns: Columns) -> Types:
    """Return the types of a record's fields, as far as columns of them read like single values.

    Users and actions that are fractions do not: an int among them would lose digits.
    """
    kinds = {name: _TYPES.get(type(record.get(name))) for name in columns}
    return {
        name: kind
        for name, kind in kinds.items()
        if kind is not None and (kind != pa.float64() or name == columns.event_time)
    }


def _text_of(value: Any) -> str | None:
    """Return a value as text, as the chunk-wise parser and a cast would."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return value if isinstance(value, str) else None


_FEW = 64
_IN_QUOTES = rb'(?:[^"\\\r\n]|\\[^\r\n])*'
_BROKEN_NAME = rb'\A(?:[^"]|"' + _IN_QUOTES + rb'")*"' + _IN_QUOTES + rb"\\?[\r\n]"
_NO_VALUE = "the record has no value"


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Some values that could be read, and those around them that could not.

    ``rows`` are places among those given; ``unreadable`` (place, why) of what is no JSON object.
    """

    times: pa.Array
    users: pa.Array
    actions: Actions
    rows: NDArray[np.intp]
    unreadable: list[tuple[int, str]] = field(default_factory=list)


def read_json_values(values: pa.Array, columns: Columns, types: Types) -> Iterator[Values]:
    """Yield what the values say, as many at once as can be parsed at once.

    They are binary, one a record; one that is null, or nothing but spaces, is no object. ``types``
    are those of the fields, text to begin with: what is learnt of them is kept there.

    >>> from kstoolkit.events.event import Columns
    >>> values = pa.array([b'{"t": 1, "u": "Ann", "a": "x"}', b"no", None])
    >>> columns, text = Columns("t", "u", "a"), pa.string()
    >>> for part in read_json_values(values, columns, dict.fromkeys(columns, text)):
    ...     print(part.users.to_pylist(), part.rows.tolist(), [row for row, _ in part.unreadable])
    ['Ann'] [0] [1, 2]
    """
    yield from _read_values(_flat(values), 0, columns, types)


def unreadable_values(values: pa.Array) -> list[tuple[int, str]]:
    """Return (place, why) of the values that :func:`read_json_values` would not read.

    For values that another parser reads, so that both judge alike: Spark's passes over what follows
    an object, takes single quotes, and minds no bytes that are no UTF-8.

    >>> [place for place, _ in unreadable_values(pa.array([b'{"a": 1}', b"{'a': 1}", None]))]
    [1, 2]
    """
    return list(_unreadable(_flat(values), 0))


def _unreadable(values: pa.Array, first: int) -> Iterator[tuple[int, str]]:
    """Look at values at once; else at each half; else one by one."""
    if _are_objects(values):
        return
    if len(values) <= _FEW:
        yield from _sifted_values(values, first, ())[1]
        return
    middle = len(values) // 2
    yield from _unreadable(values.slice(0, middle), first)
    yield from _unreadable(values.slice(middle), first + middle)


def _are_objects(values: pa.Array) -> bool:
    if values.null_count:
        return False
    chunk = _joined(values)
    lines = Lines(chunk)
    if len(lines.starts) != len(values) or not lines.may_be_objects(LONGEST_LINE_BYTES):
        return not len(values)
    return _rows_in(chunk) == len(values)


def _flat(values: pa.Array) -> pa.Array:
    """Return values of one line each: between what a JSON text names, a line end is but a space.

    Inside of a name it is none of JSON's, and stays, so that the parser stumbles over it.
    """
    flat = pc.replace_substring(pc.replace_substring(values, b"\n", b" "), b"\r", b" ")
    if pc.all(pc.equal(flat, values)).as_py() is not False:
        return flat
    return pc.if_else(pc.match_substring_regex(values, _BROKEN_NAME), values, flat)


def _read_values(values: pa.Array, first: int, columns: Columns, types: Types) -> Iterator[Values]:
    """Parse values at once; else each half; else one by one."""
    if not len(values):
        return
    found = None if values.null_count else _at_once(values, first, columns, types)
    if found is not None:
        yield found
    elif len(values) <= _FEW:
        # Each on its own, and the types are learnt from the first good one.
        records, unreadable = _sifted_values(values, first, columns)
        read = _columns_of(list(records.values()), columns, types)
        yield Values(*read, np.array(list(records), np.intp), unreadable)
    else:
        middle = len(values) // 2
        yield from _read_values(values.slice(0, middle), first, columns, types)
        yield from _read_values(values.slice(middle), first + middle, columns, types)


def _at_once(values: pa.Array, first: int, columns: Columns, types: Types) -> Values | None:
    piece = _parse_chunk(_joined(values), columns, types, LONGEST_LINE_BYTES)
    if piece is None or len(piece.times) != len(values):
        return None
    rows = np.arange(first, first + len(values))
    return Values(piece.times, piece.users, piece.actions, rows)


def _joined(values: pa.Array) -> bytes:
    as_list = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    lines: pa.Scalar = pc.binary_join(as_list, pa.scalar(b"\n", values.type))[0]
    return bytes(lines.as_py())


def _sifted_values(
    values: pa.Array, first: int, columns: Iterable[str]
) -> tuple[dict[int, dict[str, Any]], list[tuple[int, str]]]:
    """Return the objects by their places, and (place, why) of what is none."""
    records: dict[int, dict[str, Any]] = {}
    unreadable: list[tuple[int, str]] = []
    for row, value in enumerate(values.to_pylist(), first):
        has_some = value is not None and value.strip()
        found = _record_or_why(value, columns, LONGEST_LINE_BYTES) if has_some else _NO_VALUE
        if isinstance(found, str):
            unreadable.append((row, found))
        else:
            records[row] = found
    return records, unreadable
