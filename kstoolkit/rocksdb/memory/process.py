"""How much memory a process takes, as the operating system counts it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from kstoolkit.errors import InputError
from kstoolkit.records import Record, Source, of_source
from kstoolkit.rocksdb.memory.numbers import check_whole
from kstoolkit.units import format_bytes

_PROC = Path("/proc")
_LINE = re.compile(r"^(Rss|Pss):\s+(\d+) kB$", re.MULTILINE)
_STATUS = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)
_KIB = 1024
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
    unknown
        Why a figure is unknown, by its name.
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

    Source of the figures: ``proc_pid_smaps(5)`` and ``proc_pid_status(5)`` of Linux.

    Raises
    ------
    InputError
        If there is no such process.
    ConfigurationError
        If ``pid`` is no number of a process.

    Examples
    --------
    >>> process_memory().pid
    'self'
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
        rss = int(found[1]) * _KIB if found else None
        why = {"pss_bytes": _FORBIDDEN} | ({} if found else {"rss_bytes": "it has no memory left"})
        return ProcessMemory(name, rss, None, why)
    return ProcessMemory(name, rolled["Rss"], rolled["Pss"])


def _rolled_up(path: Path) -> dict[str, int] | None:
    """Return the sums of all mappings, or None if they can't be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    found = {name: int(kib) * _KIB for name, kib in _LINE.findall(text)}
    return found if {"Rss", "Pss"} <= found.keys() else None
