"""What two stores differ in: how much, and each difference, read when it is looked at."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.records import Closing, Viewed
from kstoolkit.rocksdb.faults import StoreClosedError
from kstoolkit.stores.comparing.sides import ROW, rows_from
from kstoolkit.stores.rows.readable import SHOWN_ROWS, limited
from kstoolkit.stores.rows.rows import decoded_rows, in_hex, json_text, value_text
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pandas as pd

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.rocksdb.files.shadow import ScratchFolder
    from kstoolkit.stores.rows.rows import DecodedRows, StoreRow

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
    change, a, b
        ``"added"``: only the second has it. ``"removed"``: only the first has it. ``"changed"``:
        both have it, with different values. And the row of each; None where it has none.

    Examples
    --------
    >>> from kstoolkit.stores.rows.rows import StoreRow
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
        row, sides = self.row, {"a": self.a, "b": self.b}
        there = [each for each in sides.values() if each is not None]
        ends = [each.window_end_ms for each in there if each.window_end_ms is not None]
        told = {"change": self.change, "key": row.key, "window_start_ms": row.window_start_ms}
        told["window_end_ms"] = ends[-1] if ends else None
        for name in ("timestamp_ms", "value"):
            told |= {f"{name}_{side}": getattr(each, name, None) for side, each in sides.items()}
        told["key_hex"] = row.key_bytes.hex()
        for side, each in sides.items():
            raw = None if each is None else each.value_bytes
            told[f"value_hex_{side}"] = None if raw is None else raw.hex()
        families = [each.family for each in there if "family" in each.beside]
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
            one = None if change == "added" else before
            yield Difference(change, one, None if change == "removed" else after)

    def to_arrow(self) -> pa.Table:
        """Return the differences as a table.

        ``change``, ``key``, ``window_start``, ``window_end``, ``value_a``, ``value_b``,
        ``timestamp_a``, ``timestamp_b``, ``key_bytes``, ``value_bytes_a``, ``value_bytes_b``,
        ``problem``, and ``family`` if a store has column families; ``a`` is the first store.
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


def _of_one_type(*columns: pa.ChunkedArray) -> list[pa.Array | pa.ChunkedArray]:
    """Return columns as they are if they are of one type, else as text."""
    if len({each.type for each in columns}) == 1:
        return list(columns)
    return [_as_text(each) for each in columns]


def _as_text(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    is_binary = pa.types.is_large_binary(column.type)  # which may be no UTF-8
    return in_hex(column.combine_chunks()) if is_binary else column.cast(pa.large_string())


_LISTED_ROWS = 10


@dataclass(frozen=True, slots=True)
class DiffCounts:
    """In how many rows two stores differ, and in how many they don't.

    Only the second store has those that were ``added``, only the first those that were ``removed``;
    both have those that ``changed``, with different values.
    """

    added: int
    removed: int
    changed: int
    equal: int

    def __str__(self) -> str:
        told = ((name, getattr(self, name)) for name in self.__slots__)
        return ", ".join(f"{format_count(number)} {name}" for name, number in told)


class StoreDiff(Closing, Viewed):
    """The differences of two stores, made by :func:`kstoolkit.diff_stores`.

    The stores themselves may be closed by now. The differences lie in a scratch folder, which goes
    with this object, or when it is closed; ``with`` closes it.

    Parameters
    ----------
    folder, kept
        The scratch folder, and the file in it.
    counts, names
        How many rows were ``added``, ``removed``, ``changed``, and are ``equal``, which are
        attributes too; the two stores' names.
    serdes_a, serdes_b, has_families
        How to read keys and values of either, and whether its rows name their column families.
    """

    def __init__(
        self,
        folder: ScratchFolder,
        kept: Path,
        counts: DiffCounts,
        *,
        names: tuple[str, str],
        serdes_a: tuple[Serde, Serde],
        serdes_b: tuple[Serde, Serde],
        has_families: tuple[bool, bool] = (False, False),
    ) -> None:
        self.counts, self.names = counts, names
        self.added, self.removed = counts.added, counts.removed
        self.changed, self.equal = counts.changed, counts.equal
        self._kept, self._serdes, self._has_families = kept, (serdes_a, serdes_b), has_families
        self._remove = weakref.finalize(self, folder.remove)

    @property
    def is_empty(self) -> bool:
        """Whether the stores hold the same."""
        return not (self.added or self.removed or self.changed)

    def batches(self) -> Iterator[DiffBatch]:
        """Yield the differences in parts of some thousands, by key, window and time."""
        if not self._remove.alive:
            message = f"The comparison of {self.names[0]!r} and {self.names[1]!r} is closed."
            raise StoreClosedError(message, hint="Compare them again.")
        return self._batches()

    def rows(self) -> Iterator[Difference]:
        """Yield the differences one by one, by key, window and time."""
        for batch in self.batches():
            yield from batch

    __iter__ = rows

    def json_lines(self) -> Iterator[str]:
        """Yield one JSON object a difference, without its line end; bytes and NaN as in rows."""
        return (json_text(each.to_dict()) for each in self.rows())

    def to_arrow(self, limit: int | None = SHOWN_ROWS) -> pa.Table:
        """Return the differences as an Arrow table.

        Parameters
        ----------
        limit
            At most so many, announced if there are more; ``None`` for all.

        Returns
        -------
        pyarrow.Table
            Columns as in :meth:`DiffBatch.to_arrow
            <kstoolkit.stores.comparing.storediff.DiffBatch.to_arrow>`.
        """
        return limited(map(DiffBatch.to_arrow, self.batches()), limit, "differences")

    def to_pandas(self, limit: int | None = SHOWN_ROWS) -> pd.DataFrame:
        """Return the differences as a DataFrame, with columns and limit as in :meth:`to_arrow`."""
        found = limited(map(DiffBatch.to_arrow, self.batches()), limit, "differences")
        frame: pd.DataFrame = found.to_pandas()
        return frame

    def close(self) -> None:
        """Remove the scratch folder; a second time does nothing."""
        self._remove()

    def __repr__(self) -> str:
        return f"StoreDiff({self.names[0]!r} to {self.names[1]!r}: {self.counts})"

    def _repr_html_(self) -> str:
        head = f"<p>{escape(repr(self))}</p>"
        if self.is_empty or not self._remove.alive:
            return head
        first = list(islice(self.rows(), _LISTED_ROWS + 1))
        listed = "".join(f"<li>{escape(str(each))}</li>" for each in first[:_LISTED_ROWS])
        more = "<p>… and more</p>" if len(first) > _LISTED_ROWS else ""
        return f"{head}<ul>{listed}</ul>{more}"

    def _batches(self) -> Iterator[DiffBatch]:
        nothing = True
        with pa.OSFile(str(self._kept), "rb") as file, pa.ipc.open_stream(file) as stream:
            for block in stream:
                yield self._read(pa.Table.from_batches([block]))
                nothing = False
        if nothing:  # which has columns and types, too
            yield self._read(DIFFERENCES.empty_table())

    def _read(self, rows: pa.Table) -> DiffBatch:
        """Return differences of the columns :data:`DIFFERENCES`, decoded."""
        halves = []
        for side, serdes, has in zip(_SIDES, self._serdes, self._has_families, strict=True):
            half = rows.select([f"{name}_{side}" for name in ROW.names]).rename_columns(ROW.names)
            halves.append(decoded_rows(rows_from(half, has_families=has), *serdes))
        a, b = halves
        no_a, no_b = a.raw.key.is_null, b.raw.key.is_null
        change = np.where(no_a, "added", np.where(no_b, "removed", "changed"))
        return DiffBatch(a, b, change.tolist())
