"""What the SST files of a store's RocksDBs say of deleted rows, and of room that is not live."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from kstoolkit.formats.streams.kinds import OFFSETS
from kstoolkit.records import Records
from kstoolkit.stores.growth.records import Deletions, LevelUse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.store import Store


_NOT_OPENED = "the store's RocksDB was not handed over"
_NO_FILES = "there are no SST files"
_FIGURES = (
    "num_entries",
    "num_deletions",
    "num_range_deletions",
    "num_obsolete",
    "tombstone_density",
    "space_amplification",
)


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The SST files of a RocksDB that hold rows: not those of the family ``offsets``.

    Parameters
    ----------
    path
        The RocksDB's folder.
    ssts
        The files.
    live_bytes
        RocksDB's estimate of what is live in them; None if there is none.
    """

    path: str
    ssts: tuple[Sst, ...]
    live_bytes: int | None

    @classmethod
    def of(cls, store: Store) -> StoreFiles:
        """Return those of an open store, which may be closed afterwards."""
        families = [each for each in store.column_families if each != OFFSETS]
        live_bytes = [store.summary(each).estimated_live_bytes for each in families]
        known = None if None in live_bytes else sum(each or 0 for each in live_bytes)
        ssts = tuple(each for each in store.ssts() if each.column_family != OFFSETS)
        return cls(str(store.path), ssts, known)


def deletions_of(files: Sequence[StoreFiles], num_on_disk: int) -> Deletions:
    """Return what the files of RocksDBs tell of deletions; nothing is known of none.

    Parameters
    ----------
    files
        Those of one RocksDB; of several, if the store is in segments.
    num_on_disk
        How many rows they hold together.
    """
    if not files:
        return Deletions(unknown=dict.fromkeys(_FIGURES, _NOT_OPENED))
    live_bytes = [each.live_bytes for each in files]
    known = None if None in live_bytes else sum(each or 0 for each in live_bytes)
    ssts = [each for one in files for each in one.ssts]
    return deletions_in(ssts, num_on_disk=num_on_disk, live_bytes=known)


def deletions_in(ssts: Iterable[Sst], *, num_on_disk: int, live_bytes: int | None) -> Deletions:
    """Return what SST files tell of deletions.

    Parameters
    ----------
    ssts
        The files.
    num_on_disk
        How many rows they hold together.
    live_bytes
        RocksDB's estimate of what is live in them; None if there is none.

    Examples
    --------
    >>> deletions_in([], num_on_disk=0, live_bytes=0).unknown["tombstone_density"]
    'there are no SST files'
    """
    files = sorted(ssts, key=lambda each: each.level)
    entries = sum(each.num_entries for each in files)
    deletions = sum(each.num_deletions for each in files)
    ranges = [each.num_range_deletions for each in files]
    unknown = {} if entries else {"tombstone_density": _NO_FILES}
    if not live_bytes:
        unknown["space_amplification"] = "RocksDB estimates nothing to be live"
    if None in ranges:
        unknown["num_range_deletions"] = "a file does not say"
    # Rows of a memtable or a WAL are in no file: there may be more rows than entries.
    size = sum(each.size_bytes for each in files)
    return Deletions(
        num_entries=entries,
        num_deletions=deletions,
        num_range_deletions=None if None in ranges else sum(each or 0 for each in ranges),
        num_obsolete=max(entries - deletions - num_on_disk, 0),
        tombstone_density=deletions / entries if entries else None,
        space_amplification=size / live_bytes if live_bytes else None,
        levels=Records(
            [_level(each, list(of)) for each, of in groupby(files, lambda file: file.level)],
            "levels",
        ),
        unknown=unknown,
    )


def _level(level: int, files: list[Sst]) -> LevelUse:
    entries = sum(each.num_entries for each in files)
    deletions = sum(each.num_deletions for each in files)
    return LevelUse(
        level=level,
        num_files=len(files),
        size_bytes=sum(each.size_bytes for each in files),
        num_entries=entries,
        num_deletions=deletions,
        tombstone_density=deletions / entries if entries else None,
        unknown={} if entries else {"tombstone_density": _NO_FILES},
    )
