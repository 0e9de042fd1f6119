"""What a store's figures advise: each rule with its verdict, or why it could not be judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.plots.axes import SMALL, new_axes
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, height
from kstoolkit.plots.palette import EXPECTED, FLAGGED, INK
from kstoolkit.plots.stacked import name_rows
from kstoolkit.records import counted
from kstoolkit.rocksdb.advice.advice import AdviceList
from kstoolkit.rocksdb.advice.advising import RULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.advice.advice import Advice

    Style = dict[str, Any]


MOST_ROWS = 40
_LONGEST_RULE = 44
_LONGEST_LINE = 101
"""Characters of a rule and what is said of it."""
_LOOKS: dict[str, Style] = {
    "set something otherwise": {"marker": "^", "color": FLAGGED, "markerfacecolor": FLAGGED},
    "nothing to advise": {"marker": "o", "color": EXPECTED, "markerfacecolor": EXPECTED},
    "unknown": {"marker": "s", "color": INK, "markerfacecolor": "none"},
}


def plot_advice(advice: Records[Advice], *, ax: Axes | None = None) -> Axes:
    """Return a plot of all rules: which give advice, which have none, which could not be judged.

    Parameters
    ----------
    advice
        As ``store.advice()`` gives it; of some pieces alone, no other rules are shown.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Examples
    --------
    >>> ax = plot_advice(AdviceList([], {"write amplification": "there is no log"}))
    >>> print(ax.get_title(loc="left"))
    No advice; 15 rules find nothing to set
    otherwise, 1 rule could not be judged
    """
    rows = _rows(advice)
    drawn = rows[:MOST_ROWS]
    more = [f"the first {MOST_ROWS} of {len(rows):,} rows"] if len(rows) > MOST_ROWS else []
    ax = new_axes(ax, (7.2, height(len(drawn), more)))
    name_rows(ax, [rule for rule, _, _ in drawn], _LONGEST_RULE)
    room = _LONGEST_LINE - max(len(name.get_text()) for name in ax.get_yticklabels())
    for kind, look in _LOOKS.items():
        places = [row for row, (_, verdict, _) in enumerate(drawn) if verdict == kind]
        style: Style = {"linestyle": "none", "markersize": 7, "label": kind}
        if places:
            ax.plot([0.02] * len(places), places, **look, **style)
    for row, (_, _, text) in enumerate(drawn):
        place: Style = {"va": "center", "color": INK, "fontsize": SMALL}
        cut = text if len(text) <= room else f"{text[: room - 1]}…"
        ax.text(0.05, row, shown(cut, room), parse_math=False, **place)
    ax.set_xlim(0, 1)
    ax.spines["bottom"].set_visible(False)
    ax.set_xticks([])
    ax.set_xlabel("\n".join(more), color=INK, fontsize=SMALL)
    head(ax, _seen(advice, rows))
    return ax


def _rows(advice: Records[Advice]) -> list[tuple[str, str, str]]:
    """Return each rule, its verdict and what to say of it: advice first, the unjudged last."""
    given = [
        (_rule(each), "set something otherwise", f"{each.option}: {each.direction}")
        for each in advice
    ]
    if not isinstance(advice, AdviceList):
        return given
    unjudged = [(rule, "unknown", f"unknown ({why})") for rule, why in advice.unjudged.items()]
    spoken = {each.rule for each in advice} | set(advice.unjudged)
    silent = [
        (rule, "nothing to advise", "nothing to advise") for rule in RULES if rule not in spoken
    ]
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
