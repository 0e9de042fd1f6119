"""What a query, its operators' state and RocksDB tell Prometheus of themselves.

Only the process that counts knows these; they begin at 0 with it, as Prometheus expects.

Where a figure of RocksDB is the same as one of Kafka Streams' metrics, it has that one's name
(:func:`kstoolkit.rocksdb.metricnames.metric_names` has the pairs), less the statistic that
Prometheus works out itself: ``rate()`` of ``kstoolkit_rocksdb_bytes_written_total`` is
``bytes-written-rate``. Milliseconds become seconds, as Prometheus has them. Spark resets RocksDB's
own counts with each micro-batch, and tells what one batch added: these add up. How long the phases
of a commit took, and what was copied, it tells of the latest one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kstoolkit.pipeline.status import NO_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.metrics_core import Metric as Family

    from kstoolkit.pipeline.batches import MicroBatch

Labels = tuple[tuple[str, str], ...]
Value: TypeAlias = "float | Mapping[Labels, float]"


def counter(name: str, about: str, value: Value) -> Family:
    """Return a figure that only grows, with one value for each set of labels."""
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415 - an extra

    return _filled(CounterMetricFamily, name, about, value)


def gauge(name: str, about: str, value: Value | None, why: str = "not told") -> Family:
    """Return a figure that goes up and down; of one that is ``None``, why it is unknown."""
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - an extra

    if value is None:
        return _filled(GaugeMetricFamily, name, f"{about} Unknown: {why}.", {})
    return _filled(GaugeMetricFamily, name, about, value)


def labelled(
    label: str, values: Mapping[str, float], known: Iterable[str] = ()
) -> dict[Labels, float]:
    """Return values under one label; 0 for what is known to exist and has none."""
    told = dict.fromkeys(known, 0.0) | dict(values)
    return {((label, name),): number for name, number in told.items()}


def _filled(
    kind: type[CounterMetricFamily | GaugeMetricFamily], name: str, about: str, value: Value
) -> Family:
    values = {(): value} if isinstance(value, int | float) else value
    family = kind(f"kstoolkit_{name}", about, labels=[label for label, _ in next(iter(values), ())])
    for told, number in values.items():
        family.add_metric([text for _, text in told], number)
    return family


@dataclass(frozen=True, slots=True)
class _Figure:
    """Where a figure stands in Spark's progress, and what becomes of it.

    ``in_spark`` is its name in ``customMetrics`` less ``rocksdb``, ``name`` that for Prometheus
    less ``kstoolkit_rocksdb_``; Spark's milliseconds become seconds; some add up by batch.
    """

    in_spark: str
    name: str
    about: str
    adds_up: bool = True

    @property
    def key(self) -> str:
        """Its whole name in ``customMetrics``."""
        return f"rocksdb{self.in_spark}"

    @property
    def unit(self) -> float:
        """What one of Spark's is worth."""
        return 0.001 if self.name.endswith("_seconds") else 1


_latest = partial(_Figure, adds_up=False)

_FIGURES = (
    # Kafka Streams has these too: KIP-471 and KIP-607.
    _Figure("TotalBytesWritten", "bytes_written", "Bytes written to the stores."),
    _Figure("TotalBytesRead", "bytes_read", "Bytes read from the stores by key."),
    _Figure(
        "TotalBytesWrittenByFlush",
        "memtable_bytes_flushed",
        "Bytes that memtables were flushed to.",
    ),
    _Figure(
        "WriterStallLatencyMs",
        "write_stall_duration_seconds",
        "How long writers were delayed or stopped.",
    ),
    _Figure("TotalBytesReadByCompaction", "bytes_read_compaction", "Bytes that compactions read."),
    _Figure(
        "TotalBytesWrittenByCompaction", "bytes_written_compaction", "Bytes that compactions wrote."
    ),
    _Figure("TotalCompactionLatencyMs", "compaction_time_seconds", "How long compactions took."),
    _latest("SstFileSize", "total_sst_files_size_bytes", "Size of all SST files."),
    _latest(
        "PinnedBlocksMemoryUsage",
        "block_cache_pinned_usage_bytes",
        "What of the block caches is in use and can't be evicted; inside state_memory_bytes.",
    ),
    # Spark's own.
    _Figure("GetCount", "gets", "Rows that were looked up."),
    _Figure("PutCount", "puts", "Rows that were written."),
    _Figure("GetLatency", "get_seconds", "How long looking up took."),
    _Figure("PutLatency", "put_seconds", "How long writing took."),
    _Figure("ReadBlockCacheHitCount", "block_cache_hits", "Blocks found in the cache."),
    _Figure("ReadBlockCacheMissCount", "block_cache_misses", "Blocks read from disk."),
    _Figure(
        "TotalBytesReadThroughIterator", "iterator_bytes_read", "Bytes read through iterators."
    ),
    _latest("CommitFlushLatency", "commit_flush_seconds", "The flush of a commit."),
    _latest("CommitCompactLatency", "commit_compact_seconds", "Compaction at commit."),
    _latest("CommitCheckpointLatency", "commit_checkpoint_seconds", "The checkpoint."),
    _latest("CommitFileSyncLatencyMs", "commit_file_sync_seconds", "Syncing files."),
    _latest("SaveZipFilesLatencyMs", "save_zip_files_seconds", "Uploading the zip."),
    _latest("ChangeLogWriterCommitLatencyMs", "changelog_commit_seconds", "The changelog."),
    _latest("LoadLatencyMs", "load_seconds", "Loading a version of the state."),
    _latest("LoadFromSnapshotLatencyMs", "load_from_snapshot_seconds", "Loading a snapshot."),
    _latest("ReplayChangeLogLatencyMs", "replay_seconds", "Replaying changelogs."),
    _latest("NumReplayChangelogFiles", "replayed_changelog_files", "Changelogs replayed."),
    _latest("NumLoadedFromDfs", "loaded_from_checkpoint", "Stores loaded from the checkpoint."),
    _latest("FilesCopied", "files_copied", "SST files copied to the checkpoint."),
    _latest("FilesReused", "files_reused", "SST files that the checkpoint had before."),
    _latest("BytesCopied", "bytes_copied", "Bytes of the SST files copied."),
    _latest("ZipFileBytesUncompressed", "zip_bytes", "Size of what went into the zip."),
    _latest("ForceSnapshotCount", "forced_snapshots", "Snapshots that were forced."),
    _latest("NumSnapshotsAutoRepaired", "repaired_snapshots", "Snapshots that were repaired."),
    _latest("NumExternalColumnFamilies", "column_families", "Column families of the query."),
    _latest("NumInternalColumnFamilies", "internal_column_families", "Spark's own ones."),
    _latest("NumInternalColFamiliesKeys", "internal_keys", "Keys in Spark's own ones."),
)
"""What there is for each operator. What Spark tells of each store and partition is left out."""

_STATE = {
    "state_rows": ("numRowsTotal", "Rows in the state."),
    "state_memory_bytes": (
        "memoryUsedBytes",
        "Memory of the state by Spark's estimate: of RocksDB, its native part.",
    ),
    "state_stores": ("numStateStoreInstances", "State stores: one a partition, joins several."),
}
_CHANGES = {
    "state_rows_updated": ("numRowsUpdated", "Rows of the state that were written."),
    "state_rows_removed": ("numRowsRemoved", "Rows of the state that were removed."),
    "state_rows_dropped_by_watermark": (
        "numRowsDroppedByWatermark",
        "Rows that came after the watermark.",
    ),
}


class QueryFigures:
    """Adds up what a query tells of its micro-batches, each batch once.

    If it ``resets``, RocksDB's own counts begin at 0 with each of them, as they do by default
    (``spark.sql.streaming.stateStore.rocksdb.resetStatsOnLoad``).
    """

    def __init__(self, *, resets: bool = True) -> None:
        self._resets = resets
        self._counted = -1
        self._parts: dict[str, float] = {}
        self._changes: dict[str, Counter[Labels]] = {name: Counter() for name in _CHANGES}
        self._rocksdb: dict[_Figure, dict[Labels, float]] = {}
        self._newest_parts: Mapping[str, float] | None = None
        self._newest: Mapping[str, Any] | None = None

    def begin(self, *, resets: bool) -> None:
        """Take in that another query counts now, which may repeat the number of a batch."""
        self._resets, self._counted = resets, -1

    def metrics(
        self,
        batches: Iterable[MicroBatch],
        progress: Mapping[int, Mapping[str, Any]],
        *,
        counts_here: bool,
    ) -> list[Family]:
        """Return the figures by now; ``progress`` is what the query told, by number of batch."""
        fresh = {each.batch: each for each in batches if each.batch > self._counted}
        for number in sorted(fresh.keys() & progress.keys()):
            self._newest_parts = fresh[number].parts_seconds
            for part, seconds in self._newest_parts.items():
                self._parts[part] = self._parts.get(part, 0.0) + seconds
            self._take_operators(progress[number])
            self._counted = number
        why = NO_BATCH if counts_here else "only the process that counts knows"
        return [*self._times(why), *self._state(why), *self._rocksdb_metrics()]

    def _take_operators(self, told: Mapping[str, Any]) -> None:
        self._newest = told
        for labels, operator in _operators(told):
            for name, (in_spark, _) in _CHANGES.items():
                self._changes[name][labels] += operator.get(in_spark, 0)
            custom = operator["customMetrics"]
            for figure in [each for each in _FIGURES if each.key in custom]:
                values = self._rocksdb.setdefault(figure, {})
                before = values.get(labels, 0.0) if figure.adds_up and self._resets else 0.0
                values[labels] = before + custom[figure.key] * figure.unit

    def _times(self, why: str) -> list[Family]:
        newest = None if self._newest_parts is None else labelled("part", self._newest_parts)
        of_all = "What the time of micro-batches went into, since this process counts."
        of_newest = "What the time of the newest micro-batch went into."
        return [
            counter("batch_part_seconds", of_all, labelled("part", self._parts)),
            gauge("last_batch_part_seconds", of_newest, newest, why),
        ]

    def _state(self, why: str) -> Iterator[Family]:
        told = None if self._newest is None else list(_operators(self._newest))
        for name, (in_spark, about) in _STATE.items():
            values = None if told is None else {labels: each[in_spark] for labels, each in told}
            yield gauge(name, about, values, why)
        for name, (_, about) in _CHANGES.items():
            yield counter(name, f"{about[:-1]}, since this process counts.", self._changes[name])

    def _rocksdb_metrics(self) -> Iterator[Family]:
        for figure in [each for each in _FIGURES if each in self._rocksdb]:
            name, values = f"rocksdb_{figure.name}", self._rocksdb[figure]
            if figure.adds_up:
                yield counter(name, f"{figure.about[:-1]}, since this process counts.", values)
            else:
                yield gauge(name, f"{figure.about[:-1]}, as the newest micro-batch told.", values)


def _operators(told: Mapping[str, Any]) -> Iterator[tuple[Labels, Mapping[str, Any]]]:
    """Return each operator's figures; the position tells apart two of one name."""
    for position, each in enumerate(told["stateOperators"]):
        yield (("operator", each["operatorName"]), ("position", str(position))), each


_OF_OPERATOR = (
    *("numRowsTotal", "numStateStoreInstances", "memoryUsedBytes"),
    *("commitTimeMs", "allUpdatesTimeMs", "allRemovalsTimeMs"),
)

_ADDS_UP = re.compile("Ms$|Latency|^batches$")


def operators_in_all(told: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, float]]:
    """Return each operator's figures by Spark's names, by its position and name.

    What counts one batch, and how long it took, is summed over ``batches``; of all else the latest
    value stands, of ``batchId`` too.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    sums = {each.key for each in _FIGURES if each.adds_up}
    for progress in told:
        for labels, operator in _operators(progress):
            values = found.setdefault((labels[1][1], labels[0][1]), {})
            figures = {**operator.get("customMetrics", {}), "batches": 1}
            figures |= {name: operator.get(name, 0) for name in _OF_OPERATOR}
            for name, value in figures.items():
                adds_up = name in sums or _ADDS_UP.search(name)
                values[name] = value + (values.get(name, 0) if adds_up else 0)
            values["batchId"] = progress.get("batchId", 0)
    return {whose: {name: float(each) for name, each in of.items()} for whose, of in found.items()}
