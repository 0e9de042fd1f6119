"""A run: its batches one after the other, its sums, and what could not be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter, NullFormatter

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.dead_letters import REASONS
from kstoolkit.plots.axes import in_counts, label, nothing, title
from kstoolkit.plots.cascade import plot_history
from kstoolkit.plots.notes import head
from kstoolkit.plots.palette import COUNTED, PARTS
from kstoolkit.plots.rowbars import Part, Row, draw_rows, row_axes
from kstoolkit.plots.strips import Steps, Strip, draw_strips, strip_axes
from kstoolkit.rocksdb.records import counted
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from kstoolkit.events.dead_letters import DeadLetters
    from kstoolkit.pipeline.batchhistory import Batches
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.summary import Summary

    Floats = NDArray[np.float64]

__all__ = ["MOST_BARS", "plot_batches", "plot_dead_letters", "plot_run", "plot_summary"]

MOST_BARS = 400


def plot_run(
    run: Run, *, user: str | None = None, action: str | None = None, ax: Axes | None = None
) -> Axes:
    """Return a run batch by batch; of a user, the counts at every level of the cascade.

    Parameters
    ----------
    run
        The run.
    user, action
        Whose counts, and of what; all actions together if only the user is given.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If there is an action without a user.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.run import Run
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> plot_run(Run(RunFolder(Path("no/batches/yet")))).get_title(loc="left")
    'No batches'
    """
    if user is not None:
        return plot_history(run.history(user, action=action), ax=ax)
    if action is not None:
        message = f"The action {action!r} is given without a user."
        raise ConfigurationError(message, hint="Give user=… too.")
    return plot_batches(run.batches(), ax=ax)


def plot_batches(batches: Batches, *, ax: Axes | None = None) -> Axes:
    """Return how long each batch took, how many events/s that is, and what went into the state.

    More than 400 batches are drawn in groups, each as high as its highest; the figure says so.

    Examples
    --------
    >>> from kstoolkit.pipeline.batchhistory import Batches
    >>> from kstoolkit.pipeline.statistics import BatchStatistics
    >>> told = (BatchStatistics(0, 0, 3.0, events=50), BatchStatistics(1, 0, 2.0, events=500))
    >>> plot_batches(Batches(told, (1024, None))).get_title(loc="left")
    '2 batches, 550 events in 5.0 s; after the first: 250 events/s'
    """
    axes = strip_axes(ax, 3)
    if not len(batches):
        nothing(axes, "no batches")
        head(axes, "No batches")
        return axes
    group = -(-len(batches) // MOST_BARS)
    axes.set_xlim(-0.01 * len(batches), 1.01 * len(batches))
    draw_strips(axes, _strips(batches, group))
    in_counts(axes.xaxis)
    label(axes, x="batches, in their order", notes=_notes(batches, group))
    head(axes, _seen(batches))
    return axes


def _strips(batches: Batches, group: int) -> list[Strip]:
    seconds = np.array([each.seconds for each in batches])
    events = np.array([float(each.events) for each in batches])
    rate = np.divide(events, seconds, out=np.full(len(batches), np.nan), where=seconds > 0)
    state = np.array([np.nan if each is None else float(each) for each in batches.state_bytes])
    lost = np.flatnonzero(np.isnan(_highest(state, group))) * group
    # Neighbours that are unknown are one hatched span.
    begins = lost[np.diff(lost, prepend=-2 * group) > group]
    ends = lost[np.diff(lost, append=lost[-1:] + 2 * group) > group] + group
    spans = [(float(a), float(min(b, len(batches)))) for a, b in zip(begins, ends, strict=True)]
    return [
        _strip("seconds", seconds, group, printed=lambda top: f"{top:,.1f} s"),
        _strip("events/s", rate, group, number=1),
        _strip("written\nto state", state, group, number=2, printed=format_bytes, unknown=spans),
    ]


def _strip(name: str, values: Floats, group: int, number: int = 0, **options: Any) -> Strip:
    heights = _highest(values, group)
    edges = np.minimum(np.arange(heights.size + 1) * float(group), values.size)
    color, hatch = (COUNTED, None) if not number else PARTS[(0, 2, 3)[number]]
    steps = Steps(edges=edges, heights=heights, color=color, hatch=hatch)
    return Strip(name=name, steps=(steps,), **options)


def _highest(values: Floats, group: int) -> Floats:
    """Return the highest value of each group; not-a-number where none of them is known."""
    padded = np.append(values, np.full(-values.size % group, np.nan)).reshape(-1, group)
    known = ~np.isnan(padded)
    highest = np.max(np.where(known, padded, -np.inf), axis=1)
    return np.where(known.any(axis=1), highest, np.nan)


def _notes(batches: Batches, group: int) -> list[str]:
    notes = []
    if group > 1:
        number = -(-len(batches) // group)
        notes.append(
            f"{format_count(len(batches))} batches drawn as {number} bars: each is the highest of "
            f"{group} batches"
        )
    unknown = sum(each is None for each in batches.state_bytes)
    if unknown:
        told = "of one batch" if unknown == 1 else f"of {format_count(unknown)} batches"
        notes.append(f"written to state: unknown {told} (Spark has removed the files since)")
    return notes


def _seen(batches: Batches) -> str:
    events, seconds = (sum(getattr(b, name) for b in batches) for name in ("events", "seconds"))
    number = "1 batch" if len(batches) == 1 else f"{format_count(len(batches))} batches"
    seen = f"{number}, {format_count(events)} events in {seconds:,.1f} s"
    spent = sum(each.seconds for each in batches[1:])
    if not spent:
        return seen
    rate = sum(each.events for each in batches[1:]) / spent
    return f"{seen}; after the first: {format_count(rate)} events/s"


def plot_summary(summary: Summary, *, ax: Axes | None = None) -> Axes:
    """Return a run's sums on a logarithmic scale: events, late ones, dead letters by reason.

    Examples
    --------
    >>> from kstoolkit.pipeline.statistics import BatchStatistics
    >>> from kstoolkit.pipeline.summary import Summary
    >>> summary = Summary.of([BatchStatistics(0, 0, 2.0, events=500)], 1024)
    >>> plot_summary(summary).get_title(loc="left")
    '500 events: 0 late, 0 dead letters, 0 findings'
    """
    rows = [
        _row("events", summary.events, 0),
        _row("records into the shuffle", summary.counters_in, 0),
    ]
    rows.append(_row("changelog records", summary.changelog_records, 0))
    rows += [_row(f"late for {window}", number, 1) for window, number in summary.late.items()]
    rows += _by_reason(summary.dead_letters)
    rows.append(_row("findings reported", summary.findings, 3))
    axes = row_axes(ax, len(rows))
    draw_rows(axes, rows, log=True, longest_name=64)
    label(axes, x="records (logarithmic)")
    _in_powers(axes)
    late, dead = sum(summary.late.values()), sum(summary.dead_letters.values())
    events = format_count(summary.events)
    seen = f"{events} events: {format_count(late)} late, {format_count(dead)} dead letters"
    head(axes, f"{seen}, {format_count(summary.findings)} findings")
    return axes


def _in_powers(axes: Axes) -> None:
    """Print the powers of ten of a logarithmic axis as counts."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def plot_dead_letters(letters: DeadLetters, *, ax: Axes | None = None) -> Axes:
    """Return how many records could not be counted, by reason, the most frequent first.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from kstoolkit.events.dead_letters import DeadLetters
    >>> letters = DeadLetters(pa.table({"reason": ["no_user"]}))
    >>> plot_dead_letters(letters).get_title(loc="left")
    '1 dead letter for 1 reason'
    """
    rows = _by_reason(letters.by_reason, None)
    axes = row_axes(ax, len(rows))
    if not rows:
        nothing(axes, "no dead letters")
        head(axes, "No dead letters")
        return axes
    draw_rows(axes, rows, longest_name=64)
    in_counts(axes.xaxis)
    label(axes, x="records")
    title(axes, f"{counted(len(letters), 'dead letters')} for {counted(len(rows), 'reasons')}")
    return axes


def _by_reason(letters: Mapping[str, int], kind: str | None = "dead letters") -> list[Row]:
    ranked = sorted(letters.items(), key=lambda each: (-each[1], each[0]))
    return [_row(REASONS.get(name, name), number, 5, kind) for name, number in ranked]


def _row(name: str, number: int, place: int, kind: str | None = None) -> Row:
    color, hatch = PARTS[place]
    return Row(
        name, (Part(size=number, color=color, hatch=hatch, name=kind),), format_count(number)
    )
