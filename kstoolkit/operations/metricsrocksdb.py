"""RocksDB's figures in Spark's progress, and the names that Prometheus gets them under.

Where a figure is the same as one of Kafka Streams' metrics, it has that one's name
(:func:`kstoolkit.rocksdb.metricnames.metric_names` has the pairs), less the statistic that
Prometheus works out itself: ``rate()`` of ``kstoolkit_rocksdb_bytes_written_total`` is
``bytes-written-rate``. Milliseconds become seconds, as Prometheus has them.

Spark resets RocksDB's own counts with each micro-batch, and tells what one batch added: these add
up. How long the phases of a commit took, and what was copied, it tells of the latest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


_SECONDS = 0.001
"""Spark's milliseconds in seconds."""


@dataclass(frozen=True, slots=True)
class RocksdbFigure:
    """Where a figure stands in Spark's progress, and what becomes of it.

    Parameters
    ----------
    in_spark
        Its name in ``customMetrics``, less ``rocksdb``.
    name
        Its name for Prometheus, less ``kstoolkit_rocksdb_``.
    about
        What it says.
    unit
        What one of Spark's is worth.
    adds_up
        Whether batches add up.
    """

    in_spark: str
    name: str
    about: str
    unit: float = 1
    adds_up: bool = True

    @property
    def key(self) -> str:
        """Its whole name in ``customMetrics``."""
        return f"rocksdb{self.in_spark}"


def _latest(in_spark: str, name: str, about: str, unit: float = 1) -> RocksdbFigure:
    return RocksdbFigure(in_spark, name, about, unit, adds_up=False)


_STREAMS_METRICS = (
    RocksdbFigure("TotalBytesWritten", "bytes_written", "Bytes written to the stores."),
    RocksdbFigure("TotalBytesRead", "bytes_read", "Bytes read from the stores by key."),
    RocksdbFigure(
        "TotalBytesWrittenByFlush",
        "memtable_bytes_flushed",
        "Bytes that memtables were flushed to.",
    ),
    RocksdbFigure(
        "WriterStallLatencyMs",
        "write_stall_duration_seconds",
        "How long writers were delayed or stopped.",
        _SECONDS,
    ),
    RocksdbFigure(
        "TotalBytesReadByCompaction", "bytes_read_compaction", "Bytes that compactions read."
    ),
    RocksdbFigure(
        "TotalBytesWrittenByCompaction", "bytes_written_compaction", "Bytes that compactions wrote."
    ),
    RocksdbFigure(
        "TotalCompactionLatencyMs",
        "compaction_time_seconds",
        "How long compactions took.",
        _SECONDS,
    ),
    _latest("SstFileSize", "total_sst_files_size_bytes", "Size of all SST files."),
    _latest(
        "PinnedBlocksMemoryUsage",
        "block_cache_pinned_usage_bytes",
        "What of the block caches is in use and can't be evicted; inside state_memory_bytes.",
    ),
)
"""Figures that Kafka Streams has too: KIP-471 and KIP-607."""

_SPARKS_OWN = (
    RocksdbFigure("GetCount", "gets", "Rows that were looked up."),
    RocksdbFigure("PutCount", "puts", "Rows that were written."),
    RocksdbFigure("GetLatency", "get_seconds", "How long looking up took.", _SECONDS),
    RocksdbFigure("PutLatency", "put_seconds", "How long writing took.", _SECONDS),
    RocksdbFigure("ReadBlockCacheHitCount", "block_cache_hits", "Blocks found in the cache."),
    RocksdbFigure("ReadBlockCacheMissCount", "block_cache_misses", "Blocks read from disk."),
    RocksdbFigure(
        "TotalBytesReadThroughIterator", "iterator_bytes_read", "Bytes read through iterators."
    ),
    _latest("CommitFlushLatency", "commit_flush_seconds", "The flush of a commit.", _SECONDS),
    _latest("CommitCompactLatency", "commit_compact_seconds", "Compaction at commit.", _SECONDS),
    _latest("CommitCheckpointLatency", "commit_checkpoint_seconds", "The checkpoint.", _SECONDS),
    _latest("CommitFileSyncLatencyMs", "commit_file_sync_seconds", "Syncing files.", _SECONDS),
    _latest("SaveZipFilesLatencyMs", "save_zip_files_seconds", "Uploading the zip.", _SECONDS),
    _latest(
        "ChangeLogWriterCommitLatencyMs", "changelog_commit_seconds", "The changelog.", _SECONDS
    ),
    _latest("LoadLatencyMs", "load_seconds", "Loading a version of the state.", _SECONDS),
    _latest(
        "LoadFromSnapshotLatencyMs", "load_from_snapshot_seconds", "Loading a snapshot.", _SECONDS
    ),
    _latest("ReplayChangeLogLatencyMs", "replay_seconds", "Replaying changelogs.", _SECONDS),
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

FIGURES = (*_STREAMS_METRICS, *_SPARKS_OWN)
"""What there is for each operator. What Spark tells of each store and partition is left out."""


def figures_of(custom: Mapping[str, float]) -> dict[RocksdbFigure, float]:
    """Return an operator's figures of those that Spark told.

    Parameters
    ----------
    custom
        ``stateOperators[i].customMetrics`` of a query's progress.

    Examples
    --------
    >>> told = figures_of({"rocksdbWriterStallLatencyMs": 1500, "numValueStateVars": 1})
    >>> [(figure.name, value) for figure, value in told.items()]
    [('write_stall_duration_seconds', 1.5)]
    """
    return {each: custom[each.key] * each.unit for each in FIGURES if each.key in custom}
