"""Rows of state of Spark's: of one partition or of all, of one column family or of several.

A row of several families tells its own, and one of all partitions its partition. A row's bytes do
not tell whose they are: so the bytes that the serdes of several families are given begin with the
family's number, in 2 bytes, as keys on disk do.

A key on disk is one row, whose bytes do not begin with a column's. Where only some columns of a key
are given, such as the user of all windows, all rows are read, and those columns looked at.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError, Option, Sentence, naming
from kstoolkit.formats.columns import ByteColumn, Decoded, RowColumns, except_at, joined_cells
from kstoolkit.formats.serdes import Serde, serde_of
from kstoolkit.formats.spark.keys import FAMILY_BYTES, family_ids, written_key, written_row
from kstoolkit.formats.spark.rows import RowTimes
from kstoolkit.formats.spark.unsaferow import read_rows
from kstoolkit.stores.rows.readable import NamedRows
from kstoolkit.stores.rows.rows import row_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kstoolkit.formats.spark.rows import Family, StoreLayout
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.rows.readable import ReadAs, SerdeLike
    from kstoolkit.stores.spark.state import PartitionState


def is_some_of_key(family: Family, key: Any) -> bool:
    """Return whether these are some of the columns of a family's key, and not all."""
    names = set(family.key.names)
    return isinstance(key, dict) and bool(key) and key.keys() < names


def some_of_key(source: SparkSource, family: Family, wanted: Mapping[str, Any]) -> NamedRows:
    """Return those rows of a column family whose keys have these values, by the names of columns.

    A value that its column can't hold is a ConfigurationError.
    """
    key = family.key
    columns = key.at([n for n, name in enumerate(key.names) if name in wanted])
    row = written_row(columns, [wanted[name] for name in columns.names])
    values: pa.Array = read_rows(ByteColumn.of([row]), columns).values

    def read(asked: Asked) -> Iterator[RowColumns]:
        for rows in source.read(asked):
            keys = family.some_of_key(rows.key, list(wanted))
            chosen = np.asarray(keys.is_valid()) & except_at(rows.problems, len(rows))
            found = dict(zip(keys.type.names, keys.flatten(), strict=True))
            for field, value in zip(values.type, values.flatten(), strict=True):
                chosen &= _equal(found[field.name], value)
            yield rows.take(chosen)

    return NamedRows(source.name, read)


def _equal(column: pa.Array, value: pa.Array) -> NDArray[np.bool_]:
    """Return where a column has a value, or is null as it is."""
    if value.null_count:
        return np.asarray(column.is_null())
    if pa.types.is_struct(column.type):
        has = np.asarray(column.is_valid())
        for each, part in zip(column.flatten(), value.flatten(), strict=True):
            has &= _equal(each, part)
        return has
    if pa.types.is_nested(column.type):  # which Arrow does not compare
        wanted = value[0].as_py()
        return np.array([each == wanted for each in column.to_pylist()], dtype=bool)
    return np.asarray(pc.equal(column, value[0]).fill_null(False))  # noqa: FBT003 - Arrow's own


_SERDES = {"key_serde", "value_serde"}
_NO_CELLS = ByteColumn.of([])
_UNKNOWN = "a row of a column family that the store does not name"


@dataclass(frozen=True, slots=True)
class FamilySerdes:
    """What reads keys and values of some families: plain serdes if there is only one."""

    families: Sequence[Family]

    @property
    def are_marked(self) -> bool:
        """Whether the bytes they read begin with the number of the family."""
        return len(self.families) != 1

    @property
    def key(self) -> Serde:
        """What reads keys: a struct each; of one family, also what writes them."""
        serde = self._of({_number(each): each.key_serde for each in self.families})
        if self.are_marked:
            return serde
        [family] = self.families
        return replace(serde, encode=partial(written_key, family.key, family.encoder))

    @property
    def value(self) -> Serde:
        """What reads values: a struct each."""
        return self._of({_number(each): each.value_serde for each in self.families})

    def told(self, serde: SerdeLike) -> Serde:
        """Return what reads the rows as somebody says: it is not given the family's number."""
        plain = serde_of(serde)
        if not self.are_marked:
            return plain
        return Serde(plain.name, lambda cells: plain.decode(cells.part(FAMILY_BYTES)))

    def read_as(self, told: ReadAs) -> tuple[Serde, Serde]:
        """Return what reads keys and values: as somebody says, or by the schema."""
        key, value = told.key_serde, told.value_serde
        return (
            self.key if key is None else self.told(key),
            self.value if value is None else self.told(value),
        )

    def asked(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return what rows are asked for by, with the serdes that read them.

        Keys of several families, a prefix that is text, and no such serde are a ConfigurationError.
        """
        told = {name: value for name, value in asked.items() if value is not None}
        if self.are_marked and told.keys() & {"key", "prefix"}:
            names = ", ".join(each.name for each in self.families)
            message = "Keys of several column families are asked for, and each has its own columns."
            option = Option("column_family", "...")
            hint = "Choose one by {column_family}: {names}."
            raise ConfigurationError(message, hint=naming(hint, names=names, column_family=option))
        if isinstance(told.get("prefix"), str) and "key_serde" not in told:
            raise self._no_prefix(told["prefix"])
        return told | {name: self.told(told[name]) for name in told.keys() & _SERDES}

    def _no_prefix(self, prefix: str) -> ConfigurationError:
        names = ", ".join(name for each in self.families for name in each.key.names)
        message = (
            f"No key begins with the text {prefix!r}: keys of Spark's state are binary rows of the "
            f"columns {names or 'none'}."
        )
        hint = naming(
            "Give {key} with the values of all columns or of some, or the prefix in {prefix}.",
            key=Option("key", "..."),
            prefix=Sentence("bytes", "hex, as --prefix 0x00ff"),
        )
        return ConfigurationError(message, hint=hint)

    def _of(self, serdes: Mapping[int, Serde]) -> Serde:
        if len(serdes) == 1:
            return next(iter(serdes.values()))
        return Serde("spark row", lambda cells: _by_family(cells, serdes))


def _family_mark(family: Family) -> bytes:
    """Return what the keys of a family begin with; nothing in a store without families."""
    if family.number is None:
        return b""
    return family.number.to_bytes(FAMILY_BYTES, "little", signed=True)


def _marked(cells: ByteColumn, family: Family) -> ByteColumn:
    """Return cells that begin with their family's number."""
    mark = pa.scalar(_family_mark(family), pa.large_binary())
    return ByteColumn.from_arrow(joined_cells(mark, cells.to_arrow()))


def _number(family: Family) -> int:
    return -1 if family.number is None else family.number


def _by_family(cells: ByteColumn, serdes: Mapping[int, Serde]) -> Decoded:
    values: list[Any] = [None] * len(cells)
    problems: dict[int, str] = {}
    numbers = np.where(cells.is_null, -1, family_ids(cells))
    for number in np.unique(numbers[~cells.is_null]).tolist():
        rows = np.flatnonzero((numbers == number) & ~cells.is_null)
        if number not in serdes:
            problems |= dict.fromkeys(rows.tolist(), _UNKNOWN)
            continue
        decoded = serdes[number].decode(cells.take(rows).part(FAMILY_BYTES))
        told = decoded.values
        found = told if isinstance(told, list) else told.to_pylist()
        for row, value in zip(rows.tolist(), found, strict=True):
            values[row] = value
        problems |= {int(rows[at]): why for at, why in decoded.problems.items()}
    return Decoded(values, problems)


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """One store of one partition, and the families whose rows are wanted, by their names on disk.

    ``opened`` returns its state, open; ``layout`` how its rows are taken apart, given the numbers
    that its families have.
    """

    partition: int
    opened: Callable[[], PartitionState]
    layout: Callable[[dict[str, int]], StoreLayout]
    wanted: Mapping[str, Family]


@dataclass(frozen=True, slots=True)
class SparkSource:
    """Rows of some column families, of the store that people know by ``name``.

    The families that are ``wanted`` have their places in the schema as numbers; None in a store
    without. Where the parts are those of all partitions (``is_whole``), rows tell theirs, and one
    state at a time is open; else the states stay open, for whoever opened them to close.
    ``count`` tells about how many rows there are, if anybody counted those of these families.
    """

    name: str
    parts: Sequence[PartitionRows]
    wanted: tuple[Family, ...]
    is_whole: bool = False
    count: Callable[[], int | None] | None = None

    def estimated_rows(self) -> int | None:
        """Return how many keys the latest snapshots counted; None if nothing tells."""
        return None if self.count is None else self.count()

    @property
    def serdes(self) -> FamilySerdes:
        """What reads the rows."""
        return FamilySerdes(self.wanted)

    @property
    def _extra_columns(self) -> dict[str, pa.DataType]:
        """The columns that rows have beside those of every store, and their types."""
        has_families = any(each.number is not None for each in self.wanted)
        family = {"family": pa.string()} if has_families else {}
        return family | ({"partition": pa.int32()} if self.is_whole else {})

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows in parts of some thousands: at least those that are asked for.

        A part without rows comes first, with the columns that some would have.
        """
        extra = {name: pa.array([], kind) for name, kind in self._extra_columns.items()}
        yield replace(RowColumns.whole(_NO_CELLS, _NO_CELLS), details=extra)
        for part in self.parts:
            state = part.opened()
            with closing(state) if self.is_whole else nullcontext():
                yield from self._of_part(part, state, asked)

    def _of_part(
        self, part: PartitionRows, state: PartitionState, asked: Asked
    ) -> Iterator[RowColumns]:
        layout = part.layout(state.families)
        on_disk = [each for each in layout.families if each.name in part.wanted]
        # A family that is newer than the version has no rows in it.
        if not on_disk and layout.families:
            return
        prefix = _prefix(layout, on_disk[0], asked) if len(on_disk) == 1 else b""
        for keys, values in row_batches(state.rows(prefix)):
            for family, rows in layout.split(keys, values):
                if family is None or family.name in part.wanted:
                    wanted = None if family is None else part.wanted[family.name]
                    yield self._told(rows, wanted, part.partition)

    def _told(self, rows: RowColumns, family: Family | None, partition: int) -> RowColumns:
        """Return the rows of a family with its name and partition, where rows tell those."""
        told = {"family": None if family is None else family.name, "partition": partition}
        columns = {
            name: pa.repeat(pa.scalar(told[name], kind), len(rows))
            for name, kind in self._extra_columns.items()
        }
        if family is not None and RowTimes.of(family).are_expiries:
            columns["expires"] = pa.repeat(pa.scalar(value=True), len(rows))
        rows = replace(rows, details=rows.details | columns)
        if family is None or not self.serdes.are_marked:
            return rows
        inner = _marked(rows.key, family), _marked(rows.value, family)
        return replace(rows, inner_key=inner[0], inner_value=inner[1])


def _prefix(layout: StoreLayout, family: Family, asked: Asked) -> bytes:
    """Return what the keys on disk begin with that are asked for."""
    sought = asked.key if asked.key is not None else asked.prefix
    mark = _family_mark(family)
    if not sought:
        return mark
    has_version = layout.wrapping.is_rocksdb and family.encoder.kind == "NoPrefix"
    return mark + (b"\x00" if has_version else b"") + sought
