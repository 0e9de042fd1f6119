"""The levels of trials at one moment: a step of how their trees grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.plots.axes import in_bytes, label, new_axes
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, height, legend_lines, legend_name, wrapped
from kstoolkit.plots.stacked import look_of, name_rows, say_beside
from kstoolkit.records import counted
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from kstoolkit.rocksdb.lab.results import Moment


MOST_TRIALS = 6
_MOST_TOLD = 2
_SHORT_NAME = 20
_CHARS_A_FIGURE = 100
"""Of small text, beside each other."""


def plot_moment(moment: Moment, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what each level of a trial has at a moment."""
    return plot_step([moment], ax=ax)


def plot_step(
    moments: Sequence[Moment], *, among: Sequence[Moment] = (), ax: Axes | None = None
) -> Axes:
    """Return a plot of what each level of some trials has, each trial at a moment of its own.

    More than 6 trials are thinned to the first, and the figure says so.

    Parameters
    ----------
    moments
        At least one; one a trial.
    among
        Other moments that are looked at before or after: the axes reach as far as theirs.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.
    """
    some = list(moments)[:MOST_TRIALS]
    every = [*some, *among]
    levels = _num_levels(every)
    ax = new_axes(ax, step_inches(moments, among))
    said = [
        text
        for number, each in enumerate(some)
        for text in _draw_moment(ax, each, number=number, of=len(some))
    ]
    name_rows(ax, [f"L{level}" for level in range(levels)])
    say_beside(ax, said)
    ax.set_xlim(0, _far(every))
    in_bytes(ax.xaxis)
    if not any(each.level_files for each in every):
        ax.set_xticks([])
    label(ax, x="SST files of the level", notes=_notes(some, moments))
    head(ax, _moments_seen(some))
    return ax


def step_inches(moments: Sequence[Moment], among: Sequence[Moment] = ()) -> tuple[float, float]:
    """Return how large a figure such a plot needs: the same in every step."""
    some = moments[:MOST_TRIALS]
    legends = legend_lines([each.profile for each in some]) if len(some) > 1 else 0
    rows = _num_levels([*some, *among]) * (0.4 + len(some))
    return 7.2, height(0, _notes(some, moments), legends) + 0.17 * rows


def _num_levels(moments: Sequence[Moment]) -> int:
    return max(1, *(len(each.level_files) for each in moments))


def _notes(some: Sequence[Moment], moments: Sequence[Moment]) -> list[str]:
    notes = [_rest(each, several=len(some) > 1) for each in some]
    if len(some) < len(moments):
        notes.append(f"the first {len(some)} of {len(moments):,} trials are drawn")
    return wrapped(notes)


def _draw_moment(
    ax: Axes, moment: Moment, *, number: int, of: int
) -> Iterator[tuple[float, float, str]]:
    """Draw the levels of a trial; yield where each ends, and what it has."""
    look, thick = look_of(number), 0.8 / of
    if of > 1:
        ax.barh(0, 0, label=legend_name(moment.profile), **look)
    held = zip(moment.level_bytes, moment.level_files, strict=True)
    for level, (size, files) in enumerate(held):
        if files:
            at = level - 0.4 + (number + 0.5) * thick
            ax.barh(at, size, height=0.86 * thick, **look)
            yield size, at, _level_text(size, files)


def _level_text(size: int, files: int) -> str:
    return f"{format_bytes(size)}, {counted(files, 'files')}"


def _far(moments: Sequence[Moment]) -> float:
    """Return where the x axis ends in every step, so that the longest bar leaves room for text."""
    held = [
        pair
        for each in moments
        for pair in zip(each.level_bytes, each.level_files, strict=True)
        if any(pair)
    ]
    room = max((len(_level_text(*pair)) for pair in held), default=0) / _CHARS_A_FIGURE
    return max((size for size, _ in held), default=1) / (1 - room)


def _rest(moment: Moment, *, several: bool) -> str:
    name = f"{shown(moment.profile, _SHORT_NAME)}: " if several else ""
    return (
        f"{name}{moment.writes:,} writes, {format_bytes(moment.memtable_bytes)} in memtables, "
        f"{format_bytes(moment.pending_compaction_bytes)} to compact, "
        f"waited {moment.stall_ms:,.0f} ms"
    )


def _moments_seen(moments: Sequence[Moment]) -> str:
    told = [
        f"{format_bytes(sum(each.level_bytes))} in {counted(sum(each.level_files), 'files')}"
        f" with {shown(each.profile)}"
        for each in moments[:_MOST_TOLD]
    ]
    at_s = max(each.at_ms for each in moments) / 1e3
    return f"After {at_s:.2f} s: {'; '.join(told)}"
