"""What is written and asked for in the lab: the same rows each time, drawn from a seed.

A trial asks for keys drawn evenly among those that it has written so far. Rows to replay are kept
in a file first, so that each trial writes the same ones in the same order.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.records import counted
from kstoolkit.rocksdb.lab.replaying import drawn_again
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.rocksdb.profiles.options import ROCKSDB
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.rocksdb.lab.replaying import LoggedWork
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.rocksdb.store import Store

    Draws = np.random.Generator
    Places = NDArray[np.int64]
    Row = tuple[bytes, bytes | None]

BATCH_ROWS = 1_000
REPLAYED = "replayed"

_WINDOWS, _WINDOW_MS, _LATE_SHARE = 60, 60_000, 0.02
_HOT_SHARE = 0.02
_DELETED_SHARE = 0.45


class Operations(NamedTuple):
    """Some writes, in their order; a value of None deletes its key."""

    keys: list[bytes]
    values: list[bytes | None]


@dataclass(frozen=True, slots=True)
class Workload:
    """What a trial writes, and how many gets stand between the writes.

    Parameters
    ----------
    kind
        ``"uniform"``: keys drawn evenly. ``"skewed"``: the n-th key about 1/n as often as the
        first. ``"time_ordered"``: windows one after the other, all keys in each, 2 % of the writes
        a window late. ``"overwrite_heavy"``: 2 % of the keys, evenly, again and again.
        ``"delete_heavy"``: 45 % of the writes delete a key drawn evenly. ``"replayed"``: ``rows``.
    writes, keys, value_bytes
        How many rows, among how many keys (of 16 bytes), with values of this size, half of which
        can't be compressed. Replayed rows bring their own.
    reads_per_write, absent_share
        Gets for each write, of keys drawn evenly among those written so far; which share of the
        gets asks for a key that was never written, between others that were.
    writes_per_second
        A pace to hold, over each thousand, if RocksDB can; None: as fast as it takes them. A store
        that is written faster than it can compact has debts, and takes the more disk.
    seed, rows
        The same seed gives the same rows and gets. Keys and values (None: delete) to replay, once.
    was
        Of what a log tells, what it cost then: see :meth:`from_log`.

    Examples
    --------
    >>> Workload("skewed", writes=10_000, keys=1_000)
    Workload(skewed, 10,000 writes, 1,000 keys, values of 100 bytes, 0.1 reads a write, seed 7)
    """

    kind: str = "uniform"
    writes: int = 1_000_000
    keys: int = 250_000
    value_bytes: int = 100
    reads_per_write: float = 0.1
    absent_share: float = 0.1
    writes_per_second: float | None = None
    seed: int = 7
    rows: Iterable[tuple[bytes, bytes | None]] | None = field(default=None, compare=False)
    was: LoggedWork | None = field(default=None, compare=False)

    @classmethod
    def from_log(cls, store: Store, *, seed: int = 7, within_s: float = 30.0) -> Workload:
        """Return what was written to a store, as its own log and files tell.

        Keys are those of its rows, written as often, in a law that leaves as many rows of a flush,
        in the course that the log tells, or faster to end ``within_s``. What it cost is ``was``.

        Raises
        ------
        InputError
            If its log does not tell: it begins later than the store, has no level INFO, or what
            was written is too much, or of a kind that the lab does not write.
        """
        was, rows = drawn_again(store, seed=seed)
        return cls(
            REPLAYED,
            writes=was.writes,
            keys=rows.number,
            value_bytes=max(rows.value_bytes, 1),
            reads_per_write=0.0,
            writes_per_second=max(was.writes / min(was.seconds, within_s), 1.0),
            seed=seed,
            rows=rows,
            was=was,
        )

    def __post_init__(self) -> None:
        known = (*_DRAWS, REPLAYED)
        if self.kind not in known:
            message = f"No workload is called {self.kind!r}."
            raise ConfigurationError(message, hint=f"There are {', '.join(known)}.")
        if (self.kind == REPLAYED) != (self.rows is not None):
            rows = "without rows" if self.rows is None else "with rows"
            message = f"The workload is {self.kind!r}, {rows}."
            raise ConfigurationError(message, hint=f"Rows belong to {REPLAYED!r}, and to it alone.")
        for name, least in {"writes": 1, "keys": 1, "value_bytes": 1, "seed": 0}.items():
            self._check(name, least, None, whole=True)
        self._check("reads_per_write", 0, None)
        self._check("absent_share", 0, 1)
        if self.writes_per_second is not None:
            self._check("writes_per_second", 1, None)

    def _check(self, name: str, least: float, most: float | None, *, whole: bool = False) -> None:
        value = getattr(self, name)
        fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not fits or not least <= value <= (sys.float_info.max if most is None else most):
            limits = f"{least} or more" if most is None else f"{least} to {most}"
            message = f"A workload's {name} is {value!r}."
            hint = f"Give a {'whole' if whole else 'finite'} number, {limits}."
            raise ConfigurationError(message, hint=hint)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the rows, as plain values."""
        names = [each.name for each in fields(self) if each.name not in {"rows", "was"}]
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        drawn = f"{counted(self.writes, 'writes')}, {counted(self.keys, 'keys')}"
        sized = f"{drawn}, values of {counted(self.value_bytes, 'bytes')}"
        told = "its rows" if self.kind == REPLAYED else sized
        read = "read" if self.reads_per_write == 1 else "reads"
        reads = f"{self.reads_per_write:g} {read} a write, seed {self.seed}"
        return f"Workload({self.kind}, {told}, {reads})"


def generated(workload: Workload) -> Iterator[Operations]:
    """Yield the rows of a generated workload, a thousand at a time."""
    for first in range(0, workload.writes, BATCH_ROWS):
        draws = np.random.default_rng([workload.seed, first])
        rows = min(BATCH_ROWS, workload.writes - first)
        keys = _DRAWS[workload.kind](workload, draws, np.arange(first, first + rows))
        values = _values(draws, rows, workload.value_bytes)
        if workload.kind == "delete_heavy":
            deleted = draws.random(rows) < _DELETED_SHARE
            values = [None if gone else v for gone, v in zip(deleted, values, strict=True)]
        yield Operations(keys, values)


def _uniform(workload: Workload, draws: Draws, place: Places) -> list[bytes]:
    return _spread(draws.integers(0, workload.keys, len(place)))


def _skewed(workload: Workload, draws: Draws, place: Places) -> list[bytes]:
    # keys**u is below n with probability log(n) / log(keys): each key about 1/n as often.
    drawn = np.power(float(workload.keys), draws.random(len(place))).astype(np.int64) - 1
    return _spread(np.minimum(drawn, workload.keys - 1))


def _overwritten(workload: Workload, draws: Draws, place: Places) -> list[bytes]:
    hot = max(round(workload.keys * _HOT_SHARE), 1)
    return _spread(draws.integers(0, hot, len(place)))


def _time_ordered(workload: Workload, draws: Draws, place: Places) -> list[bytes]:
    window = place * _WINDOWS // workload.writes
    window = np.maximum(window - (draws.random(len(place)) < _LATE_SHARE), 0)
    return _pairs(window * _WINDOW_MS, _mixed(draws.integers(0, workload.keys, len(place))))


_DRAWS: dict[str, Callable[[Workload, Draws, Places], list[bytes]]] = {
    "uniform": _uniform,
    "skewed": _skewed,
    "time_ordered": _time_ordered,
    "overwrite_heavy": _overwritten,
    "delete_heavy": _uniform,
}

KINDS = tuple(_DRAWS)  # the workloads that can be generated


def _spread(numbers: NDArray[np.int64]) -> list[bytes]:
    """Return keys that lie anywhere in the order, as those that begin with a hash do."""
    return _pairs(_mixed(numbers), numbers)


def _mixed(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return numbers mixed one to one: the last steps of splitmix64 (Steele et al., 2014)."""
    mixed = numbers.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _pairs(high: NDArray[Any], low: NDArray[Any]) -> list[bytes]:
    pairs = np.stack([high.astype(np.uint64), low.astype(np.uint64)], axis=1).astype(">u8")
    return _rows(pairs.view(np.uint8))


def _values(draws: np.random.Generator, rows: int, size: int) -> list[bytes | None]:
    values = np.zeros((rows, size), np.uint8)
    half = (size + 1) // 2
    values[:, :half] = draws.integers(0, 256, (rows, half), np.uint8)
    return [*_rows(values)]


def _rows(table: NDArray[np.uint8]) -> list[bytes]:
    rows: list[bytes] = table.view(f"V{table.shape[1]}")[:, 0].tolist()
    return rows


_KEPT = 65_536
_ABSENT = b"\x00absent"


class AskedKeys:
    r"""A sample of the keys written, and draws from it, some of keys that were never written.

    The sample is even, in bounded memory: Vitter's algorithm R (ACM TOMS 11, 1985).

    >>> asked = AskedKeys(seed=7, absent_share=0.5)
    >>> asked.take_in([b"a"])
    >>> sorted(set(asked.draw(100)))
    [b'a', b'a\x00absent']
    """

    def __init__(self, *, seed: int, absent_share: float) -> None:
        self._draws = np.random.default_rng([seed, 1])
        self._absent_share = absent_share
        self._kept: list[bytes] = []
        self._seen = 0

    def take_in(self, keys: Sequence[bytes]) -> None:
        """Remember some of these keys."""
        free = _KEPT - len(self._kept)
        self._kept.extend(keys[:free])
        self._seen += min(free, len(keys))
        rest = keys[free:]
        places = self._draws.integers(0, self._seen + np.arange(1, len(rest) + 1))
        self._seen += len(rest)
        for row in np.flatnonzero(places < _KEPT).tolist():
            self._kept[places[row]] = rest[row]

    def draw(self, number: int) -> list[bytes]:
        """Return keys to ask for; none as long as none were written."""
        if not self._kept:
            return []
        places = self._draws.integers(0, len(self._kept), number)
        absent = self._draws.random(number) < self._absent_share
        drawn = zip(places, absent, strict=True)
        return [self._kept[place] + (_ABSENT if gone else b"") for place, gone in drawn]


_BATCH_BYTES = 4 << 20
_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def keep_rows(
    rows: Iterable[Row], path: Path, *, disk_bytes: int, ends: Collection[int] = ()
) -> int:
    """Write rows to a file of Arrow's stream format, in batches with such ends; return how many."""
    number = 0
    with path.open("wb") as file, pa.ipc.new_stream(file, _SCHEMA) as stream:
        for some in _batches(rows, frozenset(ends)):
            stream.write_batch(pa.record_batch([*some], _SCHEMA))
            number += len(some.keys)
            if file.tell() > disk_bytes:
                message = f"The rows to replay take more than {format_bytes(disk_bytes)}."
                raise ConfigurationError(message, hint="Raise disk_bytes, or give fewer rows.")
    if not number:
        message = "There are no rows to replay."
        raise InputError(message, hint="Give keys and values, such as a store's own rows.")
    return number


def kept_rows(path: Path) -> Iterator[Operations]:
    """Yield the rows of a file, as they were written."""
    with path.open("rb") as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield Operations(batch.column("key").to_pylist(), batch.column("value").to_pylist())


def _batches(rows: Iterable[Row], ends: frozenset[int]) -> Iterator[Operations]:
    """Yield the rows, so many at a time that neither their number nor their bytes are large."""
    batch, size = Operations([], []), 0
    for number, row in enumerate(rows, 1):
        key, value = _checked(row, number)
        batch.keys.append(key)
        batch.values.append(value)
        size += len(key) + len(value or b"")
        if len(batch.keys) == BATCH_ROWS or size >= _BATCH_BYTES or number in ends:
            yield batch
            batch, size = Operations([], []), 0
    if batch.keys:
        yield batch


def _checked(row: object, number: int) -> Row:
    match row:
        case bytes(key), (bytes() | None) as value:
            return key, value
    message = f"Row {number:,} to replay is {row!r:.80}."
    hint = "Give pairs such as (b'key', b'value'); a value of None deletes its key."
    raise ConfigurationError(message, hint=hint)


def chosen_profiles(given: Sequence[str | Profile], engine: str | None = None) -> list[Profile]:
    """Return profiles by their names, or as they are; one without a name gets a number for one.

    Over an engine, those that lie over RocksDB's own options have what that leaves instead.

    >>> from kstoolkit.rocksdb.profiles.profile import Profile
    >>> [each.name for each in chosen_profiles(["spark", Profile(block_size=8192)])]
    ['spark', 'profile 2']
    """
    if isinstance(given, str):  # a sequence of strings, too
        given = [given]
    found = [profile_named(each) if isinstance(each, str) else each for each in given]
    if engine is not None:
        found = [each.on(engine) if each.base == ROCKSDB else each for each in found]
    named = [
        each if each.name else each.changed(name=f"profile {n}") for n, each in enumerate(found, 1)
    ]
    names = [each.name for each in named]
    if not names:
        message = "There are no profiles to compare."
        raise ConfigurationError(message, hint="Give some, such as ['kafka_streams', 'spark'].")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"Two profiles are called {twice!r}."
        raise ConfigurationError(message, hint="Tell them apart: profile.changed(name=...).")
    return named
