"""Which symptom each rule of advice looks for, and what it then says to set.

Rules for disk (space, tombstones, files), for memory as a whole, for readers (the cache, filters,
hash indexes, absent keys, iterators) and for writers (stalls, write amplification, flushes). Each
returns its advice with the figures that show the symptom, or why it can't judge.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kstoolkit.errors import Option, naming
from kstoolkit.records import Figure, Source, counted
from kstoolkit.rocksdb.advice.advice import Advice, Unjudged
from kstoolkit.rocksdb.memory.measured import lacking
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from kstoolkit.rocksdb.advice.advice import Facts, FamilyFacts
    from kstoolkit.rocksdb.files.summary import StoreSummary
    from kstoolkit.rocksdb.log.jobs import Flush


_WIKI = "https://github.com/facebook/rocksdb/wiki"
_MOST_SPACE_AMPLIFICATION = 1.5
"""Leveled stores stay near 1.1 with dynamic level sizes (RocksDB's wiki, Leveled Compaction)."""

_LEAST_BYTES = 1 << 20
_LEAST_DELETIONS = 1_000
_MOST_TOMBSTONES = 0.25
_LEAST_FILES = 50
_SMALL_FILE_BYTES = 2 << 20
_MOST_OF_LIMIT = 0.5


def space_amplification(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether the files hold far more than the rows that are alive."""
    wide = [each for each in facts.families if may_be_wide(each.summary)]
    found = [_too_wide(each, each.live_rows) for each in wide if each.live_rows is not None]
    untold = next((each.why_not_counted for each in wide if each.live_rows is None), None)
    return Unjudged(untold) if untold and not any(found) else [each for each in found if each]


def may_be_wide(summary: StoreSummary) -> bool:
    """Return whether the files may hold too much: RocksDB's estimate leaves that open.

    It takes each file above the last run for new versions of what is below, so that a store of
    several runs looks wide though no row was ever written twice.
    """
    live = summary.estimated_live_bytes
    size = summary.sst_bytes
    return bool(live) and size >= _LEAST_BYTES and size > _MOST_SPACE_AMPLIFICATION * (live or 0)


def _too_wide(family: FamilyFacts, live_rows: int) -> Advice | None:
    summary, profile = family.summary, family.profile
    if summary.num_entries <= _MOST_SPACE_AMPLIFICATION * live_rows:
        return None
    universal = profile is not None and profile.compaction_style == "universal"
    keep_up = "max_background_jobs, level0_file_num_compaction_trigger"
    names = ("sst_bytes", "num_entries", "compaction_style")
    return Advice(
        rule="space amplification",
        symptom=f"the files hold {format_count(summary.num_entries)} entries, of which "
        f"{format_count(live_rows)} are alive",
        evidence=(
            *(each for each in summary.figures() if each.name in names and each.value is not None),
            Figure("live_rows", live_rows, Source.STORE),
        ),
        option="universal_max_size_amplification_percent" if universal else keep_up,
        direction="lower, or take the level style" if universal else "let compactions keep up",
        effect="overwritten and deleted rows leave the disk sooner",
        cost="more is rewritten: write amplification rises",
        link=f"{_WIKI}/{'Universal' if universal else 'Leveled'}-Compaction",
        column_family=family.name,
    )


def tombstones(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether many entries are deletions, which scans have to step over."""
    return [
        Advice(
            rule="tombstone density",
            symptom=f"{each.summary.tombstone_density:.0%} of the entries are tombstones",
            evidence=tuple(
                figure
                for figure in each.summary.figures()
                if figure.name in {"num_deletions", "num_entries", "tombstone_density"}
            ),
            option="compact-on-deletion collector",
            direction="turn on; or compact the range once; or a store a window, dropped whole",
            effect="scans and seeks no longer step over rows that are gone",
            cost="the files with tombstones are rewritten",
            link=f"{_WIKI}/Implement-Queue-Service-Using-RocksDB",
            column_family=each.name,
        )
        for each in facts.families
        if each.summary.num_deletions >= _LEAST_DELETIONS
        and (each.summary.tombstone_density or 0) > _MOST_TOMBSTONES
    ]


def small_files(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether the store is cut into many files, far smaller than they need to be."""
    return [_cut_small(each) for each in facts.families if _is_cut_small(each)]


def _is_cut_small(family: FamilyFacts) -> bool:
    number = len(family.ssts)
    return number >= _LEAST_FILES and family.summary.sst_bytes < _SMALL_FILE_BYTES * number


def _cut_small(family: FamilyFacts) -> Advice:
    number = len(family.ssts)
    mean_bytes = family.summary.sst_bytes // number
    target = None if family.profile is None else family.profile.target_file_size_base
    told = [] if target is None else [Figure("target_file_size_base", target, Source.OPTIONS)]
    return Advice(
        rule="too many small files",
        symptom=f"{format_count(number)} files have a mean of {format_bytes(mean_bytes)}",
        evidence=(
            Figure("num_files", number, Source.STORE),
            Figure("mean_file_bytes", mean_bytes, Source.STORE),
            *told,
        ),
        option="target_file_size_base, write_buffer_size",
        direction="raise",
        effect="fewer files: less memory for their readers, fewer open files, faster opening",
        cost="a compaction rewrites more at once",
        link=f"{_WIKI}/RocksDB-Tuning-Guide",
        column_family=family.name,
    )


def open_files(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether the files that RocksDB keeps open near what the process may open."""
    profiles = [each.profile for each in facts.families if each.profile is not None]
    if not profiles or profiles[0].max_open_files is None:
        return Unjudged("no OPTIONS file tells max_open_files")
    most = profiles[0].max_open_files
    files = sum(len(each.ssts) for each in facts.families)
    opened = (files if most < 0 else min(files, most)) * facts.instances
    if opened <= _MOST_OF_LIMIT * facts.open_files_limit:
        return []
    return [
        Advice(
            rule="too many open files",
            symptom=(
                f"{format_count(opened)} files are open once all have been read, "
                f"in {counted(facts.instances, 'such stores')}"
            ),
            evidence=(
                Figure("num_files", files, Source.STORE),
                Figure("max_open_files", most, Source.OPTIONS),
                Figure("open_files_limit", facts.open_files_limit, facts.limit_source),
                Figure("instances", facts.instances, Source.GIVEN),
            ),
            option="max_open_files",
            direction="a number that fits; or raise target_file_size_base, or the system's limit",
            effect="no 'Too many open files' when the store grows",
            cost="files that are not open are opened again when they are read",
            link=f"{_WIKI}/RocksDB-Tuning-Guide#general-options",
        )
    ]


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
        return Unjudged(naming("no bound is given: {bound}", bound=Option("bound_bytes", "...")))
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


_CACHE = f"{_WIKI}/Block-Cache"
_LEAST_LOOKUPS = 1_000
"""Below this, a share is chance."""

_MOST_INDEX_MISSES = 0.05
_LEAST_BLOOM_USEFULNESS = 0.9
_MOST_ABSENT = 0.2
_MOST_OPEN_ITERATORS = 50
_MOST_PINNED = 0.25
_LEAST_DATA_HITS = 0.5
_THIN_SHARE = 0.05
"""A cache share below this part of a store's files serves few of its reads."""

_INDEX = ("block.cache.index.hit", "block.cache.filter.hit")
_INDEX_MISSES = ("block.cache.index.miss", "block.cache.filter.miss")
_BLOOM = ("bloom.filter.useful", "bloom.filter.full.positive", "bloom.filter.full.true.positive")
_GETS = ("memtable.miss", "l0.hit", "l1.hit", "l2andup.hit")
_ITERATORS = ("num.iterator.created", "num.iterator.deleted")
_DATA = ("block.cache.data.hit", "block.cache.data.miss")


def index_and_filter_misses(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether index and filter blocks were pushed out of the cache and read again."""
    counts = facts.tickers.of(*_INDEX, *_INDEX_MISSES)
    if counts is None:
        return Unjudged(facts.tickers.why_none)
    misses, lookups = sum(counts[2:]), sum(counts)
    if lookups < _LEAST_LOOKUPS or misses <= _MOST_INDEX_MISSES * lookups:
        return []
    return [
        Advice(
            rule="index and filter misses",
            symptom=f"{misses / lookups:.0%} of the looks for an index or filter block missed",
            evidence=facts.tickers.figures(*_INDEX, *_INDEX_MISSES),
            option="block_cache_bytes, pin_l0_filter_and_index_blocks_in_cache",
            direction="raise the first; turn the second on",
            effect="each get that now reads an index or filter block first reads one block less",
            cost="memory: as much as the cache grows; what is pinned is lost to data blocks",
            link=_CACHE,
        )
    ]


def hash_index_unpinned(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether a hash index lies in the cache, unpinned: it is built again at each miss."""
    told = [each for each in facts.families if each.profile is not None]
    if not told:
        return Unjudged("there is no OPTIONS file")
    return [_unpinned(each) for each in told if each.ssts and _is_unpinned(each)]


def _is_unpinned(family: FamilyFacts) -> bool:
    profile = family.profile
    return (
        profile is not None
        and profile.index_type == "hash_search"
        and bool(profile.cache_index_and_filter_blocks)
        and not (
            profile.pin_l0_filter_and_index_blocks_in_cache
            and all(each.level == 0 for each in family.ssts)
        )
    )


def _unpinned(family: FamilyFacts) -> Advice:
    below = sum(each.level > 0 for each in family.ssts)
    pins = bool(family.profile and family.profile.pin_l0_filter_and_index_blocks_in_cache)
    return Advice(
        rule="hash index not pinned",
        symptom="the hash index is an evictable block of the cache, and built again at each miss",
        evidence=(
            Figure("index_type", "hash_search", Source.OPTIONS),
            Figure("cache_index_and_filter_blocks", value=True, source=Source.OPTIONS),
            Figure("pin_l0_filter_and_index_blocks_in_cache", value=pins, source=Source.OPTIONS),
            Figure("num_files", len(family.ssts), Source.STORE),
            Figure("num_files_below_level_0", below, Source.STORE),
        ),
        option="cache_index_and_filter_blocks",
        direction="off: RocksDB pins in the cache those of level 0 only",
        effect="each file's hash index is built once, when the file is opened",
        cost="its memory, and that of the filters, is outside the cache and not bounded by it",
        link=f"{_CACHE}#caching-index-filter-and-compression-dictionary-blocks",
        column_family=family.name,
    )


def bloom_usefulness(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether filters let too many absent keys through."""
    counts = facts.tickers.of(*_BLOOM)
    if counts is None:
        return Unjudged(facts.tickers.why_none)
    useful, positive, true = counts
    asked = useful + positive
    if asked < _LEAST_LOOKUPS or useful + true >= _LEAST_BLOOM_USEFULNESS * asked:
        return []
    return [
        Advice(
            rule="low bloom usefulness",
            symptom=f"the filters were right {(useful + true) / asked:.0%} of the times",
            evidence=facts.tickers.figures(*_BLOOM),
            option="bloom_bits_per_key",
            direction="raise: 10 bits let 1 % of the absent keys through",
            effect="fewer blocks are read for keys that are not there",
            cost="memory and disk: a bit for each key and bit more, in files written from then on",
            link=f"{_WIKI}/RocksDB-Bloom-Filter",
        )
    ]


def absent_keys(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether gets of absent keys read a block in each run, for want of a filter."""
    counts = facts.tickers.of(*_GETS)
    told = [each for each in facts.families if each.profile is not None and each.ssts]
    if counts is None:
        return Unjudged(facts.tickers.why_none)
    if not told:
        return Unjudged("there are no files, or no OPTIONS file")
    reached, absent = counts[0], counts[0] - sum(counts[1:])
    if reached < _LEAST_LOOKUPS or absent <= _MOST_ABSENT * reached:
        return []
    return [_unfiltered(facts, each, absent / reached) for each in told if _lacks_filter(each)]


def _lacks_filter(family: FamilyFacts) -> bool:
    profile = family.profile
    return profile is not None and (
        profile.bloom_bits_per_key == 0 or bool(profile.optimize_filters_for_hits)
    )


def _unfiltered(facts: Facts, family: FamilyFacts, share: float) -> Advice:
    profile = family.profile
    without = profile is not None and profile.bloom_bits_per_key == 0
    name = "bloom_bits_per_key" if without else "optimize_filters_for_hits"
    return Advice(
        rule="read amplification on absent keys",
        symptom=f"{share:.0%} of the gets that went past the memtables found nothing in any file",
        evidence=(
            *facts.tickers.figures(*_GETS),
            Figure(name, 0 if without else True, Source.OPTIONS),
            Figure("num_files", len(family.ssts), Source.STORE),
        ),
        option=name,
        direction="10" if without else "off: it leaves the last level without filters",
        effect="99 of 100 gets of absent keys read no data block",
        cost="1.25 bytes a key of memory and disk, in files written from then on",
        link=f"{_WIKI}/RocksDB-Bloom-Filter",
        column_family=family.name,
    )


def iterator_pinning(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether iterators that stay open keep blocks and memtables in memory."""
    counts = facts.tickers.of(*_ITERATORS)
    evidence: tuple[Figure, ...] = ()
    if counts is not None and counts[0] - counts[1] > _MOST_OPEN_ITERATORS:
        evidence = facts.tickers.figures(*_ITERATORS)
    memory = facts.memory
    pinned = memory.block_cache_pinned_bytes + (memory.memtables_pinned_bytes or 0)
    if 0 < _MOST_PINNED * memory.block_cache_capacity_bytes < pinned:
        names = ("block_cache_pinned_bytes", "memtables_pinned_bytes", "block_cache_capacity_bytes")
        evidence += tuple(each for each in memory.figures() if each.name in names)
    if not evidence:
        return Unjudged(facts.tickers.why_none) if counts is None else []
    return [
        Advice(
            rule="iterator pinning",
            symptom="iterators stay open, and keep blocks and flushed memtables in memory",
            evidence=evidence,
            option="the application's iterators",
            direction="close each as soon as it is read; readahead_bytes no larger than needed",
            effect="blocks can be evicted again; the cache stays within its size",
            cost="an iterator that is opened anew has to seek",
            link=f"{_WIKI}/Memory-usage-in-RocksDB#blocks-pinned-by-iterators",
        )
    ]


def shared_too_thinly(facts: Facts) -> list[Advice] | Unjudged:
    """Judge whether one cache serves so many stores that each has next to nothing of it."""
    profile, counts = facts.profile, facts.tickers.of(*_DATA)
    if profile is None or profile.block_cache_bytes is None or profile.block_cache_shared is None:
        return Unjudged(
            naming(
                "which cache stores share is in no OPTIONS file: give {profile}",
                profile=Option("profile", "..."),
            )
        )
    if counts is None:
        return Unjudged(facts.tickers.why_none)
    share_bytes = profile.block_cache_bytes // facts.instances
    sst_bytes = sum(each.size_bytes for family in facts.families for each in family.ssts)
    hits, lookups = counts[0], sum(counts)
    thin = profile.block_cache_shared and share_bytes < _THIN_SHARE * sst_bytes
    if not thin or lookups < _LEAST_LOOKUPS or hits >= _LEAST_DATA_HITS * lookups:
        return []
    return [
        Advice(
            rule="cache shared too thinly",
            symptom=f"{hits / lookups:.0%} of the looks for a data block found it in the cache",
            evidence=(
                *facts.tickers.figures(*_DATA),
                Figure("block_cache_bytes", profile.block_cache_bytes, Source.PROFILE),
                Figure("instances", facts.instances, Source.GIVEN),
                Figure("share_of_the_cache_bytes", share_bytes, Source.FORMULA),
                Figure("sst_bytes", sst_bytes, Source.STORE),
            ),
            option="block_cache_bytes",
            direction="raise, or open fewer stores under one cache",
            effect="more reads are answered from memory",
            cost="as much more memory, once for all stores",
            link=_CACHE,
        )
    ]


_STALLS = f"{_WIKI}/Write-Stalls"
_MOST_WRITE_AMPLIFICATION = 10.0
"""RocksDB's Tuning Guide: leveled stores reach 10 to 30; a store of few levels has less."""

_LEAST_FLUSHES = 10
_SMALL_FLUSH = 0.25
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
    if found.write_amplification <= _MOST_WRITE_AMPLIFICATION:
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
    if len(sizes) < _LEAST_FLUSHES or sum(sizes) >= _SMALL_FLUSH * full_bytes * len(sizes):
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
