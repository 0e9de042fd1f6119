"""What an SST file says of itself: its format, and the properties at its end.

rocksdict shows neither. A block-based table ends in a footer: a version and a magic number as its
last 12 bytes, and before them where the metaindex lies. The metaindex is a block that names other
blocks, one of them ``rocksdb.properties``. Both are blocks of the plainest kind, uncompressed:
``shared length, own length, value length`` (varints), the key's own part, the value; then a table
of restarts (RocksDB's ``table/format.cc`` and ``table/meta_blocks.cc``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO


NEWEST_READABLE = 6
"""The newest format_version that RocksDB 9.8, inside the oldest rocksdict we allow, can read."""

_MAGIC = 0x88E241B785F4CFF7
_LEGACY_MAGIC = 0xDB4775248B80FB57  # format_version 0, without a version in the footer
_OTHER_TABLES = {0x8242229663BF9564, 0x4F3418EB7A8F13B8, 0x926789D0C5F17873}  # plain, cuckoo
_FOOTER_BYTES = 53
_LEGACY_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # of each block: its compression and its checksum
_CHECKED_FOOTER = 6  # since then a footer gives the metaindex's size and not its place
_LARGEST_BLOCK = 64 << 20  # a metaindex or properties larger than this are damaged
_VARINT_BITS = 63


@dataclass(frozen=True, slots=True)
class Footer:
    """How an SST file ends.

    ``format_version`` is None for tables that are not block-based, which have none.
    """

    format_version: int | None
    metaindex_start: int
    metaindex_bytes: int


def read_footer(path: Path) -> Footer | None:
    """Return the footer of an SST file, or None if it ends as no SST file does.

    A file that is still being written, is damaged or encrypted ends so.

    Raises
    ------
    OSError
        If the file can't be read.
    """
    with path.open("rb") as file:
        return _footer(file)


def read_properties(path: Path) -> dict[str, bytes]:
    """Return the properties that an SST file has of itself, by RocksDB's names for them.

    Raises
    ------
    FormatError
        If the file has no block of properties, or it can't be made out.
    """
    try:
        with path.open("rb") as file:
            return _properties(file)
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
        return Footer(0, *_handle(tail[-_LEGACY_FOOTER_BYTES:], 0))
    if magic in _OTHER_TABLES:
        return Footer(None, 0, 0)
    if magic != _MAGIC or size < _FOOTER_BYTES:
        return None
    version = int.from_bytes(tail[-12:-8], "little")
    if version < _CHECKED_FOOTER:
        return Footer(version, *_handle(tail, 1))
    # checksum type 1 · magic 4 · checksum 4 · base context 4 · size of the metaindex 4
    size_bytes = int.from_bytes(tail[13:17], "little")
    return Footer(version, size - _FOOTER_BYTES - _TRAILER_BYTES - size_bytes, size_bytes)


def _properties(file: BinaryIO) -> dict[str, bytes]:
    footer = _footer(file)
    if footer is None or footer.format_version is None:
        raise KeyError(file.name)
    metaindex = _block(file, footer.metaindex_start, footer.metaindex_bytes)
    return _block(file, *_handle(metaindex["rocksdb.properties"], 0))


def _block(file: BinaryIO, start: int, size_bytes: int) -> dict[str, bytes]:
    """Return the entries of a block: each key shares its beginning with the one before."""
    whole = file.seek(0, os.SEEK_END)
    if not 0 < size_bytes < _LARGEST_BLOCK or not 0 <= start <= whole - size_bytes:
        raise ValueError(size_bytes)
    file.seek(start)
    block = file.read(size_bytes)
    num_restarts = int.from_bytes(block[-4:], "little") & 0x7FFFFFFF
    end = len(block) - 4 * (num_restarts + 1)
    entries, at, key = {}, 0, b""
    while at < end:
        shared, at = _varint(block, at)
        own, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + own]
        at += own
        entries[key.decode()] = block[at : at + length]
        at += length
    return entries


def _handle(data: bytes, at: int) -> tuple[int, int]:
    start, at = _varint(data, at)
    size_bytes, _ = _varint(data, at)
    return start, size_bytes


def _varint(data: bytes, at: int) -> tuple[int, int]:
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

    Examples
    --------
    >>> as_count(bytes([0xE8, 0x07])), as_count(None)
    (1000, None)
    """
    try:
        return None if value is None else _varint(value, 0)[0]
    except (IndexError, ValueError):
        return None
