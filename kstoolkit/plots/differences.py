"""What two stores differ in: how many rows were added, removed and changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.plots.axes import in_counts, label
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED
from kstoolkit.plots.rowbars import Part, Row, draw_rows, row_axes
from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kstoolkit.stores.comparing.storediff import StoreDiff


_CHANGES = (
    ("added", "+", EXPECTED, "//"),
    ("removed", "-", FLAGGED, "\\\\"),
    ("changed", "~", COUNTED, "xx"),
)


def plot_store_diff(diff: StoreDiff, *, ax: Axes | None = None) -> Axes:
    """Return in how many rows two stores differ, and how; equal ones are said, not drawn.

    The differences themselves are not read: it works on a closed comparison too.

    Examples
    --------
    >>> from kstoolkit.stores.comparing.comparing import diff_stores
    >>> from kstoolkit.stores.comparing.folders import listed
    >>> with diff_stores(listed("a", [(b"anna", b"3")]), listed("b", [])) as diff:
    ...     print(plot_store_diff(diff).get_title(loc="left"))
    a to b: 1 of 1 row differ
    """
    rows = []
    for name, sign, color, hatch in _CHANGES:
        number = getattr(diff, name)
        part = Part(size=number, color=color, hatch=hatch)
        rows.append(Row(f"{sign} {name}", (part,), format_count(number)))
    axes = row_axes(ax, len(rows))
    draw_rows(axes, rows)
    in_counts(axes.xaxis)
    label(axes, x="rows", notes=[f"equal: {counted(diff.equal, 'rows')}, not drawn"])
    differ = diff.added + diff.removed + diff.changed
    first, second = (shown(name, 20) for name in diff.names)
    some = format_count(differ) if differ else "none"
    head(axes, f"{first} to {second}: {some} of {counted(differ + diff.equal, 'rows')} differ")
    return axes
