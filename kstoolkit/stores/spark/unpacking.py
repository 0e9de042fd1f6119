"""Snapshots of RocksDB, unpacked into a scratch folder, where RocksDB can open them.

SST files are linked, or copied where they can't be; all else is small and written anew. So nothing
in the checkpoint changes, whatever RocksDB does with the folder.
"""

from __future__ import annotations

import re
import shutil
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.statefiles import read_snapshot, with_delimiter
from kstoolkit.rocksdb.faults import DamagedStoreError, MissingFileError, translated
from kstoolkit.stores.spark.readfile import read_with

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from kstoolkit.formats.spark.statefiles import Snapshot, SnapshotFile


_TABLE, _LOG = re.compile(r"\d{1,20}\.sst"), re.compile(r"\d{1,20}\.log")
_HINT = "Read another version of the state: its snapshot may need other files."


def unpack(path: Path, into: Path, delimiter: bytes, *, partly: bool = False) -> Snapshot:
    """Unpack a snapshot into an empty folder, and return what it says of the store.

    Parameters
    ----------
    path
        The zip, in the folder that has the SST files in ``SSTs``.
    into
        The folder.
    delimiter
        What stands between values that are appended.
    partly
        Whether to leave out files that are missing, or shorter than they should be.

    Raises
    ------
    MissingFileError
        If it or a file that belongs to it is not there.
    FormatError
        If it is damaged, or names files that no snapshot has.
    """
    snapshot = read_with(path, read_snapshot)
    with translated(path):
        for name, raw in snapshot.members.items():
            bare = with_delimiter(raw, delimiter) if name.startswith("OPTIONS") else raw
            (into / name).write_bytes(bare)
        for file in snapshot.sst_files:
            with _left_out(partly=partly):
                _link(_found(path, "SSTs", file, _TABLE), into / file.name)
        for file in snapshot.log_files:
            (into / file.name).unlink(missing_ok=True)  # the zip holds an empty one
            with _left_out(partly=partly):
                shutil.copyfile(_found(path, "logs", file, _LOG), into / file.name)
    return snapshot


def _left_out(*, partly: bool) -> AbstractContextManager[None]:
    return suppress(DamagedStoreError) if partly else nullcontext()


def _found(path: Path, folder: str, file: SnapshotFile, name: re.Pattern[str]) -> Path:
    if not name.fullmatch(file.name):
        message = f"{path}: A snapshot that wants a file {file.name!r} in {folder}."
        raise FormatError(message, hint="The file is damaged, or was not written by Spark.")
    there = path.parent / folder / file.stored_name
    if not there.is_file():
        message = f"The snapshot {path} needs {folder}/{file.stored_name}, which is missing."
        raise MissingFileError(message, hint=_HINT)
    size_bytes = there.stat().st_size
    if size_bytes != file.size_bytes:
        message = (
            f"The snapshot {path} needs {folder}/{file.stored_name} with {file.size_bytes:,} "
            f"bytes, and it has {size_bytes:,}."
        )
        raise DamagedStoreError(message, hint=_HINT)
    return there


def _link(there: Path, here: Path) -> None:
    try:
        here.hardlink_to(there)
    except FileExistsError:
        message = f"{there}: two files of a snapshot have the name {here.name}."
        raise FormatError(message, hint="The snapshot is damaged.") from None
    except OSError:  # another disk, or a file that this user may read and not link
        shutil.copyfile(there, here)
