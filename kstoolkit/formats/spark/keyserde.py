"""Keys of Spark's state, read by how they are written: see :mod:`kstoolkit.formats.spark.keys`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.decoded import Decoded
from kstoolkit.formats.serdes import Serde
from kstoolkit.formats.spark.keys import rows_behind_version
from kstoolkit.formats.spark.orderedbytes import read_ordered
from kstoolkit.formats.spark.sparktypes import Field, Struct, Variable
from kstoolkit.formats.spark.unsafeleaves import Reading, validity
from kstoolkit.formats.spark.unsaferow import read_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.spark.keys import KeyEncoder


_LENGTH_BYTES, _TIMESTAMP_BYTES = 4, 8
_NO_LENGTH = "a key whose first part is longer than the key"
_NO_TIMESTAMP = "a key that is shorter than its timestamp"


def key_serde(key: Struct, encoder: KeyEncoder) -> Serde:
    """Return what reads keys, from behind the family on: a struct a key, by its schema.

    Examples
    --------
    >>> from kstoolkit.formats.spark.keys import KeyEncoder
    >>> from kstoolkit.formats.spark.schemajson import schema_of
    >>> key = schema_of({"type": "struct", "fields": [{"name": "n", "type": "long"}]})
    >>> column = ByteColumn.of([bytes(9) + (7).to_bytes(8, "little")])
    >>> key_serde(key, KeyEncoder()).decode(column).values.to_pylist()
    [{'n': 7}]
    """
    if encoder.kind == "NoPrefix":
        return Serde("spark key", lambda cells: _plain(cells, key))
    if encoder.has_timestamp:
        return Serde("spark key", lambda cells: _with_timestamp(cells, key, encoder))
    return Serde("spark key", lambda cells: _in_two_parts(cells, key, encoder))


def _plain(cells: ByteColumn, key: Struct) -> Decoded:
    rows, problems = rows_behind_version(cells)
    return _joined([read_rows(rows, key)], key, key.names, problems)


def _in_two_parts(cells: ByteColumn, key: Struct, encoder: KeyEncoder) -> Decoded:
    length = _length(cells)
    fits = (length >= 1) & (length <= cells.lengths - _LENGTH_BYTES)
    wrong = dict.fromkeys(np.flatnonzero(~fits & ~cells.is_null).tolist(), _NO_LENGTH)
    middle = np.where(fits, _LENGTH_BYTES + length, 0)
    first, no_version = rows_behind_version(cells.part(_LENGTH_BYTES, middle))
    rest = [n for n in range(key.count) if n not in encoder.first]
    parts = [_first_part(first, key.at(encoder.first), encoder)]
    names = [key.fields[n].name for n in (*encoder.first, *rest)]
    if rest:  # a key of ordering columns alone has no second row
        others, none_of_them = rows_behind_version(cells.part(middle))
        no_version = none_of_them | no_version
        parts.append(read_rows(others, key.at(rest)))
    return _joined(parts, key, names, no_version | wrong)


def _first_part(rows: ByteColumn, columns: Struct, encoder: KeyEncoder) -> Decoded:
    if encoder.kind == "PrefixKeyScan":
        return read_rows(rows, columns)
    binary = Variable("binary", pa.large_binary())
    fields = tuple(Field(field.name, binary, field.position) for field in columns.fields)
    raw = read_rows(rows, Struct(fields, columns.count))
    reading = Reading(np.zeros(0, dtype=np.uint8), raw.problems)
    values = [
        read_ordered(reading, field.type, ByteColumn.from_arrow(column))
        for field, column in zip(columns.fields, raw.values.flatten(), strict=True)  # type: ignore[union-attr]
    ]
    return Decoded(pa.StructArray.from_arrays(values, columns.names), reading.problems)


def _with_timestamp(cells: ByteColumn, key: Struct, encoder: KeyEncoder) -> Decoded:
    """Return keys whose last column stands beside the row of the others."""
    fits = cells.lengths >= _TIMESTAMP_BYTES
    wrong = np.flatnonzero(~fits & ~cells.is_null).tolist()
    at, row = (0, cells.part(_TIMESTAMP_BYTES))
    if encoder.kind == "TimestampAsPostfix":
        at, row = -_TIMESTAMP_BYTES, cells.part(end=-_TIMESTAMP_BYTES)
    numbers = np.zeros(len(cells), dtype=np.int64)
    numbers[fits] = cells.take(fits).integers(8, at=at) ^ np.int64(-(1 << 63))
    rows, no_version = rows_behind_version(row)
    parts = [
        read_rows(rows, key.at(range(key.count - 1))),
        Decoded(pa.StructArray.from_arrays([pa.array(numbers, mask=~fits)], [key.names[-1]])),
    ]
    problems = no_version | dict.fromkeys(wrong, _NO_TIMESTAMP)
    return _joined(parts, key, key.names, problems)


def _joined(
    parts: list[Decoded], key: Struct, names: list[str], problems: dict[int, str]
) -> Decoded:
    """Return rows that were written in parts, their columns in the order of the schema."""
    columns = [column for part in parts for column in part.values.flatten()]  # type: ignore[union-attr]
    by_name = dict(zip(names, columns, strict=True))
    for part in parts:
        problems = part.problems | problems
    has = np.ones(len(parts[0].values), dtype=bool)
    has[list(problems)] = False
    for part in parts:
        has &= np.asarray(part.values.is_valid())  # type: ignore[union-attr]
    children = [by_name[name] for name in key.names]
    arrow = pa.struct([(name, by_name[name].type) for name in key.names])
    rows = pa.Array.from_buffers(arrow, len(has), [validity(has)], children=children)
    return Decoded(rows, problems)


def _length(cells: ByteColumn) -> NDArray[np.int64]:
    """Return the little-endian number in front of each cell; 0 where there is none."""
    has = cells.lengths >= _LENGTH_BYTES
    return Reading(cells.data).numbers(cells.starts, "<i4", has).astype(np.int64)
