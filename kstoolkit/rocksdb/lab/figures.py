"""What RocksDB tells of a trial's store: at a moment, and at its end."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.rocksdb.lab.tickers import Tickers, stall_counts

if TYPE_CHECKING:
    from rocksdict import Options, Rdict, ReadOptions

    from kstoolkit.rocksdb.lab.meter import Meter


_HIGH_WATER = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_CAUSES = ("memtable_limit", "l0_file_count_limit", "pending_compaction_bytes")
_BLOCKS = ("data", "index", "filter")
_FILTER = ("useful", "full.positive", "full.true.positive")
_CONDITIONS = [f"{cause}_{what}" for cause in _CAUSES for what in ("delays", "stops")]


def number(store: Rdict, name: str) -> int:
    """Return a property that is a number."""
    return store.property_int_value(f"rocksdb.{name}") or 0


def moment(store: Rdict, options: Options, meter: Meter) -> dict[str, Any]:
    """Return the figures of a moment, but for its time and disk."""
    tickers = _tickers(options)
    written = tickers.count("flush.write.bytes", "compact.write.bytes")
    return {
        "writes": meter.writes,
        "user_bytes": meter.user_bytes,
        "written_bytes": written,
        "write_amplification": _ratio(written, meter.user_bytes) if written else None,
        "level0_files": number(store, "num-files-at-level0"),
        "pending_compaction_bytes": number(store, "estimate-pending-compaction-bytes"),
        "stall_ms": tickers.count("stall.micros") / 1e3,
        **_by_level(store),
        "memtable_bytes": number(store, "size-all-mem-tables"),
        "block_cache_bytes": number(store, "block-cache-usage"),
        "block_cache_pinned_bytes": number(store, "block-cache-pinned-usage"),
        "table_readers_bytes": number(store, "estimate-table-readers-mem"),
        "put_p99_us": meter.puts.since_asked_us(99),
        "get_p99_us": meter.asks.since_asked_us(99),
    }


def at_end(store: Rdict, options: Options, meter: Meter) -> dict[str, Any]:
    """Return the figures of a whole trial, but for what its content and its process tell."""
    return _done(meter) | _worked(_tickers(options), meter) | _stood(store)


def content(store: Rdict, options: ReadOptions) -> dict[str, Any]:
    """Return how much can be read from the store, and its hash.

    Raises
    ------
    Exception
        What rocksdict raises, at a block that can't be read.
    """
    digest = hashlib.sha256()
    rows = size = 0
    cursor = store.iter(options)  # under a prefix extractor, none but these see every row
    cursor.seek_to_first()
    while cursor.valid():
        key, value = cursor.key(), cursor.value()
        digest.update(b"%d %d " % (len(key), len(value)) + key + value)
        rows += 1
        size += len(key) + len(value)
        cursor.next()
    cursor.status()
    return {"live_rows": rows, "live_bytes": size, "content_sha256": digest.hexdigest()}


def resting(store: Rdict) -> bool:
    """Return whether no flush and no compaction runs.

    ``compaction-pending`` tells nothing here: under the universal style it stays 1 as long as there
    are as many runs as the trigger says, though none are to be merged.
    """
    names = ("num-running-flushes", "mem-table-flush-pending", "num-running-compactions")
    return not any(number(store, name) for name in names)


def peak_resident_bytes() -> int | None:
    """Return the most memory this process ever had; None where the system doesn't tell.

    ``getrusage`` would tell of the parent's before the process began.
    """
    status = Path("/proc/self/status")
    found = _HIGH_WATER.search(status.read_text(encoding="ascii")) if status.exists() else None
    return int(found[1]) << 10 if found else None


def _done(meter: Meter) -> dict[str, Any]:
    return {
        "writes": meter.writes,
        "deletes": meter.deletes,
        "gets": meter.gets,
        "gets_found": meter.gets_found,
        "user_bytes": meter.user_bytes,
        "put_p50_us": meter.puts.percentile_us(50),
        "put_p99_us": meter.puts.percentile_us(99),
        "get_p50_us": meter.asks.percentile_us(50),
        "get_p99_us": meter.asks.percentile_us(99),
        "put_s": meter.puts.total_s,
        "get_s": meter.asks.total_s,
    }


def _worked(tickers: Tickers, meter: Meter) -> dict[str, Any]:
    flushed, compacted = tickers.count("flush.write.bytes"), tickers.count("compact.write.bytes")
    stalls = tickers.histogram("db.write.stall")
    return _read(tickers, meter) | {
        "num_flushes": tickers.histogram("db.flush.micros").count,
        "flush_bytes": flushed,
        "compaction_write_bytes": compacted,
        "compaction_read_bytes": tickers.count("compact.read.bytes"),
        "compaction_ms": tickers.histogram("compaction.times.micros").total / 1e3,
        "wal_bytes": tickers.count("wal.bytes"),
        "stall_ms": tickers.count("stall.micros") / 1e3,
        "num_stalls": stalls.count,
        "longest_stall_ms": stalls.most / 1e3,
        "write_amplification": _ratio(flushed + compacted, meter.user_bytes) if flushed else None,
        "tickers": {f"rocksdb.{name}": count for name, count in tickers.counts.items()},
    }


def _read(tickers: Tickers, meter: Meter) -> dict[str, Any]:
    files = tickers.count("last.level.read.bytes", "non.last.level.read.bytes")
    read = files - tickers.count("compact.read.bytes")
    useful, positives, true = (tickers.count(f"bloom.filter.{name}") for name in _FILTER)
    hits = {kind: tickers.count(f"block.cache.{kind}.hit") for kind in _BLOCKS}
    misses = {kind: tickers.count(f"block.cache.{kind}.miss") for kind in _BLOCKS}
    ratios = {kind: _ratio(hits[kind], hits[kind] + misses[kind]) for kind in _BLOCKS}
    return {
        "read_amplification": _ratio(max(read, 0), meter.got_bytes),
        "blocks_per_get": _ratio(tickers.histogram("read.block.get.micros").count, meter.gets),
        "filter_usefulness": _ratio(useful + true, useful + positives),
    } | {f"{kind}_block_hit_ratio": ratio for kind, ratio in ratios.items()}


def _stood(store: Rdict) -> dict[str, Any]:
    counts = stall_counts(
        store.property_value("rocksdb.cf-write-stall-stats") or "",
        store.property_value("rocksdb.db-write-stall-stats") or "",
    )
    files = store.live_files()
    levels = [each["level"] for each in files]
    manager = counts.get("write_buffer_manager_limit_stops", 0)
    return {
        "sst_bytes": number(store, "live-sst-files-size"),
        "num_files": len(files),
        "num_entries": sum(each["num_entries"] for each in files),
        "num_deletions": sum(each["num_deletions"] for each in files),
        "sorted_runs": levels.count(0) + len(set(levels) - {0}),
        "write_buffer_manager_limit_stops": manager,
    } | {name: counts.get(name, 0) for name in _CONDITIONS}


def _by_level(store: Rdict) -> dict[str, list[int]]:
    """Return how many files, and bytes, each level has, up to the last that has any."""
    files = store.live_files()
    levels = np.array([each["level"] for each in files], np.int64)
    sizes = np.array([each["size"] for each in files], np.int64)
    counts = np.bincount(levels)
    sums = [int(sizes[levels == level].sum()) for level in range(len(counts))]
    return {"level_files": counts.tolist(), "level_bytes": sums}


def _tickers(options: Options) -> Tickers:
    return Tickers.of_text(options.get_statistics() or "")


def _ratio(above: float, below: float) -> float | None:
    return above / below if below else None
