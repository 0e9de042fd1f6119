"""Where a store lies: on what kind of file system, and whether a process has it open there."""

from __future__ import annotations

import fcntl
import os
import re
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_FLOCK = "hhqqi4x"  # type, whence, start, length, pid; as Linux has them on 64 bits


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store lies; ``is_in_use``: a process holds RocksDB's lock on it, there and now."""

    path: Path
    file_system: str | None
    is_in_use: bool

    @property
    def is_fleeting(self) -> bool:
        """Whether what lies there is gone with the machine, or is tidied away by it."""
        in_memory = self.file_system in {"tmpfs", "ramfs"}
        return in_memory or is_temporary(self.path)


def is_temporary(path: Path) -> bool:
    """Return whether a path is below a folder for temporary files.

    >>> is_temporary(Path("/tmp/kafka-streams/app")), is_temporary(Path("/var/lib/tmp"))
    (True, False)
    """
    return any(path.is_relative_to(each) for each in ("/tmp", "/var/tmp"))  # noqa: S108 - asked for


def place_of(folder: Path) -> Place:
    """Return where a store's folder lies; nothing of it is changed."""
    path = folder.resolve()
    return Place(path, _file_system(path), _is_locked(path / "LOCK"))


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


def _is_locked(path: Path) -> bool:
    """Return whether another process has locked a file: the system is asked, nothing is locked."""
    with suppress(OSError, struct.error):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            asked = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            told = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
            return int(struct.unpack(_FLOCK, told)[0]) != fcntl.F_UNLCK
        finally:
            os.close(descriptor)
    return False
