"""A plot as PNG bytes, drawn in a figure of its own: for widgets, and for pages without scripts.

pyplot is not touched, so that pictures may be drawn in any thread.
"""

from __future__ import annotations

import io
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.markup import Html, element
from kstoolkit.plots.axes import beside_pyplot, new_axes

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes


_PX_AN_INCH = 96
"""As CSS has it, so that a point of text is a point on the page."""
_DPI = 2 * _PX_AN_INCH
"""Twice what a plain screen shows, so that text stays sharp on a dense one."""
_LEAST_PX = 600
"""How narrow a wide picture may become: below that its text can't be read, and it scrolls."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot as a picture.

    Parameters
    ----------
    png
        The bytes of a PNG file with a transparent ground.
    alt
        What it shows, in words: the plot's title.
    width
        How wide it is meant to be seen, in CSS pixels.
    """

    png: bytes = field(repr=False)
    alt: str
    width: int

    def html(self) -> Html:
        """Return an ``img`` element that holds the picture itself, where it may be scrolled."""
        data = f"data:image/png;base64,{b64encode(self.png).decode('ascii')}"
        style = f"width: {self.width}px; min-width: {min(self.width, _LEAST_PX)}px"
        image = element("img", src=data, alt=self.alt, style=style)
        return element("div", image, style="overflow-x: auto")

    def _repr_png_(self) -> bytes:
        return self.png


def picture(
    draw: Callable[[Axes | None], object], size_inches: tuple[float, float] | None = None
) -> Picture:
    r"""Return what ``draw`` draws, on Axes that it is given or makes.

    Parameters
    ----------
    draw
        Draws: ``record.plot``, or another function of Axes. Given None it makes its own, of the
        size that suits it, and returns them.
    size_inches
        Width and height, of which an inch is 96 CSS pixels; None leaves them to ``draw``.

    Examples
    --------
    >>> from kstoolkit.plots import plot_expected
    >>> shown = picture(lambda ax: plot_expected([0], [7], window_ms=60_000, ax=ax))
    >>> shown
    Picture(alt='None of 1 window flagged; the highest count is 7, range unknown', width=691)
    >>> shown.png[:4]
    b'\x89PNG'
    """
    with beside_pyplot():
        ax = None if size_inches is None else new_axes(size_inches=size_inches)
        drawn: Any = draw(ax)
    if ax is None:
        ax = drawn
    figure: Any = ax.figure
    target = io.BytesIO()
    figure.canvas.print_figure(target, format="png", dpi=_DPI)
    width = round(figure.get_size_inches()[0] * _PX_AN_INCH)
    alt = " ".join(ax.get_title(loc="left").split())
    return Picture(target.getvalue(), alt, width)
