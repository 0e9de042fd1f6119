"""How much memory the stores of a host need, term by term.

Each term has its size, its formula and where that comes from. For a store that is there, its files,
options and log say what goes in, column family by column family. What no OPTIONS file holds,
RocksDB logs at level INFO as it opens a store: ``block_cache: 0x7f48083210c0``, its capacity under
``block_cache_options``, and ``write_buffer_manager: 0x7feb501f1190``.

A memtable takes another block of its arena while it stays within 0.6 of one above
``write_buffer_size``, and ends with the row that fills it (RocksDB's ``MemTable::ShouldFlushNow``).
Writes stop while ``max_write_buffer_number`` wait to be flushed, beside a new one
(``GetWriteStallConditionAndCause``). An iterator keeps those that were there when it was opened
(``SuperVersion``). A file that is open takes memory beside its index and filter
(``BlockBasedTable::ApproximateMemoryUsage``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kstoolkit.errors import ConfigurationError, Option, naming
from kstoolkit.records import Figure, Record, Records, Source, counted, of_source
from kstoolkit.rocksdb.files.ssts import known_total
from kstoolkit.rocksdb.memory.fitting import OF_BYTES, MemoryChange, PodMemory, pod_memory
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_given, profile_named
from kstoolkit.units import check_whole, format_bytes, format_count

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.log.lines import LoggedOption
    from kstoolkit.rocksdb.profiles.profile import Profile

_HANDLE_BYTES = 8  # offset and size of a block, as variable-length numbers
_INSIDE = "inside the block cache"
_ABOUT = ", about"
_PINNED = "pinned by iterators"
_MEMTABLES = ("write_buffer_size", "max_write_buffer_number")
_NO_DATA = "keys, key_bytes and value_bytes are not given"
_MOSTLY = 0.6


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
    term, formula, origin
        What it is, how its size is worked out, and where the values in the formula come from.
    each_bytes, count, total_bytes
        Its size, how many times it is needed, and the product.
    shared, source
        Whether all instances have one together; whether its size is that of files that are there.
    parts
        What of ``total_bytes`` each column family may take, as far as that is known.
    objects
        What of ``each_bytes`` is one object, by its address or profile: it counts once for all.
    is_inferred
        Whether nothing but the engine's default tells the size.
    """

    term: str
    formula: str
    origin: str
    each_bytes: int | None = of_source(Source.FORMULA)
    count: int = of_source(Source.FORMULA)
    total_bytes: int | None = of_source(Source.FORMULA)
    shared: bool = False
    source: Source = Source.FORMULA
    parts: dict[str, int] = field(default_factory=dict)
    objects: dict[str, int] = field(default_factory=dict)
    is_inferred: bool = False
    unknown: dict[str, str] = field(default_factory=dict)

    def figures(self) -> list[Figure]:
        """Return the figures, each with whose it is."""
        return [replace(each, source=self.source) for each in Record.figures(self)]

    def __str__(self) -> str:
        if self.total_bytes is None:
            return f"{self.term}: unknown ({self.unknown['total_bytes']})"
        times = "shared by all" if self.shared else f"x {self.count:,}"
        each, total = format_bytes(self.each_bytes), format_bytes(self.total_bytes)
        most = "about " if self.formula.endswith(_ABOUT) else "at most " if self.total_bytes else ""
        told = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.parts.items())
        formula = f"{self.formula}: {told}" if told else self.formula
        size = f"{most}{each} {times} = {total}"
        if self.each_bytes is None:  # of several stores that differ
            size = f"{most}{total} in all of {self.count:,}"
        return f"{self.term}: {size}; {formula} ({self.origin})"

    def __repr__(self) -> str:
        return f"MemoryTerm({self})"


def _memtable_term(profile: Profile, given: _Given) -> MemoryTerm:
    """Return the memtables: of each instance, or what a write-buffer manager leaves all of them."""
    budget = profile.write_buffer_manager_bytes
    if budget:
        formula, origin = "write_buffer_manager_bytes", given.origin("write_buffer_manager_bytes")
        if profile.write_buffer_manager_in_cache:
            formula, budget = f"{_INSIDE}, which pays for them", 0
        once: dict[str, Any] = {"shared": True, "objects": {origin: budget}}
        return _term("memtables", formula, origin, budget, 1, **once)
    size, number = profile.write_buffer_size, profile.max_write_buffer_number
    each = None if size is None or number is None else size * number * given.column_families
    formula = "write_buffer_size x max_write_buffer_number x column families"
    origin, why = given.origin(*_MEMTABLES), _why(profile, *_MEMTABLES)
    return _term("memtables", formula, origin, each, given.instances, why=why)


def _cache_term(profile: Profile, given: _Given) -> MemoryTerm:
    """Return the block cache: of each instance, or of all."""
    name = "block_cache_bytes"
    size, origin, why = profile.block_cache_bytes, given.origin(name), _why(profile, name)
    once = bool(profile.block_cache_shared and size is not None)
    more = {"shared": True, "objects": {origin: size}} if once else {}
    return _term("block cache", name, origin, size, 1 if once else given.instances, why=why, **more)


def _index_term(profile: Profile, given: _Given) -> MemoryTerm:
    """Return the index blocks, estimated if they live outside the cache.

    Data blocks of ``block_size`` bytes before compression, but none without a key; and for each a
    key and where it lies. Source: RocksDB's wiki, Memory usage in RocksDB.
    """
    if profile.cache_index_and_filter_blocks:
        return _inside("index blocks", given)
    if given.index_bytes is not None:
        return _of_files("index blocks", "index_bytes of the SST files", given.index_bytes, given)
    formula = f"min(keys, keys x (key + value) / block_size) x (key + {_HANDLE_BYTES}){_ABOUT}"
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
        return _of_files(
            "filter blocks", "filter_bytes of the SST files", given.filter_bytes, given
        )
    bits = profile.bloom_bits_per_key
    if bits == 0:
        return _term("filter blocks", "no filter", origin, 0, given.instances)
    each = None if bits is None or given.keys is None else round(given.keys * bits / 8)
    why = "keys is not given" if given.keys is None else _why(profile, "bloom_bits_per_key")
    formula = "keys x bloom_bits_per_key / 8, at most"
    return _term("filter blocks", formula, origin, each, given.instances, why=why)


def _pinned_term(profile: Profile, given: _Given, *, is_bound: bool = False) -> MemoryTerm:
    """Return what iterators pin: memtables, and a block in each level and each file of level 0.

    Blocks lie inside the cache as long as there is room, and beyond its size if there is none,
    unless the cache is strict. Under a bound they are counted only if the number of iterators is
    given. Source: RocksDB's wiki, Memory usage in RocksDB.
    """
    strict = bool(profile.strict_capacity_limit)
    if is_bound and (strict or given.iterators is None):
        inside = _INSIDE if strict else f"{_INSIDE}, as long as there is room in it"
        return _inside(_PINNED, given, inside, "strict_capacity_limit")
    names = ("block_size", "level0_file_num_compaction_trigger", "num_levels", *_MEMTABLES)
    size, files, levels, memtable, number = (getattr(profile, name) for name in names)
    blocks = "block_size x (level0_file_num_compaction_trigger + num_levels - 1)"
    formula = f"iterators x ({blocks} + write_buffer_size x (max_write_buffer_number + 1))"
    each, why = None, _why(profile, *names)
    if given.iterators is None:
        why = "iterators is not given"
    elif None not in {size, files, levels, memtable, number}:
        each = given.iterators * (size * (files + levels - 1) + memtable * (number + 1))
    return _term(_PINNED, formula, given.origin(*names), each, given.instances, why=why)


def _inside(
    term: str, given: _Given, formula: str = _INSIDE, option: str = "cache_index_and_filter_blocks"
) -> MemoryTerm:
    return _term(term, formula, given.origin(option), 0, given.instances)


def _of_files(term: str, formula: str, size_bytes: int, given: _Given) -> MemoryTerm:
    store = Source.STORE
    return _term(term, formula, store, size_bytes, given.instances, source=store)


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
    why: str = "",
    **more: Any,
) -> MemoryTerm:
    """Return a term; of what all instances have together, ``origin`` names the one object."""
    total = None if each_bytes is None else each_bytes * count
    unknown = {} if total is not None else dict.fromkeys(("each_bytes", "total_bytes"), why)
    return MemoryTerm(term, formula, origin, each_bytes, count, total, unknown=unknown, **more)


_FROM_FILE = re.compile(r"What RocksDB .* was given for .*, by (\S+(?: and LOG)?)\.")
_HOW_MANY = "Give how many are open at once: 1 or more."
_SIZES = "Give a whole number: of bytes, keys, memtables or iterators."


@dataclass(frozen=True, slots=True)
class MemoryPlan(Record):
    """The memory that RocksDB needs on a host: each term, and their sum.

    Parameters
    ----------
    terms, total_bytes
        What the sum is made of, with formula and origin; the sum of those that are known.
    instances, each_bytes
        How many RocksDB instances are open at once, and what the memtables and the cache of one
        come to; None if they share them.
    is_bound
        Whether more stores or more data would leave the sum as it is: all is paid for by one cache.
    is_strict
        Whether that cache refuses what has no room; if not, blocks in use may exceed the bound.
    unknown
        For each term, or store that was found, that is no part of the sum: why.
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

    def __str__(self) -> str:
        most = "at most" if self.is_ceiling else "at least"
        head = f"{most} {self._total()} for {counted(self.instances, 'RocksDB instances')}"
        if self.is_ceiling and _PINNED in self.unknown:
            head += ", beside what iterators pin"
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

    def within(
        self, pod: str | int, heap: str | int, *, reserve: str | int | None = None
    ) -> PodMemory:
        """Return what a pod has for RocksDB beside a Java of such a heap, and the bound that fits.

        Parameters
        ----------
        pod, heap
            The limit of its memory, and Java's ``-Xmx``: as ``"8GiB"``, or bytes.
        reserve
            What Java takes beside its heap; None: as :class:`PodMemory` reckons it.

        Raises
        ------
        ConfigurationError
            If one is no size, or too little is left for so many instances.

        Examples
        --------
        >>> plan_memory("kafka_streams", partitions=100).within("8GiB", "2GiB").bound_bytes >> 20
        4427
        """
        needed = self.total_bytes if self.is_ceiling else "; ".join(self.unknown.values())
        return pod_memory(needed, self.instances, pod, heap, reserve=reserve)

    def under(self, profile: Profile) -> MemoryPlan:
        """Return the plan of the same stores under another profile."""
        return plan_memory(**{**self.given, "profile": profile})

    @property
    def mostly_for(self) -> str:
        """What takes the largest part, as the end of a sentence; empty if nothing is known."""
        largest = max(self.terms, key=lambda each: each.total_bytes or 0)
        if not (size := largest.total_bytes):
            return ""
        what = "most of it" if size > _MOSTLY * self.total_bytes else "the largest part"
        return f", {what} for {largest.term}: {format_bytes(size)}"

    @property
    def is_ceiling(self) -> bool:
        """Whether no more is taken, but by iterators; else what is unknown would add to the sum."""
        return not {*self._lacking()} - {_PINNED}

    def _lacking(self) -> list[str]:
        return [name for name in self.unknown if name != "each_bytes"]

    def _total(self) -> str:
        return f"{format_bytes(self.total_bytes)} ({format_count(self.total_bytes)} bytes)"

    def _repr_html_(self) -> str:
        return Record._repr_html_(self) + self.terms._repr_html_()


@runtime_checkable
class HasMemoryPlan(Protocol):
    """Stores that are there, and tell what their RocksDB take by their options and files."""

    def memory_plan(self, *, iterators: int | None = None) -> MemoryPlan:
        """Return the memory that all of them need together."""


def plan_memory(
    profile: Profile | HasMemoryPlan | str | os.PathLike[str] | None = None,
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
        options. The sizes below override it. What :func:`kstoolkit.discover` found tells all but
        ``iterators`` itself: partitions, segments, stores and their options are taken from there.
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
        Iterators open at once in one instance, so long that the memtables they see are flushed.

    Raises
    ------
    ConfigurationError
        If a number makes no sense, or is given of stores that tell it themselves.

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
    if isinstance(profile, HasMemoryPlan):
        for name, value in (counts | sizes | data | {"column_families": column_families}).items():
            if value not in {None, 1}:
                message = f"{name}={value} is given, and the stores that were found tell it."
                raise ConfigurationError(message, hint="Leave it out, or give a profile instead.")
        return profile.memory_plan(iterators=iterators)
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
    parts = (_memtable_term, _cache_term, _index_term, _filter_term)
    terms = [part(planned, given) for part in parts]
    return replace(_summed(terms, planned, given), given=told)


def _summed(terms: list[MemoryTerm], profile: Profile, given: _Given) -> MemoryPlan:
    """Return the plan of terms, memtables and cache first; what iterators pin is added."""
    memory = terms[:2]
    in_cache = bool(profile.cache_index_and_filter_blocks)
    shared = all(term.shared for term in memory)
    is_bound = shared and in_cache and bool(profile.write_buffer_manager_bytes)
    terms = [*terms[:4], _pinned_term(profile, given, is_bound=is_bound), *terms[4:]]
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


def _origin_of(profile: Profile) -> str:
    """Return where the options of a profile come from: its name, or the OPTIONS file it is of."""
    file = _FROM_FILE.fullmatch(profile.purpose)
    if file and not profile.name.endswith(", changed"):
        return f"{file[1]} of {profile.name!r}"
    return f"profile {profile.name or 'no name'!r}"


_CACHE_OPTIONS = ("block_cache", "block_cache_name", "capacity", "strict_capacity_limit")
_NO_CACHE = {"(nil)", "0x0", "0", "nullptr"}


@dataclass(frozen=True, slots=True)
class LoggedMemory:
    """What a log tells of each column family's block cache, and the write-buffer manager's address.

    Stores that tell the same address have one together.
    """

    caches: dict[str | None, dict[str, str]]
    manager: str | None = None

    @property
    def origin(self) -> str:
        """Where that is from, for people."""
        places = ", ".join(dict.fromkeys(each["block_cache"] for each in self.caches.values()))
        name = next(iter(self.caches.values())).get("block_cache_name", "a cache")
        users = counted(len(self.caches), "column families")
        return f"block_cache_bytes: {Source.LOG}, {name} at {places} for {users}"


def logged_memory(options: Iterable[LoggedOption]) -> LoggedMemory:
    """Return what a store's log tells of caches; nothing if the size of one is missing.

    >>> from kstoolkit.rocksdb.log.lines import LoggedOption
    >>> told = {"block_cache": "0x7f48", "capacity": "8388608"}
    >>> logged_memory(LoggedOption(cf, *each) for cf in "ab" for each in told.items()).origin
    "block_cache_bytes: the writer's log, a cache at 0x7f48 for 2 column families"
    """
    families: dict[str | None, dict[str, str]] = {}
    manager = None
    for each in options:
        if each.name in _CACHE_OPTIONS:
            # The first capacity is the block cache's; others may follow.
            families.setdefault(each.column_family, {}).setdefault(each.name, each.value)
        elif each.name == "write_buffer_manager":
            manager = each.value
    having = {
        cf: told for cf, told in families.items() if told.get("block_cache", "0") not in _NO_CACHE
    }
    is_told = all(told.get("capacity", "").isdecimal() for told in having.values())
    return LoggedMemory(having if is_told else {}, manager)


@dataclass(frozen=True, slots=True)
class EngineUse:
    """An engine's profile, by name; column families it writes nothing to, and a few rows to."""

    profile: str | None = None
    unwritten: frozenset[str] = frozenset()
    small: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Family:
    """A column family of a store that is there: options, files, and by what a memtable grows."""

    name: str
    profile: Profile
    ssts: Collection[Sst]
    arena_block_bytes: int | None = None


KEY_TRAILER_BYTES = 8  # sequence number and type, which RocksDB adds to each key in a file
_OVER_A_BLOCK = 0.6  # kAllowOverAllocationRatio of RocksDB's db/memtable.cc
_EMPTY_BYTES = 2048  # kInlineSize of its memory/arena.h: what a memtable has before its first row
_LARGEST_BLOCK, _PAGE = 1 << 20, 4096
_READER_BYTES = 2560  # measured: 2,164 with RocksDB 9.8.4, the same for files of any size


def plan_for(
    families: Sequence[Family],
    *,
    engine: EngineUse,
    logged: LoggedMemory,
    instances: int = 1,
    iterators: int | None = None,
) -> MemoryPlan | None:
    """Return the formula for stores like one that is there; None if its options are unknown.

    The first family is the one that rows are written to. Where a file doesn't say how large its
    index and filter blocks are, they are estimated from its keys. What the engine does, and the
    log tells, stands in for what the options don't.
    """
    check_whole("instances", instances, least=1, hint="Give how many are open at once: 1 or more.")
    if iterators is not None:
        check_whole("iterators", iterators, least=0, hint="Give how many are open at once.")
    if not families:
        return None
    base = families[0].profile
    outside = [each for each in families if not each.profile.cache_index_and_filter_blocks]
    ssts = [file for each in outside for file in each.ssts]
    how = {"base": _origin_of(base), "iterators": iterators} | _of_data(ssts)
    given = _Given(instances=instances, column_families=len(families), **how)
    blocks = outside[0].profile if ssts else base
    terms = [part(families, given, engine, logged) for part in (_memtables_of, _caches_of)]
    terms += [_index_term(blocks, given), _filter_term(blocks, given)]
    readers = sum(len(each.ssts) for each in families) * _READER_BYTES
    formula = f"SST files x {_READER_BYTES}, beside index and filter"
    terms += [_of_files("open files", formula, readers, given)]
    if logged.caches and base.block_cache_bytes is None:
        strict = [each.get("strict_capacity_limit") == "1" for each in logged.caches.values()]
        base = base.changed(strict_capacity_limit=all(strict))
    return _summed(terms, base, given)


def _memtables_of(
    families: Sequence[Family], given: _Given, engine: EngineUse, logged: LoggedMemory
) -> MemoryTerm:
    base = families[0].profile
    if base.write_buffer_manager_bytes:
        return _at(_memtable_term(base, given), logged.manager)
    parts = {each.name: _most_in_memtables(each, engine) for each in families}
    known = {name: size * given.instances for name, size in parts.items() if size is not None}
    size = "write_buffer_size + 0.6 x arena_block_size + a row"
    formula = f"max_write_buffer_number x ({size}) + 2 KiB, that alone where nothing is written"
    origin, why = given.origin(*_MEMTABLES), _why(base, *_MEMTABLES)
    each = known_total(parts.values())
    told = {"parts": known, "objects": {} if logged.manager is None else {logged.manager: 0}}
    return _term("memtables", formula, origin, each, given.instances, why=why, **told)


def _most_in_memtables(family: Family, engine: EngineUse) -> int | None:
    if family.name in engine.unwritten and not family.ssts:
        return _EMPTY_BYTES
    size, number = family.profile.write_buffer_size, family.profile.max_write_buffer_number
    if size is None or number is None:
        return None
    block = family.arena_block_bytes or min(_LARGEST_BLOCK, -(-(size // 8) // _PAGE) * _PAGE)
    data = _of_data(family.ssts)
    row: int = data.get("key_bytes", 0) + data.get("value_bytes", 0)
    return number * (size + round(block * _OVER_A_BLOCK) + row) + _EMPTY_BYTES


def _caches_of(
    families: Sequence[Family], given: _Given, engine: EngineUse, logged: LoggedMemory
) -> MemoryTerm:
    """Return the block caches: as given, by the log, or by what the engine makes by itself."""
    base = families[0].profile
    if base.block_cache_bytes is not None:
        logs = logged.caches.get(families[0].name, {})
        return _at(_cache_term(base, given), logs.get("block_cache"))
    small = {f.name: sum(s.size_bytes for s in f.ssts) for f in families if f.name in engine.small}
    objects: dict[str, int] = {}
    for family in families:
        if cache := logged.caches.get(family.name):
            size, address = int(cache["capacity"]), cache["block_cache"]
            most = min(size, small.get(family.name, size))  # it can't hold more than there is
            objects[address] = max(most, objects.get(address, 0))
    if objects:
        return _cache(sum(objects.values()), logged.origin, given, objects=objects)
    own = profile_named(engine.profile or "kafka_streams")
    is_own = all(getattr(own, name) == getattr(base, name) for name in _OF_TABLES)
    if engine.profile is None or not is_own:
        return _cache_term(_with_unknown_cache(base), given)
    origin = f"inferred from {_origin_of(own)}: neither OPTIONS nor the writer's log tells of one"
    each = (own.block_cache_bytes or 0) + sum(small.values())
    return _cache(each, origin, given, is_inferred=True)


_OF_TABLES = ("block_size", "bloom_bits_per_key", "cache_index_and_filter_blocks")
"""An engine whose tables have other ones than its own is taken to have another cache, too."""


def _cache(each_bytes: int, origin: str, given: _Given, **more: Any) -> MemoryTerm:
    return _term("block cache", "block_cache_bytes", origin, each_bytes, given.instances, **more)


def _at(term: MemoryTerm, address: str | None) -> MemoryTerm:
    """Return a term of one object by the address that the log tells, which is surer than a name."""
    if not term.shared or address is None:
        return term
    return replace(term, objects={address: term.total_bytes or 0})


def _with_unknown_cache(profile: Profile) -> Profile:
    """Return a profile that says what tells of its cache, if nothing does."""
    if (before := profile.unknown.get("block_cache_bytes")) is None:
        return profile
    why = "{before}, nor does the writer's log tell of one: give {profile}"
    told = naming(why, before=before, profile=Option("profile", "..."))
    return profile.changed(unknown={"block_cache_bytes": told})


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


_DIFFERS = "it is not the same of all stores"
_MOST_TEXTS = 3


def plans_in_all(plans: Sequence[MemoryPlan], lost: Mapping[str, str] | None = None) -> MemoryPlan:
    """Return the memory that stores with these plans need together.

    What is one object in the writer's memory counts once, however many stores have it. ``lost``
    are stores without a plan, and why.
    """
    by_term: dict[str, list[MemoryTerm]] = {}
    for plan in plans:
        for term in plan.terms:
            by_term.setdefault(term.term, []).append(term)
    terms = [_term_in_all(each) for each in by_term.values()]
    unknown = {name: why for plan in plans for name, why in plan.unknown.items()}
    unknown = {name: why for name, why in unknown.items() if name not in {*by_term, "each_bytes"}}
    unknown |= {t.term: t.unknown["total_bytes"] for t in terms if t.total_bytes is None}
    unknown |= lost or {}
    each_bytes = _the_same(plan.each_bytes for plan in plans)
    if each_bytes is None:
        unknown["each_bytes"] = plans[0].unknown.get("each_bytes", _DIFFERS)
    return MemoryPlan(
        Records(terms, "terms"),
        instances=sum(plan.instances for plan in plans),
        each_bytes=each_bytes,
        total_bytes=sum(term.total_bytes or 0 for term in terms),
        is_bound=all(plan.is_bound for plan in plans) and all(each.shared for each in terms[:2]),
        is_strict=all(plan.is_strict for plan in plans),
        unknown=unknown,
    )


def _term_in_all(each: list[MemoryTerm]) -> MemoryTerm:
    users = Counter(address for term in each for address in term.objects)
    common = {address: number for address, number in users.items() if number > 1}
    objects = {name: size for term in each for name, size in term.objects.items()}
    once = sum(objects[address] for address in common)
    apart = known_total(_without(term, common) for term in each)
    total = None if apart is None else apart + once
    shared = all(term.shared for term in each) and len(objects) == 1
    whys = {name: why for term in each for name, why in term.unknown.items()}
    each_bytes = _the_same(term.each_bytes for term in each) if shared or not once else None
    if each_bytes is None:
        whys.setdefault("each_bytes", _DIFFERS)
    told = [
        f"{address} of {number} stores {'counts once' if objects[address] else 'may allow less'}"
        for address, number in common.items()
    ]
    return MemoryTerm(
        each[0].term,
        _texts([term.formula for term in each] + ([] if shared else told)),
        _texts(term.origin for term in each),
        each_bytes,
        1 if shared else sum(term.count for term in each),
        total,
        shared,
        source=each[0].source,
        parts=dict(sum((Counter(term.parts) for term in each), Counter[str]())),
        objects=objects,
        is_inferred=any(term.is_inferred for term in each),
        unknown=whys,
    )


def _without(term: MemoryTerm, common: Collection[str]) -> int | None:
    """Return what a store has for itself."""
    taken = sum(size for address, size in term.objects.items() if address in common)
    return None if term.total_bytes is None else term.total_bytes - taken * term.count


def _texts(texts: Iterable[str]) -> str:
    """Return some texts, each once; of many the first ones."""
    kinds = list(dict.fromkeys(texts))
    more = len(kinds) - _MOST_TEXTS
    return "; ".join(kinds[:_MOST_TEXTS] + ([f"{more:,} more"] if more > 0 else []))


def _the_same(values: Iterable[int | None]) -> int | None:
    """Return the one value that all are; None if they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


_STEPS = OF_BYTES | {"max_write_buffer_number": 1}
_LEAST = OF_BYTES | {"max_write_buffer_number": 2}


def smallest_change(plan: MemoryPlan, limit_bytes: int) -> MemoryChange | None:
    """Return what to set otherwise for a plan to fit a limit; None if it does, or nothing helps.

    If no single option does it, all instances share one cache. Terms that are unknown count as 0.

    >>> plan = plan_memory("kafka_streams", partitions=40, segments=3)
    >>> smallest_change(plan, 8 << 30)
    MemoryChange(block_cache_bytes 20.0 MiB in place of 50.0 MiB)
    >>> smallest_change(plan, 100 << 30) is None
    True
    """
    if plan.total_bytes <= limit_bytes or "profile" not in plan.given:
        return None
    changes = [found for name in _STEPS if (found := _change_of(name, plan, limit_bytes))]
    if changes:
        return max(changes, key=lambda each: each.after / (each.before or 1))
    try:
        bound = bounded_memory(limit_bytes, plan.instances)
    except ConfigurationError:
        return None
    total = plan.under(bound).total_bytes
    return MemoryChange(None, None, limit_bytes, total, bound) if total <= limit_bytes else None


def _change_of(option: str, plan: MemoryPlan, limit_bytes: int) -> MemoryChange | None:
    """Return the largest value of an option, by its step, under which a plan fits."""
    profile, step = plan.given["profile"], _STEPS[option]
    before = getattr(profile, option)

    def change(steps: int) -> MemoryChange:
        changed = profile.changed(**{option: steps * step})
        total = plan.under(changed).total_bytes
        return MemoryChange(option, before, steps * step, total, changed)

    tried = range(_LEAST[option] // step, (before or 0) // step + 1)
    fitting = bisect_right(tried, limit_bytes, key=lambda steps: change(steps).total_bytes)
    return change(tried[fitting - 1]) if fitting else None
