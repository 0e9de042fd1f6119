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
The block travels in the shuffle, lies in the state store and can be batched into a message.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError

__all__ = ["SCHEMA", "VERSION", "decode", "encode"]

VERSION = 1
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
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


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
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def decode(block: bytes) -> pa.RecordBatch:
    """Return the block's columns, counts as uint64.

    Raises
    ------
    FormatError
        If the version is unknown, or the bytes are no CountBlock.
    """
    if not block or block[0] != VERSION:
        raise FormatError.version("CountBlock", block[0] if block else 0, VERSION)
    try:
        batch = pa.ipc.open_stream(pa.py_buffer(block)[1:]).read_next_batch()
    except (pa.ArrowInvalid, OSError, StopIteration) as error:
        message = f"{len(block)} bytes that are no CountBlock: {error}"
        raise FormatError(message, hint="They are damaged; restore them from a copy.") from error
    if batch.schema.names != SCHEMA.names:
        message = f"A CountBlock with the columns {', '.join(batch.schema.names)}."
        raise FormatError(message, hint=f"It should have: {', '.join(SCHEMA.names)}.")
    count = batch.column("count").to_numpy().astype(np.uint64, copy=False)
    return pa.record_batch([*batch.columns[:3], pa.array(count)], schema=SCHEMA)
