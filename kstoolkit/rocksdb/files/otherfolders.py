"""Where a store keeps files outside its own folder.

RocksDB can be told to write SST files elsewhere (``db_paths``, ``cf_paths``), and the WAL
(``wal_dir``), and the log (``db_log_dir``). The OPTIONS file tells the last two. It never tells the
paths of SST files: the head of the log does, but for those of column families, which stand nowhere
(RocksDB's ``options/db_options.cc`` and ``db/db_info_dumper.cc``).

What is told was true where the writer ran. RocksDB before 6.23 writes the store's own folder as its
``wal_dir``, and stores are moved and copied: so a told folder that is itself a store is where this
one once lay, or what it is a copy of, and never taken for a part of it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError, InputError
from kstoolkit.rocksdb.files.optionsections import option_in, parse_options

if TYPE_CHECKING:
    from collections.abc import Iterable


_OPTIONS = re.compile(r"OPTIONS-(\d+)")
_HEAD_BYTES = 64 << 10  # of a log; the folders stand among its first lines
_TABLES = re.compile(rb"SST files in (.+) dir, Total Num")
_WAL = re.compile(rb"Write Ahead Log file in (.+): ")
_NO_NAME = re.compile(r"[^a-zA-Z0-9._-]")
_LONGEST_NAME = 260 - len("_LOG\0")  # InfoLogPrefix, in RocksDB's file/filename.h


class MissingFolderError(InputError):
    """A store with files outside its own folder, where nobody can find them."""


@dataclass(frozen=True, slots=True)
class OtherFolders:
    """The folders, beside its own, that a store has files in.

    Attributes
    ----------
    wal
        The one with its WAL; None if that is in the store's own.
    tables
        Those with SST and blob files, as far as they are told and there.
    gone
        Those that are told and not there.
    """

    wal: Path | None = None
    tables: tuple[Path, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[Path, ...]:
        """Each of them, once."""
        return tuple(dict.fromkeys((*([self.wal] if self.wal else []), *self.tables)))


def other_folders_of(folder: Path) -> OtherFolders:
    """Return where a store keeps files outside its folder, as its OPTIONS file and log tell.

    Raises
    ------
    MissingFolderError
        If the folder that has the WAL is not there: newer rows would be missing without a sign.
    OSError
        If a file can't be read.
    """
    wal_dir = _told_option(folder, "wal_dir")
    tables, told_wal = _told_by_log(folder)
    # Where no wal_dir is set, the log names the store's own folder, as it was called then.
    own = {told_wal} if told_wal and (not wal_dir or tables == [told_wal]) else set()
    wal = None if not wal_dir or wal_dir in own else _wal_folder(folder, wal_dir)
    others = [each for each in tables if each not in own and not _is_store(Path(each))]
    return OtherFolders(
        wal,
        tuple(Path(each) for each in others if _is_there(Path(each))),
        tuple(each for each in others if not _is_there(Path(each))),
    )


def log_folder(folder: Path) -> Path | None:
    """Return the ``db_log_dir`` of a store; None if its log lies in its own folder."""
    told = _told_option(folder, "db_log_dir")
    return Path(told) if told else None


def logs_of(folder: Path, elsewhere: Path) -> list[str]:
    """Return what a store's log may be called in a ``db_log_dir``, likeliest first.

    The name is the store's path with other than plain characters made ``_``. If the store has been
    moved since, it is the only one that is there, if there is only one.

    Raises
    ------
    OSError
        If ``elsewhere`` can't be listed.

    Examples
    --------
    >>> import tempfile
    >>> logs_of(Path("/data/my store"), Path(tempfile.mkdtemp()))
    ['data_my_store_LOG']
    """
    paths = dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder)))  # noqa: PTH100 - a link may be in it
    names = [_NO_NAME.sub("_", each[1:])[:_LONGEST_NAME] + "_LOG" for each in paths]
    there = {each.name for each in elsewhere.iterdir() if each.name.endswith("_LOG")}
    alone = elsewhere.is_absolute() and len(there) == 1
    return [each for each in names if each in there] or (list(there) if alone else names)


def _told_option(folder: Path, name: str) -> str:
    """Return an option of the store as a whole, as its newest OPTIONS file has it; or nothing.

    Raises
    ------
    OSError
        If the folder can't be listed, or the file not be read.
    """
    numbered = [(int(found[1]), each) for each in folder.iterdir() if (found := _named(each))]
    for _, file in sorted(numbered, reverse=True):
        with suppress(
            FileNotFoundError, FormatError
        ):  # a newer one took its place; it is no such file
            told = parse_options(file.read_text(encoding="utf-8", errors="surrogateescape"))
            return option_in(told, "DBOptions", name) or ""
    return ""


def _named(file: Path) -> re.Match[str] | None:
    return _OPTIONS.fullmatch(file.name)


def _wal_folder(folder: Path, told: str) -> Path | None:
    place = Path(told)
    if _is_there(place):
        return None if _is_store(place) else place
    if any(each.suffix == ".log" and each.stem.isdigit() for each in folder.iterdir()):
        return None  # moved here, WAL and all
    message = f"The store {folder} keeps its WAL in {told} (wal_dir), which is not there."
    hint = (
        "Mount that folder, or name the one that has its .log files now with other_folders=[...]; "
        "other_folders=[] opens the store without the rows that are in its WAL alone."
    )
    raise MissingFolderError(message, hint=hint)


def _told_by_log(folder: Path) -> tuple[list[str], str]:
    """Return where the log says that SST files and the WAL lie; nothing if there is no log."""
    for log in _possible_logs(folder):
        with suppress(OSError), log.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            wal = _WAL.search(head)
            return _texts(_TABLES.findall(head)), os.fsdecode(wal[1]) if wal else ""
    return [], ""


def _possible_logs(folder: Path) -> list[Path]:
    elsewhere = log_folder(folder)
    if elsewhere is None:
        return [folder / "LOG"]
    with suppress(OSError):
        return [elsewhere / name for name in logs_of(folder, elsewhere)]
    return []


def _texts(found: Iterable[bytes]) -> list[str]:
    return [os.fsdecode(each) for each in dict.fromkeys(found)]


def _is_there(told: Path) -> bool:
    """Return whether a folder is there; a relative path was so to where the writer ran."""
    return told.is_absolute() and told.is_dir()


def _is_store(folder: Path) -> bool:
    return (folder / "CURRENT").is_file()
