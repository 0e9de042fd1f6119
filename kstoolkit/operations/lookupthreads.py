"""Threads for calls that may hang, so that none of them keeps its process from ending."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


Result = TypeVar("Result")


class CallThreads:
    """Daemon threads, as many as calls are under way at once.

    They live on between calls, so that a client may keep a connection in each, until they have been
    idle for long. The standard library's pool would do, but Python waits at its end for that pool's
    threads, hung ones too.

    Parameters
    ----------
    name
        What debuggers call the threads.
    idle_seconds
        How long a thread waits for work before it ends.

    Examples
    --------
    >>> CallThreads("example").run(lambda: 1 + 1).result()
    2
    """

    def __init__(self, name: str, *, idle_seconds: float = 60) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._under_way = 0
        self._started = 0

    def run(self, call: Callable[[], Result]) -> Future[Result]:
        """Have a thread make the call; whatever the call raises is in the future."""
        future: Future[Result] = Future()
        future.set_running_or_notify_cancel()  # from here on nobody can cancel it
        with self._lock:
            self._under_way += 1
            if self._under_way > self._started:
                self._started += 1
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        self._work.put(lambda: self._settle(future, call))
        return future

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=self._idle_seconds)
            except Empty:
                if self._may_end():
                    return
            else:
                work()

    def _may_end(self) -> bool:
        """Whether there are more threads than work; one less, then."""
        with self._lock:
            too_many = self._under_way < self._started
            self._started -= too_many
            return too_many

    def _settle(self, future: Future[Result], call: Callable[[], Result]) -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - SystemExit too is how this call ended
            self._ended()
            future.set_exception(error)
        else:
            self._ended()
            future.set_result(result)

    def _ended(self) -> None:
        with self._lock:
            self._under_way -= 1
