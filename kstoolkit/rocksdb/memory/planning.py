"""How much memory the stores of a host need, term by term.

Each term has its size, its formula and where that comes from. For a store that is there, its files,
options and log say what goes in: RocksDB writes the options of each column family's tables into the
log as it opens a store, at any log level, and so the block cache, which no OPTIONS file holds:
``block_cache: 0x7f48083210c0``, and under ``block_cache_options`` the capacity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, Option, naming
from kstoolkit.records import Figure, Record, Records, Source, counted, of_source
from kstoolkit.rocksdb.files.ssts import known_total
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Mapping

    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.log.lines import LoggedOption


_HANDLE_BYTES = 8  # offset and size of a block, as variable-length numbers
_BITS = 8
_INSIDE = "inside the block cache"
_NO_DATA = "keys, key_bytes and value_bytes are not given"


@dataclass(frozen=True, slots=True)
class _Given:
    """What a plan is made for, beside the profile: of one instance, if not said otherwise.

    ``base`` and ``origins`` say where options come from; ``index_bytes`` and ``filter_bytes`` are
    what the SST files say of themselves, if there are any, and they do.
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
        if self.each_bytes is None:  # of several stores that differ
            each, times = "in all", f"of {self.count:,}"
        return f"{self.term}: {each} {times} = {total}; {self.formula} ({self.origin})"

    def __repr__(self) -> str:
        return f"MemoryTerm({self})"


def _memtable_term(profile: Profile, given: _Given) -> MemoryTerm:
    """Return the memtables: of each instance, or what a write-buffer manager leaves all of them."""
    budget = profile.write_buffer_manager_bytes
    if budget:
        formula, origin = "write_buffer_manager_bytes", given.origin("write_buffer_manager_bytes")
        if profile.write_buffer_manager_in_cache:
            formula, budget = f"{_INSIDE}, which pays for them", 0
        return _term("memtables", formula, origin, budget, 1, shared=True)
    names = ("write_buffer_size", "max_write_buffer_number")
    size, number = profile.write_buffer_size, profile.max_write_buffer_number
    each = None if size is None or number is None else size * number * given.column_families
    formula = "write_buffer_size x max_write_buffer_number x column families"
    why = _why(profile, *names)
    return _term("memtables", formula, given.origin(*names), each, given.instances, why=why)


def _cache_term(profile: Profile, given: _Given) -> MemoryTerm:
    """Return the block cache: of each instance, or of all."""
    shared = bool(profile.block_cache_shared)
    count = 1 if shared else given.instances
    name = "block_cache_bytes"
    size, why = profile.block_cache_bytes, _why(profile, name)
    return _term("block cache", name, given.origin(name), size, count, shared=shared, why=why)


def _index_term(profile: Profile, given: _Given) -> MemoryTerm:
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


def _filter_term(profile: Profile, given: _Given) -> MemoryTerm:
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


def _pinned_term(profile: Profile, given: _Given, *, is_bound: bool = False) -> MemoryTerm:
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
    term: str, given: _Given, formula: str = _INSIDE, option: str = "cache_index_and_filter_blocks"
) -> MemoryTerm:
    return _term(term, formula, given.origin(option), 0, given.instances)


def _of_files(term: str, figure: str, size_bytes: int, given: _Given) -> MemoryTerm:
    known = _term(term, f"{figure} of the SST files", Source.STORE, size_bytes, given.instances)
    return replace(known, source=Source.STORE)


def _why(profile: Profile, *options: str) -> str:
    whys = {name: profile.unknown[name] for name in options if name in profile.unknown}
    return naming("; ".join(f"{{{name}}}" for name in whys), **whys)


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


def check_whole(name: str, value: object, *, least: int, hint: str) -> None:
    """Refuse what is no whole number, or less than it may be; ``hint`` says what to give."""
    if not isinstance(value, int) or isinstance(value, bool):
        message = f"{name} is {value!r}, which is no whole number."
        raise ConfigurationError(message, hint=hint)
    if value < least:
        message = f"{name} is {value}: it has to be {least} or more."
        raise ConfigurationError(message, hint=hint)


_FROM_FILE = re.compile(r"What RocksDB .* was given for .*, by (\S+)\.")
_HOW_MANY = "Give how many are open at once: 1 or more."
_SIZES = "Give a whole number: of bytes, keys, memtables or iterators."


@dataclass(frozen=True, slots=True)
class MemoryPlan(Record):
    """The memory that RocksDB needs on a host: each term, and their sum.

    Parameters
    ----------
    terms
        What the sum is made of, with formula and origin.
    instances
        How many RocksDB instances are open at once.
    each_bytes
        What the memtables and the cache of one instance come to; None if instances share them.
    total_bytes
        The sum of the terms that are known.
    is_bound
        Whether more stores or more data would leave the sum as it is: all is paid for by one cache.
    is_strict
        Whether that cache refuses what it has no room for. If it doesn't, the bound is a soft one:
        blocks in use may go beyond it.
    unknown
        For each term that is no part of the sum: why.
    given
        What :func:`plan_memory` was given, by the names of its parameters, and the profile with the
        sizes that override it; empty for a plan of what a store's files say.
    """

    terms: Records[MemoryTerm]
    instances: int = of_source(Source.FORMULA)
    each_bytes: int | None = of_source(Source.FORMULA)
    total_bytes: int = of_source(Source.FORMULA)
    is_bound: bool = of_source(Source.FORMULA)
    is_strict: bool = of_source(Source.FORMULA, default=False)
    unknown: dict[str, str] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and the terms as plain values, as ``--json`` prints them."""
        told = Record.to_dict(self)
        del told["given"]
        return told

    def __str__(self) -> str:
        least = "at least " if self._lacking() else ""
        head = f"{least}{self._total()} for {counted(self.instances, 'RocksDB instances')}"
        if self.is_bound and self.is_strict:
            head += "; a bound, however many stores"
        elif self.is_bound:
            head += "; a soft bound, however many stores: blocks in use may go beyond it"
        return "\n".join([head, *(f"  {term}" for term in self.terms)])

    def __repr__(self) -> str:
        told = [counted(self.instances, "instances"), self._total()]
        told += [f"a {'hard' if self.is_strict else 'soft'} bound"] if self.is_bound else []
        lacking = self._lacking()
        told += [f"without {', '.join(lacking)} (unknown)"] if lacking else []
        return f"MemoryPlan({', '.join(told)})"

    def _lacking(self) -> list[str]:
        return [name for name in self.unknown if name != "each_bytes"]

    def _total(self) -> str:
        return f"{format_bytes(self.total_bytes)} ({format_count(self.total_bytes)} bytes)"

    def _repr_html_(self) -> str:
        return Record._repr_html_(self) + self.terms._repr_html_()


def plan_memory(
    profile: Profile | str | os.PathLike[str] | None = None,
    *,
    memtable_bytes: int | None = None,
    memtables: int | None = None,
    block_cache_bytes: int | None = None,
    partitions: int = 1,
    segments: int = 1,
    stores: int = 1,
    column_families: int = 1,
    keys: int | None = None,
    key_bytes: int | None = None,
    value_bytes: int | None = None,
    iterators: int | None = None,
) -> MemoryPlan:
    """Return how much memory the RocksDB instances of a host need at most, and why.

    Instances = partitions x segments x stores. Each needs memtable size x count, its block cache,
    index and filter blocks if they live outside the cache, and what iterators pin. With one cache
    and write-buffer manager for all, those count once.

    Parameters
    ----------
    profile
        A profile, the name of one, an OPTIONS file or the folder of a store; None: RocksDB's own
        options. The sizes below override it.
    memtable_bytes, memtables
        Size of a memtable, and how many may exist (``write_buffer_size``,
        ``max_write_buffer_number``).
    block_cache_bytes
        Size of the cache: of each instance, or of the one that they share.
    partitions, segments, stores
        Partitions on this host; segments of each that are open at once; stores of each partition.
    column_families
        How many of them are written in each instance: each has memtables of its own.
    keys, key_bytes, value_bytes
        Keys in one instance, and the mean size of a key and a value, for index and filter blocks.
    iterators
        Iterators open at once in one instance.

    Raises
    ------
    ConfigurationError
        If a number makes no sense.

    Examples
    --------
    >>> plan = plan_memory(
    ...     memtable_bytes=32 << 20, memtables=3, block_cache_bytes=16 << 20,
    ...     partitions=40, segments=3, stores=1,
    ... )
    >>> plan.each_bytes >> 20, plan.total_bytes >> 20
    (112, 13440)
    >>> plan.unknown["index blocks"]
    'keys, key_bytes and value_bytes are not given'
    """
    counts = {"partitions": partitions, "segments": segments, "stores": stores}
    for name, count in (counts | {"column_families": column_families}).items():
        check_whole(name, count, least=1, hint=_HOW_MANY)
    sizes = {
        "write_buffer_size": memtable_bytes,
        "max_write_buffer_number": memtables,
        "block_cache_bytes": block_cache_bytes,
    }
    data = {"keys": keys, "key_bytes": key_bytes, "value_bytes": value_bytes}
    data["iterators"] = iterators
    for name, size in (sizes | data).items():
        if size is not None:
            check_whole(name, size, least=0, hint=_SIZES)
    options = {name: value for name, value in sizes.items() if value is not None}
    base = profile_given(profile)
    given = _Given(
        instances=partitions * segments * stores,
        column_families=column_families,
        base="RocksDB's own options" if profile is None else _origin_of(base),
        origins=dict.fromkeys(options, str(Source.GIVEN)),
        **data,
    )
    planned = base.changed(**options) if options else base
    told = counts | data | {"column_families": column_families, "profile": planned}
    return replace(_plan_of(planned, given), given=told)


def _plan_of(profile: Profile, given: _Given) -> MemoryPlan:
    memory = [_memtable_term(profile, given), _cache_term(profile, given)]
    blocks = [_index_term(profile, given), _filter_term(profile, given)]
    in_cache = bool(profile.cache_index_and_filter_blocks)
    shared = all(term.count == 1 for term in memory) and bool(profile.block_cache_shared)
    is_bound = shared and in_cache and bool(profile.write_buffer_manager_bytes)
    terms = [*memory, *blocks, _pinned_term(profile, given, is_bound=is_bound)]
    unknown = {term.term: term.unknown["total_bytes"] for term in terms if term.total_bytes is None}
    is_shared = any(term.shared for term in memory)
    each = None if is_shared else known_total(term.each_bytes for term in memory)
    if each is None:
        unknown["each_bytes"] = "instances share it, or a term of it is unknown"
    return MemoryPlan(
        Records(terms, "terms"),
        instances=given.instances,
        each_bytes=each,
        total_bytes=sum(term.total_bytes or 0 for term in terms),
        is_bound=is_bound,
        is_strict=bool(profile.strict_capacity_limit),
        unknown=unknown,
    )


def profile_given(profile: Profile | str | os.PathLike[str] | None) -> Profile:
    """Return the profile that was given: itself, by its name, or by a path; RocksDB's own if None.

    What is neither the name of a profile nor a path with an OPTIONS file is an InputError.
    """
    if profile is None:
        return Profile()
    if isinstance(profile, Profile):
        return profile
    if isinstance(profile, str) and profile in profile_names():
        return profile_named(profile)
    return Profile.from_options(profile)


def _origin_of(profile: Profile) -> str:
    """Return where the options of a profile come from: its name, or the OPTIONS file it is of."""
    file = _FROM_FILE.fullmatch(profile.purpose)
    if file and not profile.name.endswith(", changed"):
        return f"{file[1]} of {profile.name!r}"
    return f"profile {profile.name or 'no name'!r}"


_CACHE_OPTIONS = ("block_cache", "block_cache_name", "capacity", "strict_capacity_limit")
_NO_CACHE = {"(nil)", "0x0", "0", "nullptr"}


@dataclass(frozen=True, slots=True)
class LoggedCache:
    """The block caches of a store's column families; those at one address are one.

    Stores of one process that tell the same address share it; ``capacity_bytes`` are of all
    together.
    """

    capacity_bytes: int
    addresses: tuple[str, ...]
    name: str
    is_strict: bool
    num_column_families: int

    @property
    def origin(self) -> str:
        """Where that is from, for people."""
        places = ", ".join(self.addresses)
        users = counted(self.num_column_families, "column families")
        return f"{Source.LOG}, {self.name} at {places} for {users}"


def logged_cache(options: Iterable[LoggedOption]) -> LoggedCache | None:
    """Return the block caches of a store by what its log tells; None if it doesn't tell of all.

    >>> from kstoolkit.rocksdb.log.lines import LoggedOption
    >>> told = {"block_cache": "0x7f48", "capacity": "8388608"}
    >>> cache = logged_cache(LoggedOption(cf, *each) for cf in ("a", "b") for each in told.items())
    >>> cache.capacity_bytes, cache.num_column_families
    (8388608, 2)
    """
    families: dict[str | None, dict[str, str]] = {}
    for each in options:
        if each.name in _CACHE_OPTIONS:
            # The first capacity is the block cache's; others may follow.
            families.setdefault(each.column_family, {}).setdefault(each.name, each.value)
    having = [told for told in families.values() if told.get("block_cache", "0") not in _NO_CACHE]
    caches = {told["block_cache"]: told for told in having}
    sizes = [told.get("capacity", "") for told in caches.values()]
    if not sizes or not all(size.isdecimal() for size in sizes):
        return None
    return LoggedCache(
        sum(map(int, sizes)),
        tuple(caches),
        having[0].get("block_cache_name", "a cache"),
        all(told.get("strict_capacity_limit") == "1" for told in having),
        len(having),
    )


_CACHE = ("block_cache_bytes", "strict_capacity_limit")
KEY_TRAILER_BYTES = 8
"""Sequence number and type, which RocksDB adds to each key in a file."""


def plan_for(
    profile: Profile | str | os.PathLike[str] | None,
    ssts: Collection[Sst],
    *,
    cache: LoggedCache | None = None,
    column_families: int = 1,
    instances: int = 1,
    iterators: int | None = None,
) -> MemoryPlan | None:
    """Return the formula for stores like one that is there; None if its options are unknown.

    Where a file doesn't say how large its index and filter blocks are, they are estimated from its
    keys. ``cache`` is what the writer's log tells, for a profile that doesn't.
    """
    check_whole("instances", instances, least=1, hint="Give how many are open at once: 1 or more.")
    if iterators is not None:
        check_whole("iterators", iterators, least=0, hint="Give how many are open at once.")
    if profile is None:
        return None
    base = profile_given(profile)
    told = cache if base.block_cache_bytes is None else None
    given = _Given(
        instances=instances,
        column_families=column_families,
        base=_origin_of(base),
        origins={} if told is None else dict.fromkeys(_CACHE, told.origin),
        iterators=iterators,
        **_of_data(ssts),
    )
    if told is None:
        return _plan_of(_with_unknown_cache(base), given)
    cached = {"block_cache_bytes": told.capacity_bytes, "strict_capacity_limit": told.is_strict}
    return _plan_of(base.changed(**cached), given)


def _with_unknown_cache(profile: Profile) -> Profile:
    """Return a profile that says what tells of its cache, if nothing does."""
    name = "block_cache_bytes"
    if profile.block_cache_bytes is not None or name not in profile.unknown:
        return profile
    why = "{before}, nor does the writer's log tell of one: give {profile}"
    told = naming(why, before=profile.unknown[name], profile=Option("profile", "..."))
    return profile.changed(unknown={name: told})


def _of_data(ssts: Collection[Sst]) -> dict[str, Any]:
    """Return what the files say of index and filter blocks, and of the keys to estimate them by."""
    found = {
        "index_bytes": known_total(each.index_bytes for each in ssts),
        "filter_bytes": known_total(each.filter_bytes for each in ssts),
    }
    entries = sum(each.num_entries for each in ssts)
    keys = known_total(each.raw_key_bytes for each in ssts)
    values = known_total(each.raw_value_bytes for each in ssts)
    if entries and keys is not None and values is not None:
        found["keys"] = entries
        found["key_bytes"] = max(0, round(keys / entries) - KEY_TRAILER_BYTES)
        found["value_bytes"] = round(values / entries)
    return found
