"""Figures over time as lines: few enough points to draw, and still as high as the highest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.plots.notes import legend_name, listed
from kstoolkit.plots.palette import LINES
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Points = Sequence[tuple[float, float]]


MOST_LINES = 12
MOST_POINTS = 2_000
"""Of all lines of a figure together."""

_MOST_MARKERS = 12


def draw_lines(ax: Axes, series: Mapping[str, Points]) -> list[str]:
    """Draw a line for each series, and return what was left out or drawn together.

    Parameters
    ----------
    ax
        The Axes.
    series
        For each name, x and y of points in the order of x. Those of one name in the legend differ
        by colour, line style and marker.
    """
    drawn = dict(list(series.items())[:MOST_LINES])
    notes = [f"not drawn: {listed(list(series)[MOST_LINES:])}"] if len(series) > MOST_LINES else []
    most = MOST_POINTS // max(len(drawn), 1)
    for number, (name, points) in enumerate(drawn.items()):
        color, _, marker = LINES[number % len(LINES)]
        _, style, _ = LINES[(number + number // len(LINES)) % len(LINES)]
        kept, group = _thinned(np.asarray(points, dtype=np.float64).reshape(-1, 2), most)
        every = max(1, len(kept) // _MOST_MARKERS)
        ax.plot(
            kept[:, 0],
            kept[:, 1],
            color=color,
            linestyle=style,
            marker=marker,
            markersize=4,
            markevery=every,
            linewidth=1.4,
            label=legend_name(name),
        )
        if group > 1:
            notes.append(
                f"{legend_name(name).strip()}: {format_count(len(points))} points drawn as "
                f"{format_count(len(kept))}, each the highest of {format_count(group)}"
            )
    return notes


def _thinned(points: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], int]:
    """Return at most so many points, each the highest of its group, and how large groups are."""
    group = -(-len(points) // most) if len(points) else 1
    if group <= 1:
        return points, 1
    starts = np.arange(0, len(points), group)
    highest = [start + int(np.argmax(points[start : start + group, 1])) for start in starts]
    return points[highest], group
