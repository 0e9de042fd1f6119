from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.streams.segments import (
    segment_interval_ms,
    segment_start_ms,
)

stores = st.text("ab.:-19_", min_size=1)


@given(st.text(max_size=9) | stores, st.text("0123456789.:-ab", max_size=25) | st.text(max_size=9))
def test_any_folder_is_a_segment_or_none(store: str, ending: str) -> None:
    for folder in (ending, store + ending):
        start_ms = segment_start_ms(store, folder)
        assert start_ms is None or -(2**63) < start_ms < 2**63


@given(stores, st.integers(-(2**62), 2**62))
def test_folders_come_back(store: str, start_ms: int) -> None:
    assert segment_start_ms(store, f"{store}.{start_ms}") == start_ms


@pytest.mark.parametrize(
    "folder",
    ["202311142300", "counts-202311142300", "counts:1700002800000", "counts.1700002800000"],
)
def test_folders_of_every_age_say_where_they_begin(folder: str) -> None:
    assert segment_start_ms("counts", folder) == 1_700_002_800_000


@pytest.mark.parametrize(
    "folder",
    [
        *("", "counts", "counts.", "counts.x", "counts-1700002800000", "count.1", "counts2.1"),
        *("202313142300", "counts-202302302300", "counts.99999999999999999999", "counts.+1"),
        *("counts.9999999999999999999", "counts.1_0", "counts.\u0661", "counts.1\n"),
    ],
)
def test_other_folders_are_no_segments(folder: str) -> None:
    assert segment_start_ms("counts", folder) is None


@given(st.integers(1, 10**8), st.lists(st.integers(1, 10**6), min_size=1))
def test_the_interval_found_is_a_multiple_of_the_true_one(interval_ms: int, ids: list[int]) -> None:
    found = segment_interval_ms([each * interval_ms for each in ids])
    assert found is not None
    assert found % interval_ms == 0


@given(st.integers(1, 10**8), st.integers(1, 10**6))
def test_of_two_neighbours_it_is_the_true_one(interval_ms: int, number: int) -> None:
    starts = [number * interval_ms, (number + 1) * interval_ms]
    assert segment_interval_ms(starts) == interval_ms


@pytest.mark.parametrize("starts", [[], [0]])
def test_nothing_is_known_of_no_segment_or_of_one_that_never_ends(starts: list[int]) -> None:
    assert segment_interval_ms(starts) is None
