"""Whether a path is a store, where one lies nearby, and where it keeps files outside its folder.

RocksDB can be told to write SST files elsewhere (``db_paths``, ``cf_paths``), and the WAL
(``wal_dir``), and the log (``db_log_dir``). The OPTIONS file tells the last two. It never tells the
paths of SST files: the head of the log does, but for those of column families, which stand nowhere
(RocksDB's ``options/db_options.cc`` and ``db/db_info_dumper.cc``).

What is told was true where the writer ran. RocksDB before 6.23 writes the store's own folder as its
``wal_dir``, and stores are moved and copied: so a told folder that is itself a store is where this
one once lay, or what it is a copy of, and never taken for a part of it.

A snapshot of Spark's, ``<version>.zip`` in a checkpoint, holds all of a store but its SST files.
Those lie in the folder ``SSTs`` beside it, shared by all versions, under names of their own; the
file ``metadata`` in the snapshot says which is which: a line ``v1``, then JSON.

If a store can't be opened, its own files tell more of the reason than RocksDB's words.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version as version_of
from pathlib import Path

from kstoolkit.errors import FormatError, InputError, KstoolkitError, Option, Sentence, naming
from kstoolkit.rocksdb.faults import (
    DamagedStoreError,
    EncryptedStoreError,
    MissingFileError,
    NewerFormatError,
    NoStoreError,
    StorePermissionError,
)
from kstoolkit.rocksdb.files.options import option_files, option_in, parse_options, read_options
from kstoolkit.rocksdb.files.ssts import NEWEST_READABLE, read_footer

_MANIFEST = re.compile(rb"MANIFEST-\d+\n?")
_REMAINS = re.compile(r"\d+\.sst|MANIFEST-\d+")
_READ = re.compile(r"\d+\.(sst|blob|log)|(MANIFEST|OPTIONS)-\d+.*|CURRENT|IDENTITY|LOG.*")
_SEGMENT = re.compile(r"[.:-][0-9]{1,19}")
_LARGEST_CURRENT_BYTES = 4096
_FOLDERS_LOOKED_INTO = 2_000
_NAMED = 3
REBUILD_HINT = (
    "Nothing else says which of its files count: restore the folder from a backup, or let its "
    "engine rebuild the store, Kafka Streams from the changelog and Spark from the checkpoint."
)
"""What to do with a store that lost its CURRENT or MANIFEST."""
_SSTS = "'<checkpoint>/state/<operator>/<partition>/SSTs'"
_SPARKS = Option("other_folders", f"[{_SSTS}]", f"--other-folder {_SSTS}")
_OTHERS = Option("other_folders", "[...]", "--other-folder PATH")
_NO_OTHERS = Sentence("other_folders=[]", "in Python, other_folders=[]")
_UNPACK = naming(
    "Of Spark's state, unpack a snapshot <version>.zip into an empty folder, and open that one "
    "with {folders}.",
    folders=_SPARKS,
)


def check_is_path(folder: Path) -> None:
    """Check that something can be called so at all, whether it is there or not."""
    try:
        folder.lstat()
    except ValueError as error:
        raise _no_path(folder, "it has a character 0 in it") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _no_path(folder, "it is too long") from error


def check_is_store(folder: Path) -> None:
    """Check that a folder holds a RocksDB store that can be made out; nothing is written."""
    check_is_path(folder)
    try:
        odd = irregular_files(folder)
        if odd:
            raise _no_files(folder, odd)
        with (folder / "CURRENT").open("rb") as file:
            current = file.read(_LARGEST_CURRENT_BYTES)
    except PermissionError as error:
        message = f"The store {folder} may not be read by this user."
        hint = "Read permission on the folder and its files is enough; ask the owner for it."
        raise StorePermissionError(message, hint=hint) from error
    except OSError as error:
        raise _no_store(folder) from error
    if not _MANIFEST.fullmatch(current):
        raise _no_manifest(folder, current)


def irregular_files(folder: Path) -> set[str]:
    """Return the names of what should be a store's file and is none: a pipe, a socket, a device.

    To open one may take for ever: a pipe waits until somebody writes.
    """
    with os.scandir(folder) as entries:
        return {
            each.name
            for each in entries
            if _READ.fullmatch(each.name) and not each.is_file()
            if Path(each).exists()  # else it is gone by now, or a link to what is not there
        }


def _stores_below(folder: Path) -> list[Path]:
    """Return some stores below a folder, nearest first; of one in segments their common folder."""
    found: dict[Path, None] = {}
    waiting = deque([folder])
    for _ in range(_FOLDERS_LOOKED_INTO):
        if not waiting or len(found) > _NAMED:
            break
        here = waiting.popleft()
        with suppress(OSError), os.scandir(here) as entries:
            inside = sorted(entries, key=lambda each: each.name)
            if any(each.name == "CURRENT" for each in inside):
                parent = here.parent  # which is the store, if this is a segment
                number = here.name.removeprefix(parent.name)
                is_segment = number != here.name and _SEGMENT.fullmatch(number)
                found[parent if is_segment and parent != folder else here] = None
            waiting.extend(Path(each) for each in inside if each.is_dir(follow_symlinks=False))
    return list(found)


def _no_path(folder: Path, why: str) -> NoStoreError:
    message = f"{str(folder)!r} is no path of a store: {why}."
    return NoStoreError(message, hint="Give the path of a store's folder.")


def _no_store(folder: Path) -> NoStoreError | DamagedStoreError:
    if not folder.exists():
        near = next((each for each in folder.absolute().parents if each.is_dir()), Path("/"))
        message = f"There is no {folder}."
        return NoStoreError(message, hint=f"{near} is the last folder of this path that there is.")
    if folder.is_file() and folder.suffix == ".zip":
        message = f"{folder} is a packed snapshot; a store is a folder."
        return NoStoreError(message, hint=_UNPACK)
    if folder.is_file():
        message = f"{folder} is a file; a store is a folder."
        return NoStoreError(message, hint=f"Give the folder that it lies in: {folder.parent}")
    if _has_remains(folder):
        message = f"The store {folder} is damaged: CURRENT, which names its MANIFEST, is missing."
        return DamagedStoreError(message, hint=REBUILD_HINT)
    message = f"No RocksDB store in {folder}: the folder has no CURRENT file."
    return NoStoreError(message, hint=_where_stores_lie(folder))


def _has_remains(folder: Path) -> bool:
    """Return whether a folder without a CURRENT file has other files of a store."""
    with suppress(OSError):
        return any(_REMAINS.fullmatch(each.name) for each in folder.iterdir())
    return False


def _where_stores_lie(folder: Path) -> str:
    below = _stores_below(folder)
    if below:
        more = ", and more" if len(below) > _NAMED else ""
        told = f"There is one in {', '.join(map(str, below[:_NAMED]))}{more}."
        return told if len(below) == 1 else f"{told} kstoolkit stores {folder} lists them all."
    if any(folder.glob("*.zip")):
        return _UNPACK
    return (
        "Kafka Streams keeps its stores under "
        "<state.dir>/<application.id>/<task>/rocksdb/<store>, and those of windows under "
        "<task>/<store>/<segment>."
    )


def _no_files(folder: Path, names: set[str]) -> DamagedStoreError:
    message = (
        f"The store {folder} can't be read: {', '.join(sorted(names))} is no file, but a pipe, a "
        "socket, a device or a folder."
    )
    return DamagedStoreError(message, hint="Copy the store's files into a folder of their own.")


def _no_manifest(folder: Path, current: bytes) -> EncryptedStoreError | DamagedStoreError:
    if current and not current.isascii():
        message = f"The store {folder} is encrypted, or not RocksDB's: CURRENT is no text."
        return EncryptedStoreError(message, hint="Only the application that has its key reads it.")
    message = f"The store {folder} is damaged: CURRENT names no MANIFEST but {current[:40]!r}."
    return DamagedStoreError(message, hint=REBUILD_HINT)


_HEAD_BYTES = 64 << 10  # of a log; the folders stand among its first lines
_TABLES = re.compile(rb"SST files in (.+) dir, Total Num")
_WAL = re.compile(rb"Write Ahead Log file in (.+): ")
_NO_NAME = re.compile(r"[^a-zA-Z0-9._-]")
_LONGEST_NAME = 260 - len("_LOG\0")  # InfoLogPrefix, in RocksDB's file/filename.h


class MissingFolderError(InputError):
    """A store with files outside its own folder, where nobody can find them."""


@dataclass(frozen=True, slots=True)
class OtherFolders:
    """The folders, beside its own, that a store has files in; ``gone`` are told, and not there."""

    wal: Path | None = None
    tables: tuple[Path, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[Path, ...]:
        """Each of them, once."""
        return tuple(dict.fromkeys((*([self.wal] if self.wal else []), *self.tables)))


def other_folders_of(folder: Path) -> OtherFolders:
    """Return where a store keeps files outside its folder, as its OPTIONS file and log tell.

    Without the folder that has the WAL, newer rows would be missing without a sign: that is raised.
    """
    wal_dir = store_option(folder, "wal_dir")
    tables, told_wal = _folders_in_log(folder)
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
    told = store_option(folder, "db_log_dir")
    return Path(told) if told else None


def logs_of(folder: Path, elsewhere: Path) -> list[str]:
    """Return what a store's log may be called in a ``db_log_dir``, likeliest first.

    The name is the store's path with other than plain characters made ``_``. If the store has been
    moved since, it is the only one that is there, if there is only one.

    >>> import tempfile
    >>> logs_of(Path("/data/my store"), Path(tempfile.mkdtemp()))
    ['data_my_store_LOG']
    """
    paths = dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder)))  # noqa: PTH100 - a link may be in it
    names = [_NO_NAME.sub("_", each[1:])[:_LONGEST_NAME] + "_LOG" for each in paths]
    there = {each.name for each in elsewhere.iterdir() if each.name.endswith("_LOG")}
    alone = elsewhere.is_absolute() and len(there) == 1
    return [each for each in names if each in there] or (list(there) if alone else names)


def store_option(folder: Path, name: str) -> str:
    """Return an option of the store as a whole, as its newest OPTIONS file has it; or nothing."""
    for file in option_files(folder):
        with suppress(FileNotFoundError, FormatError):  # a newer one took its place; it is none
            told = parse_options(file.read_text(encoding="utf-8", errors="surrogateescape"))
            return option_in(told, "DBOptions", name) or ""
    return ""


def _wal_folder(folder: Path, told: str) -> Path | None:
    place = Path(told)
    if _is_there(place):
        return None if _is_store(place) else place
    if any(each.suffix == ".log" and each.stem.isdigit() for each in folder.iterdir()):
        return None  # moved here, WAL and all
    message = f"The store {folder} keeps its WAL in {told} (wal_dir), which is not there."
    hint = (
        "Mount that folder, or name the one that has its .log files now with {others}; "
        "{none} opens the store without the rows that are in its WAL alone."
    )
    raise MissingFolderError(message, hint=naming(hint, others=_OTHERS, none=_NO_OTHERS))


def _folders_in_log(folder: Path) -> tuple[list[str], str]:
    """Return where the log says that SST files and the WAL lie; nothing if there is no log."""
    for log in _possible_logs(folder):
        with suppress(OSError), log.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            wal = _WAL.search(head)
            tables = dict.fromkeys(map(os.fsdecode, _TABLES.findall(head)))
            return list(tables), os.fsdecode(wal[1]) if wal else ""
    return [], ""


def _possible_logs(folder: Path) -> list[Path]:
    elsewhere = log_folder(folder)
    if elsewhere is None:
        return [folder / "LOG"]
    with suppress(OSError):
        return [elsewhere / name for name in logs_of(folder, elsewhere)]
    return []


def _is_there(told: Path) -> bool:
    """Return whether a folder is there; a relative path was so to where the writer ran."""
    return told.is_absolute() and told.is_dir()


def _is_store(folder: Path) -> bool:
    return (folder / "CURRENT").is_file()


_HEAD = b"v1\n"
_LOCAL = re.compile(r"\d+\.sst")
_SHARED = re.compile(r"[\w.-]+\.sst")


def shared_names(folder: Path) -> dict[str, str]:
    """Return under which name Spark keeps each SST file of a snapshot; nothing of none."""
    try:
        content = (folder / "metadata").read_bytes()
    except FileNotFoundError:
        return {}
    if not content.startswith(_HEAD):
        return {}
    try:
        files = json.loads(content[len(_HEAD) :])["sstFiles"]
        pairs = [(each["localFileName"], each["dfsSstFileName"]) for each in files]
        return {a: b for a, b in pairs if _LOCAL.fullmatch(a) and _SHARED.fullmatch(b)}
    except (ValueError, LookupError, TypeError):
        return {}


def explained(error: FormatError, scratch: Path, folder: Path) -> FormatError:
    """Return an error with what the files themselves tell of their format, where it tells more."""
    footers = [read_footer(each) for each in scratch.glob("*.sst")]  # None: not a table's end
    unreadable = "magic number" in error.message or "MANIFEST" in error.message
    if unreadable and footers and not any(footers):
        message = f"The store {folder} is encrypted, or damaged: no SST file ends as one should."
        return EncryptedStoreError(message, hint="Only the application that has its key reads it.")
    if any(each and each.format_version is None for each in footers):
        message = f"The store {folder} has SST files that are not block-based tables."
        return FormatError(message, hint="Stores of plain or cuckoo tables can't be read here.")
    newest = max((each.format_version or 0 for each in footers if each), default=0)
    if not isinstance(error, NewerFormatError) or newest <= NEWEST_READABLE:
        return error
    message = (
        f"The store {folder} has SST files of format_version {newest}, written by RocksDB "
        f"{_writer(scratch)}; rocksdict {version_of('rocksdict')} reads up to {NEWEST_READABLE}."
    )
    return NewerFormatError(message, hint=error.hint)


def _writer(scratch: Path) -> str:
    try:
        return option_in(read_options(scratch), "Version", "rocksdb_version") or "unknown"
    except KstoolkitError:
        return "unknown (no OPTIONS file)"


def elsewhere_perhaps(
    error: MissingFileError, folder: Path, others: OtherFolders
) -> MissingFileError | MissingFolderError:
    """Return an error that says where a missing file may lie, if anything tells."""
    if shared_names(folder):
        message = f"{folder} is a snapshot of Spark's: it has no SST files of its own."
        hint = (
            "They lie in the checkpoint, in the folder SSTs beside the snapshot's .zip: give "
            "{folders}."
        )
        return MissingFolderError(message, hint=naming(hint, folders=_SPARKS))
    if others.gone:
        message = f"The store {folder} has files in {', '.join(others.gone)}, which is not there."
        hint = "Mount it, or name the folder that they are in now with {others}."
        return MissingFolderError(message, hint=naming(hint, others=_OTHERS))
    hint = "{before} If it has more folders (cf_paths, db_paths), give them as {others}."
    return MissingFileError(error.message, hint=naming(hint, before=error.hint, others=_OTHERS))
