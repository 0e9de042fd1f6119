"""The views of the compaction lab: which there are, and how a comparison is shown in each.

A lab that has not tried anything yet loads no plots: what draws is imported to draw.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kstoolkit.markup import Html, isolated, plain
from kstoolkit.records import counted
from kstoolkit.widgets.panel import Shown, table_html

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.lab.results import Comparison, Moment


COSTS = {
    name.capitalize(): name for name in ("amplification", "stalls", "memory", "latency", "disk")
}
OVER_TIME = {
    "Disk over time": "disk_bytes",
    "L0 files over time": "level0_files",
    "Write amplification over time": "write_amplification",
    "Waiting to be compacted over time": "pending_compaction_bytes",
    "Stalls over time": "stall_ms",
    "Memtables over time": "memtable_bytes",
    "Block cache over time": "block_cache_bytes",
}
STEPS = "Levels, step by step"
WORK = "Written to each level"
TABLE = "Table"
VIEWS = (*COSTS, STEPS, WORK, *OVER_TIME, TABLE)
_MOST_STEPS = 240
_STEP_MS = 250


def view_by_now(view: str) -> str:
    """Return a view, or the levels instead as long as no trial has ended and it needs some."""
    return view if view in OVER_TIME else STEPS


def step_times(moments: Sequence[Moment]) -> list[int]:
    """Return the times (ms) of the steps of a replay: at most some 240, equally far apart."""
    last = max((each.at_ms for each in moments), default=0)
    apart = _STEP_MS * max(1, -(-last // (_STEP_MS * _MOST_STEPS)))
    return [*range(0, last, apart), last]


def moments_at(moments: Sequence[Moment], at_ms: float) -> list[Moment]:
    """Return the last moment of each trial by a time, or its first if there is none so early."""
    found: dict[str, Moment] = {}
    for each in moments:
        if each.profile not in found or each.at_ms <= at_ms:
            found[each.profile] = each
    return list(found.values())


_LONGEST_NAME = 28
_TABLED = (
    *("writes", "gets", "write_amplification", "read_amplification", "space_amplification"),
    *("peak_disk_bytes", "stall_ms", "longest_stall_ms", "put_p50_us", "put_p99_us"),
    *("get_p50_us", "get_p99_us", "compaction_ms", "peak_memtable_bytes"),
    *("peak_block_cache_bytes", "peak_table_readers_bytes"),
)


def show_view(shown: Shown, view: str, found: Comparison, at_ms: float = math.inf) -> None:
    """Show a comparison in one of the ways of :data:`~kstoolkit.widgets.labviews.VIEWS`.

    Parameters
    ----------
    shown
        Where.
    view
        Which.
    found
        The comparison; of one that still goes on, what there is by now.
    at_ms
        Of the levels step by step: when, since each store was opened; by default the last.
    """
    from kstoolkit.plots.axes import height  # noqa: PLC0415 - brings the plots along
    from kstoolkit.plots.lab import (  # noqa: PLC0415 - as above
        FIGURES,
        plot_comparison,
        plot_level_work,
        plot_moments,
        plot_step,
        step_inches,
    )

    wide, low = 7.2, height(0, ["", "", ""])
    if view in COSTS:
        rows = len(FIGURES[COSTS[view]]) * (0.4 + len(found))
        shown.draw(
            lambda ax: plot_comparison(found, figures=COSTS[view], ax=ax),
            (wide, low + 0.17 * rows),
        )
    elif view in OVER_TIME:
        shown.draw(lambda ax: plot_moments(found.series, figure=OVER_TIME[view], ax=ax), (wide, 3))
    elif view == STEPS and len(found.series):
        moments = moments_at(found.series, at_ms)
        inches = step_inches(moments, found.series)
        shown.draw(lambda ax: plot_step(moments, among=found.series, ax=ax), inches)
    elif view == WORK:
        inches = wide, height(len(found.levels), [""])
        shown.draw(lambda ax: plot_level_work(found.levels, ax=ax), inches)
    elif view == TABLE:
        shown.put(trials_table(found))
    else:
        shown.say("No moments yet.")


def trials_table(found: Comparison) -> Html:
    """Return a table of a comparison: a row a figure, a column a profile."""
    if not len(found):
        return Html()
    texts = [{each.name: each.text for each in trial.figures()} for trial in found]
    rows = [(_name(name), *(told[name] for told in texts)) for name in _TABLED]
    rows.append(("stopped by", *(trial.stopped_by or "nothing" for trial in found)))
    names = ["figure", *(isolated(short_name(trial.profile)) for trial in found)]
    more = len(found[0].figures()) - len(_TABLED)
    note = f"{counted(len(found), 'trials')}; comparison.to_pandas() has {more} figures more"
    return table_html(names, rows, note)


def _name(figure: str) -> str:
    from kstoolkit.plots.axes import words_of  # noqa: PLC0415 - brings the plots along

    unit = {"_ms": ", ms", "_us": ", µs"}.get(figure[-3:], "")
    return f"{words_of(figure)}{unit}"


def short_name(name: str) -> str:
    r"""Return the name of a profile as a label or a sentence has it.

    Examples
    --------
    >>> short_name("spark, changed"), short_name("a\0b"), len(short_name("x" * 10_000))
    ('spark, changed', 'a[U+0000]b', 28)
    """
    ends = name if len(name) <= 2 * _LONGEST_NAME else name[:_LONGEST_NAME] + name[-_LONGEST_NAME:]
    seen = plain(ends)
    if len(seen) <= _LONGEST_NAME:
        return seen
    half = _LONGEST_NAME // 2
    return f"{seen[:half]}…{seen[1 - half :]}"
