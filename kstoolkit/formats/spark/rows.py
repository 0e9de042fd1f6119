"""What lies in the rows of Spark's state stores, once Spark's own wrapping is off.

Which of these layouts a store has, the files of its checkpoint say (:func:`layout_of`)::

    RocksDB       key: [family (2)] · row or rows
                  value, one row                  00 row
                  value, several                  [delimiter] · length (4) · 00 row · …
                  with checksums                  checksum (4) · length (4) · value · [delimiter] …
                  a key that is removed           checksum (4) · key
    HDFS-backed   key: row                        value: [checksum (4)] · row

Numbers are little-endian. RocksDB puts the delimiter between what it appends: ``,`` in checkpoints
made before ``mergeOperatorVersion`` was 2, nothing since (``MultiValuedStateEncoder``). Checksums
are there when ``rowChecksum.enabled`` is on: the CRC-32C of the key and the value, each as it would
be without checksums, and of the key alone where it is removed (``KeyValueChecksumEncoder``).

What is left of a key that is one row is that row; of one that is written in parts, or as bytes that
sort (:mod:`kstoolkit.formats.spark.keys`), what lies on disk behind the family. A list state's
value, and a side of a join in format 4, give one row an element. A family's serdes read key
and value, and among their columns are the row's times::

    window      a struct of two timestamps, start and end, in the key; in the value of sessions
    time        __event_time          key, microseconds     a joined row's event time
                expiryTimestampMs     key, milliseconds     when a timer fires
                expirationMs          key, or value         when what it names expires
                expiresAtMicros       value                 when a key may come again
                ttlExpirationMs       value                 when a state variable's value expires
                else the column that the watermark is kept on, in the value or the key
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn, RowColumns, except_at, said_of
from kstoolkit.formats.spark.checksums import crc32c, crc32c_of_both
from kstoolkit.formats.spark.keys import (
    FAMILY_BYTES,
    KeyEncoder,
    family_ids,
    key_serde,
    rows_behind_version,
)
from kstoolkit.formats.spark.types import Struct
from kstoolkit.formats.spark.unsaferow import read_rows, row_serde

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.formats.spark.logs import FamilySchema, OffsetLogEntry, OperatorMetadata

_LENGTH_BYTES = 4
_LENGTH = struct.Struct("<i")
_FEW = 64
_CUT_OFF = "an element that is longer than what is left of the value"


@dataclass(frozen=True, slots=True, eq=False)
class ValueRows:
    """The rows or elements that values hold, in the order of the values."""

    row: NDArray[np.intp]
    cell: ByteColumn
    problems: dict[int, str]


def _elements_of(values: ByteColumn, delimiter: bytes = b"", *, head_bytes: int = 0) -> ValueRows:
    """Return the elements of values, each behind its length and a head of so many bytes."""
    step = _Steps(values, head_bytes + _LENGTH_BYTES, len(delimiter))
    at, live = values.starts.copy(), np.flatnonzero(values.lengths > 0)
    found, wrong = [], list[int]()
    # One step takes an element of every value at once; few long values go faster one by one.
    while len(live) > _FEW:
        begin, end, fits = step.all_at(at[live], live)
        wrong += live[~fits].tolist()
        live, end = live[fits], end[fits]
        found.append(np.stack([live, begin[fits], end], axis=1))
        at[live] = end + len(delimiter)
        live = live[at[live] < values.ends[live]]
    for row in live.tolist():
        places = step.one(int(at[row]), int(values.ends[row]))
        wrong += [row] * (places is None)
        ends = np.array(places or (), np.int64).reshape(-1, 2)
        found.append(np.insert(ends, 0, row, axis=1))
    return _collected(values, found, wrong)


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """From one element to the next."""

    values: ByteColumn
    first: int
    gap: int

    def all_at(
        self, at: NDArray[np.int64], live: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return where the next element of each value begins and ends, and whether it fits."""
        last = self.values.ends[live]
        begin = at + self.first
        fits = begin <= last
        places = np.where(fits, begin, self.first)[:, None] + np.arange(-_LENGTH_BYTES, 0)
        octets = self.values.data[np.where(fits[:, None], places, 0)]
        length = np.ascontiguousarray(octets).view("<i4").reshape(-1).astype(np.int64)
        end = begin + length
        return begin, end, fits & (length >= 0) & (end <= last)

    def one(self, at: int, last: int) -> array[int] | None:
        """Return where all further elements of a value begin and end; None if one does not fit."""
        data, places = self.values.data.data, array("q")
        while at < last:
            begin = at + self.first
            if begin > last:
                return None
            (length,) = _LENGTH.unpack_from(data, begin - _LENGTH_BYTES)
            if not 0 <= length <= last - begin:
                return None
            places.extend((begin, begin + length))
            at = begin + length + self.gap
        return places


def _collected(values: ByteColumn, found: list[NDArray[np.int64]], wrong: list[int]) -> ValueRows:
    places = np.concatenate([np.zeros((0, 3), dtype=np.int64), *found])
    places = places[~np.isin(places[:, 0], wrong)]
    row, begin, end = places[np.argsort(places[:, 0], kind="stable")].T
    cell = ByteColumn(values.data, begin, end, np.zeros(len(row), dtype=bool))
    return ValueRows(row.astype(np.intp), cell, dict.fromkeys(sorted(wrong), _CUT_OFF))


_MICROS = 1000
_TIMESTAMPS = {"timestamp", "timestamp_ntz"}
_SESSION_KEY, _TTL = "sessionStartTime", "ttlExpirationMs"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that holds a time: of the key or of the value, and how many of it are a ms."""

    name: str
    in_key: bool
    per_ms: int = 1
    is_expiry: bool = False


@dataclass(frozen=True, slots=True)
class RowTimes:
    """Which columns of a family hold its times; each is None if none does."""

    window: _Column | None
    time: _Column | None

    @classmethod
    def of(cls, family: Family) -> RowTimes:
        """Return where a family's times are."""
        return cls(_window(family), _time(family))

    @property
    def are_expiries(self) -> bool:
        """Whether a row's time is when it expires, or when its timer fires."""
        return self.time is not None and self.time.is_expiry

    def windows(
        self, family: Family, key: ByteColumn, value: ByteColumn
    ) -> tuple[pa.Array | None, pa.Array | None]:
        """Return where each row's window starts and ends, in ms; None if it has none."""
        if self.window is None:
            return None, None
        bounds = _read(self.window, family, key, value).flatten()
        start, end = (_milliseconds(bound, _MICROS) for bound in bounds)
        return start, end

    def times(self, family: Family, key: ByteColumn, value: ByteColumn) -> pa.Array | None:
        """Return each row's time in ms; None if it has none."""
        if self.time is None:
            return None
        return _milliseconds(_read(self.time, family, key, value), self.time.per_ms)


def _window(family: Family) -> _Column | None:
    for each in family.key.fields:
        if _is_window(each.type):
            return _Column(each.name, in_key=True)
    if _SESSION_KEY in family.key.names:
        for each in family.value.fields:
            if _is_window(each.type):
                return _Column(each.name, in_key=False)
    return None


def _is_window(kind: object) -> bool:
    return (
        isinstance(kind, Struct)
        and kind.names == ["start", "end"]
        and all(getattr(field.type, "name", "") in _TIMESTAMPS for field in kind.fields)
    )


def _time(family: Family) -> _Column | None:
    if family.encoder.has_timestamp:
        return _Column(family.key.names[-1], in_key=True, per_ms=_MICROS)
    key, value = _longs(family.key), _longs(family.value)
    if family.name.startswith("$"):
        for name in ("expiryTimestampMs", "expirationMs"):
            if name in key or name in value:
                return _Column(name, in_key=name in key, is_expiry=True)
    if value == family.value.names == ["expiresAtMicros"]:
        return _Column(value[0], in_key=False, per_ms=_MICROS, is_expiry=True)
    if family.value.names == ["value", _TTL] and _TTL in value:
        return _Column(_TTL, in_key=False, is_expiry=True)
    for columns, in_key in ((family.value, False), (family.key, True)):
        for each in columns.fields:
            if each.is_event_time and getattr(each.type, "name", "") in _TIMESTAMPS:
                return _Column(each.name, in_key=in_key, per_ms=_MICROS)
    return None


def _longs(columns: Struct) -> list[str]:
    """Return the columns of whole numbers: of another type, what is called so is the user's."""
    return [each.name for each in columns.fields if getattr(each.type, "name", "") == "long"]


def _read(column: _Column, family: Family, key: ByteColumn, value: ByteColumn) -> pa.Array:
    """Return one column of the rows; null of a row that can't be read."""
    cells = key if column.in_key else value
    read = family.some_of_key if column.in_key else family.some_of_value
    values = read(cells, [column.name])
    return values.flatten()[values.type.get_field_index(column.name)]


def _milliseconds(times: pa.Array, per_ms: int) -> pa.Array:
    if per_ms == 1:
        return times
    numbers = np.asarray(times.cast(pa.int64()).fill_null(0))
    # Towards the past, not towards zero: there are times before 1970.
    return pa.array(numbers // per_ms, mask=np.asarray(times.is_null()))


CHECKSUM_BYTES = 4  # how long a checksum is
_HEAD_BYTES = CHECKSUM_BYTES + _LENGTH_BYTES
_WRONG = "a checksum that is not that of the row"


def _without_checksums(keys: ByteColumn, values: ByteColumn, delimiter: bytes = b"") -> ValueRows:
    """Return the values of RocksDB without their checksums, one element each that was appended.

    A value one of whose rows has another checksum than it should is a problem.
    """
    found = _elements_of(values, delimiter, head_bytes=CHECKSUM_BYTES)
    cell = found.cell
    # A key has as many rows as its value holds: its bytes are gone through once, not for each.
    computed = crc32c_of_both(crc32c(keys)[found.row], crc32c(cell), cell.lengths)
    # Before a row stand its checksum and its length: the first of them is told.
    told = ByteColumn(cell.data, cell.starts - _HEAD_BYTES, cell.starts, cell.is_null)
    wrong = np.unique(found.row[computed != _numbers(told)])
    kept = ~np.isin(found.row, wrong)
    problems = found.problems | dict.fromkeys(wrong.tolist(), _WRONG)
    return ValueRows(found.row[kept], cell.take(kept), problems)


def key_behind_checksum(keys: ByteColumn) -> tuple[ByteColumn, dict[int, str]]:
    """Return keys that a changelog removes, without their checksums."""
    bare = keys.part(CHECKSUM_BYTES)
    return bare, _problems(crc32c(bare), keys)


def _problems(computed: NDArray[np.uint32], cells: ByteColumn) -> dict[int, str]:
    has = cells.lengths >= CHECKSUM_BYTES
    found = np.zeros(len(cells), dtype=np.uint32)
    found[has] = _numbers(cells.take(has).part(end=CHECKSUM_BYTES))
    return said_of((~has | (found != computed)) & ~cells.is_null, _WRONG)


def _numbers(cells: ByteColumn) -> NDArray[np.uint32]:
    return cells.integers(4).astype(np.uint32).byteswap()


@dataclass(frozen=True, slots=True)
class ValueWrapping:
    """What the values of a store are wrapped in.

    They are RocksDB's, and those of its changelogs, with a ``delimiter`` between values that are
    appended; or else the HDFS-backed provider's. Each may carry a checksum.
    """

    is_rocksdb: bool = True
    has_checksums: bool = False
    delimiter: bytes = b""

    def rows(self, keys: ByteColumn, values: ByteColumn, *, has_several: bool = False) -> ValueRows:
        """Return the rows of values that lie on disk; each may be a list of several."""
        found = ValueRows(np.arange(len(values)), values, {})
        if not self.is_rocksdb:
            if self.has_checksums:
                bare = values.part(CHECKSUM_BYTES)
                computed = crc32c_of_both(crc32c(keys), crc32c(bare), bare.lengths)
                return ValueRows(found.row, bare, _problems(computed, values))
            return found
        if self.has_checksums:
            found = _without_checksums(keys, values, self.delimiter)
            if not has_several:
                count = np.bincount(found.row, minlength=len(values))
                why = "a value that is not one row behind its checksum"
                others = said_of((count != 1) & ~values.is_null, why)
                found = replace(found, problems=others | found.problems)
        if has_several:
            # Behind checksums each part is a value of its own, without a delimiter to come.
            parts = _elements_of(found.cell, b"" if self.has_checksums else self.delimiter)
            wrong = _of_values(found, parts.problems)
            found = ValueRows(found.row[parts.row], parts.cell, wrong)
        bare, unversioned = rows_behind_version(found.cell)
        rows = ValueRows(found.row, bare, _of_values(found, unversioned))
        return _with_nulls(rows, values) if self.has_checksums or has_several else rows


def _of_values(found: ValueRows, problems: dict[int, str]) -> dict[int, str]:
    """Return the problems of values, given those of the rows that they hold."""
    return {int(found.row[at]): why for at, why in problems.items()} | found.problems


def _with_nulls(found: ValueRows, values: ByteColumn) -> ValueRows:
    """Return the rows, and one without bytes for each value that there is none of."""
    nothing = np.flatnonzero(values.is_null)
    return ValueRows(
        np.concatenate([found.row, nothing]),
        found.cell.followed_by(values.take(nothing)),
        found.problems,
    )


@dataclass(frozen=True, slots=True)
class Family:
    """The rows of one column family, or of a store that has no others.

    Its keys begin with ``number``, None in a store without families. If it ``has_several``, a value
    is a list of rows; if it ``is_internal``, the operator keeps it for itself.
    """

    name: str
    key: Struct
    value: Struct
    encoder: KeyEncoder
    number: int | None = None
    has_several: bool = False
    is_internal: bool = False

    @property
    def key_serde(self) -> Serde:
        """What reads a key that was split off by the layout."""
        if self.encoder.kind == "NoPrefix":
            return row_serde(self.key)
        return key_serde(self.key, self.encoder)

    @property
    def value_serde(self) -> Serde:
        """What reads a value that was split off by the layout."""
        return row_serde(self.value)

    def some_of_key(self, cells: ByteColumn, names: list[str]) -> pa.Array:
        """Return keys as structs that have these columns, and may have others."""
        if self.encoder.kind == "NoPrefix":
            return read_rows(cells, self.key.keep(names)).values
        return self.key_serde.decode(cells).values

    def some_of_value(self, cells: ByteColumn, names: list[str]) -> pa.Array:
        """Return values as structs of these columns."""
        return read_rows(cells, self.value.keep(names)).values


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """How the rows of a store are taken apart, and what its values are wrapped in.

    Where the store has no column families, there is one without a number.

    >>> from kstoolkit.formats.spark.types import schema_of
    >>> row = schema_of({"type": "struct", "fields": [{"name": "n", "type": "long"}]})
    >>> layout = StoreLayout((Family("default", row, row, KeyEncoder()),))
    >>> one = bytes(9) + bytes([7]) + bytes(7)
    >>> [(family, rows)] = layout.split(ByteColumn.of([one]), ByteColumn.of([one]))
    >>> family.value_serde.decode(rows.value).values.to_pylist()
    [{'n': 7}]
    """

    families: tuple[Family, ...]
    wrapping: ValueWrapping = field(default_factory=ValueWrapping)

    def split(self, keys: ByteColumn, values: ByteColumn) -> list[tuple[Family | None, RowColumns]]:
        """Return rows on disk, taken apart, family by family; None where that is not known.

        Each row on disk is in one of them, and they are in order, but for lists that are empty. A
        row that can't be taken apart is a problem, and its key and value are what lies on disk.
        """
        by_number = {family.number: family for family in self.families}
        places: dict[int | None, NDArray[np.intp]] = {None: np.arange(len(keys))}
        if None not in by_number:
            numbers = family_ids(keys)
            places = {n: np.flatnonzero(numbers == n) for n in np.unique(numbers).tolist()}
        found = [(by_number.get(number), row) for number, row in places.items()]
        return [(family, self._rows(family, keys, values, row)) for family, row in found]

    def _rows(
        self, family: Family | None, keys: ByteColumn, values: ByteColumn, row: NDArray[np.intp]
    ) -> RowColumns:
        keys, values = keys.take(row), values.take(row)
        if family is None:
            why = "a key of a column family that the store does not name"
            return RowColumns(row, keys, values, problems=dict.fromkeys(range(len(row)), why))
        found = self.wrapping.rows(keys, values, has_several=family.has_several)
        bare, problems = self._keys(family, keys)
        problems |= found.problems
        wrong = np.array(sorted(problems), dtype=np.intp)
        kept = np.flatnonzero(~np.isin(found.row, wrong))
        key = bare.take(found.row[kept]).followed_by(keys.take(wrong))
        value = found.cell.take(kept).followed_by(values.take(wrong))
        place = np.concatenate([found.row[kept], wrong])
        order = np.argsort(place, kind="stable")
        whole = RowColumns(row[place[order]], key.take(order), value.take(order))
        told = {n: problems[at] for n, at in enumerate(place[order].tolist()) if at in problems}
        return _with_times(family, whole, told)

    def _keys(self, family: Family, keys: ByteColumn) -> tuple[ByteColumn, dict[int, str]]:
        bare = keys if family.number is None else keys.part(FAMILY_BYTES)
        if self.wrapping.is_rocksdb and family.encoder.kind == "NoPrefix":
            return rows_behind_version(bare)
        return bare, {}


def _with_times(family: Family, rows: RowColumns, problems: dict[int, str]) -> RowColumns:
    """Return the rows with their times; what has a problem is no row, and has none."""
    bad = ~except_at(problems, len(rows))
    key, value = (
        replace(cells, ends=np.where(bad, cells.starts, cells.ends), is_null=cells.is_null | bad)
        for cells in (rows.key, rows.value)
    )
    times = RowTimes.of(family)
    start, end = times.windows(family, key, value)
    time = times.times(family, key, value)
    return replace(
        rows, window_start_ms=start, window_end_ms=end, timestamp_ms=time, problems=problems
    )


_JOIN_INDEX = "tsWithKey"
_JOIN_LISTS = ("keyWithTsToValues", _JOIN_INDEX)
_LIST_STATE = "ListState"


def layout_of(
    schemas: Sequence[FamilySchema],
    operator: OperatorMetadata,
    store: str,
    log: OffsetLogEntry,
    families: Mapping[str, int] | None = None,
) -> StoreLayout:
    """Return the layout of a store, from its schema file, its operator's metadata and its name.

    ``log`` is the offset log of the batch whose state is read, with the settings. ``families`` has
    each column family's number, as snapshots say. Rows of a format not read here are a FormatError.
    """
    if log.row_format != "unsaferow":
        message = f"State whose rows are {log.row_format!r}, which kstoolkit does not read."
        raise FormatError(message, hint="It reads what Spark writes by default, UnsafeRow.")
    numbers = families or {}
    has_families = any(schema.encoder is not None for schema in schemas)
    chosen = [
        _family(schema, operator, store, log, numbers.get(schema.name))
        for schema in schemas
        if not has_families or schema.name in numbers
    ]
    wrapping = ValueWrapping(log.is_rocksdb, log.has_row_checksums, log.merge_delimiter)
    return StoreLayout(tuple(chosen), wrapping)


def _family(
    schema: FamilySchema,
    operator: OperatorMetadata,
    store: str,
    log: OffsetLogEntry,
    number: int | None,
) -> Family:
    lists = {name for name, kind in operator.variables.items() if kind == _LIST_STATE}
    return Family(
        schema.name,
        schema.key,
        schema.value,
        _encoder(schema, operator, store) if log.is_rocksdb else KeyEncoder(),
        number,
        has_several=schema.name in lists or schema.name.endswith(_JOIN_LISTS),
        is_internal=schema.name.startswith("$") or schema.name.endswith(_JOIN_INDEX),
    )


def _encoder(schema: FamilySchema, operator: OperatorMetadata, store: str) -> KeyEncoder:
    columns = next((s.num_key_prefix_columns for s in operator.stores if s.name == store), 0)
    return schema.encoder or KeyEncoder.prefix(columns, schema.key)
