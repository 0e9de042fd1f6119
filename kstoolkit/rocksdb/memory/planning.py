"""How much memory the stores of a host need, term by term."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.memory.terms import (
    Given,
    MemoryTerm,
    cache_term,
    filter_term,
    index_term,
    memtable_term,
    pinned_term,
)
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.rocksdb.records import Record, Records, Source, of_source
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    import os

__all__ = ["MemoryPlan", "plan_memory"]


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
    unknown
        For each term that is no part of the sum: why.
    """

    terms: Records[MemoryTerm]
    instances: int = of_source(Source.FORMULA)
    each_bytes: int | None = of_source(Source.FORMULA)
    total_bytes: int = of_source(Source.FORMULA)
    is_bound: bool = of_source(Source.FORMULA)
    unknown: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        least = "at least " if self._lacking() else ""
        stores = "instance" if self.instances == 1 else "instances"
        head = f"{least}{self._total()} for {format_count(self.instances)} RocksDB {stores}"
        kind = "; a bound, however many stores" if self.is_bound else ""
        return "\n".join([f"{head}{kind}", *(f"  {term}" for term in self.terms)])

    def __repr__(self) -> str:
        told = [f"{format_count(self.instances)} instances", self._total()]
        told += ["a bound"] if self.is_bound else []
        lacking = self._lacking()
        told += [f"without {', '.join(lacking)} (unknown)"] if lacking else []
        return f"MemoryPlan({', '.join(told)})"

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
    counts = {
        "partitions": partitions,
        "segments": segments,
        "stores": stores,
        "column_families": column_families,
    }
    _check_counts(counts)
    sizes = {
        "write_buffer_size": memtable_bytes,
        "max_write_buffer_number": memtables,
        "block_cache_bytes": block_cache_bytes,
    }
    given = {name: value for name, value in sizes.items() if value is not None}
    base = _profile(profile)
    data = Given(
        instances=partitions * segments * stores,
        column_families=column_families,
        names=frozenset(given),
        base=None if profile is None else base.name or "no name",
        keys=keys,
        key_bytes=key_bytes,
        value_bytes=value_bytes,
        iterators=iterators,
    )
    return _plan(base.changed(**given) if given else base, data)


def _plan(profile: Profile, given: Given) -> MemoryPlan:
    memory = [memtable_term(profile, given), cache_term(profile, given)]
    blocks = [index_term(profile, given), filter_term(profile, given)]
    terms = [*memory, *blocks, pinned_term(profile, given)]
    unknown = {term.term: term.unknown["total_bytes"] for term in terms if term.total_bytes is None}
    each = _each(memory)
    if each is None:
        unknown["each_bytes"] = "instances share it, or a term of it is unknown"
    in_cache = bool(profile.cache_index_and_filter_blocks)
    shared = all(term.count == 1 for term in memory) and bool(profile.block_cache_shared)
    return MemoryPlan(
        Records(terms, "terms"),
        instances=given.instances,
        each_bytes=each,
        total_bytes=sum(term.total_bytes or 0 for term in terms),
        is_bound=shared and in_cache and bool(profile.write_buffer_manager_bytes),
        unknown=unknown,
    )


def _each(memory: list[MemoryTerm]) -> int | None:
    sizes = [term.each_bytes for term in memory if not term.shared]
    if len(sizes) < len(memory) or None in sizes:
        return None
    return sum(size or 0 for size in sizes)


def _profile(profile: Profile | str | os.PathLike[str] | None) -> Profile:
    if profile is None:
        return Profile()
    if isinstance(profile, Profile):
        return profile
    if isinstance(profile, str) and profile in profile_names():
        return profile_named(profile)
    return Profile.from_options(profile)


def _check_counts(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        if count < 1:
            message = f"{name} is {count}."
            raise ConfigurationError(message, hint="Give how many are open at once: 1 or more.")
