"""What a contestant costs: CPU of its whole process tree, memory of the same, time.

CPU seconds are user and system time of every descendant, the ended ones too: the measuring process
adopts orphans (``PR_SET_CHILD_SUBREAPER``) and waits for all. Where a parent ignores its children's
ends, as Spark's Python daemon does, the system adds what they used to nobody's sum, so that is kept
as it was when each was last seen. Memory is the sum of the tree's PSS,
in which pages that several processes share count once. Room on disk is what folders hold that a
contestant keeps its state in. What was written into them is each file that came to lie there, also
those that are gone by the end, each once: files that stay for less than half a second may be
missed. A contestant may be killed midway, all of it: ``kill -9``.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shlex
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from _typeshed import StrPath

_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_SECONDS = 0.4
_BLOCK_BYTES = 512  # of which stat() counts, whatever the disk has
_GRACE_SECONDS = 10
_LAST_CHARACTERS = 2_000


class ContestantFailed(Exception):  # noqa: N818 - named as the project's own errors are
    """A contestant ended with an error; what it said is in its log."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a contestant said, when, and what it had cost by then, and a server beside it."""

    name: str
    seconds: float
    cpu_seconds: float
    facts: dict[str, Any]
    server_cpu_seconds: float = 0.0


@dataclass(slots=True)
class Measured:
    """What a contestant cost.

    Parameters
    ----------
    wall_seconds, cpu_seconds
        From its start to its last ``counted``.
    peak_bytes
        The largest PSS of the tree up to then.
    marks
        What it said, in order.
    samples
        Seconds since the start, the PSS of the tree then, and the bytes on disk.
    disk_bytes
        The most that was on disk up to its last ``counted``.
    written_bytes
        What was written into the folders of its state until its end.
    """

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    marks: list[Mark] = field(default_factory=list)
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    disk_bytes: int = 0
    written_bytes: int = 0

    def marked(self, name: str) -> list[Mark]:
        return [mark for mark in self.marks if mark.name == name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What belongs to a contestant beside its processes.

    Parameters
    ----------
    folders
        Where it keeps its state.
    server
        The process of a server that works for it, and is not its own.
    environment
        The environment that it is given.
    """

    folders: tuple[Path, ...] = ()
    server: int | None = None
    environment: Mapping[str, str] | None = None


def measure(
    command: Sequence[str],
    log: Path,
    *,
    cwd: StrPath,
    beside: Beside | None = None,
    kill_at: int | None = None,
    kill_after_seconds: float = 0.0,
) -> Measured:
    """Run a contestant to its end, and return what it cost.

    With ``kill_at`` it is killed, all of it, when it says that it has counted so many events, or
    some seconds later.

    Raises
    ------
    ContestantFailed
        If it ends with an error.
    """
    _adopt_orphans()
    beside = beside or Beside()
    measured, began, cpu = Measured(), time.monotonic(), TreeCpu()
    spent = cpu.seconds()
    served, killed = _cpu_of(beside.server), False
    with (
        log.open("ab") as stderr,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, cwd=cwd, env=beside.environment
        ) as process,
    ):
        done = threading.Event()
        sampler = threading.Thread(
            target=_sample, args=(measured, began, done, beside.folders, cpu)
        )
        sampler.start()
        for line in process.stdout or ():
            told = json.loads(line)
            name = told.pop("mark")
            now = time.monotonic() - began, cpu.seconds() - spent
            measured.marks.append(Mark(name, *now, told, _cpu_of(beside.server) - served))
            if kill_at is not None and not killed and told.get("events", -1) >= kill_at:
                time.sleep(kill_after_seconds)
                _kill(descendants())
                killed = True
        done.set()
        sampler.join()
    _wait_for_orphans()
    if process.returncode and not killed:
        last = log.read_text(encoding="utf-8", errors="replace")[-_LAST_CHARACTERS:]
        message = f"{shlex.join(command)} ended with {process.returncode}:\n{last}"
        raise ContestantFailed(message)
    _close(measured)
    return measured


def _close(measured: Measured) -> None:
    ended = measured.marked("counted")[-1]  # later on it only looks at its own results
    measured.wall_seconds, measured.cpu_seconds = ended.seconds, ended.cpu_seconds
    sizes = [each for each in measured.samples if each[0] <= ended.seconds]
    measured.peak_bytes = max((memory for _, memory, _ in sizes), default=0)
    measured.disk_bytes = max((disk for _, _, disk in sizes), default=0)


def _sample(
    measured: Measured, began: float, done: threading.Event, folders: Iterable[Path], cpu: TreeCpu
) -> None:
    written: dict[Path, int] = {}
    is_over = False
    while not is_over:
        is_over = done.wait(_SAMPLE_SECONDS)  # and once more then
        cpu.seconds()
        size_bytes = sum(_pss_bytes(process) for process in descendants())
        there = {path: size for folder in folders for path, size in _files_in(folder)}
        measured.samples.append((time.monotonic() - began, size_bytes, sum(there.values())))
        # What is not under its own name yet will be, once it is whole.
        whole = {path: size for path, size in there.items() if path.suffix != ".tmp"}
        written |= {path: max(size, written.get(path, 0)) for path, size in whole.items()}
    measured.written_bytes = sum(written.values())


def bytes_in(folder: Path) -> int:
    """Return how many bytes the files of a folder take, those below included.

    What is set aside for a file and not written counts neither as the file's nor as the disk's.
    """
    return sum(size for _, size in _files_in(folder))


def _files_in(folder: Path) -> Iterator[tuple[Path, int]]:
    for root, _, names in os.walk(folder):
        for path in (Path(root, name) for name in names):
            with suppress(FileNotFoundError):  # it may be gone by now
                told = path.lstat()
                yield path, min(told.st_size, told.st_blocks * _BLOCK_BYTES)


def descendants() -> list[int]:
    """Return the process ids of all our descendants, zombies among them."""
    parents = dict(_parents())
    found = {os.getpid()}
    grown = True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found - {os.getpid()})


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                yield int(entry.name), int(fields[1])


def _stat(process: int) -> list[str]:
    """Return the fields of ``/proc/<pid>/stat`` behind the name; none if it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


@dataclass(slots=True)
class TreeCpu:
    """What all descendants used, also those that are gone without anyone waiting for them.

    It has to be asked now and then: what such a one used since it was last asked is not known.
    """

    _ticks: dict[tuple[int, str], int] = field(default_factory=dict)
    _gone: int = 0
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def seconds(self) -> float:
        """Return the CPU seconds, user and system, up to now."""
        with self._asking:
            there = {(each, told[19]): told for each in descendants() if (told := _stat(each))}
            self._gone += sum(
                ticks for process, ticks in self._ticks.items() if process not in there
            )
            self._ticks = {
                process: sum(map(int, told[11:15]))
                for process, told in there.items()
                if _ignores_children(int(told[1]))
            }
            return cpu_of_tree() + self._gone / _TICKS


def _ignores_children(process: int) -> bool:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    ignored = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:"))
    return bool(ignored >> (signal.SIGCHLD - 1) & 1)


def cpu_of_tree() -> float:
    """Return what all descendants used: the living, those they waited for, and those we did."""
    ticks = sum(sum(map(int, _stat(process)[11:15])) for process in descendants())
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ticks / _TICKS + ended.ru_utime + ended.ru_stime


def _cpu_of(process: int | None) -> float:
    """Return what one process used; nothing if there is none."""
    return sum(map(int, _stat(process)[11:13])) / _TICKS if process is not None else 0.0


def _pss_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _adopt_orphans() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def _wait_for_orphans() -> None:
    """Wait for what the contestant left behind; end what does not end by itself."""
    patience = time.monotonic() + _GRACE_SECONDS
    while left := descendants():
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            time.sleep(0.05)
        if time.monotonic() > patience:
            _kill(left)


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):  # it may have ended just now
            os.kill(process, signal.SIGKILL)
