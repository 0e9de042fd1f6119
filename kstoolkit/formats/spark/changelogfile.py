"""Changelog files: what one version of a store changed. Also ``.delta`` and ``.snapshot`` files.

::

    v1, v3  length (4) · key · length (4) · value · …
            a value of length -1: the key is removed; a key of length -1: the end
    v2, v4  type (1) · length (4) · key · length (4) · value · …
            type 01 put, 10 remove, 11 append, 20 remove a range, 00 the end

Numbers are big-endian. v2 to v4 begin with their version, as ``writeUTF`` writes it; v3 and v4 then
with their lineage, the versions since the last snapshot and their unique ids. v1 begins with
nothing, and is what the HDFS-backed provider writes too, in a delta of each version and a snapshot
now and then. The whole is compressed (:mod:`kstoolkit.formats.spark.compression`;
``org.apache.spark.sql.execution.streaming.state.StateStoreChangelogWriter``).
"""

from __future__ import annotations

import json
import re
from array import array
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.errors import FormatError
from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.spark.compression import decompressed
from kstoolkit.formats.spark.javadata import JavaData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


END, PUT, REMOVE, APPEND, REMOVE_RANGE = 0x00, 0x01, 0x10, 0x11, 0x20

_CHANGELOG = "changelog file"
_HEAD = re.compile(rb"\x00\x02v([0-9])", re.DOTALL)
_TYPED = (2, 4)
_LENGTH = Struct(">i")
_BATCH_BYTES, _FREE_BYTES, _LARGEST_CHANGELOG_RATIO = 4 << 20, 16 << 20, 256
_CUT_OFF = "The file is damaged, or was not written to its end."


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Some changes, in the order in which they were made.

    Parameters
    ----------
    kind
        One of :data:`PUT`, :data:`REMOVE`, :data:`APPEND` and :data:`REMOVE_RANGE` each.
    key
        The key; of a range, its first.
    value
        The value; null where a key was removed, and of a range the key that ends it.
    """

    kind: NDArray[np.uint8]
    key: ByteColumn
    value: ByteColumn

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog file.

    Parameters
    ----------
    version
        Of its format: 1 to 4.
    lineage
        (version, unique id) of each version from the last snapshot on up to the one before; empty
        where there is none, and before format 3.
    changes
        What it changed, some megabytes at a time; to be gone through once.
    """

    version: int
    lineage: tuple[tuple[int, str], ...]
    changes: Iterator[Changes]


def read_changelog(raw: bytes) -> Changelog:
    r"""Return what a changelog, delta or snapshot file holds.

    Raises
    ------
    FormatError
        If it is none, of a version that is not known, or, as its changes are gone through, is
        damaged.

    Examples
    --------
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
    rest = first[head.at :]
    most = _FREE_BYTES + _LARGEST_CHANGELOG_RATIO * len(raw)
    return Changelog(version, lineage, _changes(rest, chunks, most, is_typed=version in _TYPED))


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
) -> Iterator[Changes]:
    has_ended = False
    while not has_ended:
        batch = _Batch(rest, is_typed)
        has_ended = batch.read()
        if batch.kinds:
            yield batch.changes()
        rest = rest[batch.at :]
        if not has_ended:
            rest = _longer(rest, chunks, most)


def _longer(rest: bytes, chunks: Iterator[bytes], most: int) -> bytes:
    """Return what is left and what comes next: twice as much, lest a long value is copied often."""
    parts, size = [rest], len(rest)
    while size < max(_BATCH_BYTES, 2 * len(rest)) and (chunk := next(chunks, b"")):
        parts.append(chunk)
        size += len(chunk)
    if len(parts) == 1 or len(rest) > most:
        message = (
            f"A {_CHANGELOG} that ends within a change, {len(rest):,} bytes after its beginning."
        )
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
            length = 0 if kind == END else _LENGTH.unpack_from(self.raw, self.at + head - 4)[0]
            if kind == END or (length == -1 and not self.is_typed):
                return True
            if not self._one(kind, self.at + head, length):
                break
        return False

    def changes(self) -> Changes:
        data = np.frombuffer(self.raw, dtype=np.uint8)
        kinds = np.frombuffer(self.kinds, dtype=np.uint8)
        places = np.frombuffer(self.places, dtype=np.int64).reshape(-1, 4)
        nothing = places[:, 3] < places[:, 2]
        begin, end = (np.where(nothing, 0, places[:, n]) for n in (2, 3))
        key = ByteColumn(data, places[:, 0], places[:, 1], np.zeros(len(kinds), dtype=bool))
        return Changes(kinds, key, ByteColumn(data, begin, end, nothing))

    def _one(self, kind: int, key: int, length: int) -> bool:
        """Note the change whose key begins there, if it lies whole in the bytes."""
        if length < 0 or kind not in (PUT, REMOVE, APPEND, REMOVE_RANGE):
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
        return self.is_typed and self.at < len(self.raw) and self.raw[self.at] == END

    def _fault(self, reason: str) -> FormatError:
        message = f"A {_CHANGELOG} has {reason}."
        return FormatError(message, hint=_CUT_OFF)
