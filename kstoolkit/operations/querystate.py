"""What streaming queries keep as state, by what Spark reported of their last micro-batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Record, Source, of_source
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_PINNED = "rocksdbPinnedBlocksMemoryUsage"
_NO_QUERY = "no streaming query is running"


@dataclass(frozen=True, slots=True, repr=False)
class QueryState(Record):
    """The state of some queries, over all their operators, and over all executors.

    Parameters
    ----------
    queries
        The queries, by name or id.
    num_stores
        RocksDB state stores: for each operator one a partition, joins several.
    rocksdb_bytes
        RocksDB's native part by Spark's estimate, as the stores stood at the end of the last
        micro-batch (``memoryUsedBytes``): memtables, block caches and table readers of each. With
        ``boundedMemoryUsage`` each store reports its share of the cache that all have; memtables
        lie in that cache, and are counted in it and beside it.
    rocksdb_pinned_bytes
        What of the block caches is in use and can't be evicted: inside ``rocksdb_bytes``, and never
        added to it.
    heap_bytes
        State in Java's heap, by Spark's estimate: of operators that keep it there rather than in
        RocksDB. Inside the heap, and never added to it.
    unknown
        Why a figure is unknown, by its name.
    """

    queries: tuple[str, ...]
    num_stores: int | None = of_source(Source.METRICS)
    rocksdb_bytes: int | None = of_source(Source.METRICS)
    rocksdb_pinned_bytes: int | None = of_source(Source.METRICS)
    heap_bytes: int | None = of_source(Source.METRICS)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"QueryState({', '.join(self.queries) or 'no queries'}; "
            f"{format_count(self.num_stores)} RocksDB stores, {format_bytes(self.rocksdb_bytes)})"
        )


def query_state(progress: Mapping[str, Mapping[str, Any] | None]) -> QueryState:
    """Return what the last micro-batches reported of state.

    Parameters
    ----------
    progress
        ``query.lastProgress`` of each query, by its name; None if it has finished no micro-batch.

    Examples
    --------
    >>> query_state({"a": None}).unknown["num_stores"]
    "query 'a' has not finished a micro-batch yet"
    """
    names = tuple(progress)
    waiting = [name for name, told in progress.items() if told is None]
    if waiting or not names:
        why = f"query {waiting[0]!r} has not finished a micro-batch yet" if waiting else _NO_QUERY
        figures = ("num_stores", "rocksdb_bytes", "rocksdb_pinned_bytes", "heap_bytes")
        return QueryState(names, None, None, None, None, dict.fromkeys(figures, why))
    operators = [each for told in progress.values() for each in (told or {})["stateOperators"]]
    in_rocksdb = [each for each in operators if _PINNED in each["customMetrics"]]
    on_heap = [each for each in operators if _PINNED not in each["customMetrics"]]
    return QueryState(
        names,
        num_stores=_sum(in_rocksdb, "numStateStoreInstances"),
        rocksdb_bytes=_sum(in_rocksdb, "memoryUsedBytes"),
        rocksdb_pinned_bytes=sum(each["customMetrics"][_PINNED] for each in in_rocksdb),
        heap_bytes=_sum(on_heap, "memoryUsedBytes"),
    )


def _sum(operators: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(each[name] for each in operators)
