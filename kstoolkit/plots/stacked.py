"""Bars of parts: each part with a colour and a hatch of its own, what is unknown hatched in grey.

A part of unknown size is drawn as a short stub at the end of its bar, and its reason stands below
the figure; it adds nothing to the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.plots.axes import SMALL
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import legend_name, listed
from kstoolkit.plots.palette import INK, PARTS, UNKNOWN_HATCH
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    Style = dict[str, Any]


REST = "not accounted for"
"""The part that is what is left: pale grey, like nothing that has a name."""

THICKNESS = 0.62
_CHAR_POINTS = 4.9
"""How wide a character of small text is, on the whole."""
_GAP_POINTS = 5
_MOST_ROOM = 5
_STUB = 0.06


@dataclass(frozen=True, slots=True)
class StackedPart:
    """A part of a bar: its name, its size, and why that is unknown if it is None."""

    name: str
    size: float | None
    why_unknown: str = "not told"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its name, its parts from left to right, and what to say beside its sum."""

    name: str
    parts: tuple[StackedPart, ...]
    remark: str = ""

    @property
    def sum(self) -> float:
        """What the parts that are drawn come to; one below 0 is not drawn."""
        return sum(max(part.size or 0, 0) for part in self.parts)


def labels_of(bars: Sequence[Bar]) -> list[str]:
    """Return the names that the legend of some bars has."""
    names = known(bars) if _needs_legend(bars) else []
    return names + (["unknown"] if _has_unknown(bars) else [])


def known(bars: Sequence[Bar]) -> list[str]:
    """Return the names of all parts that are drawn, in order, each once."""
    parts = [part for bar in bars for part in bar.parts]
    return list(dict.fromkeys(part.name for part in parts if (part.size or 0) > 0))


def draw_bars(
    ax: Axes, bars: Sequence[Bar], printed: Callable[[float], str] = format_bytes
) -> None:
    """Draw bars from top to bottom, each with its sum at its end.

    Parameters
    ----------
    ax
        The Axes.
    bars
        At least one.
    printed
        How to print a size.
    """
    longest = max(bar.sum for bar in bars)
    stub = _STUB * (longest or 1)
    looks = _looks(known(bars))
    said: list[tuple[float, float, str]] = []
    named: set[str] = set() if _needs_legend(bars) else set(known(bars))
    for row, bar in enumerate(bars):
        end = 0.0
        for part in bar.parts:
            if part.size is not None and part.size > 0:
                label = None if part.name in named else legend_name(part.name)
                ax.barh(row, part.size, left=end, label=label, **looks[part.name])
                named.add(part.name)
                end += part.size
        lacks = any(part.size is None for part in bar.parts)
        if lacks:
            ax.barh(row, stub, left=end, height=THICKNESS, **unknown_look())
        said.append((end + stub * lacks, row, _sum(bar, printed, lacks=lacks)))
    if _has_unknown(bars):
        ax.barh(0, 0, label="unknown", height=THICKNESS, **unknown_look())
    name_rows(ax, [bar.name for bar in bars])
    say_beside(ax, said)
    if not longest:
        ax.set_xticks([])


def name_rows(ax: Axes, names: Sequence[str], longest: int = 28) -> None:
    """Name the rows of a figure, the first one on top, in so many characters at most."""
    ax.set_yticks(range(len(names)), [shown(name, longest) for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def say_beside(ax: Axes, said: Sequence[tuple[float, float, str]]) -> None:
    """Write texts to the right of where bars end, and make the x axis so long that all fit.

    Parameters
    ----------
    ax
        The Axes, whose rows have their names.
    said
        For each text: x, y and what to say.
    """
    names = max((len(name.get_text()) for name in ax.get_yticklabels()), default=0)
    whole = _width_points(ax) - names * _CHAR_POINTS - 3 * _GAP_POINTS
    end = 0.0
    for x, y, text in said:
        place: Style = {"xytext": (_GAP_POINTS, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(text, (x, y), color=INK, fontsize=SMALL, parse_math=False, **place)
        left = whole - len(text) * _CHAR_POINTS - _GAP_POINTS
        end = max(end, x * whole / max(left, whole / _MOST_ROOM))
    ax.set_xlim(0, 1.05 * end or 1)


def _width_points(ax: Axes) -> float:
    """Return how wide the place of the Axes is: the figure, if they are the only ones in it."""
    width = ax.figure.bbox.width * 72 / ax.figure.dpi
    return width if len(ax.figure.axes) == 1 else width * ax.get_position().width


def stacked_notes(bars: Sequence[Bar]) -> list[str]:
    """Return what can't be drawn: parts that are unknown, with why, and those below 0."""
    whys: dict[str, dict[str, None]] = {}
    for bar in bars:
        for part in bar.parts:
            if part.size is None:
                whys.setdefault(part.why_unknown, {})[part.name] = None
    unknown = [f"{listed(list(names))}: unknown ({why})" for why, names in whys.items()]
    below = [
        f"{bar.name}, {part.name}: {format_bytes(part.size)}, below 0, and not drawn"
        for bar in bars
        for part in bar.parts
        if (part.size or 0) < 0
    ]
    return unknown + below


def _needs_legend(bars: Sequence[Bar]) -> bool:
    """Return whether parts have to be told apart: a bar of one is named by its row."""
    return any(len(bar.parts) > 1 for bar in bars)


def _sum(bar: Bar, printed: Callable[[float], str], *, lacks: bool) -> str:
    if lacks and not bar.sum:
        return "unknown"
    return f"{printed(bar.sum)}{' + unknown' if lacks else ''}{bar.remark}"


def look_of(number: int) -> Style:
    """Return the colour, hatch and edge of the part of this number; after some, colours repeat.

    Examples
    --------
    >>> look_of(0)["facecolor"] == look_of(7)["facecolor"], look_of(0) == look_of(7)
    (True, False)
    """
    again = number // len(PARTS)  # the same colours, with other hatches
    color, hatch = PARTS[number % len(PARTS)][0], PARTS[(number + 3 * again) % len(PARTS)][1]
    return {"facecolor": color, "hatch": hatch, "edgecolor": INK, "linewidth": 0.6}


def unknown_look() -> Style:
    """Return how what is unknown looks: grey hatches, no fill."""
    return {"facecolor": "none", "hatch": UNKNOWN_HATCH, "edgecolor": INK, "linewidth": 0.6}


def _looks(names: Sequence[str]) -> dict[str, Style]:
    height: Style = {"height": THICKNESS}
    series = [name for name in names if name != REST]
    looks = {name: look_of(number) | height for number, name in enumerate(series)}
    pale: Style = {"facecolor": f"{INK}55", "edgecolor": INK, "linewidth": 0.6}
    return looks | {REST: pale | height}


def _has_unknown(bars: Sequence[Bar]) -> bool:
    return any(part.size is None for bar in bars for part in bar.parts)
