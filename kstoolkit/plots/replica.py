"""A replica: its segments along time, how far a standby is behind, and how a restore went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.plots.axes import days, in_counts, in_time, label, new_axes, nothing
from kstoolkit.plots.notes import head, wrapped
from kstoolkit.plots.palette import FLAGGED, INK, PARTS
from kstoolkit.plots.rowbars import Part, Row, draw_rows, row_axes
from kstoolkit.plots.strips import Steps, Strip, draw_strips, strip_axes
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from kstoolkit.records import Records
    from kstoolkit.replica.listening import RestoreHistory, RestoreStep
    from kstoolkit.replica.records import Lag, SegmentState
    from kstoolkit.replica.windowstore import WindowReader

    Floats = NDArray[np.float64]


MOST_SEGMENTS = 400
_MOST_STEPS = 1_000
_MOST_NAMED = 8


def plot_replica(replica: WindowReader, *, ax: Axes | None = None) -> Axes:
    """Return what each segment of a replica takes on the disk, along time."""
    return plot_segments(replica.segments(), ax=ax)


def plot_segments(segments: Records[SegmentState], *, ax: Axes | None = None) -> Axes:
    """Return what each segment takes on the disk, along time, a kind of window a strip.

    Segments in memory are hatched: their size is unknown. Of more than 400 of one kind, neighbours
    are drawn as one, as large as the largest of them; the figure says so.

    Examples
    --------
    >>> from kstoolkit.records import Records
    >>> from kstoolkit.replica.records import SegmentState
    >>> held = SegmentState("1 hour", 0, 3_600_000, "/a", 5, 700, 1024, 0, 1)
    >>> plot_segments(Records([held], "segments")).get_title(loc="left")
    '1 segment of 1.0 KiB on disk'
    """
    kinds: dict[str, list[SegmentState]] = {}
    for each in segments:
        kinds.setdefault(each.window, []).append(each)
    axes = strip_axes(ax, len(kinds))
    if not kinds:
        nothing(axes, "no segments")
        head(axes, "No segments")
        return axes
    first, last = days([min(s.start_ms for s in segments), max(s.end_ms for s in segments)])
    axes.set_xlim(first - 0.01 * (last - first), last + 0.01 * (last - first))
    draw_strips(axes, [_segments(name, states) for name, states in kinds.items()])
    in_time(axes.xaxis)
    label(axes, x="windows that a segment holds begin then, UTC", notes=wrapped(_notes(kinds)))
    known = [each.disk_bytes for each in segments if each.disk_bytes is not None]
    memory = sum(each.path is None for each in segments)
    where = f", {format_count(memory)} in memory" if memory else ""
    size = format_bytes(sum(known))
    head(axes, f"{counted(len(segments), 'segments')} of {size} on disk{where}")
    return axes


def _segments(name: str, states: Sequence[SegmentState]) -> Strip:
    ordered = sorted(states, key=lambda each: each.start_ms)
    group = -(-len(ordered) // MOST_SEGMENTS)
    together = [ordered[at : at + group] for at in range(0, len(ordered), group)]
    spans = days([[some[0].start_ms, some[-1].end_ms] for some in together])
    color, hatch = PARTS[0]
    steps, unknown = [], []
    for span, some in zip(spans, together, strict=True):
        known = [each.disk_bytes for each in some if each.disk_bytes is not None]
        if known:
            heights = np.array([float(max(known))])
            steps.append(Steps(edges=span, heights=heights, color=color, hatch=hatch or None))
        else:
            unknown.append((float(span[0]), float(span[1])))
    number = counted(len(states), "segments")
    return Strip(name=name, steps=tuple(steps), printed=format_bytes, unknown=unknown, said=number)


def _notes(kinds: dict[str, list[SegmentState]]) -> list[str]:
    notes = [
        f"{name}: {format_count(len(states))} segments drawn in groups of "
        f"{-(-len(states) // MOST_SEGMENTS)}, each as large as its largest"
        for name, states in kinds.items()
        if len(states) > MOST_SEGMENTS
    ]
    why = next((_why(each) for each in _all(kinds) if each.disk_bytes is None), None)
    return notes if why is None else [*notes, f"size on disk: unknown ({why})"]


def _all(kinds: dict[str, list[SegmentState]]) -> Iterable[SegmentState]:
    return (each for states in kinds.values() for each in states)


def _why(state: SegmentState) -> str:
    return state.unknown.get("disk_bytes", "it is in memory" if state.path is None else "not told")


def plot_lag(lag: Lag, *, ax: Axes | None = None) -> Axes:
    """Return how many records a standby is behind its changelog; the title says how long.

    Examples
    --------
    >>> from kstoolkit.replica.records import Lag
    >>> plot_lag(Lag(5, 0.5)).get_title(loc="left")
    'The standby is 5 records and 0.5 s behind'
    """
    axes = row_axes(ax, 1)
    number = counted(lag.records, "records")
    rows = [Row("to be read", (Part(size=lag.records, color=FLAGGED, hatch="//"),), number)]
    draw_rows(axes, rows)
    in_counts(axes.xaxis)
    label(axes, x="records of the changelog")
    late = f"{lag.seconds:,.1f} s" if lag.seconds is not None else None
    if not lag.records:
        head(axes, "The standby holds all that its changelog tells")
    elif late is None:
        why = lag.unknown.get("seconds", "not told")
        head(axes, f"The standby is {number} behind; for how long is unknown ({why})")
    else:
        head(axes, f"The standby is {number} and {late} behind")
    return axes


def plot_restore(history: RestoreHistory, *, ax: Axes | None = None) -> Axes:
    """Return how many records a restore had read at the end of each step, and how many a second.

    Dashed lines are where a level or a segment begins. More than 1,000 steps are thinned; the
    figure says so.

    Examples
    --------
    >>> from kstoolkit.replica.listening import RestoreHistory
    >>> plot_restore(RestoreHistory()).get_title(loc="left")
    'No restore told of yet'
    """
    batches = [each for each in history.steps if each.event == "batch"]
    if not batches:
        axes = new_axes(ax)
        nothing(axes, "no records read")
        head(axes, "No restore told of yet" if not len(history.steps) else "No records restored")
        return axes
    axes = strip_axes(ax, 2)
    ends, records = _thinned(batches)
    edges = np.concatenate([[0.0], ends])
    spent = np.diff(edges)
    per_second = np.divide(records, spent, out=np.full(spent.size, np.nan), where=spent > 0)
    read = Steps(edges=edges, heights=np.cumsum(records))
    (color, hatch) = PARTS[2]
    rate = Steps(edges=edges, heights=per_second, color=color, hatch=hatch)
    last = max(history.seconds, edges[-1]) or 1.0
    axes.set_xlim(-0.01 * last, 1.01 * last)
    draw_strips(
        axes, [Strip(name="records", steps=(read,)), Strip(name="records/s", steps=(rate,))]
    )
    notes = _draw_begins(axes, [each for each in history.steps if each.event == "start"])
    if ends.size < len(batches):
        number = format_count(len(batches))
        notes.append(f"{number} steps drawn as {format_count(ends.size)}")
    notes += [f"{each.what}: failed ({each.error})" for each in history.failures[:1]]
    label(axes, x="seconds since the restore began", notes=wrapped(notes))
    of = f"{format_count(history.records)} of {counted(history.total, 'records')}"
    rate_of_all = format_count(history.records / history.seconds if history.seconds else None)
    head(axes, f"{of} restored in {history.seconds:,.1f} s: {rate_of_all} records/s")
    return axes


def _thinned(batches: list[RestoreStep]) -> tuple[Floats, Floats]:
    """Return when steps ended, and the records of each: neighbours together if there are many.

    Steps of one moment are one: there is no rate of no time.
    """
    ends = np.array([each.seconds for each in batches])
    records = np.array([float(each.records or 0) for each in batches])
    last = np.flatnonzero(np.append(np.diff(ends) > 0, [True]))
    group = -(-last.size // _MOST_STEPS)
    last = np.unique(np.append(last[group - 1 :: group], last[-1:]))
    return ends[last], np.diff(np.cumsum(records)[last], prepend=0.0)


def _draw_begins(axes: Axes, begun: list[RestoreStep]) -> list[str]:
    for each in begun[:_MOST_NAMED]:
        axes.axvline(each.seconds, color=INK, linewidth=0.8, linestyle=(0, (3, 3)), zorder=1)
        style: dict[str, Any] = {
            "fontsize": 7,
            "color": INK,
            "rotation": 90,
            "va": "top",
            "ha": "left",
        }
        top = ("data", "axes fraction")
        axes.annotate(each.what, (each.seconds, 1), (2, 0), top, "offset points", **style)
    left_out = len(begun) - _MOST_NAMED
    return [f"the first {_MOST_NAMED} of {len(begun)} levels are marked"] if left_out > 0 else []
