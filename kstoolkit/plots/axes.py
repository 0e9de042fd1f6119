"""What all plots share: new Axes, quiet frames, titles, legends above the data, units on the axes.

The face is not drawn and the ink is a middle grey, so that a figure suits a light and a dark page;
``figure.patch.set_visible(True)`` gives it a white one.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.names import shown
from kstoolkit.plots.palette import INK
from kstoolkit.plots.room import folded
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axis import Axis
    from numpy.typing import ArrayLike, NDArray

    from kstoolkit.records import Records


SIZE_INCHES = (7.2, 2.3)
SMALL, NORMAL = 8, 9
"""Sizes of text, in points."""

_MOST_TICKS = 5
_BESIDE_PYPLOT = ContextVar("beside pyplot", default=False)


def new_axes(ax: Axes | None = None, size_inches: tuple[float, float] = SIZE_INCHES) -> Axes:
    """Return ``ax``, or the only Axes of a new figure of pyplot's, without a face.

    A notebook shows what pyplot holds at the end of a cell, and a script with ``pyplot.show()``;
    whoever draws elsewhere gives the Axes of a figure of his own.

    Raises
    ------
    ConfigurationError
        If ``ax`` is something else than Axes with an x and a y.
    """
    if ax is None:
        ax = _new_figure(size_inches).add_subplot()
    else:
        _check(ax)
    _quiet(ax)
    return ax


def _check(given: object) -> None:
    if not isinstance(given, Axes) or hasattr(given, "zaxis"):
        message = f"ax is {type(given).__name__}, which nothing can be drawn on."
        raise ConfigurationError(message, hint="Give Axes of two dimensions: figure.subplots().")


def _new_figure(size_inches: tuple[float, float]) -> Figure:
    style: dict[str, Any] = {
        "figsize": size_inches,
        "layout": "constrained",
        "facecolor": "white",
    }
    if _BESIDE_PYPLOT.get():
        figure = Figure(**style)
        FigureCanvasAgg(figure)
    else:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - its global state: only when asked

        figure = plt.figure(**style)
    # Not a colour without opacity: for those, notebooks on a dark page lay a white card beneath.
    figure.patch.set_visible(False)
    return figure


@contextmanager
def beside_pyplot() -> Iterator[None]:
    """Make new figures that pyplot doesn't know, in this thread: for pages and panels.

    Each plot then has the size that suits it, and nothing has to be closed.

    Examples
    --------
    >>> with beside_pyplot():
    ...     figure = new_axes().figure
    >>> figure.canvas.manager is None
    True
    """
    token = _BESIDE_PYPLOT.set(True)
    try:
        yield
    finally:
        _BESIDE_PYPLOT.reset(token)


def _quiet(ax: Axes) -> None:
    ax.patch.set_alpha(0)
    ax.tick_params(colors=INK, labelsize=SMALL)
    for name, spine in ax.spines.items():
        spine.set(color=INK, linewidth=0.8, visible=name in {"left", "bottom"})


def title(ax: Axes, text: str, *, num_columns: int | None = None) -> None:
    """Say what is seen; what has a label becomes a legend between the title and the data.

    Parameters
    ----------
    ax
        The Axes, with all that is drawn.
    text
        Taken literally: a dollar sign in it begins no formula.
    num_columns
        How many entries of the legend stand beside each other; by default all.
    """
    _, labels = ax.get_legend_handles_labels()
    columns = num_columns or max(len(labels), 1)
    lines = -(-len(labels) // columns)
    style: dict[str, Any] = {"color": INK, "fontsize": NORMAL, "fontweight": "bold"}
    ax.set_title(text, loc="left", pad=6 + 14 * lines, parse_math=False, **style)
    if labels:
        legend = ax.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=columns,
            borderaxespad=0.2,
            borderpad=0,
            handlelength=1.2,
            columnspacing=1.4,
            frameon=False,
            fontsize=SMALL,
            labelcolor=INK,
        )
        for text_of_label in legend.get_texts():
            text_of_label.set_parse_math(False)


def label(ax: Axes, *, x: str = "", y: str = "", notes: Sequence[str] = ()) -> None:
    """Say what the axes measure; below it what was left out or drawn together."""
    style: dict[str, Any] = {"color": INK, "fontsize": SMALL, "parse_math": False}
    ax.set_xlabel("\n".join(folded([*([x] if x else ()), *notes], ax)), **style)
    ax.set_ylabel(y, **style)


def nothing(ax: Axes, text: str) -> None:
    """Say in the middle of empty Axes what there is nothing of."""
    style: dict[str, Any] = {"transform": ax.transAxes, "ha": "center", "va": "center"}
    ax.text(0.5, 0.5, text, color=INK, parse_math=False, **style)
    ax.xaxis.set_visible(False)
    ax.yaxis.set_visible(False)


def plot_nothing(records: Records[Any], *, ax: Axes | None = None) -> Axes:
    """Return Axes that say what there are none of, or why that is unknown.

    Examples
    --------
    >>> from kstoolkit.records import Records
    >>> plot_nothing(Records((), "levels")).get_title(loc="left")
    'No levels'
    """
    ax = new_axes(ax)
    why = getattr(records, "unknown", None)  # as rows out of a log have it
    nothing(ax, f"no {records.kind}" if why is None else f"{records.kind}: unknown")
    known = f"{records.kind.capitalize()}: unknown ({why})"
    title(ax, f"No {records.kind}" if why is None else "\n".join(wrap(shown(known, 200), 80)))
    return ax


class _PowersOfTwo(MaxNLocator):
    """Ticks a power of two apart, so that sizes in binary units are round."""

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        apart = 2.0 ** math.ceil(math.log2(max(vmax - vmin, 1) / _MOST_TICKS))
        return [
            step * apart for step in range(math.floor(vmin / apart), math.ceil(vmax / apart) + 1)
        ]


def in_bytes(axis: Axis) -> None:
    """Print the numbers of an axis as sizes: 64 MiB."""
    axis.set_major_locator(_PowersOfTwo())
    _printed(axis, lambda value: format_bytes(value).replace(".0 ", " "))


def in_counts(axis: Axis) -> None:
    """Print the numbers of an axis as whole counts: 12,000."""
    axis.set_major_locator(MaxNLocator(nbins=_MOST_TICKS, integer=True))
    _printed(axis, format_count)


def _printed(axis: Axis, text_of: Callable[[float], str]) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: text_of(value)))
    axis.get_offset_text().set(color=INK, fontsize=SMALL)


def in_time(axis: Axis) -> None:
    """Print the numbers of an axis, which :func:`days` gave, as dates and times of UTC."""
    # matplotlib's own dates carry no types.
    locator = dates.AutoDateLocator(minticks=4, maxticks=9, tz=UTC)  # type: ignore[no-untyped-call]
    formatter = dates.ConciseDateFormatter(locator, tz=UTC)  # type: ignore[no-untyped-call]
    axis.set_major_locator(locator)
    axis.set_major_formatter(formatter)
    axis.get_offset_text().set(color=INK, fontsize=SMALL)


def days(times_ms: ArrayLike) -> NDArray[np.float64]:
    """Return moments (epoch ms) as matplotlib's days.

    Examples
    --------
    >>> days([0, 43_200_000]).tolist()
    [0.0, 0.5]
    """
    moments = np.asarray(times_ms, dtype=np.int64).astype("datetime64[ms]")
    return np.asarray(dates.date2num(moments), dtype=np.float64)  # type: ignore[no-untyped-call]
