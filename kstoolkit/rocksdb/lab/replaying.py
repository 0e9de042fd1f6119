"""What a store's own log and files tell of what was written to it, drawn again for the lab.

::

    the log      each flush: entries in, rows out ──▶ how often keys come twice ──▶ a law of keys
                 files made and removed, jobs     ──▶ what it cost: amplification, peak disk
    the files    keys, sizes of values, how far they compress

Which key was written when, no log tells. So keys are those that the store holds, written as often
as a law has it, the n-th ``n ** -s`` as often as the first: ``s`` is that by which as many rows are
left of a flush as there were. All that was written has to be told: a log that begins later than its
store, or none at level INFO, tells too little.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import InputError
from kstoolkit.records import Record, Source, counted, of_source
from kstoolkit.rocksdb.log.lines import event_of, number_in
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kstoolkit.rocksdb.log.lines import Event
    from kstoolkit.rocksdb.store import Store

    Counts = NDArray[np.int64]

_MOST_WRITES, _MOST_KEYS = 20_000_000, 2_000_000
_ENTRIES = ("num_entries", "total_num_input_entries")
"""What a flush has of writes; the second since RocksDB 10.4."""
_STEPS, _STEEPEST = 40, 4.0
_MOVED = 0.5
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoggedWork(Record):
    """What was written to a store, and what that cost, by its log.

    Parameters
    ----------
    writes, deletes, seconds
        Entries of memtables that were flushed, deletions among them, and for how long they came.
    num_flushes, flush_bytes, compaction_write_bytes, write_amplification
        As of a :class:`~kstoolkit.rocksdb.lab.results.Trial`.
    peak_sst_bytes, sst_bytes
        The most that SST files took together, and what they took at the end.
    stalls
        How often writers had to wait, or were slowed down.
    flushed
        Entries of each flush, and the rows that were left of them.
    """

    writes: int = of_source(Source.LOG)
    deletes: int = of_source(Source.LOG)
    seconds: float = of_source(Source.LOG)
    num_flushes: int = of_source(Source.LOG)
    flush_bytes: int = of_source(Source.LOG)
    compaction_write_bytes: int = of_source(Source.LOG)
    write_amplification: float = of_source(Source.LOG)
    peak_sst_bytes: int = of_source(Source.LOG)
    sst_bytes: int = of_source(Source.LOG)
    stalls: int = of_source(Source.LOG)
    flushed: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    @property
    def sentence(self) -> str:
        """It in one sentence."""
        return (
            f"As it was, by its log: {counted(self.writes, 'writes')} in {self.seconds:,.1f} s, "
            f"{counted(self.num_flushes, 'flushes')}, write amplification "
            f"{self.write_amplification:.2f}, at most {format_bytes(self.peak_sst_bytes)} of SST "
            f"files, {counted(self.stalls, 'stalls')}."
        )

    def __repr__(self) -> str:
        return f"LoggedWork({self.sentence})"


def logged_work(store: Store) -> LoggedWork:
    """Return what was written to a store, by its log; an InputError if that does not tell."""
    told, log = _Told(), store.log(since=0)  # with those that were rotated
    for at, line in log.stamped_lines():
        if (event := event_of(line.text)) is not None and not line.continued:
            told.take(event)
        elif told.began is None and at is not None:
            told.began = at.timestamp()
    if not told.flushed:
        raise _untold(store, "it tells of no flush: its level is too high, or none came")
    if told.first > told.flushed[0][0]:  # of what is overwritten at once, the last is left
        raise _untold(
            store, f"it begins with write {told.first:,}; what was before is rotated away"
        )
    flushes, compactions = told.written["flush"], told.written["compaction"]
    began = told.first_flush if told.began is None else told.began
    return LoggedWork(
        writes=sum(entries for entries, _ in told.flushed),
        deletes=told.deletes,
        seconds=max(told.last_flush - began, 1e-3),
        num_flushes=len(told.flushed),
        flush_bytes=flushes,
        compaction_write_bytes=compactions,
        write_amplification=(flushes + compactions) / max(flushes, 1),
        peak_sst_bytes=told.peak,
        sst_bytes=sum(told.live.values()),
        stalls=len(log.stalls()),
        flushed=tuple(told.flushed),
    )


def _untold(store: Store, why: str) -> InputError:
    message = f"What was written to {store.path} can't be replayed from its log: {why}."
    return InputError(message, hint="--replay writes the rows that are there instead.")


class _Told:
    """What the events of a log come to."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.first_flush = self.last_flush = 0.0
        self.first, self.deletes, self.peak = 0, 0, 0
        self.flushed: list[tuple[int, int]] = []
        self.live: dict[int, int] = {}
        self.written = {"flush": 0, "compaction": 0}
        self._kinds: dict[int, str] = {}
        self._entries: dict[int, int] = {}

    def take(self, event: Event) -> None:
        """Take in an event."""
        name, job = event.get("event"), number_in(event, "job") or 0
        if name == "flush_started":
            self._begin(event, job)
        elif name == "compaction_started":
            self._kinds[job] = "compaction"
        elif name == "table_file_creation":
            self._made(event, job)
        elif name == "table_file_deletion":
            self.live.pop(number_in(event, "file_number") or -1, None)

    def _begin(self, event: Event, job: int) -> None:
        found = (number_in(event, name) for name in _ENTRIES)
        self._kinds[job] = "flush"
        self._entries[job] = next((each for each in found if each is not None), 0)
        self.deletes += number_in(event, "num_deletes") or 0
        self.last_flush = (number_in(event, "time_micros") or 0) / 1e6
        self.first_flush = self.first_flush or self.last_flush

    def _made(self, event: Event, job: int) -> None:
        size, properties = number_in(event, "file_size") or 0, event.get("table_properties")
        kind = self._kinds.get(job, "flush")
        self.written[kind] += size
        self.live[number_in(event, "file_number") or -1] = size
        self.peak = max(self.peak, sum(self.live.values()))
        if kind == "flush" and isinstance(properties, dict) and size:
            self.first = self.first or number_in(event, "smallest_seqno") or 1
            left = number_in(properties, "num_entries") or 0
            self.flushed.append((max(self._entries.pop(job, left), left), left))


def drawn_again(store: Store, *, seed: int) -> tuple[LoggedWork, DrawnAgain]:
    """Return what was written to a store, by its log, and a draw of rows like those."""
    was, ssts = logged_work(store), store.ssts()
    if was.writes > _MOST_WRITES:
        raise _untold(
            store, f"it has {was.writes:,} writes, of which {_MOST_WRITES:,} are replayed"
        )
    if sum(each.num_merge_operands or 0 for each in ssts):
        raise _untold(store, "it merges values, which the lab does not")
    keys = _keys(store, was.deletes / was.writes)
    compactions = store.log(since=0).compactions()
    moved = sum(each.moved for each in compactions)
    is_ordered = len(compactions) > 0 and moved > _MOVED * len(compactions)
    return was, DrawnAgain(was, keys, is_ordered=is_ordered, value=_value(ssts), seed=seed)


def _keys(store: Store, deleted: float) -> list[bytes]:
    """Return the keys there are, and as many beside them as are deleted at a time."""
    keys = []
    for key, _ in store.iter_rows():
        keys.append(key)
        if len(keys) > _MOST_KEYS:
            raise _untold(store, f"it has more than {_MOST_KEYS:,} keys")
    if not keys:
        raise _untold(store, "there is no row any more whose key could be written")
    gone = round(len(keys) * deleted / max(1 - deleted, 1 / len(keys)))
    return keys + [keys[place % len(keys)] + b"\0" for place in range(min(gone, len(keys)))]


def _value(ssts: Sequence[Any]) -> tuple[int, float]:
    """Return how long values are, and which part of one no compression makes shorter."""
    rows = sum(each.num_entries - each.num_deletions for each in ssts)
    raw, values = (
        sum(getattr(each, name) or 0 for each in ssts)
        for name in ("raw_key_bytes", "raw_value_bytes")
    )
    data = sum(each.data_bytes or 0 for each in ssts)
    packed = any(each.compression not in {None, "NoCompression"} for each in ssts)
    dense = min(data / max(raw + values, 1), 1.0) if packed else 1.0
    return round(values / max(rows, 1)), dense


class DrawnAgain:
    """Rows: keys by how often they are written, in the order of a draw, or in their own."""

    def __init__(
        self,
        was: LoggedWork,
        keys: Sequence[bytes],
        *,
        is_ordered: bool,
        value: tuple[int, float],
        seed: int,
    ) -> None:
        self._was, self._seed, self._is_ordered = was, seed, is_ordered
        self.value_bytes, self._dense = value
        draws = np.random.default_rng([seed, 2])
        self.number = len(keys)
        self._keys = np.array(keys, object)
        if not is_ordered:
            self._keys = self._keys[draws.permutation(len(keys))]
        weight = np.arange(1, len(keys) + 1) ** -_exponent(was.flushed, len(keys))
        self._share = np.cumsum(weight) / weight.sum()

    def __iter__(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the rows, the same each time."""
        length = self.value_bytes
        random = round(length * self._dense)
        for first in range(0, self._was.writes, _AT_ONCE):
            draws = np.random.default_rng([self._seed, 3, first])
            number = min(_AT_ONCE, self._was.writes - first)
            rank = np.searchsorted(self._share, draws.random(number))
            if self._is_ordered:
                rank = (first + np.arange(number)) * len(self._keys) // self._was.writes
            gone = draws.random(number) < self._was.deletes / self._was.writes
            texts = draws.bytes(number * random)
            for place, (key, is_gone) in enumerate(zip(self._keys[rank], gone, strict=True)):
                text = texts[place * random : (place + 1) * random]
                yield key, None if is_gone else text + bytes(length - random)


def _exponent(flushed: Sequence[tuple[int, int]], keys: int) -> float:
    """Return how steep the law of keys is: as many rows are left of each flush as there were."""
    entries, left = (np.array(each, np.float64) for each in zip(*flushed, strict=True))
    ranks, low, high = np.arange(1, keys + 1, dtype=np.float64), 0.0, _STEEPEST
    typical = float(np.median(entries))
    wanted = float(left.sum() / entries.sum()) * typical
    for _ in range(_STEPS):
        middle = (low + high) / 2
        share = ranks**-middle
        expected = -np.expm1(-typical * share / share.sum()).sum()
        low, high = (middle, high) if expected > wanted else (low, middle)
    return low
