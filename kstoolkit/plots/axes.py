"""What all plots share: new Axes, quiet frames, titles, legends above the data, units on the axes.

A figure is ink on white paper, which reads on light and dark pages alike; on the page of a report
it has no paper, and that page's ink. Axes that somebody gives may stand beside others, and have
less room. Texts from the data are made fit to stand in a figure: short, visible, in
the figure's own font.

:func:`picture` is a plot as an ``img`` element, for widgets and for pages without scripts. pyplot
is not touched by it, so that pictures may be drawn in any thread.
"""

from __future__ import annotations

import io
import math
import re
from base64 import b64encode
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC
from functools import lru_cache
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import dates, rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import FuncFormatter, MaxNLocator

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import Html, element, plain
from kstoolkit.plots.names import unit_of
from kstoolkit.plots.palette import INK
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from matplotlib.axis import Axis
    from numpy.typing import ArrayLike, NDArray

    from kstoolkit.records import Records

_LONGEST_LINE = 110  # characters that fit the width of a figure
_FULL_INCHES = 5.5  # how wide the Axes of a new figure are before anything stands beside them
_LEAST, _SIDE = 16, 20


def _characters(ax: Axes, most: int = _LONGEST_LINE) -> int:
    """Return how many characters fit the width of Axes, if so many fit a figure of their own.

    >>> both = Figure(figsize=(7.2, 3))
    >>> _characters(both.subplots()), _characters(both.subplots(1, 2)[0])
    (110, 51)
    """
    width = ax.get_window_extent().width / ax.figure.dpi
    return max(round(most * min(width / _FULL_INCHES, 1)), min(_LEAST, most))


def width_of(text: str) -> int:
    """Return how many characters the longest line of a text has."""
    return max(map(len, text.split("\n")))


def in_lines(ax: Axes, text: str) -> str:
    """Return what stands beside the data; in several lines if the figure is for a narrow screen."""
    is_narrow = ax.figure.get_figure(root=True).get_size_inches()[0] < _FULL_INCHES
    return "\n".join(wrap(text, _SIDE)) if is_narrow else text


def _beside(ax: Axes) -> int:
    """Return by how many characters the names of rows make Axes narrower."""
    names = [width_of(name.get_text()) for name in ax.get_yticklabels()]
    return max([_SHORT_NAME, *names]) - _SHORT_NAME


def has_layout(ax: Axes) -> bool:
    """Return whether room is made for what stands beside Axes."""
    figure = ax.get_figure(root=True)
    return figure is not None and figure.get_layout_engine() is not None


_LONGEST = 28


def shown(text: str, longest: int = _LONGEST) -> str:
    r"""Return a text from the data as a figure can show it, in so many characters at most.

    Unseen characters, those that turn the direction of text among them, and those that the font
    lacks are shown by their code points; a long text loses its middle.

    >>> shown("Anna"), shown("a\u202eb"), shown("abcdefghij", 7)
    ('Anna', 'a[U+202E]b', 'abc…hij')
    """
    # Of a very long text, only its ends are looked at.
    ends = text if len(text) <= 2 * longest else f"{text[:longest]}{text[-longest:]}"
    glyphs = _glyphs(tuple(rcParams["font.family"]))
    seen = (char if ord(char) in glyphs else f"[U+{ord(char):04X}]" for char in plain(ends))
    visible = "".join(seen)
    if len(visible) <= longest and ends == text:
        return visible
    head = longest // 2
    return f"{visible[:head]}…{visible[head + 1 - longest :]}"


@lru_cache(maxsize=8)
def _glyphs(families: tuple[str, ...]) -> frozenset[int]:
    """Return the code points that the figure's fonts have."""
    paths = (findfont(FontProperties(family=[each])) for each in families)
    return frozenset().union(*(get_font(path).get_charmap() for path in paths))


SIZE_INCHES = (7.2, 2.3)
NARROW_INCHES, HIGHER_INCHES = 4.2, 0.3  # for a narrow screen, where titles take more lines
SMALL, _NORMAL = 8, 9  # sizes of text, in points
_MOST_TICKS = 5
_BESIDE_PYPLOT = ContextVar("beside pyplot", default=False)


def new_axes(ax: Axes | None = None, size_inches: tuple[float, float] = SIZE_INCHES) -> Axes:
    """Return ``ax``, or the only Axes of a new figure of pyplot's.

    A notebook shows what pyplot holds at the end of a cell, and a script with ``pyplot.show()``;
    whoever draws elsewhere gives the Axes of a figure of his own: Axes with an x and a y, else
    :class:`~kstoolkit.errors.ConfigurationError` is raised.
    """
    if ax is None:
        ax = _new_figure(size_inches).add_subplot()
    else:
        _check(ax)
    ax.patch.set_alpha(0)
    ax.tick_params(colors=INK, labelsize=SMALL)
    for name, spine in ax.spines.items():
        spine.set(color=INK, linewidth=0.8, visible=name in {"left", "bottom"})
    return ax


def _check(given: object) -> None:
    if not isinstance(given, Axes) or hasattr(given, "zaxis"):
        message = f"ax is {type(given).__name__}, which nothing can be drawn on."
        raise ConfigurationError(message, hint="Give Axes of two dimensions: figure.subplots().")


def _new_figure(size_inches: tuple[float, float]) -> Figure:
    style: dict[str, Any] = {"figsize": size_inches, "layout": "constrained", "facecolor": "white"}
    if _BESIDE_PYPLOT.get():
        figure = Figure(**style)
        FigureCanvasAgg(figure)
        figure.patch.set_visible(False)  # a page has its own
    else:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - its global state: only when asked

        figure = plt.figure(**style)
    return figure


@contextmanager
def beside_pyplot() -> Iterator[None]:
    """Make new figures that pyplot doesn't know, in this thread: for pages and panels.

    Each plot then has the size that suits it, and nothing has to be closed.
    """
    token = _BESIDE_PYPLOT.set(True)
    try:
        yield
    finally:
        _BESIDE_PYPLOT.reset(token)


def empty(ax: Axes, text: str, seen: str) -> Axes:
    """Return Axes that say what there is nothing of, in their middle and in their title."""
    style: dict[str, Any] = {"transform": ax.transAxes, "ha": "center", "va": "center"}
    ax.text(0.5, 0.5, text, color=INK, parse_math=False, **style)
    ax.xaxis.set_visible(False)
    ax.yaxis.set_visible(False)
    ax.spines[:].set_visible(False)
    head(ax, seen)
    return ax


def captioned(ax: Axes, seen: str, *, x: str = "", y: str = "", notes: Sequence[str] = ()) -> Axes:
    """Return Axes that say what is seen; what they measure, and below it what was left out."""
    style: dict[str, Any] = {"color": INK, "fontsize": SMALL, "parse_math": False}
    room = _characters(ax)
    room = max(room - _beside(ax) - 6 * (room < _LONGEST_LINE), _LEAST)
    told = [part for line in (x, *notes) for part in wrap(line, room)]
    ax.set_xlabel("\n".join(told), loc="left", **style)  # what the time is of stands at the right
    ax.set_ylabel(y, **style)
    head(ax, seen)
    return ax


def say(
    ax: Axes, text: str, place: tuple[Any, Any], apart: tuple[float, float], **style: Any
) -> None:
    """Write small text, taken literally, so many points apart from a place."""
    look: dict[str, Any] = {"color": INK, "fontsize": SMALL, "va": "center", "parse_math": False}
    ax.annotate(text, place, apart, textcoords="offset points", **(look | style))


def plot_nothing(records: Records[Any], *, ax: Axes | None = None) -> Axes:
    """Return Axes that say what there are none of, or why that is unknown."""
    kind, why = records.kind, getattr(records, "unknown", None)  # as rows out of a log have it
    if why is None:
        return empty(new_axes(ax), f"no {kind}", f"No {kind}")
    told = shown(f"{kind.capitalize()}: unknown ({why})", 200)
    return empty(new_axes(ax), f"{kind}: unknown", told)


class _PowersOfTwo(MaxNLocator):
    """Ticks a power of two apart, so that sizes in binary units are round."""

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        apart = 2.0 ** math.ceil(math.log2(max(vmax - vmin, 1) / _MOST_TICKS))
        first, last = math.floor(vmin / apart), math.ceil(vmax / apart)
        return [step * apart for step in range(first, last + 1)]


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


_DAY = "%Y-%m-%d"
_TICKS = ["%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M", "%S.%f"]
_ZEROS = ["", "%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M"]
_OFFSETS = ["", "%Y", "%Y", _DAY, _DAY, f"{_DAY} %H:%M"]
"""Dates are as everywhere: 2026-03-04. Of each unit, of its zero; what is above it stands once."""


def in_time(axis: Axis) -> None:
    """Print the numbers of an axis, which :func:`days` gave, as dates and times of UTC."""
    # matplotlib's own dates carry no types.
    locator = dates.AutoDateLocator(minticks=4, maxticks=9, tz=UTC)  # type: ignore[no-untyped-call]
    formatter = dates.ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator, tz=UTC, formats=_TICKS, zero_formats=_ZEROS, offset_formats=_OFFSETS
    )
    axis.set_major_locator(locator)
    axis.set_major_formatter(formatter)
    axis.get_offset_text().set(color=INK, fontsize=SMALL)


def days(times_ms: ArrayLike) -> NDArray[np.float64]:
    """Return moments (epoch ms) as matplotlib's days.

    >>> days([0, 43_200_000]).tolist()
    [0.0, 0.5]
    """
    moments = np.asarray(times_ms, dtype=np.int64).astype("datetime64[ms]")
    return np.asarray(dates.date2num(moments), dtype=np.float64)  # type: ignore[no-untyped-call]


_LONGEST_TITLE = 80
_SHORT_NAME = 5
_KEY = 5  # what the sign before a name in a legend takes, in characters
_UNIT = re.compile(r"(?<=\d) (?=[KMGTP]?i?B\b)")
_KEPT = "\u00a0"  # a space at which no line ends
_MOST_LINES = 3
_MOST_LISTED = 3


def legend_name(text: str) -> str:
    """Return a name for a legend, which leaves out what begins with an underscore."""
    name = shown(text)
    return f" {name}" if name.startswith("_") else name


def wrapped(notes: Iterable[str]) -> list[str]:
    """Return notes as lines that fit the width of a figure, at most three each.

    >>> [len(line) for line in wrapped(["some words " * 15])]
    [109, 54]
    """
    return [
        line
        for note in notes
        for line in wrap(shown(note, _MOST_LINES * _LONGEST_LINE - 20), _LONGEST_LINE)
    ]


def few_of(note: str, number: int, total: int) -> list[str]:
    """Return a note of how many there are of how many; none if there are all of them."""
    return [note.format(format_count(number), format_count(total))] if number < total else []


def listed(names: Sequence[str]) -> str:
    """Return some names as they stand in a sentence, and how many more there are.

    >>> listed(["a", "b"]), listed(list("abcdef"))
    ('a, b', 'a, b, c and 3 others')
    """
    some = [shown(name) for name in names[:_MOST_LISTED]]
    more = len(names) - len(some)
    others = f" and {more} other{'s' if more > 1 else ''}" if more else ""
    return ", ".join(some) + others


def head(ax: Axes, text: str) -> None:
    """Say what is seen, in as many lines as it takes, above the legend in as many columns as fit.

    Both begin where the data do: long names of rows leave them less room. What has a label is in
    the legend. A dollar sign in a text begins no formula.
    """
    room = max(_characters(ax, _LONGEST_TITLE) - _beside(ax), _LEAST)
    told = "\n".join(wrap(_UNIT.sub(_KEPT, text), room)).replace(_KEPT, " ")
    _, labels = ax.get_legend_handles_labels()
    room = _characters(ax) - _beside(ax)
    columns = _legend_columns([str(each) for each in labels], room)
    lines = -(-len(labels) // max(columns, 1))
    style: dict[str, Any] = {"color": INK, "fontsize": _NORMAL, "fontweight": "bold"}
    ax.set_title(told, loc="left", pad=6 + 14 * lines, parse_math=False, **style)
    if labels:
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": columns}
        pads = {"borderaxespad": 0.2, "borderpad": 0, "handlelength": 1.2, "columnspacing": 1.4}
        look: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "labelcolor": INK}
        for each in ax.legend(**place, **pads, **look).get_texts():
            each.set_parse_math(False)


def _legend_columns(labels: Sequence[str], room: int = _LONGEST_LINE) -> int:
    """Return how many entries of a legend fit beside each other in so many characters.

    >>> _legend_columns(["a", "b", "c"]), _legend_columns(["x" * 30] * 6)
    (3, 3)
    """
    widths = [len(label) + _KEY for label in labels]
    room -= _SHORT_NAME
    return len(labels) if sum(widths) <= room else max(1, room // max(widths))


def legend_lines(labels: Sequence[str], rows: Sequence[str] = ()) -> int:
    """Return how many lines a legend takes, right of the names of rows."""
    room = _LONGEST_LINE - max(map(len, rows), default=0)
    return -(-len(labels) // max(_legend_columns([*map(legend_name, labels)], room), 1))


def height(rows: int, notes: Sequence[str] = (), legend_lines: int = 1) -> float:
    """Return how high a figure of some rows is with its title, legend and notes, in inches."""
    return 1.05 + 0.28 * max(rows, 1) + 0.15 * len(notes) + 0.2 * legend_lines


def in_seconds(value: float) -> str:
    """Return seconds, to a tenth."""
    return f"{value:,.1f} s"


def print_axis(axis: Axis, figure: str) -> None:
    """Let an axis print values as the figure's unit asks for."""
    unit = unit_of(figure)
    if unit == "bytes":
        in_bytes(axis)
    elif unit == "count":
        in_counts(axis)
    else:
        axis.set_major_locator(MaxNLocator(nbins=5))


PX_AN_INCH = 96  # as CSS has it, so that a point of text is a point on the page
_DPI = 2 * PX_AN_INCH  # twice what a plain screen shows, so that text stays sharp on a dense one


def picture(draw: Callable[[Axes | None], object]) -> Html:
    """Return what ``draw`` draws as an ``img`` element.

    ``draw`` is ``record.plot``, or another function of Axes: given None it makes its own, and
    returns them. The element holds the picture, a PNG, and says its title to those who can't see
    it. An inch of it is 96 CSS pixels.

    >>> from kstoolkit.records import Records
    >>> shown = picture(lambda ax: plot_nothing(Records((), "rows"), ax=ax))
    >>> shown[shown.index("alt") :]
    'alt="No rows" style="width: 691px; max-width: 100%">'
    """
    src, alt, (width, _) = image(draw)
    return element("img", src=src, alt=alt, style=f"width: {width}px; max-width: 100%")


def image(
    draw: Callable[[Axes | None], object], size_inches: tuple[float, float] | None = None
) -> tuple[str, str, tuple[int, int]]:
    """Return a picture as a data URL, its title, and how many CSS pixels wide and high it is."""
    with beside_pyplot():
        ax = None if size_inches is None else new_axes(size_inches=size_inches)
        drawn: Any = draw(ax)
    ax = drawn if ax is None else ax
    figure: Any = ax.figure
    figure.patch.set_visible(True)
    target = io.BytesIO()
    figure.canvas.print_figure(target, format="png", dpi=_DPI)
    src = f"data:image/png;base64,{b64encode(target.getvalue()).decode('ascii')}"
    width, height = (round(inches * PX_AN_INCH) for inches in figure.get_size_inches())
    return src, " ".join(ax.get_title(loc="left").split()), (width, height)
