"""Open a store for looking in, without touching it."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING

from rocksdict import AccessType, Options, Rdict

from kstoolkit.errors import FormatError, KstoolkitError
from kstoolkit.rocksdb.faults import (
    DamagedStoreError,
    EncryptedStoreError,
    NewerFormatError,
    translated,
)
from kstoolkit.rocksdb.files.finding import check_is_store
from kstoolkit.rocksdb.files.manifest import torn_at
from kstoolkit.rocksdb.files.optionsections import option_in, read_options
from kstoolkit.rocksdb.files.shadow import Shadow
from kstoolkit.rocksdb.files.summary import footprint_of
from kstoolkit.rocksdb.files.tableproperties import NEWEST_READABLE, read_footer
from kstoolkit.rocksdb.store import Store

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["open_store"]

_ATTEMPTS = 10
_PAUSE_S = 0.05
_SHARE_OF_FILES = 4  # of the files that this process may open, the share that one store may take


def open_store(path: str | PathLike[str], *, scratch: str | PathLike[str] | None = None) -> Store:
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

    Raises
    ------
    NoStoreError
        If there is none at ``path``; the hint says where some lie nearby.
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
        before = _state_of(folder)
        try:
            return _opened(folder, scratch)
        except KstoolkitError as error:
            failure = error
        # A compaction may have taken files away that were still to be read: then try again.
        if not isinstance(failure, DamagedStoreError) or _state_of(folder) == before:
            raise failure
        time.sleep(_PAUSE_S)
    raise failure


def _opened(folder: Path, scratch: str | PathLike[str] | None) -> Store:
    with translated(folder):
        footprint = footprint_of(folder)
        shadow = Shadow(folder, scratch=scratch)
    try:
        _check_manifest(shadow.path, folder)
        return Store(
            folder, shadow=shadow, families=_families(shadow.path, folder), footprint=footprint
        )
    except BaseException:
        shadow.close()
        raise


def _families(scratch: Path, folder: Path) -> dict[str, Rdict]:
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
            others = {name: database.get_column_family(name) for name in names if name != "default"}
            return {"default": database} | others
    except FormatError as error:
        raise _explained(error, scratch, folder) from error


def _options(scratch: Path) -> Options:
    options = Options(raw_mode=True)
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
        raise DamagedStoreError(message, hint=hint)


def _explained(error: FormatError, scratch: Path, folder: Path) -> FormatError:
    """Return an error with what the files themselves tell of their format, where it tells more."""
    footers = [read_footer(each) for each in scratch.glob("*.sst")]  # None: not a table's end
    if "magic number" in error.message and not any(footers):
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


def _state_of(folder: Path) -> dict[str, int]:
    """Return what tells whether the store's owner has written since."""
    state = {}
    with translated(folder), os.scandir(folder) as entries:
        for each in entries:
            with suppress(FileNotFoundError):  # compacted away since it was listed
                state[each.name] = each.stat(follow_symlinks=False).st_mtime_ns
    return state
