"""What memory was measured, of a store or of a run: bars beside the formula, and words for them.

It opens stores, and brings the plots along: a panel imports it once there is something to draw.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.marks import Bar, part_of
from kstoolkit.plots.memory import bar_of_measured, bar_of_plan
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.files.ssts import known_total
from kstoolkit.rocksdb.memory.measured import MemoryParts
from kstoolkit.rocksdb.memory.planning import KEY_TRAILER_BYTES, MemoryPlan
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.operations.sparkmemory import SparkMemory


_SPARK = "RocksDB, Spark's estimate"
_HINT = "Give a store or its folder, a run, a plan, or what memory() or spark_memory() returned."


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured or planned before, and what it tells the controls of the formula."""

    bars: tuple[Bar, ...] = ()
    words: str = ""
    told: dict[str, Any] = field(default_factory=dict)


def measured(thing: Any) -> Measured:
    """Return what a store, a run, a plan or a record says of memory, measured now if it can be."""
    match thing:
        case MemoryPlan():
            size, count = format_bytes(thing.total_bytes), thing.instances
            words = f"Given: {size} for {counted(count, 'RocksDB instances')}."
            return Measured((bar_of_plan("the plan given", thing),), words, dict(thing.given))
        case MemoryParts():
            return _of_parts([thing])
        case str() | os.PathLike():
            with open_store(thing) as store:
                return _of_store(store)
    if isinstance(thing, Records) and all(isinstance(each, MemoryParts) for each in thing):
        return _of_parts(list(thing))
    if isinstance(thing, Store | HasRows):
        return _of_store(thing)
    return _of_application(thing)


def _of_store(store: Any) -> Measured:
    if not hasattr(store, "memory") or getattr(store, "no_rocksdb", None):
        message = f"The memory of {store!r:.80} can't be measured: it is not open as RocksDB is."
        hint = "Of a run that is live, give the run; of Spark's settings, choose the profile."
        raise ConfigurationError(message, hint=hint)
    segments = getattr(store, "segments", None)
    found = store.memory()
    parts = [found] if isinstance(found, MemoryParts) else list(found)
    one = store if segments is None else segments.largest()[1]
    if not isinstance(one, Store):  # snapshots of Spark's, levels of a replica: no one profile
        return _of_parts(parts)
    return _of_parts(parts, _told_by(one, parts, is_segmented=segments is not None))


def _told_by(store: Any, parts: list[MemoryParts], *, is_segmented: bool) -> dict[str, Any]:
    ssts = store.ssts()
    entries = sum(each.num_entries for each in ssts)
    told: dict[str, Any] = {"segments": len(parts)} if is_segmented else {}
    aside = store.engine_use.unwritten | store.engine_use.small
    told["column_families"] = max(1, len({*store.column_families} - aside))
    if (profile := store.profile()) is not None:
        told["profile"] = profile
    caches = [
        term.each_bytes
        for each in parts
        if each.plan is not None
        for term in each.plan.terms
        if term.term == "block cache" and term.each_bytes is not None
    ]
    told |= {"block_cache_bytes": max(caches)} if caches else {}
    if entries:
        told["keys"] = entries
        keys = _mean((each.raw_key_bytes for each in ssts), entries)
        told["key_bytes"] = None if keys is None else max(0, keys - KEY_TRAILER_BYTES)
        told["value_bytes"] = _mean((each.raw_value_bytes for each in ssts), entries)
    return told


def _mean(sizes: Iterable[int | None], count: int) -> int | None:
    total = known_total(sizes)
    return None if total is None else round(total / count)


def _of_parts(parts: list[MemoryParts], told: dict[str, Any] | None = None) -> Measured:
    whys = {name: why for each in parts for name, why in each.unknown.items()}
    total = known_total(each.total_bytes for each in parts)
    known = format_bytes(total) if total is not None else f"unknown ({whys.get('total_bytes')})"
    of = "" if len(parts) == 1 else f" for {counted(len(parts), 'segments')}, one after the other"
    bars = (bar_of_measured(parts),)
    return Measured(bars, f"Measured in this process{of}: {known}.", told or {})


def _of_application(thing: Any) -> Measured:
    from kstoolkit.operations.sparkmemory import (  # noqa: PLC0415 - loads Spark
        SparkMemory,
        profile_of_settings,
        session_with_java,
        spark_memory,
    )
    from kstoolkit.pipeline.run import Run  # noqa: PLC0415 - as above

    if isinstance(thing, SparkMemory):
        return _of_spark(thing, {})
    if isinstance(thing, Run):
        memory = spark_memory(query=thing)
        settings = session_with_java().conf.getAll
        return _of_spark(memory, {"profile": profile_of_settings(settings)})
    message = f"The memory of {thing!r:.80} can't be told."
    raise ConfigurationError(message, hint=_HINT)


def _of_spark(memory: SparkMemory, told: dict[str, Any]) -> Measured:
    size = memory.state.rocksdb_bytes
    why = memory.state.unknown.get("rocksdb_bytes", "not told")
    words = format_bytes(size) if size is not None else f"unknown ({why})"
    bars = (Bar(_SPARK, (part_of(memory.state, "rocksdb_bytes", "RocksDB"),)),)
    if memory.state.num_stores:
        told = told | {"partitions": memory.state.num_stores}
    return Measured(bars, f"Measured, by Spark's estimate: {words}.", told)
