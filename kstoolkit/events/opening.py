"""Files as streams of bytes: what they are compressed with, and what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow as pa

from kstoolkit.errors import ConfigurationError, InputError

FileFormat = Literal["json", "csv", "parquet"]
FORMATS: tuple[FileFormat, ...] = ("json", "csv", "parquet")

_SUFFIXES: dict[FileFormat, set[str]] = {
    "json": {".json", ".jsonl", ".ndjson"},
    "csv": {".csv"},
    "parquet": {".parquet", ".pq"},
}
_COMPRESSED = {".gz", ".zst", ".zstd", ".gzip"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def format_of(path: str | Path, given: str | None = None) -> FileFormat:
    """Return the format of a file: the given one, or what its name says.

    Raises
    ------
    ConfigurationError
        If the given format is unknown.
    InputError
        If the name says nothing.

    Examples
    --------
    >>> format_of("events/a.json.gz"), format_of("a.parquet"), format_of("a.log", "csv")
    ('json', 'parquet', 'csv')
    """
    if given is not None:
        if given not in FORMATS:
            message = f"The format {given!r} is unknown."
            raise ConfigurationError(message, hint=f"Known formats: {', '.join(FORMATS)}.")
        return given
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    for known, endings in _SUFFIXES.items():
        if endings.intersection(suffixes[-1:]):  # "a.json.tmp" is no JSON yet
            return known
    message = f"The name of {Path(path).name!r} does not say which format it has."
    hint = f"Say it: --format {'|'.join(FORMATS)} (format=... in Python)."
    raise InputError(message, hint=hint)


def open_stream(path: str | Path) -> pa.NativeFile:
    """Open a file for reading, decompressed if its first bytes say gzip or zstd.

    Raises
    ------
    OSError
        If it can't be opened; while reading, if the compressed data is damaged, cut short, or
        followed by something else.
    """
    check_name(path)
    with Path(path).open("rb") as file:
        start = file.read(4)
    compression = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    if compression is None and Path(path).suffix.lower() in _COMPRESSED:
        message = f"the name says compressed, but it begins with {start!r}"
        raise OSError(message)
    return pa.input_stream(str(path), compression=compression, buffer_size=1 << 20)


class WholeLineEnds:
    """A stream of bytes of which no read ends between CR and LF.

    Arrow's reader of CSV would take the LF for the end of a line, and drop it, in quoted text too.
    """

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
