"""What a Spark application takes in memory: a bar a process, and RocksDB's formula beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.plots.axes import in_bytes, label, new_axes
from kstoolkit.plots.memory import draw_memory, part_of
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, height, wrapped
from kstoolkit.plots.palette import LINES
from kstoolkit.plots.stacked import REST, Bar, StackedPart, name_rows, unknown_look
from kstoolkit.records import counted
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kstoolkit.operations.sparkmemory import (
        ExecutorMemory,
        JavaMemory,
        QueryState,
        SparkMemory,
        WorkersMemory,
    )
    from kstoolkit.records import Records


MOST_EXECUTORS = 20
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
    formula = [
        StackedPart(f"{each.term} (formula)", each.total_bytes)
        for each in terms
        if each.total_bytes
    ]
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
    whys = (
        []
        if memory.total_pss_bytes is not None
        else [f"total: {memory.unknown['total_pss_bytes']}"]
    )
    return draw_memory(ax, bars, said, [*whys, _INSIDE_JAVA])


def plot_java(java: JavaMemory, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what the driver's Java has in memory, part by part."""
    used, committed = java.heap_used_bytes, java.heap_committed_bytes
    said = (
        f"Java has {format_bytes(java.rss_bytes)} in memory (RSS); its heap uses "
        f"{format_bytes(used)} of {format_bytes(committed)}"
    )
    most = f"the heap may grow to {format_bytes(java.heap_max_bytes)}"
    mapped = f"mapped files, of which any part may be in memory: {format_bytes(java.mapped_bytes)}"
    return draw_memory(ax, [_java_bar(java, f"Java {java.pid}")], said, [f"{most}; {mapped}"])


def plot_workers(workers: WorkersMemory, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what Spark's Python workers take: together, and counted once a fork."""
    shared = None
    if workers.rss_bytes is not None and workers.pss_bytes is not None:
        shared = workers.rss_bytes - workers.pss_bytes
    parts = [part_of(workers, "pss_bytes", "together (PSS)")]
    parts += (
        [] if shared is None else [StackedPart("shared pages, once more for each (RSS)", shared)]
    )
    number = "unknown" if workers.num_workers is None else counted(workers.num_workers, "workers")
    said = f"Python workers take {format_bytes(workers.pss_bytes)} together: {number}"
    return draw_memory(ax, [Bar("workers", tuple(parts))], said, [])


def plot_query_state(state: QueryState, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what queries keep as state: in RocksDB, and in Java's heap."""
    pinned, whole = state.rocksdb_pinned_bytes, state.rocksdb_bytes
    parts = [part_of(state, "rocksdb_bytes", "RocksDB")]
    if whole is not None and pinned is not None and whole >= pinned:
        parts = [
            StackedPart("RocksDB", whole - pinned),
            StackedPart("RocksDB, blocks in use", pinned),
        ]
    bars = [
        Bar("in RocksDB", tuple(parts)),
        Bar("in the heap", (part_of(state, "heap_bytes", "heap"),)),
    ]
    stores = "unknown stores" if state.num_stores is None else counted(state.num_stores, "stores")
    said = f"State takes {format_bytes(whole)} in RocksDB by Spark's estimate: {stores}"
    return draw_memory(ax, bars, said, [])


def plot_executors(executors: Records[ExecutorMemory], *, ax: Axes | None = None) -> Axes:
    """Return a plot of the most that each executor has taken so far, figure by figure.

    The peaks need not have been at one moment, so they stand beside each other and are not added.
    More than 20 executors are thinned to those with the largest heap, and the figure says so.
    """
    ranked = sorted(executors, key=lambda each: -(each.peak_heap_bytes or 0))[:MOST_EXECUTORS]
    whys = {why: None for each in ranked for why in each.unknown.values()}
    notes = [f"not drawn where unknown ({why})" for why in whys]
    if len(executors) > len(ranked):
        notes.append(f"the {len(ranked)} with the largest heap, of {len(executors):,} executors")
    lines = wrapped(notes)
    ax = new_axes(ax, (7.2, height(len(ranked), lines, 2)))
    rows = range(len(ranked))
    stub = 0.05 * max((each.peak_heap_bytes or 0 for each in ranked), default=0) or 1
    for (figure, name), (color, _, marker) in zip(_PEAKS.items(), LINES, strict=True):
        told = [(row, value) for row in rows if (value := getattr(ranked[row], figure)) is not None]
        ax.plot([v for _, v in told], [r for r, _ in told], marker, color=color, label=name)
    for row in rows:
        if len(ranked[row].unknown) == len(_PEAKS):
            ax.barh(row, stub, height=0.5, **unknown_look())
    name_rows(ax, [f"{each.executor} at {each.place}" for each in ranked])
    ax.set_xlim(left=0)
    in_bytes(ax.xaxis)
    label(ax, x="peak since the executor started", notes=lines)
    peak = max((each.peak_heap_bytes or 0 for each in ranked), default=0)
    said = (
        f"{counted(len(executors), 'executors')}; the largest heap was {format_bytes(peak or None)}"
    )
    head(ax, said)
    return ax


def _java_bar(java: JavaMemory, name: str) -> Bar:
    """Return the parts that add up to RSS; what is in a part is not drawn again."""
    parts = (
        StackedPart("heap, used", java.heap_used_bytes),
        StackedPart("heap, free", java.heap_committed_bytes - java.heap_used_bytes),
        StackedPart("non-heap", java.non_heap_committed_bytes),
        StackedPart("direct buffers", java.direct_bytes),
        *([] if java.netty_bytes is None else [StackedPart("netty", java.netty_bytes)]),
        StackedPart("RocksDB", java.rocksdb_bytes),
        part_of(java, "not_accounted_for_bytes", REST),
    )
    # What was asked for and never touched is in no RSS.
    untouched = (java.not_accounted_for_bytes or 0) < 0
    return Bar(name, parts, " asked for" if untouched else "")
