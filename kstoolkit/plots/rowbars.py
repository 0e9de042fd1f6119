"""Bars that lie beside their names: one row each, its parts told apart by colour and hatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.plots.axes import SMALL, new_axes
from kstoolkit.plots.names import shown
from kstoolkit.plots.palette import COUNTED, INK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


MOST_ROWS = 30
"""More rows than this can't be read; whoever draws more says which are left out."""
_FEWEST = 3
"""So many rows there is room for, lest a lone bar fill the figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a bar.

    Parameters
    ----------
    size
        How long it is, in the axis's unit.
    color, hatch
        How it is filled; ``"none"`` is no colour.
    name
        What it is, for the legend.
    """

    size: float
    color: str = COUNTED
    hatch: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A bar: its name, which may be the data's; its parts; and what is said at its end."""

    name: str
    parts: tuple[Part, ...]
    said: str = ""

    @property
    def size(self) -> float:
        """How long it is altogether."""
        return sum(part.size for part in self.parts)


def rest_row(name: str, size: float, rows: Sequence[Row], said: str) -> Row:
    """Return the row of all that have none of their own, whose bar must not dwarf the others."""
    if size > 2 * max((row.size for row in rows), default=0):
        return Row(name, (), f"{said}: too long a bar to be drawn")
    return Row(name, (Part(size=size, color="none", hatch="//"),), said)


def row_axes(ax: Axes | None, number: int) -> Axes:
    """Return Axes with room for so many rows."""
    return new_axes(ax, (7.2, 1.1 + 0.21 * max(number, _FEWEST)))


def draw_rows(ax: Axes, rows: Sequence[Row], *, log: bool = False, longest_name: int = 28) -> None:
    """Draw rows, the first one at the top.

    Parameters
    ----------
    ax
        Where.
    rows
        At most 40 or so.
    log
        Whether lengths are on a logarithmic scale, which begins below 1.
    longest_name
        How many characters of a row's name are shown.
    """
    once: set[str] = set()
    least = 0.5 if log else 0.0
    for place, row in enumerate(rows):
        left = least
        for part in row.parts:
            if part.size:
                _draw_part(ax, place, left, part, once, width=part.size - least * (left == least))
                left = max(part.size, least) if left == least else left + part.size
        said: dict[str, Any] = {"textcoords": "offset points", "fontsize": SMALL, "color": INK}
        ax.annotate(row.said, (left, place), (4, 0), va="center", parse_math=False, **said)
    top = max((row.size for row in rows), default=0) or 8
    if log:
        ax.set_xscale("log")
    # Room for what is said at the end of the longest bar.
    longest = max((len(row.said) for row in rows), default=0)
    room = min(0.02 + longest * 0.013, 0.6)
    ax.set_xlim(
        least, least * (max(top, 2) / least) ** (1 / (1 - room)) if log else top / (1 - room)
    )
    ax.set_ylim(max(len(rows), _FEWEST) - 0.4, -0.6)
    names = [shown(row.name, longest_name) for row in rows]
    ax.set_yticks(range(len(rows)), names, parse_math=False)
    ax.tick_params(axis="y", length=0)


def _draw_part(
    ax: Axes, place: int, left: float, part: Part, once: set[str], *, width: float
) -> None:
    name = None if part.name in once else part.name
    once |= set() if part.name is None else {part.name}
    style: dict[str, Any] = {"facecolor": part.color, "edgecolor": INK, "linewidth": 0.5}
    ax.barh(place, width, 0.72, left, hatch=part.hatch, label=name, zorder=2, **style)
