"""Where the figures of Kafka Streams' RocksDB metrics stand in our records, and in Spark's.

The names are those of KIP-471 (from RocksDB's statistics, recorded at level DEBUG) and KIP-607
(from its properties, recorded at level INFO). The documentation of Kafka gives stalls, flushes and
compactions in milliseconds; the code hands on RocksDB's microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kstoolkit.records import Record, Records, Source, of_source

_SPARK_HAS_NONE = "Spark's progress has no such figure"
_MOMENT = "a state of the writer at a moment, which nothing on disk keeps"
_NOT_OPEN = "only the writer counts the rows of its memtables: a store opened to be read has none"
_IN_ALL = (
    "Spark counts hits and misses of all blocks alike, as rocksdbReadBlockCache{Hit,Miss}Count"
)


class _Row(NamedTuple):
    """A metric, and where it stands in RocksDB and in an open store."""

    name: str
    in_rocksdb: str
    in_store: str | None = None


@dataclass(frozen=True, slots=True)
class MetricName(Record):
    """A metric of Kafka Streams, and where else its figure stands.

    Parameters
    ----------
    kip, since, group
        Which proposal brought it, in which version of Kafka Streams; the group of its MBean.
    name
        Its name; several that differ in the statistic alone are in braces.
    in_rocksdb
        The ticker, histogram or property of RocksDB that it is made of.
    in_records
        Where it stands in what ``store = kst.open_store(path)`` returns. What is under ``log()``
        is the writer's own; what is under ``memory()`` describes the process that opened the store.
        A ratio is written as what it is worked out of.
    in_spark
        The name in ``stateOperators[i].customMetrics`` of a query's progress.
    unknown
        Why it doesn't stand there, by the name of the field.
    """

    kip: str
    since: str
    group: str
    name: str
    in_rocksdb: str = of_source(Source.METRICS)
    in_records: str | None = of_source(Source.METRICS)
    in_spark: str | None = of_source(Source.METRICS)
    unknown: dict[str, str] = field(default_factory=dict)


def _ticker(name: str) -> str:
    return f"log().stats()[i].tickers['rocksdb.{name}']"


def _hit_ratio(ticker: str) -> _Row:
    """Return a share of hits, written as what it is worked out of."""
    metric = f"{ticker.replace('.', '-')}-hit-ratio"
    name = ticker.upper().replace(".", "_")
    hit, miss = _ticker(f"{ticker}.hit"), _ticker(f"{ticker}.miss")
    ratio = f"{hit} / (store.{hit} + store.{miss})"
    return _Row(metric, f"{name}_HIT / ({name}_HIT + {name}_MISS)", ratio)


_BLOCKS = ("data", "index", "filter")
_STATISTICS = (
    _Row("bytes-written-{rate,total}", "BYTES_WRITTEN", _ticker("bytes.written")),
    _Row("bytes-read-{rate,total}", "BYTES_READ", _ticker("bytes.read")),
    _Row(
        "memtable-bytes-flushed-{rate,total}",
        "FLUSH_WRITE_BYTES",
        "log().write_amplification().flushed_bytes",
    ),
    _hit_ratio("memtable"),
    _Row("memtable-flush-time-{avg,min,max}", "FLUSH_TIME", "log().flushes()[i].duration_ms"),
    _Row("write-stall-duration-{avg,total}", "STALL_MICROS", "log().stall_time().stalled_s"),
    *(_hit_ratio(f"block.cache.{kind}") for kind in _BLOCKS),
    _Row("bytes-read-compaction-rate", "COMPACT_READ_BYTES", "log().compactions()[i].input_bytes"),
    _Row(
        "bytes-written-compaction-rate",
        "COMPACT_WRITE_BYTES",
        "log().compactions()[i].output_bytes",
    ),
    _Row("compaction-time-{avg,min,max}", "COMPACTION_TIME", "log().compactions()[i].duration_ms"),
    _Row("number-open-files", "NO_FILE_OPENS, NO_FILE_CLOSES"),
    _Row("number-file-errors-total", "NO_FILE_ERRORS", _ticker("no.file.errors")),
)
_PROPERTIES = {
    "num-immutable-mem-table": None,
    "cur-size-active-mem-table": None,
    "cur-size-all-mem-tables": "memory().memtables_bytes",
    "size-all-mem-tables": None,
    "num-entries-active-mem-table": None,
    "num-entries-imm-mem-tables": None,
    "num-deletes-active-mem-table": None,
    "num-deletes-imm-mem-tables": None,
    "mem-table-flush-pending": None,
    "num-running-flushes": None,
    "compaction-pending": None,
    "num-running-compactions": None,
    "estimate-pending-compaction-bytes": "log().stats()[i].pending_compaction_bytes",
    "total-sst-files-size": None,
    "live-sst-files-size": "summary().sst_bytes",
    "num-live-versions": None,
    "block-cache-capacity": "memory().block_cache_capacity_bytes",
    "block-cache-usage": "memory().block_cache_usage_bytes",
    "block-cache-pinned-usage": "memory().block_cache_pinned_bytes",
    "estimate-num-keys": "summary().estimated_rows",
    "estimate-table-readers-mem": "memory().table_readers_bytes",
    "background-errors": None,
}
_IN_SPARK = {
    "bytes-written-{rate,total}": "rocksdbTotalBytesWritten",
    "bytes-read-{rate,total}": "rocksdbTotalBytesRead",
    "memtable-bytes-flushed-{rate,total}": "rocksdbTotalBytesWrittenByFlush",
    "write-stall-duration-{avg,total}": "rocksdbWriterStallLatencyMs",
    "bytes-read-compaction-rate": "rocksdbTotalBytesReadByCompaction",
    "bytes-written-compaction-rate": "rocksdbTotalBytesWrittenByCompaction",
    "compaction-time-{avg,min,max}": "rocksdbTotalCompactionLatencyMs",
    "total-sst-files-size": "rocksdbSstFileSize",
    "block-cache-pinned-usage": "rocksdbPinnedBlocksMemoryUsage",
}

_WHY_NOT_HERE = {
    "number-open-files": "Kafka Streams itself gives a constant -1 since 4.0",
    "size-all-mem-tables": "memory() has what counts for the store and what iterators pin, apart: "
    "memtables_bytes and memtables_pinned_bytes",
    "total-sst-files-size": "files that only the writer's iterators still hold; the live ones are "
    "store.summary().sst_bytes",
    "cur-size-active-mem-table": "memory() has active and immutable memtables together: "
    "memtables_bytes",
    **{
        f"num-{what}-{where}": _NOT_OPEN
        for what in ("entries", "deletes")
        for where in ("active-mem-table", "imm-mem-tables")
    },
}
_WHY_NOT_IN_SPARK = {
    "memtable-flush-time-{avg,min,max}": "Spark tells the flush of a commit alone, as "
    "rocksdbCommitFlushLatency",
    **{f"block-cache-{kind}-hit-ratio": _IN_ALL for kind in _BLOCKS},
    "estimate-num-keys": "Spark counts its rows itself, as numRowsTotal of the operator",
    **dict.fromkeys(
        ("cur-size-all-mem-tables", "block-cache-usage", "estimate-table-readers-mem"),
        "Spark tells their sum, as memoryUsedBytes of the operator",
    ),
}


def metric_names() -> Records[MetricName]:
    """Return the metrics of KIP-471 and KIP-607, and where else their figures stand.

    Examples
    --------
    >>> names = metric_names()
    >>> {each.name: each.in_spark for each in names}["write-stall-duration-{avg,total}"]
    'rocksdbWriterStallLatencyMs'
    >>> next(each for each in names if each.name == "background-errors").figures()[1].text
    'unknown (a state of the writer at a moment, which nothing on disk keeps)'
    """
    statistics = [_metric("KIP-471", "2.4", row) for row in _STATISTICS]
    rows = [_Row(name, f"rocksdb.{name}", place) for name, place in _PROPERTIES.items()]
    properties = [_metric("KIP-607", "2.7", row) for row in rows]
    return Records([*statistics, *properties], "metrics of Kafka Streams")


def _metric(kip: str, since: str, row: _Row) -> MetricName:
    unknown = {}
    if row.in_store is None:
        unknown["in_records"] = _WHY_NOT_HERE.get(row.name, _MOMENT)
    if row.name not in _IN_SPARK:
        unknown["in_spark"] = _WHY_NOT_IN_SPARK.get(row.name, _SPARK_HAS_NONE)
    in_records = None if row.in_store is None else f"store.{row.in_store}"
    places = (row.name, row.in_rocksdb, in_records, _IN_SPARK.get(row.name))
    return MetricName(kip, since, "stream-state-metrics", *places, unknown)
