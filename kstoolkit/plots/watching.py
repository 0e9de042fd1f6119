"""A run as it goes: what each of its newest batches took and came to, and the state after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.plots.axes import in_counts, label, nothing
from kstoolkit.plots.notes import head
from kstoolkit.plots.palette import COUNTED, INK, PARTS
from kstoolkit.plots.strips import Steps, Strip, draw_strips, strip_axes
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from kstoolkit.pipeline.status import BatchTimes, RunStatus

    Floats = NDArray[np.float64]


NUM_STRIPS = 4


def plot_status(status: RunStatus, *, ax: Axes | None = None) -> Axes:
    """Return the newest batches: their time in parts, events/s, and the rows and memory of state.

    Examples
    --------
    >>> from kstoolkit.pipeline.status import BatchTimes, RunState, RunStatus
    >>> batch = BatchTimes(number=0, clock_ms=0, seconds=2.0, events=500)
    >>> status = RunStatus(state=RunState.COUNTING, at_ms=0, batches=(batch,), num_batches=1)
    >>> plot_status(status).get_title(loc="left")
    'Counting: the last batch took 2.0 s for 500 events'
    """
    axes = strip_axes(ax, NUM_STRIPS)
    state = f"{status.state[:1].upper()}{status.state[1:]}"
    newest = status.newest
    if newest is None:
        nothing(axes, "no batches yet")
        head(axes, f"{state}: no batch has ended yet")
        return axes
    first = status.num_batches - len(status.batches)
    edges = np.arange(first, status.num_batches + 1, dtype=float)
    room = 0.01 * len(status.batches)
    axes.set_xlim(edges[0] - room, edges[-1] + room)
    draw_strips(axes, _status_strips(status.batches, edges))
    in_counts(axes.xaxis)
    left_out = f"the newest {len(status.batches)} of {format_count(status.num_batches)} are drawn"
    label(axes, x="batches, in their order", notes=[left_out] if first else [])
    took = f"{newest.seconds:,.1f} s for {format_count(newest.events)} events"
    head(axes, f"{state}: the last batch took {took}")
    return axes


def _status_strips(batches: Sequence[BatchTimes], edges: Floats) -> list[Strip]:
    rates = [each.events_per_second for each in batches]
    rows = [each.state_rows for each in batches]
    memory = [each.memory_bytes for each in batches]
    return [
        Strip(
            name="batch time",
            steps=_parts(batches, edges),
            printed=_seconds,
            said=_seconds(batches[-1].seconds),
        ),
        _status_strip("events/s", rates, edges, format_count),
        _status_strip("state rows", rows, edges, format_count),
        _status_strip("state\nmemory", memory, edges, format_bytes),
    ]


def _seconds(value: float) -> str:
    return f"{value:,.1f} s"


def _parts(batches: Sequence[BatchTimes], edges: Floats) -> tuple[Steps, ...]:
    """Return the parts of each batch's time upon each other: drawn first is the whole."""
    whole = np.array([each.seconds for each in batches])
    names = list(dict.fromkeys(name for each in batches for name in each.parts_seconds))
    if not names:
        return (Steps(edges=edges, heights=whole, color=COUNTED, name="in all"),)
    parts = np.array([[each.parts_seconds.get(name, 0.0) for name in names] for each in batches])
    tops = np.cumsum(parts, axis=1)
    steps = [
        Steps(edges=edges, heights=tops[:, n], color=color, hatch=hatch or None, name=name)
        for n, (name, (color, hatch)) in enumerate(zip(names, PARTS, strict=False))
    ]
    untold = np.where(tops[:, -1] > 0, np.nan, whole)
    if not np.isnan(untold).all():
        color, hatch = PARTS[-1]
        steps.append(
            Steps(edges=edges, heights=untold, color=color, hatch=hatch, name="parts unknown")
        )
    return tuple(reversed(steps))


def _status_strip(
    name: str,
    values: Sequence[float | None],
    edges: Floats,
    printed: Callable[[float], str],
) -> Strip:
    heights = np.array([np.nan if each is None else float(each) for each in values])
    last = values[-1]
    options: dict[str, Any] = {
        "unknown": _unknown_spans(np.isnan(heights), edges),
        "printed": printed,
    }
    # Grey: the colours are those of the parts of time.
    steps = Steps(edges=edges, heights=heights, color=INK)
    return Strip(
        name=name, steps=(steps,), said="unknown" if last is None else printed(last), **options
    )


def _unknown_spans(lost: NDArray[np.bool_], edges: Floats) -> list[tuple[float, float]]:
    """Return from where to where nothing is known."""
    changes = np.flatnonzero(np.diff(np.concatenate([[False], lost, [False]]).astype(np.int8)))
    return [(float(edges[a]), float(edges[b])) for a, b in zip(*[iter(changes)] * 2, strict=True)]
