"""What Spark's Java says of its own memory, beside what the system says of its process.

The parts, and which of them lie inside others:

========================  =======================================================================
heap, non-heap            measured; committed is what Java asked the system for, used lies inside
direct buffers            measured; those that Java itself gives out
netty's memory            measured; taken past Java's own count, by netty's. Arrow's lies inside it
RocksDB                   Spark's account: what each store that is open in this Java told last
mapped files              measured, but not how much of it is in memory: part of no sum
========================  =======================================================================

What none of them counts: threads' stacks, the compiler's and the garbage collector's own tables,
libraries, what the allocator keeps, and what ``spark.memory.offHeap.enabled`` lets Spark take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kstoolkit.records import Record, Source, of_source
from kstoolkit.rocksdb.memory.measured import process_memory
from kstoolkit.units import format_bytes

_ADDED = ("heap_committed_bytes", "non_heap_committed_bytes", "direct_bytes", "rocksdb_bytes")
_IN_DIRECT = "here netty takes its memory from direct buffers, and direct_bytes has it"


@dataclass(frozen=True, slots=True, repr=False)
class JavaMemory(Record):
    """The memory of the driver's Java: by its own account, and by the system's.

    Parameters
    ----------
    pid
        Its process.
    heap_used_bytes, heap_committed_bytes, heap_max_bytes
        Objects, garbage among them; what was asked of the system for them; what may be asked for.
    non_heap_used_bytes, non_heap_committed_bytes
        Classes and compiled code.
    direct_bytes
        Direct buffers that Java counts.
    netty_bytes
        Direct memory that netty takes by itself, for the network and for Arrow, and keeps for the
        next who wants it.
    arrow_bytes
        What Arrow has of it: inside ``netty_bytes``, and never added to it.
    mapped_bytes
        Files mapped into memory: their size, of which any part may be in memory. In no sum.
    rocksdb_bytes
        RocksDB's native part by Spark's own account: memtables, block caches and table readers of
        the stores open in this Java, whichever query's, as each told last (while it is used, once
        in ``spark.sql.streaming.stateStore.rocksdb.memoryUpdateIntervalMs``). A cache that all
        share (``boundedMemoryUsage``) counts once; but memtables lie in that cache, and those of
        one store are then counted in it and beside it. On a cluster stores are open in executors.
    total_bytes
        The sum: committed heap and non-heap, direct buffers, netty's memory, RocksDB.
    rss_bytes, pss_bytes
        All that the process has in memory; see
        :class:`~kstoolkit.rocksdb.memory.measured.ProcessMemory`.
    not_accounted_for_bytes
        ``rss_bytes`` less ``total_bytes``; what it may be stands at the head of the module. Below 0
        if more was asked of the system for the heap than has been touched yet.
    unknown
        Why a figure is unknown, by its name.
    """

    pid: int
    heap_used_bytes: int = of_source(Source.METRICS)
    heap_committed_bytes: int = of_source(Source.METRICS)
    heap_max_bytes: int = of_source(Source.METRICS)
    non_heap_used_bytes: int = of_source(Source.METRICS)
    non_heap_committed_bytes: int = of_source(Source.METRICS)
    direct_bytes: int = of_source(Source.METRICS)
    netty_bytes: int | None = of_source(Source.METRICS)
    arrow_bytes: int = of_source(Source.METRICS)
    mapped_bytes: int = of_source(Source.METRICS)
    rocksdb_bytes: int = of_source(Source.METRICS)
    total_bytes: int = of_source(Source.METRICS)
    rss_bytes: int | None = of_source(Source.SYSTEM)
    pss_bytes: int | None = of_source(Source.SYSTEM)
    not_accounted_for_bytes: int | None = of_source(Source.SYSTEM)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"JavaMemory({self.pid}, RSS {format_bytes(self.rss_bytes)}, "
            f"heap {format_bytes(self.heap_used_bytes)} "
            f"of {format_bytes(self.heap_committed_bytes)}, "
            f"RocksDB {format_bytes(self.rocksdb_bytes)}, "
            f"not accounted for {format_bytes(self.not_accounted_for_bytes)})"
        )


def java_memory(jvm: Any) -> JavaMemory:
    """Return the memory of a Java that Python speaks to.

    Parameters
    ----------
    jvm
        The way into it: ``spark.sparkContext._jvm``.

    Raises
    ------
    py4j.protocol.Py4JError
        If Java has ended.
    """
    told = _java_figures(jvm)
    netty_bytes = _netty_bytes(jvm)  # after Arrow's part of it, which comes and goes
    total = sum(told[name] for name in _ADDED) + (netty_bytes or 0)
    process = process_memory(jvm.java.lang.ProcessHandle.current().pid())
    unknown = dict(process.unknown)
    if process.rss_bytes is None:
        unknown["not_accounted_for_bytes"] = unknown["rss_bytes"]
    if netty_bytes is None:
        unknown["netty_bytes"] = _IN_DIRECT
    return JavaMemory(
        pid=int(process.pid),
        **told,
        netty_bytes=netty_bytes,
        total_bytes=total,
        rss_bytes=process.rss_bytes,
        pss_bytes=process.pss_bytes,
        not_accounted_for_bytes=None if process.rss_bytes is None else process.rss_bytes - total,
        unknown=unknown,
    )


def _java_figures(jvm: Any) -> dict[str, int]:
    """Return each figure that Java and Spark have in it; what belongs together at one moment."""
    beans = jvm.java.lang.management.ManagementFactory
    memory = beans.getMemoryMXBean()
    heap, other = memory.getHeapMemoryUsage(), memory.getNonHeapMemoryUsage()
    pools = _buffer_pools(jvm, beans)
    sql = jvm.org.apache.spark.sql
    return {
        "heap_used_bytes": heap.getUsed(),
        "heap_committed_bytes": heap.getCommitted(),
        "heap_max_bytes": heap.getMax(),
        "non_heap_used_bytes": other.getUsed(),
        "non_heap_committed_bytes": other.getCommitted(),
        "direct_bytes": pools.get("direct", 0),
        "mapped_bytes": sum(size for name, size in pools.items() if name.startswith("mapped")),
        "rocksdb_bytes": sql.execution.streaming.state.RocksDBMemoryManager.getMemBytesUsed(),
        "arrow_bytes": sql.util.ArrowUtils.rootAllocator().getAllocatedMemory(),
    }


def _buffer_pools(jvm: Any, beans: Any) -> dict[str, int]:
    """Return the sizes of Java's pools of buffers: ``direct``, and several of ``mapped`` files."""
    kind = jvm.java.lang.Class.forName("java.lang.management.BufferPoolMXBean")
    return {pool.getName(): pool.getMemoryUsed() for pool in beans.getPlatformMXBeans(kind)}


def _netty_bytes(jvm: Any) -> int | None:
    """Return what netty counts of its own; it says -1 if it takes buffers that Java counts."""
    size: int = jvm.io.netty.util.internal.PlatformDependent.usedDirectMemory()
    return None if size < 0 else size
