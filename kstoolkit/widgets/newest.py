"""Jobs that only matter while nobody asks for the next one: the newest is done, the others not."""

from __future__ import annotations

from threading import Event, Lock
from typing import TYPE_CHECKING

from kstoolkit.widgets.background import Background

if TYPE_CHECKING:
    from collections.abc import Callable


class Newest:
    """One job at a time, beside the kernel's thread; of those that wait, the newest.

    Parameters
    ----------
    tell
        Takes a sentence for the user: why a job failed.

    Examples
    --------
    >>> done = []
    >>> newest = Newest(done.append)
    >>> newest.ask(lambda: done.append("drawn"))
    >>> newest.wait()
    True
    >>> done
    ['drawn']
    """

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._lock = Lock()
        self._asked: Callable[[], object] | None = None
        self._idle, self._closed = Event(), False
        self._idle.set()
        self._background = Background(tell)

    def ask(self, job: Callable[[], object]) -> None:
        """Have a job done, instead of one that waits."""
        with self._lock:
            self._asked = None if self._closed else job
            begins = self._idle.is_set() and self._asked is not None
            if begins:
                self._idle.clear()
        if begins:
            self._begin()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is left to do, not longer than told; return whether that is so."""
        return self._idle.wait(seconds)

    def stop(self) -> None:
        """Take no more jobs, and wait for the one that runs."""
        with self._lock:
            self._asked, self._closed = None, True
        self._background.stop()

    def _begin(self) -> None:
        # Another one each time: the thread of the one before may be just about to end.
        self._background = Background(self._tell_and_go_on)
        self._background.start(self._work)

    def _work(self, _: Event) -> None:
        while (job := self._next()) is not None:
            job()

    def _next(self) -> Callable[[], object] | None:
        with self._lock:
            job, self._asked = self._asked, None
            if job is None:
                self._idle.set()
        return job

    def _tell_and_go_on(self, why: str) -> None:
        self._tell(why)
        self._begin()
