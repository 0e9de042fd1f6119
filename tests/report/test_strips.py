"""Strips: where moments stand, what is drawn of counts, and what is said beside it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings
from kstoolkit.pipeline.story import LevelCounts, UserHistory
from kstoolkit.report.strips import Axis, strips
from kstoolkit.windows import as_window
from tests.changelog.changelogs import HOUR, MINUTE

DAY = 24 * HOUR
TEN = 1_442_052_000_000  # 10:00 on 12 September 2015
OF_AN_HOUR = as_window("1 hour")


def drawn(axis: Axis, **told: Any) -> str:
    times = TEN + np.arange(3) * HOUR
    given_: dict[str, Any] = {
        "window": OF_AN_HOUR,
        "times_ms": times,
        "counts": np.array([4, 0, 8]),
    }
    given_ |= {"flagged_ms": times[2:]} | told
    none = Findings(FINDINGS_SCHEMA.empty_table())
    history = UserHistory(user="a", action="b", levels=(LevelCounts(**given_),), findings=none)
    return strips(history, axis, [])


def path_of(html: str, kind: str) -> str:
    (path,) = re.findall(rf'<path d="([^"]*)" class="{kind}">', html)
    return str(path)


def labels(since_ms: int, until_ms: int) -> list[str]:
    return re.findall(">([^<]+)</span>", Axis(since_ms, until_ms).html())


def test_bars_are_as_high_as_their_counts_and_stand_where_their_windows_do() -> None:
    html = drawn(Axis(TEN, TEN + 4 * HOUR))
    assert path_of(html, "count") == "M0.0 100V50.0H250.0V100"
    assert path_of(html, "flag") == "M500.0 100V0.0H750.0V100"


def test_only_windows_of_the_time_that_is_shown_count() -> None:
    html = drawn(Axis(TEN, TEN + HOUR // 2))
    assert "1 hour: up to 4, 0 windows flagged" in html
    assert path_of(html, "count") == "M0.0 100V0.0H2000.0V100"


def test_a_range_and_a_ceiling_are_drawn_on_the_scale_of_the_counts_and_said() -> None:
    html = drawn(Axis(TEN, TEN + 4 * HOUR), expected_low=2, expected_high=4, ceiling=16)
    assert path_of(html, "expected") == "M0.0 75.0H1000.0V87.5H0.0z"
    assert path_of(html, "ceiling") == "M0 0.0H1000"
    told = re.sub("<[^>]*>", " ", html).split()
    assert " ".join(told).startswith("1 hour up to 8 expected 2\N{EN DASH}4 ceiling 16")


def test_what_was_expected_of_one_window_is_drawn_at_that_one() -> None:
    at = (TEN + HOUR, TEN + 2 * HOUR)
    html = drawn(Axis(TEN, TEN + 4 * HOUR), expected_low=2, expected_high=4, expected_at_ms=at)
    assert path_of(html, "expected") == "M250.0 50.0H500.0V75.0H250.0z"
    assert "expected 2\N{EN DASH}4" in html


def test_many_windows_are_thinned_and_none_higher_is_lost() -> None:
    minutes = TEN + np.arange(10_000) * MINUTE
    counts = np.arange(10_000) % 97
    told = {"window": as_window("1 minute"), "times_ms": minutes, "counts": counts}
    html = drawn(Axis(TEN, TEN + 10_000 * MINUTE), **told, flagged_ms=minutes[:0])
    heights = re.findall(r"V([\d.]+)H", path_of(html, "count"))
    assert len(heights) <= 500
    assert "0.0" in heights
    assert "up to 96" in html


def test_without_counts_a_strip_says_so() -> None:
    none = np.array([], np.int64)
    html = drawn(Axis(TEN, TEN + HOUR), times_ms=none, counts=none, flagged_ms=none)
    assert "up to 0" in html
    assert 'class="count"' not in html


@pytest.mark.parametrize(
    ("length_ms", "said"),
    [
        (5 * MINUTE, ["10:01", "10:02", "10:03", "10:04"]),
        (13 * HOUR, ["12:00", "15:00", "18:00", "21:00"]),
        (2 * DAY, ["13 Sep", "12:00", "14 Sep"]),
        (30 * DAY, ["17 Sep", "24 Sep", "1 Oct", "8 Oct"]),
        (3 * 365 * DAY, ["Dec 2015", "Dec 2016", "Dec 2017"]),
    ],
)
def test_an_axis_has_few_round_labels(length_ms: int, said: list[str]) -> None:
    assert labels(TEN, TEN + length_ms) == said


@given(st.integers(-(10**14), 10**14), st.integers(0, 10**14))
def test_an_axis_of_any_time_has_labels_that_fit_or_none(since_ms: int, length_ms: int) -> None:
    html = Axis(since_ms, since_ms + length_ms).html()
    places = [float(each) for each in re.findall(r"left: ([\d.]+)%", html)]
    assert places == sorted(places)
    assert len(places) <= 5
    assert all(0 < each < 100 for each in places)
