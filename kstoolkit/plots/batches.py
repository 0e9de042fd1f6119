"""A run's batches one after the other: how long each took, what came in, what state it left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.pipeline.status import NOT_KEPT
from kstoolkit.plots.axes import in_counts, label, nothing
from kstoolkit.plots.notes import head
from kstoolkit.plots.palette import COUNTED, PARTS
from kstoolkit.plots.strips import Steps, Strip, draw_strips, strip_axes
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from kstoolkit.pipeline.status import Batches

    Floats = NDArray[np.float64]


MOST_BARS = 400
_NUM_STRIPS = 5


def plot_batches(batches: Batches, *, ax: Axes | None = None) -> Axes:
    """Return how long each batch took, its events/s, what it wrote to state and what that held.

    The state's rows and memory after each batch are Spark's figures. At the right stands what the
    last batch came to.

    More than 400 batches are drawn in groups, each as high as its highest; the figure says so.

    Examples
    --------
    >>> from kstoolkit.pipeline.status import Batches
    >>> from kstoolkit.pipeline.sink import BatchStatistics
    >>> told = (BatchStatistics(0, 0, 3.0, events=50), BatchStatistics(1, 0, 2.0, events=500))
    >>> plot_batches(Batches(told, (1024, None), (None, None))).get_title(loc="left")
    '2 batches, 550 events in 5.0 s; after the first: 250 events/s'
    """
    axes = strip_axes(ax, _NUM_STRIPS)
    if not len(batches):
        nothing(axes, "no batches")
        head(axes, "No batches")
        return axes
    group = -(-len(batches) // MOST_BARS)
    axes.set_xlim(-0.01 * len(batches), 1.01 * len(batches))
    draw_strips(axes, _batch_strips(batches, group))
    in_counts(axes.xaxis)
    label(axes, x="batches, in their order", notes=_batch_notes(batches, group))
    head(axes, _seen(batches))
    return axes


def _batch_strips(batches: Batches, group: int) -> list[Strip]:
    seconds = np.array([each.seconds for each in batches])
    events = np.array([float(each.events) for each in batches])
    rate = np.divide(events, seconds, out=np.full(len(batches), np.nan), where=seconds > 0)
    rows = [None if each is None else each.rows for each in batches.state]
    memory = [None if each is None else each.memory_bytes for each in batches.state]
    return [
        _batch_strip("seconds", seconds, group, printed=lambda top: f"{top:,.1f} s"),
        _batch_strip("events/s", rate, group, 1),
        _of_state("written\nto state", batches.state_bytes, group, 2, format_bytes),
        _of_state("state rows", rows, group, 3, format_count),
        _of_state("state\nmemory", memory, group, 3, format_bytes),
    ]


def _of_state(
    name: str,
    figures: Sequence[int | None],
    group: int,
    number: int,
    printed: Callable[[float], str],
) -> Strip:
    values = np.array([np.nan if each is None else float(each) for each in figures])
    unknown = _unknown_batches(values, group)
    return _batch_strip(name, values, group, number, printed=printed, unknown=unknown)


def _unknown_batches(values: Floats, group: int) -> list[tuple[float, float]]:
    """Return from where to where nothing is known: neighbours are one hatched span."""
    lost = np.flatnonzero(np.isnan(_highest(values, group))) * group
    begins = lost[np.diff(lost, prepend=-2 * group) > group]
    ends = lost[np.diff(lost, append=lost[-1:] + 2 * group) > group] + group
    return [(float(a), float(min(b, values.size))) for a, b in zip(begins, ends, strict=True)]


def _batch_strip(name: str, values: Floats, group: int, number: int = 0, **options: Any) -> Strip:
    heights = _highest(values, group)
    edges = np.minimum(np.arange(heights.size + 1) * float(group), values.size)
    color, hatch = (COUNTED, None) if not number else PARTS[(0, 2, 3, 4)[number]]
    steps = Steps(edges=edges, heights=heights, color=color, hatch=hatch)
    last = float(values[-1])
    said = "unknown" if np.isnan(last) else options.get("printed", format_count)(last)
    return Strip(name=name, steps=(steps,), said=said, **options)


def _highest(values: Floats, group: int) -> Floats:
    """Return the highest value of each group; not-a-number where none of them is known."""
    padded = np.append(values, np.full(-values.size % group, np.nan)).reshape(-1, group)
    known = ~np.isnan(padded)
    highest = np.max(np.where(known, padded, -np.inf), axis=1)
    return np.where(known.any(axis=1), highest, np.nan)


def _batch_notes(batches: Batches, group: int) -> list[str]:
    notes = []
    if group > 1:
        number = -(-len(batches) // group)
        notes.append(
            f"{format_count(len(batches))} batches drawn as {number} bars: each is the highest of "
            f"{group} batches"
        )
    gone, untold = (_unknown_of(each) for each in (batches.state_bytes, batches.state))
    if gone:
        notes.append(f"written to state: {gone} (Spark has removed the files since)")
    if untold:
        notes.append(f"state rows and memory: {untold} ({NOT_KEPT})")
    return notes


def _unknown_of(figures: Sequence[object | None]) -> str:
    number = sum(each is None for each in figures)
    if not number:
        return ""
    return "unknown of one batch" if number == 1 else f"unknown of {format_count(number)} batches"


def _seen(batches: Batches) -> str:
    events, seconds = (sum(getattr(b, name) for b in batches) for name in ("events", "seconds"))
    number = "1 batch" if len(batches) == 1 else f"{format_count(len(batches))} batches"
    seen = f"{number}, {format_count(events)} events in {seconds:,.1f} s"
    spent = sum(each.seconds for each in batches[1:])
    if not spent:
        return seen
    rate = sum(each.events for each in batches[1:]) / spent
    return f"{seen}; after the first: {format_count(rate)} events/s"
