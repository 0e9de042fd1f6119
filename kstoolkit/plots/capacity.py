"""What a stream of events needs: stores with what saves them, machines, and how they grow."""

from __future__ import annotations

from math import ceil, log
from typing import TYPE_CHECKING, Any

from kstoolkit.plots.axes import captioned, height, new_axes, say, shown, wrapped
from kstoolkit.plots.marks import name_rows
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, LINES
from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kstoolkit.operations.capacity import CapacityPlan, CapacitySweep

_LONGEST = 44
_LEFT, _ROOM, _GAP_POINTS = 0.8, 1.25, 4
"""Where bars of a logarithmic scale begin, and how many times the longest one there is room for."""


def plot_capacity(plan: CapacityPlan, *, ax: Axes | None = None) -> Axes:
    """Return a plot of a plan: stores with ever more that saves operations, and machines.

    Stores and machines are on a logarithmic scale each, as each step saves so many times what there
    was. The resource that decides how many machines there have to be is drawn apart.

    >>> from kstoolkit.operations.capacity import plan_capacity
    >>> ax = plot_capacity(plan_capacity(rate=50_000_000))
    >>> [label.get_text() for label in ax.get_yticklabels()][:2]
    ['an update for each event and window', 'events of 10 seconds are added up first']
    """
    steps = [(each.step, float(ceil(each.stores)), EXPECTED) for each in plan.savings]
    wanted = [
        (f"machines for {name}", float(number), FLAGGED if name == plan.limit else COUNTED)
        for name, number in plan.needed.items()
    ]
    stores, machines = counted(int(steps[0][1]), "stores"), counted(plan.machines, "machines")
    seen = f"{plan.terms[0].text.removesuffix(' /s')} events a second: {stores} by an update each, "
    seen += f"{machines} with what saves them; what decides is {plan.limit}"
    notes = [f"Stores: of {format_count(plan['operations a store takes'])} operations a second."]
    far = plan["times what was measured"]
    notes += [f"Machines: by CPU as measured, at {far:,.3g} times the rate it was measured at."]
    notes.append("Bars of stores, and of machines, are logarithmic, each by their most.")
    lines = wrapped(notes)
    names = [*(name for name, *_ in steps), "", *(name for name, *_ in wanted)]
    ax = new_axes(ax, (7.2, height(len(names), lines)))
    for first, group in ((0, steps), (len(steps) + 1, wanted)):
        most = log(max(size for _, size, _ in group) / _LEFT)
        for row, (_, size, color) in enumerate(group, first):
            share = log(size / _LEFT) / most
            ax.barh(row, share, height=0.62, color=color)
            say(ax, format_count(size), (share, row), (_GAP_POINTS, 0))
    name_rows(ax, names, _LONGEST)
    ax.set_xlim(0, _ROOM)
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
    return captioned(ax, seen, notes=lines)


def plot_sweep(sweep: CapacitySweep, *, ax: Axes | None = None) -> Axes:
    """Return a plot of the machines that each resource wants, over what was varied.

    Both axes are logarithmic; the largest partition's cores are drawn beside.
    """
    ax, table = new_axes(ax), sweep.to_pandas()
    names = [*sweep.plans[0].needed, "largest partition, in cores"]
    for name, (color, line, marker) in zip(names, LINES, strict=False):
        style: dict[str, Any] = {"color": color, "linestyle": line, "marker": marker}
        ax.plot(table[sweep.over], table[name], markersize=4, label=name, **style)
    ax.set_xscale("log")
    ax.set_yscale("log")
    first, last = sweep.plans[0], sweep.plans[-1]
    seen = f"{counted(first.machines, 'machines')} for {sweep.text(0)}, "
    seen += f"{format_count(last.machines)} for {sweep.text(-1)}"
    seen += f"; what decides there is {last.limit}"
    return captioned(ax, seen, x=shown(sweep.over), y="machines, cores")
