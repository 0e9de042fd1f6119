"""Threads for calls: as many as calls at once, kept for the next, ended when idle."""

from __future__ import annotations

import threading
import time
from concurrent.futures import wait
from functools import partial

import pytest

from kstoolkit.operations.lookupthreads import CallThreads


def alive(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


def test_a_thread_is_kept_for_the_next_call_and_more_are_started_for_calls_at_once() -> None:
    threads, go_on = CallThreads("kept"), threading.Event()
    idents = {threads.run(threading.get_ident).result(10) for _ in range(20)}
    assert len(idents) == alive("kept") == 1
    waiting = [threads.run(lambda: go_on.wait(10)) for _ in range(3)]
    assert alive("kept") == 3
    go_on.set()
    assert wait(waiting, 10).done == set(waiting)


def test_idle_threads_end_and_calls_after_that_are_made_all_the_same() -> None:
    threads = CallThreads("idle", idle_seconds=0.001)
    for number in range(200):
        assert threads.run(partial(abs, number)).result(10) == number
        time.sleep(0.001 * (number % 3))
    deadline = time.monotonic() + 10
    while alive("idle"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert threads.run(lambda: "again").result(10) == "again"


def test_whatever_a_call_raises_is_in_its_future_and_the_thread_goes_on() -> None:
    threads = CallThreads("raising")

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        threads.run(leave).result(10)
    assert threads.run(lambda: 7).result(10) == 7
    assert alive("raising") == 1
