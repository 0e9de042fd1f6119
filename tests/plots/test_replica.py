from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kstoolkit.errors import InputError
from kstoolkit.plots.replica import MOST_SEGMENTS
from kstoolkit.records import Records
from kstoolkit.replica.listening import RestoreHistory
from kstoolkit.replica.records import Lag, SegmentState
from kstoolkit.replica.windowstore import WindowStore
from tests.changelog.changelogs import write
from tests.plots.made import (
    COUNTS,
    TEN,
    drawn,
    legend,
    row_names,
    seen,
    stays_inside,
    texts,
)

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3_600_000


def state(number: int, size_bytes: int | None = 1024) -> SegmentState:
    start_ms = TEN + number * HOUR
    path = None if size_bytes is None else f"/{number}"
    return SegmentState("1 hour", start_ms, start_ms + HOUR, path, 5, size_bytes, size_bytes, 0, 1)


def segments(*states: SegmentState) -> Records[SegmentState]:
    return Records(states, "segments")


def test_a_replica_shows_its_segments_a_strip_a_window(tmp_path: Path) -> None:
    write(tmp_path / "changelog", 0, COUNTS)
    with WindowStore.restore(
        tmp_path / "changelog", path=tmp_path / "replica", progress=False
    ) as store:
        axes: Any = store.plot()
        sizes = [each.disk_bytes or 0 for each in store.segments() if each.window == "1 hour"]
    assert {"1 minute", "1 hour", "1 day"} <= set(texts(axes))
    assert all(sizes)
    assert seen(axes).split(" of ")[0] == f"{len(axes.patches)} segments"
    assert axes.get_xlabel() == "windows that a segment holds begin then, UTC"
    assert stays_inside(axes)


def test_segments_stand_where_their_windows_begin_as_high_as_they_are_large() -> None:
    axes: Any = segments(state(1, 4096), state(0, 1024)).plot()
    first, second = (each.get_data() for each in axes.patches)
    assert first.values[0] / second.values[0] == pytest.approx(0.25)
    assert first.edges.tolist() == pytest.approx([TEN / 86_400_000, (TEN + HOUR) / 86_400_000])
    assert seen(axes) == "2 segments of 5.0 KiB on disk"
    assert row_names(axes) == ["0", "4.0 KiB"]


def test_segments_in_memory_are_hatched_and_named_unknown() -> None:
    axes: Any = segments(state(0), state(1, None)).plot()
    assert "////" in {each.get_hatch() for each in axes.patches}
    assert legend(axes) == ["unknown"]
    assert seen(axes) == "2 segments of 1.0 KiB on disk, 1 in memory"
    assert "size on disk: unknown (it is in memory)" in axes.get_xlabel()


def test_many_segments_are_thinned_and_the_figure_says_so() -> None:
    axes: Any = segments(*(state(n, 1024 * (1 + n % 3)) for n in range(1_000))).plot()
    assert len(axes.patches) <= MOST_SEGMENTS
    assert "1 hour: 1,000 segments drawn in groups of 3" in axes.get_xlabel()
    assert stays_inside(axes)


def test_no_segments_are_said_to_be_none() -> None:
    axes = drawn(segments().plot())
    assert seen(axes) == "No segments"


@pytest.mark.parametrize(
    ("lag", "said"),
    [
        (Lag(0, 0.0), "The standby holds all that its changelog tells"),
        (Lag(1_200, 4.25), "The standby is 1,200 records and 4.2 s behind"),
        (
            Lag(7, None, {"seconds": "nothing is held yet"}),
            "The standby is 7 records behind; for how long is unknown (nothing is held yet)",
        ),
    ],
)
def test_a_lag_says_how_far_behind(lag: Lag, said: str) -> None:
    axes: Any = lag.plot()
    assert seen(axes) == said
    assert sum(bar.get_width() for bar in axes.patches) == lag.records
    assert stays_inside(axes)


def told(steps: int, *, seconds: float = 0.5, records: int = 100) -> RestoreHistory:
    now = iter(np.arange(steps + 2) * seconds)
    history = RestoreHistory(clock=lambda: float(next(now)))
    history.on_start("1 hour", total=steps * records)
    for _ in range(steps):
        history.on_batch("1 hour", records=records)
    history.on_end("1 hour", records=steps * records)
    return history


def test_a_restore_shows_records_and_their_rate() -> None:
    axes: Any = told(4).plot()
    rate, read = sorted(axes.patches, key=lambda each: float(each.get_data().baseline))
    grown = read.get_data().values - read.get_data().baseline
    assert (grown / grown[-1]).tolist() == pytest.approx([0.25, 0.5, 0.75, 1.0])
    flat = rate.get_data().values - rate.get_data().baseline
    assert (flat / flat[0]).tolist() == pytest.approx([1, 1, 1, 1])
    assert row_names(axes) == ["0", "200", "0", "400"]
    assert seen(axes) == "400 of 400 records restored in 2.5 s: 160 records/s"
    assert axes.get_xlabel() == "seconds since the restore began"
    assert "1 hour" in texts(axes)


def test_a_real_restore_is_remembered_and_drawn(tmp_path: Path) -> None:
    write(tmp_path / "changelog", 0, COUNTS)
    history = RestoreHistory()
    place = tmp_path / "replica"
    WindowStore.restore(tmp_path / "changelog", path=place, listener=history).close()
    rows = sum(len(each) for each in COUNTS.values())
    assert (history.records, history.total) == (rows, rows)
    assert seen(history.plot()).startswith(f"{rows} of {rows} records restored")
    assert {"1 minute", "1 hour", "1 day"} <= set(texts(history.plot()))


def test_many_steps_are_thinned_and_the_figure_says_so() -> None:
    axes: Any = told(5_000).plot()
    assert all(each.get_data().values.size <= 1_001 for each in axes.patches)
    assert "5,000 steps drawn as 1,000" in axes.get_xlabel()
    assert row_names(axes)[-1] == "500,000"
    assert stays_inside(axes)


def test_steps_of_one_moment_have_no_rate_of_their_own() -> None:
    axes = drawn(told(3, seconds=0.0).plot())
    assert "inf" not in "".join(row_names(axes))


def test_a_failure_is_said() -> None:
    history = told(2)
    history._clock = lambda: 9.0
    history.on_failure("1 day", error=InputError("The disk is full."))
    assert "1 day: failed (The disk is full.)" in history.plot().get_xlabel()


def test_a_failure_of_many_words_stays_inside() -> None:
    history = told(2)
    history._clock = lambda: 9.0
    history.on_failure("1 day", error=InputError("$\\frac{ \x00" + "full " * 2_000))
    axes = history.plot()
    assert stays_inside(axes)
    assert axes.xaxis.label.get_window_extent().width <= axes.figure.bbox.width


def test_a_restore_that_told_nothing_is_said_to_be_none() -> None:
    axes = drawn(RestoreHistory().plot())
    assert (seen(axes), texts(axes)) == ("No restore told of yet", ["no records read"])


def test_a_replica_states_the_same_facts_as_text_and_html(tmp_path: Path) -> None:
    write(tmp_path / "changelog", 0, COUNTS)
    with WindowStore.restore(
        tmp_path / "changelog", path=tmp_path / "replica", progress=False
    ) as store:
        assert repr(store).replace("'", "&#x27;") in store._repr_html_()
        assert len(store.to_pandas()) == len(store.segments())
