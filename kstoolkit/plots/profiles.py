"""In which options two profiles differ."""

from __future__ import annotations

from fractions import Fraction
from math import log2
from typing import TYPE_CHECKING, Any

from kstoolkit.plots.axes import captioned, empty, few_of, height, new_axes, say, shown, wrapped
from kstoolkit.plots.marks import name_rows
from kstoolkit.plots.palette import COUNTED, FLAGGED, INK
from kstoolkit.records import counted
from kstoolkit.rocksdb.profiles.profile import Profile, value_text
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.profiles.profile import OptionDifference

_MOST_OPTIONS = 40
_MOST_DOUBLINGS = 8
_LONGEST_OPTION = 50
_OF_BYTES = ("_bytes", "_size", "_size_base", "_level_base", "bytes_per_sync")


def plot_profile(profile: Profile, *, ax: Axes | None = None) -> Axes:
    """Return a plot of the options in which a profile differs from RocksDB's own."""
    differing = profile.diff(Profile(name="RocksDB's own"))
    if not len(differing):
        seen = f"{shown(profile.name or 'This profile')} does not differ from RocksDB's own"
        return empty(new_axes(ax), "no options that differ", seen)
    return plot_difference(differing, ax=ax)


def plot_difference(options: Records[OptionDifference], *, ax: Axes | None = None) -> Axes:
    """Return a plot of the options in which two profiles differ.

    A number is drawn by how many times it is larger (right) or smaller (left) in the first profile
    than in the second; what has no such ratio, or is unknown, has no bar. Both values are written
    beside it. More than 40 options are thinned to the first, and the figure says so.
    """
    some = list(options)[:_MOST_OPTIONS]
    left, right = shown(some[0].left_name), shown(some[0].right_name)
    notes = [f"beside each: {left}, then {right}"]
    notes += few_of("the first {} of {} options are drawn", len(some), len(options))
    doublings = [_doublings(each) for each in some]
    if any(each is not None and abs(each) > _MOST_DOUBLINGS for each in doublings):
        notes.append(f"beyond {2**_MOST_DOUBLINGS} times: drawn at the edge")
    lines = wrapped(notes)
    ax = new_axes(ax, (7.2, height(len(some), lines)))
    ax.axvline(0, color=INK, linewidth=0.8)
    ends = [max(-_MOST_DOUBLINGS, min(_MOST_DOUBLINGS, each or 0)) for each in doublings]
    ax.barh(range(len(some)), ends, 0.5, color=[FLAGGED if end > 0 else COUNTED for end in ends])
    for row, each in enumerate(some):
        values = f"{_text(each.option, each.left)}, {_text(each.option, each.right)}"
        say(ax, values, (_MOST_DOUBLINGS + 1, row), (0, 0))
    name_rows(ax, [each.option for each in some], _LONGEST_OPTION)
    ax.set_xlim(-_MOST_DOUBLINGS - 0.7, 2.6 * _MOST_DOUBLINGS)
    ticks = range(-_MOST_DOUBLINGS, _MOST_DOUBLINGS + 1, _MOST_DOUBLINGS)
    ax.set_xticks(list(ticks), [f"{Fraction(2) ** each} x" for each in ticks])
    seen = f"{left} differs from {right} in {counted(len(options), 'options')}"
    return captioned(ax, seen, x=f"times {right}'s value", notes=lines)


def _doublings(option: OptionDifference) -> float | None:
    """Return how many doublings lead from the right value to the left; None if none do."""
    values = option.left, option.right
    if any(isinstance(each, bool) or not isinstance(each, int | float) for each in values):
        return None
    left, right = values
    return log2(left / right) if left > 0 and right > 0 else None


def _text(option: str, value: Any) -> str:
    if value is None:
        return "unknown"
    is_size = isinstance(value, int) and not isinstance(value, bool)
    if is_size and option.endswith(_OF_BYTES) and value >= 1024:  # noqa: PLR2004 - below, it is as short
        return format_bytes(value)
    return shown(value if isinstance(value, str) else value_text(value), 24)
