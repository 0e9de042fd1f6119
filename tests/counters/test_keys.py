from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.counters.keys import PackedKeys

Key = tuple[int, int, int]
CODES = st.integers(0, 2**31 - 2)
STARTS = st.integers(-(2**63), 2**63 - 1)

CLOSE = st.tuples(st.integers(0, 50), st.integers(-(10**6), 10**6), st.integers(0, 9))
"""Few users, actions and times: packed by the millisecond."""

MINUTES = st.tuples(CODES, st.integers(-(10**6), 10**6).map(lambda m: m * 60_000), CODES)
"""Many users and actions, times a minute apart: packed by the step."""

ANYTHING = st.tuples(CODES, STARTS, CODES)
"""Too much for 63 bits: pairs are numbered."""


def columns_of(keys: list[Key]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    user, start_ms, action = zip(*keys, strict=True)
    return np.array(user, np.int32), np.array(start_ms, np.int64), np.array(action, np.int32)


@pytest.mark.parametrize("kind", [CLOSE, MINUTES, ANYTHING], ids=["close", "minutes", "anything"])
def test_packed_keys_sort_like_the_three_and_read_back(kind: st.SearchStrategy[Key]) -> None:
    @given(st.lists(kind, min_size=1, max_size=40))
    def check(rows: list[Key]) -> None:
        keys = PackedKeys.of(*columns_of(rows))
        assert (keys.packed >= 0).all()
        order = np.argsort(keys.packed, kind="stable")
        assert [rows[place] for place in order] == sorted(rows)
        read = zip(*(column.tolist() for column in keys.unpack(keys.packed)), strict=True)
        assert list(read) == rows
        assert len(np.unique(keys.packed)) == len(set(rows))

    check()


def test_close_times_are_packed_by_the_millisecond() -> None:
    keys = PackedKeys.of(*columns_of([(3, 1_000, 1), (2, 1_007, 0)]))
    assert (keys.step_ms, keys.pairs) == (1, None)


def test_times_far_apart_are_packed_by_their_common_step() -> None:
    far_ms = 60_000 * 2**30
    keys = PackedKeys.of(*columns_of([(2**24, 0, 3), (1, far_ms, 0), (1, 60_000, 0)]))
    assert (keys.step_ms, keys.pairs) == (60_000, None)


def test_one_time_alone_needs_no_step() -> None:
    most = 2**31 - 2
    keys = PackedKeys.of(*columns_of([(most, 5, 2**30), (0, 5, 1)]))
    assert keys.unpack(keys.packed)[1].tolist() == [5, 5]


def test_what_fits_no_step_is_packed_by_numbering_its_pairs() -> None:
    keys = PackedKeys.of(*columns_of([(2**30, -(2**63), 2**30), (0, 2**63 - 1, 0), (7, 0, 1)]))
    assert keys.pairs is not None
    assert keys.unpack(keys.packed)[1].tolist() == [-(2**63), 2**63 - 1, 0]
