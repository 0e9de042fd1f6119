"""What a store's own log and files tell of what was written to it, drawn again for the lab.

::

    the log      flushes, merges: writes in, rows left ──▶ how often keys come twice ──▶ a law
                 files made and removed, jobs          ──▶ what it cost: amplification, peak disk
    the files    keys, values

Which key was written when, no log tells. So keys are those that the store holds, written as often
as a law has it by which as many rows are left of so many writes as there were: of those of a flush,
and of the more that merges have. All that was written has to be told: a log that begins later than
its store, or none at level INFO, tells too little.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.errors import InputError
from kstoolkit.records import Record, Source, counted, of_source
from kstoolkit.rocksdb.log.lines import event_of, list_in, number_in
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kstoolkit.rocksdb.log.lines import Event
    from kstoolkit.rocksdb.log.storelog import StoreLog
    from kstoolkit.rocksdb.store import Store

    Rows = tuple[list[bytes], list[bytes]]

_MOST_WRITES, _MOST_KEYS, _MOST_BYTES = 20_000_000, 2_000_000, 64 << 20
_ENTRIES, _OFFSETS = ("num_entries", "total_num_input_entries"), "offsets"
"""What a flush has of writes (the second since RocksDB 10.4); a family of Kafka Streams' own."""
_FULL = "Write Buffer Full"
_STEPS, _RATES, _RAREST = 400, 60, 0.1
_MOVED, _REWRITTEN, _AT_WORK, _OFF = 0.5, 1.5, 0.9, 0.2
_AT_ONCE, _LONGER = 1_000, 10
_APART = 997  # rows that are neighbours have values that are none: files must not shrink by it


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
    left, course, asked
        Writes, and the rows that were left of them, of each flush, and each merge with new files;
        writes until each flush, and how many would have come by then if they came evenly; and until
        each flush that came for another reason than a full memtable: its owner's commits.
    value_bytes
        Of the rows of each flush: how long their values are, as those that add up grow.
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
    left: tuple[tuple[float, int], ...] = field(default=(), repr=False)
    course: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    asked: tuple[int, ...] = field(default=(), repr=False)
    value_bytes: tuple[float, ...] = field(default=(), repr=False)

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


def peak_sst_bytes(log: StoreLog) -> int:
    """Return the most that SST files took together, by what a log tells of each."""
    return _told_by(log).peak


def _told_by(log: StoreLog) -> _Told:
    told = _Told()
    for at, line in log.stamped_lines():
        if (event := event_of(line.text)) is not None and not line.continued:
            told.take(event)
        elif told.began is None and at is not None:
            told.began = at.timestamp()
    return told


def logged_work(store: Store) -> LoggedWork:
    """Return what was written to a store, by its log; an InputError if that does not tell."""
    told = _told_by(log := store.log(since=0))  # with those that were rotated
    if not told.flushed:
        raise _untold(store, "it tells of no flush: its level is too high, or none came")
    if told.first > told.flushed[0][0]:  # of what is overwritten at once, the last is left
        raise _untold(store, f"it begins with write {told.first:,}; what was before is gone")
    flushes, compactions = told.written["flush"], told.written["compaction"]
    began = told.times[0] if told.began is None else told.began
    stalled = [each.at.timestamp() if each.at else began for each in log.stalls()]
    return LoggedWork(
        writes=sum(entries for entries, _ in told.flushed),
        deletes=told.deletes,
        seconds=max(told.times[-1] - began, 1e-3),
        num_flushes=len(told.flushed),
        flush_bytes=flushes,
        compaction_write_bytes=compactions,
        write_amplification=(flushes + compactions) / max(flushes, 1),
        peak_sst_bytes=told.peak,
        sst_bytes=sum(told.live.values()),
        stalls=len(stalled),
        left=(*told.flushed, *told.all_merged()),
        course=_course(told.flushed, np.array([began, *told.times]), stalled),
        asked=tuple(told.asked),
        value_bytes=tuple(told.value_bytes),
    )


def _course(
    flushed: Sequence[tuple[int, int]], times: NDArray[np.float64], stalled: Sequence[float]
) -> tuple[tuple[float, ...], ...]:
    """Return the course; what had to wait is due at once, but for where nothing came for long."""
    took = np.maximum(np.diff(times), 0.0)
    if stalled:
        waited = np.unique(np.searchsorted(times[1:-1], stalled))
        took[waited] = np.maximum(took[waited] - np.quantile(took[waited], _AT_WORK), 0.0)
    written = np.cumsum([0, *(entries for entries, _ in flushed)])
    evenly = np.cumsum([0.0, *took]) * written[-1] / max(times[-1] - times[0], 1e-3)
    return tuple(written.tolist()), tuple(evenly.tolist())


def _untold(store: Store, why: str) -> InputError:
    message = f"What was written to {store.path} can't be replayed from its log: {why}."
    return InputError(message, hint="--replay writes the rows that are there instead.")


class _Told:
    """What the events of a log come to."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.first, self.deletes, self.peak = 0, 0, 0
        self.flushed: list[tuple[int, int]] = []
        self.asked: list[int] = []
        self.value_bytes: list[float] = []
        self.times: list[float] = []
        self.live: dict[int, int] = {}
        self.written = {"flush": 0, "compaction": 0}
        self._begun: dict[int, tuple[int, float, bool]] = {}
        self._merged: list[tuple[float, int, int]] = []
        self._merges: dict[int, tuple[float, bool, dict[int, tuple[int, int]]]] = {}
        self._of: dict[int, float] = {}  # how many writes each file is made of

    def take(self, event: Event) -> None:
        """Take in an event."""
        name, job = event.get("event"), number_in(event, "job") or 0
        self.now = (number_in(event, "time_micros") or 0) / 1e6
        if name == "flush_started":
            self._begin(event, job)
        elif name == "compaction_started":
            self._merge(event, job)
        elif name == "compaction_finished":
            self._merge_ended(job)
        elif name == "table_file_creation" and event.get("cf_name") != _OFFSETS:
            self._made(event, job)
        elif name == "table_file_deletion":
            self.live.pop(number_in(event, "file_number") or -1, None)

    def _begin(self, event: Event, job: int) -> None:
        found = (number_in(event, name) for name in _ENTRIES)
        self._merges.pop(job, None)  # a store that is opened again counts its jobs anew
        entries = next((each for each in found if each is not None), 0)
        self._begun[job] = entries, self.now, event.get("flush_reason", _FULL) != _FULL
        self.deletes += number_in(event, "num_deletes") or 0

    def _merge(self, event: Event, job: int) -> None:
        files = {name: list_in(event, name) for name in event if name.startswith("files_L")}
        found = (each for some in files.values() for each in some if isinstance(each, int))
        entries = sum(self._of.get(each, 0) for each in found)
        self._merges[job] = entries, "files_L0" in files, {}  # flushes have keys of all ranges

    def _merge_ended(self, job: int) -> None:
        entries, is_whole, made = self._merges.pop(job, (0, False, {}))
        rows, deletes = (sum(each) for each in zip((0, 0), *made.values(), strict=True))
        self._of |= {name: entries * number / rows for name, (number, _) in made.items() if rows}
        if is_whole and rows:
            self._merged.append((entries, rows, deletes))

    def all_merged(self) -> list[tuple[float, int]]:
        """Return the writes of merges, and how many keys they were of, those that are gone too."""
        writes = sum(entries for entries, _ in self.flushed)
        there = max(1 - self.deletes / writes, 1 / writes)
        told = ((n, rows if deletes else round(rows / there)) for n, rows, deletes in self._merged)
        return [(max(n, keys), keys) for n, keys in told]

    def _made(self, event: Event, job: int) -> None:
        size, properties = max(number_in(event, "file_size") or 0, 0), event.get("table_properties")
        name, merge = number_in(event, "file_number") or -1, self._merges.get(job)
        self.written["compaction" if merge else "flush"] += size
        self.live[name] = size
        self.peak = max(self.peak, sum(self.live.values()))
        if not isinstance(properties, dict) or not size:
            return
        names = ("num_entries", "num_deletions", "raw_value_size")
        left, deletes, values = (max(number_in(properties, each) or 0, 0) for each in names)
        if merge is not None:
            merge[2][name] = left, deletes
        elif left:
            self.first = self.first or number_in(event, "smallest_seqno") or 1
            entries, at, is_asked = self._begun.pop(job, (left, self.now, False))
            self.flushed.append((max(entries, left), left))
            self.value_bytes.append(values / max(left - deletes, 1))
            if is_asked:
                self.asked.append(sum(entries for entries, _ in self.flushed))
            self.times.append(at)
            self._of[name] = max(entries, left)


def drawn_again(store: Store, *, seed: int) -> tuple[LoggedWork, DrawnAgain]:
    """Return what was written to a store, by its log, and a draw of rows like those."""
    was = logged_work(store)
    ssts = [each for each in store.ssts() if each.column_family != _OFFSETS]
    if was.writes > _MOST_WRITES:
        raise _untold(store, f"it has {was.writes:,} writes, and {_MOST_WRITES:,} are the most")
    if abs(was.sst_bytes - (there := sum(each.size_bytes for each in ssts))) > _OFF * there:
        files = f"{format_bytes(was.sst_bytes)} of SST files, and {format_bytes(there)} are there"
        raise _untold(store, f"it tells of {files}")
    if sum(each.num_merge_operands or 0 for each in ssts):
        raise _untold(store, "it merges values, which the lab does not")
    rows = _rows(store, was.deletes / was.writes)
    compactions = store.log(since=0).compactions()
    moved = sum(each.moved for each in compactions) > _MOVED * len(compactions)
    is_ordered = moved and was.write_amplification < _REWRITTEN
    return was, DrawnAgain(was, rows, is_ordered=is_ordered, seed=seed)


def _rows(store: Store, deleted: float) -> Rows:
    """Return the keys there are, and as many beside them as are deleted at a time; some values."""
    keys, values, size = [], [], 0
    for key, value in islice(store.iter_rows(), _MOST_KEYS + 1):
        keys.append(key)
        if size < _MOST_BYTES:
            values.append(value)
            size += len(value)
    if len(keys) > _MOST_KEYS:
        raise _untold(store, f"it has more than {_MOST_KEYS:,} keys")
    if not keys:
        raise _untold(store, "there is no row any more whose key could be written")
    gone = round(len(keys) * deleted / max(1 - deleted, 1 / len(keys)))
    added = [keys[place % len(keys)] + b"\0" for place in range(min(gone, len(keys)))]
    return keys + added, values


class DrawnAgain:
    """Rows: keys by how often they are written, in the order of a draw, or in their own."""

    def __init__(self, was: LoggedWork, rows: Rows, *, is_ordered: bool, seed: int) -> None:
        self._was, self._seed, self._is_ordered = was, seed, is_ordered
        keys, values = self._keys, self._values = rows
        self.number, self.value_bytes = len(keys), round(sum(map(len, values)) / len(values))
        self._ends = np.cumsum([entries for entries, _ in was.left[: was.num_flushes]])
        self._long = (np.array(was.value_bytes) / max(self.value_bytes, 1)).clip(0, _LONGER)
        order = np.random.default_rng([seed, 2]).permutation(len(keys))
        self._order = np.arange(len(keys)) if is_ordered else order
        self._law = _law(was.left, len(keys), was.writes)

    def __iter__(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the rows, the same each time."""
        for first in range(0, self._was.writes, _AT_ONCE):
            draws = np.random.default_rng([self._seed, 3, first])
            number = min(_AT_ONCE, self._was.writes - first)
            rank = np.interp(draws.random(number), *self._law).astype(np.int64)
            if self._is_ordered:
                rank = (first + np.arange(number)) * self.number // self._was.writes
            gone = draws.random(number) < self._was.deletes / self._was.writes
            others, places = np.divmod(rank, self.number)
            long = self._long[np.searchsorted(self._ends, first + np.arange(number), "right")]
            rows = (each.tolist() for each in (self._order[places], others, gone, long))
            for place, unseen, is_gone, times in zip(*rows, strict=True):
                value = self._values[(place + _APART * unseen) % len(self._values)]
                value = (value * (1 + int(times)))[: round(len(value) * times)]
                yield self._keys[place] + b"\1" * unseen, None if is_gone else value


def _law(left: Sequence[tuple[float, int]], keys: int, writes: int) -> NDArray[np.float64]:
    """Return the share of writes that the most written keys have, and how many of them: two rows.

    Of n writes, ``sum(1 - exp(-n * rate))`` rows are left, and of all of them the keys there are:
    more might have been written. How many keys have which rate is found by the steps of Richardson
    (1972) and Lucy (1974), from as many writes of each rate.
    """
    entries, rows = (np.array([*each], np.float64) for each in zip(*left, strict=True))
    rates, sure = np.geomspace(1, _RAREST / writes, _RATES), entries.sum() / entries.max()
    # How many keys were seen, and that rates come to 1, is sure, and weighs as much as all else.
    seen = -np.expm1(-writes * rates)
    told = np.vstack([-np.expm1(-np.outer(entries, rates)), sure * seen, sure * keys * rates])
    wanted, number = np.array([*rows, sure * keys, sure * keys]), 1 / rates / _RATES
    for _ in range(_STEPS):
        number *= told.T @ (wanted / (told @ number)) / told.sum(axis=0)
    law = np.cumsum([np.zeros(2), *zip(number * rates, number, strict=True)], axis=0).T
    law[0] /= law[0, -1]
    return law
