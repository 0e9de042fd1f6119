"""What a file held when it was read, so that it is known again: as it was, moved, grown, another.

A task notes that of each file it reads, at the file's position in the ledger, in a file beside it::

    contents    40 bytes a file, integers of 8 bytes, little-endian; zeros where nothing is known
                1 if it counts, 2 if it was damaged · its size · its modification time in ns
                · CRC-32 of all of it, -1 if it changed meanwhile · its edges: of its first and its
                last 4 KiB together, the first 8 bytes of BLAKE2b

A checksum is enough: it is asked only of files of one size and one time, to the nanosecond, and
costs 2 % of the CPU that JSON lines take, half of what a cryptographic digest would.

What became of files is a list of its own, ``changed.jsonl``: which were moved, replaced, or grew.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_RECORD, _RECORD_BYTES = "<5q", 40
_COUNTS, _DAMAGED = 1, 2
_UNKNOWN = -1
_EDGE_BYTES = 4 << 10
_CHUNK_BYTES = 256 << 10
_LAST_NS = (1 << 63) - 1
_MIX = np.int64(0x1E3779B97F4A7C15)  # odd: pairs of a size and a time are seldom told as others
_TOGETHER = 1 << 15  # files, of which is looked whether one is known


class Fate(StrEnum):
    """What became of a file that was read."""

    SAME = "same"
    GROWN = "grown"
    MOVED = "moved"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file held when it was read; made by :meth:`begun`, before, and :meth:`ended`."""

    size_bytes: int
    mtime_ns: int
    edges: int
    whole: int = _UNKNOWN
    is_damaged: bool = False

    @classmethod
    def begun(cls, path: str) -> Contents:
        """Return what can be told of a file before it is read."""
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - of a million, each object counts
            found = os.fstat(file.fileno())
            edges = _edges(file.fileno(), found.st_size)
        return cls(found.st_size, modified_ns(found), edges)

    def ended(self, path: str, *, is_damaged: bool) -> Contents:
        """Return what the file held, once it is read; without its checksum if it has changed.

        If it was empty and is not any more, nobody knows what was read: an OSError with EAGAIN.
        """
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            whole = _checksum(file.fileno(), self.size_bytes)
            found = os.fstat(file.fileno())
        if self.size_bytes == 0 < found.st_size:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        is_known = (found.st_size, modified_ns(found)) == (self.size_bytes, self.mtime_ns)
        return replace(self, whole=whole if is_known else _UNKNOWN, is_damaged=is_damaged)

    def fate(self, path: str, found: os.stat_result) -> Fate:
        """Return what became of the file, if it is the one at a path: by what lies there now.

        Of an empty or damaged one nothing was counted: what it grew to is new.
        """
        if (found.st_size, modified_ns(found)) == (self.size_bytes, self.mtime_ns):
            return Fate.SAME
        is_nothing = self.is_damaged or self.size_bytes == 0
        if found.st_size < self.size_bytes or (found.st_size > self.size_bytes and is_nothing):
            return Fate.REPLACED
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            if _edges(file.fileno(), self.size_bytes) != self.edges:
                return Fate.REPLACED
            if found.st_size > self.size_bytes:
                return Fate.GROWN
            # A file that is written on just now may have its new time before its new size.
            is_same = self.whole in {_UNKNOWN, _checksum(file.fileno(), self.size_bytes)}
        return Fate.SAME if is_same else Fate.REPLACED


def modified_ns(found: os.stat_result) -> int:
    """Return when a file was modified last; in 2262, the last year that 64 bits hold, if later."""
    return min(found.st_mtime_ns, _LAST_NS)


def checksum(path: str, size_bytes: int) -> int:
    """Return the CRC-32 of a file's first bytes, as they lie on the disk."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return _checksum(file.fileno(), size_bytes)


def _checksum(descriptor: int, size_bytes: int) -> int:
    room = memoryview(bytearray(_CHUNK_BYTES))
    found, at = 0, 0
    while read := os.preadv(descriptor, [room[: size_bytes - at]], at):
        found, at = zlib.crc32(room[:read], found), at + read
    return found


def _edges(descriptor: int, size_bytes: int) -> int:
    head = os.pread(descriptor, min(size_bytes, _EDGE_BYTES), 0)
    rest = min(size_bytes - len(head), _EDGE_BYTES)
    end = os.pread(descriptor, rest, size_bytes - rest)
    digest = hashlib.blake2b(head + end, digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class ContentsFile:
    """What the files of a ledger held, by their positions."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, position: int, held: Contents | None) -> None:
        """Note what a file held, if that can be: without it, its path alone counts."""
        known = (0,) * 5
        if held is not None:
            state = _DAMAGED if held.is_damaged else _COUNTS
            known = (state, held.size_bytes, held.mtime_ns, held.whole, held.edges)
        with suppress(OSError):
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.pwrite(descriptor, struct.pack(_RECORD, *known), position * _RECORD_BYTES)
            finally:
                os.close(descriptor)

    def read(self, position: int) -> Contents | None:
        """Return what a file held; ``None`` if that is not known."""
        return dict(self.between(position, position + 1)).get(position)

    def between(self, start: int, end: int) -> Iterator[tuple[int, Contents]]:
        """Yield what is known of the files between two positions."""
        for position, known in enumerate(self._known(start, end - start).tolist(), start):
            if known[0]:
                yield position, _contents(known)

    def alike(self, kinds: Collection[tuple[int, int]]) -> Iterator[tuple[int, Contents]]:
        """Yield what files held that have one of these pairs of a size and a time in ns."""
        sizes, times = np.array([*kinds], np.int64).reshape(-1, 2).T
        mixed, start = sizes * _MIX + times, 0
        while len(known := self._known(start, _TOGETHER)):
            may_be = np.isin(known[:, 1] * _MIX + known[:, 2], mixed) & (known[:, 0] != 0)
            for at in np.flatnonzero(may_be).tolist():
                held = _contents(known[at].tolist())
                if (held.size_bytes, held.mtime_ns) in kinds:
                    yield start + at, held
            start += len(known)

    def _known(self, start: int, number: int) -> NDArray[np.int64]:
        """Return the integers of so many files from a position on, a row each."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(start * _RECORD_BYTES)
            found = file.read(number * _RECORD_BYTES)
            whole = found[: len(found) // _RECORD_BYTES * _RECORD_BYTES]
            return np.frombuffer(whole, "<i8").reshape(-1, 5)
        return np.empty((0, 5), np.int64)


def _contents(known: Sequence[int]) -> Contents:
    state, size_bytes, mtime_ns, whole, edges = known
    return Contents(size_bytes, mtime_ns, edges, whole, state == _DAMAGED)


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a file: which one, where it lies, and where it lay when ``taken`` were in."""

    fate: str
    position: int
    path: str
    was: str
    taken: int

    def __str__(self) -> str:
        return f"{self.was!r} to {self.path!r}" if self.fate == Fate.MOVED else repr(self.path)


WHAT_TO_DO = "write what comes next into new files, each moved in once it is whole"
"""About files that grow."""

_NAMED = 3
_IN_WORDS = {
    Fate.MOVED: "Moved, and not counted again: {}.",
    Fate.REPLACED: "Replaced since, and counted as new: {}.",
    Fate.GROWN: f"Grown since, and what was added is not counted: {{}}; {WHAT_TO_DO}.",
}


def in_words(changes: Sequence[Change]) -> Iterator[str]:
    """Yield what became of files, a sentence each kind.

    >>> list(in_words([Change("moved", 0, "/in/b.json", "/in/a.json", 1)]))
    ["Moved, and not counted again: '/in/a.json' to '/in/b.json'."]
    """
    for fate, sentence in _IN_WORDS.items():
        if those := [str(each) for each in changes if each.fate == fate]:
            yield sentence.format(first_of(those))


def first_of(names: Sequence[str]) -> str:
    """Return the first of many in words, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
