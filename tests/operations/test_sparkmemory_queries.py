"""What queries report of their state: summed over operators, unknown until there is a report."""

from __future__ import annotations

from typing import Any

from kstoolkit.operations.sparkmemory import _query_state


def operator(stores: int, size_bytes: int, pinned_bytes: int | None = None) -> dict[str, Any]:
    metrics = {} if pinned_bytes is None else {"rocksdbPinnedBlocksMemoryUsage": pinned_bytes}
    return {
        "numStateStoreInstances": stores,
        "memoryUsedBytes": size_bytes,
        "customMetrics": metrics,
    }


def test_operators_and_queries_are_summed_and_heap_state_is_kept_apart() -> None:
    state = _query_state(
        {
            "join": {"stateOperators": [operator(16, 1_000, 10), operator(4, 500, 5)]},
            "count": {"stateOperators": [operator(2, 70)]},
        }
    )
    assert (state.num_stores, state.rocksdb_bytes, state.rocksdb_pinned_bytes) == (20, 1_500, 15)
    assert state.heap_bytes == 70
    assert repr(state) == "QueryState(join, count; 20 RocksDB stores, 1.5 KiB)"


def test_a_query_without_state_has_no_stores() -> None:
    state = _query_state({"copy": {"stateOperators": []}})
    assert (state.num_stores, state.rocksdb_bytes, state.heap_bytes) == (0, 0, 0)


def test_nothing_is_said_of_the_sum_before_each_query_has_reported() -> None:
    state = _query_state({"a": {"stateOperators": [operator(1, 1, 1)]}, "b": None})
    assert state.rocksdb_bytes is None
    assert state.unknown["rocksdb_bytes"] == "query 'b' has not finished a micro-batch yet"
