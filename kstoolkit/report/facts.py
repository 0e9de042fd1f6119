"""Records on a page: their line, their figures with whose they are, their parts, their plot."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kstoolkit.markup import Html, element, isolated, joined, shortened, text
from kstoolkit.records import Figure, Record, Records
from kstoolkit.report.figures import plotted
from kstoolkit.report.frames import SHOWN_ROWS, Grid
from kstoolkit.report.part import Part, joint
from kstoolkit.report.section import Ids, Section, keyed
from kstoolkit.report.tables import facts, nothing, table
from kstoolkit.report.values import is_number, printed
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.report.part import Span


_MOMENTS = {"start_ms", "end_ms", "stream_time_ms", "window_start_ms", "window_end_ms"}
_FEW = 4
_WIDE = 8
_LONGEST_VALUE = 300
_LONGEST_LINE = 1_000
_MOST_WHYS = 20


def record_part(record: Record, ids: Ids, limit: int | None) -> Part:
    """Return what the page says of one record."""
    title = words(type(record).__name__)
    key = ids.new(keyed(title))
    body = joined(line(record), _said(record), plotted(record, key), _facts(record))
    values = {each.name: getattr(record, each.name) for each in fields(record)}  # type: ignore[arg-type] # records are dataclasses
    inner = [_inner(name, each, ids, limit) for name, each in values.items() if _holds(each)]
    section = Section(key=key, heading=text(title), body=body, inner=tuple(inner))
    return Part(title=title, section=section, span_ms=_span([record]))


def records_part(records: Records[Any], ids: Ids, limit: int | None) -> Part:
    """Return what the page says of several records of one kind."""
    kind = type(records)
    title = words(records.kind if kind is Records else kind.__name__)
    key = ids.new(keyed(title))
    inner = [_inner(name, each, ids, limit) for name, each in vars(records).items() if _holds(each)]
    body = _records(records, key, limit)
    section = Section(key=key, heading=isolated(title), body=body, inner=tuple(inner))
    return Part(title=title, section=section, span_ms=_span(records))


def line(thing: object) -> Html:
    """Return the one line that a thing says of itself."""
    said = (repr(thing).splitlines() or [""])[0]
    return element("p", isolated(said, _LONGEST_LINE), class_="line")


def words(name: str) -> str:
    """Return the name of a class, or of a field, in words.

    Examples
    --------
    >>> words("MemoryPlan"), words("hot_prefixes"), words("SST files")
    ('Memory plan', 'Hot prefixes', 'SST files')
    """
    apart = re.sub("(?<=[a-z])(?=[A-Z])", " ", name.replace("_", " ")).split()
    told = " ".join(each if each.isupper() else each.lower() for each in apart)
    return told[:1].upper() + told[1:]


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
        if _is_about(record, each.name, dict(each.metadata))
    ]
    figures = record.figures()
    rows = [
        [
            isolated(each.name),
            isolated(_value(each), _LONGEST_VALUE),
            element("span", str(each.source), class_="whole"),
        ]
        for each in figures
    ]
    told = table("Figures, and whose they are.", ("Figure", "Value", "Source"), rows)
    return joined(*([facts(about)] if about else []), *([told] if rows else []))


def _is_about(record: Record, name: str, metadata: dict[str, Any]) -> bool:
    value = getattr(record, name)
    return not ("source" in metadata or name == "unknown" or isinstance(value, Record | Records))


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
    grid = _records_grid(shown, len(records))
    return joined(told, plotted(records, key), grid, _whys(shown), *whose)


def _records_grid(shown: Records[Any], total: int) -> Html:
    names = [each.name for each in fields(shown[0]) if each.name != "unknown"] if len(shown) else []
    rows = [[_cell(row, name) for name in names] for row in shown]
    if len(names) > _WIDE and total <= _FEW:
        turned = [[name, *(row[place] for row in rows)] for place, name in enumerate(names)]
        heads, *others = turned  # what a record is about comes first
        return Grid(heads, others, total=len(others)).html("figures", whole=True)
    numbers = {
        place
        for place, name in enumerate(names)
        if all(is_number(getattr(row, name)) for row in shown)
    }
    return Grid(names, rows, frozenset(numbers), total).html(shown.kind)


def _cell(record: Record, name: str) -> str:
    value = getattr(record, name)
    if value is None and name in getattr(record, "unknown", {}):
        return "unknown"
    return printed(value, name)


def _whys(shown: Records[Any]) -> Html:
    """Return why figures of a table are unknown, each reason once."""
    whys = dict.fromkeys(
        f"{name}: unknown ({why})"
        for record in shown
        for name, why in getattr(record, "unknown", {}).items()
        if getattr(record, name, None) is None
    )
    listed = [element("li", isolated(each, _LONGEST_VALUE)) for each in [*whys][:_MOST_WHYS]]
    if len(whys) > _MOST_WHYS:
        more = format_count(len(whys) - _MOST_WHYS)
        listed.append(element("li", f"{more} more reasons are left out."))
    return element("ul", *listed, class_="whys") if listed else Html()


def _value(figure: Figure) -> str:
    if isinstance(figure.value, int | float | str | None):
        return figure.text
    return printed(figure.value, figure.name)


def _span(records: Iterable[Record]) -> Span | None:
    return joint((min(each), max(each)) for each in map(_moments, records) if each)


def _moments(record: Record) -> list[int]:
    """Return the moments that a record tells, epoch ms UTC."""
    values = {each.name: getattr(record, each.name) for each in fields(record)}  # type: ignore[arg-type] # records are dataclasses
    moments = [value for value in values.values() if isinstance(value, datetime) and value.tzinfo]
    told = [value for name, value in values.items() if name in _MOMENTS and isinstance(value, int)]
    return told + [int(each.timestamp() * 1_000) for each in moments]
