from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.marks import _MOST_BARS, MOST_MARKERS, bars_of, marks_of, ordered
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK
from kstoolkit.plots.users import plot_expected

MINUTE, HOUR = 60_000, 3_600_000
MORNING = 1_442_016_000_000
HOURS = MORNING + np.arange(24) * HOUR
COUNTS = np.where(np.arange(24) == 10, 61, 7)


def burst(**changes: Any) -> Any:
    options: dict[str, Any] = {
        "window_ms": HOUR,
        "expected_low": 2,
        "expected_high": 14,
        "flagged_ms": HOURS[10:11],
    }
    return plot_expected(HOURS, COUNTS, **(options | changes))


def colored(artists: Any, color: str) -> list[Any]:
    return [item for item in artists if to_rgb(item.get_facecolor()[:3]) == to_rgb(color)]


def texts(axes: Any) -> list[str]:
    return [item.get_text() for item in axes.texts]


def test_axes_are_labelled_with_what_they_measure() -> None:
    axes = burst()
    assert axes.get_xlabel() == "start of window, UTC"
    assert axes.get_ylabel() == "events in 1 hour"


def test_the_title_says_what_is_seen() -> None:
    seen = burst().get_title(loc="left")
    assert seen == "1 of 24 windows flagged; the highest count is 61, expected 2\u201314"
    unknown = burst(expected_high=None, flagged_ms=(), ceiling=100).get_title(loc="left")
    assert (
        unknown == "None of 24 windows flagged; the highest count is 61, range unknown, ceiling 100"
    )


def test_a_title_from_the_data_is_no_formula() -> None:
    axes = burst(title=r"a $\frac{ b")
    axes.figure.canvas.draw()
    assert axes.get_title(loc="left") == r"a $\frac{ b"


def test_the_expected_range_is_a_band_with_its_numbers_beside_it() -> None:
    axes = burst()
    (band,) = colored(axes.patches, EXPECTED)
    assert (band.get_y(), band.get_y() + band.get_height()) == (2, 14)
    assert "expected\n2\u201314" in texts(axes)


def test_an_unknown_range_draws_no_band() -> None:
    assert not colored(burst(expected_low=None, expected_high=None).patches, EXPECTED)


def test_a_ceiling_is_a_dashed_line_with_its_number() -> None:
    axes = burst(ceiling=100)
    (line,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert set(line.get_ydata()) == {100}
    assert "ceiling\n100" in texts(axes)


def test_labels_of_a_near_ceiling_and_range_do_not_touch() -> None:
    axes = burst(ceiling=12)
    axes.figure.canvas.draw()
    labels = [item for item in axes.texts if item.get_text().startswith(("ceiling", "expected"))]
    low, high = sorted((item.get_window_extent() for item in labels), key=lambda box: box.y0)
    assert low.y1 <= high.y0
    assert low.y0 >= axes.get_window_extent().y0


def test_flagged_windows_differ_by_marker_and_by_colour_and_say_their_count() -> None:
    axes = burst()
    (marks,) = [line for line in axes.lines if line.get_marker() == "v"]
    assert marks.get_color() == FLAGGED
    assert marks.get_ydata().tolist() == [61]
    assert marks.get_xdata()[0] == pytest.approx((HOURS[10] + HOUR / 2) / 86_400_000)
    assert "61" in texts(axes)
    counted, flagged = axes.patches[0], axes.patches[1]
    assert to_rgb(counted.get_facecolor()[:3]) == to_rgb(COUNTED)
    assert max(counted.get_data().values) == 7
    assert max(flagged.get_data().values) == 61


def test_the_legend_lies_above_the_data_and_below_the_title() -> None:
    axes = burst()
    axes.figure.canvas.draw()
    legend = axes.get_legend()
    box = legend.get_window_extent()
    assert [text.get_text() for text in legend.get_texts()] == ["count", "flagged"]
    assert box.y0 >= axes.get_window_extent().y1 - 1
    assert box.y1 <= axes._left_title.get_window_extent().y0 + 1


def test_it_suits_light_and_dark_pages() -> None:
    axes = burst()
    axes.figure.canvas.draw()
    pixels = np.asarray(axes.figure.canvas.buffer_rgba())
    assert pixels[0, 0, 3] == 0
    assert axes.patch.get_alpha() == 0
    for page in ("#ffffff", "#111111"):
        assert contrast(INK, page) >= 4
        assert min(contrast(color, page) for color in (COUNTED, EXPECTED, FLAGGED)) >= 3


def contrast(one: str, other: str) -> float:
    def luminance(color: str) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
        return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_many_windows_are_thinned_and_the_figure_says_so() -> None:
    minutes = MORNING + np.arange(2_880) * MINUTE
    axes: Any = plot_expected(
        minutes, np.arange(2_880) % 7, window_ms=MINUTE, flagged_ms=minutes[:80]
    )
    assert axes.patches[0].get_data().values.size <= _MOST_BARS
    label = axes.get_xlabel()
    assert "2,880 windows drawn as 480 bars: each is the highest of 6 windows" in label
    assert f"the highest {MOST_MARKERS} of 80 flagged windows" in label


def test_a_flagged_window_without_a_count_is_announced() -> None:
    assert "without a count, not drawn: 1" in burst(flagged_ms=[5]).get_xlabel()


def test_no_counts_are_said_to_be_none() -> None:
    axes: Any = plot_expected([], [], window_ms=HOUR)
    axes.figure.canvas.draw()
    assert texts(axes) == ["no counts"]
    assert axes.get_title(loc="left") == "No counts to show"


def test_a_lone_window_does_not_fill_the_plot() -> None:
    axes: Any = plot_expected([MORNING], [5], window_ms=HOUR)
    low, high = axes.get_xlim()
    assert (high - low) * 24 == pytest.approx(8)


def test_it_draws_where_it_is_told_and_returns_that() -> None:
    axes = Figure().add_subplot()
    assert burst(ax=axes) is axes


def test_hopping_windows_stand_where_they_begin() -> None:
    axes: Any = plot_expected(
        [0, MINUTE, 2 * MINUTE], [5, 6, 7], window_ms=5 * MINUTE, every_ms=MINUTE
    )
    assert axes.get_ylabel() == "events in 5 minutes"
    assert axes.patches[0].get_data().values.tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("times", "counts", "window_ms", "said"),
    [([1, 2], [1], HOUR, "2 times and 1 counts"), ([1], [1], 0, "0 ms apart")],
)
def test_what_is_no_series_is_refused(
    times: list[int], counts: list[int], window_ms: int, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        plot_expected(times, counts, window_ms=window_ms)


def test_pyplot_with_its_global_state_stays_unloaded_where_axes_are_given() -> None:
    script = (
        "import sys, kstoolkit.plots.users as p; from matplotlib.figure import Figure; "
        "p.plot_expected([0], [1], window_ms=1000, ax=Figure().add_subplot()); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "False"


@given(
    st.dictionaries(st.integers(0, 20_000), st.integers(1, 10**9), min_size=1, max_size=60),
    st.randoms(),
)
def test_bars_are_few_keep_the_highest_and_hold_every_window(
    sparse: dict[int, int], random: Any
) -> None:
    windows = list(sparse)
    random.shuffle(windows)
    times, counts = ordered(
        MORNING + np.array(windows) * MINUTE, [sparse[window] for window in windows]
    )
    bars = bars_of(times, counts, MINUTE)
    assert bars.heights.size <= _MOST_BARS
    assert bars.heights.max() == max(sparse.values())
    assert bars.edges_ms[0] == times[0]
    assert bars.edges_ms[-1] == times[-1] + MINUTE
    marks = marks_of(times, counts, times, MINUTE)
    assert np.array_equal(bars.hold(marks.middles_ms), bars.heights > 0)
    edges, heights = bars.runs(bars.heights >= 0)
    assert np.all(np.diff(heights) != 0)
    spans = np.diff(edges)
    assert np.dot(heights, spans) == np.dot(bars.heights, np.diff(bars.edges_ms))
