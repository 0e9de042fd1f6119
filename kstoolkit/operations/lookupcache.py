"""Answers of look-ups, kept for a while: so many of them, each for so long."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one key.

    Parameters
    ----------
    value
        What was found; None if the key is unknown, or the look-up failed.
    failure
        Why there is no answer; None if there is one.
    """

    value: Any = None
    failure: str | None = None


class LookupCache:
    """The answers that were used last, until they are too old.

    An answer that a key is unknown is kept for a time of its own: such a key may get to be known. A
    failure is no answer, and is not kept. One thread at a time may use it.

    Parameters
    ----------
    max_keys
        How many answers are kept; beyond that, the one unused for longest goes.
    known_ms, unknown_ms
        How long an answer is good for, and how long one that says "unknown".
    now
        A clock that never goes back, in seconds.

    Examples
    --------
    >>> clock = iter([0.0, 1.0, 61.0]).__next__
    >>> cache = LookupCache(1_000, known_ms=60_000, unknown_ms=5_000, now=clock)
    >>> cache.put("ann", Answer("SE"))
    >>> cache.get("ann"), cache.get("ann")
    (Answer(value='SE', failure=None), None)
    """

    def __init__(
        self,
        max_keys: int,
        *,
        known_ms: int,
        unknown_ms: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_keys = max_keys
        self._known_seconds = known_ms / 1_000
        self._unknown_seconds = unknown_ms / 1_000
        self._now = now
        self._held: OrderedDict[Hashable, tuple[float, Answer]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Hashable) -> Answer | None:
        """Return the answer if it is still good."""
        held = self._held.get(key)
        if held is None:
            return None
        until, answer = held
        if self._now() >= until:
            del self._held[key]
            return None
        self._held.move_to_end(key)
        return answer

    def put(self, key: Hashable, answer: Answer) -> None:
        """Keep an answer; a failure is left to be asked again."""
        if answer.failure is not None:
            return
        seconds = self._unknown_seconds if answer.value is None else self._known_seconds
        if seconds <= 0:
            return
        self._held[key] = (self._now() + seconds, answer)
        self._held.move_to_end(key)
        if len(self._held) > self._max_keys:
            self._held.popitem(last=False)
