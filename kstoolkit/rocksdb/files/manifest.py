"""Which SST files a store's MANIFEST lists, whether it is whole, and how files come off its list.

RocksDB takes a torn end of its MANIFEST for the end: it opens the store as it was before, and says
nothing, so that rows are missing. The file is a log in blocks of 32 KiB::

    record   checksum 4 · length 2 · type 1 · payload      type: full, first, middle or last part
    block    record, record … · padding                    too short for one more record
    payload  tag · fields, tag · fields …                  an edit; numbers are varints

A record that does not fit into the rest of a block goes on in the next (RocksDB's
``db/log_format.h``). An edit tells of files added to a level of a column family, and taken away
(``db/version_edit.cc``). rocksdict shows no file that is listed and missing, and drops none.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import DamagedStoreError, translated
from kstoolkit.rocksdb.files.finding import REBUILD_HINT, explained
from kstoolkit.rocksdb.files.ssts import varint_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_NAME = re.compile(r"MANIFEST-\d+")
_BLOCK_BYTES = 32 << 10
_HEADER_BYTES = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_KINDS = {(True, True): _FULL, (True, False): _FIRST, (False, False): _MIDDLE, (False, True): _LAST}
"""Whether a piece is the first of its record, and whether it is the last."""


def check_manifest(scratch: Path, folder: Path) -> None:
    """Refuse a MANIFEST that lost its end: RocksDB would open an older store, and say nothing."""
    manifest = manifest_of(scratch)
    with translated(folder):
        if not manifest.is_file():
            why = f"{manifest.name}, which CURRENT names, is missing"
            message = f"The store {folder} is damaged: {why}."
            raise DamagedStoreError(message, hint=REBUILD_HINT)
        torn = torn_at(manifest)
    if torn is not None:
        message = (
            f"The store {folder} is damaged: {manifest.name} ends in the middle of a record, which "
            f"begins at byte {torn}; newer rows would be missing without a sign."
        )
        raise explained(DamagedStoreError(message, hint=REBUILD_HINT), scratch, folder)


def manifest_of(folder: Path) -> Path:
    """Return the MANIFEST that the CURRENT file of a folder names, whether it is there or not."""
    return folder / (folder / "CURRENT").read_text(encoding="utf-8", errors="replace").strip()


def whole_manifest(folder: Path) -> Path | None:
    """Return the MANIFEST of a folder; None if it, or the CURRENT that names it, is not whole."""
    with suppress(OSError):
        manifest = manifest_of(folder)
        if _NAME.fullmatch(manifest.name) and manifest.parent == folder:
            return manifest if manifest.stat().st_size and torn_at(manifest) is None else None
    return None


def torn_at(path: Path) -> int | None:
    """Return the byte at which the last, unfinished record of a MANIFEST begins; None if whole.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "MANIFEST-000001")
    >>> _ = path.write_bytes(b"cccc" + bytes([3, 0, 1]) + b"ab")
    >>> torn_at(path)
    0
    """
    begun: int | None = None
    for piece in _pieces(path):
        if piece.kind in {_FULL, _FIRST}:
            begun = piece.at
        if piece.is_torn:
            return piece.at if begun is None else begun
        if piece.kind in {_FULL, _LAST}:
            begun = None
    return begun


class _Piece(NamedTuple):
    """A part of a record that stands in one block."""

    at: int
    kind: int
    payload: bytes
    is_torn: bool


def _pieces(path: Path) -> Iterator[_Piece]:
    base = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield from _pieces_in(block, base)
            base += len(block)


def _pieces_in(block: bytes, base: int) -> Iterator[_Piece]:
    at = 0
    while at + _HEADER_BYTES <= len(block):
        length, kind = int.from_bytes(block[at + 4 : at + 6], "little"), block[at + 6]
        if kind == 0 and length == 0:
            return  # room that was set aside, never written
        begin, end = at + _HEADER_BYTES, at + _HEADER_BYTES + length
        yield _Piece(base + at, kind, block[begin:end], is_torn=end > len(block))
        at = end
    if at < len(block) < _BLOCK_BYTES:
        yield _Piece(base + at, 0, b"", is_torn=True)


def _records_in(path: Path) -> Iterator[bytes]:
    """Yield the records up to a torn one, each put together; checksums are not looked at."""
    begun = b""
    for piece in _pieces(path):
        if piece.is_torn:
            return
        begun = piece.payload if piece.kind in {_FULL, _FIRST} else begun + piece.payload
        if piece.kind in {_FULL, _LAST}:
            yield begun


def _append_record(path: Path, payload: bytes) -> None:
    """Write one more record behind the last one of a whole file that nobody else writes to."""
    whole = (each for each in _pieces(path) if not each.is_torn)
    end = max((each.at + _HEADER_BYTES + len(each.payload) for each in whole), default=0)
    with path.open("r+b") as file:
        file.truncate(end)  # what was set aside behind it
        file.seek(end)
        first = True
        while first or payload:
            left = _BLOCK_BYTES - file.tell() % _BLOCK_BYTES
            if left <= _HEADER_BYTES:
                file.write(bytes(left))
                continue
            piece, payload = payload[: left - _HEADER_BYTES], payload[left - _HEADER_BYTES :]
            typed = bytes([_KINDS[first, not payload]]) + piece
            checksum = _masked_crc32c(typed).to_bytes(4, "little")
            file.write(checksum + len(piece).to_bytes(2, "little") + typed)
            first = False


_POLYNOMIAL = 0x82F63B78  # Castagnoli's, its bits reversed
_ALL = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


def _masked_crc32c(data: bytes) -> int:
    """Return a CRC-32C as RocksDB stores it: turned, and moved by a constant.

    A checksum of data that has checksums in it would be weak (RocksDB's ``util/crc32c.h``).
    """
    crc = _ALL
    for byte in data:  # a few for each file that comes off the list
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ _POLYNOMIAL if crc & 1 else crc >> 1
    crc ^= _ALL
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL


_DELETED_FILE, _FAMILY, _FAMILY_DROP = 6, 200, 202
_SIZE_AT = {7: 2, 100: 2, 102: 3, 103: 2}
"""Tags of files that are added, and which of their numbers is the size."""
_FORMS = {
    **dict.fromkeys((2, 3, 4, 9, 10, _FAMILY, 203, 300), "n"),
    **dict.fromkeys((1, 201), "t"),
    5: "nt",
    _DELETED_FILE: "nn",
    7: "nnntt",
    100: "nnnttnn",
    102: "nnnnttnn",
    103: "nnnttnn",
    _FAMILY_DROP: "",
    400: "nnntt",
    401: "nnn",
}
"""Which numbers and texts follow a tag."""
_LAST_FIELD = {103: 1, 400: 0, 401: 0}
"""Tags behind which more fields come, each a tag and a text, up to a tag that ends them."""
_NEWER = 1 << 13  # from this tag on, a length says how much to skip


@dataclass(frozen=True, slots=True)
class ListedTable:
    """An SST file that a MANIFEST lists."""

    number: int
    family: int
    level: int
    size_bytes: int

    @property
    def name(self) -> str:
        """What it is called in the store's folder."""
        return f"{self.number:06}.sst"


@dataclass(slots=True)
class _Edit:
    data: bytes
    at: int = 0
    family: int = 0
    is_drop: bool = False
    deleted: list[int] = field(default_factory=list)
    added: list[tuple[int, int, int]] = field(default_factory=list)

    def number(self) -> int:
        value, self.at = varint_at(self.data, self.at)
        return value

    def skip_text(self) -> None:
        length = self.number()
        self.at += length
        if self.at > len(self.data):
            raise IndexError(self.at)

    def read(self) -> None:
        while self.at < len(self.data):
            tag, numbers = self.number(), []
            if tag not in _FORMS and tag < _NEWER:
                raise ValueError(tag)
            for kind in _FORMS.get(tag, "t"):
                if kind == "n":
                    numbers.append(self.number())
                else:
                    self.skip_text()
            while tag in _LAST_FIELD and self.number() != _LAST_FIELD[tag]:
                self.skip_text()
            self._take(tag, numbers)

    def _take(self, tag: int, numbers: list[int]) -> None:
        if tag in _SIZE_AT:
            level, number = numbers[:2]
            self.added.append((number, level, numbers[_SIZE_AT[tag]]))
        elif tag == _DELETED_FILE:
            self.deleted.append(numbers[1])
        elif tag == _FAMILY:
            self.family = numbers[0]
        elif tag == _FAMILY_DROP:
            self.is_drop = True


def listed_tables(manifest: Path) -> dict[int, ListedTable]:
    """Return the SST files that a MANIFEST lists at its end, by their numbers."""
    tables: dict[int, ListedTable] = {}
    for record in _records_in(manifest):
        edit = _Edit(record)
        try:
            edit.read()
        except (IndexError, ValueError) as error:
            message = f"{manifest.name} has an edit that can't be made out."
            raise FormatError(message, hint="It is damaged, or of a newer RocksDB.") from error
        if edit.is_drop:
            for each in [each for each in tables.values() if each.family == edit.family]:
                del tables[each.number]
        for number in edit.deleted:
            tables.pop(number, None)
        for number, level, size_bytes in edit.added:  # also those that only changed their level
            tables[number] = ListedTable(number, edit.family, level, size_bytes)
    return tables


def drop_tables(manifest: Path, tables: Sequence[ListedTable]) -> None:
    """Write behind a MANIFEST that some SST files are listed no more; of its copy, that is."""
    by_family = sorted(tables, key=lambda each: each.family)
    for family, some in groupby(by_family, key=lambda each: each.family):
        edit = _varint(_FAMILY) + _varint(family)
        for each in some:
            edit += _varint(_DELETED_FILE) + _varint(each.level) + _varint(each.number)
        _append_record(manifest, edit)


def _varint(value: int) -> bytes:
    digits = []
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
