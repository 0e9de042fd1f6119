"""CountBlock: many counts as few bytes.

::

    version (1 byte) · Arrow IPC stream, buffers ZSTD-compressed

One record batch with the columns

===============  ===========================  =========================================
column           type                         meaning
===============  ===========================  =========================================
window_start_ms  int64                        start of the window, epoch ms UTC
user             dictionary<int32, string>    who; the dictionary holds each user once
action           dictionary<int32, string>    what; the dictionary holds each action once
count            uint32, or uint64 if needed  how often
===============  ===========================  =========================================

Rows are unique in (user, window_start_ms, action) and sorted by them, users and actions by their
place in the dictionary: long runs, which is what makes a counter a handful of bytes.
The block travels in the shuffle, lies in the state store and can be batched into a message. It has
no checksum of its own: RocksDB's blocks, Parquet's pages and TCP's segments have theirs around it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError

VERSION = 1
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

_NARROW = SCHEMA.set(3, pa.field("count", pa.uint32(), nullable=False))
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def encode(batch: pa.RecordBatch) -> bytes:
    """Return the block's bytes.

    Parameters
    ----------
    batch
        Columns of :data:`SCHEMA`, sorted and unique as the format says.

    Examples
    --------
    >>> user = pa.array(["Anna", "Anna"]).dictionary_encode()
    >>> action = pa.array(["read", "write"]).dictionary_encode()
    >>> columns = [pa.array([0, 0]), user, action, pa.array([3, 1], pa.uint64())]
    >>> block = encode(pa.record_batch(columns, schema=SCHEMA))
    >>> decode(block).column("count").to_pylist()
    [3, 1]
    """
    counts = batch.column("count").to_numpy()
    if counts.max(initial=0) <= _LARGEST_UINT32:
        columns = [*batch.columns[:3], pa.array(counts.astype(np.uint32))]
        batch = pa.record_batch(columns, schema=_NARROW)
    sink = pa.BufferOutputStream()
    sink.write(bytes([VERSION]))
    options = pa.ipc.IpcWriteOptions(compression="zstd")  # as a global it could not be pickled
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def decode(block: bytes) -> pa.RecordBatch:
    """Return the block's columns, counts as uint64.

    Raises
    ------
    FormatError
        If the version is unknown, or the bytes are no CountBlock: cut short, damaged, or with
        other columns.

    Examples
    --------
    >>> columns = [pa.array([], field.type) for field in SCHEMA]
    >>> decode(encode(pa.record_batch(columns, schema=SCHEMA))).num_rows
    0
    """
    if not block or block[0] != VERSION:
        raise FormatError.version(_NAME, block[0] if block else 0, VERSION)
    if not block.endswith(_END_OF_STREAM):
        raise _damaged(block, "they are cut short")
    try:
        batch = pa.ipc.open_stream(pa.py_buffer(block)[1:]).read_next_batch()
        batch.validate(full=True)  # places in dictionaries, and UTF-8, before anyone trusts them
        _check_columns(batch)
    except (pa.ArrowException, OSError, StopIteration, UnicodeDecodeError) as error:
        raise _damaged(block, str(error) or "there are no counters in them") from error
    count = batch.column("count").to_numpy().astype(np.uint64, copy=False)
    return pa.record_batch([*batch.columns[:3], pa.array(count)], schema=SCHEMA)


def _check_columns(batch: pa.RecordBatch) -> None:
    if batch.schema not in (SCHEMA, _NARROW):
        told = ", ".join(f"{field.name} {field.type}" for field in batch.schema)
        message = f"its columns are {told}"
        raise pa.ArrowInvalid(message)
    texts = [batch.column(name).dictionary for name in ("user", "action")]
    if any(column.null_count for column in [*batch.columns, *texts]):
        message = "something is missing in it"
        raise pa.ArrowInvalid(message)


def _damaged(block: bytes, what: str) -> FormatError:
    return FormatError(
        f"{len(block):,} bytes that are no {_NAME}: {what}.",
        hint="They are damaged; restore them from a copy.",
    )
