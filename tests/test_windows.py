from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.windows import Cascade, Hop, Window, as_window

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES_MS = st.integers(min_value=-(10**14), max_value=10**14)


@given(TIMES_MS, st.integers(1, 10**9), st.integers(1, 60))
def test_the_latest_window_of_a_time_holds_it_and_is_aligned_to_the_epoch(
    time_ms: int, every_ms: int, panes: int
) -> None:
    start_ms = Window(every_ms * panes, every_ms).start_of(time_ms)
    assert start_ms <= time_ms < start_ms + every_ms
    assert start_ms % every_ms == 0


@given(TIMES_MS, st.integers(1, 10**5), st.integers(0, 10**5))
def test_the_windows_of_a_time_begin_from_the_first_to_the_latest_that_holds_it(
    time_ms: int, every_ms: int, longer_ms: int
) -> None:
    window = Window(every_ms + longer_ms, every_ms)
    first_ms, last_ms = window.first_of(time_ms), window.start_of(time_ms)
    assert first_ms <= time_ms < first_ms + window.size_ms
    assert first_ms - every_ms + window.size_ms <= time_ms
    assert first_ms % every_ms == 0
    assert len(range(first_ms, last_ms + 1, every_ms)) in {window.copies, window.copies - 1}
    assert all(each % window.pane_ms == 0 for each in (first_ms, first_ms + window.size_ms))


@given(TIMES_MS, st.lists(st.integers(2, 60), min_size=1, max_size=4))
def test_every_window_lies_in_exactly_one_of_the_next_level(
    time_ms: int, factors: list[int]
) -> None:
    sizes = [1_000]
    for factor in factors:
        sizes.append(sizes[-1] * factor)
    cascade = Cascade(*sizes)
    starts = [window.start_of(time_ms) for window in cascade.windows]
    for level in range(1, len(sizes)):
        assert cascade.windows[level].start_of(starts[level - 1]) == starts[level]
        last_ms = starts[level - 1] + sizes[level - 1] - 1
        assert cascade.windows[level].start_of(last_ms) == starts[level]


@pytest.mark.parametrize(
    "window",
    [
        Window(60_000, 60_000),
        Hop("5 minutes", every="1 minute"),
        Hop("5 seconds", every="2 seconds"),
        Hop("2.5 seconds", every="700 ms"),
    ],
)
def test_a_label_reads_back_as_the_window(window: Window) -> None:
    assert as_window(window.label) == window


def test_a_bare_length_is_a_tumbling_window() -> None:
    assert as_window("1 hour").is_tumbling
    assert not Hop("1 hour", every="1 minute").is_tumbling


@pytest.mark.parametrize("sizes", [(0, 1), (-5, -5), (5_000, 0)])
def test_a_window_without_a_length_is_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(ConfigurationError, match="There is no window of"):
        Window(*sizes)


def test_a_hop_that_leaves_gaps_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"every='7 seconds'\) leaves gaps between"):
        Hop("5 seconds", every="7 seconds")


@pytest.mark.parametrize(
    "given",
    [
        lambda: Hop("1 day", every="1 second"),
        lambda: Cascade("1 minute", "1 day every 1 second"),
        lambda: Cascade("1 minute", Hop("1 day", every="1 second")),
    ],
)
def test_a_hop_that_makes_too_many_counters_of_an_event_is_refused_with_the_figure(
    given: Callable[[], object],
) -> None:
    told = r"Hop\('1 day', every='1 second'\) makes 86,400 counters of one event; 1,000 at most"
    with pytest.raises(ConfigurationError, match=told):
        given()


def test_a_thousand_counters_of_an_event_are_not_too_many() -> None:
    assert Hop("1000 seconds", every="1 second").copies == 1_000
    with pytest.raises(ConfigurationError, match="makes 1,001 counters"):
        Hop(1_000_001, every=1_000)


def test_what_was_counted_before_there_was_a_limit_can_still_be_named() -> None:
    window = as_window("1 day every 1 minute")
    assert window.copies == 1_440
    assert Cascade("1 minute", window).labels == ("1 minute", "1 day every 1 minute")


def test_a_cascade_has_the_usual_three_levels_by_default() -> None:
    assert Cascade().labels == ("1 minute", "1 hour", "1 day")


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        (("1 minute", "7 minutes", "1 hour"), "7 minutes does not divide 1 hour"),
        (("1 hour", "1 minute"), "1 hour does not divide 1 minute"),
        (("1 hour", "1 hour"), "1 hour does not divide 1 hour"),
        (
            ("1 minute", "5 minutes every 1 minute", "5 minutes every 1 minute"),
            "one length is named twice",
        ),
    ],
)
def test_windows_that_do_not_nest_are_refused_with_the_reason(
    windows: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Cascade(*windows)


def test_panes_are_the_grain_that_all_windows_are_sums_of() -> None:
    assert Cascade("1 minute", Hop("5 minutes", every="1 minute"), "1 hour").pane_ms == 60_000
    assert Cascade(Hop("90 seconds", every="30 seconds")).pane_ms == 30_000
    assert Cascade("1 minute", Hop("5 minutes", every="40 seconds")).pane_ms == 20_000
    assert Cascade(Hop("5 seconds", every="2 seconds"), "1 minute").pane_ms == 1_000


def test_a_level_takes_its_counts_from_the_longest_window_that_fits() -> None:
    cascade = Cascade("1 minute", Hop("15 minutes", every="5 minutes"), "1 hour", "1 day")
    assert [cascade.parent(level) for level in range(4)] == [None, 0, 0, 2]
    odd = Cascade("1 minute", Hop("7 minutes", every="2 minutes"), Hop("150 s", every="1 minute"))
    assert [odd.parent(level) for level in range(3)] == [None, 0, None]


def test_options_name_a_level_or_go_for_all() -> None:
    assert Cascade("1 minute", "1 hour", retention=5).retention == (5, 5)
    cascade = Cascade("1 minute", "1 hour", min_count={"1 minute": 3}, lateness={"1 hour": "1 day"})
    assert cascade.min_count == (3, 1)
    assert cascade.lateness_ms == (None, 86_400_000)


def test_longer_windows_are_flushed_less_often_but_every_ten_minutes_at_least() -> None:
    assert Cascade("1 minute", "1 hour", "1 day").flush_ms == (0, 60_000, 600_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retention": 0}, "0 is not a positive number"),
        ({"min_count": {"1 hour": -1}}, "-1 is not a positive number"),
        ({"max_counters_per_flush": 0}, "0 is not a positive number"),
        ({"flush": {"5 minutes": "1 s"}}, "no window '5 minutes'"),
        ({"lateness": "soon"}, "'soon' is not a duration"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Cascade(**options)


def test_a_level_is_found_by_its_window() -> None:
    cascade = Cascade("1 minute", "1 hour")
    assert cascade.index("60 minutes") == 1
    with pytest.raises(ConfigurationError, match=r"no window '1 day'\.\nHint: It has: 1 minute"):
        cascade.index("1 day")


def test_equal_cascades_are_equal_and_can_be_keys() -> None:
    assert len({Cascade("1 minute", "1 hour"), Cascade("60 s", "60 minutes")}) == 1
