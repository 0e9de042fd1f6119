"""Segments, of which each may have what came since beside it: judged by plain sums.

The properties of a whole bucket hold of segments as small as these, too: they are run again so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.counters import bucket
from kstoolkit.counters.bucket import Place, Segments
from kstoolkit.counters.counters import Counters
from tests.counters.test_bucket import (
    test_a_bounded_run_counts_what_a_plain_group_by_counts as test_of_a_bounded_run,  # noqa: F401
)
from tests.counters.test_bucket import (
    test_a_live_run_counts_the_same_whatever_it_holds_back as test_of_a_live_run,  # noqa: F401
)
from tests.counters.test_bucket import (
    test_runs_may_be_live_and_bounded_in_turn as test_of_runs_in_turn,  # noqa: F401
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH_MS, WINDOW_MS = 600, 100
ROW = st.tuples(
    st.sampled_from("abcdef"),
    st.integers(0, 59).map(lambda n: n * WINDOW_MS),
    st.sampled_from("xy"),
)
CAME = st.lists(ROW, min_size=1, max_size=12)
Row = tuple[str, int, str]


SMALL = {"_LARGE": 4, "_SHARE": 0.25, "_MOST_BESIDE": 3, "_WIDE": 1, "_SMALL": 3, "_LONGEST_ROW": 3}
REAL = {name: getattr(bucket, name) for name in SMALL}


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """Have a segment of four counters be a large one, and up to three segments share a block."""
    with pytest.MonkeyPatch.context() as patched:
        for name, figure in SMALL.items():
            patched.setattr(bucket, name, figure)
        yield


def counted(rows: list[Row]) -> Counters:
    users, starts, actions = zip(*rows, strict=True)
    return Counters.of(np.array(starts), pa.array(users), pa.array(actions))


def sums(counters: Counters) -> dict[Row, int]:
    starts, users, actions, counts = (each.to_pylist() for each in counters.to_batch().columns)
    rows = list(zip(users, starts, actions, strict=True))
    assert len(set(rows)) == len(rows)
    return dict(zip(rows, counts, strict=True))


def end_ms(segments: Segments, key: str) -> int:
    return segments.end_ms(Place.of(key.removeprefix(segments.prefix).split("+")[0]))


@given(st.lists(CAME, min_size=1, max_size=8))
def test_what_changed_was_and_is_and_what_stands_beside_it_is_as_plain_sums_have_it(
    batches: list[list[Row]],
) -> None:
    blocks: dict[str, bytes] = {}
    segments, known = Segments(blocks, "counts/0/", LENGTH_MS), Counter[Row]()
    for rows in batches:
        added = segments.add(counted(rows), whole=True)
        was = dict(zip(sums(added.changed), added.old.tolist(), strict=True))
        assert was == {row: known[row] for row in set(rows)}
        known.update(rows)
        assert sums(added.changed) == {row: known[row] for row in set(rows)}
        touched = {row[:2] for row in rows}
        assert sums(added.whole) == {row: n for row, n in known.items() if row[:2] in touched}
        held = [segments.at(place) for place in segments.places()]
        assert sums(Counters.merge(held)) == known


@given(st.lists(CAME, min_size=1, max_size=8), st.sampled_from([0, 600, 3_000, 6_000]))
def test_closed_segments_are_one_block_and_those_that_are_dropped_leave_none(
    batches: list[list[Row]], before_ms: int
) -> None:
    blocks: dict[str, bytes] = {}
    segments = Segments(blocks, "counts/0/", LENGTH_MS)
    for rows in batches:
        segments.add(counted(rows))
    known = Counter(row for rows in batches for row in rows)
    segments.fold(before_ms)
    open_blocks = [key for key in blocks if "+" in key]
    assert all(end_ms(segments, key) > before_ms for key in open_blocks)
    assert sums(Counters.merge([segments.at(each) for each in segments.places()])) == known
    gone = segments.drop(before_ms, whole=True)
    left = [segments.at(each) for each in segments.places()]
    assert sums(Counters.merge([*gone, *left])) == known
    assert all(row[1] < before_ms for row in sums(Counters.merge(gone)))
    assert all(end_ms(segments, key) > before_ms for key in blocks)


def test_what_comes_for_many_segments_at_once_shares_blocks_until_it_is_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, figure in REAL.items():
        monkeypatch.setattr(bucket, name, figure)
    blocks: dict[str, bytes] = {}
    segments = Segments(blocks, "counts/0/", LENGTH_MS)
    year = [(f"user{n % 10}", n * LENGTH_MS, "x") for n in range(8_760)]
    segments.add(counted(year))
    assert len(blocks) == -(-8_760 // 128)
    assert sum(segments.at(each).total for each in segments.places()) == 8_760
    one = next(iter(blocks))
    assert one == "counts/0/0x128"
    segments.add(counted([(f"user{n}", 0, "x") for n in range(50_000)]))
    assert one in blocks
    segments.add(counted([(f"other{n}", 0, "x") for n in range(50_000)]))
    assert one not in blocks
    assert len(blocks) == -(-8_760 // 128) - 1 + 128
    assert segments.at(Place(0)).total == 100_001


def test_what_is_written_follows_what_came_until_it_is_an_eighth_of_what_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, figure in REAL.items():
        monkeypatch.setattr(bucket, name, figure)
    blocks: dict[str, bytes] = {}
    segments = Segments(blocks, "counts/0/", LENGTH_MS)
    segments.add(counted([(f"user{n}", 0, "x") for n in range(8_000)]))
    whole = blocks["counts/0/0"]
    for turn in range(1, 11):
        segments.add(counted([(f"user{n * turn}", 0, "x") for n in range(100)]))
        assert blocks["counts/0/0"] is whole
        assert len(blocks[f"counts/0/0+{turn}"]) * 12 < len(whole)
    segments.add(counted([("user1", 0, "x")]))
    assert list(blocks) == ["counts/0/0"]
    assert segments.at(Place(0)).total == 8_000 + 10 * 100 + 1
