"""Baselines as bytes: what lies in the state store for each bucket and kind of window.

::

    version (1 byte) · Arrow IPC stream of cells · Arrow IPC stream of protected windows

Both streams have ZSTD-compressed buffers. The cells' schema metadata holds ``size_ms`` and
``every_ms`` of the window, in decimal. Cells, sorted by user and action in dictionary order:

==============  ==========================  ===================================================
column          type                        meaning
==============  ==========================  ===================================================
user            dictionary<int32, string>   who
action          dictionary<int32, string>   what
first_ms        int64                       start of the first window with events, epoch ms UTC
last_ms         int64                       start of the last one
last_count      int64                       what was learnt from the last one
total           int64                       sum of all counts learnt from
squares         double                      sum of their squares
skipped         int64                       how many windows were not learnt from
==============  ==========================  ===================================================

Protected windows: ``start_ms`` (int64) and ``key`` (int64: the user's place in its dictionary
times 2³², plus the action's).
"""

from __future__ import annotations

import pyarrow as pa

from kstoolkit.errors import FormatError

VERSION = 1
_BLOCK = "block of baselines"


def _encode_block(cells: pa.Table, protected: pa.Table) -> bytes:
    """Return the block's bytes."""
    # As a global it could not be pickled, and so not travel to a cluster.
    options = pa.ipc.IpcWriteOptions(compression="zstd", unify_dictionaries=True)
    sink = pa.BufferOutputStream()
    sink.write(bytes([VERSION]))
    for table in (cells, protected):
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _decode_block(block: bytes) -> tuple[pa.Table, pa.Table]:
    """Return the cells and the protected windows.

    Raises
    ------
    FormatError
        If the version is unknown, or the bytes are no such block.
    """
    if not block or block[0] != VERSION:
        raise FormatError.version(_BLOCK, block[0] if block else 0, VERSION)
    source = pa.BufferReader(pa.py_buffer(block)[1:])
    try:
        cells, protected = (pa.ipc.open_stream(source).read_all() for _ in range(2))
    except (pa.ArrowInvalid, OSError) as error:
        message = f"{len(block)} bytes that are no baselines: {error}"
        raise FormatError(message, hint="They are damaged; restore them from a copy.") from error
    return cells, protected
