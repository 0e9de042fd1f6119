"""A store's SST files: on which level each stands, how much is in it, how it was written.

rocksdict shows a file's place and keys, but neither its format nor the properties at its end. A
block-based table ends in a footer: a version and a magic number as its last 12 bytes, and before
them where the metaindex lies. The metaindex is a block that names other blocks, one of them
``rocksdb.properties``. Both are blocks of the plainest kind, uncompressed (RocksDB's
``table/format.cc`` and ``table/meta_blocks.cc``)::

    entry   shared length · own length · value length (varints) · the key's own part · the value
    block   entry, entry … · a table of restarts
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import FormatError
from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from rocksdict import Rdict

NEWEST_READABLE = 6
"""The newest format_version that RocksDB 9.8, inside the oldest rocksdict we allow, can read."""

_MAGIC = 0x88E241B785F4CFF7
_LEGACY_MAGIC = 0xDB4775248B80FB57  # format_version 0, without a version in the footer
_OTHER_TABLES = {0x8242229663BF9564, 0x4F3418EB7A8F13B8, 0x926789D0C5F17873}  # plain, cuckoo
_FOOTER_BYTES = 53
_LEGACY_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # of each block: its compression and its checksum
_CHECKED_FOOTER = 6  # since then a footer gives the metaindex's size and not its place
_FLAT_INDEXES = {0, 1}  # RocksDB's kBinarySearch and kHashSearch
_LARGEST_BLOCK = 64 << 20  # a metaindex or properties larger than this are damaged
_VARINT_BITS = 63


@dataclass(frozen=True, slots=True)
class Footer:
    """How an SST file ends; ``format_version`` is None for tables that are not block-based.

    Where blocks begin, and their sizes; since version 6 the metaindex tells where the index is.
    """

    format_version: int | None
    metaindex: tuple[int, int] = (0, 0)
    index: tuple[int, int] | None = None


def read_footer(path: Path) -> Footer | None:
    """Return the footer of an SST file; None of one that is not whole, damaged or encrypted."""
    with path.open("rb") as file:
        return _footer(file)


def read_properties(path: Path) -> dict[str, bytes]:
    """Return the properties that an SST file has, by RocksDB's names; else it is a FormatError."""
    try:
        with path.open("rb") as file:
            return _properties(file, _footer(file))
    except (IndexError, ValueError, KeyError) as error:
        message = f"The properties of {path.name} can't be made out."
        raise FormatError(message, hint="Is the file whole? The store's rows may be.") from error


def _footer(file: BinaryIO) -> Footer | None:
    size = file.seek(0, os.SEEK_END)
    if size < _LEGACY_FOOTER_BYTES:
        return None
    file.seek(max(0, size - _FOOTER_BYTES))
    tail = file.read(_FOOTER_BYTES)
    magic = int.from_bytes(tail[-8:], "little")
    if magic == _LEGACY_MAGIC:
        return Footer(0, *_handles(tail[-_LEGACY_FOOTER_BYTES:], 0))
    if magic in _OTHER_TABLES:
        return Footer(None)
    if magic != _MAGIC or size < _FOOTER_BYTES:
        return None
    version = int.from_bytes(tail[-12:-8], "little")
    if version < _CHECKED_FOOTER:
        return Footer(version, *_handles(tail, 1))
    # checksum type 1 · magic 4 · checksum 4 · base context 4 · size of the metaindex 4
    size_bytes = int.from_bytes(tail[13:17], "little")
    return Footer(version, (size - _FOOTER_BYTES - _TRAILER_BYTES - size_bytes, size_bytes))


def _properties(file: BinaryIO, footer: Footer | None) -> dict[str, bytes]:
    if footer is None or footer.format_version is None:
        raise KeyError(file.name)
    return _block(file, _handles(_block(file, footer.metaindex)["rocksdb.properties"], 0)[0])


def index_handle(file: BinaryIO) -> tuple[int, int, bool, bool]:
    """Return where a file's index is, its size, and what its keys and values are.

    That is: keys without sequence numbers, and values of which only the first is whole. An index in
    partitions, or with the blocks' first keys, is a ValueError.
    """
    footer = _footer(file)
    told = _properties(file, footer)
    kind = int.from_bytes(told.get("rocksdb.block.based.table.index.type", b"\0"), "little")
    if kind not in _FLAT_INDEXES:
        raise ValueError(kind)
    is_user_key, is_delta = (
        bool(as_count(told.get(f"rocksdb.index.{name}")))
        for name in ("key.is.user.key", "value.is.delta.encoded")
    )
    index = footer.index if footer else None
    if footer and index is None:
        index = _handles(_block(file, footer.metaindex)["rocksdb.index"], 0)[0]
    return *(index or (0, 0)), is_user_key, is_delta


def _block(file: BinaryIO, handle: tuple[int, int]) -> dict[str, bytes]:
    """Return the entries of a block that is not compressed."""
    start, size_bytes = handle
    whole = file.seek(0, os.SEEK_END)
    if not 0 < size_bytes < _LARGEST_BLOCK or not 0 <= start <= whole - size_bytes:
        raise ValueError(size_bytes)
    file.seek(start)
    return {key.decode(): value for key, value in entries_of(file.read(size_bytes))}


def entries_of(block: bytes, *, is_delta: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of a block: each key shares its beginning with the one before.

    Values of an index that are deltas have no length, and are not told.
    """
    restarts = int.from_bytes(block[-4:], "little") & 0x7FFFFFFF
    end, at, key = len(block) - 4 * (restarts + 1), 0, b""
    while at < end:
        shared, at = varint_at(block, at)
        own, at = varint_at(block, at)
        length, at = (0, at) if is_delta else varint_at(block, at)
        key = key[:shared] + block[at : at + own]
        at += own + length
        yield key, block[at - length : at]
        for _ in range((1 if shared else 2) if is_delta else 0):
            _, at = varint_at(block, at)


def _handles(data: bytes, at: int) -> list[tuple[int, int]]:
    """Return where blocks begin, and their sizes: one, or two where there are two."""
    numbers: list[int] = []
    while at < len(data) and len(numbers) < 4:  # noqa: PLR2004 - of two blocks
        number, at = varint_at(data, at)
        numbers.append(number)
    return list(zip(numbers[::2], numbers[1::2], strict=False))


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length number at a place, and the place behind it."""
    value = 0
    for shift in range(0, _VARINT_BITS + 1, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says another byte follows
            return value, at
    raise ValueError(data[:10])


def as_count(value: bytes | None) -> int | None:
    """Return a property that is a count or a size; None if it is absent or damaged.

    >>> as_count(bytes([0xE8, 0x07])), as_count(None)
    (1000, None)
    """
    try:
        return None if value is None else varint_at(value, 0)[0]
    except (IndexError, ValueError):
        return None


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
_OWN_FIGURES = (*_COUNTS, *_TEXTS, "created_at")


def ssts_of(folder: Path, families: Mapping[str, Rdict]) -> Records[Sst]:
    """Return the live SST files of some column families, by column family, level and key."""
    owners = _owners(families)
    listed = next(iter(families.values())).live_files() if families else []
    found = [
        _sst(folder / each["name"].lstrip("/"), owners[number], each)
        for each in listed
        if (number := int(each["name"].lstrip("/").partition(".")[0])) in owners
    ]
    order = {name: place for place, name in enumerate(families)}
    found.sort(key=lambda each: (order[each.column_family], each.level, each.smallest_key))
    return Records(found, "SST files")


def density(num_deletions: int, num_entries: int) -> float | None:
    """Return the share of tombstones among entries; None of no entries.

    >>> density(1, 4), density(0, 0)
    (0.25, None)
    """
    return num_deletions / num_entries if num_entries else None


def entries_in(ssts: Sequence[Sst | Level]) -> dict[str, Any]:
    """Return what files have of entries and tombstones together, by the names of the figures."""
    entries = sum(each.num_entries for each in ssts)
    deletions = sum(each.num_deletions for each in ssts)
    return {
        "num_entries": entries,
        "num_deletions": deletions,
        "tombstone_density": density(deletions, entries),
    }


def known_total(sizes: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of them is unknown."""
    listed = list(sizes)
    known = [size for size in listed if size is not None]
    return sum(known) if len(known) == len(listed) else None


def _owners(families: Mapping[str, Rdict]) -> dict[int, str]:
    """Return whose file each number is: rocksdict lists files of all, and does not say."""
    return {
        int(number): name
        for name, handle in families.items()
        for number in _LISTED.findall(handle.property_value("rocksdb.sstables") or "")
    }


def _sst(path: Path, family: str, listed: Mapping[str, Any]) -> Sst:
    told, why = _figures_of(path)
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


def _figures_of(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a file says of itself, and why some of it is unknown."""
    footer = read_footer(path)
    version = None if footer is None else footer.format_version
    try:
        properties = read_properties(path)
    except FormatError as error:
        silent = [*_OWN_FIGURES, *(["format_version"] if version is None else [])]
        return {"format_version": version}, dict.fromkeys(silent, error.message.rstrip("."))
    told: dict[str, Any] = {"properties": properties, "format_version": version}
    told |= {name: as_count(properties.get(key)) for name, key in _COUNTS.items()}
    said = {name: properties.get(key, b"").decode(errors="replace") for name, key in _TEXTS.items()}
    told |= {name: text or None for name, text in said.items()}
    created_s = as_count(properties.get("rocksdb.file.creation.time"))
    told["created_at"] = datetime.fromtimestamp(created_s, UTC) if created_s else None
    silent = [name for name in _OWN_FIGURES if told[name] is None]
    return told, dict.fromkeys(silent, "the file does not say")


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


def levels_of(parts: Iterable[Sst] | Iterable[Level]) -> Records[Level]:
    """Return what SST files, or levels of several stores, come to as levels."""
    where = attrgetter("column_family", "level")
    each: list[Sst | Level] = sorted(parts, key=where)
    return Records([_level_of(*at, [*some]) for at, some in groupby(each, where)], "levels")


def _level_of(family: str, level: int, parts: Sequence[Sst | Level]) -> Level:
    raw_bytes = known_total(map(_raw_bytes, parts))
    kinds = {kind for each in parts for kind in (each.compression or "").split(", ") if kind}
    compression = ", ".join(sorted(kinds)) or None
    told = {"raw_bytes": raw_bytes, "compression": compression}
    return Level(
        column_family=family,
        level=level,
        num_files=sum(getattr(each, "num_files", 1) for each in parts),
        size_bytes=sum(each.size_bytes for each in parts),
        raw_bytes=raw_bytes,
        **entries_in(parts),
        compression=compression,
        smallest_key=min(each.smallest_key for each in parts),
        largest_key=max(each.largest_key for each in parts),
        unknown={name: "the files do not say" for name, each in told.items() if each is None},
    )


def _raw_bytes(part: Sst | Level) -> int | None:
    if isinstance(part, Level):
        return part.raw_bytes
    return known_total((part.raw_key_bytes, part.raw_value_bytes))
