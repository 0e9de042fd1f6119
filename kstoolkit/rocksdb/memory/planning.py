"""How much memory the stores of a host need, term by term."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.rocksdb.memory.numbers import check_whole
from kstoolkit.rocksdb.memory.terms import (
    Given,
    MemoryTerm,
    cache_term,
    filter_term,
    index_term,
    memtable_term,
    pinned_term,
)
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.rocksdb.profiles.namedoptions import profile_names
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    import os


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
        told = super(MemoryPlan, self).to_dict()
        return {name: value for name, value in told.items() if name != "given"}

    def __str__(self) -> str:
        least = "at least " if self._lacking() else ""
        head = f"{least}{self._total()} for {counted(self.instances, 'RocksDB instances')}"
        return "\n".join([f"{head}{self._kind()}", *(f"  {term}" for term in self.terms)])

    def __repr__(self) -> str:
        told = [counted(self.instances, "instances"), self._total()]
        told += [f"a {'hard' if self.is_strict else 'soft'} bound"] if self.is_bound else []
        lacking = self._lacking()
        told += [f"without {', '.join(lacking)} (unknown)"] if lacking else []
        return f"MemoryPlan({', '.join(told)})"

    def _kind(self) -> str:
        if not self.is_bound:
            return ""
        if self.is_strict:
            return "; a bound, however many stores"
        return "; a soft bound, however many stores: blocks in use may go beyond it"

    def _lacking(self) -> list[str]:
        return [name for name in self.unknown if name != "each_bytes"]

    def _total(self) -> str:
        return f"{format_bytes(self.total_bytes)} ({format_count(self.total_bytes)} bytes)"

    def _repr_html_(self) -> str:
        figures = super(MemoryPlan, self)._repr_html_()
        return figures + self.terms._repr_html_()


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
    data = {
        "keys": keys,
        "key_bytes": key_bytes,
        "value_bytes": value_bytes,
        "iterators": iterators,
    }
    for name, size in (sizes | data).items():
        if size is not None:
            check_whole(name, size, least=0, hint=_SIZES)
    options = {name: value for name, value in sizes.items() if value is not None}
    base = profile_given(profile)
    given = Given(
        instances=partitions * segments * stores,
        column_families=column_families,
        base="RocksDB's own options" if profile is None else origin_of(base),
        origins=dict.fromkeys(options, str(Source.GIVEN)),
        **data,
    )
    planned = base.changed(**options) if options else base
    told = counts | data | {"column_families": column_families, "profile": planned}
    return replace(plan_of(planned, given), given=told)


def plan_of(profile: Profile, given: Given) -> MemoryPlan:
    """Return the terms for a profile, and their sum."""
    memory = [memtable_term(profile, given), cache_term(profile, given)]
    blocks = [index_term(profile, given), filter_term(profile, given)]
    in_cache = bool(profile.cache_index_and_filter_blocks)
    shared = all(term.count == 1 for term in memory) and bool(profile.block_cache_shared)
    is_bound = shared and in_cache and bool(profile.write_buffer_manager_bytes)
    terms = [*memory, *blocks, pinned_term(profile, given, is_bound=is_bound)]
    unknown = {term.term: term.unknown["total_bytes"] for term in terms if term.total_bytes is None}
    each = _each(memory)
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

    Raises
    ------
    InputError
        If it is neither the name of a profile nor a path with an OPTIONS file.
    """
    if profile is None:
        return Profile()
    if isinstance(profile, Profile):
        return profile
    if isinstance(profile, str) and profile in profile_names():
        return profile_named(profile)
    return Profile.from_options(profile)


def origin_of(profile: Profile) -> str:
    """Return where the options of a profile come from: its name, or the OPTIONS file it is of.

    Examples
    --------
    >>> origin_of(Profile(name="mine"))
    "profile 'mine'"
    """
    file = _FROM_FILE.fullmatch(profile.purpose)
    if file and not profile.name.endswith(", changed"):
        return f"{file[1]} of {profile.name!r}"
    return f"profile {profile.name or 'no name'!r}"


def _each(memory: list[MemoryTerm]) -> int | None:
    sizes = [term.each_bytes for term in memory if not term.shared]
    if len(sizes) < len(memory) or None in sizes:
        return None
    return sum(size or 0 for size in sizes)
