"""The segments of one store, each a RocksDB that is opened when somebody asks for it.

A store that does not shrink may have thousands of segments, and each that is open holds its files
open. So only the latest ones asked for stay open, and whichever somebody still holds.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import (
    NoStoreError,
    StoreClosedError,
    StoreFault,
    StorePermissionError,
)
from kstoolkit.rocksdb.files.finding import MissingFolderError
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.rows.leftout import LeftOut, say_damage, say_left_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from pathlib import Path

    from kstoolkit.errors import KstoolkitError


_MOST_OPEN = 16
_SHARE_OF_FILES = 2  # of the files that this process may open, the share that stays open at most
_FILES_BESIDE = 8  # that an open store has open beside its SST files
_ROWS_LIE_IN = (".sst", ".blob", ".log")
_LOOKS, _PAUSE_S = 4, 0.05
_ITS_OWN = (FormatError, MissingFolderError, NoStoreError, StoreFault, StorePermissionError)
"""What is wrong with one segment alone: the others can be read."""


class Segments(Mapping[int, Store]):
    """The segments of a store by where they begin, epoch ms UTC, the earliest first.

    Parameters
    ----------
    path
        The store's folder, for people.
    folders
        Those of the segments, by where they begin.
    scratch
        Where to make the folders that they are read through: see
        :func:`kstoolkit.rocksdb.opening.open_store`.

    Raises
    ------
    StoreClosedError
        By all that asks for a segment, if they are closed.
    KstoolkitError
        If a segment can't be opened: one of :mod:`kstoolkit.rocksdb.faults`.
    """

    def __init__(
        self, path: Path, folders: Mapping[int, Path], scratch: str | PathLike[str] | None = None
    ) -> None:
        self._path, self._scratch = path, scratch
        self._folders = dict(sorted(folders.items()))
        self._open: WeakValueDictionary[int, Store] = WeakValueDictionary()
        self._latest: dict[int, Store] = {}
        self._num_files: dict[int, int] = {}
        self._faults: dict[int, KstoolkitError] = {}
        self._torn: dict[int, KstoolkitError] = {}
        self._damaged: dict[int, str] = {}
        self._is_closed = False

    def __getitem__(self, start_ms: int) -> Store:
        folder = self._folders[start_ms]
        if self._is_closed:
            message = f"The store {self._path} is closed."
            raise StoreClosedError(message, hint="Open it again.")
        store = self._open.get(start_ms)
        if store is None:
            store = open_store(folder, scratch=self._scratch, partly=True)
            self._open[start_ms] = store
            self._note_damage(start_ms, store)
            self._num_files[start_ms] = _FILES_BESIDE + len(_sizes(folder, (".sst",)))
        self._keep(start_ms, store)
        return store

    def __contains__(self, start_ms: object) -> bool:
        return start_ms in self._folders  # Mapping's own would open it

    def __iter__(self) -> Iterator[int]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)

    @property
    def folders(self) -> dict[int, Path]:
        """The folders that they lie in, by where they begin."""
        return dict(self._folders)

    @property
    def unreadable(self) -> tuple[LeftOut, ...]:
        """Those that were asked for and could not be opened, or not read to the end, and why."""
        known = self._torn | self._faults
        told = [(at, error.message) for at, error in known.items()]
        return tuple(LeftOut(self._folders[at], why) for at, why in (*told, *self._damaged.items()))

    @property
    def are_named_to_the_ms(self) -> bool:
        """Whether the names tell exactly where they begin: the oldest releases' tell minutes."""
        return all(each.name.endswith(str(at)) for at, each in self._folders.items())

    def open_if_few(self) -> None:
        """Open all of them, as they are at one moment, if they are few enough to stay open."""
        if len(self) > _MOST_OPEN:
            return
        with ExitStack() as opening:
            opening.callback(self.close)
            for start_ms in self:
                self.there(start_ms)
            opening.pop_all()

    def there(self, start_ms: int) -> Store | None:
        """Return a segment; None if it is gone, as an expired one soon is, or can't be opened.

        Warns
        -----
        LeftOutWarning
            If it can't be opened.
        """
        if start_ms in self._faults:
            return None
        try:
            return self[start_ms]
        except _ITS_OWN as error:
            if not _goes(self._folders[start_ms]):
                self._note(start_ms, error, self._faults)
        return None

    def rows_of(
        self, start_ms: int, rows: Iterator[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows of a segment, as far as they can be read.

        Warns
        -----
        LeftOutWarning
            If that is not to the end.
        """
        try:
            yield from rows
        except FormatError as error:
            self._note(start_ms, error, self._torn)
        store = self._open.get(start_ms)
        if store is not None:
            self._note_damage(start_ms, store)

    def all_there(self) -> Iterator[tuple[int, Store]]:
        """Yield those that are not gone, one after the other."""
        for start_ms in self:
            store = self.there(start_ms)
            if store is not None:
                yield start_ms, store

    def largest(self) -> tuple[int, Store]:
        """Return the one whose files with rows are the largest, and where it begins.

        Raises
        ------
        NoStoreError
            If all of them are gone.
        KstoolkitError
            If none of them can be opened.
        """
        sizes = {at: sum(_sizes(each, _ROWS_LIE_IN)) for at, each in self._folders.items()}
        for start_ms in sorted(self, key=lambda each: -sizes[each]):
            store = self.there(start_ms)
            if store is not None:
                return start_ms, store
        if self._faults:
            raise next(iter(self._faults.values()))
        message = f"The segments in {self._path} are all gone."
        raise NoStoreError(message, hint="Is the store being removed? Then open it no more.")

    def close(self) -> None:
        """Close all that are open; a second time does nothing."""
        self._is_closed = True
        with ExitStack() as closing:
            for each in list(self._open.values()):
                closing.callback(each.close)
        self._latest.clear()

    def __repr__(self) -> str:
        return f"Segments({str(self._path)!r}, {len(self)}, of which {len(self._open)} are open)"

    def _note(self, start_ms: int, error: KstoolkitError, among: dict[int, KstoolkitError]) -> None:
        """Keep in mind that a segment can't be read, and say so the first time."""
        if start_ms not in among:
            among[start_ms] = error
            say_left_out(self._path, [LeftOut(self._folders[start_ms], error.message)])

    def _note_damage(self, start_ms: int, store: Store) -> None:
        """Keep in mind what of a segment is damaged, and say so, unless it was said before."""
        damage, said = store.damage or "", self._damaged.get(start_ms, "")
        # Opened once more, it tells again what is missing, and not yet what can't be read.
        if damage not in said:
            self._damaged[start_ms] = damage
            say_damage(store.path, damage.removeprefix(f"{said}; "))

    def _keep(self, start_ms: int, store: Store) -> None:
        """Hold a segment open, and let go of the ones asked for longest ago."""
        self._latest.pop(start_ms, None)
        self._latest[start_ms] = store
        most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_FILES
        while len(self._latest) > 1 and (
            len(self._latest) > _MOST_OPEN
            or sum(self._num_files[each] for each in self._latest) > most_files
        ):
            # Not closed: somebody may hold it. Whom nobody holds goes, and closes, at once.
            del self._latest[next(iter(self._latest))]


def _goes(folder: Path) -> bool:
    """Return whether a folder is gone, or about to be: its files go one after the other."""
    for _ in range(_LOOKS):
        if not folder.exists():
            return True
        time.sleep(_PAUSE_S)
    return False


def _sizes(folder: Path, endings: tuple[str, ...]) -> list[int]:
    """Return the sizes of the files whose names end so; none of a folder that is gone."""
    sizes: list[int] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for each in entries:
            with suppress(FileNotFoundError):  # compacted away since it was listed
                sizes += [each.stat().st_size] if each.name.endswith(endings) else []
    return sizes
