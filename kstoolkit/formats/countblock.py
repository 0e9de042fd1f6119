"""How many counts become few bytes: a CountBlock, and its key where it lies in a topic.

::

    block   version: 10 (1 byte) · origin ms (8) · step ms (8) · Arrow IPC stream
    key     bucket (4) · epoch (4) · batch (8) · part (4) · minus the window size ms (8)

Buffers of the stream are compressed: ZSTD, LZ4 on its way. It has one record batch of columns whose
integers are unsigned, and as narrow as they fit into:

=========  ===========================  ========================================================
column     type                         meaning
=========  ===========================  ========================================================
window     integer                      its start: so many steps behind the origin, epoch ms UTC
user       dictionary<integer, string>  who: so many entries behind that of the row above, the
                                        first row behind entry 0; there is an entry for each user
action     dictionary<integer, string>  what; the dictionary holds each action once
count      integer                      how often
lasted_ms  integer                      of sessions alone, which start at any ms: how long each was
=========  ===========================  ========================================================

Origin and step are big-endian; the step is the same for the whole block, an hour where all windows
begin at hours. An action of several parts is the one text of :mod:`kstoolkit.formats.actions`, and
the schema's metadata names them, as JSON under ``kstoolkit.parts``: ``["region", "operation"]``.

Versions 1, 3 and 6 are read, too. They have no origin and step, users by their entry in the
dictionary, whose entries are int32 as actions' are, ``window_start_ms`` as int64, and ``count`` as
uint32, or uint64 if needed. 3 has parts; 6 has sessions, their ``end_ms`` as int64, with parts or
without. Versions between are no blocks, but bundles (:mod:`kstoolkit.formats.topicbundle`).

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

import re
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kstoolkit.errors import ConfigurationError, FormatError
from kstoolkit.formats.actions import parts_in
from kstoolkit.formats.keys import SESSIONS_MS

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 10
_HEAD = ">BqQ"
_HEAD_BYTES = struct.calcsize(_HEAD)
_NAME = "CountBlock"
_TEXT = pa.dictionary(pa.int32(), pa.string())

SCHEMA = pa.schema(
    [
        pa.field("window_start_ms", pa.int64(), nullable=False),
        pa.field("user", _TEXT, nullable=False),
        pa.field("action", _TEXT, nullable=False),
        pa.field("count", pa.uint64(), nullable=False),
    ]
)
"""Columns of a decoded block."""
_END = pa.field("end_ms", pa.int64(), nullable=False)
SCHEMA_OF_SESSIONS = SCHEMA.append(_END)  # the same with sessions' ends
_COUNT = 3
_N = r"uint\d+"
_TEXTS = f"dictionary<values=string, indices={_N}, ordered=0>"
_OLDER = rf"window_start_ms int64, user {_TEXT}, action {_TEXT}, count uint\d\d"
_COLUMNS = {
    1: _OLDER,
    3: _OLDER,
    6: f"{_OLDER}, end_ms int64",
    VERSION: rf"window {_N}, user {_TEXTS}, action {_TEXTS}, count {_N}(, lasted_ms {_N})?",
}
"""How the columns of each version are told, name and type of each."""
_FEW = 64
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def encode(batch: pa.RecordBatch, *, passing: bool = False) -> bytes:
    """Return the block's bytes; of columns of :data:`SCHEMA`, sorted and unique as the format says.

    The metadata of their schema says of which parts their actions are, if of several. One that is
    ``passing`` on to another task has twice the bytes, and takes a quarter less time both ways.

    >>> user = pa.array(["Anna", "Anna"]).dictionary_encode()
    >>> action = pa.array(["read", "write"]).dictionary_encode()
    >>> columns = [pa.array([0, 0]), user, action, pa.array([3, 1], pa.uint64())]
    >>> block = encode(pa.record_batch(columns, schema=SCHEMA))
    >>> decode(block).column("count").to_pylist()
    [3, 1]
    """
    start_ms, user, action, count, *end_ms = batch.columns
    start_ms = start_ms.to_numpy().view(np.uint64)  # differences fit, whichever two times they are
    origin_ms, step_ms, place = _places(start_ms)
    further = np.diff(user.indices.to_numpy(), prepend=np.int32(0))
    columns = {
        "window": _narrow(place),
        "user": pa.DictionaryArray.from_arrays(_narrow(further), user.dictionary, safe=False),
        "action": pa.DictionaryArray.from_arrays(
            _narrow(action.indices.to_numpy()), action.dictionary, safe=False
        ),
        "count": _narrow(count.to_numpy()),
    }
    if end_ms:
        columns["lasted_ms"] = _narrow(end_ms[0].to_numpy().view(np.uint64) - start_ms)
    narrow = pa.record_batch(columns).replace_schema_metadata(batch.schema.metadata)
    return to_ipc(narrow, head=struct.pack(_HEAD, VERSION, origin_ms, step_ms), passing=passing)


def _places(start_ms: NDArray[np.uint64]) -> tuple[int, int, NDArray[np.uint64]]:
    """Return the earliest start, of how many ms a step is, and how many steps behind each is."""
    origin_ms = int(start_ms.view(np.int64).min(initial=_INT64 - 1))
    place = start_ms - np.int64(origin_ms).view(np.uint64)
    for some in (place[:_FEW], place):  # all are asked for a divisor only where a few have another
        step_ms = int(np.gcd.reduce(some)) or 1
        steps = place // np.uint64(step_ms)
        if np.array_equal(steps * np.uint64(step_ms), place):
            break
    return origin_ms, step_ms, steps


def _narrow(numbers: NDArray[Any]) -> pa.Array:
    return pa.array(numbers.astype(np.min_scalar_type(numbers.max(initial=0))))


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
        if block and block[0] > VERSION:
            raise FormatError.version(_NAME, block[0], VERSION)
        raise damaged_block(block, _NAME, f"none begins with {block[:1].hex() or 'nothing'}")
    if not block.endswith(_END_OF_STREAM):
        raise damaged_block(block, _NAME, "they are cut short")
    try:
        if block[0] == VERSION:
            _, origin_ms, step_ms = struct.unpack_from(_HEAD, block)
            return _widened(_from_ipc(block, _HEAD_BYTES), origin_ms, step_ms)
        batch = _from_ipc(block, 1)
        counts = batch.column("count").cast(pa.uint64())
        return batch.set_column(_COUNT, SCHEMA.field(_COUNT), counts)
    except (ValueError, struct.error, pa.ArrowException, OSError, StopIteration) as error:
        why = str(error) or "there are no counters in them"
        raise damaged_block(block, _NAME, why) from error


def _from_ipc(block: bytes, start: int) -> pa.RecordBatch:
    """Return the columns of the stream that starts there, once all in them is there."""
    options = pa.ipc.IpcReadOptions(use_threads=False)
    stream = pa.ipc.open_stream(pa.py_buffer(block)[start:], options=options)
    batch = stream.read_next_batch()
    batch.validate(full=True)  # places in dictionaries, and UTF-8, before anyone trusts them
    told = ", ".join(f"{field.name} {field.type}" for field in batch.schema)
    if not re.fullmatch(_COLUMNS[block[0]], told):
        message = f"its columns are {told}"
        raise pa.ArrowInvalid(message)
    texts = [batch.column(name).dictionary for name in ("user", "action")]
    if any(column.null_count for column in [*batch.columns, *texts]):
        message = "something is missing in it"
        raise pa.ArrowInvalid(message)
    parts_in(batch.schema)
    return batch


def _widened(batch: pa.RecordBatch, origin_ms: int, step_ms: int) -> pa.RecordBatch:
    """Return the columns as :func:`encode` takes them."""
    place, user, action, count, *lasted_ms = batch.columns
    start_ms = place.to_numpy().astype(np.uint64)
    start_ms *= np.uint64(step_ms)
    start_ms += np.int64(origin_ms).view(np.uint64)
    entry = np.cumsum(user.indices.to_numpy(), dtype=np.int64)
    if (entry[-1:] >= len(user.dictionary)).any():
        message = "a user lies behind all that are named"
        raise pa.ArrowInvalid(message)
    columns = [
        start_ms.view(np.int64),
        pa.DictionaryArray.from_arrays(entry.astype(np.int32), user.dictionary, safe=False),
        action.cast(_TEXT),
        count.cast(pa.uint64()),
        *((start_ms + each.to_numpy()).view(np.int64) for each in lasted_ms),
    ]
    schema = SCHEMA_OF_SESSIONS if lasted_ms else SCHEMA
    return pa.record_batch(columns, schema=schema.with_metadata(batch.schema.metadata))


def is_block(value: bytes) -> bool:
    """Whether some bytes begin as a block does."""
    return bool(value) and value[0] in _COLUMNS


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
