"""Answers are kept for their time, and failures never."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.operations.lookupcalls import Answer, _LookupCache

if TYPE_CHECKING:
    from collections.abc import Callable


def cache(now: Callable[[], float], max_keys: int = 3) -> _LookupCache:
    return _LookupCache(max_keys, known_ms=10_000, unknown_ms=2_000, now=now)


def test_an_answer_is_good_until_its_time_is_over_and_no_longer() -> None:
    clock = [100.0]
    held = cache(lambda: clock[0])
    held.put("ann", Answer("SE"))
    clock[0] = 109.999
    assert held.get("ann") == Answer("SE")
    clock[0] = 110.0
    assert held.get("ann") is None
    assert len(held) == 0


def test_that_a_key_is_unknown_is_kept_for_a_time_of_its_own() -> None:
    clock = [0.0]
    held = cache(lambda: clock[0])
    held.put("eve", Answer())
    clock[0] = 1.999
    assert held.get("eve") == Answer()
    clock[0] = 2.0
    assert held.get("eve") is None


def test_a_failure_is_not_kept() -> None:
    held = cache(lambda: 0.0)
    held.put("ann", Answer(failure="refused"))
    assert held.get("ann") is None


def test_a_time_of_zero_keeps_nothing() -> None:
    held = _LookupCache(3, known_ms=0, unknown_ms=0, now=lambda: 0.0)
    held.put("ann", Answer("SE"))
    assert len(held) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6))))
def test_the_answers_used_last_are_kept(uses: list[tuple[bool, int]]) -> None:
    held, expected = cache(lambda: 0.0), OrderedDict[int, None]()
    for writes, key in uses:
        if writes:
            held.put(key, Answer(key))
            expected[key] = None
        assert (held.get(key) is not None) == (key in expected)
        if key in expected:
            expected.move_to_end(key)
        while len(expected) > 3:
            expected.popitem(last=False)
    assert [key for key in range(7) if held.get(key)] == sorted(expected)
