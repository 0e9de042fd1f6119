"""How many counts become few bytes: a CountBlock, and its key where it lies in a topic.

::

    block   version (1 byte) · Arrow IPC stream, buffers compressed: ZSTD, LZ4 on its way
    key     bucket (4) · epoch (4) · batch (8) · part (4) · minus the window size ms (8)

The stream has one record batch with the columns

===============  ===========================  =========================================
column           type                         meaning
===============  ===========================  =========================================
window_start_ms  int64                        start of the window, epoch ms UTC
user             dictionary<int32, string>    who; the dictionary holds each user once
action           dictionary<int32, string>    what; the dictionary holds each action once
count            uint32, or uint64 if needed  how often
===============  ===========================  =========================================

That is version 1. In version 3 an action has several parts: ``action`` is the one text of
:mod:`kstoolkit.formats.actions`, and the schema's metadata names them, as JSON under
``kstoolkit.parts``: ``["region", "operation"]``. Version 6 has sessions, of one part or several:
``window_start_ms`` is a session's first event, and a fifth column ``end_ms``, int64, its last.
Versions between are no blocks, but bundles (:mod:`kstoolkit.formats.topicbundle`).

Rows are unique in (user, window_start_ms, action) and sorted by them, users and actions by their
place in the dictionary: long runs, which is what makes a counter a handful of bytes. A block
travels in the shuffle and lies in the state store, and has no checksum of its own: RocksDB's
blocks, Parquet's pages and TCP's segments have theirs around it.

In a changelog topic its key says which of a micro-batch's blocks it is. Its 28 bytes are signed,
big-endian numbers. None but the last is below zero, and by that one it is told from the key of one
user's window (:mod:`kstoolkit.formats.keys`). The second part of bucket 5 in batch 7 of epoch 1,
with counts of minutes, is ``00000005 00000001 0000000000000007 00000001 ffffffffffff15a0``. Of
sessions it is minus 2⁶² ms and their gap, whose ``size_ms`` is minus that gap. No two
batches share a key, so compaction leaves every block in place, and takes one of two if a batch was
written twice; of one count in several blocks, that of the newest (epoch, batch) counts. What is
older than windows are kept goes by the topic's ``retention.ms`` (``cleanup.policy=compact,delete``)
or by tombstones.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kstoolkit.errors import ConfigurationError, FormatError
from kstoolkit.formats.actions import parts_in
from kstoolkit.formats.keys import SESSIONS_MS

VERSION, VERSION_OF_PARTS, VERSION_OF_SESSIONS = 1, 3, 6
_NAME = "CountBlock"
_LARGEST_UINT32 = 0xFFFF_FFFF
_TEXT = pa.dictionary(pa.int32(), pa.string())

SCHEMA = pa.schema(
    [
        pa.field("window_start_ms", pa.int64(), nullable=False),
        pa.field("user", _TEXT, nullable=False),
        pa.field("action", _TEXT, nullable=False),
        pa.field("count", pa.uint64(), nullable=False),
    ]
)
"""Columns of a decoded block; a written one narrows ``count`` to uint32 where every count fits."""
_END = pa.field("end_ms", pa.int64(), nullable=False)
SCHEMA_OF_SESSIONS = SCHEMA.append(_END)  # the same with sessions' ends
_COUNT = 3
_NARROW_COUNT = pa.field("count", pa.uint32(), nullable=False)
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def encode(batch: pa.RecordBatch, *, passing: bool = False) -> bytes:
    """Return the block's bytes; of columns of :data:`SCHEMA`, sorted and unique as the format says.

    The metadata of their schema says of which parts their actions are, if of several. One that is
    ``passing`` on to another task has twice the bytes, and takes a third of the time both ways.

    >>> user = pa.array(["Anna", "Anna"]).dictionary_encode()
    >>> action = pa.array(["read", "write"]).dictionary_encode()
    >>> columns = [pa.array([0, 0]), user, action, pa.array([3, 1], pa.uint64())]
    >>> block = encode(pa.record_batch(columns, schema=SCHEMA))
    >>> decode(block).column("count").to_pylist()
    [3, 1]
    """
    counts, parts = batch.column("count").to_numpy(), parts_in(batch.schema)
    if counts.max(initial=0) <= _LARGEST_UINT32:
        batch = batch.set_column(_COUNT, _NARROW_COUNT, pa.array(counts.astype(np.uint32)))
    version = VERSION if parts is None else VERSION_OF_PARTS
    version = version if batch.num_columns == len(SCHEMA) else VERSION_OF_SESSIONS
    return to_ipc(batch, head=bytes([version]), passing=passing)


def to_ipc(
    columns: pa.RecordBatch | pa.Table, *, head: bytes = b"", passing: bool = False
) -> bytes:
    """Return columns as the bytes of an Arrow IPC stream, behind a head."""
    sink = pa.BufferOutputStream()
    sink.write(head)
    codec = "lz4" if passing else "zstd"
    # As a global it could not be pickled; threads take three times as long for a small block.
    options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
    with pa.ipc.new_stream(sink, columns.schema, options=options) as writer:
        writer.write(columns)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def decode(block: bytes) -> pa.RecordBatch:
    """Return the block's columns, counts as uint64; their schema as :func:`encode` takes it.

    Of an unknown version, cut short, damaged, or with other columns: a FormatError.
    """
    if not is_block(block):
        if block and block[0] > VERSION_OF_PARTS:
            raise FormatError.version(_NAME, block[0], VERSION_OF_SESSIONS)
        raise damaged_block(block, _NAME, f"none begins with {block[:1].hex() or 'nothing'}")
    if not block.endswith(_END_OF_STREAM):
        raise damaged_block(block, _NAME, "they are cut short")
    try:
        options = pa.ipc.IpcReadOptions(use_threads=False)
        stream = pa.ipc.open_stream(pa.py_buffer(block)[1:], options=options)
        batch = stream.read_next_batch()
        batch.validate(full=True)  # places in dictionaries, and UTF-8, before anyone trusts them
        _check_columns(batch, has_ends=block[0] == VERSION_OF_SESSIONS)
        parts_in(batch.schema)
    except (ValueError, pa.ArrowException, OSError, StopIteration) as error:
        why = str(error) or "there are no counters in them"
        raise damaged_block(block, _NAME, why) from error
    count = batch.column("count").to_numpy().astype(np.uint64, copy=False)
    return batch.set_column(_COUNT, SCHEMA.field(_COUNT), pa.array(count))


def is_block(value: bytes) -> bool:
    """Whether some bytes begin as a block does."""
    return bool(value) and value[0] in {VERSION, VERSION_OF_PARTS, VERSION_OF_SESSIONS}


def _check_columns(batch: pa.RecordBatch, *, has_ends: bool) -> None:
    wide = SCHEMA_OF_SESSIONS if has_ends else SCHEMA
    if batch.schema not in (wide, wide.set(_COUNT, _NARROW_COUNT)):
        told = ", ".join(f"{field.name} {field.type}" for field in batch.schema)
        message = f"its columns are {told}"
        raise pa.ArrowInvalid(message)
    texts = [batch.column(name).dictionary for name in ("user", "action")]
    if any(column.null_count for column in [*batch.columns, *texts]):
        message = "something is missing in it"
        raise pa.ArrowInvalid(message)


def check_version(block: bytes, name: str, known: int) -> None:
    """Refuse bytes that do not begin with the one version that there is of a block of a name."""
    if block[:1] != bytes([known]):
        raise FormatError.version(name, block[0] if block else 0, known)


def damaged_block(block: bytes, name: str, what: object) -> FormatError:
    """Return the error of bytes that are no block of a name."""
    message = f"{len(block):,} bytes that are no {name}: {what}."
    return FormatError(message, hint="They are damaged; restore them from a copy.")


_LAYOUT = ">iiqiq"
_LENGTH_BYTES = struct.calcsize(_LAYOUT)  # how long such a key is
_INT32, _INT64 = 2**31, 2**63
_LIMITS = (_INT32, _INT32, _INT64, _INT32, _INT64)


class BlockKey(NamedTuple):
    """Which block it is: of which bucket's users, by which batch, with windows of which length.

    ``part`` is which one of those that this batch has of this bucket and window size.
    """

    bucket: int
    epoch: int
    batch: int
    part: int
    size_ms: int

    def encode(self) -> bytes:
        """Return the key's bytes; a number that does not fit its place is a ConfigurationError.

        >>> BlockKey(5, 1, 7, 1, 60_000).encode().hex(" ", -4)
        '00000005 00000001 00000000 00000007 00000001 ffffffff ffff15a0'
        """
        size_ms = self.size_ms if self.size_ms >= 0 else SESSIONS_MS - self.size_ms
        told = [*self[:-1], size_ms]
        fits = all(0 <= number < limit for number, limit in zip(told, _LIMITS, strict=True))
        if not fits or not self.size_ms:
            message = f"{self} has no key: a number is below zero or too large, or the size zero."
            raise ConfigurationError(message)
        return struct.pack(_LAYOUT, *self[:-1], -size_ms)

    @classmethod
    def decode(cls, key: bytes) -> BlockKey:
        """Read what :meth:`encode` wrote; anything else is a FormatError."""
        if len(key) != _LENGTH_BYTES:
            raise _no_key(key)
        bucket, epoch, batch, part, minus_ms = struct.unpack(_LAYOUT, key)
        if min(bucket, epoch, batch, part) < 0 or not -_INT64 < minus_ms < 0:
            raise _no_key(key)
        size_ms = -minus_ms if minus_ms >= -SESSIONS_MS else minus_ms + SESSIONS_MS
        return cls(bucket, epoch, batch, part, size_ms)


def _no_key(key: bytes) -> FormatError:
    message = f"The key {key[:64].hex()} is not of a block of counts."
    return FormatError(message, hint="Give a topic that only kstoolkit writes to.")
