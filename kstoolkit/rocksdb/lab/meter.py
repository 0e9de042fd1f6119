"""What a trial's writes and gets were, and how long each of them took."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rocksdict import Rdict, WriteOptions

    from kstoolkit.rocksdb.lab.workloads import Batch


@dataclass(slots=True)
class Latencies:
    """How long each call took, in nanoseconds, in the order of the calls.

    Examples
    --------
    >>> latencies = Latencies()
    >>> latencies.add(np.array([1_000, 3_000]))
    >>> latencies.percentile_us(50), latencies.since_asked_us(99), latencies.since_asked_us(99)
    (2.0, 2.98, None)
    """

    parts: list[NDArray[np.int64]] = field(default_factory=list)
    asked: int = 0

    def add(self, times_ns: NDArray[np.int64]) -> None:
        """Take in some more."""
        self.parts.append(times_ns)

    @property
    def total_s(self) -> float:
        """Their sum."""
        return sum(int(part.sum()) for part in self.parts) / 1e9

    def percentile_us(self, percent: float) -> float | None:
        """Return what so many percent of the calls stay within; None if there were none."""
        return _percentile_us(self.parts, percent)

    def since_asked_us(self, percent: float) -> float | None:
        """Return the same for the calls since this was asked last."""
        parts, self.asked = self.parts[self.asked :], len(self.parts)
        return _percentile_us(parts, percent)


@dataclass(slots=True)
class Meter:
    """Writes and gets, counted and timed."""

    writes: int = 0
    deletes: int = 0
    user_bytes: int = 0
    gets: int = 0
    gets_found: int = 0
    got_bytes: int = 0
    puts: Latencies = field(default_factory=Latencies)
    asks: Latencies = field(default_factory=Latencies)

    def write(self, store: Rdict, batch: Batch, options: WriteOptions) -> None:
        """Write a batch, one row after the other, as a state store's callers do."""
        times = np.empty(len(batch.keys) + 1, np.int64)
        times[0] = perf_counter_ns()
        for place, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True), 1):
            if value is None:
                store.delete(key, options)
            else:
                store.put(key, value, options)
            times[place] = perf_counter_ns()
        self.puts.add(np.diff(times))
        self.writes += len(batch.keys)
        self.deletes += batch.values.count(None)
        self.user_bytes += sum(map(len, batch.keys)) + sum(len(v) for v in batch.values if v)

    def ask(self, store: Rdict, keys: Sequence[bytes]) -> None:
        """Get some keys, one after the other."""
        answers: list[bytes | None] = []
        times = np.empty(len(keys) + 1, np.int64)
        times[0] = perf_counter_ns()
        for place, key in enumerate(keys, 1):
            answers.append(store.get(key))
            times[place] = perf_counter_ns()
        if keys:
            self.asks.add(np.diff(times))
        sizes = [len(k) + len(v) for k, v in zip(keys, answers, strict=True) if v is not None]
        self.gets += len(keys)
        self.gets_found += len(sizes)
        self.got_bytes += sum(sizes)


def _percentile_us(parts: Sequence[NDArray[np.int64]], percent: float) -> float | None:
    if not parts:
        return None
    return float(np.percentile(np.concatenate(parts), percent)) / 1e3
