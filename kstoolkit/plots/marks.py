"""What plots draw with: bars over time, lines, spans, strips, and bars of parts.

=====  =============================================================================
bars   counts of windows: few enough to draw, and still as high as the highest window
lines  figures over time: few enough points to draw, and still as high as the highest
spans  many along the x axis as one thing: thousands of bars would each take their time
strip  one of several series over one axis in one Axes, with a scale of its own
Bar    parts with a colour each beside the bar's name, what is unknown hatched in grey
=====  =============================================================================

A part of unknown size is drawn as a short stub at the end of its bar, and its reason stands below
the figure; it adds nothing to the sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PolyCollection

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import (
    captioned,
    has_layout,
    height,
    in_bytes,
    in_counts,
    in_lines,
    in_time,
    legend_lines,
    legend_name,
    listed,
    new_axes,
    say,
    shown,
    width_of,
    wrapped,
)
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK, LINES, PARTS, UNKNOWN_HATCH
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import ArrayLike, NDArray

    from kstoolkit.records import Record

    Points = Sequence[tuple[float, float]]
    Floats = NDArray[np.float64]
    Style = dict[str, Any]

_MOST_BARS = 500
MOST_MARKERS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Counts as steps: ``heights[i]`` events from ``edges_ms[i]`` to ``edges_ms[i + 1]``.

    The time shown has ``num_windows``; ``group`` of them stand behind one bar.
    """

    edges_ms: NDArray[np.int64]
    heights: NDArray[np.int64]
    num_windows: int
    group: int

    def runs(self, shown: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return edges and heights with neighbours of one height joined; 0 where not ``shown``.

        A quiet month then costs two points, not thousands.
        """
        heights = np.where(shown, self.heights, 0)
        turns = np.flatnonzero(np.diff(heights, prepend=-1))
        return np.append(self.edges_ms[turns], self.edges_ms[-1]), heights[turns]

    def hold(self, times_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which bars hold one of the times."""
        held = np.zeros(self.heights.size, dtype=bool)
        if held.size:
            held[np.searchsorted(self.edges_ms, times_ms, side="right") - 1] = True
        return held


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Flagged windows: their middles (epoch ms), their counts, and how many have no count."""

    middles_ms: NDArray[np.int64]
    counts: NDArray[np.int64]
    num_unknown: int


def bars_of(times: NDArray[np.int64], counts: NDArray[np.int64], every_ms: int) -> Bars:
    """Return at most 500 bars over the time from the first window to the last.

    Windows, whose starts are ``every_ms`` apart, are grouped where there are more; a bar is as high
    as the highest of its group. A window without a count is 0.
    """
    if every_ms <= 0:
        message = f"Windows {every_ms} ms apart have no length."
        raise ConfigurationError(message, hint="Give a positive length in milliseconds.")
    if not times.size:
        return Bars(np.zeros(1, np.int64), np.zeros(0, np.int64), 0, 1)
    window = (times - times[0]) // every_ms
    num_windows = int(window[-1]) + 1
    group = -(-num_windows // _MOST_BARS)
    heights = np.zeros(-(-num_windows // group), dtype=np.int64)
    np.maximum.at(heights, window // group, counts)
    edges = times[0] + np.arange(heights.size + 1) * (group * every_ms)
    edges[-1] = times[0] + num_windows * every_ms
    return Bars(edges, heights, num_windows, group)


def spans_of(
    times: NDArray[np.int64], counts: NDArray[np.int64], ends_ms: NDArray[np.int64]
) -> Bars:
    """Return sessions as bars, from their first event to their last; a short one is still seen.

    Those of several actions that overlap are one bar, which is as high as all of them together.
    """
    if not times.size:
        return bars_of(times, counts, 1)
    thinnest_ms = -(-int(ends_ms.max() - times[0] + 1) // _MOST_BARS)
    if times.size > _MOST_BARS // 2:
        bars = bars_of(times, counts, thinnest_ms)
        return replace(bars, num_windows=times.size, group=-(-times.size // bars.heights.size))
    reach = np.maximum.accumulate(np.maximum(ends_ms, times + thinnest_ms))
    first = np.flatnonzero(np.r_[True, times[1:] >= reach[:-1]])
    last = np.append(first[1:], times.size) - 1
    edges = np.column_stack([times[first], reach[last]]).ravel()
    heights = np.zeros(edges.size - 1, np.int64)
    heights[::2] = np.add.reduceat(counts, first)
    return Bars(edges, heights, times.size, 1)


def marks_of(
    times: NDArray[np.int64],
    counts: NDArray[np.int64],
    flagged_ms: ArrayLike,
    length_ms: NDArray[np.int64] | int,
) -> Marks:
    """Return which of the windows are flagged, in the order of time."""
    flagged = np.unique(np.asarray(flagged_ms, dtype=np.int64))
    known = np.isin(times, flagged)
    num_unknown = int(np.setdiff1d(flagged, times).size)
    half_ms = np.broadcast_to(length_ms, times.shape) // 2
    return Marks((times + half_ms)[known], counts[known], num_unknown)


def notes_of(bars: Bars, marks: Marks) -> list[str]:
    """Return what a figure says of windows that it does not draw one by one.

    >>> none = np.array([], dtype=np.int64)
    >>> notes_of(bars_of(none, none, 60_000), Marks(none, none, 2))
    ['flagged windows without a count, not drawn: 2']
    """
    notes = []
    if bars.group > 1:
        notes.append(
            f"{format_count(bars.num_windows)} windows drawn as {bars.heights.size} bars: "
            f"each is the highest of {format_count(bars.group)} windows"
        )
    if marks.counts.size > MOST_MARKERS:
        total = format_count(marks.counts.size)
        notes.append(f"markers at the highest {MOST_MARKERS} of {total} flagged windows")
    if marks.num_unknown:
        notes.append(f"flagged windows without a count, not drawn: {marks.num_unknown}")
    return notes


_MOST_LINES = 12
_MOST_POINTS = 2_000  # of all lines of a figure together
_MOST_MARKERS = 12


def draw_lines(ax: Axes, series: Mapping[str, Points]) -> list[str]:
    """Draw a line for each series, and return what was left out or drawn together.

    Points are in order of x. Lines differ by colour, line style and marker, also those of one name.
    """
    drawn, left_out = dict(list(series.items())[:_MOST_LINES]), list(series)[_MOST_LINES:]
    notes = [f"not drawn: {listed(left_out)}"] if left_out else []
    most = _MOST_POINTS // max(len(drawn), 1)
    for number, (name, points) in enumerate(drawn.items()):
        color, _, marker = LINES[number % len(LINES)]
        _, style, _ = LINES[(number + number // len(LINES)) % len(LINES)]
        kept, group = _thinned(np.asarray(points, dtype=np.float64).reshape(-1, 2), most)
        look: Style = {"color": color, "linestyle": style, "linewidth": 1.4}
        look |= {"marker": marker, "markersize": 4}
        look |= {"markevery": max(1, len(kept) // _MOST_MARKERS), "label": legend_name(name)}
        ax.plot(kept[:, 0], kept[:, 1], **look)
        if group > 1:
            notes.append(
                f"{legend_name(name).strip()}: {format_count(len(points))} points drawn as "
                f"{format_count(len(kept))}, each the highest of {format_count(group)}"
            )
    return notes


def _thinned(points: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], int]:
    """Return at most so many points, each the highest of its group, and how large groups are."""
    group = -(-len(points) // most) if len(points) else 1
    if group <= 1:
        return points, 1
    starts = np.arange(0, len(points), group)
    highest = [start + int(np.argmax(points[start : start + group, 1])) for start in starts]
    return points[highest], group


def draw_spans(
    ax: Axes, starts: ArrayLike, ends: ArrayLike, rows: ArrayLike, *, height: float, **look: Any
) -> None:
    """Draw spans, which look alike, from their starts to their ends in the middle of their rows."""
    left, right, middle = (np.asarray(each, dtype=np.float64) for each in (starts, ends, rows))
    low, high = middle - height / 2, middle + height / 2
    xs = np.stack([left, right, right, left], axis=1)
    ys = np.stack([low, low, high, high], axis=1)
    ax.add_collection(PolyCollection(list(np.stack([xs, ys], axis=2)), **look))
    ax.autoscale_view()


_LEAST_BAND = 0.022  # of the width of Axes
_HIGH = 0.7  # how much of a strip its highest value takes; the rest is room for markers
_UNKNOWN_HIGH = 0.25


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Steps:
    """Heights between edges, one more of these; not-a-number where nothing is drawn."""

    edges: Floats
    heights: Floats
    color: str = COUNTED
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Strip:
    """One series: its name, at its left; its expected range and ceiling; what is said at its right.

    ``expected_at`` is from where to where that was expected, None of all; ``marks`` are where
    flagged values are, ``marked`` their heights; ``unknown`` is from where to where nothing is
    known; ``printed`` prints the highest value.
    """

    name: str
    steps: tuple[Steps, ...]
    printed: Callable[[float], str] = format_count
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None
    expected_at: Floats | None = None
    marks: Floats | Sequence[float] = ()
    marked: Floats | Sequence[float] = ()
    unknown: Sequence[tuple[float, float]] = ()
    said: str = ""

    @property
    def top(self) -> float:
        """The highest value that has to be in it; 0 if there is none."""
        heights = [np.nanmax(each.heights, initial=0.0) for each in self.steps]
        return float(max([*heights, self.high or 0, self.ceiling or 0]))


def draw_strips(
    ax: Axes | None,
    strips: Sequence[Strip],
    span: Floats | Sequence[float],
    seen: str,
    *,
    x: str,
    notes: Sequence[str] = (),
    ticked: Callable[[Axis], None] = in_time,
) -> Axes:
    """Return Axes with strips, the first one at the top, from where to where x goes, and a title.

    ``ticked`` prints the numbers of the x axis.
    """
    ax = new_axes(ax, (7.2, 1.1 + 0.72 * len(strips)))
    room = 0.01 * (span[1] - span[0])
    ax.set_xlim(span[0] - room, span[1] + room)
    ticks: list[tuple[float, str]] = []
    once: set[str] = set()
    for base, strip in enumerate(reversed(strips)):
        scale = _HIGH / strip.top if strip.top else 0.0
        ax.axhline(base, color=INK, linewidth=0.6, zorder=3)
        _draw_steps(ax, strip, base, scale, once)
        for left, right in strip.unknown:
            look = UNKNOWN | {"align": "edge", "label": _label(once, "unknown")}
            ax.bar(left, _UNKNOWN_HIGH, right - left, base, **look)
        _draw_references(ax, strip, base, scale, once)
        _draw_marks(ax, strip, base, scale, once)
        _say(ax, strip, base)
        ticks += [(base, "0"), (base + _HIGH, strip.printed(strip.top))] if scale else []
    ax.set_ylim(-0.02, len(strips))
    ax.spines["left"].set_visible(False)
    places, texts = zip(*ticks, strict=True) if ticks else ((), ())
    ax.set_yticks(places, texts)
    ticked(ax.xaxis)
    return captioned(ax, seen, x=x, notes=notes)


def _label(once: set[str], name: str | None) -> str | None:
    """Return a name for the legend, the first time that it is asked for."""
    if name is None or name in once:
        return None
    once.add(name)
    return name


def _draw_steps(ax: Axes, strip: Strip, base: float, scale: float, once: set[str]) -> None:
    for each in strip.steps:
        if not np.nansum(each.heights):
            continue
        style: dict[str, Any] = {"facecolor": each.color, "linewidth": 0, "zorder": 2}
        heights = base + np.nan_to_num(each.heights) * scale
        name = _label(once, each.name)
        ax.stairs(heights, each.edges, baseline=base, fill=True, label=name, **style)


def _draw_references(ax: Axes, strip: Strip, base: float, scale: float, once: set[str]) -> None:
    if strip.high is not None:
        low, high = base + (strip.low or 0) * scale, base + strip.high * scale
        name = _label(once, "expected range")
        fill: dict[str, Any] = {"facecolor": (EXPECTED, 0.2), "edgecolor": EXPECTED}
        parts = _band(ax, strip.expected_at)
        ax.axhspan(low, high, *parts, linewidth=0.9, zorder=3, label=name, **fill)
    if strip.ceiling is not None:
        level = base + strip.ceiling * scale
        dashes = (0, (5, 3))
        name = _label(once, "ceiling")
        ax.axhline(level, color=FLAGGED, linewidth=1.1, linestyle=dashes, zorder=3, label=name)


def _band(ax: Axes, at: Floats | None) -> tuple[float, float]:
    """Return from which part of the width to which a band goes: one of a window can be seen."""
    if at is None:
        return 0, 1
    left, right = ax.get_xlim()
    begin, end = ((each - left) / (right - left) for each in at)
    half = max(end - begin, _LEAST_BAND) / 2
    return (begin + end) / 2 - half, (begin + end) / 2 + half


def _draw_marks(ax: Axes, strip: Strip, base: float, scale: float, once: set[str]) -> None:
    if not len(strip.marked):
        return
    marks, marked = np.asarray(strip.marks), np.asarray(strip.marked)
    highest = np.argsort(-marked, kind="stable")[:MOST_MARKERS]
    style: dict[str, Any] = {"linestyle": "none", "marker": "v", "markersize": 5, "zorder": 4}
    heights = base + marked[highest] * scale + 0.08
    name = _label(once, "flagged")
    ax.plot(marks[highest], heights, color=FLAGGED, label=name, **style)
    if marked.size > 1:  # a number would lie on the next marker; the scale tells the highest
        return
    text, place = strip.printed(float(marked[0])), (marks[0], heights[0])
    say(ax, text, place, (5, 0), color=FLAGGED, fontweight="bold")


def _say(ax: Axes, strip: Strip, base: float) -> None:
    beside: Style = {"xycoords": ax.get_yaxis_transform()}
    middle = base + _HIGH / 2
    if strip.said and has_layout(ax):
        say(ax, strip.said, (1, middle), (6, 0), **beside)
    elif strip.said:  # what stands beside Axes that nobody moves lies on their neighbours
        said = strip.said.replace("\n", ", ")
        say(ax, said, (1, base + 0.97), (-2, 0), va="top", ha="right", **beside)
    say(ax, strip.name, (0, middle), (-6, 0), ha="right", weight="bold", **beside)


REST = "not accounted for"  # the part that is what is left: pale grey, like nothing that has a name
THICKNESS = 0.62
_CHAR_POINTS = 4.9  # how wide a character of small text is, on the whole
_GAP_POINTS = 5
_MOST_ROOM = 5
_STUB = 0.06


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar: its name, its size, and why that is unknown if it is None.

    It has a colour by its name among all bars, if none is given; without a name it is in no legend.
    """

    name: str
    size: float | None
    why_unknown: str = "not told"
    color: str | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its name, its parts from left to right, and what to say beside its sum.

    ``said`` is what stands at its end instead of both.
    """

    name: str
    parts: tuple[BarPart, ...]
    remark: str = ""
    said: str | None = None

    @property
    def sum(self) -> float:
        """What the parts that are drawn come to; one below 0 is not drawn."""
        return sum(max(part.size or 0, 0) for part in self.parts)

    @property
    def lacks(self) -> bool:
        """Whether the size of a part is unknown."""
        return any(part.size is None for part in self.parts)

    def text(self, printed: Callable[[float], str]) -> str:
        """Return what stands at its end."""
        if self.said is not None:
            return self.said
        if self.lacks and not self.sum:
            return "unknown"
        return f"{printed(self.sum)}{' + unknown' if self.lacks else ''}{self.remark}"


def rest_bar(name: str, size: float, bars: Sequence[Bar], printed: Callable[[float], str]) -> Bar:
    """Return the bar of all that have none of their own, which must not dwarf the others."""
    if size > 2 * max((bar.sum for bar in bars), default=0):
        return Bar(name, (), said=f"{printed(size)}: too long a bar to be drawn")
    return Bar(name, (BarPart("", size, color=f"{INK}55"),))


def _known(bars: Sequence[Bar]) -> list[str]:
    parts = [part for bar in bars for part in bar.parts]
    return list(dict.fromkeys(part.name for part in parts if (part.size or 0) > 0))


def _draw_bars(ax: Axes, bars: Sequence[Bar], printed: Callable[[float], str]) -> None:
    """Draw bars, at least one, from top to bottom, each with its sum at its end."""
    stub = _STUB * (max(bar.sum for bar in bars) or 1)
    series = [name for name in _known(bars) if name != REST]
    pale: Style = {"facecolor": f"{INK}55", "edgecolor": INK, "linewidth": 0.6}
    looks = {name: look_of(number) for number, name in enumerate(series)} | {REST: pale}
    said: list[tuple[float, float, str]] = []
    named = {""} if _needs_legend(bars) else set(looks)
    for row, bar in enumerate(bars):
        end = 0.0
        for part in bar.parts:
            if part.size is not None and part.size > 0:
                label = _label(named, part.name) and legend_name(part.name)
                look = looks[part.name] | ({"facecolor": part.color} if part.color else {})
                ax.barh(row, part.size, THICKNESS, end, label=label, **look)
                end += part.size
        if bar.lacks:
            ax.barh(row, stub, left=end, height=THICKNESS, **UNKNOWN)
        said.append((end + stub * bar.lacks, row, bar.text(printed)))
    if any(bar.lacks for bar in bars):
        ax.barh(0, 0, label="unknown", height=THICKNESS, **UNKNOWN)
    say_beside(ax, said)


def name_rows(ax: Axes, names: Sequence[str], longest: int = 28) -> None:
    """Name the rows of a figure, the first one on top, in so many characters at most."""
    told = [in_lines(ax, shown(name, longest)) for name in names]
    ax.set_yticks(range(len(names)), told, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def say_beside(ax: Axes, said: Sequence[tuple[float, float, str]]) -> None:
    """Write texts to the right of where bars end, and make the x axis so long that all fit.

    ``said`` are x, y and what to say; the rows have their names already.
    """
    names = max((width_of(name.get_text()) for name in ax.get_yticklabels()), default=0)
    width = ax.figure.bbox.width * 72 / ax.figure.dpi
    if len(ax.figure.axes) > 1:
        width *= ax.get_position().width
    whole = width - names * _CHAR_POINTS - 3 * _GAP_POINTS
    end = 0.0
    for x, y, text in ((x, y, in_lines(ax, text)) for x, y, text in said):
        say(ax, text, (x, y), (_GAP_POINTS, 0))
        left = whole - width_of(text) * _CHAR_POINTS - _GAP_POINTS
        end = max(end, x * whole / max(left, whole / _MOST_ROOM))
    ax.set_xlim(0, 1.05 * end or 1)


def draw_bars(
    ax: Axes | None,
    bars: Sequence[Bar],
    said: str,
    notes: Sequence[str] = (),
    x: str = "memory",
    *,
    printed: Callable[[float], str] = format_bytes,
    longest: int = 28,
) -> Axes:
    """Return Axes with bars, each with its sum at its end, a title and notes.

    ``printed`` prints sizes, ``longest`` is how many characters of the bars' names are shown.
    """
    lines = wrapped([*_stacked_notes(bars), *notes])
    labels = [name for name in _known(bars) if name] if _needs_legend(bars) else []
    labels += ["unknown"] * any(bar.lacks for bar in bars)
    legend = legend_lines(labels, [shown(bar.name, longest) for bar in bars])
    ax = new_axes(ax, (7.2, height(len(bars), lines, legend)))
    name_rows(ax, [bar.name for bar in bars], longest)
    _draw_bars(ax, bars, printed)
    if not any(bar.sum for bar in bars):
        ax.set_xticks([])
    elif printed in _AXES:
        _AXES[printed](ax.xaxis)
    return captioned(ax, said, x=x, notes=lines)


_AXES = {format_bytes: in_bytes, format_count: in_counts}


def part_of(record: Record, figure: str, name: str) -> BarPart:
    """Return a figure of a record as a part, with why it is unknown if it is."""
    whys: dict[str, str] = getattr(record, "unknown", {})
    return BarPart(name, getattr(record, figure), whys.get(figure, "not told"))


def _stacked_notes(bars: Sequence[Bar]) -> list[str]:
    """Return what can't be drawn: parts that are unknown, with why, and those below 0."""
    whys: dict[str, dict[str, None]] = {}
    for bar in bars:
        for part in bar.parts:
            if part.size is None:
                whys.setdefault(part.why_unknown, {})[part.name] = None
    unknown = [f"{listed(list(names))}: unknown ({why})" for why, names in whys.items()]
    below = [(bar, part) for bar in bars for part in bar.parts if (part.size or 0) < 0]
    return unknown + [
        f"{bar.name}, {part.name}: {format_bytes(part.size)}, below 0, and not drawn"
        for bar, part in below
    ]


def _needs_legend(bars: Sequence[Bar]) -> bool:
    """Return whether parts have to be told apart: a bar of one is named by its row."""
    return any(len(bar.parts) > 1 or any(part.color for part in bar.parts) for bar in bars)


def look_of(number: int) -> Style:
    """Return the colour and edge of the part of this number; after some, hatches tell them apart.

    >>> look_of(0)["facecolor"] == look_of(7)["facecolor"], look_of(0) == look_of(7)
    (True, False)
    """
    color, hatch = PARTS[number % len(PARTS)], "//" * (number // len(PARTS))
    return {"facecolor": color, "hatch": hatch, "edgecolor": INK, "linewidth": 0.6}


UNKNOWN: Style = {"facecolor": "none", "hatch": UNKNOWN_HATCH, "edgecolor": INK, "linewidth": 0.6}
"""How what is unknown looks: grey hatches, no fill."""

MOST_ROWS = 30  # more rows than this can't be read; whoever draws more says which are left out
