"""Where the figures of Kafka Streams' RocksDB metrics stand in our records, and in Spark's.

The names are those of KIP-471 (from RocksDB's statistics, recorded at level DEBUG) and KIP-607
(from its properties, recorded at level INFO). The documentation of Kafka gives stalls, flushes and
compactions in milliseconds; the code hands on RocksDB's microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kstoolkit.records import Record, Records, Source, of_source

_SPARK_HAS_NONE = "Spark's progress has no such figure"
_MOMENT = "a state of the writer at a moment, which nothing on disk keeps"
_NOT_OPEN = "only the writer counts the rows of its memtables: a store opened to be read has none"
_IN_ALL = (
    "Spark counts hits and misses of all blocks alike, as rocksdbReadBlockCache{Hit,Miss}Count"
)
_Place = tuple[str, str | None, str | None, str | None]
"""A metric, and where it stands in RocksDB, in our records and in Spark's progress."""


@dataclass(frozen=True, slots=True)
class MetricName(Record):
    """A metric of Kafka Streams, and where else its figure stands.

    Parameters
    ----------
    kip, since
        Which proposal brought it, and in which version of Kafka Streams.
    group
        The group of its MBean.
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
    """Return where a ticker of RocksDB stands in our records."""
    return f"store.log().stats()[i].tickers['rocksdb.{name}']"


def _ratio(hit: str, miss: str) -> str:
    """Return how the share of hits is worked out."""
    return f"{hit} / ({hit} + {miss})"


_STATISTICS: tuple[_Place, ...] = (
    (
        "bytes-written-{rate,total}",
        "BYTES_WRITTEN",
        _ticker("bytes.written"),
        "rocksdbTotalBytesWritten",
    ),
    ("bytes-read-{rate,total}", "BYTES_READ", _ticker("bytes.read"), "rocksdbTotalBytesRead"),
    (
        "memtable-bytes-flushed-{rate,total}",
        "FLUSH_WRITE_BYTES",
        "store.log().write_amplification().flushed_bytes",
        "rocksdbTotalBytesWrittenByFlush",
    ),
    (
        "memtable-hit-ratio",
        _ratio("MEMTABLE_HIT", "MEMTABLE_MISS"),
        _ratio(_ticker("memtable.hit"), _ticker("memtable.miss")),
        None,
    ),
    (
        "memtable-flush-time-{avg,min,max}",
        "FLUSH_TIME",
        "store.log().flushes()[i].duration_ms",
        None,
    ),
    (
        "write-stall-duration-{avg,total}",
        "STALL_MICROS",
        "store.log().stall_time().stalled_s",
        "rocksdbWriterStallLatencyMs",
    ),
    *(
        (
            f"block-cache-{kind}-hit-ratio",
            _ratio(f"BLOCK_CACHE_{kind.upper()}_HIT", f"BLOCK_CACHE_{kind.upper()}_MISS"),
            _ratio(_ticker(f"block.cache.{kind}.hit"), _ticker(f"block.cache.{kind}.miss")),
            None,
        )
        for kind in ("data", "index", "filter")
    ),
    (
        "bytes-read-compaction-rate",
        "COMPACT_READ_BYTES",
        "store.log().compactions()[i].input_bytes",
        "rocksdbTotalBytesReadByCompaction",
    ),
    (
        "bytes-written-compaction-rate",
        "COMPACT_WRITE_BYTES",
        "store.log().compactions()[i].output_bytes",
        "rocksdbTotalBytesWrittenByCompaction",
    ),
    (
        "compaction-time-{avg,min,max}",
        "COMPACTION_TIME",
        "store.log().compactions()[i].duration_ms",
        "rocksdbTotalCompactionLatencyMs",
    ),
    ("number-open-files", "NO_FILE_OPENS, NO_FILE_CLOSES", None, None),
    ("number-file-errors-total", "NO_FILE_ERRORS", _ticker("no.file.errors"), None),
)

_PROPERTIES: tuple[_Place, ...] = (
    ("num-immutable-mem-table", None, None, None),
    ("cur-size-active-mem-table", None, None, None),
    ("cur-size-all-mem-tables", None, "store.memory().memtables_bytes", None),
    ("size-all-mem-tables", None, None, None),
    ("num-entries-active-mem-table", None, None, None),
    ("num-entries-imm-mem-tables", None, None, None),
    ("num-deletes-active-mem-table", None, None, None),
    ("num-deletes-imm-mem-tables", None, None, None),
    ("mem-table-flush-pending", None, None, None),
    ("num-running-flushes", None, None, None),
    ("compaction-pending", None, None, None),
    ("num-running-compactions", None, None, None),
    (
        "estimate-pending-compaction-bytes",
        None,
        "store.log().stats()[i].pending_compaction_bytes",
        None,
    ),
    ("total-sst-files-size", None, None, "rocksdbSstFileSize"),
    ("live-sst-files-size", None, "store.summary().sst_bytes", None),
    ("num-live-versions", None, None, None),
    ("block-cache-capacity", None, "store.memory().block_cache_capacity_bytes", None),
    ("block-cache-usage", None, "store.memory().block_cache_usage_bytes", None),
    (
        "block-cache-pinned-usage",
        None,
        "store.memory().block_cache_pinned_bytes",
        "rocksdbPinnedBlocksMemoryUsage",
    ),
    ("estimate-num-keys", None, "store.summary().estimated_rows", None),
    ("estimate-table-readers-mem", None, "store.memory().table_readers_bytes", None),
    ("background-errors", None, None, None),
)

_WHY_NOT_HERE = {
    "number-open-files": "Kafka Streams itself gives a constant -1 since 4.0",
    "size-all-mem-tables": "memory() has what counts for the store and what iterators pin, apart: "
    "memtables_bytes and memtables_pinned_bytes",
    "total-sst-files-size": "files that only the writer's iterators still hold; the live ones are "
    "store.summary().sst_bytes",
    "cur-size-active-mem-table": "memory() has active and immutable memtables together: "
    "memtables_bytes",
    **dict.fromkeys(
        (
            "num-entries-active-mem-table",
            "num-entries-imm-mem-tables",
            "num-deletes-active-mem-table",
            "num-deletes-imm-mem-tables",
        ),
        _NOT_OPEN,
    ),
}
_WHY_NOT_IN_SPARK = {
    "memtable-flush-time-{avg,min,max}": "Spark tells the flush of a commit alone, as "
    "rocksdbCommitFlushLatency",
    "block-cache-data-hit-ratio": _IN_ALL,
    "block-cache-index-hit-ratio": _IN_ALL,
    "block-cache-filter-hit-ratio": _IN_ALL,
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
    statistics = [_metric("KIP-471", "2.4", place) for place in _STATISTICS]
    properties = [_metric("KIP-607", "2.7", place) for place in _PROPERTIES]
    return Records([*statistics, *properties], "metrics of Kafka Streams")


def _metric(kip: str, since: str, place: _Place) -> MetricName:
    name, in_rocksdb, in_records, in_spark = place
    unknown = {}
    if in_records is None:
        unknown["in_records"] = _WHY_NOT_HERE.get(name, _MOMENT)
    if in_spark is None:
        unknown["in_spark"] = _WHY_NOT_IN_SPARK.get(name, _SPARK_HAS_NONE)
    return MetricName(
        kip,
        since,
        "stream-state-metrics",
        name,
        in_rocksdb or f"rocksdb.{name}",
        in_records,
        in_spark,
        unknown,
    )
