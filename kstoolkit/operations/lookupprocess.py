"""What all copies of a look-up share in one process: its calls, its cache, and what it counted.

Spark unpickles a look-up anew for each task, and its workers live from task to task. A copy knows
by its identity what its forerunners left.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import uuid
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kstoolkit.operations.lookupcache import Answer, LookupCache
from kstoolkit.operations.lookupcalls import LookupCalls
from kstoolkit.operations.lookupfigures import LookupFigures

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from kstoolkit.operations.lookupoptions import LookupOptions

    Flight = asyncio.Task[dict[Hashable, Answer]]


_KEPT = "_kept_by_lookups_of_kstoolkit"


class LiveLookup:
    """One look-up at work in one process.

    Parameters
    ----------
    options
        How to go about it.
    loop
        The event loop on which all of it runs.
    """

    def __init__(self, options: LookupOptions, loop: asyncio.AbstractEventLoop) -> None:
        self.process = uuid.uuid4().hex
        self.figures = LookupFigures()
        self._options = options
        self._loop = loop
        self._calls = LookupCalls(options, self.figures)
        self._flights: dict[Hashable, Flight] = {}
        self._cache = LookupCache(
            options.cache_keys, known_ms=options.cache_ms, unknown_ms=options.cache_unknown_ms
        )

    def answers(self, keys: Sequence[Hashable]) -> dict[Hashable, Answer]:
        """Return an answer for each of some different keys; waits until all are there.

        Raises
        ------
        ConfigurationError
            If the user's function returned anything but a mapping.
        """
        waited = asyncio.run_coroutine_threadsafe(self._answers(keys), self._loop)
        try:
            return waited.result()
        finally:
            waited.cancel()  # if this thread is interrupted; what is under way goes on for others

    def count_rows(self, rows: int, failed: int) -> None:
        """Count rows that were given, and those of them whose look-up failed."""
        self._loop.call_soon_threadsafe(self._count_rows, rows, failed)

    def told(self) -> dict[str, float]:
        """Return what was counted up to now."""
        return asyncio.run_coroutine_threadsafe(self._told(), self._loop).result()

    async def _told(self) -> dict[str, float]:
        return self.figures.told()

    def _count_rows(self, rows: int, failed: int) -> None:
        self.figures.rows += rows
        self.figures.rows_failed += failed

    async def _answers(self, keys: Sequence[Hashable]) -> dict[Hashable, Answer]:
        held = {key: answer for key in keys if (answer := self._cache.get(key)) is not None}
        flights = {self._flights[key] for key in keys if key not in held and key in self._flights}
        new = [key for key in keys if key not in held and key not in self._flights]
        self.figures.keys_wanted += len(keys)
        self.figures.cache_hits += len(held)
        self.figures.keys_joined += len(keys) - len(held) - len(new)
        flights |= {self._begin(batch) for batch in _batches(new, self._options.batch_size)}
        if flights:
            await asyncio.wait(flights)
        for error in [flight.exception() for flight in flights]:
            if error is not None:
                raise error
        told: dict[Hashable, Answer] = {}
        for flight in flights:
            told |= flight.result()
        return {key: held.get(key) or told[key] for key in keys}

    def _begin(self, keys: Sequence[Hashable]) -> Flight:
        flight = self._loop.create_task(self._fly(keys))
        self._flights |= dict.fromkeys(keys, flight)
        return flight

    async def _fly(self, keys: Sequence[Hashable]) -> dict[Hashable, Answer]:
        try:
            answers = await self._calls.ask(keys)
            for key, answer in answers.items():
                self._cache.put(key, answer)
            return answers
        finally:
            for key in keys:
                del self._flights[key]


def live(options: LookupOptions) -> LiveLookup:
    """Return this process's look-up of that identity; the same one to all who ask."""
    kept = kept_in_process()
    with kept.setdefault("lock", threading.Lock()):
        if "loop" not in kept:
            kept["loop"] = _running_loop()
        name = f"look-up {options.identity}"
        if name not in kept:
            kept[name] = LiveLookup(options, kept["loop"])
        found: LiveLookup = kept[name]
        return found


def kept_in_process() -> dict[Any, Any]:
    """Return a place that all copies of this module share, and forks of the process don't.

    A cluster's workers may have got this module by value, one copy a task: a global of it would be
    each task's own. And locks and threads, of which there are some here, can't be sent along.

    Examples
    --------
    >>> kept_in_process() is kept_in_process()
    True
    """
    module = sys.modules.setdefault(_KEPT, ModuleType(_KEPT))
    place: dict[Any, Any] = vars(module).setdefault(f"process {os.getpid()}", {})
    return place


def _running_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="kstoolkit look-ups", daemon=True).start()
    return loop


def _batches(keys: Sequence[Hashable], size: int) -> list[Sequence[Hashable]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]
