"""What a workload cost under several profiles, in all and over time, and how their trees grew."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import (
    captioned,
    few_of,
    height,
    legend_lines,
    legend_name,
    listed,
    new_axes,
    plot_nothing,
    print_axis,
    shown,
    wrapped,
)
from kstoolkit.plots.marks import (
    UNKNOWN,
    Bar,
    BarPart,
    draw_bars,
    draw_lines,
    look_of,
    name_rows,
    say_beside,
)
from kstoolkit.plots.names import capital, printed, unit_of, with_unit, words_of
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.lab.results import Moment, Trial
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from kstoolkit.rocksdb.lab.results import LevelWork

_MOST_LEVELS = 40


def plot_moments(
    moments: Records[Moment], *, figure: str = "disk_bytes", ax: Axes | None = None
) -> Axes:
    """Return a plot of a figure of each trial over time, as ``comparison.series`` has it.

    ``figure`` is one of a moment: ``"disk_bytes"``, ``"level_bytes"``, ``"level_files"``,
    ``"write_amplification"``, ``"pending_compaction_bytes"``, ``"memtable_bytes"``, ``"stall_ms"``
    ... Those of levels have a line for each.
    """
    _check_figures(Moment, [figure])
    if not len(moments):
        return plot_nothing(moments, ax=ax)
    series = _series(moments, figure)
    known = {each.profile for each in moments if getattr(each, figure) is not None}
    unknown = sorted({each.profile for each in moments} - known)
    ax = new_axes(ax)
    notes = draw_lines(ax, series)
    notes += [f"{shown(name)}: unknown at every moment" for name in unknown]
    ax.set_ylim(bottom=0)
    print_axis(ax.yaxis, figure)
    seen = f"{capital(words_of(figure))}{_most(series, figure)}"
    x = "seconds since the store was opened"
    return captioned(ax, seen, x=x, y=with_unit(figure), notes=wrapped(notes))


def _series(moments: Sequence[Moment], figure: str) -> dict[str, list[tuple[float, float]]]:
    """Return points by the name of their line: a profile, a level, or both."""
    several = len({each.profile for each in moments}) > 1
    deepest: dict[str, int] = {}
    for each in moments:
        held = getattr(each, figure)
        if isinstance(held, tuple):
            deepest[each.profile] = max(deepest.get(each.profile, 0), len(held))
    series: dict[str, list[tuple[float, float]]] = {}
    for each in moments:
        value = getattr(each, figure)
        named = {each.profile: value}
        if isinstance(value, tuple):
            padded = value + (0,) * (deepest[each.profile] - len(value))
            whose = f"{shown(each.profile, 20)} " if several else ""
            named = {f"{whose}L{level}": size for level, size in enumerate(padded)}
        for name, known in named.items():
            if known is not None:
                series.setdefault(name, []).append((each.at_ms / 1e3, known))
    levels = bool(deepest)  # one that never held anything has no line
    return {name: of for name, of in series.items() if not levels or any(y for _, y in of)}


def _most(series: dict[str, list[tuple[float, float]]], figure: str) -> str:
    peaks = {name: max(value for _, value in points) for name, points in series.items()}
    if not peaks:
        return ": unknown at every moment"
    name = max(peaks, key=lambda each: peaks[each])
    return f" over time. The most was {printed(figure, peaks[name])}, with {shown(name)}"


def plot_level_work(work: Records[LevelWork], *, ax: Axes | None = None) -> Axes:
    """Return a plot of what was written to each level, profile by profile: of 40 levels at most."""
    if not len(work):
        return plot_nothing(work, ax=ax)
    several = len({each.profile for each in work}) > 1
    bars = [
        Bar(
            f"{shown(each.profile, 20)} L{each.level}" if several else f"L{each.level}",
            (BarPart("written", each.written_bytes),),
            f", {_jobs(each)}",
        )
        for each in work
    ]
    notes = few_of("the first {} of {} levels are drawn", _MOST_LEVELS, len(bars))
    total = format_bytes(sum(each.written_bytes for each in work))
    most = max(work, key=lambda each: each.written_bytes)
    said = f"{total} written; the most, {format_bytes(most.written_bytes)}, to L{most.level}"
    said += f" with {shown(most.profile)}" if several else ""
    return draw_bars(ax, bars[:_MOST_LEVELS], said, notes, "SST files written")


def _jobs(work: LevelWork) -> str:
    numbers = {kind: getattr(work, f"num_{kind}") for kind in ("flushes", "compactions", "moves")}
    return ", ".join(counted(number, kind) for kind, number in numbers.items() if number)


_NUMBERS = {"int", "float", "tuple[int, ...]"}


def _check_figures(record: type[Any], named: Sequence[str]) -> None:
    figures = [each for each in fields(record) if "source" in each.metadata]
    known = [each.name for each in figures if str(each.type).removesuffix(" | None") in _NUMBERS]
    wrong = [name for name in named if name not in known]
    if wrong or not named:
        name = wrong[0] if wrong else ""
        message = f"A {record.__name__.lower()} has no figure {name!r} to draw."
        raise ConfigurationError(message, hint=f"There are {', '.join(known)}.")


FIGURES = {
    "amplification": (
        *("write_amplification", "read_amplification", "space_amplification"),
        "written_per_user_byte",
    ),
    "stalls": ("stall_ms", "longest_stall_ms"),
    "memory": (
        "peak_memtable_bytes",
        "peak_block_cache_bytes",
        "peak_table_readers_bytes",
        "peak_resident_bytes",
    ),
    "latency": ("put_p50_us", "put_p99_us", "get_p50_us", "get_p99_us"),
    "disk": ("sst_bytes", "peak_disk_bytes", "flush_bytes", "compaction_write_bytes"),
}
"""Figures that belong on one plot, by a name for them."""
_MOST_BARS = 40


def plot_comparison(
    trials: Records[Trial],
    *,
    figures: str | Sequence[str] = "amplification",
    ax: Axes | None = None,
) -> Axes:
    """Return a plot of what a workload cost under each profile, figure by figure.

    ``figures`` are ``"amplification"``, ``"stalls"``, ``"memory"``, ``"latency"``, ``"disk"``, or
    the names of figures of a trial that have one unit. More than 40 bars are thinned to the first
    profiles, and the figure says so.
    """
    chosen = _chosen(figures)
    if not len(trials):
        return plot_nothing(trials, ax=ax)
    some = list(trials)[: max(_MOST_BARS // len(chosen), 1)]
    rows = len(chosen) * len(some)
    notes = _whys(some, chosen)
    notes += few_of("the first {} of {} profiles are drawn", len(some), len(trials))
    lines = wrapped(notes)
    legend = legend_lines([each.profile for each in some])
    ax = new_axes(ax, (7.2, height(1, lines, legend) + 0.17 * rows))
    longest = max(getattr(each, name) or 0 for each in some for name in chosen)
    stub = 0.05 * (longest or 1)
    said = [
        text
        for number, each in enumerate(some)
        for text in _draw_trial(ax, each, chosen, number=number, of=len(some), stub=stub)
    ]
    if any(getattr(each, name) is None for each in some for name in chosen):
        ax.barh(0, 0, label="unknown", **UNKNOWN)
    name_rows(ax, [words_of(name) for name in chosen])
    say_beside(ax, said)
    print_axis(ax.xaxis, chosen[0])
    unit = unit_of(chosen[0])
    x = "" if unit in {"bytes", "count"} else unit
    return captioned(ax, _trials_seen(some, chosen), x=x, notes=lines)


def plot_trial(
    trial: Trial, *, figures: str | Sequence[str] = "amplification", ax: Axes | None = None
) -> Axes:
    """Return a plot of what a workload cost under one profile; see :func:`plot_comparison`."""
    return plot_comparison(Records([trial], "trials"), figures=figures, ax=ax)


def _chosen(figures: str | Sequence[str]) -> tuple[str, ...]:
    named = FIGURES.get(figures, (figures,)) if isinstance(figures, str) else tuple(figures)
    _check_figures(Trial, named)
    units = {unit_of(name) for name in named}
    if len(units) > 1:
        message = f"{', '.join(named)} have different units: {', '.join(sorted(units))}."
        raise ConfigurationError(message, hint="Draw them one after the other.")
    return named


def _draw_trial(
    ax: Axes, trial: Trial, chosen: Sequence[str], *, number: int, of: int, stub: float
) -> Iterator[tuple[float, float, str]]:
    """Draw the bars of a trial; yield where each ends, and what it shows."""
    look, thick = look_of(number), 0.8 / of
    ax.barh(0, 0, label=legend_name(trial.profile), **look)
    for row, name in enumerate(chosen):
        value, at = getattr(trial, name), row - 0.4 + (number + 0.5) * thick
        end = stub if value is None else value
        ax.barh(at, end, height=0.86 * thick, **(UNKNOWN if value is None else look))
        yield end, at, _figure_text(trial, name)


def _whys(trials: Sequence[Trial], chosen: Sequence[str]) -> list[str]:
    whys: dict[str, dict[str, None]] = {}
    for each in trials:
        for name in chosen:
            if getattr(each, name) is None:
                why = f"{words_of(name)}: unknown ({each.unknown.get(name, 'not told')})"
                whys.setdefault(why, {})[each.profile] = None
    told = [f"{listed(list(names))}: {why}" for why, names in whys.items()]
    stopped = [each for each in trials if each.stopped_by]
    return told + [f"{shown(each.profile)} was stopped by {each.stopped_by}" for each in stopped]


def _trials_seen(trials: Sequence[Trial], chosen: Sequence[str]) -> str:
    """Say which profile has the least of each figure, or the only one's figures."""
    if len(trials) == 1:
        told = [f"{words_of(name)} {_figure_text(trials[0], name)}" for name in chosen[:3]]
        return f"{shown(trials[0].profile)}: {', '.join(told)}"
    least = []
    for name in chosen[:3]:
        known = [each for each in trials if getattr(each, name) is not None]
        if known:
            best = _figure_text(min(known, key=lambda each: getattr(each, name)), name)
            like = [each.profile for each in known if _figure_text(each, name) == best]
            least.append(f"{words_of(name)} {best} with {listed(like)}")
    return f"Least of {counted(len(trials), 'profiles')}: {'; '.join(least) or 'all unknown'}"


def _figure_text(trial: Trial, name: str) -> str:
    value = getattr(trial, name)
    return "unknown" if value is None else printed(name, value)


def plot_moment(moment: Moment, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what each level of a trial has at a moment."""
    levels = [*zip(moment.level_bytes, moment.level_files, strict=True)] or [(0, 0)]
    bars = [
        Bar(f"L{level}", (BarPart("size", size),), f", {counted(files, 'files')}")
        for level, (size, files) in enumerate(levels)
    ]
    told = f"{moment.writes:,} writes, {format_bytes(moment.memtable_bytes)} in memtables, "
    told += f"{format_bytes(moment.pending_compaction_bytes)} to compact, "
    notes = [f"{told}waited {moment.stall_ms:,.0f} ms"]
    seen = f"After {moment.at_ms / 1e3:.2f} s: {format_bytes(sum(moment.level_bytes))} in "
    seen += f"{counted(sum(moment.level_files), 'files')} with {shown(moment.profile)}"
    return draw_bars(ax, bars, seen, notes, "SST files of the level")
