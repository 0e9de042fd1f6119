"""What memory was measured, of a store or of a run: bars beside the formula, and words for them.

It opens stores, and brings the plots along: a panel imports it once there is something to measure.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.memory import bar_of_measured
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.files.ssts import known_total
from kstoolkit.rocksdb.memory.measured import MemoryParts
from kstoolkit.rocksdb.memory.planning import KEY_TRAILER_BYTES, MemoryPlan
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.discovery.discovering import FoundStores, discover
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.operations.sparkmemory import SparkMemory

_Bar = tuple[str, str, list[tuple[str, float, str]]]
"""What a bar is of, its size as a text, and its parts: name, size, text."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured or planned before, and what it tells the controls of the formula."""

    bars: tuple[_Bar, ...] = ()
    words: str = ""
    told: dict[str, Any] = field(default_factory=dict)


def measured(thing: Any) -> Measured:
    """Return what a store, a run, a plan or a record says of memory, measured now if it can be."""
    match thing:
        case MemoryPlan():
            size, count = format_bytes(thing.total_bytes), thing.instances
            words = f"Given: {size} for {counted(count, 'RocksDB instances')}."
            return Measured((_planned("the plan given", thing),), words, dict(thing.given))
        case FoundStores():
            return _of_stores(thing)
        case str() | os.PathLike():
            return _of_folder(Path(thing))
        case Store() | HasRows():
            return _of_store(thing)
    parts = list(thing) if isinstance(thing, Records) else [thing]
    if all(isinstance(each, MemoryParts) for each in parts):
        return _of_parts(parts)
    return _of_application(thing)


def _planned(name: str, plan: MemoryPlan) -> _Bar:
    known = [(each.term, each.total_bytes) for each in plan.terms]
    parts = [(term, float(size), format_bytes(size)) for term, size in known if size]
    return name, format_bytes(plan.total_bytes), parts


def _of_folder(folder: Path) -> Measured:
    """Measure the store of a folder; of one above several, say what all of them need."""
    found = discover(folder) if folder.is_dir() else ()
    if len(found) > 1 and isinstance(found, FoundStores):
        return _of_stores(found)
    with open_store(folder) as store:
        return _of_store(store)


def _of_stores(found: FoundStores) -> Measured:
    """Return what all stores of an application need, and how the form comes near it."""
    plan = found.memory_plan()
    size, number = format_bytes(plan.total_bytes), counted(plan.instances, "RocksDB instances")
    words = f"By the options and files of {counted(len(found), 'stores')}: {size} for {number}."
    largest = max(found, key=lambda each: each.size_bytes)
    with open_store(largest.path) as store:
        told = dict(_of_store(store).told)
    told |= {"partitions": plan.instances, "segments": 1}
    return Measured((_planned("its stores, by their own options", plan),), words, told)


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
    stacked = bar_of_measured(parts).parts
    shown = [
        (each.name, each.size, format_bytes(round(each.size))) for each in stacked if each.size
    ]
    words = f"Measured in this process{of}: {known}."
    return Measured((("measured in this process", known, shown),), words, told or {})


def _of_application(thing: Any) -> Measured:
    from kstoolkit.operations import sparkmemory as spark  # noqa: PLC0415 - loads Spark
    from kstoolkit.pipeline.run import Run  # noqa: PLC0415 - as above

    if isinstance(thing, spark.SparkMemory):
        return _of_spark(thing, {})
    if isinstance(thing, Run):
        memory, settings = spark.spark_memory(query=thing), spark.session_with_java().conf.getAll
        return _of_spark(memory, {"profile": spark.profile_of_settings(settings)})
    message = f"The memory of {thing!r:.80} can't be told."
    hint = "Give a store or its folder, a run, a plan, or what memory() or spark_memory() returned."
    raise ConfigurationError(message, hint=hint)


def _of_spark(memory: SparkMemory, told: dict[str, Any]) -> Measured:
    size = memory.state.rocksdb_bytes
    why = memory.state.unknown.get("rocksdb_bytes", "not told")
    words = format_bytes(size) if size is not None else f"unknown ({why})"
    bar: _Bar = ("RocksDB, Spark's estimate", words, [("RocksDB", size, words)] if size else [])
    if memory.state.num_stores:
        told = told | {"partitions": memory.state.num_stores}
    return Measured((bar,), f"Measured, by Spark's estimate: {words}.", told)
