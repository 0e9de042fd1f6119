"""One user's counts over time, against what was expected of them.

Bars for the counts, a band for the expected range, a line for a ceiling; flagged windows differ by
marker and by colour. The face is transparent, so that a figure suits a light and a dark page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from kstoolkit.plots.axes import SMALL, days, in_time, label, new_axes
from kstoolkit.plots.axes import title as set_title
from kstoolkit.plots.bars import MOST_MARKERS, Bars, Marks, bars_of, marks_of, notes_of, ordered
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK
from kstoolkit.units import format_count, format_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    Style = dict[str, Any]


LEAST_WINDOWS_SHOWN = 8


def plot_expected(
    times_ms: ArrayLike,
    counts: ArrayLike,
    *,
    window_ms: int,
    every_ms: int | None = None,
    expected_low: float | None = None,
    expected_high: float | None = None,
    ceiling: float | None = None,
    flagged_ms: ArrayLike = (),
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Return a plot of counts over time, with their expected range and the flagged windows.

    A window of the time shown that is not among ``times_ms`` is drawn as 0. More than 500 windows
    are drawn in groups, each as high as its highest window; the figure says so.

    Parameters
    ----------
    times_ms, counts
        Starts of windows (epoch ms, UTC) in any order, and the events in each; one length.
    window_ms, every_ms
        Length of a window, and distance of starts where windows hop.
    expected_low, expected_high
        The expected range, in events a window; without ``expected_high`` it is unknown.
    ceiling
        A ceiling, in events a window.
    flagged_ms
        Starts of the windows to mark.
    title
        What is seen; taken literally. By default it is said from the counts.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If ``times_ms`` and ``counts`` differ in length, or a window has no length.

    Examples
    --------
    >>> ax = plot_expected([0, 3_600_000], [3, 61], window_ms=3_600_000,
    ...                    expected_low=2, expected_high=14, flagged_ms=[3_600_000])
    >>> ax.get_title(loc="left")
    '1 of 2 windows flagged; the highest count is 61, expected 2...14'
    """
    times, values = ordered(times_ms, counts)
    every = window_ms if every_ms is None else every_ms
    bars = bars_of(times, values, every)
    marks = marks_of(times, values, flagged_ms, every)
    axes = new_axes(ax)
    _limit(axes, bars, [*values.tolist(), expected_high or 0, ceiling or 0])
    _draw_bars(axes, bars, marks)
    _draw_references(axes, expected_low, expected_high, ceiling)
    _draw_marks(axes, marks)
    _label(axes, window_ms, notes_of(bars, marks))
    seen = _range_seen(bars, marks, _range(expected_low, expected_high), ceiling)
    set_title(axes, seen if title is None else title)
    return axes


def _limit(axes: Axes, bars: Bars, levels: list[float]) -> None:
    first, last = days(bars.edges_ms[[0, -1]])
    # A lone window would fill the plot from side to side and look like a plateau.
    width = (last - first) * max(1.03, LEAST_WINDOWS_SHOWN / max(bars.num_windows, 1)) or 1
    margin = (width - (last - first)) / 2
    axes.set_xlim(first - margin, last + margin)
    axes.set_ylim(0, 1.28 * max(levels) or 1)


def _draw_bars(axes: Axes, bars: Bars, marks: Marks) -> None:
    if not bars.num_windows:
        middle: Style = {"transform": axes.transAxes, "ha": "center", "va": "center"}
        axes.text(0.5, 0.5, "no counts", color=INK, **middle)
        axes.xaxis.set_visible(False)
        return
    flagged = bars.hold(marks.middles_ms)
    for drawn, color, name in ((~flagged, COUNTED, "count"), (flagged, FLAGGED, None)):
        edges, heights = bars.runs(drawn)
        axes.stairs(heights, days(edges), fill=True, color=color, label=name, zorder=2, linewidth=0)


def _draw_references(
    axes: Axes, low: float | None, high: float | None, ceiling: float | None
) -> None:
    texts: list[tuple[float, str, str]] = []
    if high is not None:
        bottom = low or 0
        axes.axhspan(bottom, high, color=EXPECTED, alpha=0.18, zorder=1, linewidth=0)
        axes.hlines([bottom, high], *axes.get_xlim(), color=EXPECTED, linewidth=0.9, zorder=3)
        texts.append(((bottom + high) / 2, f"expected\n{_range(low, high)}", EXPECTED))
    if ceiling is not None:
        axes.axhline(ceiling, color=FLAGGED, linewidth=1.1, linestyle=(0, (5, 3)), zorder=3)
        texts.append((ceiling, f"ceiling\n{_number(ceiling)}", FLAGGED))
    lowest = 0.1 * (top := axes.get_ylim()[1])
    for level, text, color in sorted(texts):
        _beside(axes, max(level, lowest), text, color=color)
        # Two labels near each other stand one above the other.
        lowest = max(level, lowest) + 0.28 * top


def _beside(axes: Axes, level: float, text: str, *, color: str) -> None:
    axes.annotate(
        text,
        (1, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(6, 0),
        textcoords="offset points",
        fontsize=SMALL,
        va="center",
        color=color,
    )


def _draw_marks(axes: Axes, marks: Marks) -> None:
    if not marks.counts.size:
        return
    top = np.sort(np.argsort(-marks.counts, kind="stable")[:MOST_MARKERS])
    middles, counts = days(marks.middles_ms[top]), marks.counts[top]
    above = axes.transData + ScaledTranslation(0, 5 / 72, axes.figure.dpi_scale_trans)
    style: Style = {"linestyle": "none", "marker": "v", "markersize": 5.5, "zorder": 4}
    axes.plot(middles, counts, color=FLAGGED, label="flagged", transform=above, **style)
    highest = int(np.argmax(counts))
    axes.annotate(
        format_count(counts[highest]),
        (middles[highest], counts[highest]),
        xytext=(0, 10.5),
        textcoords="offset points",
        color=FLAGGED,
        fontsize=SMALL,
        fontweight="bold",
        ha="center",
    )


def _label(axes: Axes, window_ms: int, notes: list[str]) -> None:
    label(axes, x="start of window, UTC", y=f"events in {format_duration(window_ms)}", notes=notes)
    in_time(axes.xaxis)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value)))


def _range_seen(bars: Bars, marks: Marks, expected: str | None, ceiling: float | None) -> str:
    if not bars.num_windows:
        return "No counts to show"
    windows = "window" if bars.num_windows == 1 else "windows"
    flagged = format_count(marks.counts.size) if marks.counts.size else "None"
    against = "range unknown" if expected is None else f"expected {expected}"
    limit = "" if ceiling is None else f", ceiling {_number(ceiling)}"
    return (
        f"{flagged} of {format_count(bars.num_windows)} {windows} flagged; "
        f"the highest count is {format_count(bars.heights.max())}, {against}{limit}"
    )


def _range(low: float | None, high: float | None) -> str | None:
    # A range is written with an en dash.
    return None if high is None else f"{_number(low or 0)}–{_number(high)}"  # noqa: RUF001


def _number(value: float) -> str:
    return format_count(value) if float(value).is_integer() else f"{value:,.1f}"
