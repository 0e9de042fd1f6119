"""Many spans along the x axis, drawn as one thing: thousands of bars would each take their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PolyCollection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike


def draw_spans(
    ax: Axes, starts: ArrayLike, ends: ArrayLike, rows: ArrayLike, *, height: float, **look: Any
) -> None:
    """Draw spans from their starts to their ends, each in the middle of its row.

    Parameters
    ----------
    ax
        The Axes.
    starts, ends, rows
        One of each for every span.
    height
        How high they are; rows are 1 apart.
    look
        What a :class:`~matplotlib.collections.PolyCollection` takes, such as ``facecolor``.
    """
    left, right, middle = (np.asarray(each, dtype=np.float64) for each in (starts, ends, rows))
    low, high = middle - height / 2, middle + height / 2
    xs = np.stack([left, right, right, left], axis=1)
    ys = np.stack([low, low, high, high], axis=1)
    ax.add_collection(PolyCollection(list(np.stack([xs, ys], axis=2)), **look))
    ax.autoscale_view()
