"""Tables of any width and length on a page: the first rows, and all columns in blocks that print.

What is left out is said above the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from kstoolkit.markup import Html, element, isolated, joined, text
from kstoolkit.records import counted
from kstoolkit.report.tables import LONGEST_IN_TABLE, nothing, table
from kstoolkit.report.values import NOTHING, is_number, printed
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.report.part import Span


SHOWN_ROWS = 50
"""Rows of a table: what one person looks at; files are for more."""

_WIDEST = 92
"""Characters that stand beside each other on a sheet of A4, gaps among them."""
_GAP = 2
_MOST_COLUMNS = 120
_LONGEST_NOTE = 600


@dataclass(frozen=True, slots=True)
class Grid:
    """The first rows of a table, as texts.

    Parameters
    ----------
    names
        Of the columns.
    rows
        A text a column, in each.
    numbers
        The columns that hold numbers, by place.
    total
        How many rows there are; ``None`` if there are more than these, and nobody counted them.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()
    total: int | None = None

    def html(self, kind: str = "rows", *, whole: bool = False) -> Html:
        """Return the table; unless ``whole``, one that is too wide for a sheet as several."""
        if not self.names:
            return nothing("A table without columns.")
        if whole:
            return self._block(range(len(self.names)), kind, split=False)
        empty = [place for place in range(len(self.names)) if self._is_empty(place)]
        if empty and len(empty) < len(self.names):
            names = ", ".join(self.names[place] for place in empty)
            said = isolated(f"Columns with nothing in these rows: {names}.", _LONGEST_NOTE)
            return joined(self._without(empty).html(kind), element("p", said, class_="nothing"))
        blocks = self._blocks()
        return joined(*(self._block(block, kind, split=len(blocks) > 1) for block in blocks))

    def _is_empty(self, place: int) -> bool:
        return len(self.rows) > 1 and all(row[place] == NOTHING for row in self.rows)

    def _without(self, places: Sequence[int]) -> Grid:
        kept = [place for place in range(len(self.names)) if place not in places]
        return Grid(
            [self.names[place] for place in kept],
            [[row[place] for place in kept] for row in self.rows],
            frozenset(n for n, place in enumerate(kept) if place in self.numbers),
            self.total,
        )

    def _blocks(self) -> list[range]:
        """Return which columns stand beside each other: as many as a sheet has room for."""
        starts, taken = [0], 0
        shown = range(min(len(self.names), _MOST_COLUMNS))
        for column in shown:
            texts = (self.names[column], *(row[column] for row in self.rows))
            width = _GAP + min(LONGEST_IN_TABLE, max(map(len, texts)))
            if taken + width > _WIDEST and column > starts[-1]:
                starts, taken = [*starts, column], 0
            taken += width
        return [range(*ends) for ends in pairwise([*starts, shown.stop])]

    def _block(self, columns: range, kind: str, *, split: bool) -> Html:
        before = ["No."] if split else []
        heads = [*before, *(self.names[column] for column in columns)]
        rows = [
            [text(str(number))] * split
            + [isolated(row[column], LONGEST_IN_TABLE) for column in columns]
            for number, row in enumerate(self.rows, 1)
        ]
        numbers = {place + split for place, column in enumerate(columns) if column in self.numbers}
        said = self._said(kind) + (f"; {self._columns(columns)}" if split else "")
        right = numbers | ({0} if split else set())
        return table(
            f"{said}.", [isolated(head, LONGEST_IN_TABLE) for head in heads], rows, numbers=right
        )

    def _said(self, kind: str) -> str:
        shown = len(self.rows)
        if self.total is None:
            return f"First {counted(shown, kind)} shown, of more"
        if shown >= self.total:
            return counted(self.total, kind)
        return f"First {format_count(shown)} of {counted(self.total, kind)} shown"

    def _columns(self, columns: range) -> str:
        left_out = len(self.names) - _MOST_COLUMNS
        more = f", {format_count(left_out)} more left out" if left_out > 0 else ""
        total = format_count(len(self.names))
        return f"columns {columns.start + 1} to {columns.stop} of {total}{more}"


_COUNTED = -1


def grid_of(table_: pd.DataFrame | pa.Table, limit: int, *, total: int | None = _COUNTED) -> Grid:
    """Return the first ``limit`` rows of a DataFrame or an Arrow table.

    Parameters
    ----------
    table_
        The table, or the beginning of one.
    limit
        At most so many rows.
    total
        How many there are altogether; ``None`` if there are more, and nobody counted them.

    Examples
    --------
    >>> grid_of(pd.DataFrame({"user": ["anna", "bo"], "count": [3, 1200]}), 1)
    Grid(names=['user', 'count'], rows=[('anna', '3')], numbers=frozenset({1}), total=2)
    """
    there = len(table_) if total == _COUNTED else total
    if isinstance(table_, pa.Table):
        first = table_.slice(0, limit)
        return _grid(first.column_names, [*map(_values, first.columns)], there)
    head = table_.head(limit)
    index = _index(head)
    columns = [head.iloc[:, place].tolist() for place in range(head.shape[1])]
    names = [*(name for name, _ in index), *map(_name, head.columns)]
    return _grid(names, [*(values for _, values in index), *columns], there)


def frame_span(table_: pd.DataFrame | pa.Table) -> Span | None:
    """Return the time that the columns of moments with a zone cover; those without tell none."""
    if isinstance(table_, pa.Table):
        moments = [field.name for field in table_.schema if _has_zone(field.type)]
        columns = [table_[name].cast(pa.timestamp("ms", "UTC"), safe=False) for name in moments]
        values = [pa.compute.min_max(each.cast(pa.int64())).as_py() for each in columns]
        ends = [each[end] for each in values for end in ("min", "max") if each[end] is not None]
    else:
        places = range(table_.shape[1])
        series = [table_.iloc[:, place] for place in places]
        zoned = [each for each in series if isinstance(each.dtype, pd.DatetimeTZDtype)]
        known = [each.dropna() for each in zoned]
        ends = [_epoch_ms(end) for each in known if len(each) for end in (each.min(), each.max())]
    return (min(ends), max(ends)) if ends else None


def _grid(names: Sequence[str], columns: Sequence[Sequence[Any]], total: int | None) -> Grid:
    texts = [
        [printed(value, name) for value in column]
        for name, column in zip(names, columns, strict=True)
    ]
    numbers = {
        place
        for place, column in enumerate(columns)
        if column and all(value is None or is_number(value) for value in column)
    }
    return Grid(list(names), list(zip(*texts, strict=True)), frozenset(numbers), total)


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):  # a moment in a year that Python has no date of
        values = column.cast(pa.int64()).to_pylist()
    return values


def _index(head: pd.DataFrame) -> list[tuple[str, list[Any]]]:
    """Return the index as columns; none if it does but count the rows."""
    index = head.index
    if isinstance(index, pd.RangeIndex) and index.name is None:
        return []
    names = ["" if name is None else _name(name) for name in index.names]
    return [(name, index.get_level_values(n).tolist()) for n, name in enumerate(names)]


def _name(name: object) -> str:
    return " ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _has_zone(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz is not None


def _epoch_ms(moment: pd.Timestamp) -> int:
    return int(moment.as_unit("ms").asm8.astype("int64"))
