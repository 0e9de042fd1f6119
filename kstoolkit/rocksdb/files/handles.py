"""The column families of a store, opened from the scratch folder that it is read through."""

from __future__ import annotations

import resource
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rocksdict import AccessType, DBPath, DBRecoveryMode, Options, Rdict

from kstoolkit.rocksdb.faults import DamagedStoreError, translated

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.rocksdb.files.losses import Losses


_MOST_PATHS = 4  # db_paths that RocksDB takes
_PAUSE_S = 0.05
_HEADER_BYTES = 7  # of a WAL's first record; the last of them is its type
_LAST_PLAIN_TYPE = 4  # those after it are of WALs that are written over older ones
_BAD_WAL = "its WAL is torn or damaged: the rows in what can't be read of it are absent"
_SHARE_OF_FILES = 4  # of the files that this process may open, the share that one store may take


def opened_families(
    scratch: Path, folder: Path, *, wal: DBRecoveryMode | None = None
) -> dict[str, Rdict]:
    """Return all column families by name; the first is the database itself.

    Parameters
    ----------
    scratch
        The scratch folder.
    folder
        The store as the user knows it.
    wal
        What to make of a WAL that is not whole; None: it ends where it can't be read.

    Raises
    ------
    KstoolkitError
        What rocksdict raises, translated.
    """
    with translated(folder):
        names = Rdict.list_cf(str(scratch))
        options = _options(scratch)
        if wal is not None:
            options.set_wal_recovery_mode(wal)
        database = Rdict(
            str(scratch),
            options,
            column_families={name: _options(scratch) for name in names},
            access_type=AccessType.read_only(False),  # noqa: FBT003 - rocksdict takes no name
        )
        handles = {name: database.get_column_family(name) for name in names if name != "default"}
    return {"default": database} | handles


def families_past_bad_wal(scratch: Path, folder: Path, losses: Losses) -> dict[str, Rdict]:
    """Return all column families, with what can be read of a WAL that is not whole.

    RocksDB says nothing of a WAL that ends early, or that it ends itself where it is damaged: only
    whoever asks for a whole one is told.

    Parameters
    ----------
    scratch, folder
        As in :func:`opened_families`.
    losses
        What is lost of a WAL is put in here.

    Raises
    ------
    KstoolkitError
        What rocksdict raises, translated.
    """
    wals = sorted(scratch.glob("*.log"))
    if any(map(_is_reused, wals)):
        return opened_families(scratch, folder)
    try:
        return opened_families(scratch, folder, wal=DBRecoveryMode.absolute_consistency())
    except DamagedStoreError:
        # If it isn't the WAL that is damaged, this fails too, and says so.
        found = opened_families(scratch, folder, wal=DBRecoveryMode.skip_any_corrupted_record())
    if not any(_grows(folder / each.name, each) for each in wals):
        losses.beside.append(_BAD_WAL)
    return found


def _is_reused(wal: Path) -> bool:
    """Return whether records of an older WAL may stand behind the end of this one."""
    with wal.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    return len(head) == _HEADER_BYTES and head[-1] > _LAST_PLAIN_TYPE


def _grows(original: Path, copy: Path) -> bool:
    """Return whether a WAL is being written: then its copy may well end in a record."""
    with suppress(OSError):
        time.sleep(_PAUSE_S)
        return original.stat().st_size != copy.stat().st_size
    return False


def _options(scratch: Path) -> Options:
    """Return options under which whatever a store was written with can be read."""
    options = Options(raw_mode=True)
    # The MANIFEST gives each file a path by number; one too high is read, but crashes the closing.
    options.set_db_paths([DBPath(str(scratch), 0)] * _MOST_PATHS)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_FILES
    if sum(1 for _ in scratch.glob("*.sst")) > allowed:
        options.set_max_open_files(allowed)
    return options
