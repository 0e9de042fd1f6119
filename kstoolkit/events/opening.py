"""Files as streams of bytes: what they are compressed with, and what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow as pa

from kstoolkit.errors import ConfigurationError, InputError

__all__ = ["FORMATS", "FileFormat", "format_of", "open_stream"]

FileFormat = Literal["json", "csv", "parquet"]
FORMATS: tuple[FileFormat, ...] = ("json", "csv", "parquet")

_BY_SUFFIX: dict[str, FileFormat] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
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
    named = [_BY_SUFFIX[suffix] for suffix in suffixes if suffix in _BY_SUFFIX]
    if not named:
        message = f"The name of {Path(path).name!r} does not say which format it has."
        raise InputError(message, hint=f"Say it: --format {'|'.join(FORMATS)} (format=... in Python).")
    return named[-1]


def open_stream(path: str | Path) -> pa.NativeFile:
    """Open a file for reading, decompressed if its first bytes say gzip or zstd.

    Raises
    ------
    OSError
        If it can't be opened; while reading, if the compressed data is damaged or cut short.
    """
    with Path(path).open("rb") as file:
        start = file.read(4)
    compression = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    if compression is None and Path(path).suffix.lower() in _COMPRESSED:
        message = f"the name says compressed, but it begins with {start!r}"
        raise OSError(message)
    return pa.input_stream(str(path), compression=compression, buffer_size=1 << 20)
