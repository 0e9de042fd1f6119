"""Several series over one axis in one Axes: each in a strip of its own, with a scale of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.plots.axes import SMALL, new_axes
from kstoolkit.plots.bars import MOST_MARKERS
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK, UNKNOWN_HATCH
from kstoolkit.plots.room import has_layout
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_HIGH = 0.7
"""How much of a strip its highest value takes; the rest is room for markers."""
_UNKNOWN_HIGH = 0.25


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Steps:
    """Heights between edges; not-a-number where nothing is drawn.

    Parameters
    ----------
    edges, heights
        One edge more than heights.
    color, hatch
        How they are filled.
    name
        What they are, for the legend.
    """

    edges: Floats
    heights: Floats
    color: str = COUNTED
    hatch: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Strip:
    """One series with what belongs to it.

    Parameters
    ----------
    name
        What stands beside it.
    steps
        What is drawn.
    printed
        Prints its highest value.
    low, high, ceiling
        The expected range, and a ceiling.
    marks, marked
        Where flagged values are, and their heights.
    unknown
        From where to where nothing is known.
    said
        What is said at its right.
    """

    name: str
    steps: tuple[Steps, ...]
    printed: Callable[[float], str] = format_count
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None
    marks: Floats | Sequence[float] = ()
    marked: Floats | Sequence[float] = ()
    unknown: Sequence[tuple[float, float]] = ()
    said: str = ""

    @property
    def top(self) -> float:
        """The highest value that has to be in it; 0 if there is none."""
        heights = [np.nanmax(each.heights, initial=0.0) for each in self.steps]
        return float(max([*heights, self.high or 0, self.ceiling or 0]))


def strip_axes(ax: Axes | None, number: int) -> Axes:
    """Return Axes with room for so many strips."""
    return new_axes(ax, (7.2, 1.1 + 0.72 * max(number, 1)))


def draw_strips(ax: Axes, strips: Sequence[Strip]) -> None:
    """Draw strips, the first one at the top. The limits of x are those of ``ax`` already."""
    ticks: list[tuple[float, str]] = []
    once: set[str] = set()
    for base, strip in enumerate(reversed(strips)):
        scale = _HIGH / strip.top if strip.top else 0.0
        ax.axhline(base, color=INK, linewidth=0.6, zorder=3)
        _draw_steps(ax, strip, base, scale, once)
        _draw_unknown(ax, strip, base, once)
        _draw_references(ax, strip, base, scale, once)
        _draw_marks(ax, strip, base, scale, once)
        _say(ax, strip, base)
        ticks += [(base, "0"), (base + _HIGH, strip.printed(strip.top))] if scale else []
    ax.set_ylim(-0.02, len(strips))
    ax.spines["left"].set_visible(False)
    places, texts = zip(*ticks, strict=True) if ticks else ((), ())
    ax.set_yticks(places, texts)


def _label(once: set[str], name: str | None) -> str | None:
    """Return a name for the legend, the first time that it is asked for."""
    if name is None or name in once:
        return None
    once.add(name)
    return name


def _draw_steps(ax: Axes, strip: Strip, base: float, scale: float, once: set[str]) -> None:
    for each in strip.steps:
        if not np.nansum(each.heights):
            continue
        style: dict[str, Any] = {"facecolor": each.color, "linewidth": 0, "zorder": 2}
        if each.hatch:
            style |= {"hatch": each.hatch, "edgecolor": INK}
        heights = base + np.nan_to_num(each.heights) * scale
        name = _label(once, each.name)
        ax.stairs(heights, each.edges, baseline=base, fill=True, label=name, **style)


def _draw_unknown(ax: Axes, strip: Strip, base: float, once: set[str]) -> None:
    for left, right in strip.unknown:
        style: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "hatch": UNKNOWN_HATCH}
        name = _label(once, "unknown")
        size = (right - left, _UNKNOWN_HIGH)
        ax.bar(left, size[1], size[0], base, align="edge", linewidth=0.6, label=name, **style)


def _draw_references(ax: Axes, strip: Strip, base: float, scale: float, once: set[str]) -> None:
    if strip.high is not None:
        low, high = base + (strip.low or 0) * scale, base + strip.high * scale
        name = _label(once, "expected range")
        fill: dict[str, Any] = {"facecolor": (EXPECTED, 0.2), "edgecolor": EXPECTED}
        ax.axhspan(low, high, linewidth=0.9, zorder=3, label=name, **fill)
    if strip.ceiling is not None:
        level = base + strip.ceiling * scale
        dashes = (0, (5, 3))
        name = _label(once, "ceiling")
        ax.axhline(level, color=FLAGGED, linewidth=1.1, linestyle=dashes, zorder=3, label=name)


def _draw_marks(ax: Axes, strip: Strip, base: float, scale: float, once: set[str]) -> None:
    if not len(strip.marked):
        return
    marks, marked = np.asarray(strip.marks), np.asarray(strip.marked)
    highest = np.argsort(-marked, kind="stable")[:MOST_MARKERS]
    style: dict[str, Any] = {"linestyle": "none", "marker": "v", "markersize": 5, "zorder": 4}
    heights = base + marked[highest] * scale + 0.08
    name = _label(once, "flagged")
    ax.plot(marks[highest], heights, color=FLAGGED, label=name, **style)
    if marked.size > 1:  # a number would lie on the next marker; the scale tells the highest
        return
    ax.annotate(
        strip.printed(float(marked[highest[0]])),
        (marks[highest[0]], heights[0]),
        xytext=(5, 0),
        textcoords="offset points",
        color=FLAGGED,
        fontsize=SMALL,
        fontweight="bold",
        va="center",
    )


def _say(ax: Axes, strip: Strip, base: float) -> None:
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": SMALL, "color": INK}
    beside: Any = ax.get_yaxis_transform()
    middle = base + _HIGH / 2
    if strip.said and has_layout(ax):
        ax.annotate(strip.said, (1, middle), (6, 0), beside, va="center", **style)
    elif strip.said:  # what stands beside Axes that nobody moves lies on their neighbours
        said = strip.said.replace("\n", ", ")
        ax.annotate(said, (1, base + 0.97), (-2, 0), beside, va="top", ha="right", **style)
    ax.annotate(
        strip.name, (0, middle), (-6, 0), beside, va="center", ha="right", weight="bold", **style
    )
