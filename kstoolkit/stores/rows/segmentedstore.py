"""A store in segments, each of which is a RocksDB of its own."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from kstoolkit.errors import InputError
from kstoolkit.formats.streams.places import segment_interval_ms
from kstoolkit.records import Records
from kstoolkit.rocksdb.faults import ColumnFamilyError
from kstoolkit.rocksdb.files.ssts import levels_of
from kstoolkit.rocksdb.log.storelog import read_log
from kstoolkit.stores.discovery.segmentnames import by_name_alone, real_path
from kstoolkit.stores.rows.leftout import say_left_out
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.stores.rows.segments import Segments
from kstoolkit.stores.rows.statestore import doubted, recognised_as
from kstoolkit.stores.rows.streamsource import StreamSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from pathlib import Path

    from kstoolkit.formats.streams.recognising import Recognised
    from kstoolkit.rocksdb.files.ssts import Level, Sst
    from kstoolkit.rocksdb.log.storelog import StoreLog
    from kstoolkit.rocksdb.memory.measured import MemoryParts
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.rows.leftout import LeftOut
    from kstoolkit.stores.rows.readable import ReadAs
    from kstoolkit.stores.rows.segmentfolders import SegmentFolders


class SegmentedStore(HasRows):
    """A store in segments.

    Made by :func:`kstoolkit.open_store`, closed by ``with``. A few segments are opened at once, and
    show how they were then. Of more, each is opened when it is come to, and few stay open; one that
    its writer drops meanwhile, as it has expired, is left out. So is one that is damaged, with a
    warning.

    Parameters
    ----------
    path
        The folder that holds the segments; an attribute too.
    segments
        The segments, closed with this store; an attribute too: what RocksDB tells of each.
    folders
        What was found of them.
    read_as
        How to read them.
    """

    def __init__(
        self, path: Path, segments: Segments, folders: SegmentFolders, read_as: ReadAs
    ) -> None:
        self.path, self.segments, self.read_as = path, segments, read_as
        self._folders = folders

    @classmethod
    def open(
        cls,
        path: Path,
        folders: SegmentFolders,
        read_as: ReadAs,
        *,
        scratch: str | PathLike[str] | None = None,
    ) -> Self:
        """Return the store whose segments lie in some folders.

        Warns
        -----
        LeftOutWarning
            If something among them is left out, or can't be read.
        """
        say_left_out(path, list(folders.left_out))
        segments = Segments(path, folders.by_start, scratch)
        segments.open_if_few()
        return cls(path, segments, folders, read_as)

    @property
    def name(self) -> str:
        """What it is called."""
        return self._folders.store

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
        interval_ms = self.segment_interval_ms
        found = recognised_as(
            largest, self.read_as.kind, start_ms=start_ms, interval_ms=interval_ms
        )
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
        spans = {
            start_ms: None if interval_ms is None else range(start_ms, start_ms + interval_ms)
            for start_ms in self.segments
        }
        return StreamSource(
            self.name,
            self.recognised.kind,
            [_SegmentPart(self.segments, start_ms, span) for start_ms, span in spans.items()],
            window_size_ms=self.read_as.window_size_ms,
            family=self.read_as.column_family,
        )

    def levels(self, cf: str | None = None) -> Records[Level]:
        """Return the levels that have files, each of all segments together.

        Raises
        ------
        ColumnFamilyError
            If no segment has a column family of that name.
        """
        files: list[Sst] = []
        missing: ColumnFamilyError | None = None
        num_with_it = 0
        for _, store in self.segments.all_there():
            try:
                files += store.ssts(cf)
            except ColumnFamilyError as error:  # segments of before an upgrade lack the newer ones
                missing = error
            else:
                num_with_it += 1
        if missing is not None and not num_with_it:
            raise missing
        return levels_of(sorted(files, key=lambda each: (each.column_family, each.level)))

    def memory(
        self, *, profile: Profile | str | None = None, iterators: int | None = None
    ) -> Records[MemoryParts]:
        """Return what each segment's writer needs, and what the segment takes here.

        What the formula says of each adds up, but for a block cache that segments share. What they
        take here is of one after the other: not all of them are open at once.

        Parameters
        ----------
        profile, iterators
            As in :meth:`kstoolkit.rocksdb.store.Store.memory`.
        """
        return Records(
            [
                store.memory(profile=profile, iterators=iterators)
                for _, store in self.segments.all_there()
            ],
            "segments",
        )

    def logs(self) -> dict[int, StoreLog]:
        """Return the logs that the writer left, by where their segments begin.

        Segments without a log that can be read are left out; none of them is opened for it.
        """
        found: dict[int, StoreLog] = {}
        for start_ms, folder in self.segments.folders.items():
            with suppress(InputError):
                found[start_ms] = read_log(folder)
        return found

    def close(self) -> None:
        """Close all segments; a second time does nothing."""
        self.segments.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SegmentedStore({str(self.path)!r}, {len(self.segments)} segments)"


@dataclass(frozen=True, slots=True)
class _SegmentPart:
    """A segment as a part of a store's rows.

    ``span_ms`` is the time that its windows begin in, or its sessions end in, epoch ms UTC; None if
    it is not known how long the segments are.
    """

    segments: Segments
    start_ms: int
    span_ms: range | None

    def opened(self) -> Store | None:
        """Return the segment's RocksDB; None if it expired meanwhile, or can't be opened."""
        return self.segments.there(self.start_ms)

    def readable(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows of it as far as they can be read; the other segments' come after them."""
        return self.segments.rows_of(self.start_ms, rows)
