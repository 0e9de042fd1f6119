from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.operations.lag import LagOfPartition, TopicLag
from kstoolkit.pipeline.batches import Batches, MicroBatch, StateSize
from kstoolkit.pipeline.status import RunState, RunStatus
from kstoolkit.plots.marks import MOST_ROWS
from kstoolkit.plots.run import _MOST_BARS
from tests.plots.made import HOSTILE, drawn, legend, made_run, row_names, seen, stays_inside, texts

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


def batches(number: int, *, state: int | None = 1024) -> Batches:
    return Batches.of(
        MicroBatch(
            n,
            0,
            2.0,
            events=100 * (n + 1),
            state=None if state is None else StateSize(8 * (n + 1), state * (n + 1)),
            state_bytes=state,
        )
        for n in range(number)
    )


def steps(axes: Any) -> list[np.ndarray[Any, Any]]:
    """Return the heights of each stairs, above its strip's base."""
    return [
        each.get_data().values - each.get_data().baseline
        for each in axes.patches
        if hasattr(each, "get_data")
    ]


def test_a_run_is_drawn_by_batch_with_durations_rates_and_state(tmp_path: Path) -> None:
    told = [MicroBatch(0, 0, 8.0, events=80), MicroBatch(1, 0, 2.0, events=400)]
    axes: Any = made_run(tmp_path / "out", batches=told).plot()
    assert texts(axes) == [
        *("unknown", "state\nmemory", "unknown", "state rows", "unknown", "written\nto state"),
        *("200", "events/s", "2.0 s", "seconds"),
    ]
    rate, seconds = (each / each.max() for each in steps(axes))
    assert seconds.tolist() == pytest.approx([1.0, 0.25])
    assert rate.tolist() == pytest.approx([0.05, 1.0])
    assert row_names(axes) == ["0", "200", "0", "8.0 s"]
    assert seen(axes) == "2 batches, 480 events in 10.0 s; after the first: 200 events/s"


def test_a_first_batch_that_would_dwarf_the_others_is_cut_and_said(tmp_path: Path) -> None:
    told = [MicroBatch(0, 0, 16.0, events=80), *(MicroBatch(n, 0, 2.0) for n in range(1, 5))]
    axes: Any = made_run(tmp_path / "out", batches=told).plot()
    assert steps(axes)[-1].max() / steps(axes)[-1].min() == pytest.approx(1.2)
    assert "the first batch, which starts all, took 16.0 s: it is cut" in axes.get_xlabel()


def test_a_single_batch_has_its_figures_beside_it() -> None:
    axes: Any = batches(1).plot()
    assert texts(axes)[::2] == ["1.0 KiB", "8", "1.0 KiB", "50", "2.0 s"]
    assert stays_inside(axes)


def test_state_that_is_unknown_is_hatched_and_said() -> None:
    axes: Any = batches(3, state=None).plot()
    spans = [each for each in axes.patches if each.get_hatch() == "////"]
    assert [(each.get_x(), each.get_width()) for each in spans] == 3 * [(0, 3)]
    assert "unknown" in legend(axes)
    said = " ".join(axes.get_xlabel().split())
    assert "written to state: unknown of 3 batches (Spark has removed the files since)" in said
    assert "state rows and memory: unknown of 3 batches (Spark's figure was not kept)" in said
    assert stays_inside(axes)


def test_state_is_drawn_as_large_as_it_was_after_each_batch() -> None:
    axes: Any = batches(2).plot()
    memory, rows, written = (each / each.max() for each in steps(axes)[:3])
    assert memory.tolist() == pytest.approx([0.5, 1.0])
    assert rows.tolist() == pytest.approx([0.5, 1.0])
    assert written.tolist() == pytest.approx([1.0, 1.0])
    assert {"16", "2.0 KiB"} <= set(row_names(axes))
    assert stays_inside(axes)


def test_known_and_unknown_state_stand_each_where_they_belong() -> None:
    told = Batches.of(
        replace(each, state_bytes=written)
        for each, written in zip(batches(4), (None, 10, None, None), strict=True)
    )
    axes: Any = told.plot()
    spans = [each for each in axes.patches if each.get_hatch() == "////"]
    assert [(each.get_x(), each.get_width()) for each in spans] == [(0, 1), (2, 2)]


def test_many_batches_are_thinned_and_stay_as_high_as_the_highest() -> None:
    many = batches(5_000)
    axes: Any = many.plot()
    assert all(each.size <= _MOST_BARS for each in steps(axes))
    assert "5,000 batches drawn as 385 bars: each is the highest of 13" in axes.get_xlabel()
    assert "250,000" in row_names(axes)
    assert stays_inside(axes)


def test_no_batches_are_said_to_be_none() -> None:
    axes = drawn(batches(0).plot())
    assert (seen(axes), texts(axes)) == ("No batches", ["no batches"])


def test_a_summary_sets_events_beside_what_was_late_or_not_counted(tmp_path: Path) -> None:
    told = MicroBatch(
        0, 0, 2.0, events=85_405, late={"1 minute": 40}, dead_letters={"no_user": 3, "bad_time": 9}
    )
    axes: Any = made_run(tmp_path / "out", batches=[told]).summary().plot()
    assert axes.get_xscale() == "symlog"
    assert seen(axes) == "85,405 events: 40 late, 12 dead letters, 0 findings"
    names = row_names(axes)
    assert names[3:6] == ["late for 1 minute", "its time could not be read", "it has no user"]
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
    assert ends == pytest.approx([85_405, 40, 9, 3])
    assert {"0", "85,405", "40", "9", "3"} <= set(texts(axes))
    assert len({bar.get_facecolor() for bar in axes.patches}) == 3
    assert stays_inside(axes)


def test_an_empty_summary_can_be_drawn(tmp_path: Path) -> None:
    axes = made_run(tmp_path / "out").summary().plot()
    assert stays_inside(axes)
    assert seen(axes) == "0 events: 0 late, 0 dead letters, 0 findings"


def test_dead_letters_are_drawn_by_reason_the_most_frequent_first(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out", reasons=["no_user", "bad_time", "bad_time", "<script>"])
    axes: Any = run.dead_letters.plot()
    assert row_names(axes) == ["its time could not be read", "<script>", "it has no user"]
    assert [bar.get_width() for bar in axes.patches] == [2, 1, 1]
    assert seen(axes) == "4 dead letters for 3 reasons"
    assert len({bar.get_facecolor() for bar in axes.patches}) == 1
    assert stays_inside(axes)


def test_no_dead_letters_are_said_to_be_none(tmp_path: Path) -> None:
    axes = drawn(made_run(tmp_path / "out").dead_letters.plot())
    assert (seen(axes), texts(axes)) == ("No dead letters", ["no dead letters"])


def test_dead_letters_state_the_same_facts_as_text_and_html(tmp_path: Path) -> None:
    found = made_run(tmp_path / "out", reasons=["no_user", "<script>"]).dead_letters
    html = found._repr_html_()
    assert "2: 1 &lt;script&gt;, 1 no_user" in html
    assert "<td>no_user</td><td>1</td><td>it has no user</td>" in html


PARTS = {"counting": 1.0, "input": 0.25, "planning": 0.125, "logs": 0.25, "other": 0.125}


def batch(number: int, **changes: Any) -> MicroBatch:
    facts: dict[str, Any] = {"batch_ms": 0, "seconds": 1.25, "events": 250}
    told = {"parts_seconds": PARTS, "state": StateSize(rows=40, memory_bytes=5 << 20)}
    return MicroBatch(number, **facts | told | changes)


def status(*batches: MicroBatch, more: int = 0) -> RunStatus:
    return RunStatus(
        state=RunState.COUNTING, at_ms=0, batches=batches, num_batches=len(batches) + more
    )


def test_the_parts_of_a_batch_lie_upon_each_other() -> None:
    axes = drawn(status(batch(0), batch(1)).plot())
    assert seen(axes) == "Counting: the last batch took 1.2 s for 250 events"
    assert sorted(legend(axes)) == ["counting", "input", "logs", "other", "planning"]
    assert texts(axes)[::2] == ["5.0 MiB", "40", "200", "1.8 s"]
    assert texts(axes)[1::2] == ["state\nmemory", "state rows", "events/s", "time in all"]
    tops = [patch.get_data().values.max() for patch in axes.patches if patch.get_label() in PARTS]
    assert tops == sorted(tops, reverse=True)
    assert tops[0] == pytest.approx(3.7)
    assert tops[-1] == pytest.approx(3 + 0.7 * 1 / 1.75)
    assert stays_inside(axes)


def test_what_only_the_query_knows_is_hatched_where_it_is_unknown() -> None:
    untold: dict[str, Any] = {"parts_seconds": {}, "state": None}
    axes = drawn(status(batch(0, **untold), batch(1), batch(2, **untold)).plot())
    assert "parts unknown" in legend(axes)
    assert "unknown" in legend(axes)
    assert texts(axes).count("unknown") == 2  # rows and memory: how long it took is known
    assert stays_inside(axes)
    alone = drawn(status(batch(0, **untold)).plot())
    assert legend(alone) == ["in all", "unknown"]


def test_batches_that_are_left_out_are_counted_and_said() -> None:
    axes = drawn(status(batch(700), batch(701), more=700).plot())
    assert "the newest 2 of 702 are drawn" in axes.get_xlabel()
    assert 699 < axes.get_xlim()[0] <= 700


def test_before_the_first_batch_there_is_nothing_to_draw() -> None:
    axes = drawn(status().plot())
    assert seen(axes) == "Counting: no batch has ended yet"
    assert texts(axes) == ["no batches yet"]


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
