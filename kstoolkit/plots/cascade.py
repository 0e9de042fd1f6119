"""One user's counts at every level of the cascade, over one time axis; and one finding's alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.findings.finding import expected
from kstoolkit.plots.axes import days, in_time, label, nothing
from kstoolkit.plots.bars import bars_of, marks_of, notes_of
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head
from kstoolkit.plots.palette import COUNTED, FLAGGED
from kstoolkit.plots.strips import Steps, Strip, draw_strips, strip_axes
from kstoolkit.units import format_count
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kstoolkit.findings.finding import Finding
    from kstoolkit.pipeline.run import LevelCounts, UserHistory
    from kstoolkit.plots.bars import Bars, Marks
    from kstoolkit.windows import Window


def plot_history(history: UserHistory, *, ax: Axes | None = None) -> Axes:
    """Return one strip for each level: counts, expected range, ceiling, and flagged windows.

    Each strip has a scale of its own. More than 500 windows are drawn in groups, each as high as
    its highest window; the figure says so.

    Parameters
    ----------
    history
        What a run tells of a user: :meth:`kstoolkit.Run.history`, :meth:`kstoolkit.Run.story`.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Examples
    --------
    >>> from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings
    >>> from kstoolkit.pipeline.run import LevelCounts, UserHistory
    >>> level = LevelCounts(window=as_window("1 hour"), times_ms=np.array([0, 3_600_000]),
    ...                     counts=np.array([3, 61]), flagged_ms=np.array([3_600_000]))
    >>> history = UserHistory(user="Anna", action="read", levels=(level,),
    ...                       findings=Findings(FINDINGS_SCHEMA.empty_table()))
    >>> plot_history(history).get_title(loc="left")
    'Anna, “read”: 1 window flagged (1 hour 1)'
    """
    axes = strip_axes(ax, len(history.levels))
    spans = [
        (level.times_ms[0], level.times_ms[-1] + level.window.size_ms)
        for level in history.levels
        if level.times_ms.size
    ]
    if not spans:
        nothing(axes, "no counts")
        head(axes, f"No counts of {_whose(history)}")
        return axes
    first_ms, last_ms = min(first for first, _ in spans), max(last for _, last in spans)
    first, last = days([first_ms, last_ms])
    axes.set_xlim(first - 0.01 * (last - first), last + 0.01 * (last - first))
    drawn = [(level, *_windows(level)) for level in history.levels]
    draw_strips(axes, [_strip(*each) for each in drawn])
    in_time(axes.xaxis)
    label(axes, x="start of window, UTC", notes=[note for each in drawn for note in _notes(*each)])
    head(axes, _history_seen(history))
    return axes


def _windows(level: LevelCounts) -> tuple[Bars, Marks]:
    every_ms = level.window.every_ms
    bars = bars_of(level.times_ms, level.counts, every_ms)
    return bars, marks_of(level.times_ms, level.counts, level.flagged_ms, every_ms)


def _strip(level: LevelCounts, bars: Bars, marks: Marks) -> Strip:
    flagged = bars.hold(marks.middles_ms) if bars.num_windows else np.zeros(0, dtype=bool)
    steps = []
    for chosen, color, name in ((~flagged, COUNTED, "count"), (flagged, FLAGGED, None)):
        edges, heights = bars.runs(chosen)
        steps.append(
            Steps(edges=days(edges), heights=heights.astype(float), color=color, name=name)
        )
    return Strip(
        name=level.window.label.replace(" every ", "\nevery "),
        steps=tuple(steps) if bars.num_windows else (),
        low=level.expected_low,
        high=level.expected_high,
        ceiling=level.ceiling,
        marks=days(marks.middles_ms),
        marked=marks.counts.astype(float),
        said=_said(level),
    )


def _said(level: LevelCounts) -> str:
    usual = expected(level.expected_low, level.expected_high)
    told = [] if usual is None else [f"expected {usual}"]
    told += [] if level.ceiling is None else [f"ceiling {format_count(level.ceiling)}"]
    return "\n".join(told)


def _notes(level: LevelCounts, bars: Bars, marks: Marks) -> list[str]:
    window = level.window.label
    notes = [f"{window}: {note}" for note in notes_of(bars, marks)]
    if level.min_count > 1:
        notes.append(f"{window}: counts below {format_count(level.min_count)} are not kept")
    return notes


def _whose(history: UserHistory) -> str:
    what = "all actions" if history.action is None else f"“{shown(history.action, 16)}”"
    return f"{shown(history.user, 22)}, {what}"


def _history_seen(history: UserHistory) -> str:
    number = sum(level.flagged_ms.size for level in history.levels)
    flagged = [
        f"{level.window.label} {format_count(level.flagged_ms.size)}"
        for level in history.levels
        if level.flagged_ms.size
    ]
    windows = "window" if number == 1 else "windows"
    where = f" ({', '.join(flagged)})" if flagged else ""
    return f"{_whose(history)}: {format_count(number) if number else 'no'} {windows} flagged{where}"


def plot_finding(finding: Finding, *, ax: Axes | None = None) -> Axes:
    """Return the counts of a finding's time: of its own window, and of the cascade's other levels.

    What was expected is a band, and a ceiling a dashed line, around its own window alone. The
    windows before and after it are in the plot of :meth:`kstoolkit.Run.story`.

    Examples
    --------
    >>> from kstoolkit.findings.finding import Finding
    >>> found = Finding(rule="Unusual 1 hour", kind="Unusual", user="Anna", action="read",
    ...                 window="1 hour", window_ms=3_600_000, window_start_ms=0, count=61,
    ...                 expected_low=2, expected_high=9, other_levels={"1 minute": 7})
    >>> plot_finding(found).get_title(loc="left")
    'Anna, “read”: 61 in 1 hour, expected 2...9'
    """
    counts = {finding.window: finding.count} | finding.other_levels
    windows = sorted((as_window(each) for each in counts), key=lambda window: window.size_ms)
    axes = strip_axes(ax, len(windows))
    longest = windows[-1]
    begin_ms = longest.start_of(finding.window_start_ms)
    begin_ms = min(begin_ms, finding.window_start_ms)
    first, last = days([begin_ms, max(begin_ms + longest.size_ms, finding.window_end_ms)])
    axes.set_xlim(first - 0.02 * (last - first), last + 0.02 * (last - first))
    strips = [_of_finding(finding, window, counts[window.label]) for window in windows]
    draw_strips(axes, strips)
    in_time(axes.xaxis)
    label(axes, x="time, UTC", notes=_inner(finding, windows))
    usual = finding.expected
    limit = "" if finding.ceiling is None else f", ceiling {format_count(finding.ceiling)}"
    who = f"{shown(finding.user, 22)}, “{shown(finding.action, 16)}”"
    count = format_count(finding.count)
    head(axes, f"{who}: {count} in {finding.window}, expected {usual}{limit}")
    return axes


def _of_finding(finding: Finding, window: Window, count: int) -> Strip:
    own = window.label == finding.window
    finer = window.size_ms < finding.window_ms
    # Of a finer level only the height of its busiest window is known, not which one it is.
    start_ms = finding.window_start_ms if own or finer else window.start_of(finding.window_start_ms)
    end_ms = finding.window_end_ms if own or finer else start_ms + window.size_ms
    edges = days([start_ms, end_ms])
    steps = Steps(
        edges=edges,
        heights=np.array([float(count)]),
        color=FLAGGED if own else COUNTED,
        hatch=".." if finer else None,
        name="this window" if own else "busiest window inside" if finer else "window around it",
    )
    return Strip(
        name=window.label.replace(" every ", "\nevery "),
        steps=(steps,),
        low=finding.expected_low if own else None,
        high=finding.expected_high if own else None,
        ceiling=finding.ceiling if own else None,
        marks=[float(edges.mean())] if own else (),
        marked=[float(count)] if own else (),
    )


def _inner(finding: Finding, windows: list[Window]) -> list[str]:
    finer = [each.label for each in windows if each.size_ms < finding.window_ms]
    if not finer:
        return []
    return [f"of {', '.join(finer)}: the busiest window inside, whose place is not kept"]
