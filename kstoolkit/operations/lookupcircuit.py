"""When to leave a service alone that does nothing but fail."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Circuit:
    """Counts failures in a row; after so many, there is a pause.

    After the pause calls are let through again; the first of them to fail begins another pause,
    the first to succeed sets the count back.

    Parameters
    ----------
    failures
        How many in a row begin a pause.
    pause_ms
        How long it is.
    now
        A clock that never goes back, in seconds.

    Examples
    --------
    >>> circuit = Circuit(2, pause_ms=10_000, now=lambda: 100.0)
    >>> [circuit.note(failed=True) for _ in range(2)], circuit.pause_left_ms
    ([False, True], 10000)
    """

    def __init__(
        self, failures: int, *, pause_ms: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._pause_seconds = pause_ms / 1_000
        self._now = now
        self._in_a_row = 0
        self._until: float | None = None

    @property
    def pause_left_ms(self) -> int:
        """How much of a pause is left; 0 if there is none."""
        return 0 if self._until is None else max(0, round((self._until - self._now()) * 1_000))

    def note(self, *, failed: bool) -> bool:
        """Take in how a call ended; return whether a pause begins."""
        self._in_a_row = self._in_a_row + 1 if failed else 0
        if not failed:
            self._until = None
        elif self._in_a_row >= self._limit and not self.pause_left_ms:
            self._until = self._now() + self._pause_seconds
            return True
        return False
