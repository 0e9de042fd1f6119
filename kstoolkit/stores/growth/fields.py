"""Which fields the keys of Spark's state have, and who takes most by them: users, pages, whatever.

A key is a struct. One groups by its columns and those of structs in it, by windows and times::

    aggregation, deduplication    window · user                 window → windows; user
    session window                user · sessionStartTime       session → windows; user
    join                          field0 · index                field0, which is what it joins by
    transformWithState            user                          user
      a map's                     key.user · userKey.n          user; n
      a timer's, an expiry's      expiryTimestampMs · key.user  user

A field is called by its own name, or by its path (``userKey.user``) where another has that name.

Rows are told apart by several columns at once, of any types, as bytes that are equal where the
values are; only the few that are shown are read back::

    null       00
    fixed      01 · the value as Arrow has it, little-endian; of a boolean one byte
    text       01 · length (8) · its bytes; so are bytes
    struct     01 · each of its columns
    list       01 · how many (8) · each of its elements; a map is a list of its pairs
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import joined_cells, run_edges
from kstoolkit.formats.spark.rows import RowTimes
from kstoolkit.formats.spark.types import Struct
from kstoolkit.stores.growth.heavyhitters import MOST_KEY_BYTES, MOST_KEYS, HeavyHitters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.formats.spark.rows import Family

_BINARY = pa.large_binary()
_NOTHING, _NULL, _THERE = b"", b"\x00", b"\x01"


def _scalar(cell: bytes | None) -> pa.LargeBinaryScalar:
    return pa.scalar(cell, _BINARY)


_COUNT_BYTES = 8


def _as_bytes(column: pa.Array) -> pa.Array:
    """Return a column as Arrow large binary without nulls, each cell what stands for its value."""
    if pt.is_null(column.type):
        return pa.repeat(_scalar(_NULL), len(column))
    return joined_cells(_scalar(_THERE), _bare(column)).fill_null(_scalar(_NULL))


def _bare(column: pa.Array) -> pa.Array:
    """Return what stands behind the first byte; null where the column is."""
    kind = column.type
    if pt.is_struct(kind):
        parts = [_as_bytes(each) for each in column.flatten()]
        whole = joined_cells(*parts) if parts else pa.repeat(_scalar(_NOTHING), len(column))
    elif _is_list(kind):
        lists = column.cast(pa.large_list(_element(column.type)))
        count = np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
        ends = pa.array(run_edges(count))
        elements = pa.LargeListArray.from_arrays(ends, _as_bytes(lists.flatten()))
        whole = joined_cells(_fixed(pa.array(count)), pc.binary_join(elements, _scalar(_NOTHING)))
    elif _is_text(kind):
        raw = column.cast(_BINARY)
        return joined_cells(_fixed(pc.binary_length(raw).cast(pa.int64())), raw)
    else:
        return _fixed(column.cast(pa.int8()) if pt.is_boolean(kind) else column)
    return pc.if_else(column.is_valid(), whole, _scalar(None))


def _fixed(column: pa.Array) -> pa.Array:
    raw = pa.binary(column.type.bit_width // 8)
    cells = pa.Array.from_buffers(raw, len(column), column.buffers(), offset=column.offset)
    return cells.cast(_BINARY)


def _read(raw: bytes, at: int, kind: pa.DataType) -> tuple[Any, int]:
    """Return the value that begins at a place, and where it has ended."""
    if raw[at] == 0:
        return None, at + 1
    at += 1
    if pt.is_struct(kind):
        found = {}
        for field in kind:
            found[field.name], at = _read(raw, at, field.type)
        return found, at
    if _is_list(kind):
        return _read_list(raw, at, kind)
    if _is_text(kind):
        first = at + _COUNT_BYTES
        end = first + int.from_bytes(raw[at:first], "little")
        cell = raw[first:end]
        return (cell if _is_binary(kind) else cell.decode(errors="replace")), end
    if pt.is_boolean(kind):
        return raw[at] == 1, at + 1
    end = at + kind.bit_width // 8
    buffers = [None, pa.py_buffer(raw[at:end])]
    return pa.Array.from_buffers(kind, 1, buffers)[0].as_py(), end


def _read_list(raw: bytes, at: int, kind: pa.DataType) -> tuple[list[Any], int]:
    count, at = int.from_bytes(raw[at : at + _COUNT_BYTES], "little"), at + _COUNT_BYTES
    found = []
    for _ in range(count):
        value, at = _read(raw, at, _element(kind))
        found.append(tuple(value.values()) if pt.is_map(kind) else value)
    return found, at


def _element(kind: pa.DataType) -> pa.DataType:
    if pt.is_map(kind):
        return pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    return kind.value_type


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(_is_binary(kind) or pt.is_string(kind) or pt.is_large_string(kind))


_TAG_BYTES = 2


class FieldTally:
    """What rows add up to by fields of their keys, in bounded memory however many fields there are.

    A field may have another type in another column family, so the bytes that are summed up by begin
    with the number of the types that they are of. Rows ``num_without`` have none of the fields that
    make up a key, or could not be read: they are in no key's sum.
    """

    def __init__(self, fields: KeyFields) -> None:
        self.fields = fields
        self.num_without = 0
        self._types: list[pa.StructType] = []
        self.keys = HeavyHitters()
        share = max(len(fields.each), 1)
        most, most_bytes = MOST_KEYS // share or 1, MOST_KEY_BYTES // share
        self.each = {
            name: HeavyHitters(most_keys=most, most_key_bytes=most_bytes) for name in fields.each
        }

    def add(self, rows: RowColumns, sizes_bytes: NDArray[np.int64]) -> pa.Array | None:
        """Add rows of one family; return the texts that their keys are, None if they are no text.

        Rows without such a field are null among the texts.
        """
        columns, is_read = self.fields.columns(rows)
        cells = {name: _as_bytes(column) for name, column in columns.items()}
        chosen, sizes = pa.array(is_read), sizes_bytes[is_read]
        for name in self.each.keys() & columns.keys():
            self.each[name].add(self._tagged([name], columns, cells).filter(chosen), sizes)
        found = [name for name in self.fields.by if name in columns]
        if found:
            self.keys.add(self._tagged(found, columns, cells).filter(chosen), sizes)
        self.num_without += int((~is_read).sum()) if found else len(rows)
        if not self.fields.is_text:
            return None
        return columns[found[0]].cast(_BINARY) if found else pa.nulls(len(rows), _BINARY)

    def key(self, raw: bytes) -> dict[str, Any]:
        """Return the values of the fields that some bytes of the sums stand for, by name."""
        kind = self._types[int.from_bytes(raw[:_TAG_BYTES], "little")]
        found: dict[str, Any] = _read(b"\x01" + raw[_TAG_BYTES:], 0, kind)[0]
        return found

    def _tagged(
        self, names: list[str], columns: dict[str, pa.Array], cells: dict[str, pa.Array]
    ) -> pa.Array:
        kind = pa.struct([(name, columns[name].type) for name in names])
        if kind not in self._types:
            self._types.append(kind)
        number = self._types.index(kind).to_bytes(_TAG_BYTES, "little")
        return joined_cells(_scalar(number), *(cells[name] for name in names))


Path = tuple[str, ...]

_OF_OPERATORS = {"userKey", "expiryTimestampMs"}
_SESSION_START, _JOIN_INDEX, _WITH_INDEX = "sessionStartTime", "index", "keyWithIndexToValue"


@dataclass(frozen=True, slots=True)
class KeyFields:
    """Fields that rows are summed up by: ``by`` together make up a key, ``each`` one by one, too.

    ``paths`` say where the fields of each family are in its key, by their names.
    """

    paths: Mapping[str, Mapping[str, Path]]
    families: Mapping[str, Family]
    by: tuple[str, ...]
    each: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether keys are one field of text, so that beginnings of it say something."""
        first, *more = self.by
        known = [family for family, paths in self.paths.items() if first in paths]
        kinds = (_kind_at(self.families[each].key, self.paths[each][first]) for each in known)
        return not more and all(map(pt.is_large_string, kinds))

    def columns(self, rows: RowColumns) -> tuple[dict[str, pa.Array], NDArray[np.bool_]]:
        """Return the fields that keys of rows of one family have, and which keys could be read."""
        named = rows.details.get("family")
        family = self.families[next(iter(self.families)) if named is None else named[0].as_py()]
        paths = self.paths[family.name]
        wanted = {name: paths[name] for name in dict.fromkeys(self.by + self.each) if name in paths}
        if not wanted:
            return {}, np.zeros(len(rows), dtype=np.bool_)
        keys = family.some_of_key(rows.key, [path[0] for path in wanted.values()])
        columns = {name: _at(keys, path) for name, path in wanted.items()}
        return columns, np.asarray(keys.is_valid())


def key_fields(
    families: Iterable[Family], by: str | Sequence[str] | None = None
) -> KeyFields | None:
    """Return which fields rows are summed up by; None: their keys have no fields to choose.

    ``by`` is the field, or several; None: all that every family has: of ``transformWithState`` the
    grouping key, of a join what it joins by. A missing one is a ConfigurationError.
    """
    known = {each.name: each for each in families}
    paths = {name: _paths_in(each) for name, each in known.items()}
    if by is not None:
        times = {name: _paths_in(each, times=True) for name, each in known.items()}
        return KeyFields(times, known, _chosen(by, times.values()))
    every = tuple(dict.fromkeys(name for each in paths.values() for name in each))
    common = tuple(name for name in every if all(name in each for each in paths.values()))
    if not common:
        return None
    # One field alone is a key already.
    each = every if len(common) > 1 else tuple(name for name in every if name not in common)
    return KeyFields(paths, known, common, each)


def _paths_in(family: Family, *, times: bool = False) -> dict[str, Path]:
    """Return where the fields of a family's keys are, by name; no windows, and times if asked."""
    found = RowTimes.of(family)
    unasked = (found.window,) if times else (found.window, found.time)
    hidden = {each.name for each in unasked if each is not None and each.in_key}
    if not times and found.window is not None and not found.window.in_key:
        hidden.add(_SESSION_START)
    if family.name.endswith(_WITH_INDEX):
        hidden.add(_JOIN_INDEX)  # which of the rows of a key it is
    leaves = [path for path in _leaves(family.key) if path[0] not in hidden]
    bare = [_unwrapped(family.key, path) for path in leaves]
    last = [path[-1] for path in bare]
    return {
        path[-1] if len(path) == 1 or last.count(path[-1]) == 1 else ".".join(path): leaf
        for path, leaf in zip(bare, leaves, strict=True)
    }


def _chosen(by: str | Sequence[str], paths: Iterable[Mapping[str, Path]]) -> tuple[str, ...]:
    known = list(dict.fromkeys(name for each in paths for name in each))
    listed = [by] if isinstance(by, str) else list(by) if isinstance(by, list | tuple) else []
    wrong = [name for name in listed if not isinstance(name, str) or name not in known]
    if listed and not wrong:
        return tuple(dict.fromkeys(listed))
    message = f"Keys of this state have no field {wrong[0] if wrong else by!r} to sum up by."
    told = f"Give one of {', '.join(known)}." if known else "Leave it out."
    raise ConfigurationError(message, hint=f"{told} Windows are summed up beside keys.")


def _leaves(struct: Struct, path: Path = ()) -> Iterator[Path]:
    """Yield the columns that are no structs, those of structs too."""
    for field in struct.fields:
        here = (*path, field.name)
        if isinstance(field.type, Struct) and field.type.fields:
            yield from _leaves(field.type, here)
        else:
            yield here


def _unwrapped(key: Struct, path: Path) -> Path:
    """Return a path as the query's author knows it: grouping keys are wrapped by the operator."""
    level = key.get(path[0])
    if path[0] == "elementKey" and len(path) > 1 and isinstance(level, Struct):
        return _unwrapped(level, path[1:])
    is_wrapped = path[0] == "key" and len(path) > 1 and _OF_OPERATORS & set(key.names)
    return path[1:] if is_wrapped else path


def _kind_at(key: Struct, path: Path) -> pa.DataType:
    kind: pa.DataType = key.arrow
    for name in path:
        kind = kind.field(name).type
    return kind


def _at(keys: pa.Array, path: Path) -> pa.Array:
    """Return a column of structs, and of structs in them; null where one of these is."""
    for name in path:
        keys = keys.flatten()[keys.type.get_field_index(name)]
    return keys
