"""Where a store's log lies: which files, in which order, and their lines, however large they are.

RocksDB writes ``LOG``, and renames it to ``LOG.old.<microseconds>`` when it opens the store anew or
the file has reached its limit.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["LONGEST_LINE_BYTES", "log_files", "logged_level", "text_lines"]

LONGEST_LINE_BYTES = 1 << 20
"""What is kept of a line: RocksDB's own are shorter, and a file without line ends is no log."""

_ROTATED = re.compile(r"LOG\.old\.([0-9]{1,20})")
_OPTIONS = re.compile(r"OPTIONS-([0-9]{1,20})")
_LEVEL = re.compile(rb"^\s*info_log_level\s*=\s*([A-Z]+)_LEVEL", re.MULTILINE)
_WHAT = "Give the folder of a store, a LOG file, or a log of Spark with [NativeRocksDB-...] lines."


def log_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a log, oldest first: those of a store's folder, or the file itself.

    Raises
    ------
    InputError
        If there is no such path, or the folder holds no LOG.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("LOG", "LOG.old.20", "LOG.old.3"):
    ...     (folder / name).touch()
    >>> [file.name for file in log_files(folder)]
    ['LOG.old.3', 'LOG.old.20', 'LOG']
    """
    place = Path(path)
    if place.is_file():
        return [place]
    if not place.is_dir():
        message = f"There is no log at {place}."
        raise InputError(message, hint=_WHAT)
    rotated = _numbered(place, _ROTATED)
    newest = [place / "LOG"] if (place / "LOG").is_file() else []
    if not rotated and not newest:
        message = f"The folder {place} has no LOG."
        hint = f"{_WHAT} Spark writes no LOG: its lines go to the logs of its executors."
        raise InputError(message, hint=hint)
    return rotated + newest


def text_lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file one by one, in bounded memory; odd bytes become U+FFFD.

    Raises
    ------
    InputError
        If the file can't be read.
    """
    try:
        with file.open("rb") as log:
            while piece := log.readline(LONGEST_LINE_BYTES):
                yield piece.decode("utf-8", "replace").rstrip("\r\n")
                while piece and not piece.endswith(b"\n"):
                    piece = log.readline(LONGEST_LINE_BYTES)
    except OSError as error:
        message = f"{file} can't be read: {error.strerror}."
        raise InputError(message, hint="Its owner may have rotated it: read the log again.") from (
            error
        )


def logged_level(folder: Path) -> str | None:
    """Return the log level that the newest OPTIONS file of a folder says; None if there is none."""
    for file in reversed(_numbered(folder, _OPTIONS)):
        try:
            match = _LEVEL.search(file.read_bytes())
        except OSError:  # a newer one took its place meanwhile
            continue
        return match[1].decode().lower() if match else None
    return None


def _numbered(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the files of a folder whose names carry a number, in the order of the numbers."""
    found = [
        (int(match[1]), file)
        for file in folder.iterdir()
        if (match := name.fullmatch(file.name)) and file.is_file()
    ]
    return [file for _, file in sorted(found)]
