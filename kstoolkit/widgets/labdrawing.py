"""A comparison of the lab, shown: costs, courses, levels step by step, a table.

It brings the plots along, so nobody imports it before there is a comparison to show.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kstoolkit.markup import Html, isolated
from kstoolkit.plots.axes import height, words_of
from kstoolkit.plots.lab import (
    FIGURES,
    plot_comparison,
    plot_level_work,
    plot_moments,
    plot_step,
    step_inches,
)
from kstoolkit.records import counted
from kstoolkit.widgets.labviews import COSTS, OVER_TIME, STEPS, TABLE, WORK, moments_at
from kstoolkit.widgets.profilechoice import short_name
from kstoolkit.widgets.showing import table_html

if TYPE_CHECKING:
    from kstoolkit.rocksdb.lab.comparing import Comparison
    from kstoolkit.widgets.showing import Shown


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
    wide, low = 7.2, height(0, ["", "", ""])
    if view in COSTS:
        rows = len(FIGURES[COSTS[view]]) * (0.4 + len(found))
        shown.draw(
            lambda ax: plot_comparison(found, figures=COSTS[view], ax=ax), (wide, low + 0.17 * rows)
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
    unit = {"_ms": ", ms", "_us": ", µs"}.get(figure[-3:], "")
    return f"{words_of(figure)}{unit}"
