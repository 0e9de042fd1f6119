"""Any record: what it says, its figures, its rows as a table that is searched, and its plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import shortened
from kstoolkit.plots.axes import HIGHER_INCHES, NARROW_INCHES, PX_AN_INCH, image
from kstoolkit.plots.drawing import drawer
from kstoolkit.records import Record, Records, counted
from kstoolkit.views.parts import picture, sentence
from kstoolkit.views.records import figures_of, line_of, records_in, rows_of, words
from kstoolkit.widgets.panel import Face, Panel

if TYPE_CHECKING:
    from kstoolkit.records import Viewed
    from kstoolkit.views.parts import Part


class RecordPanel(Panel):
    """Look at a record, or at several: searched, sorted, drawn.

    Parameters
    ----------
    record
        Whatever has a plot or a table: a summary, levels, stories, a plan, a checkup.

    Examples
    --------
    >>> from kstoolkit.rocksdb.memory.planning import plan_memory
    >>> with RecordPanel(plan_memory("spark")) as panel:
    ...     panel
    RecordPanel(Memory plan)
    """

    def __init__(self, record: Viewed) -> None:
        self._parts = parts_of(record)
        kind = record.kind if type(record) is Records else type(record).__name__
        face = Face([[*self._parts]], lambda _: None)
        face.show(**self._parts)
        super().__init__(words(kind), [face], face.still)


def parts_of(record: Viewed) -> dict[str, Part]:
    """Return what is shown of a record, by names for the places."""
    said = str(record)
    line = line_of(record) if said == repr(record) else said.partition("\n")[0]
    if isinstance(record, Records) and line == counted(len(record), record.kind):
        line = ""  # its table says so
    told = {"line": sentence(shortened(line, 600)) if line else {}}
    if isinstance(record, Record):
        inner = {f"table_{name}": rows_of(each, of) for name, each, of in records_in(record)}
        # What says sentences comes before figures: what to do before what is so.
        said_first = {name: each for name, each in inner.items() if each.get("kind") == "cards"}
        return told | said_first | {"plot": _plot(record), "facts": figures_of(record)} | inner
    told["plot"] = _plot(record)
    if isinstance(record, Records):
        total = getattr(record, "total", None)
        sums = figures_of(total) if isinstance(total, Record) else {}
        return told | {"facts": sums, "table": rows_of(record)}
    if facts := figures_of(record):  # which is all that it says, and has
        return told | {"line": {}, "facts": facts}
    frame = getattr(record, "to_pandas", pd.DataFrame)()
    return told | {"table": rows_of(frame) if isinstance(frame, pd.DataFrame) else {}}


def _plot(record: Viewed) -> Part:
    try:
        drawer(record)
        src, alt, (width, height) = image(record.plot)
        narrow = image(record.plot, (NARROW_INCHES, height / PX_AN_INCH + HIGHER_INCHES))
        return picture(src, alt, width, narrow[0])
    except ConfigurationError:  # there is nothing to draw of it
        return {}
