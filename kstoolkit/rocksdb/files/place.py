"""Where a store lies: on what kind of file system, and whether a process has it open there.

A process that closes a file lets go of all its own locks on it, RocksDB's among them. So that a
store which this one has open stays locked, another process asks.
"""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store lies; ``is_in_use``: a process holds RocksDB's lock on it, there and now."""

    path: Path
    file_system: str | None
    is_in_use: bool

    @property
    def is_fleeting(self) -> bool:
        """Whether what lies there is gone with the machine, or is tidied away by it."""
        return self.file_system in {"tmpfs", "ramfs"} or is_temporary(self.path)


def is_temporary(path: Path) -> bool:
    """Return whether a path is below a folder for temporary files.

    >>> is_temporary(Path("/tmp/kafka-streams/app")), is_temporary(Path("/var/lib/tmp"))
    (True, False)
    """
    return any(path.is_relative_to(each) for each in ("/tmp", "/var/tmp"))  # noqa: S108 - asked for


def place_of(folder: Path) -> Place:
    """Return where a store's folder lies; nothing of it is changed."""
    path = folder.resolve()
    with closing(Locks()) as locks:
        return Place(path, _file_system(path), bool(locks.is_locked(path)))


def _file_system(path: Path) -> str | None:
    """Return the kind of the innermost file system, the last one mounted there."""
    found: tuple[int, str | None] = (-1, None)
    with suppress(OSError):
        for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
            told, _, kinds = line.partition(" - ")
            place = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), told.split()[4])
            if path.is_relative_to(place) and len(place) >= found[0]:
                found = (len(place), kinds.split()[0])
    return found[1]


_ASKING = """
import fcntl, os, struct, sys
form = "hhqqi4x"
for line in sys.stdin.buffer:
    try:
        file = os.open(bytes.fromhex(line.decode()), os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        answer = "free"
    except OSError:
        answer = "unknown"
    else:
        asked = struct.pack(form, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            kind = struct.unpack(form, fcntl.fcntl(file, fcntl.F_GETLK, asked))[0]
            answer = "free" if kind == fcntl.F_UNLCK else "locked"
        except OSError:
            answer = "unknown"
        os.close(file)
    print(answer, flush=True)
"""
"""What the other process runs; ``form`` is Linux's ``struct flock`` on 64 bits."""

_ANSWERS = {"free": False, "locked": True}


class Locks:
    """Asks which stores are open, in a process of its own, until it is closed."""

    def __init__(self) -> None:
        self._asking: subprocess.Popen[str] | None = None

    def is_locked(self, folder: Path) -> bool | None:
        """Return whether a process has the store in a folder open; None where it can't be told."""
        if not sys.platform.startswith("linux"):
            return None
        with suppress(OSError, ValueError):
            return _ANSWERS.get(self._answer(bytes(folder / "LOCK").hex()))
        return None

    def close(self) -> None:
        """End the other process."""
        if self._asking is not None:
            with suppress(OSError):
                self._asking.communicate()
            self._asking = None

    def _answer(self, file: str) -> str:
        if self._asking is None:
            self._asking = subprocess.Popen(  # noqa: S603 - this Python, and the text above
                [sys.executable, "-I", "-S", "-c", _ASKING],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        asking = self._asking
        if asking.stdin is None or asking.stdout is None:
            return ""
        asking.stdin.write(f"{file}\n")
        asking.stdin.flush()
        return asking.stdout.readline().strip()
