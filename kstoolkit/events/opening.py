"""Files as streams of bytes: what they are compressed with, what they hold, whose fault it is.

A file that can't be read has damaged bytes, or a system that failed: descriptors or memory ran out,
a disk or a share did not answer, somebody may not read it. Damage stays; a fault may pass, so it is
tried again, and says nothing of the file. Arrow and Python give what the system said its number
(``errno``); what a decoder says of bytes has none.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import pyarrow as pa

from kstoolkit.errors import ConfigurationError, InputError, UnreadableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FileFormat = Literal["json", "csv", "parquet"]
FORMATS: tuple[FileFormat, ...] = ("json", "csv", "parquet")

_BY_ENDING: dict[str, FileFormat] = dict.fromkeys((".json", ".jsonl", ".ndjson"), "json")
_BY_ENDING |= {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_COMPRESSED = {".gz", ".zst", ".zstd", ".gzip"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
BOM = b"\xef\xbb\xbf"
Part = tuple[int, int]
"""Where a part of a file begins and ends: bytes of a text, row groups of a Parquet file."""


def format_of(path: str | Path, given: str | None = None) -> FileFormat:
    """Return the format of a file: the given one, or what its name says.

    An unknown format is a ConfigurationError, a name that says nothing an InputError.

    >>> format_of("events/a.json.gz"), format_of("a.parquet"), format_of("a.log", "csv")
    ('json', 'parquet', 'csv')
    """
    if given is not None:
        if given not in FORMATS:
            message = f"The format {given!r} is unknown."
            raise ConfigurationError(message, hint=f"Known formats: {', '.join(FORMATS)}.")
        return given
    known = told_format(str(path))
    if known is not None:
        return known
    message = f"The name of {Path(path).name!r} does not say which format it has."
    hint = f"Say it: --format {'|'.join(FORMATS)} (format=... in Python)."
    raise InputError(message, hint=hint)


def open_stream(path: str | Path, part: Part | None = None) -> pa.NativeFile:
    """Open a file for reading, decompressed if its first bytes say gzip or zstd; or a part of it.

    It is an OSError if it can't be opened; while reading, if the compressed data is damaged, cut
    short, or followed by something else.
    """
    check_name(path)
    if part is not None:
        return pa.OSFile(str(path)).get_stream(part[0], part[1] - part[0])
    with Path(path).open("rb") as file:
        start = file.read(4)
    compression = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    if compression is None and Path(path).suffix.lower() in _COMPRESSED:
        message = f"the name says compressed, but it begins with {start!r}"
        raise OSError(message)
    return pa.input_stream(str(path), compression=compression, buffer_size=1 << 20)


def text_parts(path: str, size_bytes: int, number: int, *, quotes: bool) -> list[Part]:
    """Return up to so many parts of a text, each of whole lines, none behind a byte order mark.

    It is one if the text is compressed, or has a quote, where ``quotes`` may hold ends of lines.
    """
    edges = {0, size_bytes}
    with Path(path).open("rb") as file:
        chunks = iter(lambda: file.read(1 << 20), b"") if quotes else ()
        if file.peek(4).startswith(tuple(_MAGIC)) or any(b'"' in chunk for chunk in chunks):
            number = 1
        for place in range(1, number):
            file.seek(size_bytes * place // number)
            while line := file.readline(1 << 20):
                edge = file.tell()
                if line.endswith(b"\n") and file.read(len(BOM)) != BOM:
                    edges.add(min(edge, size_bytes))
                    break
    return list(pairwise(sorted(edges)))


def told_format(path: str) -> FileFormat | None:
    """Return the format that a file's name says; ``None`` if it says none.

    >>> told_format("a/b.JSON.gz"), told_format("a.json.tmp"), told_format("a/.csv")
    ('json', None, None)
    """
    name, ending = os.path.splitext(path)  # noqa: PTH122 - of a million, each object counts
    if ending.lower() in _COMPRESSED:
        _, ending = os.path.splitext(name)  # noqa: PTH122
    return _BY_ENDING.get(ending.lower())


@contextmanager
def damage_told() -> Iterator[None]:
    """Have what Arrow says of a file's bytes raised as an OSError without a number."""
    try:
        yield
    except pa.ArrowMemoryError:  # says nothing of the file
        raise
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise OSError(str(error)) from error


def fault_in_words(error: Exception) -> str | None:
    """Return what the system failed at; ``None`` if it is the file that is damaged.

    >>> fault_in_words(OSError(5, "...")), fault_in_words(OSError("zlib inflate failed"))
    ('Input/output error', None)
    """
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return None


_PAUSES = (0.2, 1.0, 3.0)  # seconds before a file is tried again; a local Spark tries no task twice
_Read = TypeVar("_Read")


def patiently(path: str, read: Callable[[], _Read], *, how: str = "read") -> _Read:
    """Return what ``read`` does of a file, tried again while it is the system that fails.

    If that goes on for some seconds, it is an UnreadableFile. Whatever else is raised passes.
    """
    pauses = iter(_PAUSES)
    while True:
        try:
            return read()
        except (OSError, MemoryError) as error:
            why = fault_in_words(error)
            if why is None:
                raise
            pause = next(pauses, None)
            if pause is None:
                at_fault = getattr(error, "filename", None) or path
                raise UnreadableFile(str(at_fault), why, how=how) from error
        time.sleep(pause)


def patiently_each(path: str, begin: Callable[[], Iterator[_Read]]) -> Iterator[_Read]:
    """Yield what ``begin`` yields of a file; begun again after it where the system fails meanwhile.

    It has to yield the same each time. Errors are those of :func:`patiently`; that the file is
    another one by then is an OSError without a number.
    """
    known = patiently(path, lambda: _identity(path))
    pieces, number = begin(), 0

    def again() -> Iterator[_Read]:
        if _identity(path) != known:
            message = "it has changed meanwhile"
            raise OSError(message)
        yield from begin()

    def following() -> list[_Read]:
        nonlocal pieces
        try:
            return list(islice(pieces, 1))
        except (OSError, MemoryError):
            pieces = islice(again(), number, None)
            raise

    while found := patiently(path, following):
        number += 1
        yield from found


def _identity(path: str) -> tuple[int, ...]:
    found = os.stat(path)  # noqa: PTH116 - of a million, each object counts
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class WholeLineEnds:
    """A stream of which no read ends between CR and LF, where Arrow would drop a quoted LF."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._held = b""

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return bool(self._stream.closed)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def more(self, size: int) -> bytes:
        """Return what the stream has next."""
        return self._stream.read(size)  # type: ignore[no-any-return]

    def read(self, size: int) -> bytes:
        """Return at most so many bytes; none at the end."""
        while len(self._held) < size and (more := self.more(size)):
            self._held += more  # a read that is short would cut a record in three
        read = self._held[:size]
        if len(read) > 1 and read.endswith(b"\r"):
            read = read[:-1]
        self._held = self._held[len(read) :]
        return read


def check_name(path: str | Path) -> None:
    """Raise an OSError unless a file's name is UTF-8, as Arrow and Spark need it."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        message = "its name is not UTF-8: rename it"
        raise OSError(message) from error
