"""What lies in the rows of Spark's state stores, once Spark's own wrapping is off.

::

    RocksDB       key: [family (2)] · row or rows      value: see kstoolkit.formats.spark.valuerows
    HDFS-backed   key: row                             value: [checksum (4)] · row

What is left of a key that is one row is that row; of one that is written in parts, or as bytes that
sort (:mod:`kstoolkit.formats.spark.keys`), what lies on disk behind the family. A family's serdes
read the two. A list state's value, and a side of a join in format 4, give one row an element.

Windows: a column ``window`` of the key, or ``session_window`` of the value. The time of a row: the
event time of a joined row, and of timers and what expires, when that is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.rowcolumns import RowColumns
from kstoolkit.formats.spark.keys import (
    FAMILY_BYTES,
    KeyEncoder,
    family_ids,
    rows_behind_version,
)
from kstoolkit.formats.spark.keyserde import key_serde
from kstoolkit.formats.spark.rowtimes import RowTimes
from kstoolkit.formats.spark.unsaferow import read_rows, row_serde
from kstoolkit.formats.spark.valuerows import Wrapping, joined

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.formats.spark.sparktypes import Struct


_NO_FAMILY = "a key of a column family that the store does not name"


@dataclass(frozen=True, slots=True)
class Family:
    """The rows of one column family, or of a store that has no others.

    Parameters
    ----------
    name
        Spark's name for it.
    key, value
        The columns of its keys and values.
    encoder
        How its keys are written.
    number
        What its keys begin with; None in a store without families.
    has_several
        Whether a value is a list of rows.
    is_internal
        Whether the operator keeps it for itself.
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


@dataclass(frozen=True, slots=True, eq=False)
class FamilyRows:
    """Rows of one family; None where the family is not known, and each row is a problem."""

    family: Family | None
    rows: RowColumns


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """How the rows of a store are taken apart.

    Parameters
    ----------
    families
        Its column families; one without a number in a store that has none.
    wrapping
        What the values are wrapped in.

    Examples
    --------
    >>> from kstoolkit.formats.spark.schemajson import schema_of
    >>> row = schema_of({"type": "struct", "fields": [{"name": "n", "type": "long"}]})
    >>> layout = StoreLayout((Family("default", row, row, KeyEncoder()),))
    >>> one = bytes(9) + bytes([7]) + bytes(7)
    >>> [found] = layout.split(ByteColumn.of([one]), ByteColumn.of([one]))
    >>> found.family.value_serde.decode(found.rows.value).values.to_pylist()
    [{'n': 7}]
    """

    families: tuple[Family, ...]
    wrapping: Wrapping = field(default_factory=Wrapping)

    def split(self, keys: ByteColumn, values: ByteColumn) -> list[FamilyRows]:
        """Return rows on disk, taken apart, family by family.

        Each row on disk is in one of them, and they are in order, but for lists that are empty. A
        row that can't be taken apart is a problem, and its key and value are what lies on disk.
        """
        by_number = {family.number: family for family in self.families}
        if None in by_number:
            return [self._rows(by_number[None], keys, values, np.arange(len(keys)))]
        numbers = family_ids(keys)
        return [
            self._rows(by_number.get(number), keys, values, np.flatnonzero(numbers == number))
            for number in np.unique(numbers).tolist()
        ]

    def _rows(
        self, family: Family | None, keys: ByteColumn, values: ByteColumn, row: NDArray[np.intp]
    ) -> FamilyRows:
        keys, values = keys.take(row), values.take(row)
        if family is None:
            problems = dict.fromkeys(range(len(row)), _NO_FAMILY)
            return FamilyRows(None, RowColumns(row, keys, values, problems=problems))
        found = self.wrapping.rows(keys, values, has_several=family.has_several)
        bare, problems = self._keys(family, keys)
        problems |= found.problems
        wrong = np.array(sorted(problems), dtype=np.intp)
        kept = np.flatnonzero(~np.isin(found.row, wrong))
        key = joined(bare.take(found.row[kept]), keys.take(wrong))
        value = joined(found.cell.take(kept), values.take(wrong))
        place = np.concatenate([found.row[kept], wrong])
        order = np.argsort(place, kind="stable")
        whole = RowColumns(row[place[order]], key.take(order), value.take(order))
        told = {n: problems[at] for n, at in enumerate(place[order].tolist()) if at in problems}
        return FamilyRows(family, _with_times(family, whole, told))

    def _keys(self, family: Family, keys: ByteColumn) -> tuple[ByteColumn, dict[int, str]]:
        bare = keys if family.number is None else keys.part(FAMILY_BYTES)
        if self.wrapping.is_rocksdb and family.encoder.kind == "NoPrefix":
            return rows_behind_version(bare)
        return bare, {}


def _with_times(family: Family, rows: RowColumns, problems: dict[int, str]) -> RowColumns:
    """Return the rows with their times; what has a problem is no row, and has none."""
    bad = np.isin(np.arange(len(rows)), list(problems))
    key, value = (
        ByteColumn(
            cells.data, cells.starts, np.where(bad, cells.starts, cells.ends), cells.is_null | bad
        )
        for cells in (rows.key, rows.value)
    )
    times = RowTimes.of(family)
    start, end = times.windows(family, key, value)
    time = times.times(family, key, value)
    return replace(
        rows, window_start_ms=start, window_end_ms=end, timestamp_ms=time, problems=problems
    )
