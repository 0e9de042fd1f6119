"""Work beside the kernel's thread: a long job, or a look again and again.

A callback of a widget runs on the kernel's own thread, and nothing else runs meanwhile. So what
takes its time goes to a thread, which touches traits of widgets and nothing else: what it prints
would be lost, and what it raises too, hence an error becomes a text.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kstoolkit.errors import KstoolkitError

if TYPE_CHECKING:
    from collections.abc import Callable


_LONGEST_WAIT_SECONDS = 10


class Background:
    """At most one job at a time, in a thread that ends when it is told to.

    Parameters
    ----------
    tell
        Takes a sentence for the user: why a job failed.

    Examples
    --------
    >>> done, told = [], []
    >>> background = Background(told.append)
    >>> background.start(lambda stop: done.append(stop.is_set()))
    True
    >>> background.wait()
    >>> done, told
    ([False], [])
    """

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether a job runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, job: Callable[[threading.Event], object]) -> bool:
        """Begin a job, unless one runs or it is closed; return whether it began.

        Parameters
        ----------
        job
            Is given the event that tells it to end.
        """
        with self._starting:
            if self.is_busy or self._is_closed:
                return False
            self._stop = threading.Event()
            work = threading.Thread(target=self._run, args=(job, self._stop), daemon=True)
            work.start()
            self._thread = work
        return True

    def every(self, seconds: float, job: Callable[[], object]) -> bool:
        """Do a job now and again and again, until told to end."""

        def again(stop: threading.Event) -> None:
            job()
            while not stop.wait(seconds):
                job()

        return self.start(again)

    def stop(self) -> None:
        """Tell the job to end, and wait for it; from within the job, only tell."""
        with self._starting:
            self._stop.set()
        self.wait()

    def close(self) -> None:
        """Stop, and begin nothing any more."""
        with self._starting:
            self._is_closed = True
        self.stop()

    def wait(self, seconds: float = _LONGEST_WAIT_SECONDS) -> None:
        """Wait until the job has ended, not longer than told."""
        with self._starting:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def _run(self, job: Callable[[threading.Event], object], stop: threading.Event) -> None:
        try:
            job(stop)
        except KstoolkitError as error:
            self._tell(str(error))
        except Exception as error:  # noqa: BLE001 - nobody else would ever see it
            self._tell(f"{type(error).__name__}: {error}")
