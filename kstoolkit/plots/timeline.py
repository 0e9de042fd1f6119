"""What RocksDB did over time: flushes and compactions as spans, moves and stalls as marks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.plots.axes import days, in_time, label, new_axes, nothing
from kstoolkit.plots.notes import head, height, wrapped
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK, UNKNOWN_HATCH
from kstoolkit.plots.spans import draw_spans
from kstoolkit.plots.stacked import name_rows
from kstoolkit.records import counted
from kstoolkit.rocksdb.log.jobs import Compaction, Flush, Stall
from kstoolkit.rocksdb.log.stats import StatsDump, write_amplification
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    Job = Flush | Compaction
    Event = Flush | Compaction | Stall | StatsDump
    Style = dict[str, Any]


MOST_MARKS = 2_000
"""Spans, or marks of one kind, that are drawn."""

_CAUSES = ("memtable limit", "L0 file count limit", "pending compaction bytes")
_OTHER = "another cause"
_WAITED = "writers waited"
_FLUSH = "flush to L0"
_MARKS = {"stopped": ("X", FLAGGED, 6), "delayed": ("v", "#e69f00", 6), "moved": ("|", INK, 9)}
_BEGINS = "stalls are marked where they begin: RocksDB doesn't log their ends"
_SPREAD = "hatched: time between dumps of statistics in which writers waited, with its share"


def draw_timeline(events: Iterable[Event], ax: Axes | None, unknown: str | None = None) -> Axes:
    """Return Axes with what was done over time, a row for each level that files went to.

    More than 2,000 jobs are thinned to those that took longest, and as many stalls or moves to some
    at even distances; the figure says so.

    Parameters
    ----------
    events
        Flushes, compactions, moves and stalls; and dumps of statistics, for who waited how long.
    ax
        Where to draw.
    unknown
        Why there may be more than these.
    """
    told = list(events)
    done = _done(told)
    rows = _rows(done)
    notes = _notes(done, unknown)
    lines = wrapped(notes)
    ax = new_axes(ax, (7.2, height(len(rows), lines)))
    if not rows:
        nothing(ax, "nothing is known" if unknown else "nothing that has a time")
        head(
            ax, f"Flushes, compactions and stalls: unknown ({unknown})" if unknown else _seen(told)
        )
        return ax
    ax.use_sticky_edges = False
    _draw_spans(ax, _longest(done.spans), rows)
    _draw_waits(ax, done.waits, rows)
    moved = [(each.at, _row_of(each)) for each in done.moves]
    _draw_marks(ax, "moved", "moved as they were", moved, rows)
    for condition in ("delayed", "stopped"):
        begun = [(each.at, _row_of(each)) for each in done.stalls if each.condition == condition]
        _draw_marks(ax, condition, f"writes {condition}", begun, rows)
    name_rows(ax, list(rows))
    in_time(ax.xaxis)
    label(ax, x="time, UTC", notes=lines)
    head(ax, _seen(told))
    return ax


@dataclass(frozen=True, slots=True)
class _Done:
    """What has a time: jobs that took some, moves, stalls, and dumps that tell of waiting."""

    spans: list[Job]
    moves: list[Job]
    stalls: list[Stall]
    waits: list[StatsDump]
    num_undated: int


def _done(told: Sequence[Event]) -> _Done:
    jobs = [each for each in told if isinstance(each, Flush | Compaction) and _span(each)]
    stalls = [each for each in told if isinstance(each, Stall) and each.at]
    dumps = [each for each in told if isinstance(each, StatsDump)]
    return _Done(
        spans=[each for each in jobs if not _moved(each)],
        moves=[each for each in jobs if _moved(each)],
        stalls=stalls,
        waits=[each for each in dumps if _waited(each)],
        num_undated=len(told) - len(dumps) - len(jobs) - len(stalls),
    )


def _span(job: Job) -> tuple[datetime, datetime] | None:
    """Return from when to when a job ran; None if the log doesn't tell."""
    took = None if job.duration_ms is None else timedelta(milliseconds=job.duration_ms)
    start, end = job.at, job.finished_at
    if start is None and end is not None and took is not None:
        start = end - took
    if end is None and start is not None:
        end = start + (took or timedelta(0))
    return None if start is None or end is None else (start, max(start, end))


def _moved(job: Job) -> bool:
    return isinstance(job, Compaction) and job.moved


def _waited(dump: StatsDump) -> bool:
    return bool(dump.at and dump.interval_stalled_s and dump.interval_stalled_percent)


def _row_of(event: Job | Stall) -> str:
    if isinstance(event, Flush):
        return _FLUSH
    if isinstance(event, Compaction):
        return "compaction to L?" if event.to_level is None else f"compaction to L{event.to_level}"
    return event.cause if event.cause in _CAUSES else _OTHER


def _rows(done: _Done) -> dict[str, int]:
    """Return the rows from top to bottom: levels, then what writers waited for."""
    of_jobs = {_row_of(each) for each in (*done.spans, *done.moves)}
    of_stalls = {_row_of(each) for each in done.stalls}
    names = [name for name in (_FLUSH,) if name in of_jobs]
    names += sorted(of_jobs - {_FLUSH})
    names += [name for name in (*_CAUSES, _OTHER) if name in of_stalls]
    names += [_WAITED] if done.waits else []
    return {name: row for row, name in enumerate(names)}


def _longest(jobs: Sequence[Job]) -> list[Job]:
    if len(jobs) <= MOST_MARKS:
        return list(jobs)
    return sorted(jobs, key=lambda each: -(each.duration_ms or 0))[:MOST_MARKS]


def _draw_spans(ax: Axes, jobs: Sequence[Job], rows: dict[str, int]) -> None:
    """Draw each job as a bar; an edge keeps the shortest ones to be seen."""
    for kind, color, hatch in ((Flush, EXPECTED, ""), (Compaction, COUNTED, "")):
        for failed in (False, True):
            some = [each for each in jobs if isinstance(each, kind) and _failed(each) is failed]
            if not some:
                continue
            starts, ends = _in_days([span for each in some if (span := _span(each))])
            name = kind.__name__.lower() + (", not finished" if failed else "")
            look: Style = {"facecolor": "none" if failed else color, "edgecolor": color}
            look |= {"hatch": UNKNOWN_HATCH if failed else hatch, "linewidth": 0.8, "label": name}
            draw_spans(ax, starts, ends, [rows[_row_of(each)] for each in some], height=0.6, **look)


def _failed(job: Job) -> bool:
    return job.finished_at is None


def _draw_waits(ax: Axes, dumps: Sequence[StatsDump], rows: dict[str, int]) -> None:
    """Draw the time up to each dump in which writers waited, hatched, as high as its share."""
    if not dumps:
        return
    spans, shares = [], []
    for each in dumps:
        share = (each.interval_stalled_percent or 0) / 100
        if each.at is not None and share:
            spans.append(
                (each.at - timedelta(seconds=(each.interval_stalled_s or 0) / share), each.at)
            )
            shares.append(share)
    starts, ends = _in_days(spans)
    bottom = rows[_WAITED] + 0.3
    look: Style = {
        "facecolor": f"{FLAGGED}44",
        "edgecolor": FLAGGED,
        "hatch": "xxx",
        "linewidth": 0.6,
    }
    heights = -0.6 * np.clip(shares, 0.05, 1)
    ax.bar(starts, heights, ends - starts, bottom=bottom, align="edge", label=_WAITED, **look)


def _draw_marks(
    ax: Axes,
    kind: str,
    name: str,
    places: Sequence[tuple[datetime | None, str]],
    rows: dict[str, int],
) -> None:
    dated = [(at, rows[row]) for at, row in places if at is not None]
    if not dated:
        return
    kept = np.unique(np.linspace(0, len(dated) - 1, min(len(dated), MOST_MARKS)).astype(int))
    some = [dated[each] for each in kept]
    marker, color, size = _MARKS[kind]
    times = _in_days([(at, at) for at, _ in some])[0]
    style: Style = {"linestyle": "none", "color": color, "markersize": size, "zorder": 4}
    ax.plot(times, [row for _, row in some], marker=marker, label=name, **style)


def _in_days(spans: Sequence[tuple[datetime, datetime]]) -> tuple[Any, Any]:
    # Milliseconds would lose what many jobs take; matplotlib's days hold microseconds.
    micros = np.array([[each.timestamp() * 1e6 for each in span] for span in spans])
    whole = days((micros // 1000).astype(np.int64)) + (micros % 1000) / 86_400e6
    return whole[:, 0], whole[:, 1]


def _notes(done: _Done, unknown: str | None) -> list[str]:
    notes = [_BEGINS] if done.stalls else []
    notes += [_SPREAD] if done.waits else []
    if len(done.spans) > MOST_MARKS:
        notes.append(
            f"the {MOST_MARKS:,} longest of {format_count(len(done.spans))} jobs are drawn"
        )
    for name, marks in (("moves", done.moves), ("stalls", done.stalls)):
        if len(marks) > MOST_MARKS:
            notes.append(f"{name}: {MOST_MARKS:,} of {format_count(len(marks))} are marked")
    if done.num_undated:
        notes.append(f"{counted(done.num_undated, 'events')} without a time: not drawn")
    return notes + ([f"others: unknown ({unknown})"] if unknown else [])


def _seen(told: Sequence[Event]) -> str:
    jobs = [each for each in told if isinstance(each, Flush | Compaction)]
    stalls = sum(isinstance(each, Stall) for each in told)
    moves = sum(_moved(each) for each in jobs)
    flushes = sum(isinstance(each, Flush) for each in jobs)
    parts = {"flushes": flushes, "compactions": len(jobs) - flushes - moves}
    parts |= {"moves": moves, "stalls": stalls}
    said = ", ".join(counted(number, kind) for kind, number in parts.items() if number)
    ratio = write_amplification(jobs).write_amplification
    amplified = "" if ratio is None else f"; each flushed byte written {ratio:.1f} times"
    return f"{said or 'No flushes, compactions or stalls'}{amplified}"
