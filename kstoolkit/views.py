"""What every record that people look at can do: show itself as a plot.

A record doesn't know how it is drawn: :mod:`kstoolkit.plots` knows the records, never the other way
round. This is the one place that reaches forward, and only when somebody asks, so that reading a
record loads no plotting library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Viewed:
    """A record, or several, that can be drawn."""

    __slots__ = ()

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Return a plot of this.

        Parameters
        ----------
        ax
            Where to draw; by default the only Axes of a new figure of pyplot's, which a notebook
            shows by itself.
        options
            What the function in :mod:`kstoolkit.plots` that draws this takes beside; its name is in
            the error for one that it doesn't take.

        Raises
        ------
        ConfigurationError
            If there is no such option, or nothing of this kind can be drawn.
        """
        from kstoolkit.plots.drawing import draw  # noqa: PLC0415 - draws: only when asked

        return draw(self, ax, **options)
