"""What fits a limit of memory: of a pod beside Java, and by the change of one option.

Of the options that memory grows with, the one counts as changed least that keeps the largest part
of its value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Record, Source, counted, of_source
from kstoolkit.rocksdb.profiles.named import bounded_memory
from kstoolkit.units import format_bytes, format_count, parse_bytes

if TYPE_CHECKING:
    from kstoolkit.rocksdb.profiles.profile import Profile

_NEEDED = "needed_bytes"
_JAVA: dict[str, int] = {
    "code cache": 240 << 20,
    "metaspace": 128 << 20,
    "thread stacks": 64 << 20,
    "direct buffers": 50 << 20,
}
_GC_SHARE = 16
_ALLOCATOR_SHARE = 5


@dataclass(frozen=True, slots=True, repr=False)
class PodMemory(Record):
    """What a pod has for RocksDB beside Java, and the bound that fits.

    Java takes beside its heap, as a ceiling: 240 MiB of code (``ReservedCodeCacheSize``, its
    default), 128 MiB of metaspace (20,000 classes of 5,800 bytes, and 14 MB: Cloud Foundry's
    java-buildpack-memory-calculator), 64 stacks of 1 MiB (``ThreadStackSize``), 50 MiB of direct
    buffers (``fetch.max.bytes``, which a response is read through), and a sixteenth of the heap for
    the garbage collector (G1 of JDK 17 by native memory tracking: 118 MiB for 2 GiB). None but the
    first is bounded by Java itself. A fifth of what is left is kept for what the allocator doesn't
    give back and blocks in use beyond the cache: a rule of thumb; with glibc it can be more.

    Parameters
    ----------
    java_bytes, java
        What Java may take beside its heap, and of what.
    left_bytes
        What is left for RocksDB and its allocator.
    bound_bytes
        The size of the one cache that fits: see :attr:`profile`.
    needed_bytes, instances
        What that many RocksDB take at most as they are configured now.
    """

    pod_bytes: int = of_source(Source.GIVEN)
    heap_bytes: int = of_source(Source.GIVEN)
    java_bytes: int = of_source(Source.FORMULA)
    left_bytes: int = of_source(Source.FORMULA)
    bound_bytes: int = of_source(Source.FORMULA)
    needed_bytes: int | None = of_source(Source.FORMULA)
    instances: int = of_source(Source.FORMULA)
    java: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def profile(self) -> Profile:
        """The options under which all instances together stay near the bound."""
        return bounded_memory(self.bound_bytes, self.instances)

    def __str__(self) -> str:
        java = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.java.items())
        pod, heap, beside = map(format_bytes, (self.pod_bytes, self.heap_bytes, self.java_bytes))
        left, bound = format_bytes(self.left_bytes), format_bytes(self.bound_bytes)
        lines = [
            f"The pod has {pod}; {heap} are Java's heap; beside it Java may take {beside}: {java}",
            f"Left for RocksDB: {left}; a bound of {bound} fits: the rest is the allocator's",
        ]
        needed = self.needed_bytes
        told = f"As it is configured, RocksDB takes at most {format_bytes(needed)}: "
        if needed is None:
            told = f"What RocksDB takes as it is configured is unknown ({self.unknown[_NEEDED]})"
        elif needed <= self.bound_bytes:
            told += "that fits, but for what iterators pin"
        else:
            told += f"{format_bytes(needed - self.bound_bytes)} too much"
        return "\n".join([*lines, told])

    def __repr__(self) -> str:
        bound, pod = format_bytes(self.bound_bytes), format_bytes(self.pod_bytes)
        return f"PodMemory({bound} of {pod} for {counted(self.instances, 'RocksDB instances')})"


def pod_memory(
    needed: int | str, instances: int, pod: str | int, heap: str | int, *, reserve: str | int | None
) -> PodMemory:
    """Return what a pod has for so many RocksDB: what they need, or why that is unknown."""
    limit, xmx = parse_bytes(pod), parse_bytes(heap)
    java = _JAVA | {"garbage collector": xmx // _GC_SHARE}
    if reserve is not None:
        java = {str(Source.GIVEN): parse_bytes(reserve)}
    beside = sum(java.values())
    left = limit - xmx - beside
    bound = (left - left // _ALLOCATOR_SHARE) >> 20 << 20
    if bound <= 0:
        of_java = f"{format_bytes(xmx)} of heap and {format_bytes(beside)} of Java beside it"
        message = f"A pod of {format_bytes(limit)} has nothing left for RocksDB: {of_java}."
        raise ConfigurationError(message, hint="Give the pod more, or Java a smaller heap.")
    bounded_memory(bound, instances)  # refuses what is too little for so many
    whys = {_NEEDED: needed} if isinstance(needed, str) else {}
    known = None if isinstance(needed, str) else needed
    return PodMemory(limit, xmx, beside, left, bound, known, instances, java=java, unknown=whys)


OF_BYTES = {"write_buffer_size": 1 << 20, "block_cache_bytes": 1 << 20}
"""Options of memory that are sizes, and the steps in which they are changed."""


@dataclass(frozen=True, slots=True, repr=False)
class MemoryChange(Record):
    """The options that make a plan fit a limit, and what it comes to then.

    ``option`` is the one that is changed, ``before`` and ``after`` are its values; of a bound for
    all instances together it is None, and ``after`` is the size of their one cache.
    """

    option: str | None
    before: int | None = of_source(Source.GIVEN)
    after: int = of_source(Source.FORMULA)
    total_bytes: int = of_source(Source.FORMULA)
    profile: Profile | None = None

    def __str__(self) -> str:
        if self.option is None:
            size = format_bytes(self.after)
            return f"one cache of {size} for all instances, which pays for their memtables too"
        of_bytes = self.option in OF_BYTES
        values = (self.before or 0, self.after)
        before, after = (format_bytes(n) if of_bytes else format_count(n) for n in values)
        return f"{self.option} {after} in place of {before}"

    def __repr__(self) -> str:
        return f"MemoryChange({self})"
