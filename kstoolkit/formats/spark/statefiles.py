"""What the files of a store's versions say: changelogs, deltas, and the zips of snapshots.

A changelog file, as also the HDFS-backed provider's ``.delta`` and ``.snapshot``::

    v1, v3  length (4) · key · length (4) · value · …
            a value of length -1: the key is removed; a key of length -1: the end
    v2, v4  type (1) · length (4) · key · length (4) · value · …
            type 01 put, 10 remove, 11 append, 20 remove a range, 00 the end

Numbers are big-endian. v2 to v4 begin with their version, as ``writeUTF`` writes it; v3 and v4 then
with their lineage, the versions since the last snapshot and their unique ids. v1 begins with
nothing, and is what the HDFS-backed provider writes too, in a delta of each version and a snapshot
now and then. The whole is compressed (:mod:`kstoolkit.formats.spark.compression`;
``org.apache.spark.sql.execution.streaming.state.StateStoreChangelogWriter``).

A snapshot ``N.zip`` holds RocksDB's MANIFEST, CURRENT and OPTIONS, an empty log, and ``metadata``.
The SST files lie beside it, in ``SSTs/``, under names that no two of them share. The metadata says
which those are, and what RocksDB calls them (``RocksDBFileManager`` of the same package). A zip may
come from anywhere: names that leave the folder, members that are not known to Spark's zips, and
sizes beyond what such files have are refused.
"""

from __future__ import annotations

import json
import re
from array import array
from dataclasses import dataclass, field
from io import BytesIO
from struct import Struct
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo
from zlib import error as ZlibError  # noqa: N812 - an exception by its name

import numpy as np

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.spark.compression import decompressed
from kstoolkit.formats.spark.text import (
    JavaData,
    integer,
    items,
    member,
    object_of,
    text,
    versioned_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_END, PUT, REMOVE, APPEND, _REMOVE_RANGE = 0x00, 0x01, 0x10, 0x11, 0x20
_CHANGELOG = "changelog file"
_HEAD = re.compile(rb"\x00\x02v([0-9])", re.DOTALL)
_TYPED = (2, 4)
_LENGTH = Struct(">i")
_BATCH_BYTES, _FREE_BYTES, _LARGEST_CHANGELOG_RATIO = 4 << 20, 16 << 20, 256
_CUT_OFF = "The file is damaged, or was not written to its end."


@dataclass(frozen=True, slots=True, eq=False)
class StateChanges:
    """Some changes, in the order in which they were made.

    Kinds are :data:`PUT`, :data:`REMOVE`, :data:`APPEND` and :data:`_REMOVE_RANGE`. A key of a
    range is its first, and its value the key that ends it; of a key that was removed it is null.
    """

    kind: NDArray[np.uint8]
    key: ByteColumn
    value: ByteColumn

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, slots=True)
class StateChangelog:
    """A changelog file; ``changes``, some megabytes at a time, are to be gone through once.

    The lineage is (version, unique id) of each version from the last snapshot on up to the one
    before; empty where there is none, and before format 3.
    """

    version: int
    lineage: tuple[tuple[int, str], ...]
    changes: Iterator[StateChanges]


def read_changelog(raw: bytes) -> StateChangelog:
    r"""Return what a changelog, delta or snapshot file holds.

    What is none, or of another version, is a FormatError; so is a damaged one, once gone through.

    >>> import pyarrow as pa
    >>> bare = b"".join([bytes([0, 0, 0, 1]), b"k", bytes([0, 0, 0, 2]), b"vv", b"\xff" * 4])
    >>> log = read_changelog(pa.Codec("zstd").compress(bare, asbytes=True))
    >>> log.version, [(batch.key.to_list(), batch.value.to_list()) for batch in log.changes]
    (1, [([b'k'], [b'vv'])])
    """
    chunks = decompressed(raw)
    first = next(chunks, b"")
    match = _HEAD.match(first)
    head = JavaData(first, _CHANGELOG)
    version = 1
    lineage: tuple[tuple[int, str], ...] = ()
    # v1 begins with the length of a key: one of 161,328 bytes looks like a version, but is v0.
    if match is not None and match[1] in b"234":
        version = int(head.text()[1:])
        lineage = _lineage(head) if version > 2 else ()  # noqa: PLR2004 - names of versions
    most = _FREE_BYTES + _LARGEST_CHANGELOG_RATIO * len(raw)
    changes = _changes(first[head.at :], chunks, most, is_typed=version in _TYPED)
    return StateChangelog(version, lineage, changes)


def _lineage(head: JavaData) -> tuple[tuple[int, str], ...]:
    text = head.text()
    try:
        listed = json.loads(text)
        return tuple((int(each["version"]), str(each["checkpointUniqueId"])) for each in listed)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        message = f"A {_CHANGELOG} with the lineage {text[:80]!r}."
        raise FormatError(message, hint=_CUT_OFF) from error


def _changes(
    rest: bytes, chunks: Iterator[bytes], most: int, *, is_typed: bool
) -> Iterator[StateChanges]:
    while True:
        batch = _Batch(rest, is_typed)
        has_ended = batch.read()
        if batch.kinds:
            yield batch.changes()
        if has_ended:
            return
        rest = _longer(rest[batch.at :], chunks, most)


def _longer(rest: bytes, chunks: Iterator[bytes], most: int) -> bytes:
    """Return what is left and what comes next: twice as much, lest a long value is copied often."""
    parts, size = [rest], len(rest)
    while size < max(_BATCH_BYTES, 2 * len(rest)) and (chunk := next(chunks, b"")):
        parts.append(chunk)
        size += len(chunk)
    if len(parts) == 1 or len(rest) > most:
        where = f"within a change, {len(rest):,} bytes after its beginning"
        message = f"A {_CHANGELOG} that ends {where}."
        raise FormatError(message, hint=_CUT_OFF)
    return b"".join(parts)


class _Batch:
    """The changes that lie whole in some bytes.

    Where one begins is told by the one before it: so this goes through them one by one.
    """

    def __init__(self, raw: bytes, is_typed: bool) -> None:  # noqa: FBT001 - private
        self.raw, self.is_typed, self.at = raw, is_typed, 0
        self.kinds = bytearray()
        self.places = array("q")

    def read(self) -> bool:
        """Go as far as the bytes reach; return whether the end was among them."""
        head = 5 if self.is_typed else 4
        while self.at + head <= len(self.raw) or self._is_end_of_typed():
            kind = self.raw[self.at] if self.is_typed else PUT
            length = 0 if kind == _END else _LENGTH.unpack_from(self.raw, self.at + head - 4)[0]
            if kind == _END or (length == -1 and not self.is_typed):
                return True
            if not self._one(kind, self.at + head, length):
                break
        return False

    def changes(self) -> StateChanges:
        data = np.frombuffer(self.raw, dtype=np.uint8)
        kinds = np.frombuffer(self.kinds, dtype=np.uint8)
        places = np.frombuffer(self.places, dtype=np.int64).reshape(-1, 4)
        nothing = places[:, 3] < places[:, 2]
        begin, end = (np.where(nothing, 0, places[:, n]) for n in (2, 3))
        key = ByteColumn(data, places[:, 0], places[:, 1], np.zeros(len(kinds), dtype=bool))
        return StateChanges(kinds, key, ByteColumn(data, begin, end, nothing))

    def _one(self, kind: int, key: int, length: int) -> bool:
        """Note the change whose key begins there, if it lies whole in the bytes."""
        if length < 0 or kind not in (PUT, REMOVE, APPEND, _REMOVE_RANGE):
            msg = f"a change of type {kind:#04x} with a key of {length:,} bytes"
            raise self._fault(msg)
        value = key + length + 4
        if value > len(self.raw):
            return False
        (size,) = _LENGTH.unpack_from(self.raw, value - 4)
        if not self.is_typed and size == -1:
            kind = REMOVE
        if (size == -1) != (kind == REMOVE) or size < -1:
            msg = f"a change of type {kind:#04x} with a value of {size:,} bytes"
            raise self._fault(msg)
        end = value + max(size, 0)
        if end > len(self.raw):
            return False
        self.kinds.append(kind)
        self.places.extend((key, value - 4, value, value + size))
        self.at = end
        return True

    def _is_end_of_typed(self) -> bool:
        return self.is_typed and self.at < len(self.raw) and self.raw[self.at] == _END

    def _fault(self, reason: str) -> FormatError:
        message = f"A {_CHANGELOG} has {reason}."
        return FormatError(message, hint=_CUT_OFF)


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
    """A snapshot of a store: the files inside the zip, by name, and those beside it.

    The latter lie in ``SSTs/`` and ``logs/``. How many keys there are, and how many that operators
    keep for themselves, is None where Spark did not count. ``families`` has the number of each
    column family, {} in a store without.
    """

    members: dict[str, bytes]
    sst_files: tuple[SnapshotFile, ...]
    log_files: tuple[SnapshotFile, ...]
    num_keys: int | None
    num_internal_keys: int | None
    families: dict[str, int] = field(default_factory=dict)


def read_snapshot(raw: bytes) -> Snapshot:
    r"""Return what a snapshot's zip holds; one that is none, or not whole, is a FormatError.

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
    numbers = member(found, "columnFamilyMapping", _SNAPSHOT)
    return Snapshot(
        members,
        tuple(_file(each, "dfsSstFileName") for each in items(found, "sstFiles", _SNAPSHOT)),
        tuple(_file(each, "dfsLogFileName") for each in items(found, "logFiles", _SNAPSHOT)),
        _count(found, "numKeys"),
        _count(found, "numInternalKeys"),
        {name: integer(numbers, name, _SNAPSHOT) for name in numbers},
    )


def with_delimiter(options: bytes, delimiter: bytes) -> bytes:
    r"""Return RocksDB's OPTIONS, saying what stands between values that are appended.

    Spark has RocksDB append with a delimiter of its own, which OPTIONS does not record: what opens
    the files by their OPTIONS would put a comma between the values.

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
