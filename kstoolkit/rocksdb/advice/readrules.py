"""Advice for readers: the cache, filters, hash indexes, absent keys and iterators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.records import Figure, Source
from kstoolkit.rocksdb.advice.advice import Advice, Unjudged

if TYPE_CHECKING:
    from kstoolkit.rocksdb.advice.facts import Facts, FamilyFacts


_WIKI = "https://github.com/facebook/rocksdb/wiki"
_CACHE = f"{_WIKI}/Block-Cache"

LEAST_LOOKUPS = 1_000
"""Below this, a share is chance."""

MOST_INDEX_MISSES = 0.05
LEAST_BLOOM_USEFULNESS = 0.9
MOST_ABSENT = 0.2
MOST_OPEN_ITERATORS = 50
MOST_PINNED = 0.25
LEAST_DATA_HITS = 0.5
THIN_SHARE = 0.05
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
    if lookups < LEAST_LOOKUPS or misses <= MOST_INDEX_MISSES * lookups:
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
    if asked < LEAST_LOOKUPS or useful + true >= LEAST_BLOOM_USEFULNESS * asked:
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
    if reached < LEAST_LOOKUPS or absent <= MOST_ABSENT * reached:
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
    if counts is not None and counts[0] - counts[1] > MOST_OPEN_ITERATORS:
        evidence = facts.tickers.figures(*_ITERATORS)
    memory = facts.memory
    pinned = memory.block_cache_pinned_bytes + (memory.memtables_pinned_bytes or 0)
    if 0 < MOST_PINNED * memory.block_cache_capacity_bytes < pinned:
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
        return Unjudged("which cache stores share is in no OPTIONS file: give profile=...")
    if counts is None:
        return Unjudged(facts.tickers.why_none)
    share_bytes = profile.block_cache_bytes // facts.instances
    sst_bytes = sum(each.size_bytes for family in facts.families for each in family.ssts)
    hits, lookups = counts[0], sum(counts)
    thin = profile.block_cache_shared and share_bytes < THIN_SHARE * sst_bytes
    if not thin or lookups < LEAST_LOOKUPS or hits >= LEAST_DATA_HITS * lookups:
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
