"""Users: who is most abnormal, what one did over time, and what was found of them.

Counts are bars or steps, the expected range is a band, a ceiling a line; flagged windows differ by
marker and by colour. Findings lie on a timeline: who, when, by which kind of rule, how far out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.finding import Findings, expected
from kstoolkit.findings.finding import ends_ms as window_ends_ms
from kstoolkit.findings.incidents import CERTAINTIES, OPEN
from kstoolkit.findings.ranking import FOUND_COUNTS, MOST_FOUND
from kstoolkit.formats.actions import action_in_words
from kstoolkit.plots.axes import (
    captioned,
    days,
    empty,
    few_of,
    head,
    in_time,
    legend_name,
    new_axes,
    shown,
)
from kstoolkit.plots.marks import (
    Bar,
    BarPart,
    Bars,
    Marks,
    Steps,
    Strip,
    bars_of,
    draw_bars,
    draw_strips,
    marks_of,
    name_rows,
    notes_of,
    rest_bar,
    spans_of,
)
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK, LINES, PARTS
from kstoolkit.records import counted
from kstoolkit.units import format_count
from kstoolkit.windows import Session, as_window

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from kstoolkit.findings.evaluation import Evaluation, Point
    from kstoolkit.findings.finding import Finding
    from kstoolkit.findings.incidents import Incident, Incidents
    from kstoolkit.pipeline.story import LevelCounts, UserHistory, UserStory
    from kstoolkit.pipeline.whatif import WhatIf
    from kstoolkit.records import Records
    from kstoolkit.replica.records import UserCounts
    from kstoolkit.windows import Window

    Style = dict[str, Any]
    Integers = NDArray[np.int64]


def plot_history(history: UserHistory, *, ax: Axes | None = None) -> Axes:
    """Return one strip for each level: counts, expected range, ceiling, and flagged windows.

    Each strip has a scale of its own. More than 500 windows are drawn in groups, each as high as
    its highest window; the figure says so.
    """
    known = [level for level in history.levels if level.times_ms.size]
    if not known:
        return empty(new_axes(ax), "no counts", f"No counts of {_whose(history)}")
    last_ms = max(level.window_ends_ms.max() for level in known)
    span = days([min(level.times_ms[0] for level in known), last_ms])
    drawn = [(level, *windows_of(level)) for level in history.levels]
    strips, seen = [_strip(*each) for each in drawn], _history_seen(history)
    notes = [note for each in drawn for note in _notes(*each)]
    return draw_strips(ax, strips, span, seen, x="start of window, UTC", notes=notes)


def plot_story(story: UserStory, *, ax: Axes | None = None) -> Axes:
    """Return the history of :func:`plot_history`, with a shade over the time of each incident."""
    axes = plot_history(story.history, ax=ax)
    for place, incident in enumerate(story.incidents):
        begin, end = days([incident.since_ms, incident.until_ms])
        name = "_" * place + "incident"  # the legend leaves out what begins so
        axes.axvspan(begin, end, color=FLAGGED, alpha=0.1, zorder=0, linewidth=0, label=name)
    told = f"{counted(story.events, 'events')}, {counted(len(story.incidents), 'incidents')}"
    head(axes, f"{shown(story.user, 22)}: {told}")
    return axes


def windows_of(level: LevelCounts) -> tuple[Bars, Marks]:
    """Return the windows of a level as bars, at most 500, and which of them are flagged."""
    every_ms = level.window.every_ms
    if level.ends_ms is not None:
        lasted_ms = level.ends_ms - level.times_ms
        marks = marks_of(level.times_ms, level.counts, level.flagged_ms, lasted_ms)
        return spans_of(level.times_ms, level.counts, level.ends_ms), marks
    bars = bars_of(level.times_ms, level.counts, every_ms)
    return bars, marks_of(level.times_ms, level.counts, level.flagged_ms, every_ms)


def _strip(level: LevelCounts, bars: Bars, marks: Marks) -> Strip:
    flagged = bars.hold(marks.middles_ms)
    usual, steps = expected(level.expected_low, level.expected_high), []
    said = [] if usual is None else [f"expected {usual}"]
    said += [] if level.ceiling is None else [f"ceiling {format_count(level.ceiling)}"]
    for chosen, color, name in ((~flagged, COUNTED, "count"), (flagged, FLAGGED, None)):
        edges_ms, counts = bars.runs(chosen)
        edges, heights = days(edges_ms), counts.astype(float)
        steps.append(Steps(edges=edges, heights=heights, color=color, name=name))
    return Strip(
        name=_in_lines(level.window),
        steps=tuple(steps),
        low=level.expected_low,
        high=level.expected_high,
        ceiling=level.ceiling,
        expected_at=None if level.expected_at_ms is None else days(level.expected_at_ms),
        marks=days(marks.middles_ms),
        marked=marks.counts.astype(float),
        said="\n".join(said),
    )


def _in_lines(window: Window) -> str:
    return window.label.replace(" every ", "\nevery ").replace(" over ", "\nover ")


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
    sizes = {level.window.label: level.flagged_ms.size for level in history.levels}
    flagged = [f"{name} {format_count(size)}" for name, size in sizes.items() if size]
    number = sum(sizes.values())
    windows = counted(number, "windows") if number else "no windows"
    where = f" ({', '.join(flagged)})" if flagged else ""
    return f"{_whose(history)}: {windows} flagged{where}"


def plot_finding(finding: Finding, *, ax: Axes | None = None) -> Axes:
    """Return the counts of a finding's time: of its own window, and of the cascade's other levels.

    What was expected is a band, and a ceiling a dashed line, around its own window alone. The
    windows before and after it are in the plot of :meth:`kstoolkit.Run.story`.
    """
    counts = {finding.window: finding.count} | finding.other_levels
    windows = sorted((as_window(each) for each in counts), key=lambda window: window.size_ms)
    begin_ms, end_ms = finding.window_start_ms, finding.window_end_ms
    if not isinstance(longest := windows[-1], Session):
        begin_ms = min(longest.start_of(begin_ms), begin_ms)
        end_ms = max(begin_ms + longest.size_ms, end_ms)
    span = days([begin_ms, max(end_ms, begin_ms + 1)])
    strips = [_of_finding(finding, window, counts[window.label]) for window in windows]
    limit = "" if finding.ceiling is None else f", ceiling {format_count(finding.ceiling)}"
    who = f"{shown(finding.user, 22)}, “{shown(finding.what, 16)}”"
    count = f"{format_count(finding.count)} in {finding.window}"
    seen = f"{who}: {count}, expected {finding.expected}{limit}"
    return draw_strips(ax, strips, span, seen, x="time, UTC", notes=_inner(finding, windows))


def _of_finding(finding: Finding, window: Window, count: int) -> Strip:
    own = window.label == finding.window
    finer = not own and window.size_ms < finding.window_end_ms - finding.window_start_ms
    # Of a finer level only the height of its busiest window is known, not which one it is.
    start_ms = finding.window_start_ms if own or finer else window.start_of(finding.window_start_ms)
    end_ms = finding.window_end_ms if own or finer else start_ms + window.size_ms
    edges = days([start_ms, end_ms])
    steps = Steps(
        edges=edges,
        heights=np.array([float(count)]),
        color=FLAGGED if own else PARTS[4] if finer else COUNTED,
        name="this window" if own else "busiest window inside" if finer else "window around it",
    )
    return Strip(
        name=_in_lines(window),
        steps=(steps,),
        low=finding.expected_low if own else None,
        high=finding.expected_high if own else None,
        ceiling=finding.ceiling if own else None,
        marks=[float(edges.mean())] if own else (),
        marked=[float(count)] if own else (),
    )


def _inner(finding: Finding, windows: list[Window]) -> list[str]:
    length_ms = finding.window_end_ms - finding.window_start_ms
    others = [each for each in windows if each.label != finding.window]
    finer = ", ".join(each.label for each in others if each.size_ms < length_ms)
    return [f"of {finer}: the busiest window inside, whose place is not kept"] if finer else []


_MOST_USERS = 20
_TERMS = ("volume", "burst", "mix", "finding")
_NEEDED = ("user", "score", "events", "busiest_share", "mix_share")
_CHANCE = "log10_probability"
_MOST_ACTIONS = 20


def plot_users(frame: pd.DataFrame, *, top: int = _MOST_USERS, ax: Axes | None = None) -> Axes:
    """Return the users with the highest scores, each score in its four parts.

    How much they do, how rare so busy a window is among users alike, ``-log10(busiest_share)``, how
    rare their mix of actions is, ``-log10(mix_share)``, and half of how surprising the least
    probable finding is, 9 at most.

    Parameters
    ----------
    frame
        What :meth:`kstoolkit.Run.users` returns.
    top
        At most so many users, 40 at the most.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If the frame is another one, or ``top`` is not between 1 and 40.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": ["Anna"], "score": [3.4], "events": [10],
    ...                       "busiest_share": [0.1], "mix_share": [1.0]})
    >>> plot_users(frame).get_title(loc="left")
    'Highest of 1 score: Anna, 3.4'
    """
    lacking = [name for name in _NEEDED if name not in getattr(frame, "columns", ())]
    if lacking:
        kind = type(frame).__name__
        message = f"This {kind} is no frame of users: it has no column {lacking[0]!r}."
        raise ConfigurationError(message, hint="Give what run.users() returns.")
    if not 1 <= top <= 2 * _MOST_USERS:
        message = f"top is {top}: a figure of so many users can't be read."
        raise ConfigurationError(message, hint=f"Give 1 to {2 * _MOST_USERS}.")
    first = frame.nlargest(top, "score", keep="first")
    if first.empty:
        return empty(new_axes(ax), "no users", "No users")
    surprise = -first[_CHANCE] if _CHANCE in first.columns else first["score"] * 0
    found = FOUND_COUNTS * surprise.fillna(0).clip(0, MOST_FOUND)
    rows = zip(first[list(_NEEDED)].to_numpy().tolist(), found, strict=True)
    bars = [_bar(row, each) for row, each in rows]
    left_out = len(frame) - len(first)
    notes = [f"{format_count(left_out)} users with lower scores are left out"] if left_out else []
    best, scores = first.iloc[0], counted(len(frame), "scores")
    seen = f"Highest of {scores}: {shown(str(best['user']))}, {best['score']:.1f}"
    x = "score: volume + burst + mix + finding"
    return draw_bars(ax, bars, seen, notes, x, printed="{:.1f}".format)


def _bar(told: list[Any], found: float) -> Bar:
    user, score, events, busiest, mix = told
    rare = (-np.log10(busiest), -np.log10(mix), found)
    sizes = (max(score - sum(rare), 0.0), *rare)
    parts = tuple(
        BarPart(name, float(size), color=color)
        for size, name, color in zip(sizes, _TERMS, PARTS, strict=False)
    )
    return Bar(str(user), parts, said=f"{score:.1f}, {format_count(events)} events")


def plot_counts(counts: UserCounts, *, ax: Axes | None = None) -> Axes:
    """Return one user's counts in one window, an action a row."""
    told = ((action_in_words(action), count) for action, count in counts.counts.items())
    ranked = sorted(told, key=lambda each: (-each[1], each[0]))
    when = f"{counts.length} from {counts.window_start:%Y-%m-%d %H:%M} UTC"
    seen = f"{shown(counts.user)}: {format_count(counts.total) if ranked else 'nothing'} in {when}"
    return _actions(ranked, seen, ax)


def plot_many_counts(found: Records[UserCounts], *, ax: Axes | None = None) -> Axes:
    """Return several users' counts in one window, the largest first; or one user's over windows.

    >>> from kstoolkit.records import Records
    >>> from kstoolkit.replica.records import UserCounts
    >>> both = [UserCounts(user, 0, 60_000, {"read": 3}, 0) for user in ("Anna", "Bo")]
    >>> plot_many_counts(Records(both, "users' counts")).get_title(loc="left")
    '2 users: 6 events'
    """
    if len({each.user for each in found}) == 1 and len(found) > 1:
        return _over_time(found, ax)
    ranked = sorted(((each.user, each.total) for each in found), key=lambda each: -each[1])
    total = sum(count for _, count in ranked)
    seen = f"{counted(len(ranked), 'users')}: {counted(total, 'events')}"
    return _actions(ranked, seen, ax)


def _actions(ranked: list[tuple[str, int]], seen: str, ax: Axes | None) -> Axes:
    chosen, rest = ranked[:_MOST_ACTIONS], ranked[_MOST_ACTIONS:]
    if not chosen:
        return empty(new_axes(ax), "no counts", seen)
    bars = [Bar(name, (BarPart("", count),)) for name, count in chosen]
    if rest:
        left = sum(count for _, count in rest)
        others = f"{format_count(len(rest))} others together"
        bars.append(rest_bar(others, left, bars, format_count))
    return draw_bars(ax, bars, seen, x="events", printed=format_count)


def _over_time(found: Records[UserCounts], ax: Axes | None) -> Axes:
    first, most = found[0], max(found, key=lambda each: each.total)
    told = sorted((each.window_start_ms, each.window_end_ms, each.total) for each in found)
    starts, ends, counts = np.array(told, np.int64).T
    lengths = ends - starts
    is_even = len(np.unique(lengths)) == 1
    bars = bars_of(starts, counts, lengths[0]) if is_even else spans_of(starts, counts, ends)
    steps = Steps(edges=days(bars.edges_ms), heights=bars.heights.astype(float))
    strips, span = [Strip(name=most.length, steps=(steps,))], days(bars.edges_ms[[0, -1]])
    sum_ = f"{format_count(int(counts.sum()))} events in {format_count(len(found))} windows"
    seen = f"{shown(first.user)}: {sum_}, {format_count(most.total)} in the busiest"
    notes = notes_of(bars, marks_of(starts, counts, (), lengths))
    return draw_strips(ax, strips, span, seen, x="start of window, UTC", notes=notes)


_MOST_POINTS, _MOST_STRIPS = 2_000, 8
_DASHES = ("-", (0, (2.5, 0.8)), (0, (0.8, 0.8)))  # of what is sure, likely, a hint
_SMALLEST, _LARGEST = 18.0, 110.0


def plot_findings(findings: Findings, *, ax: Axes | None = None) -> Axes:
    """Return findings as points over time: where their windows lie, and a line as long as those.

    Each user has a row, and each kind of rule a marker; the more severe a finding is among those of
    its kind, the larger is its point. Of more than 20 users the rest share a row, and of more than
    2,000 findings the most severe are drawn, which is said.
    """
    if not len(findings):
        return empty(new_axes(ax), "no findings", "No findings")
    top = findings.top(_MOST_POINTS)
    drawn = " drawn" if len(top) < len(findings) else ""
    names, rows = _rows(top, drawn)
    axes = _rows_over_time(ax, names)
    _draw(axes, top, rows)
    notes = ["larger: more severe among those of its kind; a line is as long as the window"]
    notes += few_of("the most severe {} of {} findings are drawn", len(top), len(findings))
    users = counted(len(findings.table["user"].unique()), "users")
    seen = f"{counted(len(findings), 'findings')} about {users}; "
    seen += f"first to look at: {shown(top[0].user)}"
    return captioned(axes, seen, x="time of the window, UTC", notes=notes)


def plot_incidents(incidents: Incidents, *, ax: Axes | None = None) -> Axes:
    """Return incidents over time, a row for whom each is about: from its begin to its end.

    What is likely is dashed, a hint dotted; open ones are thicker. Of more than 20 the foremost
    are drawn, which the figure says.
    """
    if not len(incidents):
        return empty(new_axes(ax), "no incidents", "No incidents")
    top = list(incidents.top(_MOST_POINTS))
    names = list(dict.fromkeys(each.who for each in top))[:_MOST_USERS]
    # The legend shows the width of the first one.
    drawn = sorted((e for e in top if e.who in names), key=lambda each: each.state == OPEN)
    axes = _rows_over_time(ax, names)
    for number, grade in enumerate(CERTAINTIES):
        mine = [each for each in drawn if each.certainty == grade]
        if mine:
            _draw_spans(axes, mine, names, _DASHES[number])
    notes = ["thick: open"] if OPEN in {each.state for each in drawn} else []
    notes += few_of("{} of {} incidents are drawn, the foremost", len(drawn), len(incidents))
    seen = f"{counted(len(incidents), 'incidents')}; first to look at: {shown(top[0].who)}"
    return captioned(axes, seen, x="time, UTC", notes=notes)


def _rows_over_time(ax: Axes | None, names: list[str]) -> Axes:
    axes = new_axes(ax, (7.2, 1.2 + 0.2 * max(len(names), 3)))
    name_rows(axes, names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=True, axis="y", color=INK, alpha=0.25, linewidth=0.6)
    in_time(axes.xaxis)
    return axes


def plot_incident(incident: Incident, *, ax: Axes | None = None) -> Axes:
    """Return the windows with findings, a strip for each action and kind of window.

    Of more than eight strips the foremost are drawn, which the figure says.
    """
    total, strips = len(incident.findings), dict[tuple[str, str], "list[Finding]"]()
    for each in incident.findings.top(_MOST_POINTS):
        strips.setdefault((each.window, each.what), []).append(each)
    drawn = list(strips.values())[:_MOST_STRIPS]
    span = days([incident.since_ms, incident.until_ms])
    notes = few_of("the foremost {} of {} findings are drawn", sum(map(len, drawn)), total)
    windows = f"{counted(incident.windows, 'windows')}, {incident.certainty}"
    seen = f"{shown(incident.who, 22)}: {counted(total, 'findings')} in {windows}"
    x = "time, UTC; a window without a bar has no finding"
    return draw_strips(ax, [_found(some) for some in drawn], span, seen, x=x, notes=notes)


def _found(findings: list[Finding]) -> Strip:
    """Return windows as bars before what was expected in them, which is as wide as they are."""
    some = sorted(findings, key=lambda each: each.window_start_ms)
    spans = days([[each.window_start_ms, each.window_end_ms] for each in some])
    counts = np.array([float(each.count) for each in some])
    highs = np.array([float(each.expected_high or 0) for each in some])
    middles, apart = spans.mean(axis=1), slice(1, None)
    behind: Style = {"color": f"{EXPECTED}55", "name": "expected at most"}
    wide = Steps(edges=spans.ravel(), heights=np.insert(highs, apart, 0), **behind)
    inner = (0.7 * spans + 0.3 * middles[:, None]).ravel()
    bars = Steps(edges=inner, heights=np.insert(counts, apart, 0), color=FLAGGED)
    return Strip(
        name=f"{shown(findings[0].what, 16)}\n{findings[0].window}",
        steps=(wide, bars),
        ceiling=min((e.ceiling for e in some if e.ceiling is not None), default=None),
        marks=middles,
        marked=counts,
    )


def _draw_spans(axes: Axes, some: list[Incident], names: list[str], dashes: Any) -> None:
    rows = [names.index(each.who) for each in some]
    first, last = (days([getattr(each, n) for each in some]) for n in ("since_ms", "until_ms"))
    widths = [6.0 if each.state == OPEN else 2.5 for each in some]
    grade = some[0].certainty
    name = legend_name(f"{grade} ({len(some):,})")
    look: dict[str, Any] = {"color": FLAGGED, "linestyle": dashes, "linewidth": widths}
    axes.hlines(rows, first, last, label=name, zorder=3, **look)


def plot_what_if(found: WhatIf, *, ax: Axes | None = None) -> Axes:
    """Return incidents over time that other rules gain, lose and keep, as findings are drawn."""
    told = [_spans(getattr(found, name), name) for name in ("gained", "lost", "kept")]
    incidents = Findings(pa.concat_tables(told))
    axes, total = plot_findings(incidents, ax=ax), len(incidents)
    notes = few_of("{} of {} incidents are drawn", min(total, _MOST_POINTS), total)
    return captioned(axes, found.seen, x="time of the incident, UTC", notes=notes)


def _spans(some: Incidents, change: str) -> pa.Table:
    """Return incidents as findings: each by its peak, from when until when it is."""
    told, kind = some.evidence.table.take(some.table["peak"]), pa.repeat(change, len(some))
    span = {"window_start_ms": some.table["since_ms"], "session_end_ms": some.table["until_ms"]}
    for name, column in {"kind": kind, **span}.items():
        told = told.set_column(told.schema.get_field_index(name), name, column)
    return told


def plot_evaluation(found: Evaluation, *, ax: Axes | None = None) -> Axes:
    """Return the curve of an evaluation: see :func:`plot_curve`."""
    return plot_curve(found.curve, ax=ax)


def plot_curve(curve: Records[Point], *, ax: Axes | None = None) -> Axes:
    """Return precision over recall, the user most to be suspected first, to the left."""
    if not len(curve):
        return empty(new_axes(ax), "no users", "No users with a score")
    axes = new_axes(ax, (5.0, 3.6))
    recall, precision = [each.recall for each in curve], [each.precision for each in curve]
    axes.step([0.0, *recall], [precision[0], *precision], where="pre", color=COUNTED)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.05)
    last = curve[-1]
    seen = f"Precision from {precision[0]:.2f} to {last.precision:.2f} as recall grows to "
    seen += f"{last.recall:.2f}, after {counted(last.users, 'users')}"
    return captioned(axes, seen, x="recall", y="precision")


def _rows(top: Findings, drawn: str) -> tuple[list[str], Integers]:
    """Return the rows' names, and the row of each finding; ``drawn`` says if those are not all."""
    users = top.table["user"].to_pylist()
    names = list(dict.fromkeys(users))  # in the order of the findings, which is that of severity
    place = {name: row for row, name in enumerate(names)}
    rows = np.array([place[each] for each in users], np.int64)
    if len(names) <= _MOST_USERS:
        return names, rows
    rest = len(names) - _MOST_USERS + 1
    others = f"{format_count(rest)} other users{drawn}"
    return [*names[: _MOST_USERS - 1], others], np.minimum(rows, _MOST_USERS - 1)


def _draw(axes: Axes, top: Findings, rows: Integers) -> None:
    start = np.asarray(top.table["window_start_ms"].to_numpy(), np.int64)
    kinds = np.asarray(top.table["kind"].to_pylist(), object)
    first, last = days(start), days(np.asarray(window_ends_ms(top.table), np.int64))
    for number, kind in enumerate(sorted(set(kinds.tolist()))):
        mine = np.flatnonzero(kinds == kind)
        color, _, marker = LINES[number % len(LINES)]
        axes.hlines(rows[mine], first[mine], last[mine], color=color, linewidth=1.2, alpha=0.7)
        # They come by severity, the most severe first.
        share = 1 - np.arange(mine.size) / max(mine.size, 2)
        sizes = _SMALLEST + (_LARGEST - _SMALLEST) * share**2
        middle = (first[mine] + last[mine]) / 2
        style: Style = {"edgecolors": color, "facecolors": (color, 0.35), "linewidths": 1.0}
        name = legend_name(f"{shown(kind, 16)} ({mine.size:,})")
        axes.scatter(middle, rows[mine], sizes, marker=marker, label=name, zorder=3, **style)
