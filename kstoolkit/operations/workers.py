"""The Python processes that Spark's Java started, and what they take together."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import InputError
from kstoolkit.records import Record, Source, of_source
from kstoolkit.rocksdb.memory.measured import ProcessMemory, process_memory
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
    unknown
        Why a figure is unknown, by its name.
    """

    num_workers: int | None = of_source(Source.SYSTEM)
    rss_bytes: int | None = of_source(Source.SYSTEM)
    pss_bytes: int | None = of_source(Source.SYSTEM)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        number = "unknown" if self.num_workers is None else self.num_workers
        rss, pss = format_bytes(self.rss_bytes), format_bytes(self.pss_bytes)
        return f"WorkersMemory({number}, RSS {rss}, PSS {pss})"


def workers_memory(java_pid: int) -> WorkersMemory:
    """Return what the Python workers below a Java process take.

    Parameters
    ----------
    java_pid
        The process: a driver's Java, or an executor's.

    Examples
    --------
    >>> from subprocess import PIPE, Popen
    >>> with Popen(["cat"], stdin=PIPE) as alone:
    ...     print(workers_memory(alone.pid).num_workers)
    ...     _ = alone.communicate()
    0
    """
    pids = python_workers(java_pid)
    if pids is None:
        names = ("num_workers", "rss_bytes", "pss_bytes")
        return WorkersMemory(None, None, None, dict.fromkeys(names, _NO_PROC))
    return summed_memory(list(_measured(pids)))


def summed_memory(processes: Sequence[ProcessMemory]) -> WorkersMemory:
    """Return what some processes take together; PSS if the system tells it of each.

    Examples
    --------
    >>> summed_memory([ProcessMemory(7, 3 << 20, 2 << 20), ProcessMemory(8, 3 << 20, 1 << 20)])
    WorkersMemory(2, RSS 6.0 MiB, PSS 3.0 MiB)
    """
    rss_bytes = sum(each.rss_bytes or 0 for each in processes)
    hidden = next((each for each in processes if each.pss_bytes is None), None)
    if hidden is not None:
        why = f"of process {hidden.pid}: {hidden.unknown['pss_bytes']}"
        return WorkersMemory(len(processes), rss_bytes, None, {"pss_bytes": why})
    return WorkersMemory(len(processes), rss_bytes, sum(each.pss_bytes or 0 for each in processes))


def python_workers(java_pid: int) -> list[int] | None:
    """Return the process ids of the Python workers below a Java; None if there is no ``/proc``.

    Java starts a daemon, which forks itself for each Python task that runs at once, and a Python of
    its own for each Python source and for each stateful operator.
    """
    if not (_PROC / "self").exists():
        return None
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    return [pid for pid in _below(java_pid, children) if _is_worker(pid)]


def _parents() -> Iterator[tuple[int, int]]:
    for path in _PROC.glob("[0-9]*/stat"):
        found = _PARENT.match(_text(path))
        if found:
            yield int(path.parent.name), int(found[1])


def _below(pid: int, children: Mapping[int, Sequence[int]]) -> Iterator[int]:
    for child in children.get(pid, ()):
        if child != os.getpid():  # spark-submit starts Java first, and the program below it
            yield child
            yield from _below(child, children)


def _is_worker(pid: int) -> bool:
    words = _text(_PROC / str(pid) / "cmdline").split("\0")
    return any(flag == "-m" and name.startswith("pyspark.") for flag, name in pairwise(words))


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
