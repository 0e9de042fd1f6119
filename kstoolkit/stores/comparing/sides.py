"""The rows of one side of a comparison, on their way into its spool and back out."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import HEADERS, ByteColumn, RowColumns
from kstoolkit.stores.comparing.identity import identities
from kstoolkit.stores.comparing.meaning import meanings
from kstoolkit.stores.rows.decodedrows import decoded_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.stores.rows.rowview import Rows


_BYTES, _TIME = pa.large_binary(), pa.int64()

ROW = pa.schema(
    [
        ("key", _BYTES),
        ("value", _BYTES),
        ("window_start_ms", _TIME),
        ("window_end_ms", _TIME),
        ("timestamp_ms", _TIME),
        ("headers", HEADERS),
        ("problem", pa.string()),
        ("family", pa.string()),
        ("inner_key", _BYTES),
        ("inner_value", _BYTES),
    ]
)
"""A row as the spool keeps it."""

SPOOLED = pa.schema([("identity", _BYTES), ("is_b", pa.bool_()), ("meaning", _BYTES), *ROW])
"""A row with what it is compared by; a ``meaning`` is there only if values are compared by it."""


@dataclass(slots=True)
class Side:
    """One side of a comparison.

    Parameters
    ----------
    rows
        What it holds.
    is_b
        Whether it is the second one.
    by_value
        Whether keys and values are compared by what they stand for, not by their bytes.
    by_family
        Whether rows of different column families are different rows, whatever their keys.
    has_ends
        Whether a row has told when its window ends.
    has_families
        Whether rows name their column families; None: there are no rows.

    Raises
    ------
    ConfigurationError
        If only some of the rows are asked for, by their number.
    """

    rows: Rows
    is_b: bool
    by_value: bool
    by_family: bool = False
    has_ends: bool = False
    has_families: bool | None = field(init=False, default=None)
    _parts: Iterator[RowColumns] = field(init=False)

    def __post_init__(self) -> None:
        if self.rows.limit is not None:
            name = self.rows.source.name
            message = f"Of the rows of {name!r}, only the first {self.rows.limit} are given."
            hint = "Each engine has an order of its own: leave the limit out, or give since=."
            raise ConfigurationError(message, hint=hint)
        self._parts = self.rows.source.read(self.rows.asked)
        first = next(self._parts, None)
        if first is not None:
            self.has_families = "family" in first.details
            self._parts = chain([first], self._parts)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows as :data:`SPOOLED`, in parts of some thousands; once."""
        return map(self._spooled, self._parts)

    def _spooled(self, part: RowColumns) -> pa.Table:
        """Return some rows of the source, those that are asked for."""
        wanted = self.rows.asked.chosen(part)
        rows = part if wanted.all() else part.take(wanted)
        ends = rows.window_end_ms
        self.has_ends |= ends is not None and ends.null_count < len(ends)
        key, meaning = self._compared(rows)
        identity = identities(
            key,
            torn=_torn(rows),
            window_start_ms=rows.window_start_ms,
            timestamp_ms=None if rows.valid_to_ms is None else rows.timestamp_ms,
            window_end_ms=ends,
        )
        is_b = pa.array(np.full(len(rows), self.is_b))
        return pa.table([identity, is_b, meaning, *_cells(rows)], SPOOLED)

    def _compared(self, rows: RowColumns) -> tuple[ByteColumn, pa.Array]:
        if not self.by_value:
            return self._in_family(rows, rows.key), pa.nulls(len(rows), _BYTES)
        decoded = decoded_rows(rows, self.rows.key_serde, self.rows.value_serde)
        key = meanings(rows.record_key, decoded.key)
        # A serde may have nothing to say of a key, but the row is one all the same.
        key = key.fill_null(b"") if key.null_count else key
        meant = meanings(rows.record_value, decoded.value)
        return self._in_family(rows, ByteColumn.from_arrow(key)), meant

    def _in_family(self, rows: RowColumns, key: ByteColumn) -> ByteColumn:
        """Return keys, with the families in front that they are of."""
        if not self.by_family:
            return key
        # By name: a family's number differs from version to version, and between partitions.
        family = rows.details["family"].cast(pa.large_string()).cast(_BYTES).fill_null(b"")
        end = pa.scalar(b"\x00", _BYTES)
        return ByteColumn.from_arrow(pc.binary_join_element_wise(family, key.to_arrow(), end))


def rows_from(table: pa.Table, *, has_families: bool) -> RowColumns:
    """Return rows of the columns :data:`ROW`; one that is not there is null in all of them.

    Parameters
    ----------
    table
        The columns.
    has_families
        Whether the rows are of a store that names their families.
    """
    one = {name: table[name].combine_chunks() for name in ROW.names}
    why = one["problem"].to_pylist() if one["problem"].null_count < len(table) else []
    key, value, inner_key, inner_value = (
        ByteColumn.from_arrow(one[name]) for name in ("key", "value", "inner_key", "inner_value")
    )
    return RowColumns(
        np.arange(len(table)),
        key,
        value,
        window_start_ms=one["window_start_ms"],
        window_end_ms=one["window_end_ms"],
        timestamp_ms=one["timestamp_ms"],
        headers=one["headers"],
        problems={at: problem for at, problem in enumerate(why) if problem is not None},
        inner_key=None if inner_key.is_null.all() else inner_key,
        inner_value=None if inner_value.is_null.all() else inner_value,
        details={"family": one["family"]} if has_families else {},
    )


def _torn(rows: RowColumns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    torn = np.zeros(len(rows), dtype=bool)
    torn[list(rows.problems)] = True
    return torn


def _cells(rows: RowColumns) -> list[pa.Array]:
    why: list[str | None] = [None] * len(rows)
    for row, problem in rows.problems.items():
        why[row] = problem
    cells = [
        rows.key.to_arrow(),
        rows.value.to_arrow(),
        rows.window_start_ms,
        rows.window_end_ms,
        rows.timestamp_ms,
        rows.headers,
        pa.array(why, pa.string()) if rows.problems else None,
        rows.details.get("family"),
        None if rows.inner_key is None else rows.inner_key.to_arrow(),
        None if rows.inner_value is None else rows.inner_value.to_arrow(),
    ]
    return [
        pa.nulls(len(rows), kind) if each is None else each
        for each, kind in zip(cells, ROW.types, strict=True)
    ]
