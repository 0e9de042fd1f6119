"""A store's log: what was done over time, what was written to each level, who waited.

Flushes and compactions are spans, moves, stalls and errors marks; what RocksDB's dumps of its
statistics tell, of levels or of the store, are lines over time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import (
    captioned,
    days,
    empty,
    few_of,
    height,
    in_seconds,
    in_time,
    new_axes,
    plot_nothing,
    print_axis,
    shown,
    wrapped,
)
from kstoolkit.plots.marks import (
    Bar,
    BarPart,
    draw_bars,
    draw_lines,
    draw_spans,
    name_rows,
    part_of,
)
from kstoolkit.plots.names import capital, printed, unit_of, with_unit, words_of
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK, UNKNOWN_HATCH
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.log.jobs import Compaction, Flush, LoggedError, LogRows, Stall
from kstoolkit.rocksdb.log.stats import StatsDump, write_amplification
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from kstoolkit.rocksdb.log.stats import LevelStats, StallTime, WriteAmplification
    from kstoolkit.rocksdb.log.storelog import StoreLog

    Job = Flush | Compaction
    _Span = tuple[datetime, datetime]
    Event = Flush | Compaction | Stall | LoggedError | StatsDump
    Style = dict[str, Any]

_OF_LEVELS = ("size_bytes", "num_files", "compaction_s", "num_compactions", "write_amplification")
_OF_STORE = (
    "stalled_s",
    "stalled_percent",
    "interval_stalled_s",
    "interval_stalled_percent",
    "pending_compaction_bytes",
)
_SUMS = {"Sum", "Int"}


def plot_dumps(
    dumps: Records[StatsDump], *, figure: str = "size_bytes", ax: Axes | None = None
) -> Axes:
    """Return a plot of a figure over time, as the dumps of statistics in a log tell it.

    ``figure`` is of each level: ``"size_bytes"``, ``"num_files"``, ``"compaction_s"``,
    ``"num_compactions"``, ``"write_amplification"``; of the store: ``"stalled_s"``,
    ``"stalled_percent"``, the same with ``interval_`` before it, ``"pending_compaction_bytes"``; or
    one of RocksDB's counters, if the writer kept them: ``"rocksdb.stall.micros"``. In a log of
    several stores, those of the one with the most dumps are drawn.
    """
    _check_figure(figure, dumps)
    kept, notes = _of_one_store([each for each in dumps if each.at is not None])
    if len(kept) < len(dumps) and not notes:
        notes = [f"{counted(len(dumps) - len(kept), 'dumps')} without a time: not drawn"]
    series: dict[str, list[tuple[float, float]]] = {}
    for each in kept:
        at = float(days([round(each.at.timestamp() * 1e3) if each.at else 0])[0])
        for name, value in _values(each, figure).items():
            series.setdefault(name, []).append((at, value))
    ax = new_axes(ax)
    if not series:
        words = words_of(figure)
        return empty(ax, f"{words}: unknown", f"{capital(words)}: unknown (no dump holds it)")
    notes += draw_lines(ax, dict(sorted(series.items())))
    ax.set_ylim(bottom=0)
    in_time(ax.xaxis)
    print_axis(ax.yaxis, figure)
    seen = f"{_last(series, figure)}; {counted(len(kept), 'dumps of statistics')}"
    y, lines = shown(with_unit(figure)), wrapped(notes)
    return captioned(ax, seen, x="time of the dump, UTC", y=y, notes=lines)


def plot_dump(dump: StatsDump, *, ax: Axes | None = None) -> Axes:
    """Return a plot of the levels that one dump tells of."""
    return plot_level_stats(dump.levels, ax=ax)


def plot_level_stats(levels: Records[LevelStats], *, ax: Axes | None = None) -> Axes:
    """Return a plot of the levels in a dump of statistics: bytes now, and write amplification.

    >>> plot_level_stats(Records([], "levels")).get_title(loc="left")
    'No levels in this dump'
    """
    held = [each for each in levels if each.level not in _SUMS]
    if not held:
        return empty(new_axes(ax), "no levels", "No levels in this dump")
    several = len({each.column_family for each in held}) > 1
    bars = [
        Bar(
            f"{shown(each.column_family, 20)} {each.level}" if several else each.level,
            (BarPart("size", each.size_bytes, each.unknown.get("size_bytes", "")),),
            _beside(each),
        )
        for each in held
    ]
    total = sum(each.size_bytes or 0 for each in held)
    sums = [each for each in levels if each.level == "Sum"]
    ratios = {each.column_family: each.write_amplification for each in sums}
    known = {family: ratio for family, ratio in ratios.items() if ratio is not None}
    highest = max(known, key=lambda family: known[family], default=None)
    whose = f" of {shown(highest)}" if highest is not None and several else ""
    ratio = "" if highest is None else f"{known[highest]:.1f}"
    amplified = f"; write amplification{whose} since the opening {ratio}" if ratio else ""
    return draw_bars(ax, bars, f"Levels hold {format_bytes(total)}{amplified}", [], "SST files")


def _beside(level: LevelStats) -> str:
    files = "" if level.num_files is None else f", {counted(level.num_files, 'files')}"
    ratio = level.write_amplification
    return files + ("" if ratio is None else f", write amplification {ratio:.1f}")


def _check_figure(figure: str, dumps: Sequence[StatsDump]) -> None:
    tickers = {name for each in dumps for name in each.tickers}
    if figure not in {*_OF_LEVELS, *_OF_STORE, *tickers}:
        message = f"No dump holds {figure!r}."
        kept = f"; or one of {len(tickers)} counters, such as {min(tickers)}" if tickers else ""
        hint = f"There are {', '.join((*_OF_LEVELS, *_OF_STORE))}{kept}."
        raise ConfigurationError(message, hint=hint)


def _of_one_store(dumps: list[StatsDump]) -> tuple[list[StatsDump], list[str]]:
    stores = Counter(each.store for each in dumps)
    if len(stores) <= 1:
        return dumps, []
    store, _ = stores.most_common(1)[0]
    notes = [f"one of {len(stores)} stores: {shown(store or 'unnamed', 60)}"]
    return [each for each in dumps if each.store == store], notes


def _values(dump: StatsDump, figure: str) -> dict[str, float]:
    """Return the figure by the name of its line: of each level, or of the store."""
    if figure in dump.tickers:
        return {figure: dump.tickers[figure]}
    if figure == "pending_compaction_bytes":
        return {shown(family): size for family, size in dump.pending_compaction_bytes.items()}
    if figure in _OF_STORE:
        value = getattr(dump, figure)
        return {} if value is None else {words_of(figure): value}
    rows = [each for each in dump.levels if each.level not in _SUMS]
    apart = figure == "write_amplification" and len({each.column_family for each in rows}) > 1
    names = (f"{each.column_family} {each.level}" if apart else each.level for each in rows)
    sums: dict[str, float] = {}
    for name, each in zip(names, rows, strict=True):
        if (known := getattr(each, figure)) is not None:
            sums[name] = sums.get(name, 0) + known
    return sums


def _last(series: dict[str, list[tuple[float, float]]], figure: str) -> str:
    """Say what the figure was at last: of all lines together, or of the highest one."""
    ends = {name: points[-1][1] for name, points in series.items()}
    if unit_of(figure) == "times" or len(ends) == 1:
        name = max(ends, key=lambda each: ends[each])
        whose = f" of {name}" if len(ends) > 1 else ""
        return f"{capital(words_of(figure))}{whose} was {printed(figure, ends[name])} at last"
    total = printed(figure, sum(ends.values()))
    return f"{capital(words_of(figure))} came to {total} at last, on {counted(len(ends), 'levels')}"


_MOST_MARKS = 2_000  # spans, or marks of one kind, that are drawn
_CAUSES = ("memtable limit", "L0 file count limit", "pending compaction bytes")
_OTHER = "another cause"
_WAITED = "writers waited"
_FLUSH = "flush to L0"
_ERROR = "errors"
_MARKS = {"stopped": ("X", FLAGGED, 6), "delayed": ("v", "#e69f00", 6), "moved": ("|", INK, 9)}
_MARKS |= {"error": ("D", FLAGGED, 6)}
_BEGINS = "stalls are marked where they begin: RocksDB doesn't log their ends"
_SPREAD = "pale: time between dumps of statistics in which writers waited, with its share"


def _draw_timeline(events: Iterable[Event], ax: Axes | None, unknown: str | None = None) -> Axes:
    """Return Axes with what was done over time, a row for each level that files went to."""
    told = list(events)
    done = _done(told)
    rows = _rows(done)
    lines = wrapped(_notes(done, unknown))
    ax = new_axes(ax, (7.2, height(len(rows), lines)))
    if not rows:
        untold = unknown and not told
        seen = f"Flushes, compactions and stalls: unknown ({unknown})" if untold else _seen(told)
        return empty(ax, "nothing is known" if untold else "nothing that has a time", seen)
    ax.use_sticky_edges = False
    spans = done.spans
    if len(spans) > _MOST_MARKS:
        spans = sorted(spans, key=lambda each: -(each.duration_ms or 0))[:_MOST_MARKS]
    _draw_spans(ax, spans, rows)
    _draw_waits(ax, done.waits, rows)
    _draw_marks(ax, "moved", "moved as they were", done.moves, rows)
    for condition in ("delayed", "stopped"):
        begun = [each for each in done.stalls if each.condition == condition]
        _draw_marks(ax, condition, f"writes {condition}", begun, rows)
    _draw_marks(ax, "error", _ERROR, done.errors, rows)
    name_rows(ax, list(rows))
    in_time(ax.xaxis)
    return captioned(ax, _seen(told), x="time, UTC", notes=lines)


@dataclass(frozen=True, slots=True)
class _Done:
    """What has a time: jobs that took some, moves, stalls, errors, dumps that tell of waiting."""

    spans: list[Job]
    moves: list[Job]
    stalls: list[Stall]
    errors: list[LoggedError]
    waits: list[tuple[_Span, float]]
    num_undated: int


def _done(told: Sequence[Event]) -> _Done:
    jobs = [each for each in told if isinstance(each, Flush | Compaction) and _span(each)]
    stalls = [each for each in told if isinstance(each, Stall) and each.at]
    errors = [each for each in told if isinstance(each, LoggedError) and each.at]
    dumps = [each for each in told if isinstance(each, StatsDump)]
    return _Done(
        spans=[each for each in jobs if not _moved(each)],
        moves=[each for each in jobs if _moved(each)],
        stalls=stalls,
        errors=errors,
        waits=[wait for each in dumps if (wait := _wait(each)) is not None],
        num_undated=len(told) - len(dumps) - len(jobs) - len(stalls) - len(errors),
    )


def _span(job: Job) -> _Span | None:
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


def _wait(dump: StatsDump) -> tuple[_Span, float] | None:
    """Return the time up to a dump, and the share of it in which writers waited; None if none."""
    if not (dump.at and dump.interval_stalled_s and dump.interval_stalled_percent):
        return None
    share = dump.interval_stalled_percent / 100
    return (dump.at - timedelta(seconds=dump.interval_stalled_s / share), dump.at), share


def _row_of(event: Job | Stall | LoggedError) -> str:
    if isinstance(event, LoggedError):
        return _ERROR
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
    names += [_ERROR] if done.errors else []
    names += [_WAITED] if done.waits else []
    return {name: row for row, name in enumerate(names)}


def _draw_spans(ax: Axes, jobs: Sequence[Job], rows: dict[str, int]) -> None:
    """Draw each job as a bar; an edge keeps the shortest ones to be seen."""
    for kind, color in ((Flush, EXPECTED), (Compaction, COUNTED)):
        mine = [each for each in jobs if isinstance(each, kind)]
        for failed in (False, True):
            some = [each for each in mine if (each.finished_at is None) is failed]
            if not some:
                continue
            starts, ends = _in_days([span for each in some if (span := _span(each))])
            name = kind.__name__.lower() + (", not finished" if failed else "")
            look: Style = {"facecolor": "none" if failed else color, "edgecolor": color}
            look |= {"hatch": UNKNOWN_HATCH if failed else "", "linewidth": 0.8, "label": name}
            draw_spans(ax, starts, ends, [rows[_row_of(each)] for each in some], height=0.6, **look)


def _draw_waits(ax: Axes, waits: Sequence[tuple[_Span, float]], rows: dict[str, int]) -> None:
    if not waits:
        return
    spans, shares = zip(*waits, strict=True)
    starts, ends = _in_days(spans)
    bottom = rows[_WAITED] + 0.3
    look: Style = {"facecolor": f"{FLAGGED}44", "edgecolor": FLAGGED}
    look |= {"linewidth": 0.6, "label": _WAITED, "align": "edge"}
    heights = -0.6 * np.clip(shares, 0.05, 1)
    ax.bar(starts, heights, ends - starts, bottom=bottom, **look)


def _draw_marks(
    ax: Axes,
    kind: str,
    name: str,
    events: Sequence[Job | Stall | LoggedError],
    rows: dict[str, int],
) -> None:
    dated = [(each.at, rows[_row_of(each)]) for each in events if each.at is not None]
    if not dated:
        return
    kept = np.unique(np.linspace(0, len(dated) - 1, min(len(dated), _MOST_MARKS)).astype(int))
    some = [dated[each] for each in kept]
    marker, color, size = _MARKS[kind]
    times = _in_days([(at, at) for at, _ in some])[0]
    style: Style = {"linestyle": "none", "color": color, "markersize": size, "zorder": 4}
    ax.plot(times, [row for _, row in some], marker=marker, label=name, **style)


def _in_days(spans: Sequence[_Span]) -> tuple[Any, Any]:
    # Milliseconds would lose what many jobs take; matplotlib's days hold microseconds.
    micros = np.array([[each.timestamp() * 1e6 for each in span] for span in spans])
    whole = days((micros // 1000).astype(np.int64)) + (micros % 1000) / 86_400e6
    return whole[:, 0], whole[:, 1]


def _notes(done: _Done, unknown: str | None) -> list[str]:
    notes = [_BEGINS] if done.stalls else []
    notes += [_SPREAD] if done.waits else []
    notes += few_of("the {} longest of {} jobs are drawn", _MOST_MARKS, len(done.spans))
    notes += few_of("moves: {} of {} are marked", _MOST_MARKS, len(done.moves))
    notes += few_of("stalls: {} of {} are marked", _MOST_MARKS, len(done.stalls))
    notes += few_of("errors: {} of {} are marked", _MOST_MARKS, len(done.errors))
    if done.num_undated:
        notes.append(f"{counted(done.num_undated, 'events')} without a time: not drawn")
    return notes + ([f"others: unknown ({unknown})"] if unknown else [])


def _seen(told: Sequence[Event]) -> str:
    jobs = [each for each in told if isinstance(each, Flush | Compaction)]
    stalls = sum(isinstance(each, Stall) for each in told)
    moves = sum(_moved(each) for each in jobs)
    flushes = sum(isinstance(each, Flush) for each in jobs)
    parts = {"flushes": flushes, "compactions": len(jobs) - flushes - moves}
    errors = sum(isinstance(each, LoggedError) for each in told)
    parts |= {"moves": moves, "stalls": stalls, "errors": errors}
    said = ", ".join(counted(number, kind) for kind, number in parts.items() if number)
    ratio = write_amplification(jobs).write_amplification
    amplified = "" if ratio is None else f"; each flushed byte written {ratio:.1f} times"
    return f"{said or 'No flushes, compactions or stalls'}{amplified}"


def plot_log(log: StoreLog, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what the log tells: jobs, stalls, errors over time; it is read for this."""
    events = log.events()
    return _draw_timeline([*events, *log.stats()], ax, events.unknown)


def plot_log_rows(rows: Records[Any], *, ax: Axes | None = None) -> Axes:
    """Return a plot of rows out of a log over time, as its methods give them."""
    if not len(rows):
        return plot_nothing(rows, ax=ax)
    return _draw_timeline(rows, ax, rows.unknown if isinstance(rows, LogRows) else None)


def plot_writes(writes: WriteAmplification, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what flushes and compactions wrote, and how often each byte.

    >>> plot_writes(write_amplification([])).get_title(loc="left")
    'Write amplification: unknown (no flush ended in the span)'
    """
    bars = [
        Bar("flushes", (part_of(writes, "flushed_bytes", "flushes"),)),
        Bar("compactions", (part_of(writes, "compacted_bytes", "compactions"),)),
    ]
    if writes.write_amplification is None:
        seen = f"Write amplification: unknown ({writes.unknown['write_amplification']})"
    else:
        whole = (writes.flushed_bytes or 0) + (writes.compacted_bytes or 0)
        seen = f"A flushed byte was written {writes.write_amplification:.1f} times in all: "
        seen += f"{format_bytes(whole)} for {format_bytes(writes.flushed_bytes)}"
    return draw_bars(ax, bars, seen, [], "SST files written")


def plot_stall_time(time: StallTime, *, ax: Axes | None = None) -> Axes:
    """Return a plot of how long writers waited, of the time that dumps of statistics cover."""
    waited = part_of(time, "stalled_s", "waited")
    parts, said = [waited], f"unknown ({waited.why_unknown})"
    if time.stalled_s is not None and time.covered_s is not None:
        parts = [BarPart("did not wait", max(time.covered_s - time.stalled_s, 0)), waited]
        share = f"{time.stalled_percent or 0:.1f} %"
        said = f"{in_seconds(time.stalled_s)} of {in_seconds(time.covered_s)}: {share}"
    seen, notes = f"Writers waited {said}", [f"by {counted(time.num_dumps, 'dumps of statistics')}"]
    return draw_bars(
        ax, [Bar("writers", tuple(parts))], seen, notes, x="seconds", printed=in_seconds
    )
