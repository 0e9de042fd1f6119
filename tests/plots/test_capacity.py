from __future__ import annotations

from math import ceil
from typing import Any

import kstoolkit as kst
from tests.plots.made import drawn, legend, row_names, seen, stays_inside, texts

PLAN = kst.plan_capacity(rate=50_000_000, users=1e9)


def test_a_plan_is_drawn_as_stores_after_each_step_and_machines_by_resource() -> None:
    axes: Any = drawn(PLAN.plot())
    assert row_names(axes)[4:] == [
        "",
        "machines for cores",
        "machines for disk",
        "machines for memory",
    ]
    stores = [f"{ceil(each.stores):,}" for each in PLAN.savings]
    assert texts(axes) == [*stores, *(f"{each:,}" for each in PLAN.needed.values())]
    ends = [bar.get_width() for bar in axes.patches]
    assert ends[0] == max(ends[4:]) == 1
    assert ends[:4] == sorted(ends[:4], reverse=True)
    assert seen(axes).replace("\n", " ") == (
        "50,000,000 events a second: 20,000 stores by an update each, 91 machines with what saves "
        "them; what decides is cores"
    )
    assert stays_inside(axes)


def test_a_sweep_has_a_line_for_each_resource() -> None:
    axes: Any = drawn(PLAN.sweep("rate", [1e5, 1e6, 1e8]).plot())
    assert legend(axes) == ["cores", "disk", "memory", "largest partition, in cores"]
    assert [*axes.lines[0].get_xdata()] == [1e5, 1e6, 1e8]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert seen(axes).startswith("1 machine for rate 100,000, 169 for rate 100,000,000")
    assert stays_inside(axes)


def test_what_decides_is_drawn_apart() -> None:
    axes: Any = drawn(PLAN.plot())
    rows = filter(None, row_names(axes))
    colors = {row: bar.get_facecolor() for row, bar in zip(rows, axes.patches, strict=True)}
    others = [color for row, color in colors.items() if row != f"machines for {PLAN.limit}"]
    assert colors[f"machines for {PLAN.limit}"] not in others
