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
from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings
from kstoolkit.pipeline.story import LevelCounts, UserHistory
from kstoolkit.plots.marks import _MOST_BARS, MOST_MARKERS, bars_of, marks_of
from kstoolkit.plots.palette import COUNTED, EXPECTED, FLAGGED, INK
from kstoolkit.plots.users import plot_history, plot_many_counts
from kstoolkit.records import Records
from kstoolkit.replica.records import UserCounts
from kstoolkit.windows import as_window

MINUTE, HOUR = 60_000, 3_600_000
MORNING = 1_442_016_000_000
HOURS = MORNING + np.arange(24) * HOUR
COUNTS = np.where(np.arange(24) == 10, 61, 7)


def burst(*, ax: Any = None, **changes: Any) -> Any:
    told: dict[str, Any] = {"window": as_window("1 hour"), "times_ms": HOURS, "counts": COUNTS}
    told |= {"expected_low": 2, "expected_high": 14, "flagged_ms": HOURS[10:11]}
    level, none = LevelCounts(**(told | changes)), Findings(FINDINGS_SCHEMA.empty_table())
    history = UserHistory(user="Anna", action="read", levels=(level,), findings=none)
    return plot_history(history, ax=ax)


def colored(artists: Any, color: str) -> list[Any]:
    return [item for item in artists if to_rgb(item.get_facecolor()[:3]) == to_rgb(color)]


def texts(axes: Any) -> list[str]:
    return [item.get_text() for item in axes.texts]


def test_the_expected_range_is_a_band_with_its_numbers_beside_it() -> None:
    axes = burst()
    (band,) = colored(axes.patches, EXPECTED)
    assert band.get_height() / band.get_y() == pytest.approx(12 / 2)
    assert "expected 2\u201314" in texts(axes)


def test_what_was_expected_of_one_window_is_a_band_at_that_window() -> None:
    at = (int(HOURS[10]), int(HOURS[11]))
    axes = burst(expected_at_ms=at)
    (band,) = colored(axes.patches, EXPECTED)
    begin, end = band.get_window_extent().intervalx
    told = axes.transData.inverted().transform([(begin, 0), (end, 0)])[:, 0] * 86_400_000
    assert told == pytest.approx(at, rel=1e-9)
    assert band.get_height() / band.get_y() == pytest.approx(12 / 2)
    times, counts = MORNING + np.arange(2_400) * HOUR, np.full(2_400, 7)
    (seen,) = colored(burst(times_ms=times, counts=counts, expected_at_ms=at).patches, EXPECTED)
    assert 1 / 60 < seen.get_width() < 1 / 30  # of the whole width, so that an hour can be seen


def test_an_unknown_range_draws_no_band() -> None:
    assert not colored(burst(expected_low=None, expected_high=None).patches, EXPECTED)


def test_a_ceiling_is_a_dashed_line_with_its_number() -> None:
    axes = burst(ceiling=100, expected_high=None)
    (line,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert line.get_color() == FLAGGED
    assert "ceiling 100" in texts(axes)


def test_flagged_windows_differ_by_marker_and_by_colour_and_say_their_count() -> None:
    axes = burst()
    (marks,) = [line for line in axes.lines if line.get_marker() == "v"]
    assert marks.get_color() == FLAGGED
    assert marks.get_xdata()[0] == pytest.approx((HOURS[10] + HOUR / 2) / 86_400_000)
    assert "61" in texts(axes)
    counted, flagged = axes.patches[0], axes.patches[1]
    assert to_rgb(counted.get_facecolor()[:3]) == to_rgb(COUNTED)
    assert max(flagged.get_data().values) / max(counted.get_data().values) == pytest.approx(61 / 7)


def test_it_is_ink_on_paper_and_its_colours_suit_dark_pages_too() -> None:
    axes = burst()
    axes.figure.canvas.draw()
    pixels = np.asarray(axes.figure.canvas.buffer_rgba())
    assert pixels[0, 0].tolist() == [255] * 4
    assert axes.patch.get_alpha() == 0
    assert contrast(INK, "#ffffff") >= 7
    for page in ("#ffffff", "#111111"):
        assert min(contrast(color, page) for color in (COUNTED, EXPECTED, FLAGGED)) >= 3


def contrast(one: str, other: str) -> float:
    def luminance(color: str) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
        return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_many_windows_are_thinned_and_the_figure_says_so() -> None:
    minutes = MORNING + np.arange(2_880) * MINUTE
    told = {"times_ms": minutes, "counts": np.arange(2_880) % 7, "flagged_ms": minutes[:80]}
    axes = burst(window=as_window("1 minute"), **told)
    assert axes.patches[0].get_data().values.size <= _MOST_BARS
    label = axes.get_xlabel()
    assert "2,880 windows drawn as 480 bars: each is the highest of 6 windows" in label
    assert f"the highest {MOST_MARKERS} of 80 flagged windows" in label


def test_a_flagged_window_without_a_count_is_announced() -> None:
    assert "without a count, not drawn: 1" in burst(flagged_ms=np.array([5])).get_xlabel()


def test_it_draws_where_it_is_told_and_returns_that() -> None:
    axes = Figure().add_subplot()
    assert burst(ax=axes) is axes


def over_time(lengths_ms: list[int], *, apart_ms: int = MINUTE, ax: Any = None) -> Any:
    """Draw one user's counts in windows of these lengths, which begin so long after each other."""
    starts = [MORNING + n * apart_ms for n in range(len(lengths_ms))]
    told = zip(starts, lengths_ms, strict=True)
    each = [UserCounts("Anna", at, at + n, {"read": 5 + n // MINUTE}, 0) for at, n in told]
    return plot_many_counts(Records(each, "users' counts"), ax=ax)


def test_one_user_s_counts_over_time_stand_where_their_windows_do() -> None:
    axes = over_time([MINUTE] * 3)
    edges = axes.patches[0].get_data().edges * 86_400_000
    assert edges[[0, -1]] == pytest.approx([MORNING, MORNING + 3 * MINUTE])
    assert axes.get_title(loc="left") == "Anna: 18 events in 3 windows, 6 in the busiest"
    assert "6" in [each.get_text() for each in axes.get_yticklabels()]


def test_sessions_over_time_are_as_long_as_they_lasted() -> None:
    axes = over_time([2 * MINUTE, 5 * MINUTE], apart_ms=HOUR)
    edges, heights = axes.patches[0].get_data().edges, axes.patches[0].get_data().values
    assert np.diff(edges)[heights > 0] * 86_400_000 == pytest.approx([2 * MINUTE, 5 * MINUTE])


def test_windows_without_a_length_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="0 ms apart"):
        bars_of(HOURS, COUNTS, 0)


def test_pyplot_with_its_global_state_stays_unloaded_where_axes_are_given() -> None:
    script = (
        "import sys, kstoolkit.plots.users as p; from matplotlib.figure import Figure; "
        "from kstoolkit.replica.records import UserCounts; "
        "p.plot_counts(UserCounts('a', 0, 60000, {'b': 1}, 0), ax=Figure().add_subplot()); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "False"


@given(st.dictionaries(st.integers(0, 20_000), st.integers(1, 10**9), min_size=1, max_size=60))
def test_bars_are_few_keep_the_highest_and_hold_every_window(sparse: dict[int, int]) -> None:
    windows = sorted(sparse)
    times = MORNING + np.array(windows) * MINUTE
    counts = np.array([sparse[window] for window in windows])
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
