from __future__ import annotations

from typing import Any

from kstoolkit.operations.lag import LagOfPartition, TopicLag
from kstoolkit.plots.rowbars import MOST_ROWS
from tests.plots.made import HOSTILE, drawn, legend, seen, stays_inside, texts

NEVER = {"catch_up_seconds": "never at this rate: nothing is read"}
UNTOLD = {"lag_records": "nothing is committed"}


def part(number: int, waiting: int | None, **changes: Any) -> LagOfPartition:
    return LagOfPartition(topic="actions", partition=number, lag_records=waiting, **changes)


def lag(*partitions: LagOfPartition, **changes: Any) -> TopicLag:
    facts: dict[str, Any] = {"reader": "group 'billing'", "state": "stable, 1 member", "at_ms": 0}
    return TopicLag(**facts | changes, partitions=partitions)


def test_each_partition_has_a_bar_and_says_how_long_it_takes() -> None:
    axes = drawn(
        lag(
            part(0, 500, catch_up_seconds=30.0),
            part(1, 200, unknown=NEVER),
            part(2, 0, gone_records=70, catch_up_seconds=0.0),
            part(3, None, unknown=UNTOLD),
        ).plot()
    )
    assert seen(axes) == "group 'billing', stable, 1 member: 700 records behind"
    assert texts(axes) == ["500, caught up in 30.0 s", "200", "0 (70 records gone)"]
    assert legend(axes) == ["waiting", "never caught up with", "gone unread"]
    assert axes.get_xlabel() == "records that wait\nunknown of 1 partition"
    assert [bar.get_width() for bar in axes.patches] == [500, 200, 70]
    assert stays_inside(axes)


def test_of_very_many_partitions_those_that_are_most_behind_are_drawn() -> None:
    axes = drawn(lag(*(part(each, each) for each in range(100))).plot())
    assert len(texts(axes)) == MOST_ROWS
    assert texts(axes)[-1] == "99"
    assert f"the largest {MOST_ROWS} of 100 partitions" in axes.get_xlabel()


def test_what_is_unknown_is_no_bar() -> None:
    axes = drawn(lag(part(0, None, unknown=UNTOLD), why="nothing is committed").plot())
    assert texts(axes) == ["lag unknown: nothing is committed"]
    assert seen(axes).endswith(": lag unknown")


def test_hostile_names_are_shown_and_do_no_harm() -> None:
    for name in HOSTILE:
        one = LagOfPartition(topic=name, partition=0, lag_records=3)
        axes = drawn(lag(one, reader=f"group {name!r}").plot())
        assert axes.get_title(loc="left")
        assert "<script>" not in lag(one, reader=name)._repr_html_()
