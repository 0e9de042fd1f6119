"""Advice on memory as a whole: whether it stays within what it may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.records import Figure, Source
from kstoolkit.rocksdb.advice.advice import Advice, Unjudged
from kstoolkit.rocksdb.memory.measured import lacking
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from kstoolkit.rocksdb.advice.facts import Facts


_ONE_CACHE = "one cache for all stores that pays for memtables, as bounded_memory() sets it"


_PARTS = ("rocksdb.size-all-mem-tables", "rocksdb.block-cache-usage")
_READERS = "rocksdb.estimate-table-readers-mem"


def memory_over_bound(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether stores need more by their options, or take more, than RocksDB may have.

    What the writer's process takes is no evidence: a JVM's heap and much else is in it. It stands
    beside the evidence, with what of it the formula does not account for.
    """
    bound = facts.bound_bytes
    if bound is None:
        return Unjudged("no bound is given: bound_bytes=...")
    evidence = [*_by_formula(facts, bound), *_by_parts(facts, bound)]
    if not evidence:
        why = _why_unjudged(facts)
        return Unjudged(f"{why}{_remark(facts)}") if why else []
    capped = facts.plan is not None and facts.plan.is_bound
    return [
        Advice(
            rule="memory over the bound",
            symptom=f"more than {format_bytes(bound)} may be taken",
            evidence=(Figure("bound_bytes", bound, Source.GIVEN), *evidence, *_of_process(facts)),
            option="block_cache_bytes"
            if capped
            else "block_cache_shared, write_buffer_manager_bytes",
            direction="lower" if capped else _ONE_CACHE,
            effect="memory has one bound, however many stores are open",
            cost="a smaller share for each store: more flushes and more misses",
            link="https://github.com/facebook/rocksdb/wiki/Memory-usage-in-RocksDB",
        )
    ]


def _by_formula(facts: Facts, bound: int) -> list[Figure]:
    """Return the formula's sum if it is over the bound; what it lacks would only add to it."""
    if facts.plan is None or facts.plan.total_bytes <= bound:
        return []
    return [
        Figure("formula_at_least_bytes", facts.plan.total_bytes, Source.FORMULA),
        Figure("instances", facts.instances, Source.GIVEN),
    ]


def _by_parts(facts: Facts, bound: int) -> list[Figure]:
    """Return RocksDB's own parts, as the writer's metrics tell them, if they are over the bound."""
    counts = facts.tickers.counts
    # Memtables may take their room from the cache, whose usage then holds them: never both.
    least = max(counts.get(name, 0) for name in _PARTS) + counts.get(_READERS, 0)
    if least <= bound:
        return []
    names = [name for name in (*_PARTS, _READERS) if name in counts]
    return [Figure(name, counts[name], facts.tickers.source) for name in names]


def _why_unjudged(facts: Facts) -> str:
    """Return why being under the bound is not known; nothing if the formula or the parts tell."""
    if facts.tickers.counts.keys() >= {*_PARTS, _READERS}:
        return ""
    if facts.plan is None:
        return "there is no OPTIONS file to work out what the writer needs"
    return lacking(facts.plan)


def _of_process(facts: Facts) -> list[Figure]:
    rss = None if facts.process is None else facts.process.rss_bytes
    if rss is None or facts.plan is None:
        return []
    rest = rss - facts.plan.total_bytes
    return [
        Figure("writer_rss_bytes", rss, Source.SYSTEM),
        Figure("writer_not_accounted_for_bytes", rest, Source.SYSTEM),
    ]


def _remark(facts: Facts) -> str:
    rss = None if facts.process is None else facts.process.rss_bytes
    if rss is None:
        return ""
    return f"; that the writer's process takes {format_bytes(rss)} in all says nothing of RocksDB"
