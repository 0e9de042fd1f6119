"""Open a store for looking in, without touching it."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, overload

from rocksdict import AccessType, DBPath, Options, Rdict

from kstoolkit.errors import FormatError, KstoolkitError
from kstoolkit.rocksdb.faults import (
    DamagedStoreError,
    MissingFileError,
    translated,
)
from kstoolkit.rocksdb.files.explaining import elsewhere_perhaps, explained
from kstoolkit.rocksdb.files.finding import check_is_store
from kstoolkit.rocksdb.files.manifest import torn_at
from kstoolkit.rocksdb.files.otherfolders import (
    MissingFolderError,
    OtherFolders,
    other_folders_of,
)
from kstoolkit.rocksdb.files.shadow import Shadow
from kstoolkit.rocksdb.files.summary import footprint_of
from kstoolkit.rocksdb.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

__all__ = ["open_store"]

_Opened = TypeVar("_Opened", bound=Store)

_ATTEMPTS = 10
_PAUSE_S = 0.05
_MOST_PATHS = 4  # db_paths that RocksDB takes
_SHARE_OF_FILES = 4  # of the files that this process may open, the share that one store may take


@overload
def open_store(
    path: str | PathLike[str],
    *,
    scratch: str | PathLike[str] | None = None,
    other_folders: Sequence[str | PathLike[str]] | None = None,
) -> Store: ...
@overload
def open_store(
    path: str | PathLike[str],
    *,
    scratch: str | PathLike[str] | None = None,
    other_folders: Sequence[str | PathLike[str]] | None = None,
    into: type[_Opened],
) -> _Opened: ...
def open_store(
    path: str | PathLike[str],
    *,
    scratch: str | PathLike[str] | None = None,
    other_folders: Sequence[str | PathLike[str]] | None = None,
    into: type[Store] = Store,
) -> Store:
    """Return a store that can be looked into; its own folder is left as it is.

    The store may be in use: neither its lock nor its writes are in the way. What it shows is how
    the store was at this moment, without what its writer holds in memory alone.

    Parameters
    ----------
    path
        The store's folder, the one with a CURRENT file.
    scratch
        Where to make the folder that the store is read through; None is where temporary files go.
        On the store's own disk it takes no room, elsewhere the store's files are copied.
    other_folders
        The folders outside ``path`` that the store has SST files or its WAL in (``db_paths``,
        ``cf_paths``, ``wal_dir``), or the ``SSTs`` of a snapshot of Spark's; None: those that its
        OPTIONS file and its log name.
    into
        What to make of it: a kind of store that can do more.

    Raises
    ------
    NoStoreError
        If there is none at ``path``; the hint says where some lie nearby.
    MissingFolderError
        If a folder outside ``path`` that the store needs is not there, or not known.
    StorePermissionError
        If this user may not read it.
    NewerFormatError
        If it was written in a format newer than what is known here; both versions are named.
    EncryptedStoreError, DamagedStoreError
        If its files are not as RocksDB writes them.
    StoreResourceError
        If there is no room for the scratch folder.

    Examples
    --------
    >>> import tempfile
    >>> from rocksdict import Options, Rdict
    >>> folder = tempfile.mkdtemp()
    >>> written = Rdict(folder, Options(raw_mode=True))
    >>> written[b"anna"] = b"3"
    >>> written.close()
    >>> with open_store(folder) as store:
    ...     print(store.column_families, list(store.iter_rows()))
    ('default',) [(b'anna', b'3')]
    """
    folder = Path(path)
    for _ in range(_ATTEMPTS):
        check_is_store(folder)
        try:
            before = _state_of(folder)
            return _opened(folder, scratch, _others(folder, other_folders), into)
        except FileNotFoundError as error:  # the folder itself: what is in it may go any time
            failure: KstoolkitError = _vanished(error, folder)
        except (DamagedStoreError, MissingFolderError) as error:
            if _is_still(folder, before):
                raise
            failure = error
        # A compaction may have taken files away that were still to be read: then try again.
        time.sleep(_PAUSE_S)
    raise failure


def _others(folder: Path, given: Sequence[str | PathLike[str]] | None) -> OtherFolders:
    if given is None:
        with translated(folder):
            return other_folders_of(folder)
    places = tuple(map(Path, given))
    for each in places:
        if not each.is_dir():
            message = f"There is no folder {each} that the store {folder} could have files in."
            raise MissingFolderError(message, hint="other_folders= takes folders that there are.")
    return OtherFolders(tables=places)


def _opened(
    folder: Path, scratch: str | PathLike[str] | None, others: OtherFolders, into: type[_Opened]
) -> _Opened:
    with translated(folder):
        footprint = footprint_of(folder, *others.all)
        shadow = Shadow(folder, scratch=scratch, others=others.all)
    try:
        _check_manifest(shadow.path, folder)
        families = _families(shadow.path, folder, others)
        return into(folder, shadow=shadow, families=families, footprint=footprint)
    except BaseException:
        shadow.close()
        raise


def _families(scratch: Path, folder: Path, others: OtherFolders) -> dict[str, Rdict]:
    """Return all column families; the first is the database itself."""
    try:
        with translated(folder):
            names = Rdict.list_cf(str(scratch))
            database = Rdict(
                str(scratch),
                _options(scratch),
                column_families={name: _options(scratch) for name in names},
                access_type=AccessType.read_only(False),  # noqa: FBT003 - rocksdict takes no name
            )
            handles = {
                name: database.get_column_family(name) for name in names if name != "default"
            }
            return {"default": database} | handles
    except FormatError as error:
        if isinstance(error, MissingFileError):
            raise elsewhere_perhaps(error, folder, others) from error
        raise explained(error, scratch, folder) from error


def _options(scratch: Path) -> Options:
    options = Options(raw_mode=True)
    # The MANIFEST gives each file a path by number; one too high is read, but crashes the closing.
    options.set_db_paths([DBPath(str(scratch), 0)] * _MOST_PATHS)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_FILES
    if sum(1 for _ in scratch.glob("*.sst")) > allowed:
        options.set_max_open_files(allowed)
    return options


def _check_manifest(scratch: Path, folder: Path) -> None:
    """Refuse a MANIFEST that lost its end: RocksDB would open an older store, and say nothing."""
    name = (scratch / "CURRENT").read_text(encoding="utf-8").strip()
    with translated(folder):
        if not (scratch / name).is_file():
            message = f"The store {folder} is damaged: {name}, which CURRENT names, is missing."
            hint = "Restore the folder from a backup, or rebuild the store from its changelog."
            raise DamagedStoreError(message, hint=hint)
        torn = torn_at(scratch / name)
    if torn is not None:
        message = (
            f"The store {folder} is damaged: {name} ends in the middle of a record, which begins "
            f"at byte {torn}; newer rows would be missing without a sign."
        )
        hint = "Restore the folder from a backup, or rebuild the store from its changelog."
        raise explained(DamagedStoreError(message, hint=hint), scratch, folder)


def _vanished(error: FileNotFoundError, folder: Path) -> DamagedStoreError:
    message = f"The store {folder} went away while it was being opened: {error.filename} is gone."
    return DamagedStoreError(message, hint="Is it being removed? Then open it no more.")


def _is_still(folder: Path, before: dict[str, int]) -> bool:
    with suppress(FileNotFoundError):
        return _state_of(folder) == before
    return False


def _state_of(folder: Path) -> dict[str, int]:
    """Return what tells whether the store's owner has written since."""
    state = {}
    with translated(folder), os.scandir(folder) as entries:
        for each in entries:
            with suppress(FileNotFoundError):  # compacted away since it was listed
                state[each.name] = each.stat(follow_symlinks=False).st_mtime_ns
    return state
