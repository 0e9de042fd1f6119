"""A store at a glance: what it is, how large, who wrote it, and what can't be known from files."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Record, Source, counted, of_source
from kstoolkit.rocksdb.files.options import option_in
from kstoolkit.rocksdb.files.ssts import entries_in
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rocksdict import Rdict

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.options import OptionsSection
    from kstoolkit.rocksdb.files.ssts import Sst

_BLOCK_BYTES = 512  # what st_blocks counts in, whatever the disk's own blocks are
_NOT_WRITTEN = "only the process that writes knows what its memtables still hold"
NO_DAMAGE = "none seen (what was not read may still be damaged)"
_NO_OPTIONS = "there is no OPTIONS file"


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a store's folders take, in bytes.

    ``disk_bytes`` are more than ``apparent_bytes`` where RocksDB has set room aside for a MANIFEST
    or a WAL. ``ssts`` are those that lie there, whether the store still needs them or not.
    """

    apparent_bytes: int
    disk_bytes: int
    wal_bytes: int
    blob_bytes: int
    ssts: frozenset[str]


@dataclass(frozen=True, slots=True, repr=False)
class StoreSummary(Record):
    """A store, or one of its column families, at a glance.

    ``num_entries`` counts rows and tombstones in SST files, older versions of a key too;
    ``estimated_rows`` is RocksDB's estimate of the rows there are, the WAL's among them.
    ``num_unlisted_ssts`` are SST files that the MANIFEST does not know: being written, left over
    from a compaction, or the sign of a MANIFEST that has lost its end. ``damage`` is what is lost
    of a damaged store, as far as it was read, in one line; of a sound one, that none was seen.
    """

    path: str
    column_families: tuple[str, ...] = of_source(Source.STORE)
    num_files: int = of_source(Source.STORE)
    sst_bytes: int = of_source(Source.STORE)
    blob_bytes: int = of_source(Source.STORE)
    wal_bytes: int = of_source(Source.STORE)
    apparent_bytes: int = of_source(Source.STORE)
    disk_bytes: int = of_source(Source.STORE)
    num_levels_used: int | None = of_source(Source.STORE)
    num_entries: int = of_source(Source.STORE)
    num_deletions: int = of_source(Source.STORE)
    tombstone_density: float | None = of_source(Source.STORE)
    estimated_rows: int | None = of_source(Source.STORE)
    estimated_live_bytes: int | None = of_source(Source.STORE)
    num_unlisted_ssts: int = of_source(Source.STORE)
    damage: str = of_source(Source.STORE)
    format_versions: tuple[int, ...] = of_source(Source.STORE)
    rocksdb_version: str | None = of_source(Source.OPTIONS)
    compaction_style: str | None = of_source(Source.OPTIONS)
    merge_operator: str | None = of_source(Source.OPTIONS)
    unflushed_entries: int | None = of_source(Source.METRICS)
    wal_entries_replayed: int | None = of_source(Source.OPENER)
    table_readers_bytes: int | None = of_source(Source.OPENER)
    copied_bytes: int = of_source(Source.OPENER)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        families = counted(len(self.column_families), "column families")
        return (
            f"StoreSummary({self.path!r}, {families}, "
            f"{counted(self.num_files, 'files')}, {format_bytes(self.sst_bytes)}, "
            f"about {format_count(self.estimated_rows)} rows)"
        )


def footprint_of(*folders: Path) -> Footprint:
    """Return what the files of folders take; files that vanish meanwhile are left out."""
    apparent = disk = wal = blob = 0
    ssts = set()
    for each, told in _entries(folders):
        apparent += told.st_size
        disk += told.st_blocks * _BLOCK_BYTES
        wal += told.st_size if each.name.endswith(".log") else 0
        blob += told.st_size if each.name.endswith(".blob") else 0
        if each.name.endswith(".sst"):
            ssts.add(each.name)
    return Footprint(apparent, disk, wal, blob, frozenset(ssts))


def _entries(folders: tuple[Path, ...]) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    for folder in folders:
        with os.scandir(folder) as entries:
            for each in entries:
                with suppress(FileNotFoundError):
                    yield each, each.stat(follow_symlinks=False)


def summary_of(
    path: Path,
    families: Mapping[str, Rdict],
    *,
    ssts: Sequence[Sst],
    num_unlisted_ssts: int,
    options: Records[OptionsSection] | None,
    footprint: Footprint,
    copied_bytes: int,
    damage: str | None = None,
) -> StoreSummary:
    """Return the summary of some column families; ``footprint`` is the whole folder's."""
    counts = entries_in(ssts)
    of_families = ("compaction_style", "merge_operator")
    told: dict[str, Any] = dict.fromkeys(("rocksdb_version", *of_families))
    if options is not None:
        told["rocksdb_version"] = option_in(options, "Version", "rocksdb_version")
        for name in of_families:  # each value once
            values = {option_in(options, "CFOptions", name, family) for family in families}
            told[name] = ", ".join(sorted(each for each in values if each)) or None
    silent = _NO_OPTIONS if options is None else "the OPTIONS file does not say"
    why = {"unflushed_entries": _NOT_WRITTEN}
    why |= {name: silent for name, value in told.items() if value is None}
    versions = {each.format_version for each in ssts if each.format_version is not None}
    if not counts["num_entries"]:
        why["tombstone_density"] = "there are no SST files"
    return StoreSummary(
        path=str(path),
        column_families=tuple(families),
        num_files=len(ssts),
        sst_bytes=sum(each.size_bytes for each in ssts),
        blob_bytes=footprint.blob_bytes,
        wal_bytes=footprint.wal_bytes,
        apparent_bytes=footprint.apparent_bytes,
        disk_bytes=footprint.disk_bytes,
        num_levels_used=len({(each.column_family, each.level) for each in ssts}),
        **counts,
        estimated_rows=_total(families, "rocksdb.estimate-num-keys"),
        estimated_live_bytes=_total(families, "rocksdb.estimate-live-data-size"),
        num_unlisted_ssts=num_unlisted_ssts,
        damage=damage or NO_DAMAGE,
        format_versions=tuple(sorted(versions)),
        unflushed_entries=None,
        wal_entries_replayed=_total(families, "rocksdb.num-entries-active-mem-table"),
        table_readers_bytes=_total(families, "rocksdb.estimate-table-readers-mem"),
        copied_bytes=copied_bytes,
        unknown=why,
        **told,
    )


def _total(families: Mapping[str, Rdict], name: str) -> int | None:
    """Return the sum over column families of a property that each has of its own."""
    return sum(handle.property_int_value(name) or 0 for handle in families.values())
