"""A column of bytes in hex, all rows at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kstoolkit.formats.columns import ByteColumn

_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8)


def in_hex(column: pa.Array) -> pa.Array:
    r"""Return an Arrow column of binary as text, two digits a byte; nulls stay null.

    Examples
    --------
    >>> in_hex(pa.array([b"\x00\xff", None, b""])).to_pylist()
    ['00ff', None, '']
    """
    bare = ByteColumn.from_arrow(column).to_arrow()
    validity, offsets, data = bare.buffers()
    cells = np.frombuffer(data or b"", np.uint8)
    twice = np.frombuffer(offsets, np.int64) * 2
    texts = _HEX.reshape(256, 2)[cells].reshape(-1)
    buffers = [validity, pa.py_buffer(twice), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.large_string(), len(bare), buffers)
