"""Events by the shape they have: how many, of how many users and actions, in how much time.

However long it is, it ends with the same day, which is over: nothing lies in the future.
Files are made one by one, in as many threads as a contestant has cores (numpy and Arrow let each
other run), so that hundreds of millions of events take little more memory than a few of them. What
has to be counted of them is counted by numpy as they are made, before anything is written.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.special import zeta

from tests.benchmarks.contestant import CORES, WINDOWS
from tests.benchmarks.events import SCHEMA, START_MS
from tests.benchmarks.standing import Totals

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_DAY_MS = 86_400_000
_AT_ONCE = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Which events: times and actions uniform, users by a Zipf law folded back onto ``users``.

    Parameters
    ----------
    events, users, actions, days
        How many there are, each.
    hottest
        The share of all events that one user has; ``None`` leaves that to the law, by which the
        first has 18 %.
    files
        Among how many files they lie, in time order, as many in each.
    """

    events: int = 20_000_000
    users: int = 1_000_000
    actions: int = 8
    days: int = 1
    hottest: float | None = None
    files: int = 20
    exponent: float = 1.2

    def write(self, folder: Path) -> Totals:
        """Write the files, and return what they come to by window."""
        folder.mkdir(parents=True)
        counting = {label: _Distinct(self.users * self.actions) for label in WINDOWS}
        make = partial(_write, self, folder)
        with ThreadPoolExecutor(CORES) as pool:
            for keys in pool.map(make, range(self.files)):
                for counted, some in zip(counting.values(), keys, strict=True):
                    counted.add(some)
        counters = {label: counted.number() for label, counted in counting.items()}
        return Totals(counters, dict.fromkeys(WINDOWS, self.events))

    @property
    def more_of_the_first(self) -> float:
        """Of each event, how likely it is given to the first user, whatever the law says."""
        by_law = 1 / float(zeta(self.exponent))
        return 0.0 if self.hottest is None else (self.hottest - by_law) / (1 - by_law)

    @property
    def begin_ms(self) -> int:
        """When the first day begins."""
        return START_MS - (self.days - 1) * _DAY_MS

    def edges(self, number: int) -> tuple[int, int, int, int]:
        """Return of a file its first event and the next file's, and when each of them begins."""
        first, last = (each * self.events // self.files for each in (number, number + 1))
        begin, end = (
            self.begin_ms + each * self.days * _DAY_MS // self.events for each in (first, last)
        )
        return first, last, begin, end


def _write(workload: Workload, folder: Path, number: int) -> list[NDArray[np.int64]]:
    """Write one file, and return the different keys in it, in order, of each window length.

    A key is a number: of the window, the user and the action.
    """
    first, last, begin, end = workload.edges(number)
    draws, many = np.random.default_rng((1, number)), last - first
    times = np.sort(draws.integers(begin, end, many))
    users = draws.zipf(workload.exponent, many) % workload.users
    users[draws.random(many) < workload.more_of_the_first] = 1
    actions = draws.integers(0, workload.actions, many)
    columns = [
        pa.array(times, pa.timestamp("ms", tz="UTC")),
        _named("user", users),
        _named("action", actions),
    ]
    path = folder / f"part-{number:04d}.parquet"
    pq.write_table(pa.table(columns, schema=SCHEMA), path, compression="zstd")
    # Spark's file source takes files by age, and looks at whole seconds.
    os.utime(path, (START_MS // 1000 + number,) * 2)
    cell = users * workload.actions + actions
    cells = workload.users * workload.actions
    return [
        np.unique((times - workload.begin_ms) // size * cells + cell) for size in WINDOWS.values()
    ]


def _named(what: str, numbers: NDArray[np.int64]) -> pa.Array:
    """Return names of numbers, each made once."""
    different, place = np.unique(numbers, return_inverse=True)
    digits = pc.utf8_lpad(pa.array(different).cast(pa.string()), 7, "0")
    return pc.binary_join_element_wise(what, digits, "-").take(pa.array(place))


@dataclass(slots=True)
class _Distinct:
    """Counts different keys, which come in the order of their windows, file by file.

    What is of windows that are over by the begin of a file is counted, and let go.
    """

    cells: int
    done: int = 0
    held: list[NDArray[np.int64]] = field(default_factory=list)

    def add(self, keys: NDArray[np.int64]) -> None:
        """Take the keys of the next file, in order."""
        if not keys.size:
            return
        bound = keys[0] // self.cells * self.cells
        if self.held and self.held[0][0] < bound:
            cuts = [np.searchsorted(each, bound) for each in self.held]
            over = [each[:cut] for each, cut in zip(self.held, cuts, strict=True)]
            self.done += len(np.unique(np.concatenate(over)))
            left = (each[cut:] for each, cut in zip(self.held, cuts, strict=True))
            self.held = [each for each in left if each.size]
        self.held.append(keys)
        if sum(map(len, self.held[1:])) > max(_AT_ONCE, len(self.held[0])):
            self.held = [np.unique(np.concatenate(self.held))]

    def number(self) -> int:
        """Return how many different ones came."""
        return self.done + len(np.unique(np.concatenate([*self.held, np.empty(0, np.int64)])))
