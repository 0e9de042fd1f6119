"""In which options two profiles differ, and what a store's figures advise to set otherwise."""

from __future__ import annotations

from fractions import Fraction
from math import log2
from typing import TYPE_CHECKING, Any

from kstoolkit.plots.axes import captioned, empty, few_of, height, new_axes, say, shown, wrapped
from kstoolkit.plots.marks import name_rows
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK
from kstoolkit.records import counted
from kstoolkit.rocksdb.advice.advice import AdviceList
from kstoolkit.rocksdb.advice.rules import RULES
from kstoolkit.rocksdb.profiles.profile import Profile, value_text
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.advice.advice import Advice
    from kstoolkit.rocksdb.profiles.profile import OptionDifference

    Style = dict[str, Any]


_MOST_OPTIONS = 40
_MOST_DOUBLINGS = 8
_LONGEST_OPTION = 50
_OF_BYTES = ("_bytes", "_size", "_size_base", "_level_base", "bytes_per_sync")


def plot_profile(
    profile: Profile, *, beside: Profile | str | None = None, ax: Axes | None = None
) -> Axes:
    """Return a plot of the options in which a profile differs from another, or RocksDB's own.

    ``beside`` is the other one, or its name; by default RocksDB's own options.
    """
    own = Profile(name="RocksDB's own")
    other = profile.diff(own if beside is None else beside)
    if not len(other):
        name = beside.name if isinstance(beside, Profile) else beside
        mine, others = shown(profile.name or "This profile"), shown(name or own.name)
        seen = f"{mine} does not differ from {others}"
        return empty(new_axes(ax), "no options that differ", seen)
    return plot_difference(other, ax=ax)


def plot_difference(options: Records[OptionDifference], *, ax: Axes | None = None) -> Axes:
    """Return a plot of the options in which two profiles differ.

    A number is drawn by how many times it is larger (right) or smaller (left) in the first profile
    than in the second; what has no such ratio, or is unknown, stands in the middle. Both values are
    written beside it. More than 40 options are thinned to the first, and the figure says so.
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
    _draw(ax, doublings, some)
    for row, each in enumerate(some):
        values = f"{_text(each.option, each.left)}, {_text(each.option, each.right)}"
        say(ax, values, (_MOST_DOUBLINGS + 1, row), (0, 0))
    name_rows(ax, [each.option for each in some], _LONGEST_OPTION)
    ax.set_xlim(-_MOST_DOUBLINGS - 0.7, 2.6 * _MOST_DOUBLINGS)
    ticks = range(-_MOST_DOUBLINGS, _MOST_DOUBLINGS + 1, 4)
    ax.set_xticks(list(ticks), [f"{Fraction(2) ** each} x" for each in ticks])
    seen = f"{left} differs from {right} in {counted(len(options), 'options')}"
    return captioned(ax, seen, x=f"times {right}'s value", notes=lines)


def _draw(ax: Axes, doublings: list[float | None], options: list[OptionDifference]) -> None:
    kinds: dict[str, tuple[str, str, list[tuple[float, int]]]] = {
        "larger": (">", FLAGGED, []),
        "smaller": ("<", COUNTED, []),
        "other": ("D", EXPECTED, []),
        "unknown": ("s", INK, []),
    }
    for row, (value, option) in enumerate(zip(doublings, options, strict=True)):
        if option.left is None or option.right is None:
            kinds["unknown"][2].append((0, row))
        elif value is None:
            kinds["other"][2].append((0, row))
        else:
            end = max(-_MOST_DOUBLINGS, min(_MOST_DOUBLINGS, value))
            ax.plot([0, end], [row, row], color=INK, linewidth=1)
            kinds["larger" if value > 0 else "smaller"][2].append((end, row))
    for kind, (marker, color, places) in kinds.items():
        face = "none" if kind == "unknown" else color
        style: Style = {"linestyle": "none", "markersize": 6, "markerfacecolor": face}
        if places:
            ax.plot(*zip(*places, strict=True), marker=marker, color=color, label=kind, **style)


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


_MOST_ROWS = 40
_LONGEST_RULE = 44
_LONGEST_LINE = 101  # characters of a rule and what is said of it
_LOOKS: dict[str, Style] = {
    "set something otherwise": {"marker": "^", "color": FLAGGED, "markerfacecolor": FLAGGED},
    "nothing to advise": {"marker": "o", "color": EXPECTED, "markerfacecolor": EXPECTED},
    "unknown": {"marker": "s", "color": INK, "markerfacecolor": "none"},
}


def plot_advice(advice: Records[Advice], *, ax: Axes | None = None) -> Axes:
    """Return a plot of all rules: which give advice, which have none, which could not be judged.

    Of some pieces of advice alone, no other rules are shown.
    """
    rows = _rows(advice)
    drawn = rows[:_MOST_ROWS]
    more = few_of("the first {} of {} rows", len(drawn), len(rows))
    ax = new_axes(ax, (7.2, height(len(drawn), more)))
    name_rows(ax, [rule for rule, _, _ in drawn], _LONGEST_RULE)
    room = _LONGEST_LINE - max(len(name.get_text()) for name in ax.get_yticklabels())
    for kind, look in _LOOKS.items():
        places = [row for row, (_, verdict, _) in enumerate(drawn) if verdict == kind]
        style: Style = {"linestyle": "none", "markersize": 7, "label": kind}
        if places:
            ax.plot([0.02] * len(places), places, **look, **style)
    for row, (_, _, text) in enumerate(drawn):
        cut = text if len(text) <= room else f"{text[: room - 1]}…"
        say(ax, shown(cut, room), (0.05, row), (0, 0))
    ax.set_xlim(0, 1)
    ax.spines["bottom"].set_visible(False)
    ax.set_xticks([])
    return captioned(ax, _seen(advice, rows), notes=more)


def _rows(advice: Records[Advice]) -> list[tuple[str, str, str]]:
    """Return each rule, its verdict and what to say of it: advice first, the unjudged last."""
    advised = "set something otherwise"
    given = [(_rule(each), advised, f"{each.option}: {each.direction}") for each in advice]
    if not isinstance(advice, AdviceList):
        return given
    unjudged = [(rule, "unknown", f"unknown ({why})") for rule, why in advice.unjudged.items()]
    spoken = {each.rule for each in advice} | set(advice.unjudged)
    none = "nothing to advise"
    silent = [(rule, none, none) for rule in RULES if rule not in spoken]
    return [*given, *silent, *unjudged]


def _rule(advice: Advice) -> str:
    whose = advice.column_family
    return advice.rule if whose is None else f"{advice.rule} ({shown(whose, 10)})"


def _seen(advice: Records[Advice], rows: list[tuple[str, str, str]]) -> str:
    told = counted(len(advice), "pieces of advice") if len(advice) else "No advice"
    verdicts = [verdict for _, verdict, _ in rows]
    silent, unjudged = verdicts.count("nothing to advise"), verdicts.count("unknown")
    finds = "finds" if silent == 1 else "find"
    parts = [f"{counted(silent, 'rules')} {finds} nothing to set otherwise"] if silent else []
    parts += [f"{counted(unjudged, 'rules')} could not be judged"] if unjudged else []
    return f"{told}; {', '.join(parts)}" if parts else told
