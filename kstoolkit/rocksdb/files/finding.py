"""Whether a path is a store, and, if not, where one lies nearby."""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from contextlib import suppress
from pathlib import Path

from kstoolkit.rocksdb.faults import (
    DamagedStoreError,
    EncryptedStoreError,
    NoStoreError,
    StorePermissionError,
)

_MANIFEST = re.compile(rb"MANIFEST-\d+\n?")
_LEFT = re.compile(r"\d+\.sst|MANIFEST-\d+")
_READ = re.compile(r"\d+\.(sst|blob|log)|(MANIFEST|OPTIONS)-\d+.*|CURRENT|IDENTITY|LOG.*")
_SEGMENT = re.compile(r"[.:-][0-9]{1,19}")
_LARGEST_CURRENT_BYTES = 4096
_FOLDERS_LOOKED_INTO = 2_000
_NAMED = 3
_UNPACK = (
    "Of Spark's state, unpack a snapshot <version>.zip into an empty folder, and open that one "
    "with other_folders=['<checkpoint>/state/<operator>/<partition>/SSTs']."
)


def check_is_path(folder: Path) -> None:
    """Check that something can be called so at all, whether it is there or not.

    Raises
    ------
    NoStoreError
        If the name is too long, or has a character 0 in it.
    """
    try:
        folder.lstat()
    except ValueError as error:
        raise _no_path(folder, "it has a character 0 in it") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _no_path(folder, "it is too long") from error


def check_is_store(folder: Path) -> None:
    """Check that a folder holds a RocksDB store that can be made out; nothing is written.

    Raises
    ------
    NoStoreError
        If the path is missing, a file, or a folder without a store.
    StorePermissionError
        If this user may not look into it.
    EncryptedStoreError, DamagedStoreError
        If its CURRENT file names no MANIFEST, or what should be a file of it is none.
    """
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


def has_remains(folder: Path) -> bool:
    """Return whether a folder without a CURRENT file that is one still has files to be read.

    Raises
    ------
    OSError
        If the folder can't be listed.
    """
    if not folder.is_dir() or irregular_files(folder):
        return False
    return any(_LEFT.fullmatch(each.name) for each in folder.iterdir())


def irregular_files(folder: Path) -> set[str]:
    """Return the names of what should be a store's file and is none: a pipe, a socket, a device.

    To open one may take for ever: a pipe waits until somebody writes.

    Raises
    ------
    OSError
        If the folder can't be listed.
    """
    with os.scandir(folder) as entries:
        return {
            each.name
            for each in entries
            if _READ.fullmatch(each.name) and not each.is_file() and not _leads_nowhere(each)
        }


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    """Return whether what was listed is gone by now, or is a link to what is not there."""
    return not Path(entry).exists()


def stores_below(folder: Path) -> list[Path]:
    """Return some stores below a folder, nearest first; it stops after a few thousand folders.

    Of a store in segments it is the folder that holds them.
    """
    found: dict[Path, None] = {}
    waiting = deque([folder])
    for _ in range(_FOLDERS_LOOKED_INTO):
        if not waiting or len(found) > _NAMED:
            break
        here = waiting.popleft()
        with suppress(OSError), os.scandir(here) as entries:
            inside = sorted(entries, key=lambda each: each.name)
            if any(each.name == "CURRENT" for each in inside):
                found[_whole(here, folder)] = None
            waiting.extend(Path(each) for each in inside if each.is_dir(follow_symlinks=False))
    return list(found)


def _no_path(folder: Path, why: str) -> NoStoreError:
    message = f"{str(folder)!r} is no path of a store: {why}."
    return NoStoreError(message, hint="Give the path of a store's folder.")


def _no_store(folder: Path) -> NoStoreError:
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
    message = f"No RocksDB store in {folder}: the folder has no CURRENT file."
    return NoStoreError(message, hint=_where_stores_lie(folder))


def _where_stores_lie(folder: Path) -> str:
    below = stores_below(folder)
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


def _whole(found: Path, asked: Path) -> Path:
    """Return the folder of the store that what was found is a segment of, or what was found."""
    parent = found.parent
    number = found.name.removeprefix(parent.name)
    is_segment = number != found.name and _SEGMENT.fullmatch(number)
    return parent if is_segment and parent != asked else found


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
    hint = "Restore the folder from a backup, or rebuild the store from its changelog."
    return DamagedStoreError(message, hint=hint)
