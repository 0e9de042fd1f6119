"""From any thing to what a report shows of it, by what kind of thing it is."""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.finding import Finding, Findings
from kstoolkit.markup import Html, element, isolated, joined, plain, shortened, text
from kstoolkit.records import Record, Records
from kstoolkit.replica.windowstore import WindowReader
from kstoolkit.report.content import ReportContent
from kstoolkit.report.facts import line, record_part, records_part, words
from kstoolkit.report.figures import figure_of, plotted, titles, whole
from kstoolkit.report.found import finding_part, findings_part
from kstoolkit.report.frames import SHOWN_ROWS, frame_span, grid_of
from kstoolkit.report.part import Part
from kstoolkit.report.places import path_part, run_folder_part
from kstoolkit.report.rows import rows_part
from kstoolkit.report.runs import run_part
from kstoolkit.report.section import NO_HTML, Section, keyed
from kstoolkit.report.stores import changelog_part, replica_part, rocksdb_part, store_part
from kstoolkit.report.tables import facts
from kstoolkit.report.values import printed
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.comparing.storediff import StoreDiff
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.stores.rows.rows import Rows
from kstoolkit.stores.rows.statestore import StateStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kstoolkit.report.section import Ids


_LONGEST_PARAGRAPH = 10_000
_LONGEST_VALUE = 300
_LONGEST_COLUMN, _NAMED_COLUMNS = 24, 3


@singledispatch
def part_of(thing: Any, ids: Ids, limit: int | None) -> Part:
    """Return what a report shows of a thing.

    Parameters
    ----------
    thing
        Anything that a report takes: see :meth:`kstoolkit.report.report.Report.add`.
    ids
        The ids that the report has given away.
    limit
        At most so many rows, findings or users; ``None`` is as many as one person looks at.

    Raises
    ------
    ConfigurationError
        If a report takes no such thing.
    """
    module, kind = type(thing).__module__, type(thing).__name__
    if (module, kind) == ("kstoolkit.pipeline.run", "Run"):  # not imported for this alone
        return run_folder_part(thing, ids, limit)
    told = _told(thing, limit) if module.startswith("kstoolkit.") else None
    if told is not None:
        title = words(kind)
        key = ids.new(keyed(title))
        body = joined(line(thing), plotted(thing, key), told)
        return Part(title=title, section=Section(key=key, heading=text(title), body=body))
    message = f"A report can't show a {kind} of {module}."
    hint = "Give a run, a record, a table of pandas or Arrow, a plot of matplotlib, a path or text."
    if module.startswith("pyspark."):
        hint = "Give some of its rows: frame.limit(1_000).toPandas()."
    raise ConfigurationError(message, hint=hint)


def paragraphs(told: str) -> Html:
    """Return text as paragraphs, which blank lines part; nothing in it is markup.

    Examples
    --------
    >>> paragraphs("a < b")
    '<p><bdi>a &lt; b</bdi></p>'
    """
    blocks = [" ".join(each.split()) for each in told.replace("\r\n", "\n").split("\n\n")]
    return joined(*(element("p", isolated(each, _LONGEST_PARAGRAPH)) for each in blocks if each))


def _text_part(told: str, ids: Ids, _limit: int | None) -> Part:
    section = Section(key=ids.new("text"), heading=NO_HTML, body=paragraphs(told))
    return Part(title="Text", section=section)


def _table_part(table: pd.DataFrame | pa.Table, ids: Ids, limit: int | None) -> Part:
    grid = grid_of(table, SHOWN_ROWS if limit is None else limit)
    title = _columns(grid.names)
    section = Section(key=ids.new("table"), heading=isolated(title), body=grid.html())
    return Part(title=title, section=section, span_ms=frame_span(table))


def _columns(names: Sequence[str]) -> str:
    """Return what to call a table that nobody named: by its columns.

    Examples
    --------
    >>> _columns(["user", "count"]), _columns(list("abcde")), _columns([])
    ('Table of user, count', 'Table of a, b, c and 2 more', 'Table')
    """
    known = [shortened(plain(each), _LONGEST_COLUMN) for each in names if each.strip()]
    more = f" and {len(known) - _NAMED_COLUMNS} more" if len(known) > _NAMED_COLUMNS else ""
    return f"Table of {', '.join(known[:_NAMED_COLUMNS])}{more}" if known else "Table"


def _plot_part(plot: Axes | Figure, ids: Ids, _limit: int | None) -> Part:
    figure = plot if isinstance(plot, Figure) else whole(plot)
    title, key = titles(figure) or "Plot", ids.new("plot")
    section = Section(key=key, heading=isolated(title), body=figure_of(figure, name=key))
    return Part(title=title, section=section)


_PARTS: dict[type, Callable[[Any, Ids, int | None], Part]] = {
    str: _text_part,
    Path: path_part,
    pd.DataFrame: _table_part,
    pa.Table: _table_part,
    Axes: _plot_part,
    Figure: _plot_part,
    Record: record_part,
    Records: records_part,
    Findings: findings_part,
    Finding: finding_part,
    ReportContent: run_part,
    Rows: rows_part,
    StoreDiff: rows_part,
    Store: rocksdb_part,
    StateStore: store_part,  # a Store as well
    HasRows: store_part,
    WindowReader: replica_part,
    Changelog: changelog_part,
}
for _kind, _function in _PARTS.items():
    part_of.register(_kind, _function)


def _told(thing: Any, limit: int | None) -> Html | None:
    """Return the facts of anything else of kstoolkit's; ``None`` if it tells none."""
    if callable(getattr(thing, "rows", None)):
        return _facts(dict(thing.rows()))
    if hasattr(thing, "changes"):
        unknown = {name: f"unknown ({why})" for name, why in thing.unknown.items()}
        return _facts(thing.changes() | unknown)
    if hasattr(thing, "to_pandas"):
        return grid_of(thing.to_pandas(), SHOWN_ROWS if limit is None else limit).html()
    return _facts(thing.to_dict()) if hasattr(thing, "to_dict") else None


def _facts(told: dict[str, Any]) -> Html:
    return facts(
        (name, isolated(printed(value, name), _LONGEST_VALUE)) for name, value in told.items()
    )
