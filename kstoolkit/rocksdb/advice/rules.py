"""Which symptom each rule of advice looks for, and what it then says to set.

Rules for disk (space, tombstones, files), for memory as a whole, for readers (the cache, filters,
hash indexes, absent keys, iterators) and for writers (stalls, write amplification, flushes). Each
yields its advice with the figures that show the symptom, or raises why it can't judge.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from kstoolkit.errors import Option, naming
from kstoolkit.records import Figure, Source, counted
from kstoolkit.rocksdb.advice.advice import Advice, AdviceList, Unjudged
from kstoolkit.rocksdb.advice.enginerules import ENGINE_RULES, stall_figures
from kstoolkit.rocksdb.advice.incidents import errors_in_log, known_faults
from kstoolkit.rocksdb.memory.measured import lacking
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kstoolkit.records import Record
    from kstoolkit.rocksdb.advice.advice import Facts, FamilyFacts
    from kstoolkit.rocksdb.files.summary import StoreSummary


_WIKI = "https://github.com/facebook/rocksdb/wiki"
_MOST_SPACE_AMPLIFICATION = 1.5
"""Leveled stores stay near 1.1 with dynamic level sizes (RocksDB's wiki, Leveled Compaction)."""

_LEAST_BYTES = 1 << 20
_LEAST_DELETIONS = 1_000
_MOST_TOMBSTONES = 0.25
_LEAST_FILES = 50
_SMALL_FILE_BYTES = 2 << 20
_MOST_OF_LIMIT = 0.5
_NO_OPTIONS = "there is no OPTIONS file"
_NO_LIMIT = naming(
    "how many files the writer may open is not known: {metrics} or {pid} tells it",
    metrics=Option("metrics", "..."),
    pid=Option("pid", "..."),
)


def _figures(record: Record, *names: str) -> tuple[Figure, ...]:
    return tuple(each for each in record.figures() if each.name in names)


def _space_amplification(facts: Facts) -> Iterator[Advice]:
    """Judge whether the files hold far more than the rows that are alive."""
    wide = [each for each in facts.families if may_be_wide(each.summary)]
    found = [advice for each in wide if (advice := _too_wide(each))]
    untold = next((each.why_not_counted for each in wide if each.live_rows is None), None)
    if untold and not found:
        raise Unjudged(untold)
    yield from found


def may_be_wide(summary: StoreSummary) -> bool:
    """Return whether the files may hold too much: RocksDB's estimate leaves that open.

    It takes each file above the last run for new versions of what is below.
    """
    live, size = summary.estimated_live_bytes or 0, summary.sst_bytes
    return bool(live) and size >= _LEAST_BYTES and size > _MOST_SPACE_AMPLIFICATION * live


def _too_wide(family: FamilyFacts) -> Advice | None:
    summary, profile, rows = family.summary, family.profile, family.live_rows
    if rows is None or summary.num_entries <= _MOST_SPACE_AMPLIFICATION * rows.most:
        return None
    universal = profile is not None and profile.compaction_style == "universal"
    keep_up = "max_background_jobs, level0_file_num_compaction_trigger"
    told = _figures(summary, "sst_bytes", "num_entries", "compaction_style")
    return Advice(
        rule="space amplification",
        symptom=f"the files hold {format_count(summary.num_entries)} entries, of which "
        f"{rows} are alive",
        evidence=(
            *(each for each in told if each.value is not None),
            *rows.figures(),
        ),
        option="universal_max_size_amplification_percent" if universal else keep_up,
        direction="lower, or take the level style" if universal else "let compactions keep up",
        effect="overwritten and deleted rows leave the disk sooner",
        cost="more is rewritten: write amplification rises",
        link=f"{_WIKI}/{'Universal' if universal else 'Leveled'}-Compaction",
        column_family=family.name,
    )


def _tombstones(facts: Facts) -> Iterator[Advice]:
    """Judge whether many entries are deletions, which scans have to step over."""
    for family in facts.families:
        summary, density = family.summary, family.summary.tombstone_density or 0
        if summary.num_deletions < _LEAST_DELETIONS or density <= _MOST_TOMBSTONES:
            continue
        yield Advice(
            rule="tombstone density",
            symptom=f"{density:.0%} of the entries are tombstones",
            evidence=_figures(summary, "num_deletions", "num_entries", "tombstone_density"),
            option="compact-on-deletion collector",
            direction="turn on; or compact the range once; or a store a window, dropped whole",
            effect="scans and seeks no longer step over rows that are gone",
            cost="the files with tombstones are rewritten",
            link=f"{_WIKI}/Implement-Queue-Service-Using-RocksDB",
            column_family=family.name,
        )


def _small_files(facts: Facts) -> Iterator[Advice]:
    """Judge whether the store is cut into many files, far smaller than they need to be."""
    for family in facts.families:
        number, size_bytes = len(family.ssts), family.summary.sst_bytes
        if number < _LEAST_FILES or size_bytes >= _SMALL_FILE_BYTES * number:
            continue
        mean_bytes = size_bytes // number
        target = None if family.profile is None else family.profile.target_file_size_base
        told = [] if target is None else [Figure("target_file_size_base", target, Source.OPTIONS)]
        yield Advice(
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


def _open_files(facts: Facts) -> Iterator[Advice]:
    """Judge whether the files that RocksDB keeps open near what the process may open."""
    profiles = [each.profile for each in facts.families if each.profile is not None]
    if not profiles or profiles[0].max_open_files is None:
        why = "no OPTIONS file tells max_open_files"
        raise Unjudged(why)
    most = profiles[0].max_open_files
    files = sum(len(each.ssts) for each in facts.families)
    opened = (files if most < 0 else min(files, most)) * facts.instances
    limit, open_now = facts.open_files_limit, facts.metric("process-open-fds")
    if limit is None:
        raise Unjudged(_NO_LIMIT)
    if max(opened, 0 if open_now is None else open_now.value) <= _MOST_OF_LIMIT * limit.value:
        return
    stores = counted(facts.instances, "such stores")
    yield Advice(
        rule="too many open files",
        symptom=f"{format_count(opened)} files are open once all have been read, in {stores}",
        evidence=(
            Figure("num_files", files, Source.STORE),
            Figure("max_open_files", most, Source.OPTIONS),
            limit,
            *([] if open_now is None else [open_now]),
            Figure("instances", facts.instances, Source.GIVEN),
        ),
        option="max_open_files",
        direction="a number that fits; or raise target_file_size_base, or the system's limit",
        effect="no 'Too many open files' when the store grows",
        cost="files that are not open are opened again when they are read",
        link=f"{_WIKI}/RocksDB-Tuning-Guide#general-options",
    )


_ONE_CACHE = "one cache for all stores that pays for memtables, as bounded_memory() sets it"
_PARTS = ("rocksdb.size-all-mem-tables", "rocksdb.block-cache-usage")
_READERS = "rocksdb.estimate-table-readers-mem"


_BOUND = Option("bound_bytes", "...", flag="--bound")


def _memory_over_bound(facts: Facts) -> Iterator[Advice]:
    """Judge whether stores need more by their options, or take more, than RocksDB may have.

    What the writer's process takes is no evidence: a JVM's heap and much else is in it. It stands
    beside the evidence, with what of it the formula does not account for.
    """
    bound, plan = facts.bound_bytes, facts.memory.plan
    if bound is None:
        raise Unjudged(naming("no bound is given: {bound}", bound=_BOUND))
    evidence = [*_by_formula(facts, bound), *_by_parts(facts, bound)]
    if not evidence:
        _check_judged(facts)
        return
    capped = plan is not None and plan.is_bound
    apart = "block_cache_shared, write_buffer_manager_bytes"
    yield Advice(
        rule="memory over the bound",
        symptom=f"more than {format_bytes(bound)} may be taken",
        evidence=(Figure("bound_bytes", bound, Source.GIVEN), *evidence, *_of_process(facts)),
        option="block_cache_bytes" if capped else apart,
        direction="lower" if capped else _ONE_CACHE,
        effect="memory has one bound, however many stores are open",
        cost="a smaller share for each store: more flushes and more misses",
        link=f"{_WIKI}/Memory-usage-in-RocksDB",
    )


def _by_formula(facts: Facts, bound: int) -> list[Figure]:
    """Return the formula's sum if it is over the bound; what it lacks would only add to it."""
    plan = facts.memory.plan
    if plan is None or plan.total_bytes <= bound:
        return []
    how = "at_most" if plan.is_ceiling else "at_least"
    return [
        Figure(f"formula_{how}_bytes", plan.total_bytes, Source.FORMULA),
        *(
            Figure(f"inferred_{one.term.replace(' ', '_')}_bytes", one.total_bytes, Source.FORMULA)
            for one in plan.terms
            if one.is_inferred
        ),
        Figure("instances", facts.instances, Source.GIVEN),
    ]


def _by_parts(facts: Facts, bound: int) -> list[Figure]:
    """Return RocksDB's own parts, as the writer's metrics tell them, if they are over the bound."""
    counts, source = _parts_told(facts)
    # Memtables may take their room from the cache, whose usage then holds them: never both.
    least = max(counts.get(name, 0) for name in _PARTS) + counts.get(_READERS, 0)
    if least <= bound:
        return []
    names = [name for name in (*_PARTS, _READERS) if name in counts]
    return [Figure(name, counts[name], source) for name in names]


def _parts_told(facts: Facts) -> tuple[Mapping[str, float], Source]:
    """Return the parts that are told: as counters, or by all stores that the metrics have."""
    every = facts.all_metrics
    if every is None:
        return facts.tickers.counts, facts.tickers.source
    told: dict[str, float | None] = {_PARTS[1]: every.caches_bytes()}
    for name in (_PARTS[0], _READERS):
        told[name] = every.sum_of(name.removeprefix("rocksdb."))
    known = {name: round(value) for name, value in told.items() if value is not None}
    return known, Source.METRICS


def _check_judged(facts: Facts) -> None:
    """Check that being under the bound is known: that the formula or the parts tell."""
    plan = facts.memory.plan
    why = f"{_NO_OPTIONS} to work out what the writer needs" if plan is None else lacking(plan)
    if not why or _parts_told(facts)[0].keys() >= {*_PARTS, _READERS}:
        return
    rss = None if facts.process is None else facts.process.rss_bytes
    if rss is not None:
        of_process = "{why}; that the writer's process takes {size} in all says nothing of RocksDB"
        why = naming(of_process, why=why, size=format_bytes(rss))
    raise Unjudged(why)


def _of_process(facts: Facts) -> list[Figure]:
    rss = None if facts.process is None else facts.process.rss_bytes
    if rss is None or facts.memory.plan is None:
        return []
    rest = rss - facts.memory.plan.total_bytes
    return [
        Figure("writer_rss_bytes", rss, Source.SYSTEM),
        Figure("writer_not_accounted_for_bytes", rest, Source.SYSTEM),
    ]


_CACHE = f"{_WIKI}/Block-Cache"
_LEAST_LOOKUPS = 1_000
"""Below this, a share is chance."""

_MOST_INDEX_MISSES = 0.05
_LEAST_BLOOM_USEFULNESS = 0.9
_MOST_ABSENT = 0.2
_MOST_OPEN_ITERATORS = 50
_LONGEST_ITERATOR_MS = 600_000
_OLDEST = "oldest-iterator-open-since-ms"
_KEPT = (
    ("block-cache-pinned-usage", "block-cache-capacity", 0.25),
    ("size-all-mem-tables", "cur-size-all-mem-tables", 1.5),
    ("total-sst-files-size", "live-sst-files-size", 1.2),
)
"""What is kept, of what, and from which share of that on."""

_LEAST_DATA_HITS = 0.5
_THIN_SHARE = 0.05
"""A cache share below this part of a store's files serves few of its reads."""

_INDEX = ("block.cache.index.hit", "block.cache.filter.hit")
_INDEX_MISSES = ("block.cache.index.miss", "block.cache.filter.miss")
_BLOOM = ("bloom.filter.useful", "bloom.filter.full.positive", "bloom.filter.full.true.positive")
_GETS = ("memtable.miss", "l0.hit", "l1.hit", "l2andup.hit")
_ITERATORS = ("num.iterator.created", "num.iterator.deleted")
_DATA = ("block.cache.data.hit", "block.cache.data.miss")
_INDEX_RATIO, _FILTER_RATIO = "block-cache-index-hit-ratio", "block-cache-filter-hit-ratio"
_DATA_RATIO = "block-cache-data-hit-ratio"
_SPARK_BLOCKS = ("rocksdbReadBlockCacheHitCount", "rocksdbReadBlockCacheMissCount")
_NO_READS = "the ratios of the last minute are 0, as they also are when nothing was read"


def _index_and_filter_misses(facts: Facts) -> Iterator[Advice]:
    """Judge whether index and filter blocks were pushed out of the cache and read again."""
    missed, evidence = _index_misses(facts)
    if missed <= _MOST_INDEX_MISSES:
        return
    yield Advice(
        rule="index and filter misses",
        symptom=f"{missed:.0%} of the looks for an index or filter block missed",
        evidence=evidence,
        option="block_cache_bytes, pin_l0_filter_and_index_blocks_in_cache",
        direction="raise the first; turn the second on",
        effect="each get that now reads an index or filter block first reads one block less",
        cost="memory: as much as the cache grows; what is pinned is lost to data blocks",
        link=_CACHE,
    )


def _index_misses(facts: Facts) -> tuple[float, tuple[Figure, ...]]:
    """Return which share missed: by counters, or by the worse of two ratios of a minute."""
    if facts.tickers.has(*_INDEX, *_INDEX_MISSES) or not facts.metric(_INDEX_RATIO):
        counts = facts.counters(*_INDEX, *_INDEX_MISSES)
        is_much = sum(counts) >= _LEAST_LOOKUPS
        share = sum(counts[2:]) / sum(counts) if is_much else 0.0
        return share, facts.tickers.figures(*_INDEX, *_INDEX_MISSES)
    profiles = [each.profile for each in facts.families if each.profile and each.ssts]
    if profiles and not any(each.cache_index_and_filter_blocks for each in profiles):
        return 0.0, ()  # they are not in the cache, and so are never pushed out of it
    told = [each for each in facts.told(_INDEX_RATIO, _FILTER_RATIO) if each.value]
    if not told:
        raise Unjudged(_NO_READS)
    return 1 - min(each.value for each in told), tuple(told)


def _hash_index_unpinned(facts: Facts) -> Iterator[Advice]:
    """Judge whether a hash index lies in the cache, unpinned: it is built again at each miss."""
    told = [(each, each.profile) for each in facts.families if each.profile is not None]
    if not told:
        raise Unjudged(_NO_OPTIONS)
    for family, profile in told:
        below = sum(each.level > 0 for each in family.ssts)
        pins = bool(profile.pin_l0_filter_and_index_blocks_in_cache)
        cached = profile.index_type == "hash_search" and profile.cache_index_and_filter_blocks
        if not family.ssts or not cached or (pins and not below):
            continue
        yield Advice(
            rule="hash index not pinned",
            symptom="the hash index is an evictable block of the cache, and built again at each "
            "miss",
            evidence=(
                Figure("index_type", "hash_search", Source.OPTIONS),
                Figure("cache_index_and_filter_blocks", value=True, source=Source.OPTIONS),
                Figure("pin_l0_filter_and_index_blocks_in_cache", pins, Source.OPTIONS),
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


def _bloom_usefulness(facts: Facts) -> Iterator[Advice]:
    """Judge whether filters let too many absent keys through."""
    useful, positive, true = facts.tickers.of(*_BLOOM)
    asked = useful + positive
    if asked < _LEAST_LOOKUPS or useful + true >= _LEAST_BLOOM_USEFULNESS * asked:
        return
    yield Advice(
        rule="low bloom usefulness",
        symptom=f"the filters were right {(useful + true) / asked:.0%} of the times",
        evidence=facts.tickers.figures(*_BLOOM),
        option="bloom_bits_per_key",
        direction="raise: 10 bits let 1 % of the absent keys through",
        effect="fewer blocks are read for keys that are not there",
        cost="memory and disk: a bit for each key and bit more, in files written from then on",
        link=f"{_WIKI}/RocksDB-Bloom-Filter",
    )


def _absent_keys(facts: Facts) -> Iterator[Advice]:
    """Judge whether gets of absent keys read a block in each run, for want of a filter."""
    reached, *found = facts.tickers.of(*_GETS)
    told = [(each, each.profile) for each in facts.families if each.profile and each.ssts]
    if not told:
        why = "there are no files, or no OPTIONS file"
        raise Unjudged(why)
    absent = reached - sum(found)
    if reached < _LEAST_LOOKUPS or absent <= _MOST_ABSENT * reached:
        return
    for family, profile in told:
        without = profile.bloom_bits_per_key == 0
        if not without and not profile.optimize_filters_for_hits:
            continue
        option = "bloom_bits_per_key" if without else "optimize_filters_for_hits"
        share = f"{absent / reached:.0%}"
        yield Advice(
            rule="read amplification on absent keys",
            symptom=f"{share} of the gets that went past the memtables found nothing in any file",
            evidence=(
                *facts.tickers.figures(*_GETS),
                Figure(option, 0 if without else True, Source.OPTIONS),
                Figure("num_files", len(family.ssts), Source.STORE),
            ),
            option=option,
            direction="10" if without else "off: it leaves the last level without filters",
            effect="99 of 100 gets of absent keys read no data block",
            cost="1.25 bytes a key of memory and disk, in files written from then on",
            link=f"{_WIKI}/RocksDB-Bloom-Filter",
            column_family=family.name,
        )


def _iterator_pinning(facts: Facts) -> Iterator[Advice]:
    """Judge whether iterators or snapshots that stay open keep blocks, memtables and files."""
    evidence = [*_open_iterators(facts), *_pinned(facts)]
    if not evidence:
        return
    yield Advice(
        rule="iterator pinning",
        symptom="iterators stay open, and keep blocks, flushed memtables and deleted files",
        evidence=tuple(evidence),
        option="the application's iterators",
        direction="close each as soon as it is read; readahead_bytes no larger than needed",
        effect="blocks can be evicted again, and files that compactions replaced leave the disk",
        cost="an iterator that is opened anew has to seek",
        link=f"{_WIKI}/Memory-usage-in-RocksDB#blocks-pinned-by-iterators",
    )


def _open_iterators(facts: Facts) -> list[Figure]:
    if facts.tickers.has(*_ITERATORS) or facts.metrics is None:
        created, deleted = facts.counters(*_ITERATORS)
        many = created - deleted > _MOST_OPEN_ITERATORS
        return [*facts.tickers.figures(*_ITERATORS)] if many else []
    number, since = facts.metric("num-open-iterators"), facts.metric(_OLDEST)
    found = [number] if number and number.value > _MOST_OPEN_ITERATORS else []
    now_ms = facts.metrics.read_at_ms
    if since and since.value and now_ms and now_ms - since.value > _LONGEST_ITERATOR_MS:
        age = Figure("oldest_iterator_open_s", (now_ms - since.value) // 1_000, since.source)
        found += [age, *([] if number is None else [number])]
    return list(dict.fromkeys(found))


def _pinned(facts: Facts) -> list[Figure]:
    """Return what is kept of caches and of files that are no part of the store any more."""
    found: list[Figure] = []
    for part, whole, share in _KEPT:
        kept, of = facts.metric(part), facts.metric(whole)
        if kept and of and kept.value - (of.value if share > 1 else 0) > _LEAST_BYTES:
            found += [kept, of] if kept.value > share * of.value else []
    versions = facts.metric("num-live-versions")
    return found + ([versions] if found and versions else [])


def _shared_too_thinly(facts: Facts) -> Iterator[Advice]:
    """Judge whether one cache serves so many stores that each has next to nothing of it."""
    profile = facts.profile
    if profile is None or profile.block_cache_bytes is None or profile.block_cache_shared is None:
        why = "which cache stores share is in no OPTIONS file: give {profile}"
        raise Unjudged(naming(why, profile=Option("profile", "...")))
    hit, evidence = _data_hits(facts)
    share_bytes = profile.block_cache_bytes // facts.instances
    sst_bytes = sum(each.size_bytes for family in facts.families for each in family.ssts)
    thin = profile.block_cache_shared and share_bytes < _THIN_SHARE * sst_bytes
    if not thin or hit >= _LEAST_DATA_HITS:
        return
    yield Advice(
        rule="cache shared too thinly",
        symptom=f"{hit:.0%} of the looks for a data block found it in the cache",
        evidence=(
            *evidence,
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


def _data_hits(facts: Facts) -> tuple[float, tuple[Figure, ...]]:
    """Return which share of the looks for data blocks hit; of too few, all of them."""
    names, evidence = _DATA, facts.tickers.figures(*_DATA)
    ratio, blocks = facts.metric(_DATA_RATIO), facts.told(*_SPARK_BLOCKS)
    if ratio and not facts.tickers.has(*names):
        if not ratio.value:
            raise Unjudged(_NO_READS)
        return ratio.value, (ratio,)
    counts = [each.value for each in blocks] if len(blocks) > 1 else facts.counters(*names)
    looks = sum(counts)
    return (counts[0] / looks if looks >= _LEAST_LOOKUPS else 1.0), blocks or evidence


_STALLS = {
    "memtable limit": {
        "symptom": "writers waited because all memtables were full and not yet flushed",
        "option": "max_write_buffer_number, write_buffer_size",
        "direction": "raise; or raise max_background_jobs, if the disk is not the limit",
        "effect": "bursts are taken in by memory; each flush writes more at once",
        "cost": "as much more memory in each store as the memtables are larger or more",
    },
    "L0 file count limit": {
        "symptom": "writers waited because level 0 had too many files (in the universal style: "
        "runs)",
        "option": "write_buffer_size, max_background_jobs, max_subcompactions",
        "direction": "raise; level0_slowdown_writes_trigger only to let short bursts through",
        "effect": "fewer and larger files reach level 0, and more threads merge them",
        "cost": "memory for the memtables, cores for the compactions; higher triggers slow reads",
    },
    "pending compaction bytes": {
        "symptom": "writers waited because too many bytes were to be compacted",
        "option": "max_background_jobs, write_buffer_size",
        "direction": "raise; soft_pending_compaction_bytes_limit and the hard one only for bursts",
        "effect": "compactions keep up, or have less to rewrite",
        "cost": "cores and memory; higher limits let space and read amplification grow",
    },
}
_MOST_WRITE_AMPLIFICATION = 10.0
"""RocksDB's Tuning Guide: leveled stores reach 10 to 30; a store of few levels has less."""

_NO_FLUSH = "nothing was flushed while the metrics were told: give those of a busier minute"
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


def _stalled(cause: str, facts: Facts) -> Iterator[Advice]:
    """Judge whether writers had to wait, for one of the causes that there are."""
    stalls = [each for each in facts.stalls if each.cause == cause]
    if not stalls:
        if facts.stalls.unknown:
            _check_not_stalled(facts)
        return
    stopped = sum(each.condition == "stopped" for each in stalls)
    most = max(each.amount or 0 for each in stalls)
    yield Advice(
        rule=f"write stalls: {cause}",
        evidence=(
            Figure("times_delayed", len(stalls) - stopped, Source.LOG),
            Figure("times_stopped", stopped, Source.LOG),
            Figure("most_bytes" if cause.endswith("bytes") else "most", most, Source.LOG),
        ),
        link=f"{_WIKI}/Write-Stalls",
        **_STALLS[cause],
    )


def _check_not_stalled(facts: Facts) -> None:
    """Check that metrics tell of no long stall where the log can't tell; they tell no causes."""
    if stall_figures(facts):
        raise Unjudged(naming(_WHY_STALLED, log=facts.stalls.unknown or ""))


_WHY_STALLED = "that writers waited is told by metrics, what for only by a log: {log}"


def _write_amplification(facts: Facts) -> Iterator[Advice]:
    """Judge whether each flushed byte was written again and again."""
    times, evidence = facts.writes.write_amplification, tuple(facts.writes.figures()[2:])
    if times is None:
        times, evidence = _amplification_told(facts)
    if times <= _MOST_WRITE_AMPLIFICATION:
        return
    yield Advice(
        rule="write amplification",
        symptom=f"a flushed byte was written {times:.1f} times",
        evidence=evidence,
        option="compaction_style",
        direction="universal; or raise write_buffer_size, or merge updates before the store",
        effect="fewer rewrites: larger runs, merged less often",
        cost="universal may need up to twice the disk while it merges, and slows reads",
        link=f"{_WIKI}/Universal-Compaction",
    )


def _amplification_told(facts: Facts) -> tuple[float, tuple[Figure, ...]]:
    """Return what metrics tell: rates of the last minute, or Spark's sums."""
    flushed = facts.needed("memtable-bytes-flushed-rate", "rocksdbTotalBytesWrittenByFlush")
    compacted = facts.needed(
        "bytes-written-compaction-rate", "rocksdbTotalBytesWrittenByCompaction"
    )
    if not flushed.value:
        raise Unjudged(_NO_FLUSH)
    return (flushed.value + compacted.value) / flushed.value, (flushed, compacted)


def _small_flushes(facts: Facts) -> Iterator[Advice]:
    """Judge whether memtables were flushed long before they were full."""
    if not facts.flushes and facts.flushes.unknown:
        raise Unjudged(facts.flushes.unknown)
    told = [(each.name, each.profile) for each in facts.families if each.profile is not None]
    if not told:
        raise Unjudged(_NO_OPTIONS)
    for name, profile in told:
        if profile.write_buffer_size is not None:
            yield from _small(facts, name, profile.write_buffer_size)


def _small(facts: Facts, family: str, full_bytes: int) -> Iterator[Advice]:
    flushes = [
        (str(each.reason), each.memory_bytes)
        for each in facts.flushes
        if each.column_family == family and each.memory_bytes is not None and each.reason in _FORCED
    ]
    total_bytes = sum(size for _, size in flushes)
    if len(flushes) < _LEAST_FLUSHES or total_bytes >= _SMALL_FLUSH * full_bytes * len(flushes):
        return
    reason, _ = Counter(reason for reason, _ in flushes).most_common(1)[0]
    option, direction = _FORCED[reason]
    mean_bytes = total_bytes // len(flushes)
    yield Advice(
        rule="flush too small",
        symptom=f"memtables were flushed at {format_bytes(mean_bytes)}, mostly for {reason!r}",
        evidence=(
            Figure("num_flushes", len(flushes), Source.LOG),
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


RULES: dict[str, Callable[[Facts], Iterator[Advice]]] = {
    "errors in the log": errors_in_log,
    "memory over the bound": _memory_over_bound,
    **{f"write stalls: {cause}": partial(_stalled, cause) for cause in _STALLS},
    "write amplification": _write_amplification,
    **ENGINE_RULES,
    "flush too small": _small_flushes,
    "index and filter misses": _index_and_filter_misses,
    "hash index not pinned": _hash_index_unpinned,
    "low bloom usefulness": _bloom_usefulness,
    "read amplification on absent keys": _absent_keys,
    "iterator pinning": _iterator_pinning,
    "cache shared too thinly": _shared_too_thinly,
    "space amplification": _space_amplification,
    "tombstone density": _tombstones,
    "too many small files": _small_files,
    "too many open files": _open_files,
    "known fault of the release": known_faults,
}
"""Each rule by its name."""


def advice_on(facts: Facts) -> AdviceList:
    """Return the advice that the facts give reason for, and which rules lack facts."""
    found: list[Advice] = []
    silent: dict[str, str] = {}
    for name, rule in RULES.items():
        try:
            found += rule(facts)
        except Unjudged as unjudged:
            silent[name] = unjudged.why
    return AdviceList(found, silent)
