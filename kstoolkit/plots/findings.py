"""Findings on a timeline: who, when, by which kind of rule, and how far out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import days, in_time, label, new_axes, nothing
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, legend_name
from kstoolkit.plots.palette import INK, LINES
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from kstoolkit.findings.finding import Findings

    Integers = NDArray[np.int64]


MOST_POINTS = 2_000
MOST_USERS = 20
_SMALLEST, _LARGEST = 18.0, 110.0
_KINDS = ("user", "window")


def plot_findings(findings: Findings, *, by: str = "user", ax: Axes | None = None) -> Axes:
    """Return findings as points over time: where their windows lie, and a line as long as those.

    Each kind of rule has a marker; the more severe a finding is among those of its kind, the larger
    is its point. Of more than 20 users the rest share a row, and of more than 2,000 findings the
    most severe are drawn; the figure says so.

    Parameters
    ----------
    findings
        The findings.
    by
        What has a row each: ``"user"``, or ``"window"``.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If ``by`` is neither.

    Examples
    --------
    >>> from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings
    >>> plot_findings(Findings(FINDINGS_SCHEMA.empty_table())).get_title(loc="left")
    'No findings'
    """
    if by not in _KINDS:
        message = f"Findings by {by!r} make no plot."
        raise ConfigurationError(message, hint="Give 'user' or 'window'.")
    if not len(findings):
        axes = new_axes(ax)
        nothing(axes, "no findings")
        head(axes, "No findings")
        return axes
    top = findings.top(MOST_POINTS)
    drawn = " drawn" if len(top) < len(findings) else ""
    names, rows = _rows(top, by, drawn)
    axes = new_axes(ax, (7.2, 1.2 + 0.2 * max(len(names), 3)))
    _draw(axes, top, rows)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [shown(each) for each in names], parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="y", color=INK, alpha=0.25, linewidth=0.6)
    in_time(axes.xaxis)
    notes = ["larger: more severe among those of its kind; a line is as long as the window"]
    if len(top) < len(findings):
        notes.append(f"the most severe {len(top):,} of {len(findings):,} findings are drawn")
    label(axes, x="time of the window, UTC", notes=notes)
    head(axes, _findings_seen(findings, top[0].user))
    return axes


def _rows(top: Findings, by: str, drawn: str) -> tuple[list[str], Integers]:
    """Return the rows' names, and the row of each finding; ``drawn`` says if those are not all."""
    if by == "window":
        labels = np.asarray(top.table["window"].to_pylist(), object)
        sizes = dict(zip(labels.tolist(), top.table["window_ms"].to_pylist(), strict=True))
        names = sorted(sizes, key=lambda each: sizes[each])
    else:
        labels = np.asarray(top.table["user"].to_pylist(), object)
        # In the order of the findings, which is that of severity.
        names = list(dict.fromkeys(labels.tolist()))
    place = {name: row for row, name in enumerate(names)}
    rows = np.array([place[each] for each in labels.tolist()], np.int64)
    if by == "window" or len(names) <= MOST_USERS:
        return names, rows
    rest = len(names) - MOST_USERS + 1
    others = f"{format_count(rest)} other users{drawn}"
    return [*names[: MOST_USERS - 1], others], np.minimum(rows, MOST_USERS - 1)


def _draw(axes: Axes, top: Findings, rows: Integers) -> None:
    start = np.asarray(top.table["window_start_ms"].to_numpy(), np.int64)
    length = np.asarray(top.table["window_ms"].to_numpy(), np.int64)
    kinds = np.asarray(top.table["kind"].to_pylist(), object)
    first, last = days(start), days(start + length)
    for number, kind in enumerate(sorted(set(kinds.tolist()))):
        mine = np.flatnonzero(kinds == kind)
        color, _, marker = LINES[number % len(LINES)]
        axes.hlines(rows[mine], first[mine], last[mine], color=color, linewidth=1.2, alpha=0.7)
        # They come by severity, the most severe first.
        share = 1 - np.arange(mine.size) / max(mine.size, 2)
        sizes = _SMALLEST + (_LARGEST - _SMALLEST) * share**2
        middle = (first[mine] + last[mine]) / 2
        style: dict[str, Any] = {
            "edgecolors": color,
            "facecolors": (color, 0.35),
            "linewidths": 1.0,
        }
        name = legend_name(f"{shown(kind, 16)} ({mine.size:,})")
        axes.scatter(middle, rows[mine], sizes, marker=marker, label=name, zorder=3, **style)


def _findings_seen(findings: Findings, worst: str) -> str:
    users = len(findings.table["user"].unique())
    found = "finding" if len(findings) == 1 else "findings"
    whom = f"{format_count(users)} user{'' if users == 1 else 's'}"
    return f"{format_count(len(findings))} {found} about {whom}; first to look at: {shown(worst)}"
