"""Which symptom each rule of advice looks for, and what it then says to set.

Rules for disk (space, tombstones, files), for memory as a whole, for readers (the cache, filters,
hash indexes, absent keys, iterators) and for writers (stalls, write amplification, flushes). Each
shows the figures by which the symptom is there, or raises why it can't judge.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kstoolkit.errors import Option, naming
from kstoolkit.records import Figure, Source, counted
from kstoolkit.rocksdb.advice.advice import (
    NO_OPTIONS,
    WIKI,
    Advice,
    AdviceList,
    Rule,
    Shown,
    Unjudged,
    figures_of,
)
from kstoolkit.rocksdb.advice.enginerules import ENGINE_RULES, stall_figures
from kstoolkit.rocksdb.advice.faults import errors_in_log, known_faults
from kstoolkit.rocksdb.memory.measured import lacking
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kstoolkit.records import Record
    from kstoolkit.rocksdb.advice.advice import Facts, FamilyFacts
    from kstoolkit.rocksdb.files.sampling import LiveRows
    from kstoolkit.rocksdb.files.summary import StoreSummary

_MOST_SPACE_AMPLIFICATION = 1.5
"""Leveled stores stay near 1.1 with dynamic level sizes (RocksDB's wiki, Leveled Compaction)."""

_LEAST_BYTES = 1 << 20
_LEAST_DELETIONS = 1_000
_MOST_TOMBSTONES = 0.25
_LEAST_FILES = 50
_SMALL_FILE_BYTES = 2 << 20
_MOST_OF_LIMIT = 0.5
_NO_LIMIT = naming(
    "how many files the writer may open is not known: {metrics} or {pid} tells it",
    metrics=Option("metrics", "..."),
    pid=Option("pid", "..."),
)


def _figures(record: Record, *names: str) -> tuple[Figure, ...]:
    return tuple(each for each in record.figures() if each.name in names)


def may_be_wide(summary: StoreSummary) -> bool:
    """Return whether the files may hold too much: RocksDB's estimate leaves that open.

    It takes each file above the last run for new versions of what is below.
    """
    live, size = summary.estimated_live_bytes or 0, summary.sst_bytes
    return bool(live) and size >= _LEAST_BYTES and size > _MOST_SPACE_AMPLIFICATION * live


_LEVELED = {
    "option": "max_background_jobs, level0_file_num_compaction_trigger",
    "direction": "let compactions keep up",
    "link": f"{WIKI}/Leveled-Compaction",
}


@Rule(
    "space amplification",
    "the files hold {num_entries.text} entries, of which {rows} are alive",
    option="universal_max_size_amplification_percent",
    direction="lower, or take the level style",
    effect="overwritten and deleted rows leave the disk sooner",
    cost="more is rewritten: write amplification rises",
    link=f"{WIKI}/Universal-Compaction",
)
def _space_amplification(facts: Facts) -> Iterator[Shown]:
    wide = [each for each in facts.families if may_be_wide(each.summary)]
    untold = next((each.why_not_counted for each in wide if each.live_rows is None), None)
    found = [shown for each in wide if each.live_rows for shown in _wide(each, each.live_rows)]
    if untold and not found:
        raise Unjudged(untold)
    yield from found


def _wide(family: FamilyFacts, rows: LiveRows) -> Iterator[Shown]:
    summary, profile = family.summary, family.profile
    if summary.num_entries > _MOST_SPACE_AMPLIFICATION * rows.most:
        told = _figures(summary, "sst_bytes", "num_entries", "compaction_style")
        universal = profile is not None and profile.compaction_style == "universal"
        said = {"rows": rows} | ({} if universal else _LEVELED)
        yield Shown((*told, *rows.figures()), said, family)


@Rule(
    "tombstone density",
    "{tombstone_density.value:.0%} of the entries are tombstones",
    option="compact-on-deletion collector",
    direction="turn on; or compact the range once; or a store a window, dropped whole",
    effect="scans and seeks no longer step over rows that are gone",
    cost="the files with tombstones are rewritten",
    link=f"{WIKI}/Implement-Queue-Service-Using-RocksDB",
)
def _tombstones(facts: Facts) -> Iterator[Shown]:
    for family in facts.families:
        summary, density = family.summary, family.summary.tombstone_density or 0
        if summary.num_deletions >= _LEAST_DELETIONS and density > _MOST_TOMBSTONES:
            told = _figures(summary, "num_deletions", "num_entries", "tombstone_density")
            yield Shown(told, family=family)


@Rule(
    "too many small files",
    "{num_files.text} files have a mean of {mean_file_bytes.text}",
    option="target_file_size_base, write_buffer_size",
    direction="raise",
    effect="fewer files: less memory for their readers, fewer open files, faster opening",
    cost="a compaction rewrites more at once",
    link=f"{WIKI}/RocksDB-Tuning-Guide",
)
def _small_files(facts: Facts) -> Iterator[Shown]:
    for family in facts.families:
        number, size_bytes = len(family.ssts), family.summary.sst_bytes
        if number >= _LEAST_FILES and size_bytes < _SMALL_FILE_BYTES * number:
            target = None if family.profile is None else family.profile.target_file_size_base
            told = {"num_files": number, "mean_file_bytes": size_bytes // number}
            of_options = Figure("target_file_size_base", target, Source.OPTIONS)
            yield Shown((*figures_of(Source.STORE, **told), of_options), family=family)


@Rule(
    "too many open files",
    "of {limit} files that its process may open {opened}",
    option="max_open_files",
    direction="a number that fits; or raise target_file_size_base, or the system's limit",
    effect="no 'Too many open files' when the store grows",
    cost="files that are not open are opened again when they are read",
    link=f"{WIKI}/RocksDB-Tuning-Guide#general-options",
)
def _open_files(facts: Facts) -> Iterator[Shown]:
    most = next((each.profile.max_open_files for each in facts.families if each.profile), None)
    if most is None:
        why = "no OPTIONS file tells max_open_files"
        raise Unjudged(why)
    files = sum(len(each.ssts) for each in facts.families)
    opened = (files if most < 0 else min(files, most)) * facts.instances
    limit, open_now = facts.open_files_limit, facts.metric("process-open-fds")
    if limit is None:
        raise Unjudged(_NO_LIMIT)
    now = 0 if open_now is None else open_now.value
    if max(opened, now) > _MOST_OF_LIMIT * limit.value:
        evidence = (
            Figure("num_files", files, Source.STORE),
            Figure("max_open_files", most, Source.OPTIONS),
            limit,
            open_now,
            Figure("instances", facts.instances, Source.GIVEN),
        )
        later = f"{opened:,} are open once all of {counted(facts.instances, 'such stores')} is read"
        said = f"{now:,} are open" if now > opened else later
        yield Shown(evidence, {"limit": format_count(limit.value), "opened": said})


_PARTS = ("rocksdb.size-all-mem-tables", "rocksdb.block-cache-usage")
_READERS = "rocksdb.estimate-table-readers-mem"
_BOUND = Option("bound_bytes", "...", flag="--bound")


@Rule(
    "memory over the bound",
    "more than {bound_bytes.text} may be taken",
    option="block_cache_shared, write_buffer_manager_bytes",
    direction="one cache for all stores that pays for memtables, as bounded_memory() sets it",
    effect="memory has one bound, however many stores are open",
    cost="a smaller share for each store: more flushes and more misses",
    link=f"{WIKI}/Memory-usage-in-RocksDB",
)
def _memory(facts: Facts) -> Iterator[Shown]:
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
    lower = {"option": "block_cache_bytes", "direction": "lower"}
    told = (Figure("bound_bytes", bound, Source.GIVEN), *evidence, *_of_process(facts))
    yield Shown(told, lower if plan is not None and plan.is_bound else {})


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
    return {name: round(n) for name, n in told.items() if n is not None}, Source.METRICS


def _check_judged(facts: Facts) -> None:
    """Check that being under the bound is known: that the formula or the parts tell."""
    plan = facts.memory.plan
    why = f"{NO_OPTIONS} to work out what the writer needs" if plan is None else lacking(plan)
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
    return figures_of(Source.SYSTEM, writer_rss_bytes=rss, writer_not_accounted_for_bytes=rest)


_CACHE = f"{WIKI}/Block-Cache"
_LEAST_LOOKUPS = 1_000  # below this, a share is chance
_MOST_INDEX_MISSES = 0.05
_LEAST_BLOOM_USEFULNESS = 0.9
_LEAST_PART = 0.01
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
_THIN_SHARE = 0.05  # a cache share below this part of a store's files serves few of its reads
_NO_LAST_FILTERS = {
    "option": "optimize_filters_for_hits",
    "direction": "off: it leaves the last level without filters",
}
_INDEX_HITS = ("block.cache.index.hit", "block.cache.filter.hit")
_INDEX = (*_INDEX_HITS, "block.cache.index.miss", "block.cache.filter.miss")
_BLOOM = ("bloom.filter.useful", "bloom.filter.full.positive", "bloom.filter.full.true.positive")
_GETS = ("memtable.miss", "l0.hit", "l1.hit", "l2andup.hit")
_ITERATORS = ("num.iterator.created", "num.iterator.deleted")
_DATA = ("block.cache.data.hit", "block.cache.data.miss")
_INDEX_RATIOS = ("block-cache-index-hit-ratio", "block-cache-filter-hit-ratio")
_SPARK_BLOCKS = ("rocksdbReadBlockCacheHitCount", "rocksdbReadBlockCacheMissCount")
_NO_READS = "the ratios of the last minute are 0, as they also are when nothing was read"


@Rule(
    "index and filter misses",
    "{missed:.0%} of the looks for an index or filter block missed",
    option="block_cache_bytes, pin_l0_filter_and_index_blocks_in_cache",
    direction="raise the first; turn the second on",
    effect="each get that now reads an index or filter block first reads one block less",
    cost="memory: as much as the cache grows; what is pinned is lost to data blocks",
    link=_CACHE,
)
def _index_misses(facts: Facts) -> Iterator[Shown]:
    missed, evidence = _missed(facts)
    if missed > _MOST_INDEX_MISSES:
        yield Shown(evidence, {"missed": missed})


def _missed(facts: Facts) -> tuple[float, tuple[Figure, ...]]:
    """Return which share missed: by counters, or by the worse of two ratios of a minute."""
    if facts.tickers.has(*_INDEX) or not facts.metric(_INDEX_RATIOS[0]):
        counts = facts.counters(*_INDEX)
        share = sum(counts[2:]) / sum(counts) if sum(counts) >= _LEAST_LOOKUPS else 0.0
        return share, facts.tickers.figures(*_INDEX)
    profiles = [each.profile for each in facts.families if each.profile and each.ssts]
    if profiles and not any(each.cache_index_and_filter_blocks for each in profiles):
        return 0.0, ()  # they are not in the cache, and so are never pushed out of it
    told = [each for each in facts.told(*_INDEX_RATIOS) if each.value]
    if not told:
        raise Unjudged(_NO_READS)
    return 1 - min(each.value for each in told), tuple(told)


@Rule(
    "hash index not pinned",
    "blocks of the hash index can be evicted from the cache, and are read again at each miss",
    option="cache_index_and_filter_blocks",
    direction="off: RocksDB pins in the cache those of level 0 only",
    effect="each file's index and filter are read once, when the file is opened",
    cost="their memory is outside the cache and not bounded by it",
    link=f"{_CACHE}#caching-index-filter-and-compression-dictionary-blocks",
)
def _hash_index(facts: Facts) -> Iterator[Shown]:
    for family, profile in facts.profiled():
        below = sum(each.level > 0 for each in family.ssts)
        pins = bool(profile.pin_l0_filter_and_index_blocks_in_cache)
        cached = profile.index_type == "hash_search" and profile.cache_index_and_filter_blocks
        if family.ssts and cached and (below or not pins):
            told = {"index_type": "hash_search", "cache_index_and_filter_blocks": True}
            told["pin_l0_filter_and_index_blocks_in_cache"] = pins
            files = {"num_files": len(family.ssts), "num_files_below_level_0": below}
            evidence = figures_of(Source.OPTIONS, **told) + figures_of(Source.STORE, **files)
            yield Shown(evidence, family=family)


@Rule(
    "low bloom usefulness",
    "the filters were right {right:.0%} of the times",
    option="bloom_bits_per_key",
    direction="raise: 10 bits let 1 % of the absent keys through",
    effect="fewer blocks are read for keys that are not there",
    cost="memory and disk: a bit for each key and bit more, in files written from then on",
    link=f"{WIKI}/RocksDB-Bloom-Filter",
)
def _bloom(facts: Facts) -> Iterator[Shown]:
    useful, positive, true = facts.tickers.of(*_BLOOM)
    asked = useful + positive
    if asked >= _LEAST_LOOKUPS and useful + true < _LEAST_BLOOM_USEFULNESS * asked:
        yield Shown(facts.tickers.figures(*_BLOOM), {"right": (useful + true) / asked})


@Rule(
    "read amplification on absent keys",
    "{absent:.0%} of the gets that went past the memtables found nothing in any file",
    option="bloom_bits_per_key",
    direction="10",
    effect="99 of 100 gets of absent keys read no data block",
    cost="1.25 bytes a key of memory and disk, in files written from then on",
    link=f"{WIKI}/RocksDB-Bloom-Filter",
)
def _absent_keys(facts: Facts) -> Iterator[Shown]:
    reached, *found = facts.tickers.of(*_GETS)
    sizes = {each.name: sum(sst.size_bytes for sst in each.ssts) for each in facts.families}
    told = [
        (each, each.profile)
        for each in facts.families  # a counter is of all: what is next to nothing gets no blame
        if each.profile and each.ssts and sizes[each.name] > _LEAST_PART * max(sizes.values())
    ]
    if not told:
        why = "there are no files, or no OPTIONS file"
        raise Unjudged(why)
    absent = reached - sum(found)
    if reached < _LEAST_LOOKUPS or absent <= _MOST_ABSENT * reached:
        return
    for family, profile in told:
        if profile.bloom_bits_per_key == 0:
            option, said = {"bloom_bits_per_key": 0}, {}
        elif profile.optimize_filters_for_hits:
            option, said = {"optimize_filters_for_hits": True}, _NO_LAST_FILTERS
        else:
            continue
        evidence = [*facts.tickers.figures(*_GETS), *figures_of(Source.OPTIONS, **option)]
        evidence += figures_of(Source.STORE, num_files=len(family.ssts))
        yield Shown(evidence, {"absent": absent / reached} | said, family)


@Rule(
    "iterator pinning",
    "iterators stay open, and keep blocks, flushed memtables and deleted files",
    option="the application's iterators",
    direction="close each as soon as it is read; readahead_bytes no larger than needed",
    effect="blocks can be evicted again, and files that compactions replaced leave the disk",
    cost="an iterator that is opened anew has to seek",
    link=f"{WIKI}/Memory-usage-in-RocksDB#blocks-pinned-by-iterators",
)
def _iterators(facts: Facts) -> Iterator[Shown]:
    if evidence := [*_open_iterators(facts), *_pinned(facts)]:
        yield Shown(evidence)


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


@Rule(
    "cache shared too thinly",
    "{hit:.0%} of the looks for a data block found it in the cache",
    option="block_cache_bytes",
    direction="raise, or open fewer stores under one cache",
    effect="more reads are answered from memory",
    cost="as much more memory, once for all stores",
    link=_CACHE,
)
def _thin_cache(facts: Facts) -> Iterator[Shown]:
    profile = facts.profile
    if profile is None or profile.block_cache_bytes is None or profile.block_cache_shared is None:
        why = "which cache stores share is in no OPTIONS file: give {profile}"
        raise Unjudged(naming(why, profile=Option("profile", "...")))
    hit, evidence = _data_hits(facts)
    share_bytes = profile.block_cache_bytes // facts.instances
    sst_bytes = sum(each.size_bytes for family in facts.families for each in family.ssts)
    thin = profile.block_cache_shared and share_bytes < _THIN_SHARE * sst_bytes
    if thin and hit < _LEAST_DATA_HITS:
        told = (
            *evidence,
            Figure("block_cache_bytes", profile.block_cache_bytes, Source.PROFILE),
            Figure("instances", facts.instances, Source.GIVEN),
            Figure("share_of_the_cache_bytes", share_bytes, Source.FORMULA),
            Figure("sst_bytes", sst_bytes, Source.STORE),
        )
        yield Shown(told, {"hit": hit})


def _data_hits(facts: Facts) -> tuple[float, tuple[Figure, ...]]:
    """Return which share of the looks for data blocks hit; of too few, all of them."""
    ratio, blocks = facts.metric("block-cache-data-hit-ratio"), facts.told(*_SPARK_BLOCKS)
    if ratio and not facts.tickers.has(*_DATA):
        if not ratio.value:
            raise Unjudged(_NO_READS)
        return ratio.value, (ratio,)
    counts = [each.value for each in blocks] if len(blocks) > 1 else facts.counters(*_DATA)
    share = counts[0] / sum(counts) if sum(counts) >= _LEAST_LOOKUPS else 1.0
    return share, blocks or facts.tickers.figures(*_DATA)


_MOST_WRITE_AMPLIFICATION = 10.0
"""RocksDB's Tuning Guide: leveled stores reach 10 to 30; a store of few levels has less."""

_NO_FLUSH = "nothing was flushed while the metrics were told: give those of a busier minute"
_WHY_STALLED = "that writers waited is told by metrics, what for only by a log: {log}"
_LEAST_FLUSHES = 10
_SMALL_FLUSH = 0.25
_FORCED = {
    "Write Buffer Manager": {
        "option": "write_buffer_manager_bytes",
        "direction": "raise, or open fewer stores under one manager",
    },
    "WAL Full": {},
}
"""Reasons to flush a memtable that is not full, and what to set then."""

_STALLS = (
    Rule(
        "write stalls: memtable limit",
        "writers waited because all memtables were full and not yet flushed",
        option="max_write_buffer_number, write_buffer_size",
        direction="raise; or raise max_background_jobs, if the disk is not the limit",
        effect="bursts are taken in by memory; each flush writes more at once",
        cost="as much more memory in each store as the memtables are larger or more",
        link=f"{WIKI}/Write-Stalls",
    ),
    Rule(
        "write stalls: L0 file count limit",
        "writers waited because level 0 had too many files (in the universal style: runs)",
        option="write_buffer_size, max_background_jobs, max_subcompactions",
        direction="raise; level0_slowdown_writes_trigger only to let short bursts through",
        effect="fewer and larger files reach level 0, and more threads merge them",
        cost="memory for the memtables, cores for the compactions; higher triggers slow reads",
        link=f"{WIKI}/Write-Stalls",
    ),
    Rule(
        "write stalls: pending compaction bytes",
        "writers waited because too many bytes were to be compacted",
        option="max_background_jobs, write_buffer_size",
        direction="raise; soft_pending_compaction_bytes_limit and the hard one only for bursts",
        effect="compactions keep up, or have less to rewrite",
        cost="cores and memory; higher limits let space and read amplification grow",
        link=f"{WIKI}/Write-Stalls",
    ),
)


def _of_stalls(rule: Rule) -> Rule:
    """Return a rule that judges whether writers had to wait for the cause that its name tells."""
    cause = rule.name.partition(": ")[2]

    def judge(facts: Facts) -> Iterator[Shown]:
        stalls = [each for each in facts.stalls if each.cause == cause]
        if stalls:
            stopped = sum(each.condition == "stopped" for each in stalls)
            told = {"times_delayed": len(stalls) - stopped, "times_stopped": stopped}
            most = "most_bytes" if cause.endswith("bytes") else "most"
            told[most] = max(each.amount or 0 for each in stalls)
            yield Shown(figures_of(Source.LOG, **told))
        elif facts.stalls.unknown and stall_figures(facts):  # metrics, which tell no causes
            raise Unjudged(naming(_WHY_STALLED, log=facts.stalls.unknown))

    return rule(judge)


@Rule(
    "write amplification",
    "a flushed byte was written {times:.1f} times",
    option="compaction_style",
    direction="universal; or raise write_buffer_size, or merge updates before the store",
    effect="fewer rewrites: larger runs, merged less often",
    cost="universal may need up to twice the disk while it merges, and slows reads",
    link=f"{WIKI}/Universal-Compaction",
)
def _write_amplification(facts: Facts) -> Iterator[Shown]:
    times, evidence = facts.writes.write_amplification, tuple(facts.writes.figures()[2:])
    if times is None:
        # Metrics tell rates of the last minute, or Spark's sums.
        flushed = facts.needed("memtable-bytes-flushed-rate", "rocksdbTotalBytesWrittenByFlush")
        compacted = facts.needed(
            "bytes-written-compaction-rate", "rocksdbTotalBytesWrittenByCompaction"
        )
        if not flushed.value:
            raise Unjudged(_NO_FLUSH)
        times, evidence = (flushed.value + compacted.value) / flushed.value, (flushed, compacted)
    if times > _MOST_WRITE_AMPLIFICATION:
        yield Shown(evidence, {"times": times})


@Rule(
    "flush too small",
    "memtables were flushed at {mean_memtable_bytes.text}, mostly for {reason!r}",
    option="max_total_wal_size",
    direction="raise: one quiet column family makes all others flush",
    effect="fewer files of level 0, so fewer compactions and fewer stalls",
    cost="more memory for memtables, and more to replay or restore after a crash",
    link=f"{WIKI}/Write-Buffer-Manager",
)
def _small_flushes(facts: Facts) -> Iterator[Shown]:
    """Judge whether memtables were flushed long before they were full."""
    if not facts.flushes and facts.flushes.unknown:
        raise Unjudged(facts.flushes.unknown)
    for family, profile in facts.profiled():
        full_bytes = profile.write_buffer_size
        flushes = [
            (str(each.reason), each.memory_bytes)
            for each in facts.flushes
            if each.column_family == family.name
            and each.memory_bytes is not None
            and each.reason in _FORCED
        ]
        if full_bytes is None or len(flushes) < _LEAST_FLUSHES:
            continue
        mean_bytes = sum(size for _, size in flushes) // len(flushes)
        if mean_bytes < _SMALL_FLUSH * full_bytes:
            reason, _ = Counter(reason for reason, _ in flushes).most_common(1)[0]
            told = {"num_flushes": len(flushes), "mean_memtable_bytes": mean_bytes}
            evidence = figures_of(Source.LOG, **told, most_frequent_reason=reason)
            evidence += figures_of(Source.OPTIONS, write_buffer_size=full_bytes)
            yield Shown(evidence, {"reason": reason} | _FORCED[reason], family)


_OF_READERS = (_index_misses, _hash_index, _bloom, _absent_keys, _iterators, _thin_cache)
_OF_DISK = (_space_amplification, _tombstones, _small_files, _open_files)
_OF_WRITERS = (*map(_of_stalls, _STALLS), _write_amplification, *ENGINE_RULES, _small_flushes)
_ALL = (errors_in_log, _memory, *_OF_WRITERS, *_OF_READERS, *_OF_DISK, known_faults)
RULES = {each.name: each for each in _ALL}  # each rule by its name


def advice_on(facts: Facts) -> AdviceList:
    """Return the advice that the facts give reason for, and which rules lack facts."""
    found: list[Advice] = []
    silent: dict[str, str] = {}
    for name, rule in RULES.items():
        try:
            found += rule.advice(facts)
        except Unjudged as unjudged:
            silent[name] = unjudged.args[0]
    return AdviceList(found, silent)
