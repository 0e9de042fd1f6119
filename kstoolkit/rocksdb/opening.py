"""Open a store for looking in, without touching it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kstoolkit.errors import FormatError, KstoolkitError, Option, naming
from kstoolkit.rocksdb.faults import DamagedStoreError, MissingFileError, translated
from kstoolkit.rocksdb.files.damage import Losses, families_past_bad_wal, mended_families
from kstoolkit.rocksdb.files.finding import (
    MissingFolderError,
    OtherFolders,
    check_is_store,
    elsewhere_perhaps,
    explained,
    other_folders_of,
)
from kstoolkit.rocksdb.files.manifest import check_manifest
from kstoolkit.rocksdb.files.shadow import Shadow, opened_families
from kstoolkit.rocksdb.files.summary import footprint_of
from kstoolkit.rocksdb.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from rocksdict import Rdict

_Opened = TypeVar("_Opened", bound=Store)
_ATTEMPTS = 10
_PAUSE_S = 0.05


def open_store(
    path: str | PathLike[str],
    *,
    scratch: str | PathLike[str] | None = None,
    other_folders: Sequence[str | PathLike[str]] | None = None,
    partly: bool = False,
) -> Store:
    """Return a RocksDB that can be looked into, as bytes; else as :func:`kstoolkit.open_store`.

    If its writer deletes files meanwhile, and nobody asks for most of a minute, they are let go:
    what is asked then, and rows from the next one on, are those of then.

    If ``partly``, a damaged store is opened as far as it goes: without SST files that are missing
    or damaged, and its rows without those in blocks that can't be read. What it says of that is
    :attr:`~kstoolkit.rocksdb.store.Store.damage`. Else damage is raised. Without MANIFEST or
    CURRENT, which alone tell the files that count, a store is refused either way.

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
    return opened_as(Store, path, scratch=scratch, other_folders=other_folders, partly=partly)


def opened_as(
    kind: type[_Opened],
    path: str | PathLike[str],
    *,
    scratch: str | PathLike[str] | None = None,
    other_folders: Sequence[str | PathLike[str]] | None = None,
    partly: bool = True,
) -> _Opened:
    """Return a store as one of a kind that can do more; else as :func:`open_store`."""
    folder = Path(path)
    for _ in range(_ATTEMPTS):
        before, others = _state_of(folder), None
        try:
            check_is_store(folder)
            others = _others(folder, other_folders)
            return _opened(folder, scratch, others, kind, partly=partly)
        except FileNotFoundError as error:  # the folder itself: what is in it may go any time
            gone = f"{error.filename} is gone"
            message = f"The store {folder} went away while it was being opened: {gone}."
            hint = "Is it being removed? Then open it no more."
            failure: KstoolkitError = DamagedStoreError(message, hint=hint)
        except (DamagedStoreError, MissingFolderError) as error:
            failure = error
        if partly:
            time.sleep(_PAUSE_S)  # one that is being made, or removed, lacks files for a while
        if _state_of(folder) == before:
            if partly and others is not None and isinstance(failure, DamagedStoreError):
                return _opened(folder, scratch, others, kind, partly=True, fault=failure)
            raise failure
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
            option = Option("other_folders", flag="--other-folder")
            hint = naming("{option} takes folders that there are.", option=option)
            raise MissingFolderError(message, hint=hint)
    return OtherFolders(tables=places)


def _opened(
    folder: Path,
    scratch: str | PathLike[str] | None,
    others: OtherFolders,
    into: type[_Opened],
    *,
    partly: bool,
    fault: DamagedStoreError | None = None,
) -> _Opened:
    """Return the store; of one that can't be opened for a ``fault`` in it, what is left."""
    with translated(folder):
        footprint = footprint_of(folder, *others.all)
        shadow = Shadow(folder, scratch=scratch, others=others.all)
    try:
        if fault is None:
            check_manifest(shadow.path, folder)
            losses = Losses() if partly else None
            families = _families(shadow.path, folder, others, losses)
        else:
            families, losses = mended_families(shadow.path, folder, fault)
        opened = into(folder, shadow=shadow, families=families, footprint=footprint, losses=losses)
        again = partial(open_store, folder.absolute(), scratch=scratch)
        opened.again = partial(again, other_folders=others.all, partly=partly)
    except BaseException:
        shadow.close()
        raise
    return opened


def _families(
    scratch: Path, folder: Path, others: OtherFolders, losses: Losses | None
) -> dict[str, Rdict]:
    try:
        if losses is not None:
            return families_past_bad_wal(scratch, folder, losses)
        return opened_families(scratch, folder)
    except MissingFileError as error:
        raise elsewhere_perhaps(error, folder, others) from error
    except FormatError as error:
        raise explained(error, scratch, folder) from error


def _state_of(folder: Path) -> dict[str, int]:
    """Return what tells whether the store's owner has written since; {} if it is gone."""
    state = {}
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        for each in entries:
            with suppress(FileNotFoundError):  # compacted away since it was listed
                state[each.name] = each.stat(follow_symlinks=False).st_mtime_ns
    return state
