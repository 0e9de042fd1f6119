"""A store in segments, each of which is a RocksDB of its own in the store's folder.

A store that does not shrink may have thousands of segments, and each that is open holds its files
open. So each is opened when somebody asks for it, and only the latest ones asked for stay open, and
whichever somebody still holds. What lies around the segments and is none of them is left out.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kstoolkit.errors import FormatError
from kstoolkit.formats.streams.places import segment_interval_ms, segment_start_ms
from kstoolkit.rocksdb.faults import NoStoreError, StoreClosedError, translated
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.discovery.places import (
    are_segments,
    by_name_alone,
    real_path,
    segment_name,
    use_of_streams,
)
from kstoolkit.stores.rows.readable import HasRows, LeftOut, say_damage, say_left_out
from kstoolkit.stores.rows.statestore import StorePart, StreamSource, doubted, recognised_as
from kstoolkit.stores.views import OF_ONE_STORE, HasViews

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike
    from pathlib import Path

    from kstoolkit.errors import KstoolkitError
    from kstoolkit.formats.streams.recognising import Recognised
    from kstoolkit.stores.discovery.places import SegmentName
    from kstoolkit.stores.rows.readable import ReadAs

_MOST_OPEN = 16
_SHARE_OF_FILES = 2  # of the files that this process may open, the share that stays open at most
_FILES_BESIDE = 8  # that an open store has open beside its SST files, and those twice
_ROWS_LIE_IN = (".sst", ".blob", ".log")
_LOOKS, _PAUSE_S = 4, 0.05
_ONE_STORE = (
    "Give the folder of one segment, or put each store's into a folder of the store's name."
)


class StoreSegments(Mapping[int, Store]):
    """The segments of a store by where they begin, epoch ms UTC, the earliest first.

    ``path`` is the store's folder, for people; ``scratch`` where to make the folders that they are
    read through. Who asks for one gets a StoreClosedError if they are closed, and one of
    :mod:`kstoolkit.rocksdb.faults` if it can't be opened.
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
        if store is None or store.is_let_go:
            store = open_store(folder, scratch=self._scratch, partly=True)
            store.engine_use = use_of_streams(store)
            self._open[start_ms] = store
            self._note_damage(start_ms, store)
            self._num_files[start_ms] = _FILES_BESIDE + 2 * len(_sizes(folder, (".sst",)))
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
        faults = {at: error.message for at, error in (self._torn | self._faults).items()}
        told = (*faults.items(), *self._damaged.items())
        return tuple(LeftOut(self._folders[at], why) for at, why in told)

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
        """Return a segment; None if it is gone, as an expired one soon is, or can't be opened."""
        if start_ms in self._faults:
            return None
        try:
            return self[start_ms]
        except OF_ONE_STORE as error:
            if not _goes(self._folders[start_ms]):
                self._note(start_ms, error, self._faults)
        return None

    def rows_of(
        self, start_ms: int, rows: Iterator[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows of a segment, as far as they can be read."""
        try:
            yield from rows
        except OF_ONE_STORE as error:
            if isinstance(error, FormatError) or not _goes(self._folders[start_ms]):
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

        If all of them are gone, it is a NoStoreError; if none can be opened, what the first raised.
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
        num_open = len(self._open)
        return f"StoreSegments({str(self._path)!r}, {len(self)}, of which {num_open} are open)"

    def _note(self, start_ms: int, error: KstoolkitError, among: dict[int, KstoolkitError]) -> None:
        """Keep in mind that a segment can't be read, and say so the first time."""
        if start_ms not in among:
            among[start_ms] = error
            say_left_out(self._path, [LeftOut(self._folders[start_ms], error.message)])

    def _note_damage(self, start_ms: int, store: Store) -> None:
        """Keep in mind what of a segment is damaged, and say so, unless it was said before."""
        said = say_damage(store.path, store.damage, self._damaged.get(start_ms, ""))
        if said:
            self._damaged[start_ms] = said

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


class InSegments(HasViews):
    """A store whose RocksDB are its segments, each called as its folder is."""

    segments: StoreSegments

    @property
    def places(self) -> dict[str, Path]:
        """The folders of its segments, by their names."""
        return {folder.name: folder for folder in self.segments.folders.values()}

    def rocksdbs(self) -> Iterator[tuple[str, Store]]:
        """Yield each segment that is not gone, the earliest first, by the name of its folder."""
        folders = self.segments.folders
        for start_ms, store in self.segments.all_there():
            yield folders[start_ms].name, store


class SegmentedStore(InSegments, HasRows):
    """A store in segments.

    Made by :func:`kstoolkit.open_store`, closed by ``with``. A few segments are opened at once, and
    show how they were then. Of more, each is opened when it is come to, and few stay open; one that
    its writer drops meanwhile, as it has expired, is left out; a damaged one too, with a warning.

    Parameters
    ----------
    path, folders, read_as, scratch
        The folder that holds the segments, what was found of them, how to read them, and where to
        make the folders that they are read through.

    Attributes
    ----------
    name, segments
        What it is called; the segments, closed with this store: what RocksDB tells of each.
    """

    def __init__(
        self,
        path: Path,
        folders: SegmentFolders,
        read_as: ReadAs,
        *,
        scratch: str | PathLike[str] | None = None,
    ) -> None:
        say_left_out(path, list(folders.left_out))
        self.path, self.name, self.read_as = path, folders.store, read_as
        self.segments = StoreSegments(path, folders.by_start, scratch)
        self.segments.open_if_few()
        self._folders = folders

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What lies among the segments and is not read, and the segments that could not be."""
        return (*self._folders.left_out, *self.segments.unreadable)

    @property
    def segment_interval_ms(self) -> int | None:
        """How long a segment is, as far as their starts tell: a multiple of it if they are few.

        None if they don't tell: of a single one that begins in 1970, or of names that tell minutes.
        """
        if not self.segments.are_named_to_the_ms:
            return None
        return segment_interval_ms(self.segments)

    @cached_property
    def recognised(self) -> Recognised:
        """What kind of store it is, how sure that is, and why; the largest segment tells."""
        start_ms, largest = self.segments.largest()
        told, interval_ms = self.read_as.kind, self.segment_interval_ms
        found = recognised_as(largest, told, start_ms=start_ms, interval_ms=interval_ms)
        if not self._folders.is_by_name_alone:
            return found
        return doubted(found, by_name_alone(self.name, real_path(self.path).name))

    @property
    def kind(self) -> str:
        """What kind of store it is, as it was told or recognised."""
        return str(self.recognised.kind)

    @cached_property
    def source(self) -> StreamSource:
        """Where its rows lie."""
        interval_ms = self.segment_interval_ms
        parts = []
        for at in self.segments:
            span = None if interval_ms is None else range(at, at + interval_ms)
            opened, rows_of = partial(self.segments.there, at), partial(self.segments.rows_of, at)
            parts.append(StorePart(opened, rows_of, span))
        return StreamSource(
            self.name,
            self.recognised.kind,
            parts,
            window_size_ms=self.read_as.window_size_ms,
            family=self.read_as.column_family,
        )

    def close(self) -> None:
        """Close all segments; a second time does nothing."""
        self.segments.close()

    def __repr__(self) -> str:
        return f"SegmentedStore({str(self.path)!r}, {len(self.segments)} segments)"


@dataclass(frozen=True, slots=True)
class SegmentFolders:
    """The segments of a store by where they begin, and what lies among them and is not read.

    ``is_by_name_alone`` if only the segments' own names tell the store's: their folder has another.
    """

    store: str
    by_start: Mapping[int, Path]
    left_out: tuple[LeftOut, ...] = ()
    is_by_name_alone: bool = False


def segment_folders(folder: Path) -> SegmentFolders | None:
    """Return the segments in a folder; None if there are none, or it is a RocksDB itself.

    If only names tell whose they are, and those are of several stores: NoStoreError.
    """
    with translated(folder):
        if not folder.is_dir() or (folder / "CURRENT").exists():
            return None
        inside = sorted(each for each in folder.iterdir() if each.is_dir())
        stores = [each for each in inside if (each / "CURRENT").exists()]
    name = real_path(folder).name
    starts = {each: segment_start_ms(name, each.name) for each in stores}
    own = {each: start for each, start in starts.items() if start is not None}
    if own:
        return _of_one(name, own, inside, stores)
    # The own names of folders, wherever they lie, or lead to.
    says = {each: segment_name(each) or segment_name(real_path(each)) for each in stores}
    named = {each: found for each, found in says.items() if found is not None}
    names = _stores(named.values())
    if len(names) > 1:
        message = f"{folder} holds segments of {len(names)} stores: {', '.join(names)}."
        raise NoStoreError(message, hint=_ONE_STORE)
    if not names:
        return None
    own = {each: found.start_ms for each, found in named.items() if found.store == names[0]}
    return _of_one(names[0], own, inside, stores, is_by_name_alone=True)


def _stores(named: Iterable[SegmentName]) -> list[str]:
    """Return the names of the stores whose segments are named so that they can be segments."""
    starts: dict[str, list[int]] = {}
    for each in named:
        starts.setdefault(each.store, []).append(each.start_ms)
    return [store for store, begin in starts.items() if are_segments(begin)]


def _of_one(
    store: str,
    own: dict[Path, int],
    inside: list[Path],
    stores: list[Path],
    *,
    is_by_name_alone: bool = False,
) -> SegmentFolders:
    by_start: dict[int, Path] = {}
    left_out: list[LeftOut] = []
    # Names with a mark of today's come last: they are what Kafka Streams writes to.
    for each, start_ms in sorted(own.items(), key=lambda item: item[0].name.endswith(str(item[1]))):
        other = by_start.get(start_ms)
        if other is not None:
            left_out.append(LeftOut(other, f"{each.name} is the same segment"))
        by_start[start_ms] = each
    foreign = [each for each in stores if each not in own]
    left_out += [LeftOut(each, f"it is no segment of {store!r}") for each in foreign]
    others = [each for each in inside if each not in stores]
    bare = _that_stay([each for each in others if segment_start_ms(store, each.name) is not None])
    left_out += [LeftOut(each, "it has no CURRENT file") for each in bare]
    return SegmentFolders(store, by_start, tuple(left_out), is_by_name_alone)


def _that_stay(folders: list[Path]) -> list[Path]:
    """Return which folders stay there without a RocksDB: segments that come or go do not."""
    for _ in range(_LOOKS):
        folders = [each for each in folders if each.exists() and not (each / "CURRENT").exists()]
        if not folders:
            break
        time.sleep(_PAUSE_S)
    return folders
