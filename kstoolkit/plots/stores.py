"""Stores: which take the room, why one does not shrink, its rows, what two differ in; replicas.

Of a replica: its segments along time, how far a standby is behind, and how a restore went.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.moments import moment_text
from kstoolkit.plots.axes import (
    captioned,
    days,
    empty,
    few_of,
    in_bytes,
    in_counts,
    in_seconds,
    in_time,
    new_axes,
    say,
    shown,
    wrapped,
)
from kstoolkit.plots.marks import (
    MOST_ROWS,
    Bar,
    BarPart,
    Steps,
    Strip,
    bars_of,
    draw_bars,
    draw_strips,
    marks_of,
    notes_of,
    rest_bar,
)
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK, PARTS
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from kstoolkit.records import Records
    from kstoolkit.replica.listening import RestoreHistory, RestoreStep
    from kstoolkit.replica.records import Lag, SegmentState
    from kstoolkit.replica.windowstore import WindowReader
    from kstoolkit.stores.comparing.storediff import StoreDiff
    from kstoolkit.stores.discovery.found import FoundStore
    from kstoolkit.stores.growth.records import Age, KeyUse, PrefixUse, SegmentUse, WindowUse
    from kstoolkit.stores.growth.verdict import Growth
    from kstoolkit.stores.rows.readable import Rows

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

_HOUR_MS = 3_600_000
_ENGINES = ("kafka-streams", "spark", "kstoolkit", "rocksdb")


def plot_found_stores(stores: Sequence[FoundStore], *, ax: Axes | None = None) -> Axes:
    """Return the size of each store's files, the largest first; beyond 30 the rest together.

    >>> from kstoolkit.stores.discovery.found import FoundStore
    >>> found = FoundStore("/a", "rocksdb", None, "counts", size_bytes=2048)
    >>> plot_found_stores([found]).get_title(loc="left")
    '1 store of 2.0 KiB; the largest, counts, has 100 % of that'
    """
    ranked = sorted(stores, key=lambda each: -each.size_bytes)
    chosen, rest = ranked[:MOST_ROWS], ranked[MOST_ROWS:]
    if not chosen:
        return empty(new_axes(ax), "no stores", "No stores")
    bars = [*map(_store_bar, chosen, _store_names(chosen))]
    if rest:
        others = f"{format_count(len(rest))} others together"
        bars.append(rest_bar(others, sum(each.size_bytes for each in rest), bars, format_bytes))
    notes = few_of("the largest {} of {} stores", MOST_ROWS, len(ranked))
    return draw_bars(ax, bars, _stores_seen(ranked), notes, "size of the store's files", longest=40)


def _store_bar(found: FoundStore, name: str) -> Bar:
    part = BarPart(found.engine, found.size_bytes, color=PARTS[_ENGINES.index(found.engine)])
    return Bar(name, (part,), ", open elsewhere" if found.is_locked else "")


def _store_names(stores: Sequence[FoundStore]) -> list[str]:
    """Return what each is called; those of one name with their application or checkpoint."""
    places = (each.task or each.partition for each in stores)
    where = ["" if place is None else f" [{place}]" for place in places]
    names = [f"{shown(each.store, 28)}{place}" for each, place in zip(stores, where, strict=True)]
    whose = [shown(each.application or "", 20) for each in stores]
    named = zip(whose, names, strict=True)
    return [f"{of} {name}" if names.count(name) > 1 else name for of, name in named]


def _stores_seen(ranked: list[FoundStore]) -> str:
    total = sum(each.size_bytes for each in ranked)
    share = f"{ranked[0].size_bytes / total:.0%}" if total else "nothing"
    share = share.replace("%", "\N{NO-BREAK SPACE}%")
    largest = f"the largest, {shown(ranked[0].store)}, has {share} of that"
    return f"{counted(len(ranked), 'stores')} of {format_bytes(total)}; {largest}"


def plot_found_store(found: FoundStore, *, ax: Axes | None = None) -> Axes:
    """Return the size of a store's files; its growth is drawn by segment."""
    return plot_found_stores([found], ax=ax)


_GROWTH_BY = ("segment", "window", "prefix", "key", "age")


def plot_growth(growth: Growth, *, by: str | None = None, ax: Axes | None = None) -> Axes:
    """Return who takes a store's room, in bytes; what is past its retention is told apart.

    ``by`` is ``"segment"``, ``"window"``, ``"prefix"``, ``"key"`` or ``"age"``, by default the
    first of them that the store has; or a field of the keys of Spark's state, as ``"user"``. What
    was measured names the largest alone, and the rest is drawn together.
    """
    uses = _uses(growth)
    if by is not None and by not in uses:
        message = f"Growth by {by!r} makes no plot."
        raise ConfigurationError(message, hint=f"Give one of {', '.join(uses)}.")
    chosen = by or next((name for name in _GROWTH_BY if uses[name]), "key")
    bars, notes = _bars(growth, chosen, uses[chosen])
    seen = _growth_seen(growth, chosen)
    if not bars:
        why = growth.unknown.get(_plural(chosen))
        return empty(new_axes(ax), f"no {_plural(chosen)}" + (f": {why}" if why else ""), seen)
    x = f"keys and values before compression, by {chosen}"
    x = "size of the segment's files, by its start, UTC" if chosen == "segment" else x
    return draw_bars(ax, bars, seen, notes, x)


def _uses(growth: Growth) -> dict[str, Sequence[Any]]:
    """Return all that there is a plot of; fields that are called as one of these are not."""
    fields: dict[str, Sequence[Any]] = dict(growth.fields)
    if len(growth.by) == 1:
        fields[growth.by[0]] = growth.keys
    return {name: getattr(growth, _plural(name)) for name in _GROWTH_BY} | {
        name: found for name, found in fields.items() if name not in _GROWTH_BY
    }


def _plural(name: str) -> str:
    return f"{name}es" if name == "prefix" else f"{name}s"


def _bars(growth: Growth, by: str, uses: Sequence[Any]) -> tuple[list[Bar], list[str]]:
    """Return a bar each, those of time in its order, and what is to be said below."""
    in_order = by in {"segment", "window"}
    largest = sorted(uses, key=lambda each: -_bytes(each, by))[:MOST_ROWS]
    shown_uses = sorted(largest, key=lambda each: each.start_ms) if in_order else largest
    bars = [_use_bar(growth, by, each) for each in shown_uses]
    if by == "segment" and (at := _where_the_kept_begin(growth, shown_uses)) is not None:
        bars[at] = _partly_expired(growth, shown_uses[at], bars[at])
    notes = []
    if len(largest) < len(uses):
        what = _plural(by) if by in _GROWTH_BY else f"values of {by}"
        notes.append(f"the largest {MOST_ROWS} of {format_count(len(uses))} {what}")
    whole = sum(_bytes(each, by) for each in uses) if by == "segment" else growth.data_bytes
    rest = whole - sum(_bytes(each, by) for each in largest)
    if bars and rest > 0 and by != "age":
        bars.append(rest_bar("all others together", rest, bars, format_bytes))
    if by == "age":
        notes.append(_aged(uses))
    notes += _mixed(growth, by)
    is_judged = growth.horizon.kept_from_ms is not None or _by_watermark(growth, by, uses)
    if not is_judged and by in {"segment", "window", "age"}:
        why = growth.horizon.unknown.get("kept_from_ms", "not told")
        notes.append(f"what is past its retention: unknown ({why})")
    return bars, notes


def _where_the_kept_begin(growth: Growth, uses: Sequence[SegmentUse]) -> int | None:
    """Return which segment, of those that are kept, alone can hold rows that are expired."""
    kept_from_ms = growth.horizon.kept_from_ms
    if kept_from_ms is None or len(uses) < len(growth.segments):
        return None
    mixed = [at for at, e in enumerate(uses) if not e.is_past and e.start_ms < kept_from_ms]
    return mixed[0] if len(mixed) == 1 and _num_mixed(growth) > 0 else None


def _partly_expired(growth: Growth, use: SegmentUse, bar: Bar) -> Bar:
    """Return a segment's bar in two parts, by its rows."""
    share = min(_num_mixed(growth) / max(use.num_rows, 1), 1)
    parts = (
        BarPart("expired but kept", share * use.size_bytes, color=PARTS[1]),
        BarPart("kept", (1 - share) * use.size_bytes, color=COUNTED),
    )
    return replace(bar, parts=tuple(each for each in parts if each.size))


def _num_mixed(growth: Growth) -> int:
    """Return how many rows are past their time in segments that are not."""
    gone = growth.num_past_rows
    past = sum(each.num_rows for each in growth.segments if each.is_past)
    return 0 if gone is None else gone[0] - past


def _mixed(growth: Growth, by: str) -> list[str]:
    """Return what is said of rows past their time that no bar of their own shows."""
    gone = growth.num_past_rows
    if gone is None or by in {"window", "age"}:
        return []
    mixed = _num_mixed(growth) if by == "segment" else gone[0]
    if mixed <= 0:
        return []
    where = "segments that are kept: a segment goes as a whole" if by == "segment" else "these bars"
    return [f"{counted(mixed, 'rows')} {gone[1]} in {where}"]


def _bytes(use: Any, by: str) -> int:
    return int(use.size_bytes if by == "segment" else use.data_bytes)


def _use_bar(
    growth: Growth, by: str, use: SegmentUse | WindowUse | PrefixUse | KeyUse | Age
) -> Bar:
    size, rows = _bytes(use, by), f", {counted(use.num_rows, 'rows')}"
    if by not in {"segment", "window", "age"}:
        return Bar(_use_name(use, by), (BarPart("", size),), rows)
    what = "past the watermark" if _by_watermark(growth, by, [use]) else "past its retention"
    looks = {None: (PARTS[4], "unknown whether it is past"), True: (FLAGGED, what)}
    color, name = looks.get(_is_past(growth, by, use), (COUNTED, "kept"))
    return Bar(_use_name(use, by), (BarPart(name, size, color=color),), rows)


def _aged(uses: Sequence[Age]) -> str:
    """Return what ages are, and which clock they are told by."""
    if not uses or uses[0].clock == "timestamp":
        return "rows that were not updated for so long; each includes those below it"
    at, by = uses[0].judged_at_ms, uses[0].judged_by
    since = by if at is None else f"{by}, {moment_text(at)}"
    return f"ended so long before {since}; each includes those below it"


def _by_watermark(growth: Growth, by: str, uses: Sequence[Any]) -> bool:
    """Return whether Spark's watermark decides what is past."""
    if growth.horizon.kept_from_ms is not None or growth.horizon.watermark_ms is None:
        return False
    if by == "age":
        return any(each.judged_by == "the watermark" for each in uses)
    return by == "window" and any(each.is_past is not None for each in uses)


def _is_past(growth: Growth, by: str, use: Any) -> bool | None:
    horizon = growth.horizon
    if by == "segment":
        known: bool | None = use.is_past
        return known
    if by == "window" and use.is_past is not None:
        return bool(use.is_past)
    if by == "age" and _by_watermark(growth, by, [use]):
        return True
    if by == "window":
        kept_from_ms = horizon.kept_from_ms
        return None if kept_from_ms is None else use.start_ms + use.span_ms <= kept_from_ms
    return None if horizon.kept_ms is None else use.not_updated_for_ms > horizon.kept_ms


def _use_name(use: Any, by: str) -> str:
    if by in {"segment", "window"}:
        return moment_text(use.start_ms).removesuffix(" UTC")
    if by == "prefix":
        return f"{use.prefix}…"
    if by == "age":
        length = format_duration(use.not_updated_for_ms)
        return f"not for {length}" if use.clock == "timestamp" else f"ended {length} ago"
    return str(use.key)


def _growth_seen(growth: Growth, by: str) -> str:
    rows, size = format_count(growth.num_rows), format_bytes(growth.data_bytes)
    gone = growth.num_past_rows
    expired = "" if gone is None else f", {format_count(gone[0]) if gone[0] else 'none'} {gone[1]}"
    files = growth.size_bytes if by == "segment" else None
    inside = "" if files is None else f", in files of {format_bytes(files)}"
    return f"{shown(growth.store)}: {rows} rows{expired}, {size} of keys and values{inside}"


_READ = 100_000
_SIZES = 30


def plot_rows(rows: Rows, *, limit: int | None = _READ, ax: Axes | None = None) -> Axes:
    """Return how many rows each window has; of a store without windows, how large rows are.

    At most ``limit`` rows are read, as the figure says; all if it is ``None``.
    """
    starts_ms, sizes_bytes, is_all = _read(rows, limit)
    name = shown(rows.source.name, 22)
    axes = new_axes(ax)
    notes = [] if is_all else [f"the first {format_count(sizes_bytes.size)} rows; there are more"]
    if not sizes_bytes.size:
        empty(axes, "no rows", f"No rows of {name}")
    elif not starts_ms.size:
        _draw_sizes(axes, name, sizes_bytes, notes)
    else:
        _draw_windows(axes, name, starts_ms, notes)
    return axes


def _read(rows: Rows, limit: int | None) -> tuple[Integers, Integers, bool]:
    """Return the starts of windows, the sizes of rows, and whether these are all."""
    starts, sizes, number = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for batch in rows.batches():
        raw = batch.raw
        if raw.window_start_ms is not None:
            starts.append(np.asarray(raw.window_start_ms.drop_null(), np.int64))
        lengths = [pc.binary_length(each.to_arrow()).fill_null(0) for each in (raw.key, raw.value)]
        sizes.append(np.asarray(lengths[0], np.int64) + np.asarray(lengths[1], np.int64))
        number += len(batch)
        if limit is not None and number > limit:
            first = slice(0, max(limit, 0))
            return np.concatenate(starts)[first], np.concatenate(sizes)[first], False
    return np.concatenate(starts), np.concatenate(sizes), True


def _draw_windows(axes: Axes, name: str, starts_ms: Integers, notes: list[str]) -> None:
    starts, counts = np.unique(starts_ms, return_counts=True)
    # How long a window is, rows do not say: the nearest two are so far apart.
    apart_ms = int(np.diff(starts).min()) if starts.size > 1 else _HOUR_MS
    bars = bars_of(starts, counts, apart_ms)
    axes.stairs(bars.heights, days(bars.edges_ms), fill=True, color=COUNTED, linewidth=0)
    axes.set_ylim(0, 1.08 * counts.max())
    in_time(axes.xaxis)
    in_counts(axes.yaxis)
    most = int(np.argmax(counts))
    when = np.datetime_as_string(starts[most].astype("datetime64[ms]"), unit="m").replace("T", " ")
    seen = f"{name}: {counted(starts_ms.size, 'rows')} in {counted(starts.size, 'windows')}"
    seen += f", most ({format_count(counts[most])}) in that of {when}"
    notes += notes_of(bars, marks_of(starts, counts, (), apart_ms))
    captioned(axes, seen, x="start of window, UTC", y="rows", notes=notes)


def _draw_sizes(axes: Axes, name: str, sizes_bytes: Integers, notes: list[str]) -> None:
    low, high = int(sizes_bytes.min()), int(sizes_bytes.max())
    edges = np.linspace(low, high + 1, min(_SIZES, high - low + 1) + 1)
    counts, edges = np.histogram(sizes_bytes, edges)
    axes.stairs(counts, edges, fill=True, facecolor=COUNTED, edgecolor=INK, linewidth=0.5)
    axes.set_ylim(0, 1.08 * counts.max())
    in_bytes(axes.xaxis)
    in_counts(axes.yaxis)
    middle, most = format_bytes(float(np.median(sizes_bytes))), format_bytes(high)
    rows = counted(sizes_bytes.size, "rows")
    seen = f"{name}: {rows}, half of {middle} or less, the largest of {most}"
    captioned(axes, seen, x="key and value of a row", y="rows", notes=notes)


_CHANGES = (("added", "+", EXPECTED), ("removed", "-", FLAGGED), ("changed", "~", COUNTED))


def plot_store_diff(diff: StoreDiff, *, ax: Axes | None = None) -> Axes:
    """Return in how many rows two stores differ, and how; equal ones are said, not drawn.

    The differences themselves are not read: it works on a closed comparison too.
    """
    bars = [
        Bar(f"{sign} {name}", (BarPart("", getattr(diff, name), color=color),))
        for name, sign, color in _CHANGES
    ]
    differ = diff.added + diff.removed + diff.changed
    first, second = (shown(name, 20) for name in diff.names)
    some = format_count(differ) if differ else "none"
    seen = f"{first} to {second}: {some} of {counted(differ + diff.equal, 'rows')} differ"
    notes = [f"equal: {counted(diff.equal, 'rows')}, not drawn"]
    return draw_bars(ax, bars, seen, notes, "rows", printed=format_count)


_MOST_SEGMENTS = 400
_MOST_STEPS = 1_000
_MOST_NAMED = 8


def plot_replica(replica: WindowReader, *, ax: Axes | None = None) -> Axes:
    """Return what each segment of a replica takes on the disk, along time."""
    return plot_segments(replica.segments(), ax=ax)


def plot_segments(segments: Records[SegmentState], *, ax: Axes | None = None) -> Axes:
    """Return what each segment takes on the disk, along time, a kind of window a strip.

    Segments in memory are hatched: their size is unknown. Of more than 400 of one kind, neighbours
    are drawn as one, as large as the largest of them; the figure says so.
    """
    kinds: dict[str, list[SegmentState]] = {}
    for each in segments:
        kinds.setdefault(each.window, []).append(each)
    if not kinds:
        return empty(new_axes(ax), "no segments", "No segments")
    span = days([min(s.start_ms for s in segments), max(s.end_ms for s in segments)])
    strips = [_segments(name, states) for name, states in kinds.items()]
    known = [each.disk_bytes for each in segments if each.disk_bytes is not None]
    memory = sum(each.path is None for each in segments)
    where = f", {format_count(memory)} in memory" if memory else ""
    seen = f"{counted(len(segments), 'segments')} of {format_bytes(sum(known))} on disk{where}"
    x = "windows that a segment holds begin then, UTC"
    return draw_strips(ax, strips, span, seen, x=x, notes=wrapped(_notes(kinds)))


def _segments(name: str, states: Sequence[SegmentState]) -> Strip:
    ordered = sorted(states, key=lambda each: each.start_ms)
    group = -(-len(ordered) // _MOST_SEGMENTS)
    together = [ordered[at : at + group] for at in range(0, len(ordered), group)]
    spans = days([[some[0].start_ms, some[-1].end_ms] for some in together])
    steps, unknown = [], []
    for span, some in zip(spans, together, strict=True):
        known = [each.disk_bytes for each in some if each.disk_bytes is not None]
        if known:
            steps.append(Steps(edges=span, heights=np.array([float(max(known))])))
        else:
            unknown.append((float(span[0]), float(span[1])))
    number = counted(len(states), "segments")
    return Strip(name=name, steps=tuple(steps), printed=format_bytes, unknown=unknown, said=number)


def _notes(kinds: dict[str, list[SegmentState]]) -> list[str]:
    notes = [
        f"{name}: {format_count(len(states))} segments drawn in groups of "
        f"{-(-len(states) // _MOST_SEGMENTS)}, each as large as its largest"
        for name, states in kinds.items()
        if len(states) > _MOST_SEGMENTS
    ]
    every = (each for states in kinds.values() for each in states)
    for each in every:
        if each.disk_bytes is None:
            other = "it is in memory" if each.path is None else "not told"
            return [*notes, f"size on disk: unknown ({each.unknown.get('disk_bytes', other)})"]
    return notes


def plot_lag(lag: Lag, *, ax: Axes | None = None) -> Axes:
    """Return how many records a standby is behind its changelog; the title says how long."""
    number = counted(lag.records, "records")
    bars = [Bar("to be read", (BarPart("", lag.records, color=FLAGGED),), said=number)]
    if not lag.records:
        seen = "The standby holds all that its changelog tells"
    elif lag.seconds is None:
        why = lag.unknown.get("seconds", "not told")
        seen = f"The standby is {number} behind; for how long is unknown ({why})"
    else:
        seen = f"The standby is {number} and {in_seconds(lag.seconds)} behind"
    return draw_bars(ax, bars, seen, x="records of the changelog", printed=format_count)


def plot_restore(history: RestoreHistory, *, ax: Axes | None = None) -> Axes:
    """Return how many records a restore had read at the end of each step, and how many a second.

    Dashed lines are where a level or segment begins. Over 1,000 steps are thinned, and it says so.
    """
    batches = [each for each in history.steps if each.event == "batch"]
    if not batches:
        seen = "No records restored" if len(history.steps) else "No restore told of yet"
        return empty(new_axes(ax), "no records read", seen)
    ends, records = _thinned(batches)
    edges = np.concatenate([[0.0], ends])
    spent = np.diff(edges)
    per_second = np.divide(records, spent, out=np.full(spent.size, np.nan), where=spent > 0)
    read = Steps(edges=edges, heights=np.cumsum(records))
    rate = Steps(edges=edges, heights=per_second, color=PARTS[2])
    span = [0, max(history.seconds, edges[-1]) or 1.0]
    begun = [each for each in history.steps if each.event == "start"]
    notes = few_of("the first {} of {} levels are marked", _MOST_NAMED, len(begun))
    if ends.size < len(batches):
        number = format_count(len(batches))
        notes.append(f"{number} steps drawn as {format_count(ends.size)}")
    notes += [f"{each.what}: failed ({each.error})" for each in history.failures[:1]]
    of = f"{format_count(history.records)} of {counted(history.total, 'records')}"
    rate_of_all = format_count(history.records / history.seconds if history.seconds else None)
    seen = f"{of} restored in {in_seconds(history.seconds)}: {rate_of_all} records/s"
    strips = [Strip(name="records", steps=(read,)), Strip(name="records/s", steps=(rate,))]
    x, lines = "seconds since the restore began", wrapped(notes)
    axes = draw_strips(ax, strips, span, seen, x=x, notes=lines, ticked=lambda _: None)
    for each in begun[:_MOST_NAMED]:
        axes.axvline(each.seconds, color=INK, linewidth=0.8, linestyle=(0, (3, 3)), zorder=1)
        style: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "rotation": 90}
        say(axes, each.what, (each.seconds, 1), (2, 0), fontsize=7, va="top", **style)
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
