"""Where a store's log lies: which files, in which order, and their lines, however large they are.

RocksDB writes ``LOG``, and renames it to ``LOG.old.<microseconds>`` when it opens the store anew or
the file has reached its limit. With ``db_log_dir`` set they lie there, and are called after the
store's path. Logs of Spark are rolled by log4j under any names, and often packed with gzip.
"""

from __future__ import annotations

import gzip
import re
import zlib
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import InputError
from kstoolkit.rocksdb.files.otherfolders import log_folder, logs_of
from kstoolkit.rocksdb.log.lines import lines_of, time_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import BinaryIO


LONGEST_LINE_BYTES = 1 << 20
"""What is kept of a line: RocksDB's own are shorter, and a file without line ends is no log."""

_OLD = r"\.old\.([0-9]{1,20})"
_OPTIONS = re.compile(r"OPTIONS-([0-9]{1,20})")
_LEVEL_OPTION = re.compile(rb"^\s*info_log_level\s*=\s*([A-Z]+)_LEVEL", re.MULTILINE)
_OF_SPARK = re.compile(r"(?![0-9]+\.log$).+\.log([._-].*)?|(stderr|stdout)([._-].*)?")
_GZIP = b"\x1f\x8b"
_LINES_TO_A_TIME = 1_000
_WHAT = (
    "Give the folder of a store, a LOG file, or a log of Spark with [NativeRocksDB-...] lines or a "
    "folder of such."
)


def log_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a log, oldest first.

    Those of a store, in its folder and its ``db_log_dir``; or those of Spark in a folder that is no
    store; or the file itself.

    Raises
    ------
    InputError
        If there is no such path, no log in it, or it is a file without a line of a log.

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
    try:
        is_file, is_folder = place.is_file(), place.is_dir()
    except OSError as error:  # its name is too long, or it may not be looked at
        message = f"The log {place} can't be read: {error.strerror}."
        raise InputError(message, hint=_WHAT) from error
    if is_file:
        _check_is_log(place)
        return [place]
    if not is_folder:
        message = f"There is no log at {place}."
        raise InputError(message, hint=_WHAT)
    found = [*_rotated(place, "LOG"), *_logs_elsewhere(place)]
    if not found and not (place / "CURRENT").exists():
        found = _logs_of_spark(place)
    if not found:
        message = f"The folder {place} has no LOG."
        hint = f"{_WHAT} Spark writes no LOG: its lines go to the logs of its executors."
        raise InputError(message, hint=hint)
    return found


def text_lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file one by one, in bounded memory; odd bytes become U+FFFD.

    What gzip packed is unpacked.

    Raises
    ------
    InputError
        If the file can't be read.
    """
    try:
        with _unpacked(file) as log:
            while piece := log.readline(LONGEST_LINE_BYTES):
                yield piece.decode("utf-8", "replace").rstrip("\r\n")
                while piece and not piece.endswith(b"\n"):
                    piece = log.readline(LONGEST_LINE_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"{file} can't be unpacked: {error}."
        raise InputError(message, hint="Is it still being packed? Then read it later.") from error
    except OSError as error:
        message = f"{file} can't be read: {error.strerror}."
        raise InputError(message, hint="Its owner may have rotated it: read the log again.") from (
            error
        )


def _unpacked(file: Path) -> BinaryIO:
    with file.open("rb") as log:
        packed = log.read(len(_GZIP)) == _GZIP
    return gzip.open(file) if packed else file.open("rb")  # type: ignore[return-value] # it reads alike


def _rotated(folder: Path, name: str) -> list[Path]:
    newest = [folder / name] if (folder / name).is_file() else []
    return _numbered(folder, re.compile(re.escape(name) + _OLD)) + newest


def _logs_elsewhere(folder: Path) -> list[Path]:
    """Return the files of a store's log in its ``db_log_dir``, if it has one."""
    try:
        elsewhere = log_folder(folder)
        names = [] if elsewhere is None else logs_of(folder, elsewhere)
    except OSError as error:
        message = f"The log of the store {folder} can't be read: {error}."
        hint = "Its OPTIONS file says where the log is (db_log_dir); give the LOG file itself."
        raise InputError(message, hint=hint) from error
    if elsewhere is None:
        return []
    found = [file for name in names for file in _rotated(elsewhere, name)]
    if not found:
        message = f"No log of the store {folder} in {elsewhere} (db_log_dir)."
        there = ", ".join(sorted(each.name for each in elsewhere.glob("*_LOG"))[:3])
        raise InputError(message, hint=f"Give the LOG file itself; it has {there or 'none'}.")
    return found


def _logs_of_spark(folder: Path) -> list[Path]:
    """Return the logs in a folder by the first time that each tells: names are anyone's.

    Spark's times are of whole seconds; in the same one, what was changed last comes last.
    """
    found = [each for each in folder.iterdir() if _OF_SPARK.fullmatch(each.name) and each.is_file()]
    return sorted(found, key=lambda each: (_first_time(each), each.stat().st_mtime_ns))


def _check_is_log(file: Path) -> None:
    """Refuse a file without any line of a log; an empty one is a log that is silent."""
    if file.stat().st_size and not any(map(_begins, text_lines(file))):
        message = f"{file} is no log of RocksDB, nor one of Spark: no line of it is a log's."
        raise InputError(message, hint=_WHAT)


def _begins(text: str) -> bool:
    """Return whether a line of a log begins here, whoever wrote it."""
    return time_of(text) is not None or any(not line.continued for line in lines_of(text))


def _first_time(file: Path) -> str:
    head = islice(text_lines(file), _LINES_TO_A_TIME)
    return next((str(time) for line in head if (time := time_of(line))), "")


def logged_level(folder: Path) -> str | None:
    """Return the log level that the newest OPTIONS file of a folder says; None if there is none."""
    for file in reversed(_numbered(folder, _OPTIONS)):
        try:
            match = _LEVEL_OPTION.search(file.read_bytes())
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
