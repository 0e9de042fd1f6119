"""Advice on memory as a whole: whether it stays within what it may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.rocksdb.advice.advice import Advice, Unjudged
from kstoolkit.rocksdb.records import Figure, Source
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from kstoolkit.rocksdb.advice.facts import Facts

__all__ = ["memory_over_bound"]

_ONE_CACHE = "one cache for all stores that pays for memtables, as bounded_memory() sets it"


def memory_over_bound(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether stores need more by their options, or the writer takes more, than it may."""
    bound = facts.bound_bytes
    if bound is None:
        return Unjudged("no bound is given: advice(bound_bytes=...)")
    rss = None if facts.process is None else facts.process.rss_bytes
    if facts.plan is None and rss is None:
        return Unjudged("there is no OPTIONS file, and no pid of the writer is given")
    evidence = []
    # What the formula lacks only adds to it: over the bound without it is over the bound.
    if facts.plan is not None and facts.plan.total_bytes > bound:
        evidence += [
            Figure("formula_at_least_bytes", facts.plan.total_bytes, Source.FORMULA),
            Figure("instances", facts.instances, Source.GIVEN),
        ]
    if rss is not None and rss > bound:
        evidence.append(Figure("rss_bytes", rss, Source.SYSTEM))
    if not evidence:
        return []
    capped = facts.plan is not None and facts.plan.is_bound
    return [
        Advice(
            rule="memory over the bound",
            symptom=f"more than {format_bytes(bound)} may be taken",
            evidence=(Figure("bound_bytes", bound, Source.GIVEN), *evidence),
            option="block_cache_bytes"
            if capped
            else "block_cache_shared, write_buffer_manager_bytes",
            direction="lower" if capped else _ONE_CACHE,
            effect="memory has one bound, however many stores are open",
            cost="a smaller share for each store: more flushes and more misses",
            link="https://github.com/facebook/rocksdb/wiki/Memory-usage-in-RocksDB",
        )
    ]
