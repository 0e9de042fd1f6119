"""When records are due: by a rate, by their event time, and by neither's worst records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.kafka.producing import _LONGEST_GAP_MS, Pace, _parse_speed

TIMES = st.lists(st.one_of(st.none(), st.integers(-(10**14), 10**14)), max_size=40)


def due(pace: Pace, *times: int | None) -> list[float]:
    known = np.array([each is not None for each in times], np.bool_)
    time_ms = np.array([each or 0 for each in times], np.int64)
    return [float(each) for each in pace.schedule(time_ms, known)]


def test_event_time_passes_at_the_speed() -> None:
    assert due(Pace(rate=None, speed=60), 0, 60_000, 90_000) == [0, 1, 1.5]
    assert due(Pace(rate=None, speed=0.5), 1_000, 1_500) == [0, 1]


def test_a_late_event_goes_at_once_and_one_without_a_time_with_the_one_before_it() -> None:
    times = (None, 0, 10_000, None, 2_000, 11_000)
    assert due(Pace(rate=None, speed=1), *times) == [0, 0, 10, 10, 10, 11]


def test_nobody_waits_for_a_time_that_is_far_off() -> None:
    times = (10**12, 10**12 + 1_000, 0, 10**12 + 2_000, 9 * 10**12, 10**12 + 4_000)
    assert due(Pace(rate=None, speed=1), *times) == [0, 1, 1, 1, 1, 1]
    week = 7 * _LONGEST_GAP_MS
    assert due(Pace(rate=None, speed=1), 0, 1_000, week, week + 1_000) == [0, 1, 1, 2]


def test_a_rate_spreads_records_evenly() -> None:
    assert due(Pace(rate=4, speed=None), *[0] * 4) == [0, 0.25, 0.5, 0.75]


def test_both_hold_at_once() -> None:
    found = due(Pace(rate=1, speed=1), 0, 0, 0, 10_000, 10_000)
    assert found == [0, 1, 2, 10, 11]


@given(TIMES, st.integers(0, 40), st.sampled_from([None, 2.5]), st.sampled_from([None, 30.0]))
def test_it_does_not_matter_how_records_come_in(
    times: list[int | None], cut: int, rate: float | None, speed: float | None
) -> None:
    at_once = due(Pace(rate=rate, speed=speed), *times)
    in_two = Pace(rate=rate, speed=speed)
    assert due(in_two, *times[:cut]) + due(in_two, *times[cut:]) == pytest.approx(at_once)


@given(TIMES, st.sampled_from([None, 2.5]), st.sampled_from([None, 30.0]))
def test_records_are_due_in_their_order_and_at_most_so_many_a_second(
    times: list[int | None], rate: float | None, speed: float | None
) -> None:
    found = np.array(due(Pace(rate=rate, speed=speed), *times))
    assert (np.diff(found) >= (0 if rate is None else 1 / rate) - 1e-6).all()
    assert (found >= 0).all()


def test_what_was_missed_is_not_made_up_for_where_there_is_a_rate() -> None:
    pace = Pace(rate=1_000, speed=None)
    assert pace.elapsed_s == pytest.approx(0, abs=5)
    pace.forgive(-100)
    assert pace.elapsed_s < -95
    at_speed = Pace(rate=None, speed=1)
    assert at_speed.elapsed_s >= 0
    at_speed.forgive(-100)
    assert at_speed.elapsed_s >= 0


@pytest.mark.parametrize("speed", ["", "x", "-1", "0x", "inf", "nan", float("inf"), -2, 0, "1e400"])
def test_a_speed_that_is_none_is_said(speed: str | float) -> None:
    with pytest.raises(ConfigurationError, match="is no factor of event time"):
        _parse_speed(speed)


@pytest.mark.parametrize(
    ("speed", "factor"), [("60x", 60), (" 1.5 X ", 1.5), (2, 2), (0.25, 0.25), ("10", 10)]
)
def test_a_speed_is_a_number_with_or_without_an_x(speed: str | float, factor: float) -> None:
    assert _parse_speed(speed) == factor
