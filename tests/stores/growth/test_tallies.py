from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.stores.growth.tallies import TimeTally

LAST = 2**63 - 1

moments = st.integers(-50, 5000) | st.integers(-LAST - 1, LAST)
parts_of_rows = st.lists(st.lists(st.tuples(moments, st.integers(0, 50)), max_size=15), max_size=8)
Rows = list[tuple[int, int]]


def fed(tally: TimeTally, parts: list[Rows]) -> TimeTally:
    for rows in parts:
        times = np.array([time for time, _ in rows], dtype=np.int64)
        tally.add(times, np.array([size for _, size in rows], dtype=np.int64))
    return tally


@given(parts_of_rows, moments)
def test_with_room_for_all_moments_a_cut_is_exact(parts: list[Rows], cut: int) -> None:
    below = fed(TimeTally(), parts).spans().below(cut)
    rows = [row for part in parts for row in part]
    assert below.num_rows == sum(time < cut for time, _ in rows)
    assert below.data_bytes == sum(size for time, size in rows if time < cut)
    assert (below.error_rows, below.error_bytes) == (0, 0)


@given(parts_of_rows, moments | st.integers(-(2**70), 2**70), st.integers(2, 9))
def test_with_little_room_the_truth_lies_within_the_error(
    parts: list[Rows], cut: int, most: int
) -> None:
    spans = fed(TimeTally(most_spans=most), parts).spans()
    rows = [row for part in parts for row in part]
    below = spans.below(cut)
    expected_rows = sum(time < cut for time, _ in rows)
    expected_bytes = sum(size for time, size in rows if time < cut)
    assert below.num_rows <= expected_rows <= below.num_rows + below.error_rows
    assert below.data_bytes <= expected_bytes <= below.data_bytes + below.error_bytes
    assert len(spans) <= most
    assert int(spans.num_rows.sum()) == len(rows)
    assert int(spans.data_bytes.sum()) == sum(size for _, size in rows)


@given(parts_of_rows)
def test_sums_by_moment_are_those_of_a_dict(parts: list[Rows]) -> None:
    spans = fed(TimeTally(), parts).spans()
    expected: dict[int, int] = {}
    for time, size in (row for part in parts for row in part):
        expected[time] = expected.get(time, 0) + size
    assert dict(zip(spans.number.tolist(), spans.data_bytes.tolist(), strict=True)) == expected
