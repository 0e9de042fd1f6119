"""What a Spark application takes in memory, process by process, beside RocksDB's formula.

The driver's Java says what it takes, and the system what its process does; this Python and the
workers that Java started are measured; executors said what their peaks were, as far as the driver
was told; queries report what they keep as state with each micro-batch. The formula is that of
RocksDB, for the options that the session's settings give to Spark's state stores.

Which parts of Java lie inside others, :class:`JavaMemory` says. What none of them counts: threads'
stacks, the compiler's and the garbage collector's own tables, libraries, what the allocator keeps,
and what ``spark.memory.offHeap.enabled`` lets Spark take.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from kstoolkit.errors import ConfigurationError, EnvironmentFault, InputError
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.session import active_session, queries_beside
from kstoolkit.pipeline.sparkinside import context_in_java, java_has_ended, jvm_of
from kstoolkit.records import Figure, Record, Records, Source, of_source
from kstoolkit.rocksdb.memory.measured import ProcessMemory, process_memory
from kstoolkit.rocksdb.memory.planning import MemoryPlan, plan_memory
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.rocksdb.profiles.options import OPTIONS
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.rocksdb.profiles.profile import Profile

_ADDED = ("heap_committed_bytes", "non_heap_committed_bytes", "direct_bytes", "rocksdb_bytes")
_IN_DIRECT = "here netty takes its memory from direct buffers, and direct_bytes has it"


@dataclass(frozen=True, slots=True, repr=False)
class JavaMemory(Record):
    """The memory of the driver's Java: by its own account, and by the system's.

    Parameters
    ----------
    heap_used_bytes, heap_committed_bytes, heap_max_bytes
        Objects, garbage among them; what was asked of the system for them; what may be asked for.
    non_heap_used_bytes, non_heap_committed_bytes
        Classes and compiled code.
    direct_bytes
        Direct buffers that Java counts.
    netty_bytes
        Direct memory that netty takes by itself, for the network and Arrow, and keeps for the next.
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
    """Return the memory of a Java that Python speaks to, by ``spark.sparkContext._jvm``."""
    told = _java_figures(jvm)
    # After Arrow's part of it, which comes and goes.
    netty_bytes = jvm.io.netty.util.internal.PlatformDependent.usedDirectMemory()
    if netty_bytes < 0:  # it takes buffers that Java counts
        netty_bytes = None
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
    kind = jvm.java.lang.Class.forName("java.lang.management.BufferPoolMXBean")
    # ``direct``, and several of ``mapped`` files.
    pools = {pool.getName(): pool.getMemoryUsed() for pool in beans.getPlatformMXBeans(kind)}
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


_PROC = Path("/proc")
_NO_PROC = "this system has no /proc"
_PARENT = re.compile(r".*\) \S (\d+) ", re.DOTALL)
"""A process's parent, after the name of its program, in which anything may stand."""


@dataclass(frozen=True, slots=True, repr=False)
class WorkersMemory(Record):
    """The memory of Spark's Python workers.

    Parameters
    ----------
    num_workers
        How many there are: the daemon, its forks that run functions, and those that serve a Python
        source or a stateful operator.
    rss_bytes
        The sum of what each has in memory. Forks share most of that with their daemon, and it
        counts once a fork: a bound.
    pss_bytes
        The sum with shared pages divided among those who share them: what they take together.
    """

    num_workers: int | None = of_source(Source.SYSTEM)
    rss_bytes: int | None = of_source(Source.SYSTEM)
    pss_bytes: int | None = of_source(Source.SYSTEM)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        number = "unknown" if self.num_workers is None else self.num_workers
        rss, pss = format_bytes(self.rss_bytes), format_bytes(self.pss_bytes)
        return f"WorkersMemory({number}, RSS {rss}, PSS {pss})"


def _workers_memory(java_pid: int) -> WorkersMemory:
    """Return what the Python workers below a Java process, a driver's or an executor's, take."""
    pids = _python_workers(java_pid)
    if pids is None:
        names = ("num_workers", "rss_bytes", "pss_bytes")
        return WorkersMemory(None, None, None, dict.fromkeys(names, _NO_PROC))
    return _summed_memory(list(_measured(pids)))


def _summed_memory(processes: Sequence[ProcessMemory]) -> WorkersMemory:
    """Return what some processes take together; PSS if the system tells it of each."""
    rss_bytes = sum(each.rss_bytes or 0 for each in processes)
    hidden = next((each for each in processes if each.pss_bytes is None), None)
    if hidden is not None:
        why = f"of process {hidden.pid}: {hidden.unknown['pss_bytes']}"
        return WorkersMemory(len(processes), rss_bytes, None, {"pss_bytes": why})
    return WorkersMemory(len(processes), rss_bytes, sum(each.pss_bytes or 0 for each in processes))


def _python_workers(java_pid: int) -> list[int] | None:
    """Return the process ids of the Python workers below a Java; None if there is no ``/proc``.

    Java starts a daemon, which forks itself for each Python task that runs at once, and a Python of
    its own for each Python source and for each stateful operator.
    """
    if not (_PROC / "self").exists():
        return None
    children: dict[int, list[int]] = {}
    for path in _PROC.glob("[0-9]*/stat"):
        if found := _PARENT.match(_text(path)):
            children.setdefault(int(found[1]), []).append(int(path.parent.name))
    return [pid for pid in _below(java_pid, children) if _is_worker(pid)]


def _below(pid: int, children: Mapping[int, Sequence[int]]) -> Iterator[int]:
    for child in children.get(pid, ()):
        if child != os.getpid():  # spark-submit starts Java first, and the program below it
            yield child
            yield from _below(child, children)


def _is_worker(pid: int) -> bool:
    words = _text(_PROC / str(pid) / "cmdline").split("\0")
    modules = ("pyspark.", "kstoolkit.pipeline.workers")
    return any(flag == "-m" and name.startswith(modules) for flag, name in pairwise(words))


def _text(path: Path) -> str:
    """Return what a file of ``/proc`` says; nothing if its process has just ended."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""


def _measured(pids: Sequence[int]) -> Iterator[ProcessMemory]:
    for pid in pids:
        try:
            memory = process_memory(pid)
        except InputError:  # it has just ended
            continue
        if memory.rss_bytes is not None:
            yield memory


_METRICS = {
    "peak_heap_bytes": "JVMHeapMemory",
    "peak_non_heap_bytes": "JVMOffHeapMemory",
    "peak_direct_bytes": "DirectPoolMemory",
    "peak_mapped_bytes": "MappedPoolMemory",
}
_OF_PROCESSES = {
    "peak_java_rss_bytes": "ProcessTreeJVMRSSMemory",
    "peak_workers_rss_bytes": "ProcessTreePythonRSSMemory",
}
"""Where each figure stands among ``ExecutorMetricType`` of Spark 4.3."""

_NOT_TOLD = "it has told nothing yet: it does each spark.executor.heartbeatInterval"
_NOT_ASKED = "spark.executor.processTreeMetrics.enabled is not true"
_NOT_SEEN = "its system has no /proc, or no such process has run yet"


@dataclass(frozen=True, slots=True, repr=False)
class ExecutorMemory(Record):
    """The most that one executor has taken so far, by its own account.

    Parameters
    ----------
    executor, place
        Its number, and its host and port.
    peak_heap_bytes, peak_non_heap_bytes
        Used heap; classes and compiled code.
    peak_direct_bytes, peak_mapped_bytes
        Direct buffers that Java counts, which netty's and Arrow's are not; mapped files.
    peak_java_rss_bytes, peak_workers_rss_bytes
        What its Java, and its Python workers, have in memory, if
        ``spark.executor.processTreeMetrics.enabled`` is true. RocksDB lies inside the first.
        Workers are forks that share most of the second, where it counts once a fork.
    """

    executor: str
    place: str
    peak_heap_bytes: int | None = of_source(Source.METRICS)
    peak_non_heap_bytes: int | None = of_source(Source.METRICS)
    peak_direct_bytes: int | None = of_source(Source.METRICS)
    peak_mapped_bytes: int | None = of_source(Source.METRICS)
    peak_java_rss_bytes: int | None = of_source(Source.METRICS)
    peak_workers_rss_bytes: int | None = of_source(Source.METRICS)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        heap, rss = format_bytes(self.peak_heap_bytes), format_bytes(self.peak_java_rss_bytes)
        return (
            f"ExecutorMemory({self.executor!r} at {self.place}, peak heap {heap}, peak RSS {rss})"
        )


def _executors_memory(session: SparkSession) -> Records[ExecutorMemory]:
    """Return what each executor that is up said; the driver, which is one if local, left out.

    Spark tells peaks since an executor started, not what it takes now, its web page on or off.
    """
    context: Any = session.sparkContext
    asked = context.getConf().get("spark.executor.processTreeMetrics.enabled", "false") == "true"
    java, jvm = cast("Any", (context_in_java(session), jvm_of(session)))
    listed = java.statusStore().executorList(True)  # noqa: FBT003 - active ones
    up = jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed)
    told = [_executor_figures(each, asked=asked) for each in up if each.id() != "driver"]
    return Records(told, "executors")


def _executor_figures(summary: Any, *, asked: bool) -> ExecutorMemory:
    peaks = summary.peakMemoryMetrics()
    values: dict[str, int | None] = dict.fromkeys(_METRICS | _OF_PROCESSES)
    whys = dict.fromkeys(values, _NOT_TOLD)
    if peaks.isDefined():
        metric = peaks.get().getMetricValue
        values |= {name: metric(key) for name, key in _METRICS.items()}
        # Spark says 0 of what it was not asked for, or can't know.
        values |= {name: metric(key) or None for name, key in _OF_PROCESSES.items()}
        whys |= dict.fromkeys(_OF_PROCESSES, _NOT_SEEN)
    if not asked:
        whys |= dict.fromkeys(_OF_PROCESSES, _NOT_ASKED)
    unknown = {name: whys[name] for name, value in values.items() if value is None}
    return ExecutorMemory(summary.id(), summary.hostPort(), **values, unknown=unknown)


_PINNED = "rocksdbPinnedBlocksMemoryUsage"
_NO_QUERY = "no streaming query is running"


@dataclass(frozen=True, slots=True, repr=False)
class QueryState(Record):
    """The state of some queries, over all their operators, and over all executors.

    Parameters
    ----------
    queries
        The queries, by name or id.
    num_stores
        RocksDB state stores: for each operator one a partition, joins several.
    rocksdb_bytes
        RocksDB's native part by Spark's estimate, as the stores stood at the end of the last
        micro-batch (``memoryUsedBytes``): memtables, block caches and table readers of each. With
        ``boundedMemoryUsage`` each store reports its share of the cache that all have; memtables
        lie in that cache, and are counted in it and beside it.
    rocksdb_pinned_bytes
        What of the block caches is in use and can't be evicted: a part of ``rocksdb_bytes``.
    heap_bytes
        State in Java's heap, by Spark's estimate: of operators that keep it there rather than in
        RocksDB. Inside the heap, and never added to it.
    """

    queries: tuple[str, ...]
    num_stores: int | None = of_source(Source.METRICS)
    rocksdb_bytes: int | None = of_source(Source.METRICS)
    rocksdb_pinned_bytes: int | None = of_source(Source.METRICS)
    heap_bytes: int | None = of_source(Source.METRICS)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"QueryState({', '.join(self.queries) or 'no queries'}; "
            f"{format_count(self.num_stores)} RocksDB stores, {format_bytes(self.rocksdb_bytes)})"
        )


def _query_state(progress: Mapping[str, Mapping[str, Any] | None]) -> QueryState:
    """Return what the last micro-batches reported of state: ``query.lastProgress`` by query."""
    names = tuple(progress)
    waiting = [name for name, told in progress.items() if told is None]
    if waiting or not names:
        why = f"query {waiting[0]!r} has not finished a micro-batch yet" if waiting else _NO_QUERY
        figures = ("num_stores", "rocksdb_bytes", "rocksdb_pinned_bytes", "heap_bytes")
        return QueryState(names, None, None, None, None, dict.fromkeys(figures, why))
    operators = [each for told in progress.values() for each in (told or {})["stateOperators"]]
    in_rocksdb = [each for each in operators if _PINNED in each["customMetrics"]]
    on_heap = [each for each in operators if _PINNED not in each["customMetrics"]]
    return QueryState(
        names,
        num_stores=sum(each["numStateStoreInstances"] for each in in_rocksdb),
        rocksdb_bytes=sum(each["memoryUsedBytes"] for each in in_rocksdb),
        rocksdb_pinned_bytes=sum(each["customMetrics"][_PINNED] for each in in_rocksdb),
        heap_bytes=sum(each["memoryUsedBytes"] for each in on_heap),
    )


_PREFIX = "spark.sql.streaming.stateStore.rocksdb."
_SIZES = ("write_buffer_size", "max_write_buffer_number", "block_cache_bytes", "block_size")
"""The options that bear on memory, and that Spark has a key for."""


def profile_of_settings(settings: Mapping[str, str]) -> Profile:
    """Return the profile that Spark's state stores have under some settings.

    What these leave open is as Spark has it. Other keys may be there too; upper and lower case make
    no difference in keys, as with Spark. A value that makes no sense is a ConfigurationError.
    Source of keys, defaults and what ``boundedMemoryUsage`` sets: ``RocksDBConf``,
    ``RocksDBMemoryManager`` and ``RocksDB`` of Spark 4.3.

    >>> key = "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"
    >>> profile = profile_of_settings({key: "true"})
    >>> profile.block_cache_bytes >> 20, profile.write_buffer_manager_bytes >> 20
    (500, 250)
    """
    given = {key.lower(): value for key, value in settings.items()}
    options: dict[str, Any] = {
        name: int(size) * unit
        for name in _SIZES
        for key, unit in [OPTIONS[name].spark]
        if (size := _number(given, key, default=-1)) >= 0  # -1: as RocksDB or Spark has it
    }
    if _value(given, "boundedMemoryUsage", "false").lower() == "true":
        cache_bytes = int(_number(given, "maxMemoryUsageMB", default=500)) << 20
        memtables = _number(given, "writeBufferCacheRatio", default=0.5)
        options |= {  # one cache for all stores of a Java
            "block_cache_bytes": cache_bytes,
            "block_cache_shared": True,
            "high_pri_pool_ratio": _number(given, "highPriorityPoolRatio", default=0.1),
            "write_buffer_manager_bytes": int(cache_bytes * memtables),
            "write_buffer_manager_in_cache": True,
            "cache_index_and_filter_blocks": True,
            "pin_l0_filter_and_index_blocks_in_cache": True,
        }
    return profile_named("spark").changed(name="spark, as the session sets it", **options)


def _number(given: Mapping[str, str], key: str, *, default: float) -> float:
    value = _value(given, key, str(default))
    try:
        return float(value)
    except ValueError as error:
        message = f"{_PREFIX}{key} is {value!r}, which is no number."
        raise ConfigurationError(message, hint="Spark refuses it too: set one.") from error


def _value(given: Mapping[str, str], key: str, default: str) -> str:
    return given.get(f"{_PREFIX}{key}".lower(), default)


def session_with_java(spark: SparkSession | None = None) -> SparkSession:
    """Return a session that has a Java, and one that runs: the given one, or the active one.

    None, stopped, or of Spark Connect is a ConfigurationError; an ended Java, an EnvironmentFault.
    """
    if java_has_ended():
        message = "Spark's Java has ended."
        raise EnvironmentFault(message, hint="Start another session; the usual cause is memory.")
    session = active_session() if spark is None else spark
    if session is None:
        message = "There is no Spark session in this process."
        raise ConfigurationError(message, hint="Start one, or give the one that you have.")
    if type(session).__module__.startswith("pyspark.sql.connect"):
        message = "A Spark Connect session has no Java on this side whose memory could be read."
        raise ConfigurationError(message, hint="Ask in the process that its server runs in.")
    if jvm_of(session) is None or context_in_java(session) is None:
        message = "This Spark session has been stopped, or shows nothing of its Java."
        raise ConfigurationError(message, hint="Start another one.")
    return session


_MAIN_TERMS = ("memtables", "block cache")
_NO_STORES = "these queries keep no state in RocksDB"


@dataclass(frozen=True, slots=True, repr=False)
class SparkMemory(Record):
    """What each of Spark's processes on this machine takes, and what its state stores may take.

    Each part is a record of its own, whose docstring says what is measured, what is Spark's
    estimate, and what lies inside what.

    Parameters
    ----------
    java
        The driver's Java; if Spark runs locally, all stores are in it.
    state
        What the queries reported of their state, at the end of their last micro-batch: if Spark
        runs locally, memory that ``java`` has too, at another moment. Never add the two.
    python
        This process.
    workers
        The Python workers that the driver's Java started.
    executors
        What executors in processes of their own said; none if Spark runs locally.
    python_arrow_bytes
        What Arrow has in its pool in this process: inside ``python``. Those of the workers are
        inside ``workers``, and known to nobody else.
    total_pss_bytes
        What ``java``, ``python`` and ``workers`` take together.
    formula_bytes
        What RocksDB needs at most for the stores that the queries reported: ``plan``, with what
        the stores of a Java share once for each executor.
    plan
        The formula's terms; None without stores.
    """

    application: str
    java: JavaMemory
    state: QueryState
    python: ProcessMemory
    workers: WorkersMemory
    executors: Records[ExecutorMemory]
    python_arrow_bytes: int = of_source(Source.OPENER)
    total_pss_bytes: int | None = of_source(Source.SYSTEM)
    formula_bytes: int | None = of_source(Source.FORMULA)
    plan: MemoryPlan | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def not_accounted_for_bytes(self) -> int | None:
        """What the driver's Java has in memory and none of its parts counts."""
        return self.java.not_accounted_for_bytes

    def figures(self) -> list[Figure]:
        """Return the figures of all parts, named as they are reached: ``java.heap_used_bytes``."""
        inside = [
            Figure(f"{part}.{each.name}", each.value, each.source, each.why_unknown)
            for part in ("java", "state", "python", "workers")
            for each in getattr(self, part).figures()
        ]
        return [*inside, *super(SparkMemory, self).figures()]

    def __repr__(self) -> str:
        return (
            f"SparkMemory({self.application!r}, Java {format_bytes(self.java.rss_bytes)} "
            f"(not accounted for {format_bytes(self.not_accounted_for_bytes)}), "
            f"Python {format_bytes(self.python.rss_bytes)}, "
            f"workers {format_bytes(self.workers.pss_bytes)}, "
            f"RocksDB {format_bytes(self.state.rocksdb_bytes)} by Spark's estimate, "
            f"{format_bytes(self.formula_bytes)} by the formula)"
        )

    def _repr_html_(self) -> str:
        html = super(SparkMemory, self)._repr_html_()
        html += self.plan._repr_html_() if self.plan is not None else ""
        return html + (self.executors._repr_html_() if self.executors else "")


def spark_memory(
    spark: SparkSession | None = None,
    *,
    query: StreamingQuery | Run | None = None,
    profile: Profile | str | os.PathLike[str] | None = None,
) -> SparkMemory:
    """Return what a Spark application takes in memory now, and what its state stores may take.

    Parameters
    ----------
    spark
        The session; None: the active one.
    query
        Whose state: a streaming query or a live run; None: all the session's, and all runs in its
        Spark.
    profile
        What state stores are opened with, as :func:`~kstoolkit.plan_memory` takes it; None: Spark's
        options, with the session's present settings. A query keeps those it was started with.

    Raises
    ------
    ConfigurationError
        If there is no session, or none with a Java on this side, or the run has no query.
    EnvironmentFault
        If Spark's Java has ended.

    Examples
    --------
    >>> from kstoolkit.pipeline.session import spark_session
    >>> memory = spark_memory(spark_session("local[2]"))
    >>> memory.java.heap_used_bytes <= memory.java.heap_committed_bytes
    True
    >>> memory.state.unknown["num_stores"]
    'no streaming query is running'
    """
    session = session_with_java(spark)
    state = _query_state(_progress(session, query))
    plan = None
    if state.num_stores:
        opened_with = profile_of_settings(session.conf.getAll) if profile is None else profile
        plan = plan_memory(opened_with, partitions=state.num_stores)
    java, python = java_memory(jvm_of(session)), process_memory()
    workers, executors = _workers_memory(java.pid), _executors_memory(session)
    formula_bytes, no_formula = _formula(plan, state, len(executors))
    total_bytes, no_total = _together(java, python, workers)
    whys = {"formula_bytes": no_formula, "total_pss_bytes": no_total}
    return SparkMemory(
        str(session.sparkContext.appName),
        *(java, state, python, workers, executors),
        python_arrow_bytes=pa.total_allocated_bytes(),
        total_pss_bytes=total_bytes,
        formula_bytes=formula_bytes,
        plan=plan,
        unknown={figure: why for figure, why in whys.items() if why},
    )


def _progress(session: SparkSession, query: StreamingQuery | Run | None) -> dict[str, Any]:
    """Return what each query reported last, by its name or id."""
    if isinstance(query, Run):
        if query.query is None:
            message = f"{query!r} is not live: it has no streaming query."
            raise ConfigurationError(message, hint="Give what Pipeline.start() returned.")
        query = query.query
    queries = queries_beside(session) if query is None else [query]
    names = [each.name for each in queries]
    return {
        name if name and names.count(name) == 1 else str(each.id): each.lastProgress
        for name, each in zip(names, queries, strict=True)
    }


def _formula(
    plan: MemoryPlan | None, state: QueryState, executors: int
) -> tuple[int | None, str | None]:
    """Return the formula's sum for all executors, or why there is none."""
    if plan is None:
        return None, state.unknown.get("num_stores", _NO_STORES)
    lacking = [f"{term}: {plan.unknown[term]}" for term in _MAIN_TERMS if term in plan.unknown]
    if lacking:
        return None, "; ".join(lacking)
    javas = max(1, executors)
    return sum((term.total_bytes or 0) * (javas if term.shared else 1) for term in plan.terms), None


def _together(*parts: JavaMemory | ProcessMemory | WorkersMemory) -> tuple[int | None, str | None]:
    """Return the sum of what may be added up, or why it can't be."""
    why = next((part.unknown["pss_bytes"] for part in parts if part.pss_bytes is None), None)
    return (None, why) if why else (sum(part.pss_bytes or 0 for part in parts), None)
