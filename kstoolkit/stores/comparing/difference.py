"""One difference between two stores, and some of them as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.stores.comparing.sides import ROW, rows_from
from kstoolkit.stores.rows.decodedrows import FamilyRow, decoded_rows
from kstoolkit.stores.rows.valuetext import value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.stores.rows.decodedrows import DecodedRows
    from kstoolkit.stores.rows.storerow import StoreRow


Change = Literal["added", "removed", "changed"]
"""What happened on the way from the first store to the second."""

_SIDES = ("a", "b")

DIFFERENCES = pa.schema([(f"{each.name}_{side}", each.type) for side in _SIDES for each in ROW])
"""Differences as they are kept: the row of either side, of which one may be null throughout."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that only one of two stores has, or that differs.

    Parameters
    ----------
    change
        ``"added"``: only the second has it. ``"removed"``: only the first has it. ``"changed"``:
        both have it, with different values.
    a, b
        The row of the first store, and of the second; None where it has none.

    Examples
    --------
    >>> from kstoolkit.stores.rows.storerow import StoreRow
    >>> before, after = (StoreRow("anna", n, 0, 60_000, None, None, b"anna", b"?") for n in (3, 5))
    >>> print(Difference("changed", before, after))
    ~ 'anna' [1970-01-01 00:00:00.000 to 1970-01-01 00:01:00.000]: 5, was 3
    """

    change: Change
    a: StoreRow | None
    b: StoreRow | None

    @property
    def row(self) -> StoreRow:
        """The row of the second store, or of the first one if the second has none."""
        return cast("StoreRow", self.a if self.b is None else self.b)

    @property
    def key(self) -> Any:
        """The key that the row has."""
        return self.row.key

    def __str__(self) -> str:
        sign = {"added": "+", "removed": "-", "changed": "~"}[self.change]
        if self.a is None or self.b is None:
            return f"{sign} {self.row}"
        return f"{sign} {self.b}, was {value_text(self.a.value)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that ``kstoolkit diff --json`` prints."""
        row, sides = self.row, (self.a, self.b)
        ends = [each.window_end_ms for each in sides if each and each.window_end_ms is not None]
        values, times, raw = (
            [None if each is None else getattr(each, name) for each in sides]
            for name in ("value", "timestamp_ms", "value_bytes")
        )
        told = {
            "change": self.change,
            "key": row.key,
            "window_start_ms": row.window_start_ms,
            "window_end_ms": next(reversed(ends), None),
            **dict(zip(("timestamp_ms_a", "timestamp_ms_b"), times, strict=True)),
            **dict(zip(("value_a", "value_b"), values, strict=True)),
            "key_hex": row.key_bytes.hex(),
            **dict(zip(("value_hex_a", "value_hex_b"), map(_hex, raw), strict=True)),
        }
        families = [each.family for each in sides if isinstance(each, FamilyRow)]
        return told | ({"family": families[-1]} if families else {})


@dataclass(frozen=True, slots=True, eq=False)
class DiffBatch:
    """Some differences, column by column.

    Parameters
    ----------
    a, b
        Rows of the first store, and of the second: of each difference one, which is null
        throughout where the store has none.
    change
        What happened to each.
    """

    a: DecodedRows
    b: DecodedRows
    change: list[Change]

    def __len__(self) -> int:
        return len(self.change)

    def __iter__(self) -> Iterator[Difference]:
        for change, before, after in zip(self.change, self.a, self.b, strict=True):
            yield Difference(
                change,
                None if change == "added" else before,
                None if change == "removed" else after,
            )

    def to_arrow(self) -> pa.Table:
        """Return the differences as a table.

        ``change``, ``key``, ``window_start``, ``window_end``, ``value_a``, ``value_b``,
        ``timestamp_a``, ``timestamp_b``, ``key_bytes``, ``value_bytes_a``, ``value_bytes_b``,
        ``problem``, and ``family`` if a store has column families; of the two stores, ``a`` is the
        first.
        """
        a, b = self.a.to_arrow(), self.b.to_arrow()
        columns = {"change": pa.array(self.change, pa.string())}
        for name in ("key", "window_start", "window_end"):
            columns[name] = pc.coalesce(*_of_one_type(b[name], a[name]))
        for name in ("value", "timestamp"):
            columns |= {f"{name}_a": a[name], f"{name}_b": b[name]}
        columns["key_bytes"] = pc.coalesce(b["key_bytes"], a["key_bytes"])
        columns |= {"value_bytes_a": a["value_bytes"], "value_bytes_b": b["value_bytes"]}
        columns["problem"] = pc.coalesce(b["problem"], a["problem"])
        if families := [each["family"] for each in (b, a) if "family" in each.column_names]:
            columns["family"] = pc.coalesce(*families)
        return pa.table(columns)


def diff_batch(
    rows: pa.Table,
    serdes_a: tuple[Serde, Serde],
    serdes_b: tuple[Serde, Serde],
    has_families: tuple[bool, bool] = (False, False),
) -> DiffBatch:
    """Return differences of the columns :data:`DIFFERENCES`, decoded.

    Parameters
    ----------
    rows
        The differences.
    serdes_a, serdes_b
        How to read keys and values of either store.
    has_families
        Whether the rows of either store name their column families.
    """
    halves = []
    for side, serdes, has in zip(_SIDES, (serdes_a, serdes_b), has_families, strict=True):
        half = rows.select([f"{name}_{side}" for name in ROW.names]).rename_columns(ROW.names)
        halves.append(decoded_rows(rows_from(half, has_families=has), *serdes))
    a, b = halves
    return DiffBatch(a, b, _changes(a.raw.key.is_null, b.raw.key.is_null))


def _changes(
    no_a: np.ndarray[tuple[int], np.dtype[np.bool_]],
    no_b: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> list[Change]:
    told: list[Change] = np.where(no_a, "added", np.where(no_b, "removed", "changed")).tolist()
    return told


def _of_one_type(*columns: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """Return columns as they are if they are of one type, else as text."""
    if len({each.type for each in columns}) == 1:
        return list(columns)
    return [_as_text(each) for each in columns]


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_large_binary(column.type):  # which may be no UTF-8
        texts = [None if cell is None else cell.hex() for cell in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    return column.cast(pa.large_string())


def _hex(raw: bytes | None) -> str | None:
    return None if raw is None else raw.hex()
