"""Users: who is most abnormal and what of; and what a user did in a window of a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import in_counts, label, nothing
from kstoolkit.plots.expected import plot_expected
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head
from kstoolkit.plots.palette import PARTS
from kstoolkit.plots.rowbars import Part, Row, draw_rows, rest_row, row_axes
from kstoolkit.records import counted
from kstoolkit.units import format_count, format_duration

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.replica.records import UserCounts


MOST_USERS = 20
_TERMS = ("volume", "burst", "mix")
_NEEDED = ("user", "score", "events", "busiest_share", "mix_share")
_MOST_ACTIONS = 20


def plot_users(frame: pd.DataFrame, *, top: int = MOST_USERS, ax: Axes | None = None) -> Axes:
    """Return the users with the highest scores, each score in its three parts.

    ``score = ln(1 + events) - log10(busiest_share) - log10(mix_share)``: how much they do, how
    rare so busy a window is among users alike, and how rare their mix of actions is.

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
    if not 1 <= top <= 2 * MOST_USERS:
        message = f"top is {top}: a figure of so many users can't be read."
        raise ConfigurationError(message, hint=f"Give 1 to {2 * MOST_USERS}.")
    first = frame.nlargest(top, "score", keep="first")
    axes = row_axes(ax, len(first))
    if first.empty:
        nothing(axes, "no users")
        head(axes, "No users")
        return axes
    draw_rows(axes, [_row(row) for row in first[list(_NEEDED)].to_numpy().tolist()])
    left_out = len(frame) - len(first)
    notes = [f"{format_count(left_out)} users with lower scores are left out"] if left_out else []
    label(axes, x="score: volume + burst + mix", notes=notes)
    best, number = first.iloc[0], len(frame)
    scores = "score" if number == 1 else "scores"
    who = shown(str(best["user"]))
    head(axes, f"Highest of {format_count(number)} {scores}: {who}, {best['score']:.1f}")
    return axes


def _row(told: list[Any]) -> Row:
    user, score, events, busiest, mix = told
    sizes = (np.log1p(events), -np.log10(busiest), -np.log10(mix))
    parts = tuple(
        Part(size=float(size), color=color, hatch=hatch, name=name)
        for size, name, (color, hatch) in zip(sizes, _TERMS, PARTS, strict=False)
    )
    said = f"{score:.1f}, {format_count(events)} events"
    return Row(str(user), parts, said)


def plot_counts(counts: UserCounts, *, ax: Axes | None = None) -> Axes:
    """Return one user's counts in one window, an action a row.

    Examples
    --------
    >>> from kstoolkit.replica.records import UserCounts
    >>> plot_counts(UserCounts("Anna", 0, 60_000, {"read": 3}, 0)).get_title(loc="left")
    'Anna: 3 in 1 minute from 1970-01-01 00:00 UTC'
    """
    ranked = sorted(counts.counts.items(), key=lambda each: (-each[1], each[0]))
    length = format_duration(counts.window_end_ms - counts.window_start_ms)
    when = f"{length} from {counts.window_start:%Y-%m-%d %H:%M} UTC"
    seen = f"{shown(counts.user)}: {format_count(counts.total) if ranked else 'nothing'} in {when}"
    return _actions(ranked, seen, ax)


def plot_many_counts(found: Records[UserCounts], *, ax: Axes | None = None) -> Axes:
    """Return several users' counts in one window, the largest first; or one user's over windows.

    Examples
    --------
    >>> from kstoolkit.records import Records
    >>> from kstoolkit.replica.records import UserCounts
    >>> both = [UserCounts(user, 0, 60_000, {"read": 3}, 0) for user in ("Anna", "Bo")]
    >>> plot_many_counts(Records(both, "users' counts")).get_title(loc="left")
    '2 users: 6 events'
    """
    users = {each.user for each in found}
    if len(users) == 1 and len(found) > 1:
        return _over_time(found, ax)
    ranked = sorted(((each.user, each.total) for each in found), key=lambda each: -each[1])
    total = sum(count for _, count in ranked)
    seen = f"{counted(len(ranked), 'users')}: {counted(total, 'events')}"
    return _actions(ranked, seen, ax)


def _actions(ranked: list[tuple[str, int]], seen: str, ax: Axes | None) -> Axes:
    chosen, rest = ranked[:_MOST_ACTIONS], ranked[_MOST_ACTIONS:]
    axes = row_axes(ax, len(chosen) + bool(rest))
    if not chosen:
        nothing(axes, "no counts")
        head(axes, seen)
        return axes
    rows = [Row(name, (Part(size=count),), format_count(count)) for name, count in chosen]
    if rest:
        left = sum(count for _, count in rest)
        others = f"{format_count(len(rest))} others together"
        rows.append(rest_row(others, left, rows, format_count(left)))
    draw_rows(axes, rows)
    in_counts(axes.xaxis)
    label(axes, x="events")
    head(axes, seen)
    return axes


def _over_time(found: Records[UserCounts], ax: Axes | None) -> Axes:
    first = found[0]
    most = max(found, key=lambda each: each.total)
    return plot_expected(
        [each.window_start_ms for each in found],
        [each.total for each in found],
        window_ms=first.window_end_ms - first.window_start_ms,
        title=f"{shown(first.user)}: {format_count(sum(each.total for each in found))} events in "
        f"{format_count(len(found))} windows, {format_count(most.total)} in the busiest",
        ax=ax,
    )
