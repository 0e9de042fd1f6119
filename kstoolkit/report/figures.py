"""Plots on a page: as lines where that is small, else as a picture, which the page says."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import TYPE_CHECKING

from matplotlib import style
from matplotlib.figure import Figure

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import Html, element, isolated, joined, shortened
from kstoolkit.plots.axes import SIZE_INCHES, beside_pyplot
from kstoolkit.plots.drawing import draw, drawer
from kstoolkit.plots.users import plot_expected
from kstoolkit.report.seentexts import seen_texts
from kstoolkit.report.svg import svg_of
from kstoolkit.report.tables import nothing
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from typing import Any

    from matplotlib.axes import Axes

    from kstoolkit.pipeline.run import LevelCounts


LARGEST_SVG_BYTES = 300_000
_DPI = 160
_LONGEST_LABEL = 300


def drawing(series: LevelCounts, *, name: str, label: str) -> Html:
    """Return the plot of ``series`` as an ``svg`` element.

    Parameters
    ----------
    series
        What to draw.
    name, label
        As in :func:`kstoolkit.report.svg.svg_of`.

    Raises
    ------
    ConfigurationError
        If the series makes no plot; see :func:`kstoolkit.plots.plot_expected`.
    """
    options: dict[str, Any] = {
        name: getattr(series, name)
        for name in ("flagged_ms", "expected_low", "expected_high", "ceiling")
    }
    options |= {"window_ms": series.window.size_ms, "every_ms": series.window.every_ms}
    with style.context("default", after_reset=True):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained", facecolor="none")
        plot_expected(series.times_ms, series.counts, ax=figure.add_subplot(), **options)
        return svg_of(figure, name=name, label=label)


def described(series: LevelCounts) -> str:
    """Return in one sentence what the plot of ``series`` shows.

    Examples
    --------
    >>> import numpy as np
    >>> from kstoolkit.pipeline.run import LevelCounts
    >>> from kstoolkit.windows import as_window
    >>> minutes, none = np.array([0, 60_000]), np.array([], dtype=np.int64)
    >>> counts = np.array([3, 61])
    >>> described(LevelCounts(window=as_window("1 minute"), times_ms=minutes, counts=counts,
    ...                       flagged_ms=none))
    'Bar chart of 2 windows with counts from 3 to 61.'
    """
    counts = series.counts
    if not counts.size:
        return "Bar chart without counts."
    windows = "window" if counts.size == 1 else "windows"
    low, high = format_count(counts.min()), format_count(counts.max())
    return f"Bar chart of {format_count(counts.size)} {windows} with counts from {low} to {high}."


def plotted(thing: object, name: str) -> Html:
    """Return the plot of a record; why it has none, or nothing where none of its kind has one."""
    try:
        drawer(thing)
    except ConfigurationError:
        return Html()
    try:
        with style.context("default", after_reset=True), beside_pyplot():
            return figure_of(whole(draw(thing)), name=name)
    except ConfigurationError as error:
        return nothing(f"No plot: {shortened(error.message, _LONGEST_LABEL)}")


def figure_of(figure: Figure, *, name: str) -> Html:
    """Return a figure as a ``figure`` element; as a picture if its lines would be very many.

    Raises
    ------
    ConfigurationError
        If matplotlib can't draw it: a formula that is none, for example.
    """
    label = shortened(titles(figure) or "Plot without a title.", _LONGEST_LABEL)
    try:
        svg = svg_of(figure, name=name, label=label)
    except ValueError as error:
        message = f"The figure can't be drawn: {shortened(str(error), _LONGEST_LABEL)}"
        hint = "If a text in it begins a formula with $, give that text parse_math=False."
        raise ConfigurationError(message, hint=hint) from error
    if len(svg) <= LARGEST_SVG_BYTES:
        return _framed(svg)
    size = format_bytes(len(svg))
    return _framed(_picture(figure, label), f"Shown as a picture: as lines it would take {size}.")


def titles(figure: Figure) -> str:
    """Return the titles of a figure and of its Axes, in one line; empty if it has none."""
    whole = figure.get_suptitle()
    each = [ax.get_title(loc=place) for ax in figure.axes for place in ("left", "center", "right")]
    return " · ".join(" ".join(title.split()) for title in (whole, *each) if title.strip())


def whole(ax: Axes) -> Figure:
    """Return the figure that Axes are in.

    Raises
    ------
    ConfigurationError
        If they are in none any more.
    """
    figure = ax.get_figure(root=True)
    if figure is None:
        message = "These Axes are in no figure: they were removed from theirs."
        raise ConfigurationError(message, hint="Give Axes of a figure that is still there.")
    return figure


def _framed(drawn: Html, *captions: str) -> Html:
    said = [element("figcaption", isolated(each, _LONGEST_LABEL)) for each in captions]
    return element("figure", element("div", drawn, class_="scroll", tabindex=0), joined(*said))


def _picture(figure: Figure, label: str) -> Html:
    target = io.BytesIO()
    with seen_texts(figure):
        figure.savefig(target, format="png", dpi=_DPI, facecolor="auto")
    data = b64encode(target.getvalue()).decode("ascii")
    return element("img", src=f"data:image/png;base64,{data}", alt=label)
