"""One profile's trial, as the main module of a process of its own.

It reads one line of JSON from stdin: the workload, the profile, and where to put the store. It
answers on stdout with one object a line::

    {"opened": true}
    {"moment": {…}}                four times a second, and at the end
    {"written": true}              when no more writes come
    {"end": {…}}                   the figures, or {"error": …, "hint": …}

A second line on stdin, or its end, stops the writes; the trial then ends as usual. The figures are
what its own calls took, what RocksDB's statistics count, and what its properties say.
"""

from __future__ import annotations

import hashlib
import json
import re
import select
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, perf_counter_ns, sleep
from typing import TYPE_CHECKING, Any

import numpy as np
from rocksdict import Rdict

from kstoolkit.errors import KstoolkitError
from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.files.damage import rows_of
from kstoolkit.rocksdb.lab.workloads import AskedKeys, Workload, generated, kept_rows
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rocksdict import Options, WriteOptions

    from kstoolkit.rocksdb.lab.workloads import Operations


@dataclass(slots=True)
class _Latencies:
    """How long each call took, in nanoseconds, in the order of the calls."""

    parts: list[NDArray[np.int64]] = field(default_factory=list)
    asked: int = 0

    @property
    def total_s(self) -> float:
        return sum(int(part.sum()) for part in self.parts) / 1e9

    def percentile_us(self, percent: float, first: int = 0) -> float | None:
        """Return what so many percent of the calls stay within; None if there were none."""
        parts = self.parts[first:]
        return float(np.percentile(np.concatenate(parts), percent)) / 1e3 if parts else None

    def p99_since_asked_us(self) -> float | None:
        """Return what 99 percent of the calls since this was asked last stay within."""
        first, self.asked = self.asked, len(self.parts)
        return self.percentile_us(99, first)


@dataclass(slots=True)
class _Meter:
    """Writes and gets, counted and timed."""

    writes: int = 0
    deletes: int = 0
    user_bytes: int = 0
    gets: int = 0
    gets_found: int = 0
    got_bytes: int = 0
    puts: _Latencies = field(default_factory=_Latencies)
    asks: _Latencies = field(default_factory=_Latencies)

    def write(self, store: Rdict, batch: Operations, options: WriteOptions) -> None:
        """Write a batch, one row after the other, as a state store's callers do."""
        put, now, times = store.put, perf_counter_ns, [perf_counter_ns()]
        for key, value in zip(batch.keys, batch.values, strict=True):
            if value is None:
                store.delete(key, options)
            else:
                put(key, value, options)
            times.append(now())
        self.puts.parts.append(np.diff(times))
        self.writes += len(batch.keys)
        self.deletes += batch.values.count(None)
        self.user_bytes += sum(map(len, batch.keys)) + sum(len(v) for v in batch.values if v)

    def ask(self, store: Rdict, keys: Sequence[bytes]) -> None:
        """Get some keys, one after the other."""
        answers: list[bytes | None] = []
        times = [perf_counter_ns()]
        for key in keys:
            answers.append(store.get(key))
            times.append(perf_counter_ns())
        if keys:
            self.asks.parts.append(np.diff(times))
        sizes = [len(k) + len(v) for k, v in zip(keys, answers, strict=True) if v is not None]
        self.gets += len(keys)
        self.gets_found += len(sizes)
        self.got_bytes += sum(sizes)


_TICKER = re.compile(r"^(rocksdb\.\S+) COUNT : (\d+)$", re.MULTILINE)
_HISTOGRAM = re.compile(
    r"^(rocksdb\.\S+) P50 : \S+ P95 : \S+ P99 : \S+ P100 : (\S+) COUNT : (\d+) SUM : (\d+)$",
    re.MULTILINE,
)
_STALL = re.compile(r"([\w-]+): (\d+)")


@dataclass(frozen=True, slots=True)
class _Histogram:
    """What RocksDB keeps of many lengths: how many, their sum, and the longest."""

    count: int
    total: int
    most: float


class _TrialStatistics:
    """RocksDB's counts since the store was opened, by its names without ``rocksdb.``."""

    def __init__(self, options: Options) -> None:
        text = options.get_statistics() or ""
        self.counts = {n.removeprefix("rocksdb."): int(count) for n, count in _TICKER.findall(text)}
        self.histograms = {
            name.removeprefix("rocksdb."): _Histogram(int(count), int(total), float(most))
            for name, most, count, total in _HISTOGRAM.findall(text)
        }

    def count(self, *names: str) -> int:
        return sum(self.counts[name] for name in names)


def _stall_counts(*texts: str) -> dict[str, int]:
    """Return how often each condition for a stall came about, as properties of a store tell it."""
    found = [pair for text in texts for pair in _STALL.findall(text.partition("(count):")[2])]
    return {name.replace("-", "_"): int(number) for name, number in found}


_HIGH_WATER = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_CAUSES = ("memtable_limit", "l0_file_count_limit", "pending_compaction_bytes")
_BLOCKS = ("data", "index", "filter")
_FILTER = ("useful", "full.positive", "full.true.positive")
_CONDITIONS = [f"{cause}_{what}" for cause in _CAUSES for what in ("delays", "stops")]


def _number_of(store: Rdict, name: str) -> int:
    return store.property_int_value(f"rocksdb.{name}") or 0


def _moment_now(store: Rdict, options: Options, meter: _Meter) -> dict[str, Any]:
    """Return the figures of a moment, but for its time and disk."""
    tickers = _TrialStatistics(options)
    flushed = tickers.count("flush.write.bytes")
    written = flushed + tickers.count("compact.write.bytes")
    files = store.live_files()
    levels = np.array([each["level"] for each in files], np.int64)
    sizes = np.array([each["size"] for each in files], np.int64)
    counts = np.bincount(levels)  # up to the last level that has any
    return {
        "writes": meter.writes,
        "user_bytes": meter.user_bytes,
        "written_bytes": written,
        "write_amplification": _ratio(written, flushed),
        "written_per_user_byte": _ratio(written, meter.user_bytes) if flushed else None,
        "level0_files": _number_of(store, "num-files-at-level0"),
        "pending_compaction_bytes": _number_of(store, "estimate-pending-compaction-bytes"),
        "stall_ms": tickers.count("stall.micros") / 1e3,
        "level_files": counts.tolist(),
        "level_bytes": [int(sizes[levels == level].sum()) for level in range(len(counts))],
        "memtable_bytes": _number_of(store, "size-all-mem-tables"),
        "block_cache_bytes": _number_of(store, "block-cache-usage"),
        "block_cache_pinned_bytes": _number_of(store, "block-cache-pinned-usage"),
        "table_readers_bytes": _number_of(store, "estimate-table-readers-mem"),
        "put_p99_us": meter.puts.p99_since_asked_us(),
        "get_p99_us": meter.asks.p99_since_asked_us(),
    }


def _content(store: Rdict) -> dict[str, Any]:
    """Return how much can be read from the store, and its hash."""
    digest = hashlib.sha256()
    rows = size = 0
    for key, value in rows_of(store):
        digest.update(b"%d %d " % (len(key), len(value)) + key + value)
        rows += 1
        size += len(key) + len(value)
    return {"live_rows": rows, "live_bytes": size, "content_sha256": digest.hexdigest()}


def _resting(store: Rdict) -> bool:
    """Return whether no flush and no compaction runs.

    ``compaction-pending`` tells nothing: under the universal style it stays 1 as long as there are
    as many runs as the trigger says, though none are to be merged.
    """
    names = ("num-running-flushes", "mem-table-flush-pending", "num-running-compactions")
    return not any(_number_of(store, name) for name in names)


def _done(meter: _Meter) -> dict[str, Any]:
    counts = ("writes", "deletes", "gets", "gets_found", "user_bytes")
    return {name: getattr(meter, name) for name in counts} | {
        "put_p50_us": meter.puts.percentile_us(50),
        "put_p99_us": meter.puts.percentile_us(99),
        "get_p50_us": meter.asks.percentile_us(50),
        "get_p99_us": meter.asks.percentile_us(99),
        "put_s": meter.puts.total_s,
        "get_s": meter.asks.total_s,
    }


def _worked(tickers: _TrialStatistics, meter: _Meter) -> dict[str, Any]:
    flushed, compacted = tickers.count("flush.write.bytes"), tickers.count("compact.write.bytes")
    written, stalls = flushed + compacted, tickers.histograms["db.write.stall"]
    return _read(tickers, meter) | {
        "num_flushes": tickers.histograms["db.flush.micros"].count,
        "flush_bytes": flushed,
        "compaction_write_bytes": compacted,
        "compaction_read_bytes": tickers.count("compact.read.bytes"),
        "compaction_ms": tickers.histograms["compaction.times.micros"].total / 1e3,
        "wal_bytes": tickers.count("wal.bytes"),
        "stall_ms": tickers.count("stall.micros") / 1e3,
        "num_stalls": stalls.count,
        "longest_stall_ms": stalls.most / 1e3,
        "write_amplification": _ratio(written, flushed),
        "written_per_user_byte": _ratio(written, meter.user_bytes) if flushed else None,
        "tickers": {f"rocksdb.{name}": count for name, count in tickers.counts.items()},
    }


def _read(tickers: _TrialStatistics, meter: _Meter) -> dict[str, Any]:
    files = tickers.count("last.level.read.bytes", "non.last.level.read.bytes")
    read = files - tickers.count("compact.read.bytes")
    useful, positives, true = (tickers.count(f"bloom.filter.{name}") for name in _FILTER)
    hits = {kind: tickers.count(f"block.cache.{kind}.hit") for kind in _BLOCKS}
    misses = {kind: tickers.count(f"block.cache.{kind}.miss") for kind in _BLOCKS}
    ratios = {kind: _ratio(hits[kind], hits[kind] + misses[kind]) for kind in _BLOCKS}
    return {
        "read_amplification": _ratio(max(read, 0), meter.got_bytes),
        "blocks_per_get": _ratio(tickers.histograms["read.block.get.micros"].count, meter.gets),
        "filter_usefulness": _ratio(useful + true, useful + positives),
    } | {f"{kind}_block_hit_ratio": ratio for kind, ratio in ratios.items()}


def _stood(store: Rdict) -> dict[str, Any]:
    counts = _stall_counts(
        store.property_value("rocksdb.cf-write-stall-stats") or "",
        store.property_value("rocksdb.db-write-stall-stats") or "",
    )
    files = store.live_files()
    levels = [each["level"] for each in files]
    return {
        "sst_bytes": _number_of(store, "live-sst-files-size"),
        "num_files": len(files),
        "num_entries": sum(each["num_entries"] for each in files),
        "num_deletions": sum(each["num_deletions"] for each in files),
        "sorted_runs": levels.count(0) + len(set(levels) - {0}),
        "write_buffer_manager_limit_stops": counts.get("write_buffer_manager_limit_stops", 0),
    } | {name: counts.get(name, 0) for name in _CONDITIONS}


def _ratio(above: float, below: float) -> float | None:
    return above / below if below else None


_MOMENT_S, _LOOK_S = 0.25, 0.01
_AT_REST_S = 0.2  # for how long a store has to be seen at rest: what ends may start a compaction
_GETS_AT_ONCE = 10_000

_NO_STALLS = {
    "level0_slowdown_writes_trigger": str(2**30),
    "level0_stop_writes_trigger": str(2**30),
    "soft_pending_compaction_bytes_limit": "0",
    "hard_pending_compaction_bytes_limit": "0",
}


class _TriedStore:
    """A store that is written and asked, with somebody told how it goes."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.workload = Workload(**request["workload"], rows=() if request["rows"] else None)
        self.rows, self.course, self.asked = request["rows"], request["course"], {*request["asked"]}
        name, unknown = request["profile"]["name"], request["profile"]["unknown"]
        options = request["profile"]["options"] | {"statistics": True}
        self.profile = Profile(name=name, unknown=unknown, **options)
        self.options = self.profile.to_rocksdict()
        self.store = Rdict(request["path"], self.options)
        self.store.set_read_options(self.profile.read_options())
        self.meter = _Meter()
        self.began = self.told = perf_counter()

    def run(self) -> dict[str, Any]:
        """Write, wait for what RocksDB has yet to do, and return the figures."""
        _tell({"opened": True})
        finished = self._write()
        _tell({"written": True})
        self._tell_moment()
        settled, settle_s = self._settle() if finished else (False, 0.0)
        worked = _worked(_TrialStatistics(self.options), self.meter)
        figures = _done(self.meter) | worked | _stood(self.store)
        self._tell_moment()
        status = Path("/proc/self/status")  # ``getrusage`` would tell of its parent's memory
        found = _HIGH_WATER.search(status.read_text(encoding="ascii")) if status.exists() else None
        return {
            **figures,
            **_content(self.store),
            "finished": finished,
            "settled": settled,
            "settle_s": settle_s,
            "peak_resident_bytes": int(found[1]) << 10 if found else None,
            "unset": self.profile.not_in_rocksdict(),
        }

    def _write(self) -> bool:
        """Write the workload, with gets in between; return whether that came to its end."""
        asked = AskedKeys(seed=self.workload.seed, absent_share=self.workload.absent_share)
        options = self.profile.write_options()
        due = 0.0
        for batch in kept_rows(Path(self.rows)) if self.rows else generated(self.workload):
            if _told_to_stop():
                return False
            self.meter.write(self.store, batch, options)
            if self.meter.writes in self.asked:
                self.store.flush()
            if self.workload.reads_per_write:
                asked.take_in(batch.keys)
            due += len(batch.keys) * self.workload.reads_per_write
            if not self._ask(asked, int(due)):
                return False
            due -= int(due)
            self._tell_if_due()
            self._keep_pace()
        return True

    def _ask(self, asked: AskedKeys, gets: int) -> bool:
        """Get that many keys, some at a time; return whether that came to its end."""
        for first in range(0, gets, _GETS_AT_ONCE):
            if first and _told_to_stop():
                return False
            self.meter.ask(self.store, asked.draw(min(_GETS_AT_ONCE, gets - first)))
            self._tell_if_due()
        return True

    def _settle(self) -> tuple[bool, float]:
        """Flush, and wait until RocksDB rests; return whether it did in time, and how long."""
        began = perf_counter()
        # A flush waits until it would make no writer wait, which may be for ever; none writes now.
        self.store.set_options(_NO_STALLS)
        self.store.flush()
        busy = perf_counter()
        while perf_counter() - busy < _AT_REST_S:
            if _told_to_stop():
                return False, perf_counter() - began
            if not _resting(self.store):
                busy = perf_counter()
            sleep(_LOOK_S)
            self._tell_if_due()
        return True, busy - began

    def _keep_pace(self) -> None:
        """Wait until the next batch is due, or the trial is to stop."""
        pace = self.workload.writes_per_second
        if pace is not None:
            done = self.meter.writes
            due = self.began + (np.interp(done, *self.course) if self.course else done) / pace
            _told_to_stop(within_s=max(due - perf_counter(), 0.0))

    def _tell_if_due(self) -> None:
        if perf_counter() - self.told >= _MOMENT_S:
            self._tell_moment()

    def _tell_moment(self) -> None:
        self.told = perf_counter()
        at_ms = round((self.told - self.began) * 1e3)
        _tell({"moment": {"at_ms": at_ms} | _moment_now(self.store, self.options, self.meter)})


def main() -> None:
    """Run the trial that stdin asks for."""
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        request = json.loads(stdin.readline())  # unbuffered: a later line stays to be seen
    try:
        with translated(request["path"]):
            tried = _TriedStore(request)
            figures = tried.run()
            tried.store.close()
    except KstoolkitError as error:
        _tell({"error": error.message, "hint": error.hint})
    else:
        _tell({"end": figures})


def _tell(message: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(message)}\n")
    sys.stdout.flush()


def _told_to_stop(*, within_s: float = 0.0) -> bool:
    """Return whether the parent wants no more writes, or is no more; wait so long to learn it."""
    return bool(select.select([0], [], [], within_s)[0])


if __name__ == "__main__":
    main()
