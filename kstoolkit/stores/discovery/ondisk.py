"""What the files of a RocksDB folder say, without RocksDB opening it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.rocksdb.files.optionsections import read_options
from kstoolkit.rocksdb.files.summary import footprint_of
from kstoolkit.rocksdb.files.tableproperties import as_count, read_footer, read_properties

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["OnDisk", "folder_bytes", "on_disk"]

_ENTRIES = "rocksdb.num.entries"
_FAMILY = "rocksdb.column.family.name"


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
    format_versions
        Of their SST files.
    """

    size_bytes: int
    disk_bytes: int
    column_families: tuple[str, ...]
    num_entries: dict[str, int] | None
    format_versions: tuple[int, ...]


def on_disk(folders: Iterable[Path]) -> OnDisk:
    """Return what some folders hold; files that vanish meanwhile are left out."""
    size = disk = 0
    families: dict[str, None] = {}
    entries: dict[str, int] | None = {}
    versions: set[int] = set()
    for folder in folders:
        with suppress(OSError):
            footprint = footprint_of(folder)
            size, disk = size + footprint.apparent_bytes, disk + footprint.disk_bytes
            families |= dict.fromkeys(_families(folder))
            for name in footprint.ssts:
                entries = _with_table(folder / name, entries, versions)
    return OnDisk(size, disk, tuple(families), entries, tuple(sorted(versions)))


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


def _with_table(
    path: Path, entries: dict[str, int] | None, versions: set[int]
) -> dict[str, int] | None:
    """Return the entries by column family with those of one more file, whose version is added."""
    try:
        footer, properties = read_footer(path), read_properties(path)
    except FileNotFoundError:  # compacted away meanwhile
        return entries
    except (OSError, FormatError):
        return None
    if footer is not None and footer.format_version is not None:
        versions.add(footer.format_version)
    count = as_count(properties.get(_ENTRIES))
    if entries is None or count is None:
        return None
    family = properties.get(_FAMILY, b"default").decode(errors="replace")
    return entries | {family: entries.get(family, 0) + count}
