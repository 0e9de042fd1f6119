"""Calls of a look-up: bounded in flight, timed out, tried again, and narrowed to the key at fault.

All of it runs on one event loop, so nothing here is locked; only what users gave runs in threads.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.lookupcache import Answer
from kstoolkit.operations.lookupcircuit import Circuit
from kstoolkit.operations.lookupthreads import CallThreads
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from kstoolkit.operations.lookupfigures import LookupFigures
    from kstoolkit.operations.lookupoptions import Ask, LookupOptions


_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a call as a whole gave nothing, and whether the service was asked at all."""

    reason: str
    was_asked: bool = True


class LookupCalls:
    """Asks the service, and always comes back with an answer for each key.

    Parameters
    ----------
    options
        How to go about it.
    figures
        Where to count.
    """

    def __init__(self, options: LookupOptions, figures: LookupFigures) -> None:
        self._options = options
        self._figures = figures
        self._circuit = Circuit(options.pause_after, pause_ms=options.pause_ms)
        self._threads = CallThreads("kstoolkit look-up")
        self._hung: set[asyncio.Future[Any]] = set()
        self._room = asyncio.Semaphore(options.pool)
        of_instance = getattr(options.ask, "__call__", None)  # noqa: B004 - looks at how it is made
        self._is_async = any(map(inspect.iscoroutinefunction, (options.ask, of_instance)))

    async def ask(self, keys: Sequence[Hashable]) -> dict[Hashable, Answer]:
        """Return an answer for each key, or why there is none.

        Raises
        ------
        ConfigurationError
            If the function returned anything but a mapping.
        """
        answers, failure = await self._try(keys, self._options.retries)
        failed = [key for key in keys if answers[key].failure is not None]
        if failure is None or not failure.was_asked or len(failed) == 1:
            return answers
        # One key that the service can't bear must not cost the others their answers.
        return answers | await self._ask_halves(failed)

    async def _ask_halves(self, keys: Sequence[Hashable]) -> dict[Hashable, Answer]:
        middle = len(keys) // 2
        first, second = await asyncio.gather(
            self._ask_half(keys[:middle]), self._ask_half(keys[middle:])
        )
        return first | second

    async def _ask_half(self, keys: Sequence[Hashable]) -> dict[Hashable, Answer]:
        alone = len(keys) == 1
        answers, failure = await self._try(keys, self._options.retries if alone else 0)
        if failure is None or not failure.was_asked or alone:
            return answers
        return await self._ask_halves(keys)

    async def _try(
        self, keys: Sequence[Hashable], retries: int
    ) -> tuple[dict[Hashable, Answer], _Failure | None]:
        """Return the answers, and why the last call as a whole failed, if it did."""
        answers: dict[Hashable, Answer] = {}
        open_keys, failure = list(keys), None
        for attempt in range(retries + 1):
            if attempt:
                self._figures.retries += 1
                await asyncio.sleep(self._backoff_seconds(attempt))
            told = await self._call(open_keys)
            failure = told if isinstance(told, _Failure) else None
            answers |= _answers(open_keys, told)
            open_keys = [key for key in open_keys if answers[key].failure is not None]
            if not open_keys or (failure and not failure.was_asked):
                break
        return answers, failure

    def _backoff_seconds(self, attempt: int) -> float:
        doubled_ms = self._options.backoff_ms << (attempt - 1)
        longest_ms = min(doubled_ms, self._options.max_backoff_ms)
        return longest_ms / 1_000 * random.uniform(0.5, 1)  # noqa: S311 - spreads calls, no secret

    async def _call(self, keys: Sequence[Hashable]) -> Mapping[Any, Any] | _Failure:
        why_not = await self._why_not()
        if why_not:
            return _Failure(why_not, was_asked=False)
        call = self._start(keys)
        await asyncio.wait({call}, timeout=self._options.timeout_ms / 1_000)
        told = self._told(call)
        failed = isinstance(told, _Failure)
        self._figures.failures += failed
        self._figures.pauses += self._circuit.note(failed=failed)
        return told

    async def _why_not(self) -> str | None:
        """Wait for room in the pool and take it; or return why there is no use in asking."""
        pool = self._options.pool
        while not (why := self._why_paused()):
            try:
                await asyncio.wait_for(self._room.acquire(), self._options.timeout_ms / 1_000)
            except TimeoutError:
                if len(self._hung) >= pool:
                    return f"not asked: all calls that may be in flight at once, {pool}, hang"
            else:
                break
        if not why and (why := self._why_paused()):  # a pause began while this one waited
            self._room.release()
        return why

    def _why_paused(self) -> str | None:
        left_ms = self._circuit.pause_left_ms
        if not left_ms:
            return None
        number = self._options.pause_after
        return f"not asked: the last {number} calls failed; asked again in {left_ms / 1_000:.1f} s"

    def _start(self, keys: Sequence[Hashable]) -> asyncio.Future[Any]:
        ask, given = self._options.ask, list(keys)
        if self._is_async:
            call: asyncio.Future[Any] = asyncio.ensure_future(_awaited(ask, given))
        else:
            call = asyncio.wrap_future(self._threads.run(lambda: _called(ask, given)))
        self._figures.call_begins(len(given))
        call.add_done_callback(self._ended)
        return call

    def _ended(self, call: asyncio.Future[Any]) -> None:
        """Make room: for a call that hung, only now that it has really ended."""
        self._hung.discard(call)
        self._room.release()
        self._figures.call_ends()

    def _told(self, call: asyncio.Future[Any]) -> Mapping[Any, Any] | _Failure:
        if not call.done():
            return self._given_up(call)
        told = _Failure("the call was cancelled") if call.cancelled() else call.result()
        if isinstance(told, Mapping | _Failure):
            return told
        message = f"A look-up's function returned a {type(told).__name__}, not a mapping."
        raise ConfigurationError(message, hint="Return a dict of values by key.")

    def _given_up(self, call: asyncio.Future[Any]) -> _Failure:
        """Leave a call alone that takes too long; it fills its place until it ends."""
        self._figures.timeouts += 1
        self._hung.add(call)
        if self._is_async:
            call.cancel()
        return _Failure(f"no answer within {format_duration(self._options.timeout_ms)}")


def _called(ask: Ask, keys: list[Any]) -> Any:
    try:
        return ask(keys)
    except BaseException as error:  # noqa: BLE001 - the call of a user's function: any end is one
        return _Failure(_reason(error))


async def _awaited(ask: Any, keys: list[Any]) -> Any:
    try:
        return await ask(keys)
    except asyncio.CancelledError:  # it took too long
        raise
    except BaseException as error:  # noqa: BLE001 - and what ends the loop would end all look-ups
        return _Failure(_reason(error))


def _answers(
    keys: Sequence[Hashable], told: Mapping[Any, Any] | _Failure
) -> dict[Hashable, Answer]:
    if isinstance(told, _Failure):
        return dict.fromkeys(keys, Answer(failure=told.reason))
    try:
        return {key: _answer(told.get(key)) for key in keys}
    except Exception as error:  # noqa: BLE001 - a mapping of the user's own making
        return dict.fromkeys(keys, Answer(failure=_reason(error)))


def _answer(value: Any) -> Answer:
    """Return an answer; an exception in place of a value says that this key failed."""
    return Answer(failure=_reason(value)) if isinstance(value, BaseException) else Answer(value)


def _reason(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error of the user's own making
        said = ""
    told = f"{type(error).__name__}: {said}" if said else type(error).__name__
    told = told.encode(errors="backslashreplace").decode()  # half a character can't be stored
    return told if len(told) <= _LONGEST_REASON else f"{told[:_LONGEST_REASON]}…"
