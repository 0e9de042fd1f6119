"""Which SST files a MANIFEST lists, and how some of them are taken off its list.

A MANIFEST is a log of edits: files that are added to a level of a column family, and files that are
taken away. An edit is a sequence of ``tag · fields``, numbers as varints (RocksDB's
``db/version_edit.cc``). rocksdict shows no file that is listed and missing, and drops none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.files.logfile import append_record, records_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_DELETED_FILE, _FAMILY, _FAMILY_DROP, _BLOB_ADDED, _BLOB_GARBAGE = 6, 200, 202, 400, 401
_NUMBERS = {2: 1, 3: 1, 4: 1, 9: 1, 10: 1, 203: 1, 300: 1}
"""Tags that are followed by so many varints."""
_NEW_FILES = {7: 0, 100: 0, 102: 1, 103: 0}
"""Tags of files that are added, and whether a path's number stands before their sizes."""
_TEXTS = {1, 201}
_COMPACT_CURSOR = 5
_NEWER = 1 << 13  # from this tag on, a length says how much to skip
_VARINT_BITS = 63


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
        value = 0
        for shift in range(0, _VARINT_BITS + 1, 7):
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the bit that says another byte follows
                return value
        raise ValueError(self.at)

    def skip_text(self) -> None:
        length = self.number()
        self.at += length
        if self.at > len(self.data):
            raise IndexError(self.at)

    def read(self) -> None:
        while self.at < len(self.data):
            self._field(self.number())

    def _field(self, tag: int) -> None:
        if tag in _NUMBERS:
            self.number()
        elif tag in _NEW_FILES:
            self._new_file(tag)
        elif tag in {_COMPACT_CURSOR, _DELETED_FILE}:
            self._of_level(tag)
        elif tag == _FAMILY:
            self.family = self.number()
        elif tag == _FAMILY_DROP:
            self.is_drop = True
        elif tag in {_BLOB_ADDED, _BLOB_GARBAGE}:
            self._blob(tag)
        elif tag in _TEXTS or tag >= _NEWER:
            self.skip_text()
        else:
            raise ValueError(tag)

    def _of_level(self, tag: int) -> None:
        self.number()
        if tag == _DELETED_FILE:
            self.deleted.append(self.number())
        else:
            self.skip_text()

    def _new_file(self, tag: int) -> None:
        level, number = self.number(), self.number()
        if _NEW_FILES[tag]:
            self.number()
        self.added.append((number, level, self.number()))
        for _ in range(2):  # the smallest and the largest key
            self.skip_text()
        if tag != 7:  # noqa: PLR2004 - the oldest form knows no sequence numbers
            self.number(), self.number()
        if tag == 103:  # noqa: PLR2004 - the newest has more fields, each with its length
            self._more_fields(end=1)

    def _blob(self, tag: int) -> None:
        for _ in range(3):
            self.number()
        if tag == _BLOB_ADDED:
            self.skip_text()
            self.skip_text()
        self._more_fields(end=0)

    def _more_fields(self, end: int) -> None:
        while self.number() != end:
            self.skip_text()


def listed_tables(manifest: Path) -> dict[int, ListedTable]:
    """Return the SST files that a MANIFEST lists at its end, by their numbers.

    Raises
    ------
    FormatError
        If an edit can't be made out.
    OSError
        If the file can't be read.
    """
    tables: dict[int, ListedTable] = {}
    for record in records_in(manifest):
        edit = _Edit(record)
        try:
            edit.read()
        except (IndexError, ValueError) as error:
            message = f"{manifest.name} has an edit that can't be made out."
            raise FormatError(message, hint="It is damaged, or of a newer RocksDB.") from error
        _apply(edit, tables)
    return tables


def _apply(edit: _Edit, tables: dict[int, ListedTable]) -> None:
    if edit.is_drop:
        for each in [each for each in tables.values() if each.family == edit.family]:
            del tables[each.number]
    for number in edit.deleted:
        tables.pop(number, None)
    for number, level, size_bytes in edit.added:  # also those that only changed their level
        tables[number] = ListedTable(number, edit.family, level, size_bytes)


def drop_tables(manifest: Path, tables: Sequence[ListedTable]) -> None:
    """Write behind a MANIFEST that some SST files are listed no more; of its copy, that is.

    Raises
    ------
    OSError
        If the file can't be written.
    """
    by_family = sorted(tables, key=lambda each: each.family)
    for family, some in groupby(by_family, key=lambda each: each.family):
        edit = _varint(_FAMILY) + _varint(family)
        for each in some:
            edit += _varint(_DELETED_FILE) + _varint(each.level) + _varint(each.number)
        append_record(manifest, edit)


def _varint(value: int) -> bytes:
    digits = []
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
