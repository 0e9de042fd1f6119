"""The terms of the memory formula: each with its size, its formula and where that comes from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kstoolkit.records import Figure, Record, Source, of_source
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.rocksdb.profiles.profile import Profile


_HANDLE_BYTES = 8  # offset and size of a block, as variable-length numbers
_BITS = 8
_INSIDE = "inside the block cache"
_NO_DATA = "keys, key_bytes and value_bytes are not given"


@dataclass(frozen=True, slots=True)
class Given:
    """What a plan is made for, beside the profile.

    Parameters
    ----------
    instances, column_families
        RocksDB instances, and column families that are written in each.
    base
        Where the options come from, if nothing else is said of one.
    origins
        Where an option comes from, by its name.
    keys, key_bytes, value_bytes, iterators
        Of one instance; None if not given.
    index_bytes, filter_bytes
        What the SST files of one instance say of themselves; None if there are none, or they don't.
    """

    instances: int
    column_families: int
    base: str
    origins: Mapping[str, str] = field(default_factory=dict)
    keys: int | None = None
    key_bytes: int | None = None
    value_bytes: int | None = None
    iterators: int | None = None
    index_bytes: int | None = None
    filter_bytes: int | None = None

    def origin(self, *options: str) -> str:
        """Return where the values of some options come from."""
        named: dict[str, list[str]] = {}
        for name in options:
            named.setdefault(self.origins.get(name, self.base), []).append(name)
        return "; ".join(f"{', '.join(names)}: {origin}" for origin, names in named.items())


@dataclass(frozen=True, slots=True, repr=False)
class MemoryTerm(Record):
    """One term of the memory formula.

    Parameters
    ----------
    term
        What it is.
    formula
        How its size is worked out.
    origin
        Where the values in the formula come from.
    each_bytes, count, total_bytes
        Its size, how many times it is needed, and the product.
    shared
        Whether all instances have one together.
    source
        Whose the sizes are: of the formula, or of the files of a store that is there.
    unknown
        Why a size is None.
    """

    term: str
    formula: str
    origin: str
    each_bytes: int | None = of_source(Source.FORMULA)
    count: int = of_source(Source.FORMULA)
    total_bytes: int | None = of_source(Source.FORMULA)
    shared: bool = False
    source: Source = Source.FORMULA
    unknown: dict[str, str] = field(default_factory=dict)

    def figures(self) -> list[Figure]:
        """Return the figures, each with whose it is."""
        return [replace(each, source=self.source) for each in Record.figures(self)]

    def __str__(self) -> str:
        if self.total_bytes is None:
            return f"{self.term}: unknown ({self.unknown['total_bytes']})"
        times = "shared by all" if self.shared else f"x {self.count:,}"
        each, total = format_bytes(self.each_bytes), format_bytes(self.total_bytes)
        return f"{self.term}: {each} {times} = {total}; {self.formula} ({self.origin})"

    def __repr__(self) -> str:
        return f"MemoryTerm({self})"


def memtable_term(profile: Profile, given: Given) -> MemoryTerm:
    """Return the memtables: of each instance, or what a write-buffer manager leaves all of them."""
    budget = profile.write_buffer_manager_bytes
    if budget and profile.write_buffer_manager_in_cache:
        origin = given.origin("write_buffer_manager_bytes")
        return _term("memtables", f"{_INSIDE}, which pays for them", origin, 0, 1, shared=True)
    if budget:
        origin = given.origin("write_buffer_manager_bytes")
        return _term("memtables", "write_buffer_manager_bytes", origin, budget, 1, shared=True)
    names = ("write_buffer_size", "max_write_buffer_number")
    size, number = profile.write_buffer_size, profile.max_write_buffer_number
    each = None if size is None or number is None else size * number * given.column_families
    formula = "write_buffer_size x max_write_buffer_number x column families"
    why = _why(profile, *names)
    return _term("memtables", formula, given.origin(*names), each, given.instances, why=why)


def cache_term(profile: Profile, given: Given) -> MemoryTerm:
    """Return the block cache: of each instance, or of all."""
    shared = bool(profile.block_cache_shared)
    count = 1 if shared else given.instances
    name = "block_cache_bytes"
    size, why = profile.block_cache_bytes, _why(profile, name)
    return _term("block cache", name, given.origin(name), size, count, shared=shared, why=why)


def index_term(profile: Profile, given: Given) -> MemoryTerm:
    """Return the index blocks, estimated if they live outside the cache.

    Data blocks of ``block_size`` bytes before compression, but none without a key; and for each a
    key and where it lies. Source: RocksDB's wiki, Memory usage in RocksDB.
    """
    if profile.cache_index_and_filter_blocks:
        return _inside("index blocks", given)
    if given.index_bytes is not None:
        return _of_files("index blocks", "index_bytes", given.index_bytes, given)
    formula = f"min(keys, keys x (key + value) / block_size) x (key + {_HANDLE_BYTES}), about"
    each = None
    if given.keys is not None and given.key_bytes is not None and given.value_bytes is not None:
        blocks = given.keys * (given.key_bytes + given.value_bytes) / (profile.block_size or 4096)
        each = round(min(given.keys, blocks) * (given.key_bytes + _HANDLE_BYTES))
    origin = given.origin("block_size")
    return _term("index blocks", formula, origin, each, given.instances, why=_NO_DATA)


def filter_term(profile: Profile, given: Given) -> MemoryTerm:
    """Return the filter blocks, estimated if they live outside the cache.

    At most: with ``optimize_filters_for_hits`` the last level has none.
    Source: RocksDB's wiki, RocksDB Bloom Filter.
    """
    origin = given.origin("bloom_bits_per_key")
    if profile.cache_index_and_filter_blocks:
        return _inside("filter blocks", given)
    if given.filter_bytes is not None:
        return _of_files("filter blocks", "filter_bytes", given.filter_bytes, given)
    bits = profile.bloom_bits_per_key
    if bits == 0:
        return _term("filter blocks", "no filter", origin, 0, given.instances)
    each = None if bits is None or given.keys is None else round(given.keys * bits / _BITS)
    why = "keys is not given" if given.keys is None else _why(profile, "bloom_bits_per_key")
    formula = "keys x bloom_bits_per_key / 8, at most"
    return _term("filter blocks", formula, origin, each, given.instances, why=why)


def pinned_term(profile: Profile, given: Given, *, is_bound: bool = False) -> MemoryTerm:
    """Return what iterators pin: a block in each file of level 0 and in each level below.

    It lies inside the cache as long as there is room, and beyond its size if there is none, unless
    the cache is strict. Under a bound it is counted only if the number of iterators is given.
    Source: RocksDB's wiki, Memory usage in RocksDB.
    """
    strict = bool(profile.strict_capacity_limit)
    if is_bound and (strict or given.iterators is None):
        inside = _INSIDE if strict else f"{_INSIDE}, as long as there is room in it"
        return _inside("pinned by iterators", given, inside, "strict_capacity_limit")
    names = ("block_size", "level0_file_num_compaction_trigger", "num_levels")
    size, files, levels = (getattr(profile, name) for name in names)
    formula = "iterators x block_size x (level0_file_num_compaction_trigger + num_levels - 1)"
    each, why = None, _why(profile, *names)
    if given.iterators is None:
        why = "iterators is not given"
    elif None not in {size, files, levels}:
        each = given.iterators * size * (files + levels - 1)
    origin = given.origin(*names)
    return _term("pinned by iterators", formula, origin, each, given.instances, why=why)


def _inside(
    term: str,
    given: Given,
    formula: str = _INSIDE,
    option: str = "cache_index_and_filter_blocks",
) -> MemoryTerm:
    return _term(term, formula, given.origin(option), 0, given.instances)


def _of_files(term: str, figure: str, size_bytes: int, given: Given) -> MemoryTerm:
    known = _term(term, f"{figure} of the SST files", Source.STORE, size_bytes, given.instances)
    return replace(known, source=Source.STORE)


def _why(profile: Profile, *options: str) -> str:
    return "; ".join(profile.unknown[name] for name in options if name in profile.unknown)


def _term(
    term: str,
    formula: str,
    origin: str,
    each_bytes: int | None,
    count: int,
    *,
    shared: bool = False,
    why: str = "",
) -> MemoryTerm:
    if each_bytes is None:
        unknown = dict.fromkeys(("each_bytes", "total_bytes"), why)
        return MemoryTerm(term, formula, origin, None, count, None, shared, unknown=unknown)
    return MemoryTerm(term, formula, origin, each_bytes, count, each_bytes * count, shared)
