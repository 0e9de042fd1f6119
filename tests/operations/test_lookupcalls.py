"""Answers are kept for their time, and failures never; threads for calls, as many as calls."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.operations.lookupcalls import Answer, _CallThreads, _LookupCache

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


def alive(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


def test_a_thread_is_kept_for_the_next_call_and_more_are_started_for_calls_at_once() -> None:
    threads, go_on = _CallThreads("kept"), threading.Event()
    idents = {threads.run(threading.get_ident).result(10) for _ in range(20)}
    assert len(idents) == alive("kept") == 1
    waiting = [threads.run(lambda: go_on.wait(10)) for _ in range(3)]
    assert alive("kept") == 3
    go_on.set()
    assert wait(waiting, 10).done == set(waiting)


def test_idle_threads_end_and_calls_after_that_are_made_all_the_same() -> None:
    threads = _CallThreads("idle", idle_seconds=0.001)
    for number in range(200):
        assert threads.run(partial(abs, number)).result(10) == number
        time.sleep(0.001 * (number % 3))
    deadline = time.monotonic() + 10
    while alive("idle"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert threads.run(lambda: "again").result(10) == "again"


def test_whatever_a_call_raises_is_in_its_future_and_the_thread_goes_on() -> None:
    threads = _CallThreads("raising")

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        threads.run(leave).result(10)
    assert threads.run(lambda: 7).result(10) == 7
    assert alive("raising") == 1
