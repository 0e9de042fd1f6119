"""Rows whose keys have some columns of given values, such as all windows of a user.

A key on disk is one row, whose bytes do not begin with a column's: all rows are read, and only
those columns of their keys looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.spark.keys import written_row
from kstoolkit.formats.spark.unsaferow import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.formats.spark.rows import Family
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.spark.sparksource import SparkSource


def is_some_of_key(family: Family, key: Any) -> bool:
    """Return whether these are some of the columns of a family's key, and not all."""
    names = set(family.key.names)
    return isinstance(key, dict) and bool(key) and key.keys() < names


@dataclass(frozen=True)
class SomeOfKey:
    """Those rows of a source whose keys have these values.

    Parameters
    ----------
    source
        Where the rows lie: those of one column family.
    family
        The family.
    wanted
        The values of some columns of the key, by name.

    Raises
    ------
    ConfigurationError
        By a look at the rows: if a value is none that its column can hold.
    """

    source: SparkSource
    family: Family
    wanted: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The store's name, for people."""
        return self.source.name

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows in parts of some thousands: at least those that are asked for."""
        wanted = self.values
        for rows in self.source.read(asked):
            yield rows.take(self._chosen(rows, wanted))

    @cached_property
    def values(self) -> pa.Array:
        """The values as they are read: one struct.

        Raises
        ------
        ConfigurationError
            If one is none that its column can hold.
        """
        key = self.family.key
        columns = key.at([n for n, name in enumerate(key.names) if name in self.wanted])
        cells = [self.wanted[name] for name in columns.names]
        return read_rows(ByteColumn.of([written_row(columns, cells)]), columns).values

    def _chosen(self, rows: RowColumns, wanted: pa.Array) -> NDArray[np.bool_]:
        keys = self.family.some_of_key(rows.key, list(self.wanted))
        chosen = np.asarray(keys.is_valid())
        chosen[list(rows.problems)] = False
        columns = dict(zip(keys.type.names, keys.flatten(), strict=True))
        for field, value in zip(wanted.type, wanted.flatten(), strict=True):
            chosen &= _equal(columns[field.name], value)
        return chosen


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
