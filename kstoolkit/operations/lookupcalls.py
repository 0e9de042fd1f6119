"""Calls of a look-up: bounded in flight, timed out, tried again, and narrowed to the key at fault.

Each process that looks up has of each look-up::

    LiveLookup     answers of a list of different keys, for all tasks and threads
      _LookupCache    answers by key, each for a while
      _LookupCalls    one batch: tries, halves of it, the key at fault
        _Circuit        leaves a service alone that does nothing but fail
        _CallThreads    what users gave runs in these, if it is no ``async`` function
      _LookupFigures  what it counts of itself

All of it runs on one event loop, so nothing here is locked but the threads. Spark unpickles a
look-up anew for each task, and its workers live from task to task: a copy knows by its identity
what its forerunners left. This module runs on Spark's nodes, and imports nothing that they lack.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import sys
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from functools import partial
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Record, Source, counted, of_source
from kstoolkit.units import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    Ask = Callable[[list[Any]], Mapping[Any, Any] | Awaitable[Mapping[Any, Any]]]
    Flight: TypeAlias = "asyncio.Task[dict[Hashable, Answer]]"

OnError = Literal["dead_letter", "skip", "default"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """What a look-up is made of; see :class:`~kstoolkit.operations.lookup.Lookup`."""

    ask: Ask
    batch_size: int
    pool: int
    timeout_ms: int
    cache_ms: int
    cache_unknown_ms: int
    cache_keys: int
    retries: int
    backoff_ms: int
    max_backoff_ms: int
    pause_after: int
    pause_ms: int
    on_error: OnError
    default: Any
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which copies of one look-up, in several tasks of a process, know that they are one."""

    def __post_init__(self) -> None:
        given: object = self.ask
        if not callable(given):
            message = f"A look-up needs something to call, not {given!r}."
            raise ConfigurationError(message, hint="Give a function of a list of keys.")
        for name in ("batch_size", "pool", "cache_keys", "pause_after", "retries"):
            number, least = getattr(self, name), int(name != "retries")
            if not isinstance(number, int) or number < least:
                message = f"{name}={number!r} is no whole number from {least} up."
                raise ConfigurationError(message, hint=f"Give {least} or more.")
        if self.on_error not in get_args(OnError):
            message = f"on_error={self.on_error!r} is unknown."
            known = ", ".join(map(repr, get_args(OnError)))
            hint = f"Known are {known}; the last with default=…, the value to go on with."
            raise ConfigurationError(message, hint=hint)
        if (self.on_error == "default") != (self.default is not None):
            message = f"on_error={self.on_error!r} and default={self.default!r} don't go together."
            raise ConfigurationError(message, hint="Give both on_error='default' and default=….")


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one key: unknown if there is neither a value nor a failure."""

    value: Any = None
    failure: str | None = None


class _LookupCache:
    """The answers that were used last, until they are too old; a failure is no answer.

    That a key is unknown is kept for a time of its own: it may get to be known. ``now`` is a clock
    that never goes back, in seconds. One thread at a time may use it.
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


class _Circuit:
    """Counts failures in a row; after so many, there is a pause.

    After the pause calls are let through again; the first of them to fail begins another pause,
    the first to succeed sets the count back.
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


class _CallThreads:
    """Daemon threads, as many as calls are under way at once.

    They live on between calls, so that a client may keep a connection in each, until they have been
    idle for long. The standard library's pool would do, but Python waits at its end for that pool's
    threads, hung ones too.
    """

    def __init__(self, name: str, *, idle_seconds: float = 60) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._under_way = 0
        self._started = 0

    def run(self, call: Callable[[], Any]) -> Future[Any]:
        """Have a thread make the call; whatever the call raises is in the future."""
        future: Future[Any] = Future()
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

    def _settle(self, future: Future[Any], call: Callable[[], Any]) -> None:
        try:
            settle = partial(future.set_result, call())
        except BaseException as error:  # noqa: BLE001 - SystemExit too is how this call ended
            settle = partial(future.set_exception, error)
        with self._lock:
            self._under_way -= 1
        settle()


_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a call as a whole gave nothing, and whether the service was asked at all."""

    reason: str
    was_asked: bool = True


class _LookupCalls:
    """Asks the service, and always comes back with an answer for each key."""

    def __init__(self, options: LookupOptions, figures: _LookupFigures) -> None:
        self._options = options
        self._figures = figures
        self._circuit = _Circuit(options.pause_after, pause_ms=options.pause_ms)
        self._threads = _CallThreads("kstoolkit look-up")
        self._hung: set[asyncio.Future[Any]] = set()
        self._room = asyncio.Semaphore(options.pool)
        of_instance = getattr(options.ask, "__call__", None)  # noqa: B004 - looks at how it is made
        self._is_async = any(map(inspect.iscoroutinefunction, (options.ask, of_instance)))

    async def ask(
        self, keys: Sequence[Hashable], *, is_half: bool = False
    ) -> dict[Hashable, Answer]:
        """Return an answer for each key, or why there is none; a half of several is tried once."""
        retries = self._options.retries if not is_half or len(keys) == 1 else 0
        answers, failure = await self._try(keys, retries)
        failed = [key for key in keys if answers[key].failure is not None]
        if failure is None or not failure.was_asked or len(failed) == 1:
            return answers
        # One key that the service can't bear must not cost the others their answers.
        halves = failed[: len(failed) // 2], failed[len(failed) // 2 :]
        first, second = await asyncio.gather(*(self.ask(half, is_half=True) for half in halves))
        return answers | first | second

    async def _try(
        self, keys: Sequence[Hashable], retries: int
    ) -> tuple[dict[Hashable, Answer], _Failure | None]:
        """Return the answers, and why the last call as a whole failed, if it did."""
        answers: dict[Hashable, Answer] = {}
        open_keys, failure = list(keys), None
        for attempt in range(retries + 1):
            if attempt:
                self._figures.add("retries")
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
        self._figures.add("failures", failed)
        self._figures.add("pauses", self._circuit.note(failed=failed))
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
        self._figures.add("timeouts")
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


@dataclass(frozen=True, slots=True, repr=False)
class LookupStatistics(Record):
    """What a look-up came to, over the processes that have told.

    Parameters
    ----------
    num_processes
        How many have told: this one, and Spark's workers as their tasks ended.
    rows, rows_failed
        Rows looked up, and those whose look-up failed; ``on_error`` says what became of those.
    keys_wanted, cache_hits, keys_joined
        Different keys of each batch; those that were in the cache, and those that another batch had
        asked for already, whose answer this one waited for.
    calls, keys_asked
        Calls of the user's function, and keys in them, once for each call that asks for them.
    retries, failures, timeouts, pauses
        Tries after the first; calls that failed, those of them that took too long; pauses in which
        nobody was asked, after too many failures in a row.
    max_in_flight
        The most calls under way at once in any process.
    busy_ms
        How long at least one call was under way, summed over processes.
    keys_per_second
        Keys asked for while calls were under way, in one process.
    """

    num_processes: int | None = of_source(Source.METRICS)
    rows: int = of_source(Source.METRICS)
    rows_failed: int = of_source(Source.METRICS)
    keys_wanted: int = of_source(Source.METRICS)
    cache_hits: int = of_source(Source.METRICS)
    keys_joined: int = of_source(Source.METRICS)
    keys_asked: int = of_source(Source.METRICS)
    calls: int = of_source(Source.METRICS)
    retries: int = of_source(Source.METRICS)
    failures: int = of_source(Source.METRICS)
    timeouts: int = of_source(Source.METRICS)
    pauses: int = of_source(Source.METRICS)
    max_in_flight: int = of_source(Source.METRICS)
    busy_ms: int = of_source(Source.METRICS)
    keys_per_second: float | None = of_source(Source.FORMULA)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"LookupStatistics({counted(self.rows, 'rows')}, {format_count(self.rows_failed)} "
            f"failed; {counted(self.calls, 'calls')}, at most {self.max_in_flight} at once)"
        )


_COUNTS = [
    each.name
    for each in fields(LookupStatistics)
    if each.metadata.get("source") is Source.METRICS and each.name != "num_processes"
]
"""What each process counts."""


class _LookupFigures:
    """Counts of one look-up in one process, by the names of :class:`LookupStatistics`."""

    def __init__(self) -> None:
        self._counts: dict[str, float] = dict.fromkeys(_COUNTS, 0)
        self._in_flight = 0
        self._busy_since = 0.0

    def add(self, name: str, number: int = 1) -> None:
        """Count some more; counts only grow."""
        self._counts[name] += number

    def call_begins(self, keys: int) -> None:
        """Count a call with so many keys."""
        self.add("calls")
        self.add("keys_asked", keys)
        if not self._in_flight:
            self._busy_since = time.monotonic()
        self._in_flight += 1
        self._counts["max_in_flight"] = max(self._counts["max_in_flight"], self._in_flight)

    def call_ends(self) -> None:
        self._counts["busy_ms"] += self._busy_ms() if self._in_flight == 1 else 0
        self._in_flight -= 1

    def told(self) -> dict[str, float]:
        """Return the counts so far by name, the time of calls under way included."""
        return self._counts | {"busy_ms": self._counts["busy_ms"] + self._busy_ms()}

    def _busy_ms(self) -> float:
        return (time.monotonic() - self._busy_since) * 1_000 if self._in_flight else 0


def newest(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return the later of two tellings of one process: counts only grow."""
    return {name: max(count, other.get(name, 0)) for name, count in one.items()}


def lookup_statistics(
    told: Mapping[str, Mapping[str, float]], why_unknown: str | None = None
) -> LookupStatistics:
    """Return the sum of what processes, each by its name, counted.

    ``why_unknown`` says why some of them can't tell; then nobody knows how many they are.

    >>> one = {"calls": 2, "keys_asked": 50, "busy_ms": 100.0, "max_in_flight": 2}
    >>> found = lookup_statistics({"a": one, "b": {"calls": 3, "max_in_flight": 1}})
    >>> found.calls, found.max_in_flight, found.keys_per_second
    (5, 2, 500.0)
    """
    found: dict[str, float] = dict.fromkeys(_COUNTS, 0)
    for each in told.values():
        for name, count in each.items():
            most = name.startswith("max_")  # the most in flight is the most of any
            found[name] = max(found[name], count) if most else found[name] + count
    busy_ms = found.pop("busy_ms")
    unknown = {} if why_unknown is None else {"num_processes": why_unknown}
    if not busy_ms:
        unknown["keys_per_second"] = "nothing has been asked yet"
    return LookupStatistics(
        num_processes=len(told) if why_unknown is None else None,
        busy_ms=round(busy_ms),
        keys_per_second=found["keys_asked"] * 1_000 / busy_ms if busy_ms else None,
        unknown=unknown,
        **{name: int(count) for name, count in found.items()},
    )


_KEPT = "_kept_by_lookups_of_kstoolkit"


class LiveLookup:
    """One look-up at work in one process, all of it on one event loop."""

    def __init__(self, options: LookupOptions, loop: asyncio.AbstractEventLoop) -> None:
        self.process = uuid.uuid4().hex
        self._figures = _LookupFigures()
        self._options = options
        self._loop = loop
        self._calls = _LookupCalls(options, self._figures)
        self._flights: dict[Hashable, Flight] = {}
        self._cache = _LookupCache(
            options.cache_keys, known_ms=options.cache_ms, unknown_ms=options.cache_unknown_ms
        )

    def answers(self, keys: Sequence[Hashable]) -> dict[Hashable, Answer]:
        """Return an answer for each of some different keys; waits until all are there."""
        waited = asyncio.run_coroutine_threadsafe(self._answers(keys), self._loop)
        try:
            return waited.result()
        finally:
            waited.cancel()  # if this thread is interrupted; what is under way goes on for others

    def count_rows(self, rows: int, failed: int) -> None:
        """Count rows that were given, and those of them whose look-up failed."""
        self._loop.call_soon_threadsafe(self._figures.add, "rows", rows)
        self._loop.call_soon_threadsafe(self._figures.add, "rows_failed", failed)

    def told(self) -> dict[str, float]:
        """Return what was counted up to now."""
        return asyncio.run_coroutine_threadsafe(self._told(), self._loop).result()

    async def _told(self) -> dict[str, float]:
        return self._figures.told()

    async def _answers(self, keys: Sequence[Hashable]) -> dict[Hashable, Answer]:
        held = {key: answer for key in keys if (answer := self._cache.get(key)) is not None}
        flights = {self._flights[key] for key in keys if key not in held and key in self._flights}
        new = [key for key in keys if key not in held and key not in self._flights]
        self._figures.add("keys_wanted", len(keys))
        self._figures.add("cache_hits", len(held))
        self._figures.add("keys_joined", len(keys) - len(held) - len(new))
        size = self._options.batch_size
        flights |= {self._begin(new[at : at + size]) for at in range(0, len(new), size)}
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
            loop, name = asyncio.new_event_loop(), "kstoolkit look-ups"
            threading.Thread(target=loop.run_forever, name=name, daemon=True).start()
            kept["loop"] = loop  # now that somebody runs it
        name = f"look-up {options.identity}"
        if name not in kept:
            kept[name] = LiveLookup(options, kept["loop"])
        found: LiveLookup = kept[name]
        return found


def kept_in_process() -> dict[Any, Any]:
    """Return a place that all copies of this module share, and forks of the process don't.

    A cluster's workers may have got this module by value, one copy a task: a global of it would be
    each task's own. And locks and threads, of which there are some here, can't be sent along.
    """
    module = sys.modules.setdefault(_KEPT, ModuleType(_KEPT))
    place: dict[Any, Any] = vars(module).setdefault(f"process {os.getpid()}", {})
    return place
