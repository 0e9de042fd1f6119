"""A run: its batches one after the other, or as it goes; its sums, dead letters, and its lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter

from kstoolkit.events.event import REASONS
from kstoolkit.pipeline.batches import NOT_KEPT
from kstoolkit.plots.axes import empty, few_of, in_counts, in_seconds, new_axes, shown
from kstoolkit.plots.marks import MOST_ROWS, Bar, BarPart, Steps, Strip, draw_bars, draw_strips
from kstoolkit.plots.palette import COUNTED, FLAGGED, INK, PARTS
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from kstoolkit.events.event import DeadLetters
    from kstoolkit.operations.lag import LagOfPartition, TopicLag
    from kstoolkit.pipeline.batches import Batches, MicroBatch, RunSummary
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.status import RunStatus

    Floats = NDArray[np.float64]
    _Printed = Callable[[float], str]

_SEVERAL = 4
_MOST_BARS = 400


def plot_batches(batches: Batches, *, ax: Axes | None = None) -> Axes:
    """Return how long each batch took, its events/s, what it wrote to state and what that held.

    The state's rows and memory after each batch are Spark's. At the right is what the last batch
    came to. Over 400 batches are drawn in groups, each as high as its highest; the figure says so.
    """
    if not len(batches):
        return empty(new_axes(ax), "no batches", "No batches")
    group = -(-len(batches) // _MOST_BARS)
    notes = _batch_notes(batches, group)
    seconds = np.array([each.seconds for each in batches])
    if _clipped(seconds)[0] < seconds[0]:
        notes.append(f"the first batch, which starts all, took {in_seconds(seconds[0])}: it is cut")
    strips, span, x = _batch_strips(batches, group), [0, len(batches)], "batches, in their order"
    return draw_strips(ax, strips, span, _seen(batches), x=x, notes=notes, ticked=in_counts)


def _clipped(seconds: Floats) -> Floats:
    """Return batches' times, with a first one that would dwarf all others not much above them."""
    if len(seconds) < _SEVERAL:
        return seconds
    return np.append(min(seconds[0], 1.2 * seconds[1:].max() or np.inf), seconds[1:])


def _batch_strips(batches: Batches, group: int) -> list[Strip]:
    seconds = np.array([each.seconds for each in batches])
    events = np.array([float(each.events) for each in batches])
    rate = np.divide(events, seconds, out=np.full(len(batches), np.nan), where=seconds > 0)
    rows = [None if each is None else each.rows for each in batches.state]
    memory = [None if each is None else each.memory_bytes for each in batches.state]
    starts = np.arange(0, len(batches), group)
    edges = np.append(starts, len(batches)).astype(float)
    written, state = PARTS[3], PARTS[4]

    def strip(name: str, values: Floats, color: str, printed: _Printed, **options: Any) -> Strip:
        # The highest value of each group; not-a-number where none of them is known.
        heights, last = np.fmax.reduceat(values, starts), values[-1]
        return _strip(name, heights, edges, color=color, printed=printed, last=last, **options)

    return [
        strip("seconds", _clipped(seconds), COUNTED, in_seconds, may_lack=False),
        strip("events/s", rate, PARTS[2], format_count, may_lack=False),
        strip("written\nto state", _floats(batches.state_bytes), written, format_bytes),
        strip("state rows", _floats(rows), state, format_count),
        strip("state\nmemory", _floats(memory), state, format_bytes),
    ]


def _strip(
    name: str,
    heights: Floats,
    edges: Floats,
    *,
    last: float,
    printed: _Printed,
    color: str = INK,
    may_lack: bool = True,
) -> Strip:
    """Return a strip; where nothing is known, neighbours are one hatched span."""
    turns = np.flatnonzero(np.diff(np.isnan(heights), prepend=False, append=False))
    spans = [(float(first), float(last)) for first, last in edges[turns].reshape(-1, 2)]
    return Strip(
        name=name,
        steps=(Steps(edges=edges, heights=heights, color=color),),
        printed=printed,
        unknown=spans if may_lack else (),
        said="unknown" if np.isnan(last) else printed(float(last)),
    )


def _floats(figures: Sequence[float | None]) -> Floats:
    return np.array([np.nan if each is None else float(each) for each in figures])


def _batch_notes(batches: Batches, group: int) -> list[str]:
    notes = []
    if group > 1:
        number = -(-len(batches) // group)
        drawn = f"{format_count(len(batches))} batches drawn as {number} bars"
        notes.append(f"{drawn}: each is the highest of {group} batches")
    gone, untold = (_unknown_of(each) for each in (batches.state_bytes, batches.state))
    if gone:
        notes.append(f"written to state: {gone} (Spark has removed the files since)")
    if untold:
        notes.append(f"state rows and memory: {untold} ({NOT_KEPT})")
    return notes


def _unknown_of(figures: Sequence[object | None]) -> str:
    number = sum(each is None for each in figures)
    batches = "one batch" if number == 1 else f"{format_count(number)} batches"
    return f"unknown of {batches}" if number else ""


def _seen(batches: Batches) -> str:
    events, seconds = (sum(getattr(b, name) for b in batches) for name in ("events", "seconds"))
    number = counted(len(batches), "batches")
    seen = f"{number}, {format_count(events)} events in {in_seconds(seconds)}"
    spent = sum(each.seconds for each in batches[1:] if each.events)
    if not spent:
        return seen
    rate = sum(each.events for each in batches[1:]) / spent
    return f"{seen}; after the first: {format_count(rate)} events/s"


def plot_run(run: Run, *, ax: Axes | None = None) -> Axes:
    """Return a run batch by batch; a user's counts are drawn by ``run.history(user).plot()``."""
    return plot_batches(run.batches(), ax=ax)


def plot_summary(summary: RunSummary, *, ax: Axes | None = None) -> Axes:
    """Return a run's sums on a logarithmic scale: events, late ones, dead letters by reason."""
    bars = [
        _summary_bar("events", summary.events, 0),
        _summary_bar("records into the shuffle", summary.counters_in, 0),
        _summary_bar("changelog records", summary.changelog_records, 0),
    ]
    bars += [_summary_bar(f"late for {each}", late, 1) for each, late in summary.late.items()]
    bars += _by_reason(summary.dead_letters, "dead letters")
    bars.append(_summary_bar("findings reported", summary.findings, 3))
    late, dead = sum(summary.late.values()), sum(summary.dead_letters.values())
    events = format_count(summary.events)
    seen = f"{events} events: {format_count(late)} late, {format_count(dead)} dead letters"
    seen += f", {format_count(summary.findings)} findings"
    axes = draw_bars(ax, bars, seen, x="records (logarithmic)", printed=format_count, longest=64)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(0, max(bar.sum for bar in bars) ** 1.3 + 8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value)))
    return axes


def plot_dead_letters(letters: DeadLetters, *, ax: Axes | None = None) -> Axes:
    """Return how many records could not be counted, by reason, the most frequent first."""
    bars = _by_reason(letters.by_reason)
    if not bars:
        return empty(new_axes(ax), "no dead letters", "No dead letters")
    seen = f"{counted(len(letters), 'dead letters')} for {counted(len(bars), 'reasons')}"
    return draw_bars(ax, bars, seen, x="records", printed=format_count, longest=64)


def _by_reason(letters: Mapping[str, int], kind: str = "") -> list[Bar]:
    ranked = sorted(letters.items(), key=lambda each: (-each[1], each[0]))
    return [_summary_bar(REASONS.get(name, name), number, 5, kind) for name, number in ranked]


def _summary_bar(name: str, number: int, place: int, kind: str = "") -> Bar:
    return Bar(name, (BarPart(kind, number, color=PARTS[place]),))


def plot_status(status: RunStatus, *, ax: Axes | None = None) -> Axes:
    """Return the newest batches: their time in parts, events/s, rows and memory of state."""
    state = f"{status.state[:1].upper()}{status.state[1:]}"
    newest = status.newest
    if newest is None:
        return empty(new_axes(ax), "no batches yet", f"{state}: no batch has ended yet")
    first = status.num_batches - len(status.batches)
    edges = np.arange(first, status.num_batches + 1, dtype=float)
    strips = _status_strips(status.batches, edges)
    notes = few_of("the newest {} of {} are drawn", len(status.batches), status.num_batches)
    took = f"{in_seconds(newest.seconds)} for {format_count(newest.events)} events"
    seen = f"{state}: the last batch took {took}"
    span, x = edges[[0, -1]], "batches, in their order"
    return draw_strips(ax, strips, span, seen, x=x, notes=notes, ticked=in_counts)


def _status_strips(batches: Sequence[MicroBatch], edges: Floats) -> list[Strip]:
    def strip(name: str, values: Sequence[float | None], printed: _Printed) -> Strip:
        heights = _floats(values)
        return _strip(name, heights, edges, last=heights[-1], printed=printed)

    steps, newest = _parts(batches, edges), batches[-1]
    last = in_seconds(sum(newest.parts_seconds.values()) or newest.seconds)
    return [
        Strip(name="time in all", steps=steps, printed=in_seconds, said=last),
        # Grey: the colours are those of the parts of time.
        strip("events/s", [each.events_per_second for each in batches], format_count),
        strip("state rows", [each.state_rows for each in batches], format_count),
        strip("state\nmemory", [each.memory_bytes for each in batches], format_bytes),
    ]


def _parts(batches: Sequence[MicroBatch], edges: Floats) -> tuple[Steps, ...]:
    """Return the parts of each batch's time upon each other: drawn first is the whole."""
    whole = np.array([each.seconds for each in batches])
    names = list(dict.fromkeys(name for each in batches for name in each.parts_seconds))
    if not names:
        return (Steps(edges=edges, heights=whole, color=COUNTED, name="in all"),)
    parts = np.array([[each.parts_seconds.get(name, 0.0) for name in names] for each in batches])
    tops = np.cumsum(parts, axis=1)
    steps = [
        Steps(edges=edges, heights=tops[:, n], color=color, name=name)
        for n, (name, color) in enumerate(zip(names, PARTS, strict=False))
    ]
    untold = np.where(tops[:, -1] > 0, np.nan, whole)
    if not np.isnan(untold).all():
        name = "parts unknown"
        steps.append(Steps(edges=edges, heights=untold, color=PARTS[-1], name=name))
    return tuple(reversed(steps))


def plot_topic_lag(lag: TopicLag, *, ax: Axes | None = None) -> Axes:
    """Return how many records of each partition wait, and how long they take.

    Partitions that fall behind, or that nobody reads, are in another colour; records that were
    removed before they were read are pale.
    """
    known = [each for each in lag if each.lag_records is not None]
    known.sort(key=lambda each: -(each.lag_records or 0))
    largest = sorted(known[:MOST_ROWS], key=lambda each: (each.topic, each.partition))
    behind = "lag unknown"
    if lag.lag_records is not None:
        behind = f"{counted(lag.lag_records, 'records')} behind"
    seen = f"{shown(lag.reader, 60)}, {lag.state}: {behind}"
    if not largest:
        return empty(new_axes(ax), f"lag unknown: {shown(lag.why or 'not told', 100)}", seen)
    notes = few_of("the largest {} of {} partitions", MOST_ROWS, len(known))
    if len(known) < len(lag):
        notes.append(f"unknown of {counted(len(lag) - len(known), 'partitions')}")
    bars = [_lag_bar(each) for each in largest]
    return draw_bars(ax, bars, seen, notes, "records that wait", printed=format_count)


def _lag_bar(each: LagOfPartition) -> Bar:
    falls_behind = each.unknown.get("catch_up_seconds", "").startswith("never")
    color, name = (FLAGGED, "never caught up with") if falls_behind else (COUNTED, "waiting")
    waiting = BarPart(name, each.lag_records or 0, color=color)
    gone = BarPart("gone unread", each.gone_records, color=f"{INK}55")
    said, _time, _read, _come, until = each.cells()[4:]
    if each.lag_records and each.catch_up_seconds is not None:
        said = f"{said}, caught up in {until}"
    return Bar(f"{each.topic} {each.partition}", (waiting, gone), said=said)
