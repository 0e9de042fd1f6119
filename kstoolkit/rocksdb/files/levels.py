"""The shape of a store's tree: what stands on each level of each column family."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.rocksdb.files.ssts import density
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.files.ssts import Sst


@dataclass(frozen=True, slots=True, repr=False)
class Level(Record):
    """One level that has files.

    ``num_entries`` counts rows and tombstones, older versions of a key too; ``raw_bytes`` are keys
    and values before compression; ``compression`` names each kind that a file of the level has.
    """

    column_family: str
    level: int
    num_files: int = of_source(Source.STORE)
    size_bytes: int = of_source(Source.STORE)
    raw_bytes: int | None = of_source(Source.STORE)
    num_entries: int = of_source(Source.STORE)
    num_deletions: int = of_source(Source.STORE)
    tombstone_density: float | None = of_source(Source.STORE)
    compression: str | None = of_source(Source.STORE)
    smallest_key: bytes = of_source(Source.STORE)
    largest_key: bytes = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Level({self.column_family!r}, level {self.level}, {format_count(self.num_files)} "
            f"files, {format_bytes(self.size_bytes)}, {format_count(self.num_entries)} entries)"
        )


def levels_of(ssts: Sequence[Sst]) -> Records[Level]:
    """Return the levels of SST files that come sorted by column family and level."""
    grouped = groupby(ssts, lambda each: (each.column_family, each.level))
    return Records([_level(*where, list(files)) for where, files in grouped], "levels")


def _level(family: str, level: int, files: list[Sst]) -> Level:
    entries = sum(each.num_entries for each in files)
    deletions = sum(each.num_deletions for each in files)
    raw_bytes, compression = _raw_bytes(files), _compression(files)
    told = {"raw_bytes": raw_bytes, "compression": compression}
    return Level(
        column_family=family,
        level=level,
        num_files=len(files),
        size_bytes=sum(each.size_bytes for each in files),
        raw_bytes=raw_bytes,
        num_entries=entries,
        num_deletions=deletions,
        tombstone_density=density(deletions, entries),
        compression=compression,
        smallest_key=min(each.smallest_key for each in files),
        largest_key=max(each.largest_key for each in files),
        unknown={name: "the files do not say" for name, each in told.items() if each is None},
    )


def _raw_bytes(files: list[Sst]) -> int | None:
    total = 0
    for each in files:
        if each.raw_key_bytes is None or each.raw_value_bytes is None:
            return None
        total += each.raw_key_bytes + each.raw_value_bytes
    return total


def _compression(files: list[Sst]) -> str | None:
    kinds = {each.compression for each in files if each.compression}
    return ", ".join(sorted(kinds)) or None
