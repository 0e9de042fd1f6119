"""Tables, records and rows of stores on a page.

Of a table of any width and length: the first rows, and all columns in blocks that print; what is
left out is said above it. Of a record: its line, its figures with whose they are, its parts, its
plot. Of rows and differences the first, since nobody may know how many there are.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from kstoolkit.errors import LimitedResultWarning
from kstoolkit.markup import Html, element, isolated, joined, shortened, text
from kstoolkit.records import MOMENTS, Record, Records, counted
from kstoolkit.report.figures import plotted
from kstoolkit.report.page import Ids, ReportPart, Section, joint, keyed
from kstoolkit.report.tables import LONGEST_IN_TABLE, WIDE_CELL, announced, facts, nothing, table
from kstoolkit.units import format_count
from kstoolkit.views.records import (
    NOTHING,
    about,
    by_reason,
    is_number,
    label_of,
    line_of,
    printed,
    records_in,
    value_of,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kstoolkit.report.page import Span

SHOWN_ROWS = 50
"""Rows of a table: what one person looks at; files are for more."""

_WIDEST, _WIDEST_WRAPPED, _SLIM = 104, 200, 42
"""Characters that stand beside each other on a sheet of A4, gaps among them."""
_GAP = 2
_MOST_COLUMNS, _WIDE_FROM = 120, 4
_MOMENTS = {"start_ms", "end_ms", "stream_time_ms", "window_start_ms", "window_end_ms"}
_FEW, _WIDE, _WIDEST_OF_FEW = 4, 8, 40
_LONGEST_VALUE = 300
_LONGEST_LINE = 1_000
_AMONG = re.compile("; (?=(?:expect|cost): )")
_LINK = re.compile(r"https://[\w./#-]+")
_BYTES = {"key_bytes", "value_bytes"}
"""What the other columns show decoded."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The first rows of a table as texts, the places of columns of numbers, and how many rows.

    The ``total`` is ``None`` if there are more than these, and nobody counted them.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()
    total: int | None = None

    def html(self, kind: str = "rows", widest: int = _WIDEST) -> Html:
        """Return the table; one that is too wide for a sheet as several."""
        if not self.names:
            return nothing("A table without columns.")
        columns = enumerate(zip(*self.rows, strict=True)) if len(self.rows) > 1 else ()
        wide, alone = len(self.names) > _WIDE_FROM, {NOTHING}
        same = [n for n, column in columns if {*column} == alone or (wide and len({*column}) == 1)]
        if same and len(same) < len(self.names):
            told = "; ".join(f"{self.names[place]} {self.rows[0][place]}" for place in same)
            said = isolated(f"The same in all these rows: {told}.", _LONGEST_LINE)
            return joined(self._without(same).html(kind, widest), nothing(said))
        return joined(*(self._block(block, kind) for block in self._blocks(widest)))

    def _without(self, places: Sequence[int]) -> Grid:
        kept = [place for place in range(len(self.names)) if place not in places]
        return Grid(
            [self.names[place] for place in kept],
            [[row[place] for place in kept] for row in self.rows],
            frozenset(n for n, place in enumerate(kept) if place in self.numbers),
            self.total,
        )

    def _blocks(self, widest: int) -> list[list[int]]:
        """Return which columns stand beside each other: the first with as many as have room."""
        blocks, taken = [[0]], self._width(0)
        for column in range(1, min(len(self.names), _MOST_COLUMNS)):
            taken += self._width(column)
            if taken > widest and len(blocks[-1]) > 1:
                blocks, taken = [*blocks, [0]], self._width(0) + self._width(column)
            blocks[-1].append(column)
        return blocks

    def _width(self, column: int) -> int:
        texts = (self.names[column], *(row[column] for row in self.rows))
        return _GAP + min(WIDE_CELL, max(map(len, texts)))

    def _block(self, columns: Sequence[int], kind: str) -> Html:
        names = [isolated(self.names[column], LONGEST_IN_TABLE) for column in columns]
        rows = [[isolated(row[column], _LONGEST_VALUE) for column in columns] for row in self.rows]
        numbers = {place for place, column in enumerate(columns) if column in self.numbers}
        split = len(columns) < len(self.names)
        said = self._said(kind) + (f"; {self._columns(columns)}" if split else "")
        is_slim = sum(map(self._width, columns)) <= _SLIM
        return table(f"{said}.", names, rows, numbers=numbers, kind="slim" if is_slim else "")

    def _said(self, kind: str) -> str:
        if self.total is None:
            return f"First {counted(len(self.rows), kind)} shown, of more"
        return announced(len(self.rows), self.total, kind, which="First ")

    def _columns(self, columns: Sequence[int]) -> str:
        left_out = len(self.names) - _MOST_COLUMNS
        more = f", {format_count(left_out)} more left out" if left_out > 0 else ""
        total = format_count(len(self.names))
        first = columns[1] if columns[1] > 1 else 0
        return f"columns {first + 1} to {columns[-1] + 1} of {total}{more}"


def grid_of(table_: pd.DataFrame | pa.Table, limit: int | None, *, has_more: bool = False) -> Grid:
    """Return the first ``limit`` rows of a DataFrame or an Arrow table, or of the beginning of one.

    None is as many as one person looks at. ``has_more`` is whether there are more than the table
    has, which nobody counted.

    >>> grid_of(pd.DataFrame({"user": ["anna", "bo"], "count": [3, 1200]}), 1)
    Grid(names=['user', 'count'], rows=[('anna', '3')], numbers=frozenset({1}), total=2)
    """
    there = None if has_more else len(table_)
    most = SHOWN_ROWS if limit is None else limit
    if isinstance(table_, pa.Table):
        first = table_.slice(0, most)
        return _grid(first.column_names, [*map(_values, first.columns)], there)
    head = table_.head(most)
    index = _index(head)
    columns = [each.tolist() for _, each in head.items()]
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
        zoned = (each for _, each in table_.items() if isinstance(each.dtype, pd.DatetimeTZDtype))
        known = [each.dropna() for each in zoned]
        found = [end for each in known if len(each) for end in (each.min(), each.max())]
        ends = [int(each.as_unit("ms").asm8.astype("int64")) for each in found]
    return (min(ends), max(ends)) if ends else None


def _grid(names: Sequence[str], columns: Sequence[Sequence[Any]], total: int | None) -> Grid:
    named = zip(names, columns, strict=True)
    texts = [[printed(value, name) for value in column] for name, column in named]
    numbers = {place for place, column in enumerate(columns) if _are_numbers(column)}
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


def record_part(record: Record, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of one record."""
    title = words(type(record).__name__)
    key = ids.new(keyed(title))
    said = _said(record)
    brief = Html() if said and len(repr(record)) > _LONGEST_VALUE else line(record)
    body = joined(brief, said, plotted(record, key), _facts(record))
    inner = [_inner(name, each, ids, limit) for name, each, _ in records_in(record)]
    section = Section(key=key, heading=text(title), body=body, inner=tuple(inner))
    return ReportPart(title=title, section=section, span_ms=_span([record]))


def records_part(records: Records[Any], ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of several records of one kind."""
    kind = type(records)
    title = words(records.kind if kind is Records else kind.__name__)
    key = ids.new(keyed(title))
    held = [(name, each) for name, each in vars(records).items() if isinstance(each, Records)]
    inner = [_inner(name, each, ids, limit) for name, each in held if len(each)]
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
    told = ((label_of(name), printed(getattr(record, name), name)) for name in about(record))
    known = [(what, isolated(said, _LONGEST_VALUE)) for what, said in told if said != NOTHING]
    return joined(*([facts(known)] if known else []), figures_of(record))


def figures_of(record: Record) -> Html:
    """Return a record's figures, and whose they are; what is unknown, folded."""
    figures = record.figures()
    known = [each for each in figures if each.value is not None]
    whose = Counter(str(each.source) for each in known).most_common(1)
    pairs = []
    for each in known:
        value = isolated(printed(each.value, each.name), _LONGEST_VALUE)
        other = element("span", f" {each.source}", class_="whose")
        is_usual = str(each.source) == whose[0][0]
        pairs.append((label_of(each.name), value if is_usual else joined(value, other)))
    said = [_sources([f"{source}, where no other is named" for source, _ in whose])]
    missing = unknown((each.name, each.text) for each in figures if each.value is None)
    return joined(*([facts(pairs), *said] if pairs else []), missing)


def _sources(names: Sequence[str]) -> Html:
    return nothing(f"Source: {', '.join(names)}.")


def _inner(name: str, records: Records[Any], ids: Ids, limit: int | None) -> Section:
    key = ids.new(keyed(name))
    return Section(key=key, heading=text(words(name)), body=_records(records, key, limit))


def _records(records: Records[Any], key: str, limit: int | None) -> Html:
    # Of records without a line of their own, the table says how many there are.
    told = Html() if type(records) is Records else line(records)
    silent = unjudged(getattr(records, "unjudged", {}))
    if not len(records):
        return joined(told or nothing(f"No {shortened(records.kind, 100)}."), silent)
    shown = records[: SHOWN_ROWS if limit is None else limit]
    sources = sorted({str(each.source) for row in shown for each in row.figures()})
    whose = [_sources(sources)] if sources else []
    if all("\n" in str(each) for each in shown):  # its sentences: no table has room for those
        return joined(told, *map(card, shown), silent, *whose)
    return joined(told, plotted(records, key), _records_grid(shown, len(records)), *whose)


def unjudged(whys: Mapping[str, str]) -> Html:
    """Return which rules could not be judged, folded, each reason once."""
    return _folded(whys.items(), "rules", "could not be judged")


def card(record: Record, *, urgent: bool = False) -> Html:
    """Return what a record says in lines: the first, and below it each with what it is."""
    first, *others = str(record).splitlines()
    told: dict[str, list[str]] = {}
    for each in others:
        for what, _, said in (part.partition(": ") for part in _AMONG.split(each.strip())):
            told.setdefault(what, []).append(said)
    lines = [(what, isolated("; ".join(said), _LONGEST_LINE)) for what, said in told.items()]
    link = told.get("see", [""])[0]
    if _LINK.fullmatch(link):
        lines[-1] = ("see", element("a", lines[-1][1], href=link))
    mark = [element("b", "Urgent"), " "] if urgent else []
    head = element("h4", *mark, isolated(first.removeprefix("URGENT "), _LONGEST_LINE))
    return element("article", head, facts(lines), class_="urgent" if urgent else "advice")


def _records_grid(shown: Records[Any], total: int) -> Html:
    told = {each.name for each in fields(shown[0])} - {"unknown"}
    raw = {f"{name}_raw" for name in told}  # what stands beside it decoded
    names = [each.name for each in fields(shown[0]) if each.name in told - raw]
    if total == 1 and len(names) > _WIDE:
        return _facts(shown[0])
    if total > _FEW or len(names) <= _WIDEST_OF_FEW:
        return listed(shown, total, names, _WIDEST)
    # Compared figure by figure; what a record is about comes first.
    told_of_each = [[printed(value_of(row, name), name) for row in shown] for name in names]
    first, *others = [[label_of(name), *of] for name, of in zip(names, told_of_each, strict=True)]
    return joined(Grid(first, others, total=len(others)).html("figures"), _whys(shown, names))


def listed(
    shown: Records[Any], total: int, names: Sequence[str], widest: int = _WIDEST_WRAPPED
) -> Html:
    """Return some of records as a table of some of their fields."""
    rows = [[printed(value_of(row, name), name) for name in names] for row in shown]
    columns = [[getattr(row, name) for row in shown] for name in names]
    numbers = {n for n, values in enumerate(columns) if _are_numbers(values)}
    numbers -= {n for n, name in enumerate(names) if name in MOMENTS}
    grid = Grid([*map(label_of, names)], rows, frozenset(numbers), total)
    return joined(grid.html(shown.kind, widest), _whys(shown, names))


def _are_numbers(values: Sequence[Any]) -> bool:
    return len(values) > 0 and all(value is None or is_number(value) for value in values)


def _whys(shown: Records[Any], names: Sequence[str]) -> Html:
    told = (getattr(each, "unknown", {}).items() for each in shown)
    return unknown(pair for pairs in told for pair in pairs if pair[0] in names)


def unknown(figures: Iterable[tuple[str, str]]) -> Html:
    """Return what is unknown, folded, each reason once."""
    told = ((name, why.removeprefix("unknown (").removesuffix(")")) for name, why in figures)
    return _folded(((label_of(name), why) for name, why in told), "figures", "unknown")


def _folded(told: Iterable[tuple[str, str]], kind: str, are: str) -> Html:
    whys = dict.fromkeys(told)
    items = (element("li", isolated(each, _LONGEST_LINE)) for each in by_reason(whys))
    summary = element("summary", f"{counted(len(whys), kind)} {are}, and why")
    listed = element("ul", *items, class_="whys")
    return element("details", summary, listed) if whys else Html()


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
    grid = grid_of(shown, len(shown), has_more=has_more)
    first = grid.html() if len(shown) else nothing(f"No {title.lower()}.")
    body = joined(line(rows), plotted(rows, key), first)
    section = Section(key=key, heading=text(title), body=body)
    return ReportPart(title=title, section=section, span_ms=frame_span(shown))
