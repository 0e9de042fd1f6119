"""What makes two rows the same row, as bytes in whose order rows of any store can be merged.

::

    torn (1 byte) · key · 00 00 · window start · timestamp · window end

A zero byte in the key is ``00 ff`` here, so that no key's bytes run into what follows. A time is
``01`` and 8 bytes, big-endian, with the sign's bit flipped, so that bytes stand in the order of
times; where there is none, it is 9 zero bytes. Only versions of a key have a timestamp here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.columns import ByteColumn


END_BYTES = 9
"""How many bytes at the end of an identity are the window's end."""

_SIGN = np.uint64(1 << 63)
_AFTER_KEY = 2


def identities(
    key: ByteColumn,
    *,
    torn: NDArray[np.bool_],
    window_start_ms: pa.Array | None = None,
    timestamp_ms: pa.Array | None = None,
    window_end_ms: pa.Array | None = None,
) -> pa.Array:
    r"""Return the identity of each row, as Arrow large binary.

    Parameters
    ----------
    key
        The application's keys, or what they stand for; without nulls.
    torn
        Which rows could not be taken apart: they stand behind all others.
    window_start_ms, timestamp_ms, window_end_ms
        Epoch ms UTC, as Arrow int64; None where rows have none.

    Examples
    --------
    >>> from kstoolkit.formats.columns import ByteColumn
    >>> keys = ByteColumn.of([b"a\x00", b"a", b"b"])
    >>> starts = pa.array([-5, 7, 0], pa.int64())
    >>> found = identities(keys, torn=np.zeros(3, bool), window_start_ms=starts)
    >>> pc.sort_indices(found).to_pylist()
    [1, 0, 2]
    """
    rows = len(key)
    times = [_sortable(each, rows) for each in (window_start_ms, timestamp_ms, window_end_ms)]
    ending = np.hstack([np.zeros((rows, _AFTER_KEY), np.uint8), *times])
    nothing = pa.scalar(b"", pa.large_binary())
    lead = _fixed(torn.astype(np.uint8).reshape(rows, 1))
    return pc.binary_join_element_wise(lead, _escaped(key), _fixed(ending), nothing)


def _escaped(key: ByteColumn) -> pa.Array:
    whole = key.to_arrow()
    _, offsets, data = whole.buffers()
    if data is None or not data.size:
        return whole
    cells = np.frombuffer(data, np.uint8)
    zeros = np.flatnonzero(cells == 0)
    if not zeros.size:
        return whole
    places = np.frombuffer(offsets, np.int64)
    places = places + np.searchsorted(zeros, places)
    longer = np.insert(cells, zeros + 1, 0xFF)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(longer)]
    return pa.Array.from_buffers(pa.large_binary(), len(whole), buffers)


def _sortable(column: pa.Array | None, rows: int) -> NDArray[np.uint8]:
    cells = np.zeros((rows, 9), np.uint8)
    if column is None or not rows:
        return cells
    known = np.asarray(column.is_valid())
    numbers = np.asarray(column.fill_null(0)).astype(np.int64).view(np.uint64) ^ _SIGN
    cells[:, 0] = 1
    cells[:, 1:] = numbers.astype(">u8").view(np.uint8).reshape(rows, 8)
    cells[~known] = 0
    return cells


def _fixed(cells: NDArray[np.uint8]) -> pa.Array:
    rows, width = cells.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cells))]
    return pa.Array.from_buffers(pa.large_binary(), rows, buffers)
