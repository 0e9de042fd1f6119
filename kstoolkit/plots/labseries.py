"""Trials of the lab over time, and what each of them wrote to which level."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import label, new_axes, plot_nothing
from kstoolkit.plots.figurenames import capital, print_axis, printed, unit_of, words_of
from kstoolkit.plots.lines import draw_lines
from kstoolkit.plots.memory import draw_memory
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, wrapped
from kstoolkit.plots.stacked import Bar, StackedPart
from kstoolkit.records import counted
from kstoolkit.rocksdb.lab.results import Moment
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.lab.results import LevelWork


MOST_LEVELS = 40


def plot_moments(
    moments: Records[Moment],
    *,
    figure: str = "disk_bytes",
    profile: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Return a plot of a figure of each trial over time.

    Parameters
    ----------
    moments
        As ``comparison.series`` has them.
    figure
        One of a moment: ``"disk_bytes"``, ``"level_bytes"``, ``"level_files"``,
        ``"write_amplification"``, ``"pending_compaction_bytes"``, ``"memtable_bytes"``,
        ``"stall_ms"`` ... Those of levels have a line for each.
    profile
        Whose trial; None: all of them.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If a moment has no such figure, or there is no such profile.
    """
    check_figures(Moment, [figure])
    if not len(moments):
        return plot_nothing(moments, ax=ax)
    chosen = _of_profile(moments, profile)
    series = _series(chosen, figure)
    known = {each.profile for each in chosen if getattr(each, figure) is not None}
    unknown = sorted({each.profile for each in chosen} - known)
    ax = new_axes(ax)
    notes = draw_lines(ax, series)
    notes += [f"{shown(name)}: unknown at every moment" for name in unknown]
    ax.set_ylim(bottom=0)
    print_axis(ax.yaxis, figure)
    y = _with_unit(figure, unit_of(figure))
    label(ax, x="seconds since the store was opened", y=y, notes=wrapped(notes))
    whose = "" if profile is None else f" of {shown(profile)}"
    head(ax, f"{capital(words_of(figure))}{whose}{_most(series, figure)}")
    return ax


def _of_profile(moments: Records[Moment], profile: str | None) -> list[Moment]:
    chosen = [each for each in moments if profile in {None, each.profile}]
    if not chosen:
        message = f"There is no moment of a profile {profile!r}."
        names = dict.fromkeys(each.profile for each in moments)
        raise ConfigurationError(message, hint=f"There are {', '.join(names)}.")
    return chosen


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
    """Return a plot of what flushes and compactions wrote to each level, profile by profile.

    More than 40 levels are thinned to the first, and the figure says so.
    """
    if not len(work):
        return plot_nothing(work, ax=ax)
    several = len({each.profile for each in work}) > 1
    bars = [
        Bar(
            f"{shown(each.profile, 20)} L{each.level}" if several else f"L{each.level}",
            (StackedPart("written", each.written_bytes),),
            f", {_jobs(each)}",
        )
        for each in work
    ]
    notes = []
    if len(bars) > MOST_LEVELS:
        notes.append(f"the first {MOST_LEVELS} of {len(bars):,} levels are drawn")
    total = format_bytes(sum(each.written_bytes for each in work))
    most = max(work, key=lambda each: each.written_bytes)
    said = f"{total} written; the most, {format_bytes(most.written_bytes)}, to L{most.level}"
    said += f" with {shown(most.profile)}" if several else ""
    return draw_memory(ax, bars[:MOST_LEVELS], said, notes, "SST files written")


def _jobs(work: LevelWork) -> str:
    parts = {
        "flushes": work.num_flushes,
        "compactions": work.num_compactions,
        "moves": work.num_moves,
    }
    return ", ".join(counted(number, kind) for kind, number in parts.items() if number)


def check_figures(record: type[Any], named: Sequence[str]) -> None:
    """Check that a record of the lab has figures of these names that are numbers.

    Raises
    ------
    ConfigurationError
        If it hasn't.
    """
    known = [
        each.name
        for each in fields(record)
        if "source" in each.metadata and _is_number(str(each.type))
    ]
    wrong = [name for name in named if name not in known]
    if wrong or not named:
        message = (
            f"A {record.__name__.lower()} has no figure {wrong[0] if wrong else ''!r} to draw."
        )
        raise ConfigurationError(message, hint=f"There are {', '.join(known)}.")


def _is_number(kind: str) -> bool:
    return kind.removesuffix(" | None") in {"int", "float", "tuple[int, ...]"}


def _with_unit(figure: str, unit: str) -> str:
    return f"{words_of(figure)}, {unit}" if unit in {"ms", "s", "µs", "%"} else words_of(figure)
