"""How much room Axes have: those that somebody gives may stand beside others."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


LONGEST_LINE = 110
"""Characters that fit the width of a figure."""

_FULL_INCHES = 5.5
"""How wide the Axes of a new figure are before anything stands beside them."""
_LEAST = 16


def characters(ax: Axes, most: int = LONGEST_LINE) -> int:
    """Return how many characters fit the width of Axes, if so many fit a figure of their own.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> both = Figure(figsize=(7.2, 3))
    >>> characters(both.subplots()), characters(both.subplots(1, 2)[0])
    (110, 51)
    """
    width = ax.get_window_extent().width / ax.figure.dpi
    return max(round(most * min(width / _FULL_INCHES, 1)), min(_LEAST, most))


def folded(lines: Sequence[str], ax: Axes) -> list[str]:
    """Return lines that stand below Axes, those that are too long in several."""
    room = characters(ax)
    if room == LONGEST_LINE:
        return list(lines)
    return [part for line in lines for part in wrap(line, room)]


def has_layout(ax: Axes) -> bool:
    """Return whether room is made for what stands beside Axes."""
    figure = ax.get_figure(root=True)
    return figure is not None and figure.get_layout_engine() is not None
