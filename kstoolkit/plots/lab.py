"""What a workload cost under several profiles: amplification, stalls, memory, latencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import label, new_axes, plot_nothing
from kstoolkit.plots.figurenames import print_axis, printed, unit_of, words_of
from kstoolkit.plots.labseries import check_figures
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, height, legend_lines, legend_name, listed, wrapped
from kstoolkit.plots.stacked import look_of, name_rows, say_beside, unknown_look
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.lab.results import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes


FIGURES = {
    "amplification": ("write_amplification", "read_amplification", "space_amplification"),
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

MOST_BARS = 40


def plot_comparison(
    trials: Records[Trial],
    *,
    figures: str | Sequence[str] = "amplification",
    ax: Axes | None = None,
) -> Axes:
    """Return a plot of what a workload cost under each profile, figure by figure.

    More than 40 bars are thinned to the first profiles, and the figure says so.

    Parameters
    ----------
    trials
        As :func:`~kstoolkit.compare_profiles` gives them.
    figures
        ``"amplification"``, ``"stalls"``, ``"memory"``, ``"latency"``, ``"disk"``; or names of
        figures of a trial that have one unit.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If a trial has no such figure, or units differ.
    """
    chosen = _chosen(figures)
    if not len(trials):
        return plot_nothing(trials, ax=ax)
    some = list(trials)[: max(MOST_BARS // len(chosen), 1)]
    rows = len(chosen) * len(some)
    notes = _whys(some, chosen)
    if len(some) < len(trials):
        notes.append(f"the first {len(some)} of {len(trials):,} profiles are drawn")
    lines = wrapped(notes)
    ax = new_axes(
        ax, (7.2, height(1, lines, legend_lines([each.profile for each in some])) + 0.17 * rows)
    )
    longest = max(getattr(each, name) or 0 for each in some for name in chosen)
    stub = 0.05 * (longest or 1)
    said = [
        text
        for number, each in enumerate(some)
        for text in _draw_trial(ax, each, chosen, number=number, of=len(some), stub=stub)
    ]
    if any(getattr(each, name) is None for each in some for name in chosen):
        ax.barh(0, 0, label="unknown", **unknown_look())
    name_rows(ax, [words_of(name) for name in chosen])
    say_beside(ax, said)
    print_axis(ax.xaxis, chosen[0])
    unit = unit_of(chosen[0])
    label(ax, x={"bytes": "", "count": ""}.get(unit, unit), notes=lines)
    head(ax, _trials_seen(some, chosen))
    return ax


def plot_trial(
    trial: Trial, *, figures: str | Sequence[str] = "amplification", ax: Axes | None = None
) -> Axes:
    """Return a plot of what a workload cost under one profile; see :func:`plot_comparison`."""
    return plot_comparison(Records([trial], "trials"), figures=figures, ax=ax)


def _chosen(figures: str | Sequence[str]) -> tuple[str, ...]:
    named = FIGURES.get(figures, (figures,)) if isinstance(figures, str) else tuple(figures)
    check_figures(Trial, named)
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
        ax.barh(at, end, height=0.86 * thick, **(unknown_look() if value is None else look))
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
            best = min(known, key=lambda each: getattr(each, name))
            like = [
                each.profile
                for each in known
                if _figure_text(each, name) == _figure_text(best, name)
            ]
            least.append(f"{words_of(name)} {_figure_text(best, name)} with {listed(like)}")
    return f"Least of {counted(len(trials), 'profiles')}: {'; '.join(least) or 'all unknown'}"


def _figure_text(trial: Trial, name: str) -> str:
    value = getattr(trial, name)
    return "unknown" if value is None else printed(name, value)
