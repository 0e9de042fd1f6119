"""Rows of state of Spark's, which may tell of which partition they are."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.stores.rows.decodedrows import DecodedRows, FamilyRow
from kstoolkit.stores.rows.rowview import Rows
from kstoolkit.stores.rows.storerow import StoreRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PartitionRow(StoreRow):
    """A row, and the number of its partition.

    Examples
    --------
    >>> row = PartitionRow({"user": "a"}, {"n": 7}, None, None, None, None, b"a", b"7", partition=1)
    >>> print(row)
    {"user": "a"}: {"n": 7} (partition 1)
    >>> row.to_dict("default")["partition"]
    1
    """

    partition: int | None = None

    def __str__(self) -> str:
        # Not by super(): it does not work in a class that slots have made anew.
        return f"{StoreRow.__str__(self)} (partition {self.partition})"

    def to_dict(self, store: str) -> dict[str, Any]:
        """Return the fields that ``kstoolkit rows --json`` prints; ``store`` is its name."""
        return StoreRow.to_dict(self, store) | {"partition": self.partition}


@dataclass(frozen=True, slots=True)
class FamilyPartitionRow(FamilyRow):
    """A row of a store with column families, the name of its own, and its partition.

    Examples
    --------
    >>> told = {"family": "seen", "partition": 1}
    >>> print(FamilyPartitionRow("a", 7, None, None, None, None, b"a", b"7", **told))
    seen 'a': 7 (partition 1)
    """

    partition: int | None = None

    def __str__(self) -> str:
        return f"{FamilyRow.__str__(self)} (partition {self.partition})"

    def to_dict(self, store: str) -> dict[str, Any]:
        """Return the fields that ``kstoolkit rows --json`` prints; ``store`` is its name."""
        return FamilyRow.to_dict(self, store) | {"partition": self.partition}


class _DecodedParts(DecodedRows):
    """Rows of which all columns are shown that their source has, ``partition`` too."""

    __slots__ = ()

    def __iter__(self) -> Iterator[StoreRow]:
        rows = DecodedRows.__iter__(self)
        if "expires" in self.raw.details:
            rows = (replace(row, is_expiry=True) for row in rows)
        partition = self.raw.details.get("partition")
        if partition is None:
            return rows
        return map(_in_partition, rows, partition.to_pylist())

    def take(self, chosen: NDArray[np.bool_]) -> _DecodedParts:
        return _with_parts(DecodedRows.take(self, chosen))

    def to_arrow(self) -> pa.Table:
        table = DecodedRows.to_arrow(self)
        partition = self.raw.details.get("partition")
        return table if partition is None else table.append_column("partition", partition)


class SparkRows(Rows):
    """Rows of a store of Spark's; where they are those of all partitions, each tells its own.

    Parameters
    ----------
    rows
        The rows, as any store's.
    columns
        The columns that they have beside those of every store, and their types.
    """

    def __init__(self, rows: Rows, columns: Mapping[str, pa.DataType]) -> None:
        super().__init__(
            rows.source, rows.asked, rows.key_serde, rows.value_serde, limit=rows.limit
        )
        self._columns = columns

    def _decoded(self, limit: int | None) -> Iterator[DecodedRows]:
        for rows in super()._decoded(limit):
            yield _with_parts(rows if len(rows) else self._with_columns(rows))

    def _with_columns(self, nothing: DecodedRows) -> DecodedRows:
        """Return no rows, with the columns that some would have."""
        details = {name: pa.array([], kind) for name, kind in self._columns.items()}
        return replace(nothing, raw=replace(nothing.raw, details=details))


def _with_parts(rows: DecodedRows) -> _DecodedParts:
    return _DecodedParts(rows.raw, rows.key, rows.value)


def _in_partition(row: StoreRow, partition: int) -> StoreRow:
    has_family = isinstance(row, FamilyRow)
    cells = (*(_OF_FAMILY if has_family else _OF_ROW)(row), partition)
    kind = FamilyPartitionRow if has_family else PartitionRow
    return kind(*cells, is_expiry=row.is_expiry)


_OF_ROW, _OF_FAMILY = (
    attrgetter(*(each.name for each in fields(kind) if not each.kw_only))
    for kind in (StoreRow, FamilyRow)
)
