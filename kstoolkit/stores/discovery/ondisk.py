"""What the files of a RocksDB folder say, without RocksDB opening it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.rocksdb.files.finding import irregular_files
from kstoolkit.rocksdb.files.options import read_options
from kstoolkit.rocksdb.files.ssts import as_count, read_footer, read_properties
from kstoolkit.rocksdb.files.summary import footprint_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path


_ENTRIES, _DELETIONS = "rocksdb.num.entries", "rocksdb.deleted.keys"
_FAMILY = "rocksdb.column.family.name"
_NOT_TOLD = "a file of it does not tell"


@dataclass(frozen=True, slots=True)
class OnDisk:
    """What one or several RocksDB folders hold together.

    Parameters
    ----------
    size_bytes, disk_bytes
        How long their files are, and what they take on the disk.
    column_families
        The names in their OPTIONS files; none if there is no such file.
    num_entries
        Entries of SST files, by column family; None if a file doesn't tell.
    num_deletions
        The tombstones among them, likewise.
    format_versions
        Of their SST files.
    wal_bytes
        How long their WALs are: what lies in those may be in no SST file yet.
    """

    size_bytes: int
    disk_bytes: int
    column_families: tuple[str, ...]
    num_entries: dict[str, int] | None
    num_deletions: dict[str, int] | None
    format_versions: tuple[int, ...]
    wal_bytes: int = 0

    def entries(self, families: Collection[str] | None = None) -> int | None:
        """Return how many entries there are, of some column families or all; None if unknown."""
        return _sum_of(self.num_entries, families)

    def estimated_keys(self, families: Collection[str] | None = None) -> int | None:
        """Return about how many keys there are, as RocksDB estimates them; None if unknown.

        Notes
        -----
        Each tombstone is taken to stand for one entry that is still there
        (``VersionStorageInfo::GetEstimatedActiveKeys`` of RocksDB).
        """
        entries, deletions = self.entries(families), _sum_of(self.num_deletions, families)
        if entries is None or deletions is None:
            return None
        return max(entries - 2 * deletions, 0)

    def counted(self, families: Collection[str] | None = None) -> Counted:
        """Return the counts of a store, of some column families or all."""
        entries, why = self.entries(families), _NOT_TOLD
        if entries == 0 and self.wal_bytes:
            why = f"no SST file has any yet: all may be in its WAL of {self.wal_bytes} bytes"
            return Counted(None, None, None, dict.fromkeys(Counted._fields[:-1], why))
        deletions, keys = _sum_of(self.num_deletions, families), self.estimated_keys(families)
        told = {"num_entries": entries, "num_deletions": deletions, "estimated_keys": keys}
        return Counted(**told, unknown={name: why for name in told if told[name] is None})


class Counted(NamedTuple):
    """Counts of a store: None if they are unknown, and why by their names."""

    num_entries: int | None
    num_deletions: int | None
    estimated_keys: int | None
    unknown: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Table:
    family: str
    num_entries: int | None
    num_deletions: int | None
    format_version: int | None


def on_disk(folders: Iterable[Path]) -> OnDisk:
    """Return what some folders hold; files that vanish meanwhile are left out."""
    size = disk = wal = 0
    families: dict[str, None] = {}
    tables: list[_Table | None] = []
    for folder in folders:
        with suppress(OSError):
            footprint = footprint_of(folder)
            size, disk = size + footprint.apparent_bytes, disk + footprint.disk_bytes
            wal += footprint.wal_bytes
            odd = irregular_files(folder)
            families |= dict.fromkeys([] if odd else _families(folder))
            for name in footprint.ssts:
                with suppress(FileNotFoundError):  # compacted away meanwhile
                    tables.append(None if name in odd else _table(folder / name))
    versions = {each.format_version for each in tables if each is not None}
    return OnDisk(
        size,
        disk,
        tuple(families),
        _summed(tables, "num_entries"),
        _summed(tables, "num_deletions"),
        tuple(sorted(each for each in versions if each is not None)),
        wal,
    )


def folder_bytes(folder: Path) -> int | None:
    """Return how long the files of a folder are; None if it is gone by now."""
    with suppress(OSError):
        return footprint_of(folder).apparent_bytes
    return None


def _families(folder: Path) -> list[str]:
    with suppress(NoStoreError, FormatError, OSError):
        sections = read_options(folder)
        return [
            each.column_family
            for each in sections
            if each.kind == "CFOptions" and each.column_family
        ]
    return []


def _table(path: Path) -> _Table | None:
    """Return what an SST file tells of itself; None if it can't be read.

    Raises
    ------
    FileNotFoundError
        If it is gone by now.
    """
    try:
        footer, properties = read_footer(path), read_properties(path)
    except FileNotFoundError:
        raise
    except (OSError, FormatError):
        return None
    return _Table(
        properties.get(_FAMILY, b"default").decode(errors="replace"),
        as_count(properties.get(_ENTRIES)),
        as_count(properties.get(_DELETIONS)),
        None if footer is None else footer.format_version,
    )


def _summed(tables: list[_Table | None], name: str) -> dict[str, int] | None:
    """Return the sums of a figure of tables, by column family; None if a table lacks it."""
    sums: dict[str, int] = {}
    for each in tables:
        count = None if each is None else getattr(each, name)
        if each is None or count is None:
            return None
        sums[each.family] = sums.get(each.family, 0) + count
    return sums


def _sum_of(counts: dict[str, int] | None, families: Collection[str] | None) -> int | None:
    if counts is None:
        return None
    return sum(count for name, count in counts.items() if families is None or name in families)
