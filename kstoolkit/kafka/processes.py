"""A process that may be known longer than it lives: its number, and what tells it from the next.

Numbers of processes are given again. The moment at which one started is not, so that nothing is
taken for a broker, let alone ended, that merely has the number a broker had.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """A process: alive, or not any more.

    Parameters
    ----------
    pid
        Its number.
    started
        The moment at which it started, as this system tells it; only good for comparing.

    Examples
    --------
    >>> process_with(os.getpid()).is_alive()
    True
    >>> Process(os.getpid(), "earlier").is_alive()
    False
    """

    pid: int
    started: str

    def is_alive(self) -> bool:
        """Return whether it still runs; one that only waits to be buried does not."""
        return process_with(self.pid) == self

    def signal(self, number: int) -> None:
        """Send it a signal, unless it is gone."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def is_gone_within(self, seconds: float) -> bool:
        """Wait for it to end, at most so long, and return whether it did."""
        deadline = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
        return True


def process_with(pid: int) -> Process | None:
    """Return the process that has this number now, if there is one and it runs.

    Examples
    --------
    >>> process_with(2**22 + 1) is None
    True
    """
    state, started = _linux(pid) if (_PROC / "self" / "stat").exists() else _posix(pid)
    return Process(pid, started) if started and state not in "ZX" else None


def _linux(pid: int) -> tuple[str, str]:
    """Return the state and the start, in clock ticks since this system was started."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    # The second field is the program's name in brackets, and may have brackets and spaces in it.
    fields = stat.rpartition(")")[2].split()
    state, num_threads, started = fields[0], int(fields[17]), fields[19]
    # The first thread may be dead while others still end, and keep the ports of all open.
    return ("R" if num_threads > 1 else state), started


def _posix(pid: int) -> tuple[str, str]:
    """Return the same where there is no ``/proc``, as on macOS."""
    asked = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    environment = os.environ | {"LC_ALL": "C", "TZ": "UTC"}
    done = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)  # noqa: S603 - our own
    state, _, started = done.stdout.strip().partition(" ")
    return state[:1], started.strip()
