"""Tables, records and rows of stores on a page.

Of a table of any width and length: the first rows, and all columns in blocks that print; what is
left out is said above it. Of a record: its line, its figures with whose they are, its parts, its
plot. Of rows and differences the first, since nobody may know how many there are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from kstoolkit.errors import LimitedResultWarning
from kstoolkit.markup import Html, element, isolated, joined, shortened, text
from kstoolkit.records import Record, Records, counted
from kstoolkit.report.figures import plotted
from kstoolkit.report.page import Ids, ReportPart, Section, joint, keyed
from kstoolkit.report.tables import LONGEST_IN_TABLE, facts, nothing, table
from kstoolkit.units import format_count
from kstoolkit.views.records import NOTHING, is_number, line_of, printed, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kstoolkit.report.page import Span


SHOWN_ROWS = 50
"""Rows of a table: what one person looks at; files are for more."""

_WIDEST = 92
"""Characters that stand beside each other on a sheet of A4, gaps among them."""
_GAP = 2
_MOST_COLUMNS = 120
_MOMENTS = {"start_ms", "end_ms", "stream_time_ms", "window_start_ms", "window_end_ms"}
_FEW, _WIDE, _WIDEST_OF_FEW = 4, 8, 40
_LONGEST_VALUE = 300
_LONGEST_LINE = 1_000
_MOST_WHYS = 20
_BYTES = {"key_bytes", "value_bytes"}
"""What the other columns show decoded."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """The first rows of a table as texts, the places of columns of numbers, and how many rows.

    The ``total`` is ``None`` if there are more than these, and nobody counted them.
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
        columns = enumerate(zip(*self.rows, strict=True)) if len(self.rows) > 1 else ()
        wide, alone = len(self._blocks()) > 1, {NOTHING}
        same = [n for n, column in columns if {*column} == alone or (wide and len({*column}) == 1)]
        if same and len(same) < len(self.names):
            told = "; ".join(f"{self.names[place]} {self.rows[0][place]}" for place in same)
            said = isolated(f"The same in all these rows: {told}.", _LONGEST_LINE)
            return joined(self._without(same).html(kind), element("p", said, class_="nothing"))
        blocks = self._blocks()
        return joined(*(self._block(block, kind, split=len(blocks) > 1) for block in blocks))

    def _without(self, places: Sequence[int]) -> _Grid:
        kept = [place for place in range(len(self.names)) if place not in places]
        return _Grid(
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
        names = [isolated(head, LONGEST_IN_TABLE) for head in heads]
        return table(f"{said}.", names, rows, numbers=numbers | ({0} if split else set()))

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


def grid_of(table_: pd.DataFrame | pa.Table, limit: int | None, *, has_more: bool = False) -> _Grid:
    """Return the first ``limit`` rows of a DataFrame or an Arrow table, or of the beginning of one.

    None is as many as one person looks at. ``has_more`` is whether there are more than the table
    has, which nobody counted.

    Examples
    --------
    >>> grid_of(pd.DataFrame({"user": ["anna", "bo"], "count": [3, 1200]}), 1)
    _Grid(names=['user', 'count'], rows=[('anna', '3')], numbers=frozenset({1}), total=2)
    """
    there = None if has_more else len(table_)
    most = SHOWN_ROWS if limit is None else limit
    if isinstance(table_, pa.Table):
        first = table_.slice(0, most)
        return _grid(first.column_names, [*map(_values, first.columns)], there)
    head = table_.head(most)
    index = _index(head)
    columns = [head.iloc[:, place].tolist() for place in range(head.shape[1])]
    names = [*(name for name, _ in index), *map(_name, head.columns)]
    return _grid(names, [*(values for _, values in index), *columns], there)


def frame_span(table_: pd.DataFrame | pa.Table) -> Span | None:
    """Return the time that the columns of moments with a zone cover; those without tell none."""
    if isinstance(table_, pa.Table):
        moments = [each.name for each in table_.schema if getattr(each.type, "tz", None)]
        columns = [table_[name].cast(pa.timestamp("ms", "UTC"), safe=False) for name in moments]
        values = [pa.compute.min_max(each.cast(pa.int64())).as_py() for each in columns]
        ends = [each[end] for each in values for end in ("min", "max") if each[end] is not None]
    else:
        places = range(table_.shape[1])
        series = [table_.iloc[:, place] for place in places]
        zoned = [each for each in series if isinstance(each.dtype, pd.DatetimeTZDtype)]
        known = [each.dropna() for each in zoned]
        found = [end for each in known if len(each) for end in (each.min(), each.max())]
        ends = [int(each.as_unit("ms").asm8.astype("int64")) for each in found]
    return (min(ends), max(ends)) if ends else None


def _grid(names: Sequence[str], columns: Sequence[Sequence[Any]], total: int | None) -> _Grid:
    named = zip(names, columns, strict=True)
    texts = [[printed(value, name) for value in column] for name, column in named]
    numbers = {
        place
        for place, column in enumerate(columns)
        if column and all(value is None or is_number(value) for value in column)
    }
    return _Grid(list(names), list(zip(*texts, strict=True)), frozenset(numbers), total)


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


def record_part(record: Record, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of one record."""
    title = words(type(record).__name__)
    key = ids.new(keyed(title))
    said = _said(record)
    brief = Html() if said and len(repr(record)) > _LONGEST_VALUE else line(record)
    body = joined(brief, said, plotted(record, key), _facts(record))
    values = {each.name: getattr(record, each.name) for each in fields(record)}  # type: ignore[arg-type] # records are dataclasses
    inner = [_inner(name, each, ids, limit) for name, each in values.items() if _holds(each)]
    section = Section(key=key, heading=text(title), body=body, inner=tuple(inner))
    return ReportPart(title=title, section=section, span_ms=_span([record]))


def records_part(records: Records[Any], ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of several records of one kind."""
    kind = type(records)
    title = words(records.kind if kind is Records else kind.__name__)
    key = ids.new(keyed(title))
    inner = [_inner(name, each, ids, limit) for name, each in vars(records).items() if _holds(each)]
    body = _records(records, key, limit)
    section = Section(key=key, heading=isolated(title), body=body, inner=tuple(inner))
    return ReportPart(title=title, section=section, span_ms=_span(records))


def line(thing: object) -> Html:
    """Return the one line that a thing says of itself."""
    told = line_of(thing)
    return element("p", isolated(told, _LONGEST_LINE), class_="line") if told else Html()


def _said(record: Record) -> Html:
    """Return what it says in sentences, if that is more than its line."""
    sentences = str(record).splitlines()
    if str(record) == repr(record):
        return Html()
    return element("ul", *(element("li", isolated(each, _LONGEST_LINE)) for each in sentences))


def _facts(record: Record) -> Html:
    about = [
        (each.name, isolated(printed(getattr(record, each.name), each.name), _LONGEST_VALUE))
        for each in fields(record)  # type: ignore[arg-type] # records are dataclasses
        if not ("source" in each.metadata or each.name == "unknown")
        and not isinstance(getattr(record, each.name), Record | Records)
    ]
    figures = record.figures()
    rows = []
    for each in [each for each in figures if each.value is not None]:
        source = element("span", str(each.source), class_="whole")
        is_plain = isinstance(each.value, int | float | str | None)
        value = each.text if is_plain else printed(each.value, each.name)
        rows.append([isolated(each.name), isolated(value, _LONGEST_VALUE), source])
    told = table("Figures, and whose they are.", ("Figure", "Value", "Source"), rows)
    unknown = _unknown((each.name, each.text) for each in figures if each.value is None)
    return joined(*([facts(about)] if about else []), *([told] if rows else []), unknown)


def _holds(value: object) -> bool:
    return isinstance(value, Records) and len(value) > 0


def _inner(name: str, records: Records[Any], ids: Ids, limit: int | None) -> Section:
    key = ids.new(keyed(name))
    return Section(key=key, heading=text(words(name)), body=_records(records, key, limit))


def _records(records: Records[Any], key: str, limit: int | None) -> Html:
    # Of records without a line of their own, the table says how many there are.
    told = Html() if type(records) is Records else line(records)
    if not len(records):
        return joined(told, nothing(f"No {shortened(records.kind, 100)}."))
    shown = records[: SHOWN_ROWS if limit is None else limit]
    sources = sorted({str(each.source) for row in shown for each in row.figures()})
    whose = [element("p", f"Source: {', '.join(sources)}.", class_="nothing")] if sources else []
    if all("\n" in str(each) for each in shown):  # its sentences: no table has room for those
        unjudged = _unknown(getattr(records, "unjudged", {}).items())
        return joined(told, *map(_card, shown), unjudged, *whose)
    grid = _records_grid(shown, len(records))
    return joined(told, plotted(records, key), grid, _whys(shown), *whose)


def _card(record: Record) -> Html:
    """Return what a record says in lines: the first, and below it each with what it is."""
    first, *others = str(record).splitlines()
    told: dict[str, list[str]] = {}
    for each in others:
        what, _, said = each.strip().partition(": ")
        told.setdefault(what, []).append(said)
    lines = [(what, isolated("; ".join(said), _LONGEST_LINE)) for what, said in told.items()]
    return element("article", element("h4", isolated(first, _LONGEST_LINE)), facts(lines))


def _records_grid(shown: Records[Any], total: int) -> Html:
    names = [each.name for each in fields(shown[0]) if each.name != "unknown"] if len(shown) else []
    rows = [[_cell(row, name) for name in names] for row in shown]
    if total <= _FEW and len(names) > (_WIDE if total == 1 else _WIDEST_OF_FEW):
        turned = [[name, *(row[place] for row in rows)] for place, name in enumerate(names)]
        heads, *others = turned  # what a record is about comes first
        return _Grid(heads, others, total=len(others)).html("figures", whole=True)
    numbers = {
        place
        for place, name in enumerate(names)
        if all(is_number(getattr(row, name)) for row in shown)
    }
    return _Grid(names, rows, frozenset(numbers), total).html(shown.kind)


def _cell(record: Record, name: str) -> str:
    value = getattr(record, name)
    if value is None and name in getattr(record, "unknown", {}):
        return "unknown"
    return printed(value, name)


def _whys(shown: Records[Any]) -> Html:
    """Return why figures of a table are unknown."""
    return _unknown(
        (name, f"unknown ({why})")
        for record in shown
        for name, why in getattr(record, "unknown", {}).items()
        if getattr(record, name, None) is None
    )


def _unknown(figures: Iterable[tuple[str, str]]) -> Html:
    """Return what is unknown, each reason once."""
    whys: dict[str, dict[str, None]] = {}
    for name, why in figures:
        whys.setdefault(why, {})[name] = None
    said = [f"{', '.join(names)}: {why}" for why, names in whys.items()]
    listed = [element("li", isolated(each, _LONGEST_LINE)) for each in said[:_MOST_WHYS]]
    if len(whys) > _MOST_WHYS:
        more = format_count(len(whys) - _MOST_WHYS)
        listed.append(element("li", f"{more} more reasons are left out."))
    return element("ul", *listed, class_="whys") if listed else Html()


def _span(records: Iterable[Record]) -> Span | None:
    return joint((min(each), max(each)) for each in map(_moments, records) if each)


def _moments(record: Record) -> list[int]:
    """Return the moments that a record tells, epoch ms UTC."""
    values = {each.name: getattr(record, each.name) for each in fields(record)}  # type: ignore[arg-type] # records are dataclasses
    moments = [value for value in values.values() if isinstance(value, datetime) and value.tzinfo]
    told = [value for name, value in values.items() if name in _MOMENTS and isinstance(value, int)]
    return told + [int(each.timestamp() * 1_000) for each in moments]


def rows_part(rows: Any, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of what gives an Arrow table up to a limit, and warns of more."""
    title = words(type(rows).__name__)
    key = ids.new(keyed(title))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", LimitedResultWarning)
        found = rows.to_arrow(limit=SHOWN_ROWS if limit is None else limit)
    has_more = any(issubclass(each.category, LimitedResultWarning) for each in told)
    shown = found.drop_columns([name for name in found.column_names if name in _BYTES])
    table = grid_of(shown, len(shown), has_more=has_more).html()
    body = joined(
        line(rows), plotted(rows, key), table if len(shown) else nothing(f"No {title.lower()}.")
    )
    section = Section(key=key, heading=text(title), body=body)
    return ReportPart(title=title, section=section, span_ms=frame_span(shown))
