from __future__ import annotations

from threading import Event

from kstoolkit.widgets.newest import Newest


def test_of_jobs_that_wait_the_newest_is_done() -> None:
    done: list[int] = []
    begun, may_end = Event(), Event()

    def first() -> None:
        begun.set()
        may_end.wait(10)
        done.append(0)

    newest = Newest(print)
    newest.ask(first)
    begun.wait(10)
    for number in (1, 2, 3):
        newest.ask(lambda number=number: done.append(number))  # type: ignore[misc]
    assert not newest.wait(0.01)
    may_end.set()
    assert newest.wait(10)
    assert done == [0, 3]


def test_a_job_that_fails_is_told_and_the_next_one_is_done() -> None:
    said: list[str] = []
    newest = Newest(said.append)
    for _ in range(20):
        newest.ask(lambda: 1 // 0)
        newest.wait(10)
        newest.ask(lambda: said.append("done"))
        assert newest.wait(10)
    assert said == ["ZeroDivisionError: integer division or modulo by zero", "done"] * 20


def test_after_the_end_nothing_is_begun() -> None:
    said: list[str] = []
    newest = Newest(said.append)
    newest.stop()
    newest.ask(lambda: said.append("done"))
    assert newest.wait(1)
    assert said == []
