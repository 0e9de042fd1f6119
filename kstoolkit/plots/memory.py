"""Where memory goes: by the formula, as measured of stores, and in a Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import (
    captioned,
    few_of,
    height,
    in_bytes,
    listed,
    new_axes,
    say,
    shown,
    wrapped,
)
from kstoolkit.plots.marks import REST, UNKNOWN, Bar, BarPart, draw_bars, name_rows, part_of
from kstoolkit.plots.palette import INK, LINES
from kstoolkit.records import counted
from kstoolkit.rocksdb.files.ssts import known_total
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from kstoolkit.operations.checkup import Checkup
    from kstoolkit.operations.sparkmemory import (
        ExecutorMemory,
        JavaMemory,
        QueryState,
        SparkMemory,
        WorkersMemory,
    )
    from kstoolkit.records import Records
    from kstoolkit.rocksdb.memory.measured import MemoryParts, ProcessMemory
    from kstoolkit.rocksdb.memory.planning import MemoryPlan, MemoryTerm


def plot_memory(plan: MemoryPlan, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what the formula says stores need.

    >>> from kstoolkit.rocksdb.memory.planning import plan_memory
    >>> ax = plot_memory(plan_memory("spark", partitions=4))
    >>> print(ax.get_title(loc="left"))
    RocksDB needs at least 544.0 MiB for 4 instances, most of it for memtables:
    512.0 MiB
    """
    return draw_bars(ax, [_bar_of(plan)], _needs(plan), _inside(plan))


def plot_measured(parts: MemoryParts, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what a store takes in this process, beside what the formula says."""
    used, room = parts.block_cache_usage_bytes, parts.block_cache_capacity_bytes
    caches = counted(parts.num_block_caches, "block caches")
    notes = [f"{caches}: {format_bytes(used)} used of {format_bytes(room)}"]
    notes += ["memtables: inside the block cache"] * parts.memtables_in_cache
    bars, said = [bar_of_measured([parts])], ""
    if parts.plan is not None:
        bars, notes = [_bar_of(parts.plan), *bars], [*_inside(parts.plan), *notes]
        said = f"{_needs(parts.plan)}; "
    said += f"{format_bytes(parts.total_bytes)} measured in this process"
    return draw_bars(ax, bars, said, notes)


def plot_terms(terms: Records[MemoryTerm], *, ax: Axes | None = None) -> Axes:
    """Return a plot of the formula's terms, a bar each.

    >>> from kstoolkit.rocksdb.memory.planning import plan_memory
    >>> ax = plot_terms(plan_memory("spark").terms)
    >>> [label.get_text() for label in ax.get_yticklabels()][:2]
    ['memtables', 'block cache']
    """
    bars = [
        Bar(term.term, (part_of(term, "total_bytes", term.term),), _times(term)) for term in terms
    ]
    total = sum(term.total_bytes or 0 for term in terms)
    return draw_bars(ax, bars, f"The formula's terms come to {format_bytes(total)}", [])


def plot_process(process: ProcessMemory, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what a process has in memory: its share, and what others are counted for."""
    rss, pss = process.rss_bytes, process.pss_bytes
    parts = [part_of(process, "pss_bytes", "its share (PSS)")]
    if rss is not None and pss is not None:
        parts.append(BarPart("others' share of pages (RSS)", rss - pss))
    who = "This process" if process.pid == "self" else f"Process {process.pid}"
    said = f"{who} has {format_bytes(rss)} in memory, {format_bytes(pss)} by its share"
    return draw_bars(ax, [Bar(who, tuple(parts))], said)


def _bar_of(plan: MemoryPlan) -> Bar:
    return Bar("formula", tuple(part_of(term, "total_bytes", term.term) for term in plan.terms))


def _times(term: MemoryTerm) -> str:
    if not term.total_bytes:
        return f", {term.formula}" if term.total_bytes == 0 else ""
    if term.shared:
        return ", shared by all"
    return f" = {term.count:,} x {format_bytes(term.each_bytes)}"


def _needs(plan: MemoryPlan) -> str:
    bound = "most" if plan.is_ceiling else "least"
    told = f"RocksDB needs at {bound} {format_bytes(plan.total_bytes)}"
    told += f" for {counted(plan.instances, 'instances')}"
    if plan.is_bound:
        told += f", a {'hard' if plan.is_strict else 'soft'} bound"
    return f"{told}{plan.mostly_for}"


def plot_checkup(found: Checkup, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what all stores of an application may take, against what there is for it."""
    if found.plan is None:
        message = f"No store in {found.path} tells what it may take."
        raise ConfigurationError(message, hint="Its steps say which could not be read, and why.")
    ax = plot_memory(found.plan, ax=ax)
    if (bound := found.bound_bytes) is not None:
        ax.axvline(bound, color=INK, linewidth=1.4, linestyle=(0, (4, 2)))
        ax.set_xlim(right=max(ax.get_xlim()[1], 1.15 * bound))
        beside: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "va": "top"}
        say(ax, f"bound: {format_bytes(bound)}", (bound, 1), (3, -1), **beside)
    return ax


def _inside(plan: MemoryPlan) -> list[str]:
    """Say which terms take nothing, as others pay for them."""
    ways: dict[str, list[str]] = {}
    for term in plan.terms:
        if term.total_bytes == 0:
            ways.setdefault(term.formula, []).append(term.term)
    return [f"{listed(names)}: {formula}" for formula, names in ways.items()]


_MEASURED = {
    "memtables_bytes": "memtables",
    "memtables_pinned_bytes": "memtables, kept by iterators",
    "block_cache_usage_bytes": "block cache",
    "table_readers_bytes": "table readers",
}


def bar_of_measured(parts: Sequence[MemoryParts]) -> Bar:
    """Return what a store takes in this process; of one in several RocksDB, what all take.

    Table readers are index and filter blocks. Memtables inside a block cache are part of that.
    """
    whys = {name: why for each in parts for name, why in each.unknown.items()}
    in_cache = any(each.memtables_in_cache for each in parts)
    names = [each for each in _MEASURED if not (in_cache and each.startswith("memtables"))]
    sizes = {each: known_total(getattr(part, each) for part in parts) for each in names}
    stacked = [BarPart(_MEASURED[each], sizes[each], whys.get(each, "not told")) for each in names]
    return Bar("measured in this process", tuple(stacked))


_MOST_EXECUTORS = 20
_PEAKS = {
    "peak_heap_bytes": "heap",
    "peak_non_heap_bytes": "non-heap",
    "peak_direct_bytes": "direct buffers",
    "peak_mapped_bytes": "mapped files",
    "peak_java_rss_bytes": "Java, RSS",
    "peak_workers_rss_bytes": "workers, RSS",
}
_INSIDE_JAVA = (
    "Spark's estimate of RocksDB lies inside Java when Spark runs locally: never add them"
)


def plot_spark_memory(memory: SparkMemory, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what each of Spark's processes takes, and of RocksDB beside its formula."""
    terms = () if memory.plan is None else memory.plan.terms
    needed = [each for each in terms if each.total_bytes]
    formula = [BarPart(f"{each.term} (formula)", each.total_bytes) for each in needed]
    if memory.formula_bytes is None:
        formula = [part_of(memory, "formula_bytes", "RocksDB's formula")]
    bars = [
        _java_bar(memory.java, "driver's Java"),
        Bar("this Python (PSS)", (part_of(memory.python, "pss_bytes", "Python"),)),
        Bar("Python workers (PSS)", (part_of(memory.workers, "pss_bytes", "Python"),)),
        Bar("RocksDB, Spark's estimate", (part_of(memory.state, "rocksdb_bytes", "RocksDB"),)),
        Bar("RocksDB, formula", tuple(formula)),
    ]
    said = (
        f"{shown(memory.application)} takes {format_bytes(memory.total_pss_bytes)} in all (PSS); "
        f"RocksDB {format_bytes(memory.state.rocksdb_bytes)} of it by Spark's estimate, "
        f"at most {format_bytes(memory.formula_bytes)} by the formula"
    )
    lacks = memory.total_pss_bytes is None
    whys = [f"total: {memory.unknown['total_pss_bytes']}"] if lacks else []
    return draw_bars(ax, bars, said, [*whys, _INSIDE_JAVA])


def plot_java(java: JavaMemory, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what the driver's Java has in memory, part by part."""
    used, committed = java.heap_used_bytes, java.heap_committed_bytes
    said = (
        f"Java has {format_bytes(java.rss_bytes)} in memory (RSS); its heap uses "
        f"{format_bytes(used)} of {format_bytes(committed)}"
    )
    most = f"the heap may grow to {format_bytes(java.heap_max_bytes)}"
    mapped = f"mapped files, of which any part may be in memory: {format_bytes(java.mapped_bytes)}"
    return draw_bars(ax, [_java_bar(java, f"Java {java.pid}")], said, [f"{most}; {mapped}"])


def plot_workers(workers: WorkersMemory, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what Spark's Python workers take: together, and counted once a fork."""
    parts = [part_of(workers, "pss_bytes", "together (PSS)")]
    if workers.rss_bytes is not None and workers.pss_bytes is not None:
        shared = workers.rss_bytes - workers.pss_bytes
        parts.append(BarPart("shared pages, once more for each (RSS)", shared))
    number = "unknown" if workers.num_workers is None else counted(workers.num_workers, "workers")
    said = f"Python workers take {format_bytes(workers.pss_bytes)} together: {number}"
    return draw_bars(ax, [Bar("workers", tuple(parts))], said)


def plot_query_state(state: QueryState, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what queries keep as state: in RocksDB, and in Java's heap."""
    pinned, whole = state.rocksdb_pinned_bytes, state.rocksdb_bytes
    parts = [part_of(state, "rocksdb_bytes", "RocksDB")]
    if whole is not None and pinned is not None and whole >= pinned:
        parts = [BarPart("RocksDB", whole - pinned), BarPart("RocksDB, blocks in use", pinned)]
    bars = [
        Bar("in RocksDB", tuple(parts)),
        Bar("in the heap", (part_of(state, "heap_bytes", "heap"),)),
    ]
    stores = "unknown stores" if state.num_stores is None else counted(state.num_stores, "stores")
    said = f"State takes {format_bytes(whole)} in RocksDB by Spark's estimate: {stores}"
    return draw_bars(ax, bars, said)


def plot_executors(executors: Records[ExecutorMemory], *, ax: Axes | None = None) -> Axes:
    """Return a plot of the most that each executor has taken so far, figure by figure.

    The peaks need not have been at one moment, so they stand beside each other and are not added.
    Of more than 20 executors, those with the largest heap are drawn, and the figure says so.
    """
    ranked = sorted(executors, key=lambda each: -(each.peak_heap_bytes or 0))[:_MOST_EXECUTORS]
    whys = {why: None for each in ranked for why in each.unknown.values()}
    notes = [f"not drawn where unknown ({why})" for why in whys]
    notes += few_of("the {} with the largest heap, of {} executors", len(ranked), len(executors))
    lines = wrapped(notes)
    ax = new_axes(ax, (7.2, height(len(ranked), lines, 2)))
    rows = range(len(ranked))
    peak = max((each.peak_heap_bytes or 0 for each in ranked), default=0)
    for (figure, name), (color, _, marker) in zip(_PEAKS.items(), LINES, strict=True):
        told = [(row, value) for row in rows if (value := getattr(ranked[row], figure)) is not None]
        ax.plot([v for _, v in told], [r for r, _ in told], marker, color=color, label=name)
    for row in rows:
        if len(ranked[row].unknown) == len(_PEAKS):
            ax.barh(row, 0.05 * peak or 1, height=0.5, **UNKNOWN)
    name_rows(ax, [f"{each.executor} at {each.place}" for each in ranked])
    ax.set_xlim(left=0)
    in_bytes(ax.xaxis)
    heap = format_bytes(peak or None)
    seen = f"{counted(len(executors), 'executors')}; the largest heap was {heap}"
    return captioned(ax, seen, x="peak since the executor started", notes=lines)


def _java_bar(java: JavaMemory, name: str) -> Bar:
    """Return the parts that add up to RSS; what is in a part is not drawn again."""
    parts = (
        BarPart("heap, used", java.heap_used_bytes),
        BarPart("heap, free", java.heap_committed_bytes - java.heap_used_bytes),
        BarPart("non-heap", java.non_heap_committed_bytes),
        BarPart("direct buffers", java.direct_bytes),
        *([] if java.netty_bytes is None else [BarPart("netty", java.netty_bytes)]),
        BarPart("RocksDB", java.rocksdb_bytes),
        part_of(java, "not_accounted_for_bytes", REST),
    )
    # What was asked for and never touched is in no RSS.
    untouched = (java.not_accounted_for_bytes or 0) < 0
    return Bar(name, parts, " asked for" if untouched else "")
