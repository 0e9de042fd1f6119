"""A store's SST files: where each stands, how much is in it, and how it was written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import FormatError
from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.rocksdb.files.tableproperties import as_count, read_footer, read_properties
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocksdict import Rdict


_LISTED = re.compile(r"^ (\d+):\d+\[", re.MULTILINE)
"""A line of the property ``rocksdb.sstables``, which knows whose files they are."""


@dataclass(frozen=True, slots=True, repr=False)
class Sst(Record):
    """One SST file.

    ``num_entries`` counts rows and tombstones, older versions of a key too. ``raw_*_bytes`` are
    sizes before compression; keys with the 8 bytes that RocksDB adds to each.
    """

    name: str
    column_family: str
    level: int = of_source(Source.STORE)
    size_bytes: int = of_source(Source.STORE)
    num_entries: int = of_source(Source.STORE)
    num_deletions: int = of_source(Source.STORE)
    tombstone_density: float | None = of_source(Source.STORE)
    smallest_key: bytes = of_source(Source.STORE)
    largest_key: bytes = of_source(Source.STORE)
    format_version: int | None = of_source(Source.STORE, None)
    compression: str | None = of_source(Source.STORE, None)
    filter_policy: str | None = of_source(Source.STORE, None)
    num_data_blocks: int | None = of_source(Source.STORE, None)
    num_merge_operands: int | None = of_source(Source.STORE, None)
    num_range_deletions: int | None = of_source(Source.STORE, None)
    raw_key_bytes: int | None = of_source(Source.STORE, None)
    raw_value_bytes: int | None = of_source(Source.STORE, None)
    data_bytes: int | None = of_source(Source.STORE, None)
    index_bytes: int | None = of_source(Source.STORE, None)
    filter_bytes: int | None = of_source(Source.STORE, None)
    created_at: datetime | None = of_source(Source.STORE, None)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Sst({self.name}, {self.column_family!r}, level {self.level}, "
            f"{format_bytes(self.size_bytes)}, {format_count(self.num_entries)} entries)"
        )


_COUNTS = {
    "num_data_blocks": "rocksdb.num.data.blocks",
    "num_merge_operands": "rocksdb.merge.operands",
    "num_range_deletions": "rocksdb.num.range-deletions",
    "raw_key_bytes": "rocksdb.raw.key.size",
    "raw_value_bytes": "rocksdb.raw.value.size",
    "data_bytes": "rocksdb.data.size",
    "index_bytes": "rocksdb.index.size",
    "filter_bytes": "rocksdb.filter.size",
}
_TEXTS = {"compression": "rocksdb.compression", "filter_policy": "rocksdb.filter.policy"}
_TOLD = (*_COUNTS, *_TEXTS, "created_at")


def ssts_of(folder: Path, families: Mapping[str, Rdict]) -> Records[Sst]:
    """Return the live SST files of some column families, by column family, level and key.

    Parameters
    ----------
    folder
        Where the files lie.
    families
        The column families asked for, opened from that folder.

    Raises
    ------
    Exception
        What rocksdict raises.
    OSError
        If a file can't be read.
    """
    owners = _owners(families)
    listed = next(iter(families.values())).live_files() if families else []
    found = [
        _sst(folder / each["name"].lstrip("/"), owners[number], each)
        for each in listed
        if (number := _number(each["name"])) in owners
    ]
    order = {name: place for place, name in enumerate(families)}
    found.sort(key=lambda each: (order[each.column_family], each.level, each.smallest_key))
    return Records(found, "SST files")


def density(num_deletions: int, num_entries: int) -> float | None:
    """Return the share of tombstones among entries; None of no entries.

    Examples
    --------
    >>> density(1, 4), density(0, 0)
    (0.25, None)
    """
    return num_deletions / num_entries if num_entries else None


def _owners(families: Mapping[str, Rdict]) -> dict[int, str]:
    """Return whose file each number is: rocksdict lists files of all, and does not say."""
    return {
        int(number): name
        for name, handle in families.items()
        for number in _LISTED.findall(handle.property_value("rocksdb.sstables") or "")
    }


def _number(name: str) -> int:
    return int(name.lstrip("/").partition(".")[0])


def _sst(path: Path, family: str, listed: Mapping[str, Any]) -> Sst:
    told, why = _told(path)
    properties = told.pop("properties", {})
    entries = as_count(properties.get("rocksdb.num.entries"))
    deletions = as_count(properties.get("rocksdb.deleted.keys"))
    # What the file says is exact; what RocksDB lists may not have been read yet.
    num_entries = listed["num_entries"] if entries is None else entries
    num_deletions = listed["num_deletions"] if deletions is None else deletions
    return Sst(
        name=path.name,
        column_family=family,
        level=listed["level"],
        size_bytes=listed["size"],
        num_entries=num_entries,
        num_deletions=num_deletions,
        tombstone_density=density(num_deletions, num_entries),
        smallest_key=listed["start_key"],
        largest_key=listed["end_key"],
        unknown=why,
        **told,
    )


def _told(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a file says of itself, and why some of it is unknown."""
    footer = read_footer(path)
    version = None if footer is None else footer.format_version
    try:
        properties = read_properties(path)
    except FormatError as error:
        why = error.message.rstrip(".")
        return {"format_version": version}, dict.fromkeys((*_TOLD, *_no_version(version)), why)
    told: dict[str, Any] = {"properties": properties, "format_version": version}
    told |= {name: as_count(properties.get(key)) for name, key in _COUNTS.items()}
    told |= {name: _text(properties.get(key)) for name, key in _TEXTS.items()}
    told["created_at"] = _time(as_count(properties.get("rocksdb.file.creation.time")))
    silent = [name for name in _TOLD if told[name] is None]
    return told, dict.fromkeys(silent, "the file does not say")


def _no_version(version: int | None) -> tuple[str, ...]:
    return ("format_version",) if version is None else ()


def _text(value: bytes | None) -> str | None:
    return value.decode(errors="replace") if value else None


def _time(seconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
