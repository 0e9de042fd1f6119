from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.stores.growth.clock import (
    Between,
    interval_of,
    interval_of_starts,
    live_segments,
    retention_of,
)

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
retentions = st.integers(1, 10_000_000_000) | st.integers(1, 300_000)


@given(retention=retentions, versioned=st.booleans())
def test_the_retention_lies_within_what_its_own_segments_speak_for(
    *, retention: int, versioned: bool
) -> None:
    interval = interval_of(retention, is_versioned=versioned)
    found = retention_of(Between(interval, interval), is_versioned=versioned)
    assert found is not None
    assert found.least_ms <= retention <= found.most_ms
    for edge in (found.least_ms, found.most_ms):
        assert interval_of(edge, is_versioned=versioned) == interval
    assert interval_of(found.most_ms + 1, is_versioned=versioned) != interval
    assert (
        found.least_ms == 0 or interval_of(found.least_ms - 1, is_versioned=versioned) != interval
    )


@given(retention=retentions, versioned=st.booleans(), near=st.booleans())
def test_segments_never_get_shorter_when_the_retention_gets_longer(
    *, retention: int, versioned: bool, near: bool
) -> None:
    longer = retention + (1 if near else 3_600_001)
    assert interval_of(retention, is_versioned=versioned) <= interval_of(
        longer, is_versioned=versioned
    )


@pytest.mark.parametrize(
    ("retention_ms", "interval_ms"),
    [
        (3_600_000, 1_800_000),
        (945_000, 472_500),
        (150_000, 75_000),
        (60_000, 60_000),
        (7_200_000, 3_600_000),
    ],
)
def test_intervals_are_those_of_real_window_stores(retention_ms: int, interval_ms: int) -> None:
    assert interval_of(retention_ms) == interval_ms
    found = retention_of(Between(interval_ms, interval_ms))
    assert found is not None
    assert found.likely_ms == (None if interval_ms == MINUTE_MS else retention_ms)


def test_intervals_are_those_of_real_versioned_stores() -> None:
    assert interval_of(3_600_000, is_versioned=True) == 300_000
    assert interval_of(1_800_000, is_versioned=True) == 150_000
    found = retention_of(Between(150_000, 150_000), is_versioned=True)
    assert found == Between(1_800_000, 1_800_011)


@given(st.integers(60_000, 10_000_000), st.sets(st.integers(0, 500_000), min_size=2, max_size=8))
def test_the_interval_lies_within_what_the_starts_tell(interval: int, numbers: set[int]) -> None:
    found = interval_of_starts(
        [number * interval for number in numbers], longest_stay_ms=interval - 1
    )
    assert found is not None
    assert found.least_ms <= interval <= found.most_ms
    assert found.most_ms % interval == 0


def test_rows_at_the_end_of_a_segment_tell_that_it_is_not_shorter() -> None:
    starts = [0, 2 * HOUR_MS]
    assert interval_of_starts(starts) == Between(60_000, 2 * HOUR_MS)
    assert interval_of_starts(starts, longest_stay_ms=50 * MINUTE_MS) == Between(
        60 * MINUTE_MS, 2 * HOUR_MS
    )
    assert interval_of_starts(starts, longest_stay_ms=2 * HOUR_MS - 1) == Between(
        2 * HOUR_MS, 2 * HOUR_MS
    )


def test_one_segment_or_rows_elsewhere_tell_nothing() -> None:
    assert interval_of_starts([HOUR_MS]) is None
    assert interval_of_starts([]) is None
    assert interval_of_starts([0, HOUR_MS], longest_stay_ms=HOUR_MS) is None


def test_names_of_any_size_are_taken() -> None:
    assert interval_of_starts([2**62, 2**63 - 2**62]) is None
    assert interval_of_starts([2**62, 2**61]) == Between(60_000, 2**61)
    assert interval_of_starts([-HOUR_MS, HOUR_MS]) == Between(60_000, HOUR_MS)


@given(st.integers(0, 2**41), retentions)
def test_live_segments_are_those_from_the_oldest_live_row_on(time: int, retention: int) -> None:
    interval = interval_of(retention)
    count = live_segments(time, retention, interval)
    expected = len(range((time - retention) // interval, time // interval + 1))
    assert count == expected
    assert 1 <= count <= 4
    if retention >= 120_000 and retention % 2 == 0:
        assert count == 3


def test_a_likely_length_is_the_shortest_or_the_only_whole_minute() -> None:
    assert Between(100, 101).likely_ms == 100
    assert Between(119_000, 121_000).likely_ms == 120_000
    assert Between(100_000, 200_000).likely_ms is None
    assert Between(61_000, 119_000).likely_ms is None
