"""What an open store takes in memory, part by part, beside the formula and the process.

The parts are those of the process that opened the store. What its writer takes is told by the
formula, from the options that the writer gave, and by the writer's own metrics.

RocksDB answers for the block cache of whichever store is asked. Two that share one give the same
figures and, in ``rocksdb.block-cache-entry-stats``, the same address, by which they are told apart:
each cache counts once, however many stores share it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kstoolkit.errors import InputError, Option, naming
from kstoolkit.records import Record, Source, of_source
from kstoolkit.rocksdb.files.ssts import known_total
from kstoolkit.units import check_whole, format_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rocksdict import Rdict

    from kstoolkit.rocksdb.memory.planning import MemoryPlan

_IDENTITY = re.compile(r"^Block cache (\S+@\S+) capacity: ", re.MULTILINE)
_MEMTABLES = re.compile(r"\bWriteBuffer\((\d+),")


def _users_of_caches(handles: Iterable[Rdict]) -> list[list[Rdict]]:
    """Return the column families by the cache that they have; those without one are left out."""
    users: dict[str, list[Rdict]] = {}
    for place, handle in enumerate(handles):
        if handle.property_int_value("rocksdb.block-cache-capacity") is not None:
            found = _IDENTITY.search(_entry_stats(handle))
            users.setdefault(found[1] if found else f"of handle {place}", []).append(handle)
    return list(users.values())


def _in_all(caches: Iterable[Rdict], what: str) -> int:
    return sum(each.property_int_value(f"rocksdb.block-cache-{what}") or 0 for each in caches)


def _entry_stats(handle: Rdict) -> str:
    return handle.property_value("rocksdb.block-cache-entry-stats") or ""


_PROC = Path("/proc")
_LINE = re.compile(r"^(Rss|Pss):\s+(\d+) kB$", re.MULTILINE)
_STATUS = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)
_NO_PROC = "this system has no /proc"
_FORBIDDEN = "only the process's own user may read its smaps_rollup"


@dataclass(frozen=True, slots=True, repr=False)
class ProcessMemory(Record):
    """The memory of one process.

    Parameters
    ----------
    pid
        Which; ``"self"`` is this one.
    rss_bytes
        What it has in memory, pages that others have too among them.
    pss_bytes
        The same with a page that n processes have counted as 1/n of a page: what may be added up.
    """

    pid: int | str
    rss_bytes: int | None = of_source(Source.SYSTEM)
    pss_bytes: int | None = of_source(Source.SYSTEM)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        rss, pss = format_bytes(self.rss_bytes), format_bytes(self.pss_bytes)
        return f"ProcessMemory({self.pid}, RSS {rss}, PSS {pss})"


def process_memory(pid: int | None = None) -> ProcessMemory:
    """Return the memory of a process; None is this one.

    If there is none of this number, it is an InputError; a ``pid`` that is no number of a process
    is a ConfigurationError. Source: ``proc_pid_smaps(5)`` and ``proc_pid_status(5)`` of Linux.
    """
    if pid is not None:
        check_whole("pid", pid, least=1, hint="Give the number of a process that runs.")
    name = "self" if pid is None else pid
    if not (_PROC / "self").exists():
        return ProcessMemory(name, None, None, dict.fromkeys(("rss_bytes", "pss_bytes"), _NO_PROC))
    try:
        status = (_PROC / str(name) / "status").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError) as error:
        message = f"There is no process {name}."
        raise InputError(message, hint="Did it end? Give the pid of one that runs.") from error
    found = _STATUS.search(status)
    rolled = _rolled_up(_PROC / str(name) / "smaps_rollup")
    if rolled is None:
        rss = int(found[1]) << 10 if found else None
        why = {"pss_bytes": _FORBIDDEN} | ({} if found else {"rss_bytes": "it has no memory left"})
        return ProcessMemory(name, rss, None, why)
    return ProcessMemory(name, rolled["Rss"], rolled["Pss"])


def _rolled_up(path: Path) -> dict[str, int] | None:
    """Return the sums of all mappings, or None if they can't be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    found = {name: int(kib) << 10 for name, kib in _LINE.findall(text)}
    return found if {"Rss", "Pss"} <= found.keys() else None


_NO_PID = naming("the pid of the writer is not given: {pid}", pid=Option("pid", "..."))
_NO_OPTIONS = "there is no OPTIONS file to take the writer's options from"
_MAIN_TERMS = ("memtables", "block cache")


@dataclass(frozen=True, slots=True, repr=False)
class MemoryParts(Record):
    """What a store's writer needs and takes, and what the store takes in this process.

    Parameters
    ----------
    formula_bytes
        What the writer needs at most by its options; see ``plan``.
    writer_rss_bytes, writer_pss_bytes
        All that the writer's process takes, if it is known which that is.
    writer_not_accounted_for_bytes
        ``writer_rss_bytes`` less ``formula_bytes``: at least this much is not RocksDB's, as far as
        the formula knows its stores: a JVM's heap, threads, libraries, what the allocator keeps.
        Below 0 if RocksDB takes less than it may.
    memtables_bytes, memtables_pinned_bytes
        Memtables that are not flushed; and that are, but that an iterator or snapshot still needs.
    block_cache_usage_bytes, block_cache_pinned_bytes
        What is in the block caches, each counted once, however many column families share it; and
        what of that is in use and can't be evicted.
    block_cache_capacity_bytes, num_block_caches
        How large the caches may get, and how many there are.
    block_cache_shared
        Whether column families asked about share a cache. Other stores of this process may too.
    memtables_in_cache
        Whether memtables take their room from the cache, whose usage then holds them.
    table_readers_bytes, total_bytes
        Index and filter blocks of open files, if they live outside the cache; the sum of these,
        the block caches, and the memtables unless they are in those.
    rss_bytes, pss_bytes, arrow_bytes
        All that this process takes, its parts as of the writer's, and what Arrow has in its pool.
    not_accounted_for_bytes
        ``rss_bytes`` less ``total_bytes`` and ``arrow_bytes``: Python and its libraries, other open
        stores, and what the allocator keeps. Below 0 if room is set aside and not yet used.
    plan
        The formula's terms; None without options.
    """

    path: str
    formula_bytes: int | None = of_source(Source.FORMULA)
    writer_rss_bytes: int | None = of_source(Source.SYSTEM)
    writer_pss_bytes: int | None = of_source(Source.SYSTEM)
    writer_not_accounted_for_bytes: int | None = of_source(Source.SYSTEM)
    memtables_bytes: int | None = of_source(Source.OPENER)
    memtables_pinned_bytes: int | None = of_source(Source.OPENER)
    block_cache_usage_bytes: int = of_source(Source.OPENER)
    block_cache_pinned_bytes: int = of_source(Source.OPENER)
    block_cache_capacity_bytes: int = of_source(Source.OPENER)
    num_block_caches: int = of_source(Source.OPENER)
    block_cache_shared: bool = of_source(Source.OPENER)
    memtables_in_cache: bool = of_source(Source.OPENER)
    table_readers_bytes: int | None = of_source(Source.OPENER)
    total_bytes: int | None = of_source(Source.OPENER)
    rss_bytes: int | None = of_source(Source.SYSTEM)
    pss_bytes: int | None = of_source(Source.SYSTEM)
    arrow_bytes: int = of_source(Source.OPENER)
    not_accounted_for_bytes: int | None = of_source(Source.SYSTEM)
    plan: MemoryPlan | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        shared = " (shared)" if self.block_cache_shared else ""
        return (
            f"MemoryParts({self.path!r}, {format_bytes(self.formula_bytes)} by the formula, "
            f"{format_bytes(self.total_bytes)} measured in this process{shared}, "
            f"process {format_bytes(self.rss_bytes)}, "
            f"not accounted for {format_bytes(self.not_accounted_for_bytes)})"
        )


def memory_parts(
    path: str,
    handles: Collection[Rdict],
    *,
    plan: MemoryPlan | None = None,
    writer: ProcessMemory | None = None,
    memtables_in_cache: bool | None = None,
) -> MemoryParts:
    """Return what some open column families take, of one store or of several together.

    ``memtables_in_cache`` None: as the cache itself says, whose account may be some seconds old.
    """
    users = _users_of_caches(handles)
    caches = [having[0] for having in users]  # whoever has a cache answers for it
    live = _sum(handles, "cur-size-all-mem-tables")
    every = _sum(handles, "size-all-mem-tables")
    readers = _sum(handles, "estimate-table-readers-mem")
    usage = _in_all(caches, "usage")
    if memtables_in_cache is None:
        charged = (size for each in caches for size in _MEMTABLES.findall(_entry_stats(each)))
        memtables_in_cache = any(map(int, charged))
    total = known_total([0 if memtables_in_cache else every, usage, readers])
    process, arrow = process_memory(), pa.total_allocated_bytes()
    rest = None if None in {process.rss_bytes, total} else _less(process.rss_bytes, total, arrow)
    values: dict[str, int | None] = {
        "memtables_bytes": live,
        "memtables_pinned_bytes": None if every is None else _less(every, live),
        "table_readers_bytes": readers,
        "total_bytes": total,
        "rss_bytes": process.rss_bytes,
        "pss_bytes": process.pss_bytes,
        "not_accounted_for_bytes": rest,
    }
    needed, whys = _of_writer(plan, writer)
    values |= needed
    silent = [name for name, value in values.items() if value is None]
    whys = dict.fromkeys(silent, "RocksDB or the system does not tell it") | whys | process.unknown
    return MemoryParts(
        path=path,
        block_cache_usage_bytes=usage,
        block_cache_pinned_bytes=_in_all(caches, "pinned-usage"),
        block_cache_capacity_bytes=_in_all(caches, "capacity"),
        num_block_caches=len(caches),
        block_cache_shared=any(len(having) > 1 for having in users),
        memtables_in_cache=memtables_in_cache,
        arrow_bytes=arrow,
        plan=plan,
        unknown={name: whys[name] for name in silent},
        **values,
    )


def _of_writer(
    plan: MemoryPlan | None, writer: ProcessMemory | None
) -> tuple[dict[str, int | None], dict[str, str]]:
    """Return the figures on the writer, and why some are unknown."""
    no_formula = _NO_OPTIONS if plan is None else lacking(plan)
    formula = None if plan is None or no_formula else plan.total_bytes
    rss, pss = (None, None) if writer is None else (writer.rss_bytes, writer.pss_bytes)
    no_pid = dict.fromkeys(("rss_bytes", "pss_bytes"), _NO_PID)
    silent = no_pid if writer is None else writer.unknown
    values = {
        "formula_bytes": formula,
        "writer_rss_bytes": rss,
        "writer_pss_bytes": pss,
        "writer_not_accounted_for_bytes": None if None in {rss, formula} else _less(rss, formula),
    }
    whys = {f"writer_{name}": why for name, why in silent.items()} | {"formula_bytes": no_formula}
    whys["writer_not_accounted_for_bytes"] = whys.get("writer_rss_bytes", no_formula)
    return values, whys


def lacking(plan: MemoryPlan) -> str:
    """Return why the formula can't be worked out; nothing if it can."""
    whys = {term: plan.unknown[term] for term in _MAIN_TERMS if term in plan.unknown}
    return naming("; ".join(f"{term}: {{{term}}}" for term in whys), **whys)


def _sum(handles: Collection[Rdict], name: str) -> int | None:
    return known_total(each.property_int_value(f"rocksdb.{name}") for each in handles)


def _less(size: int | None, *taken: int | None) -> int:
    return (size or 0) - sum(each or 0 for each in taken)
