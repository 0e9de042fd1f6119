"""A store's log: what was done over time, what was written to each level, who waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import label, new_axes, nothing, plot_nothing
from kstoolkit.plots.memory import draw_memory, part_of
from kstoolkit.plots.notes import head, height, legend_lines, wrapped
from kstoolkit.plots.stacked import Bar, StackedPart, draw_bars, labels_of, stacked_notes
from kstoolkit.plots.timeline import draw_timeline
from kstoolkit.records import counted
from kstoolkit.rocksdb.log.jobs import Compaction, Flush, LogRows
from kstoolkit.rocksdb.log.stats import write_amplification
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.log.stats import StallTime, WriteAmplification
    from kstoolkit.rocksdb.log.storelog import StoreLog


def plot_log(log: StoreLog, *, by: str = "time", ax: Axes | None = None) -> Axes:
    """Return a plot of what the log tells: jobs and stalls over time, or writes by level.

    Parameters
    ----------
    log
        The log; it is read for this, line by line.
    by
        ``"time"``; or ``"level"``, for what flushes and compactions wrote to each.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If ``by`` is neither.
    """
    _check_log_by(by)
    events = log.events()
    if by == "level":
        return plot_level_writes(events, ax=ax, unknown=events.unknown)
    return draw_timeline([*events, *log.stats()], ax, events.unknown)


def plot_log_rows(rows: Records[Any], *, by: str = "time", ax: Axes | None = None) -> Axes:
    """Return a plot of rows out of a log: flushes, compactions, moves, stalls.

    Parameters
    ----------
    rows
        As a log's methods give them.
    by
        ``"time"``; or ``"level"``, for what flushes and compactions wrote to each.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If ``by`` is neither.

    Examples
    --------
    >>> from kstoolkit.rocksdb.log.jobs import Stall
    >>> stall = Stall(None, None, "stopped", "memtable limit", 2, 2, None, None, None)
    >>> plot_log_rows(LogRows([stall], "stalls")).get_title(loc="left")
    '1 stall'
    """
    _check_log_by(by)
    if not len(rows):
        return plot_nothing(rows, ax=ax)
    unknown = rows.unknown if isinstance(rows, LogRows) else None
    if by == "level":
        return plot_level_writes(rows, ax=ax, unknown=unknown)
    return draw_timeline(rows, ax, unknown)


def plot_level_writes(
    events: Iterable[object], *, ax: Axes | None = None, unknown: str | None = None
) -> Axes:
    """Return a plot of what flushes and compactions wrote to each level, and what for nothing.

    Parameters
    ----------
    events
        Flushes and compactions; others are passed over.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.
    unknown
        Why there may be more than these.
    """
    jobs = [each for each in events if isinstance(each, Flush | Compaction)]
    jobs = [each for each in jobs if not getattr(each, "moved", False)]  # a move writes nothing
    sums: dict[str, list[float]] = {}
    for each in jobs:
        to = 0 if isinstance(each, Flush) else each.to_level
        held = sums.setdefault("L?" if to is None else f"L{to}", [0, 0, 0])
        held[isinstance(each, Compaction)] += each.output_bytes or 0
        held[2] += each.wasted_bytes or 0
    names = ("flushes", "compactions", "not finished: for nothing")
    bars = [
        Bar(level, tuple(StackedPart(name, size) for name, size in zip(names, sizes, strict=True)))
        for level, sizes in sorted(sums.items())
    ]
    if not bars:
        ax = new_axes(ax)
        nothing(ax, "no flushes and no compactions")
        head(ax, f"Writes: unknown ({unknown})" if unknown else "Nothing was written")
        return ax
    notes = [f"others: unknown ({unknown})"] if unknown else []
    return draw_memory(ax, bars, _amplified(write_amplification(jobs)), notes, "SST files written")


def plot_writes(writes: WriteAmplification, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what flushes and compactions wrote, and how often each byte.

    Examples
    --------
    >>> plot_writes(write_amplification([])).get_title(loc="left")
    'Write amplification: unknown (no flush ended in the span)'
    """
    bars = [
        Bar("flushes", (part_of(writes, "flushed_bytes", "flushes"),)),
        Bar("compactions", (part_of(writes, "compacted_bytes", "compactions"),)),
    ]
    return draw_memory(ax, bars, _amplified(writes), [], "SST files written")


def plot_stall_time(time: StallTime, *, ax: Axes | None = None) -> Axes:
    """Return a plot of how long writers waited, of the time that dumps of statistics cover.

    Examples
    --------
    >>> from kstoolkit.rocksdb.log.stats import StallTime
    >>> plot_stall_time(StallTime(2, 1, 600.0, 30.0, 5.0)).get_title(loc="left")
    'Writers waited 30.0 s of 600.0 s: 5.0 %'
    """
    waited = part_of(time, "stalled_s", "waited")
    went_on = None
    if time.covered_s is not None and time.stalled_s is not None:
        went_on = max(time.covered_s - time.stalled_s, 0)
    parts = (waited,) if went_on is None else (StackedPart("did not wait", went_on), waited)
    bars = [Bar("writers", parts)]
    lines = wrapped([*stacked_notes(bars), f"by {counted(time.num_dumps, 'dumps of statistics')}"])
    ax = new_axes(
        ax, (7.2, height(1, lines, legend_lines(labels_of(bars), [bar.name for bar in bars])))
    )
    draw_bars(ax, bars, _seconds)
    label(ax, x="seconds", notes=lines)
    said = f"unknown ({waited.why_unknown})"
    if time.stalled_s is not None and time.covered_s is not None:
        share = f"{time.stalled_percent or 0:.1f} %"
        said = f"{_seconds(time.stalled_s)} of {_seconds(time.covered_s)}: {share}"
    head(ax, f"Writers waited {said}")
    return ax


def _amplified(writes: WriteAmplification) -> str:
    if writes.write_amplification is None:
        return f"Write amplification: unknown ({writes.unknown['write_amplification']})"
    whole = (writes.flushed_bytes or 0) + (writes.compacted_bytes or 0)
    return (
        f"A flushed byte was written {writes.write_amplification:.1f} times in all: "
        f"{format_bytes(whole)} for {format_bytes(writes.flushed_bytes)}"
    )


def _seconds(value: float) -> str:
    return f"{value:,.1f} s"


def _check_log_by(by: str) -> None:
    if by not in {"time", "level"}:
        message = f"A log can't be drawn by {by!r}."
        raise ConfigurationError(message, hint="Give by='time' or by='level'.")
