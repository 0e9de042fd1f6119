"""Which records a batch dies of, and the list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.pipeline.topicfeed import _MOST_FOUND, SkipList, bisect

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.topicfeed import Ranges

OFFSETS = st.sets(st.integers(100, 400), max_size=_MOST_FOUND // 2)


@given(st.fixed_dictionaries({0: OFFSETS, 3: OFFSETS}))
def test_each_culprit_is_found_and_nothing_else(bad: dict[int, set[int]]) -> None:
    def works(tried: Ranges) -> bool:
        return not any(bad[each] & set(range(*span)) for each, span in tried.items())

    found = bisect(works, {0: (100, 401), 3: (90, 401)})
    assert found == {each: sorted(offsets) for each, offsets in bad.items() if offsets}


def test_a_few_trials_find_one_among_a_million() -> None:
    tried: list[Ranges] = []

    def works(ranges: Ranges) -> bool:
        tried.append(ranges)
        return not any(first <= 765_432 < end for first, end in ranges.values())

    assert bisect(works, {0: (0, 1_000_000), 1: (0, 9)}) == {0: [765_432]}
    assert len(tried) < 35


def test_what_fails_for_every_record_is_no_fault_of_records() -> None:
    tried: list[Ranges] = []

    def fails(ranges: Ranges) -> bool:
        tried.append(ranges)
        return False

    assert bisect(fails, {0: (0, 1_000_000)}) == {}
    assert len(tried) < 100
    assert bisect(fails, {0: (0, 2), 1: (5, 7)}) == {}
    assert bisect(fails, {0: (4, 5)}) == {0: [4]}  # alone, it can't be told from the rest


def test_what_fails_together_only_has_no_culprit() -> None:
    assert bisect(lambda tried: 0 not in tried or tried[0] != (0, 8), {0: (0, 8)}) == {}


def test_the_list_grows_and_is_of_one_topic(tmp_path: Path) -> None:
    mine = SkipList(tmp_path / "skip.json", "one")
    assert mine.read() == {}
    mine.add({0: [7]})
    mine.add({0: [3, 7], 2: [1]})
    assert mine.read() == {0: (3, 7), 2: (1,)}
    assert SkipList(tmp_path / "skip.json", "another").read() == {}
