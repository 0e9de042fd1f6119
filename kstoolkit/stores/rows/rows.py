"""What a row of a store is: as its application would see it, as a record, a table, or JSON.

A row is never alone: rows are decoded some thousands at a time, in columns. What some kinds of
store hold beside key and value are a row's details. For people, what has parts is JSON, bytes are
hex, and times are text; lines of JSON are valid whatever a serde returns.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import repeat, starmap
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import HEADERS, ByteColumn, Decoded, RowColumns, Undecoded, except_at
from kstoolkit.formats.serdes import serde_of
from kstoolkit.moments import moment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from kstoolkit.formats.serdes import Serde


def value_text(value: Any) -> str:
    r"""Return a value in one line; texts in quotes, times in UTC without a zone.

    Bytes are in hex, as in the command line: ``0x00ff``; so is what can't be decoded, with why.

    >>> noon = datetime(2026, 3, 3, 12, tzinfo=UTC)
    >>> print(value_text({"user": "zoë", "window": {"start": noon}}))
    {"user": "zoë", "window": {"start": "2026-03-03 12:00:00"}}
    >>> print(value_text("zoë"), value_text(b"\x00\xff"), value_text(3.0), value_text(None))
    'zoë' 0x00ff 3.0 null
    >>> print(value_text(Undecoded(b"?", "1 byte, not 8")))
    0x3f (1 byte, not 8)
    """
    match value:
        case str():
            return repr(value)
        case Undecoded():
            return f"{_hex_text(value.raw)} ({value.why})"
        case bytes() | bytearray() | memoryview():
            return _hex_text(bytes(value))
        case datetime() | date() | time():
            return _time_text(value)
        case None | bool() | dict() | list() | tuple():
            return _json_text(value)
    return str(value)


def _hex_text(raw: bytes | None) -> str:
    return "null" if raw is None else f"0x{raw.hex()}"


def _moment_text(time_ms: int) -> str:
    """Return a moment, epoch ms UTC, as text without a zone.

    >>> _moment_text(60_000), _moment_text(2**62)
    ('1970-01-01 00:01:00.000', '4611686018427387904 ms')
    """
    try:
        moment = moment_of(time_ms)
    except OverflowError:  # there are times beyond the year 9999, as ends of windows
        return f"{time_ms} ms"
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_part_text)
    except (TypeError, ValueError, RecursionError):  # as of keys that are no text
        return repr(value)


def _part_text(value: Any) -> Any:
    """Return what stands for a value within JSON."""
    if isinstance(value, set | frozenset):
        return list(value)
    return value_text(value) if isinstance(value, _WITH_TEXT) else str(value)


def _time_text(value: date | datetime | time) -> str:
    if isinstance(value, datetime):
        in_utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return in_utc.isoformat(sep=" ")
    return value.isoformat()


_WITH_TEXT = (Undecoded, bytes, bytearray, memoryview, date, time)


def _origin_text(details: Mapping[str, Any]) -> str:
    """Return what belongs behind a row's key: for what, of which side, or from where it is."""
    if "foreign_key" in details:
        return f" for {value_text(details['foreign_key'])}, {details['instruction']}"
    if "side" in details:
        return f" {details['side']}"
    if "topic" in details:
        return f" from {details['topic']}-{details['partition']} at offset {details['offset']}"
    return ""


@dataclass(frozen=True, slots=True)
class StoreRow:
    """One row, as its application would see it.

    Parameters
    ----------
    key, value
        What the serdes made of the bytes: :class:`~kstoolkit.formats.columns.Undecoded` where they
        could make nothing of them. A value is None where the store holds none.
    window_start_ms, window_end_ms
        The window or session, epoch ms UTC; None where there is none, or where neither the store
        nor the user says when it ends.
    timestamp_ms, is_expiry
        The row's own time, epoch ms UTC, and whether that is when the row expires.
    headers
        Record headers, (name, value) each; None for a kind of store without them.
    key_bytes, value_bytes, problem
        The application's bytes; all on disk with a problem: why the row could not be taken apart.
    details
        What this kind of store holds beside that, by name: see
        :func:`~kstoolkit.stores.rows.rows._details_of`. Empty for most kinds.
    beside
        Whose a row of Spark's is, where its store has several: its ``family``, its ``partition``.
    """

    key: Any
    value: Any
    window_start_ms: int | None
    window_end_ms: int | None
    timestamp_ms: int | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    key_bytes: bytes
    value_bytes: bytes | None
    problem: str | None = None
    is_expiry: bool = field(default=False, kw_only=True)
    details: dict[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    beside: dict[str, Any] = field(default_factory=dict, kw_only=True, hash=False)

    @property
    def family(self) -> str | None:
        """The column family that it is of; None of a store without several."""
        return self.beside.get("family")

    @property
    def partition(self) -> int | None:
        """The partition that it is of; None of a store of one."""
        return self.beside.get("partition")

    def __str__(self) -> str:
        r"""Return the row as people read it.

        >>> print(StoreRow("a", 7, 0, 60_000, None, None, b"a", b"7"))
        'a' [1970-01-01 00:00:00.000 to 1970-01-01 00:01:00.000]: 7
        >>> print(StoreRow(b"\x00?", None, None, None, None, None, b"\x00?", b"", "too short"))
        0x003f: 0x (too short)
        >>> told = {"side": "left"}
        >>> print(StoreRow("a", 7, None, None, 0, None, b"a", b"7", details=told))
        'a' left at 1970-01-01 00:00:00.000: 7
        """
        family = "" if self.family is None else f"{self.family} "
        part = "" if self.partition is None else f" (partition {self.partition})"
        return f"{family}{self._text()}{part}"

    def _text(self) -> str:
        if self.problem is not None:  # which is what both cells would say
            raw = f"{_hex_text(self.key_bytes)}: {_hex_text(self.value_bytes)}"
            return f"{raw} ({self.problem})"
        window = at = valid = ""
        if self.window_start_ms is not None:
            end = "" if self.window_end_ms is None else f" to {_moment_text(self.window_end_ms)}"
            window = f" [{_moment_text(self.window_start_ms)}{end}]"
        if self.timestamp_ms is not None:
            at = f" {'until' if self.is_expiry else 'at'} {_moment_text(self.timestamp_ms)}"
        if "valid_to_ms" in self.details:  # until when a version was the valid one
            last_ms = self.details["valid_to_ms"]
            valid = ", still valid" if last_ms is None else f" until {_moment_text(last_ms)}"
        key = f"{value_text(self.key)}{_origin_text(self.details)}"
        return f"{key}{window}{at}{valid}: {value_text(self.value)}"

    def to_dict(self, store: str) -> dict[str, Any]:
        """Return the fields that ``kstoolkit rows --json`` prints; ``store`` is its name.

        ``details`` is among them only where the row has some.

        Examples
        --------
        >>> row = StoreRow("a", 7, 0, None, None, (("h", b"x"),), b"a", b"7")
        >>> row.to_dict("counts")["headers"], row.to_dict("counts")["value_hex"]
        ([['h', '78']], '37')
        """
        headers = self.headers
        fields = {
            "store": store,
            "key": self.key,
            "window_start_ms": self.window_start_ms,
            "window_end_ms": self.window_end_ms,
            "timestamp_ms": self.timestamp_ms,
            "value": self.value,
            "headers": None if headers is None else [[name, _hex(at)] for name, at in headers],
            "key_hex": self.key_bytes.hex(),
            "value_hex": _hex(self.value_bytes),
        }
        return fields | ({"details": self.details} if self.details else {}) | self.beside


def _hex(raw: bytes | None) -> str | None:
    return None if raw is None else raw.hex()


_DEEPEST = 100


def json_lines(rows: Iterable[StoreRow], store: str) -> Iterator[str]:
    r"""Yield one JSON object a row, without its line end.

    Numbers that JSON has no word for become text: ``"NaN"``, ``"Infinity"``. Bytes become
    ``{"hex": "…"}``, and those that a serde could not read ``{"hex": "…", "problem": "…"}``.

    >>> row = StoreRow(b"\x00", float("nan"), None, None, None, None, b"\x00", b"?")
    >>> found = json.loads(next(json_lines([row], "counts")))
    >>> found["key"], found["value"]
    ({'hex': '00'}, 'NaN')
    """
    return (json_text(row.to_dict(store)) for row in rows)


def json_text(value: Any) -> str:
    """Return a value as JSON, whatever it is, in ASCII alone, so that no locale can spoil it."""
    try:
        return _ENCODE(value)
    except (TypeError, ValueError, RecursionError):
        return _ENCODE(_plainer(value, 0))


def _plain_json(value: Any) -> Any:
    """Return what JSON can say of a value of a type that it doesn't know."""
    match value:
        case Undecoded():
            return {"hex": value.raw.hex(), "problem": value.why}
        case bytes() | bytearray() | memoryview():
            return {"hex": bytes(value).hex()}
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case set() | frozenset() | tuple():
            return list(value)
    return str(value)


def _plainer(value: Any, depth: int) -> Any:
    """Return a value without what JSON refuses: NaN, keys that are no text, endless nesting."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if depth > _DEEPEST:
        return "… nested too deep"
    if isinstance(value, dict):
        return {str(name): _plainer(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plainer(each, depth + 1) for each in value]
    return value


_ENCODE = json.JSONEncoder(allow_nan=False, default=_plain_json).encode

_MOST_ROWS = 8192
_MOST_BYTES = 4 << 20
_MOST_REPEATED_BYTES = 16 << 20


def row_batches(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[ByteColumn, ByteColumn]]:
    """Yield the keys and the values of some thousands of rows at a time, or of some megabytes.

    Rows up to damage among them come before its error.

    >>> [len(keys) for keys, _ in row_batches([(b"k", b"v")] * 10_000)]
    [8192, 1808]
    >>> [len(keys) for keys, _ in row_batches([(b"k", bytes(3 << 20))] * 3)]
    [2, 1]
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    held = 0
    damage: FormatError | None = None
    try:
        for key, value in rows:
            keys.append(key)
            values.append(value)
            held += len(key) + len(value)
            if held >= _MOST_BYTES or len(keys) == _MOST_ROWS:
                yield ByteColumn.of(keys), ByteColumn.of(values)
                keys, values, held = [], [], 0
    except FormatError as error:
        damage = error
    if keys:
        yield ByteColumn.of(keys), ByteColumn.of(values)
    if damage is not None:
        raise damage


def bounded(rows: RowColumns) -> Iterator[RowColumns]:
    """Yield rows in parts whose keys and values have some megabytes, however often one repeats.

    A row on disk may be many, as elements of a list or versions, which refer to one key: whoever
    copies them copies the key for each. Of a row on disk that is in two parts, the second's
    ``num_left_out`` is one less, so that all parts together count it once.
    """
    sizes_bytes = rows.key.lengths + rows.value.lengths
    before_bytes = np.cumsum(sizes_bytes) - sizes_bytes
    part = before_bytes // _MOST_REPEATED_BYTES
    if not len(part) or not part[-1]:
        yield rows
        return
    first = 0
    for end in [*(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]:
        chosen = np.zeros(len(rows), dtype=np.bool_)
        chosen[first:end] = True
        goes_on = bool(first) and bool(rows.row[first] == rows.row[first - 1])
        left_out = -int(goes_on) if first else rows.num_left_out
        yield replace(rows.take(chosen), num_left_out=left_out)
        first = end


_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8)


def in_hex(column: pa.Array) -> pa.Array:
    """Return an Arrow column of binary as text, two digits a byte; nulls stay null."""
    bare = ByteColumn.from_arrow(column).to_arrow()
    validity, offsets, data = bare.buffers()
    cells = np.frombuffer(data or b"", np.uint8)
    twice = np.frombuffer(offsets, np.int64) * 2
    texts = _HEX.reshape(256, 2)[cells].reshape(-1)
    buffers = [validity, pa.py_buffer(twice), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.large_string(), len(bare), buffers)


TIME = pa.timestamp("ms", "UTC")  # the type of moments in a table
_PLAIN = ("version", "primary_partition", "side", "segment_id", "topic")
# Spark's rows have a partition too, which is not of a topic: they tell it themselves.
_OF_TOPICS = ("partition", "offset")
_NOTHING = ByteColumn.of([])


@dataclass(frozen=True, slots=True, eq=False)
class Detail:
    """One detail of some rows.

    Parameters
    ----------
    cells
        The application's bytes; without any, if the store's format says what it is.
    decoded, is_time
        What it is, one a row, and whether that is a moment, in epoch ms UTC.
    """

    cells: ByteColumn
    decoded: Decoded
    is_time: bool = False

    def to_list(self) -> list[Any]:
        """Return one Python value a row; moments are epoch ms."""
        return self.decoded.to_list(self.cells)

    def to_arrow(self) -> pa.Array:
        """Return the column of a table; moments are such."""
        values = _typed(self.decoded)
        return values.cast(TIME) if self.is_time else values

    def take(self, chosen: NDArray[Any]) -> Detail:
        """Return the detail of the rows that a mask chooses."""
        cells = self.cells.take(chosen) if len(self.cells) else self.cells
        return Detail(cells, self.decoded.take(chosen), self.is_time)


def _details_of(rows: RowColumns, value: Serde, foreign_key: Serde) -> dict[str, Detail]:
    """Return what rows tell beside key and value, by name; null in those that are torn.

    ``foreign_key``, ``instruction``, ``hash`` (in hex), ``version`` and ``primary_partition`` of
    subscriptions; ``side`` of what waits in a join, ``right`` or ``left``; ``valid_to_ms``, None if
    it still is, and ``segment_id`` of versions; ``topic``, ``partition``, ``offset``, ``prior`` and
    ``old`` of a grace buffer, the latter two read as values are; ``sequence`` where rows of a key
    and window are numbered. The primary key that a subscription's value repeats is left out.

    >>> from kstoolkit.formats.streams.kinds import Kind
    >>> from kstoolkit.formats.streams.rows import split
    >>> key = ByteColumn.of([bytes.fromhex("0000018bcfe568000141")])
    >>> value = ByteColumn.of([bytes.fromhex("0100000001000000020178")])
    >>> pieces = split(Kind.LIST_VALUE, key, value)
    >>> found = _details_of(pieces, serde_of("string"), serde_of("long"))
    >>> {name: each.to_list() for name, each in found.items()}
    {'side': ['left']}
    """
    held = rows.details
    found: dict[str, Detail] = {}
    if "foreign_key" in held:
        found["foreign_key"] = _read_detail(held["foreign_key"], foreign_key)
        found["instruction"] = Detail(_NOTHING, Decoded(held["instruction"]))
        found["hash"] = Detail(_NOTHING, Decoded(in_hex(held["hash"])))
    if rows.valid_to_ms is not None:
        found["valid_to_ms"] = Detail(_NOTHING, Decoded(rows.valid_to_ms), is_time=True)
    names = (*_PLAIN, *(_OF_TOPICS if "topic" in held else ()))
    found |= {name: Detail(_NOTHING, Decoded(held[name])) for name in names if name in held}
    found |= {name: _read_detail(held[name], value) for name in ("prior", "old") if name in held}
    if "sequence" in held and pc.any(pc.not_equal(held["sequence"], 0)).as_py():
        found["sequence"] = Detail(_NOTHING, Decoded(held["sequence"]))
    return found


def _typed(decoded: Decoded) -> pa.Array:
    """Return values as an Arrow column; those of a serde without a type as JSON text."""
    values = decoded.values
    if not isinstance(values, list):
        return values
    texts = [None if value is None else json_text(value) for value in values]
    return pa.array(texts, pa.large_string())


def _read_detail(column: pa.Array, serde: Serde) -> Detail:
    cells = ByteColumn.from_arrow(column)
    return Detail(cells, serde.decode(cells))


BYTES = serde_of("bytes")


@dataclass(frozen=True, slots=True, eq=False)
class DecodedRows:
    """Rows of one store, column by column.

    Parameters
    ----------
    key, value
        What the serdes made of the application's bytes, one a row.
    details
        What the rows tell beside that, by name: one a row, too.
    """

    raw: RowColumns
    key: Decoded
    value: Decoded
    details: dict[str, Detail] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[StoreRow]:
        raw = self.raw
        columns = zip(
            self.key.to_list(raw.record_key),
            self.value.to_list(raw.record_value),
            _listed(raw.window_start_ms, len(self)),
            _listed(raw.window_end_ms, len(self)),
            _listed(raw.timestamp_ms, len(self)),
            map(_pairs, _listed(raw.headers, len(self))),
            raw.key.to_list(),
            raw.value.to_list(),
            (raw.problems.get(position) for position in range(len(self))),
            strict=True,
        )
        told = {name: each.to_list() for name, each in self.details.items()}
        beside = {name: column.to_pylist() for name, column in self._beside().items()}
        is_expiry = "expires" in raw.details
        if not (told or beside or is_expiry):
            return starmap(StoreRow, columns)
        rows = zip(columns, _by_row(told, len(self)), _by_row(beside, len(self)), strict=True)
        return (
            StoreRow(*cells, is_expiry=is_expiry, details={} if cells[-1] else held, beside=whose)
            for cells, held, whose in rows  # a torn one has no details
        )

    @property
    def num_undecoded(self) -> int:
        """In how many rows something could not be read."""
        return len(self.key.problems.keys() | self.value.problems.keys())

    def take(self, chosen: NDArray[np.bool_]) -> DecodedRows:
        """Return the rows that a mask chooses."""
        details = {name: each.take(chosen) for name, each in self.details.items()}
        key, value = self.key.take(chosen), self.value.take(chosen)
        return DecodedRows(self.raw.take(chosen), key, value, details)

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table.

        Keys and values have the type of their serde; where that has none of its own, as with JSON
        and a user's callable, they are JSON text. Where one could not be read it is null, and
        ``problem`` says why. Each detail has a column of its name; times have it without ``_ms``.
        Rows of column families tell their ``family``, and those of partitions their ``partition``.
        """
        raw = self.raw
        times = (raw.window_start_ms, raw.window_end_ms, raw.timestamp_ms)
        start, end, time = (
            pa.nulls(len(self), TIME) if each is None else each.cast(TIME) for each in times
        )
        columns = {
            "key": _typed(self.key),
            "window_start": start,
            "window_end": end,
            "timestamp": time,
            "value": _typed(self.value),
            "headers": pa.nulls(len(self), HEADERS) if raw.headers is None else raw.headers,
            "key_bytes": raw.key.to_arrow(),
            "value_bytes": raw.value.to_arrow(),
            "problem": self._problems(),
        }
        told = {name.removesuffix("_ms"): each.to_arrow() for name, each in self.details.items()}
        return pa.table(columns | told | self._beside())

    def _beside(self) -> dict[str, pa.Array]:
        """Return whose rows of Spark's are; a partition beside a topic is the topic's."""
        names = () if "topic" in self.raw.details else ("family", "partition")
        return {name: self.raw.details[name] for name in names if name in self.raw.details}

    def _problems(self) -> pa.Array:
        why: dict[int, str] = {}
        for part, decoded in (("value", self.value), ("key", self.key)):
            why |= {at: f"{part}: {reason}" for at, reason in decoded.problems.items()}
        why |= self.raw.problems
        if not why:
            return pa.nulls(len(self), pa.string())
        return pa.array([why.get(at) for at in range(len(self))], pa.string())


def decoded_rows(
    raw: RowColumns, key: Serde, value: Serde, *, foreign_key: Serde = BYTES
) -> DecodedRows:
    """Return rows with their keys and values read; what could not be taken apart stays bytes."""
    keys, values = _read(raw, raw.record_key, key), _read(raw, raw.record_value, value)
    return DecodedRows(raw, keys, values, _details_of(raw, value, foreign_key))


def _read(raw: RowColumns, column: ByteColumn, serde: Serde) -> Decoded:
    if not raw.problems:
        return serde.decode(column)
    torn = ~except_at(raw.problems, len(raw))
    # A serde may make something of torn bytes, as of a number's first half: it is not asked.
    bare = type(column)(column.data, column.starts, column.ends, column.is_null | torn)
    decoded = serde.decode(bare)
    return Decoded(decoded.values, decoded.problems | raw.problems)


def _by_row(columns: Mapping[str, list[Any]], length: int) -> Iterator[dict[str, Any]]:
    """Yield what each row has in some columns, by their names."""
    cells = zip(*columns.values(), strict=True) if columns else repeat((), length)
    return (dict(zip(columns, each, strict=True)) for each in cells)


def _listed(column: pa.Array | None, length: int) -> list[Any]:
    values: list[Any] = [None] * length if column is None else column.to_pylist()
    return values


def _pairs(headers: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...] | None:
    return None if headers is None else tuple((each["name"], each["value"]) for each in headers)
