"""Advice for writers: stalls by each cause, write amplification, flushes that are too small."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kstoolkit.records import Figure, Source
from kstoolkit.rocksdb.advice.advice import Advice, Unjudged
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from kstoolkit.rocksdb.advice.facts import Facts
    from kstoolkit.rocksdb.log.flushes import Flush


_WIKI = "https://github.com/facebook/rocksdb/wiki"
_STALLS = f"{_WIKI}/Write-Stalls"

MOST_WRITE_AMPLIFICATION = 10.0
"""RocksDB's Tuning Guide: leveled stores reach 10 to 30; a store of few levels has less."""

LEAST_FLUSHES = 10
SMALL_FLUSH = 0.25
_FORCED = {
    "Write Buffer Manager": (
        "write_buffer_manager_bytes",
        "raise, or open fewer stores under one manager",
    ),
    "WAL Full": ("max_total_wal_size", "raise: one quiet column family makes all others flush"),
}
"""Reasons to flush a memtable that is not full, and what to set then."""


def stalls_by_memtables(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether memtables filled faster than they were flushed."""
    return _stalled(
        facts,
        "memtable limit",
        symptom="writers waited because all memtables were full and not yet flushed",
        option="max_write_buffer_number, write_buffer_size",
        direction="raise; or raise max_background_jobs, if the disk is not the limit",
        effect="bursts are taken in by memory; each flush writes more at once",
        cost="as much more memory in each store as the memtables are larger or more",
    )


def stalls_by_level0(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether files of level 0 came faster than compactions took them away."""
    return _stalled(
        facts,
        "L0 file count limit",
        symptom="writers waited because level 0 had too many files (in the universal style: runs)",
        option="write_buffer_size, max_background_jobs, max_subcompactions",
        direction="raise; level0_slowdown_writes_trigger only to let short bursts through",
        effect="fewer and larger files reach level 0, and more threads merge them",
        cost="memory for the memtables, cores for the compactions; higher triggers slow reads",
    )


def stalls_by_compaction_debt(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether compactions fell behind by more bytes than the limits allow."""
    return _stalled(
        facts,
        "pending compaction bytes",
        symptom="writers waited because too many bytes were to be compacted",
        option="max_background_jobs, write_buffer_size",
        direction="raise; soft_pending_compaction_bytes_limit and the hard one only for bursts",
        effect="compactions keep up, or have less to rewrite",
        cost="cores and memory; higher limits let space and read amplification grow",
    )


def write_amplification(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether each flushed byte was written again and again."""
    found = facts.writes
    if found.write_amplification is None:
        return Unjudged(found.unknown["write_amplification"])
    if found.write_amplification <= MOST_WRITE_AMPLIFICATION:
        return []
    return [
        Advice(
            rule="write amplification",
            symptom=f"a flushed byte was written {found.write_amplification:.1f} times",
            evidence=tuple(found.figures()[2:]),
            option="compaction_style",
            direction="universal; or raise write_buffer_size, or merge updates before the store",
            effect="fewer rewrites: larger runs, merged less often",
            cost="universal may need up to twice the disk while it merges, and slows reads",
            link=f"{_WIKI}/Universal-Compaction",
        )
    ]


def small_flushes(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether memtables were flushed long before they were full."""
    if not facts.flushes and facts.flushes.unknown:
        return Unjudged(facts.flushes.unknown)
    if all(each.profile is None for each in facts.families):
        return Unjudged("there is no OPTIONS file")
    return [
        advice
        for family in facts.families
        if family.profile is not None and family.profile.write_buffer_size is not None
        if (advice := _small(facts, family.name, family.profile.write_buffer_size))
    ]


def _small(facts: Facts, family: str, full_bytes: int) -> Advice | None:
    flushes = [each for each in facts.flushes if _counts(each, family)]
    sizes = [each.memory_bytes or 0 for each in flushes]
    if len(sizes) < LEAST_FLUSHES or sum(sizes) >= SMALL_FLUSH * full_bytes * len(sizes):
        return None
    reason, _ = Counter(str(each.reason) for each in flushes).most_common(1)[0]
    option, direction = _FORCED[reason]
    mean_bytes = sum(sizes) // len(sizes)
    return Advice(
        rule="flush too small",
        symptom=f"memtables were flushed at {format_bytes(mean_bytes)}, mostly for {reason!r}",
        evidence=(
            Figure("num_flushes", len(sizes), Source.LOG),
            Figure("mean_memtable_bytes", mean_bytes, Source.LOG),
            Figure("most_frequent_reason", reason, Source.LOG),
            Figure("write_buffer_size", full_bytes, Source.OPTIONS),
        ),
        option=option,
        direction=direction,
        effect="fewer files of level 0, so fewer compactions and fewer stalls",
        cost="more memory for memtables, and more to replay or restore after a crash",
        link=f"{_WIKI}/Write-Buffer-Manager",
        column_family=family,
    )


def _counts(flush: Flush, family: str) -> bool:
    return (
        flush.column_family == family and flush.memory_bytes is not None and flush.reason in _FORCED
    )


def _stalled(
    facts: Facts, cause: str, *, symptom: str, option: str, direction: str, effect: str, cost: str
) -> list[Advice] | Unjudged:
    stalls = [each for each in facts.stalls if each.cause == cause]
    if not stalls:
        return Unjudged(facts.stalls.unknown) if facts.stalls.unknown else []
    stopped = sum(each.condition == "stopped" for each in stalls)
    most = max(each.amount or 0 for each in stalls)
    amount = "most_bytes" if cause == "pending compaction bytes" else "most"
    return [
        Advice(
            rule=f"write stalls: {cause}",
            symptom=symptom,
            evidence=(
                Figure("times_delayed", len(stalls) - stopped, Source.LOG),
                Figure("times_stopped", stopped, Source.LOG),
                Figure(amount, most, Source.LOG),
            ),
            option=option,
            direction=direction,
            effect=effect,
            cost=cost,
            link=_STALLS,
        )
    ]
