from __future__ import annotations

from typing import Any

import pytest

from kstoolkit.pipeline.status import BatchTimes, RunState, RunStatus
from tests.plots.made import drawn, legend, seen, stays_inside, texts

PARTS = {"counting": 1.0, "input": 0.25, "planning": 0.125, "logs": 0.25, "other": 0.125}


def batch(number: int, **changes: Any) -> BatchTimes:
    facts: dict[str, Any] = {"clock_ms": 0, "seconds": 1.75, "events": 350}
    told = {"parts_seconds": PARTS, "state_rows": 40, "memory_bytes": 5 << 20}
    return BatchTimes(number=number, **facts | told | changes)


def status(*batches: BatchTimes, more: int = 0) -> RunStatus:
    return RunStatus(
        state=RunState.COUNTING, at_ms=0, batches=batches, num_batches=len(batches) + more
    )


def test_the_parts_of_a_batch_lie_upon_each_other() -> None:
    axes = drawn(status(batch(0), batch(1)).plot())
    assert seen(axes) == "Counting: the last batch took 1.8 s for 350 events"
    assert sorted(legend(axes)) == ["counting", "input", "logs", "other", "planning"]
    assert texts(axes)[::2] == ["5.0 MiB", "40", "200", "1.8 s"]
    assert texts(axes)[1::2] == ["state\nmemory", "state rows", "events/s", "batch time"]
    tops = [patch.get_data().values.max() for patch in axes.patches if patch.get_label() in PARTS]
    assert tops == sorted(tops, reverse=True)
    assert tops[0] == pytest.approx(3.7)
    assert tops[-1] == pytest.approx(3 + 0.7 * 1 / 1.75)
    assert stays_inside(axes)


def test_what_only_the_query_knows_is_hatched_where_it_is_unknown() -> None:
    untold: dict[str, Any] = {"parts_seconds": {}, "state_rows": None, "memory_bytes": None}
    axes = drawn(status(batch(0, **untold), batch(1), batch(2, **untold)).plot())
    assert "parts unknown" in legend(axes)
    assert "unknown" in legend(axes)
    assert texts(axes).count("unknown") == 2
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
