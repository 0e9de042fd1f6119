"""Notes below a figure, and names in its legend: short enough, whatever the data calls itself."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from kstoolkit.plots.axes import title
from kstoolkit.plots.names import shown
from kstoolkit.plots.room import LONGEST_LINE, characters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes


_LONGEST_TITLE = 80
_SHORT_NAME = 5
_KEY = 5
"""What the sign before a name in a legend takes, in characters."""
_UNIT = re.compile(r"(?<=\d) (?=[KMGTP]?i?B\b)")
_KEPT = "\u00a0"
"""A space at which no line ends."""
_MOST_LINES = 3
_MOST_LISTED = 3


def legend_name(text: str) -> str:
    """Return a name for a legend, which leaves out what begins with an underscore.

    Examples
    --------
    >>> legend_name("_mine"), legend_name("mine")
    (' _mine', 'mine')
    """
    name = shown(text)
    return f" {name}" if name.startswith("_") else name


def wrapped(notes: Iterable[str]) -> list[str]:
    """Return notes as lines that fit the width of a figure, at most three each.

    Examples
    --------
    >>> [len(line) for line in wrapped(["some words " * 15])]
    [109, 54]
    """
    return [
        line
        for note in notes
        for line in textwrap.wrap(shown(note, _MOST_LINES * LONGEST_LINE - 20), LONGEST_LINE)
    ]


def listed(names: Sequence[str]) -> str:
    """Return some names as they stand in a sentence, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b"]), listed(list("abcdef"))
    ('a, b', 'a, b, c and 3 others')
    """
    some = [shown(name) for name in names[:_MOST_LISTED]]
    more = len(names) - len(some)
    others = f" and {more} other{'s' if more > 1 else ''}" if more else ""
    return ", ".join(some) + others


def head(ax: Axes, text: str) -> None:
    """Say what is seen, in as many lines as it takes, above the legend in as many columns as fit.

    Both begin where the data do: long names of rows leave them less room.
    """
    names = [name.get_text() for name in ax.get_yticklabels()]
    longest = max(map(len, names), default=0)
    room = characters(ax, _LONGEST_TITLE - max(longest - _SHORT_NAME, 0))
    lines = textwrap.wrap(_UNIT.sub(_KEPT, text), room)
    _, labels = ax.get_legend_handles_labels()
    columns = legend_columns([str(each) for each in labels], names, room=characters(ax))
    title(ax, "\n".join(lines).replace(_KEPT, " "), num_columns=columns)


def legend_columns(
    labels: Sequence[str], rows: Sequence[str] = (), *, room: int = LONGEST_LINE
) -> int:
    """Return how many entries of a legend fit beside each other, right of the names of rows.

    ``room`` is how many characters fit the width of the figure.

    Examples
    --------
    >>> legend_columns(["a", "b", "c"]), legend_columns(["x" * 30] * 6)
    (3, 3)
    """
    room -= _SHORT_NAME + max(map(len, rows), default=0)
    widths = [len(label) + _KEY for label in labels]
    if sum(widths) <= room:
        return max(len(labels), 1)
    return max(1, room // max(widths))


def legend_lines(labels: Sequence[str], rows: Sequence[str] = ()) -> int:
    """Return how many lines a legend takes."""
    names = [legend_name(each) for each in labels]
    return -(-len(names) // legend_columns(names, rows))


def height(rows: int, notes: Sequence[str] = (), legend_lines: int = 1) -> float:
    """Return how high a figure of some rows is with its title, legend and notes, in inches.

    Examples
    --------
    >>> height(2) < height(3) < height(3, ["a note"])
    True
    """
    return 1.05 + 0.28 * max(rows, 1) + 0.15 * len(notes) + 0.2 * legend_lines
