"""Snapshots: what a file ``N.zip`` says of a store, and which files belong to it.

The zip holds RocksDB's MANIFEST, CURRENT and OPTIONS, an empty log, and ``metadata``. The SST files
lie beside it, in ``SSTs/``, under names that no two of them share. The metadata says which those
are, and what RocksDB calls them
(``org.apache.spark.sql.execution.streaming.state.RocksDBFileManager``).

A zip may come from anywhere: names that leave the folder, members that are not known to Spark's
zips, and sizes beyond what such files have are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo
from zlib import error as ZlibError  # noqa: N812 - an exception by its name

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.jsontext import (
    integer,
    items,
    member,
    object_of,
    text,
    versioned_lines,
)

_METADATA = "metadata"
_MEMBER = re.compile(r"MANIFEST-\d{1,20}|CURRENT|IDENTITY|OPTIONS-\d{1,20}|\d{1,20}\.log|metadata")
_LOCAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MOST_MEMBERS, _MOST_BYTES, _LARGEST_ZIP_RATIO = 1000, 256 << 20, 1100
_NOT_SPARKS = "The file is damaged, or was not written by Spark."
_SNAPSHOT = "metadata of a snapshot"
_PLAIN_OPERATOR = re.compile(r"^(\s*merge_operator)=StringAppendOperator[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """An immutable file of a snapshot: under which name it lies, and which one RocksDB wants."""

    name: str
    stored_name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of a store.

    Parameters
    ----------
    members
        The files inside the zip, by name.
    sst_files, log_files
        The files beside it, in ``SSTs/`` and ``logs/``.
    num_keys, num_internal_keys
        How many keys there are, and how many that operators keep for themselves; None where Spark
        did not count.
    families
        The number of each column family; {} in a store without families.
    internal_families
        Those of them that operators keep for themselves.
    """

    members: dict[str, bytes]
    sst_files: tuple[SnapshotFile, ...]
    log_files: tuple[SnapshotFile, ...]
    num_keys: int | None
    num_internal_keys: int | None
    families: dict[str, int] = field(default_factory=dict)
    internal_families: frozenset[str] = frozenset()


def read_snapshot(raw: bytes) -> Snapshot:
    r"""Return what a snapshot's zip holds.

    Raises
    ------
    FormatError
        If it is no zip, is damaged, lacks its metadata, or names files that no snapshot has.

    Examples
    --------
    >>> packed = BytesIO()
    >>> with ZipFile(packed, "w") as archive:
    ...     archive.writestr("metadata", 'v1\n{"sstFiles":[],"numKeys":-1}')
    >>> found = read_snapshot(packed.getvalue())
    >>> found.sst_files, found.num_keys
    ((), None)
    """
    try:
        members = _members(raw)
    except (BadZipFile, ZlibError, EOFError, NotImplementedError, OSError, ValueError) as error:
        message = f"A snapshot of {len(raw):,} bytes that is no zip: {error}."
        raise FormatError(message, hint=_NOT_SPARKS) from error
    if _METADATA not in members:
        message = f"A snapshot without its metadata: it holds {', '.join(members) or 'nothing'}."
        raise FormatError(message, hint=_NOT_SPARKS)
    _, lines = versioned_lines(members[_METADATA], _SNAPSHOT, range(1, 2))
    found = object_of("\n".join(lines), f"the {_SNAPSHOT}")
    internal = member(found, "columnFamilyTypeMap", _SNAPSHOT)
    return Snapshot(
        members,
        tuple(_file(each, "dfsSstFileName") for each in items(found, "sstFiles", _SNAPSHOT)),
        tuple(_file(each, "dfsLogFileName") for each in items(found, "logFiles", _SNAPSHOT)),
        _count(found, "numKeys"),
        _count(found, "numInternalKeys"),
        _families(found),
        frozenset(name for name, value in internal.items() if value is True),
    )


def with_delimiter(options: bytes, delimiter: bytes) -> bytes:
    r"""Return RocksDB's OPTIONS, saying what stands between values that are appended.

    Spark has RocksDB append with a delimiter of its own, which OPTIONS does not record: what opens
    the files by their OPTIONS would put a comma between the values.

    Examples
    --------
    >>> with_delimiter(b"  merge_operator=StringAppendOperator\n", b"")
    b'  merge_operator={id=StringAppendOperator;delimiter=;}\n'
    """
    if delimiter == b",":
        return options
    told = rf"\1={{id=StringAppendOperator;delimiter={delimiter.decode('latin-1')};}}"
    return _PLAIN_OPERATOR.sub(told, options.decode("latin-1")).encode("latin-1")


def _members(raw: bytes) -> dict[str, bytes]:
    with ZipFile(BytesIO(raw)) as archive:
        entries = archive.infolist()
        sizes = sum(entry.file_size for entry in entries)
        if len(entries) > _MOST_MEMBERS or sizes > min(_MOST_BYTES, len(raw) * _LARGEST_ZIP_RATIO):
            message = (
                f"A snapshot's zip of {len(raw):,} bytes says that it holds {len(entries):,} files "
                f"of {sizes:,} bytes, which is more than any of Spark's."
            )
            raise FormatError(message, hint=_NOT_SPARKS)
        return {entry.filename: _content(archive, entry) for entry in entries}


def _content(archive: ZipFile, entry: ZipInfo) -> bytes:
    # Other ways of packing have errors of their own, and may ask for gigabytes to be unpacked in.
    is_plain = entry.compress_type in {ZIP_STORED, ZIP_DEFLATED} and not entry.flag_bits & 1
    if not _MEMBER.fullmatch(entry.filename) or not is_plain:
        message = f"A snapshot with a file {entry.filename[:80]!r}, as none of Spark's has."
        raise FormatError(message, hint=_NOT_SPARKS)
    with archive.open(entry) as stream:
        return stream.read(entry.file_size)  # never more, whatever the file holds


def _file(found: dict[str, Any], stored: str) -> SnapshotFile:
    names = text(found, "localFileName", _SNAPSHOT), text(found, stored, _SNAPSHOT)
    for name in names:
        if not _LOCAL_NAME.fullmatch(name):
            message = f"A snapshot that wants a file {name[:80]!r}."
            raise FormatError(message, hint=_NOT_SPARKS)
    return SnapshotFile(*names, integer(found, "sizeBytes", _SNAPSHOT))


def _count(found: dict[str, Any], name: str) -> int | None:
    count = integer(found, name, _SNAPSHOT, -1)
    return count if count >= 0 else None


def _families(found: dict[str, Any]) -> dict[str, int]:
    mapping = member(found, "columnFamilyMapping", _SNAPSHOT)
    return {name: integer(mapping, name, _SNAPSHOT) for name in mapping}
