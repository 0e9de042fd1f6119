"""Rows and differences on a page: the first of them, since nobody may know how many there are."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import LimitedResultWarning
from kstoolkit.markup import joined, text
from kstoolkit.report.facts import line, words
from kstoolkit.report.figures import plotted
from kstoolkit.report.frames import SHOWN_ROWS, frame_span, grid_of
from kstoolkit.report.part import Part
from kstoolkit.report.section import Section, keyed
from kstoolkit.report.tables import nothing

if TYPE_CHECKING:
    from kstoolkit.report.section import Ids


_BYTES = {"key_bytes", "value_bytes"}
"""What the other columns show decoded."""


def rows_part(rows: Any, ids: Ids, limit: int | None) -> Part:
    """Return what the page says of what gives an Arrow table up to a limit, and warns of more."""
    title = words(type(rows).__name__)
    key = ids.new(keyed(title))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", LimitedResultWarning)
        found = rows.to_arrow(limit=SHOWN_ROWS if limit is None else limit)
    has_more = any(issubclass(each.category, LimitedResultWarning) for each in told)
    shown = found.drop_columns([name for name in found.column_names if name in _BYTES])
    table = grid_of(shown, len(shown), total=None if has_more else len(shown)).html()
    body = joined(
        line(rows), plotted(rows, key), table if len(shown) else nothing(f"No {title.lower()}.")
    )
    section = Section(key=key, heading=text(title), body=body)
    return Part(title=title, section=section, span_ms=frame_span(shown))
