"""CRC-32C (Castagnoli), the checksum of Spark's rows and files: of many rows at once.

A row is cut into pieces of 256 bytes, and each step reads one byte of every piece. A CRC is linear,
so the piece before the last is moved on by 256 zero bytes, which is four look-ups, and added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn

__all__ = ["crc32c"]

_POLYNOMIAL = 0x82F63B78
_PIECE_BYTES, _INITIAL_BYTES = 256, 4


def crc32c(rows: ByteColumn) -> NDArray[np.uint32]:
    """Return the checksum of each row; 0 of a null.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> [f"{value:08x}" for value in crc32c(ByteColumn.of([b"123456789", b"", b"a"]))]
    ['e3069283', '00000000', 'c1d04330']
    """
    count = -(-rows.lengths // _PIECE_BYTES)
    place = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(count)])
    pieces = _of_pieces(rows, count, place[:-1])
    found = np.zeros(len(rows), dtype=np.uint32)
    for step in range(int(count.max(initial=0))):
        alive = np.flatnonzero(count > step)
        found[alive] = _moved_on(found[alive]) ^ pieces[place[alive] + step]
    return _finished(found, rows)


def _of_pieces(
    rows: ByteColumn, count: NDArray[np.int64], place: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return the CRC, begun with 0, of each piece of each row."""
    row = np.repeat(np.arange(len(rows)), count)
    behind = count[row] - 1 - (np.arange(len(row)) - place[row])
    # The first piece is the short one: zeros in front of it change nothing.
    last = rows.ends[row] - behind * _PIECE_BYTES
    first = rows.starts[row]
    begin = np.maximum(last - _PIECE_BYTES, first)
    found = np.zeros(len(row), dtype=np.uint32)
    for back in range(int((last - begin).max(initial=0)), 0, -1):
        at = last - back
        inside = at >= begin
        octets = np.where(inside, rows.data[np.where(inside, at, 0)], 0)
        # A CRC that begins with all bits set is that of a message whose first 4 bytes are flipped.
        octets = np.where(inside & (at - first < _INITIAL_BYTES), octets ^ 0xFF, octets)
        found = (found >> np.uint32(8)) ^ _TABLE[(found ^ octets) & 0xFF]
    return found


def _finished(found: NDArray[np.uint32], rows: ByteColumn) -> NDArray[np.uint32]:
    """Return the checksums; what is shorter than 4 bytes has not taken in all of the beginning."""
    for lacking in range(1, _INITIAL_BYTES + 1):
        short = rows.lengths == _INITIAL_BYTES - lacking
        found[short] ^= np.uint32(0xFFFFFFFF >> (8 * (_INITIAL_BYTES - lacking)))
    found = found ^ np.uint32(0xFFFFFFFF)
    found[rows.is_null] = 0
    return found


def _moved_on(found: NDArray[np.uint32]) -> NDArray[np.uint32]:
    moved = np.zeros_like(found)
    for place in range(4):
        moved ^= _MOVES[place, (found >> np.uint32(8 * place)) & 0xFF]
    return moved


def _table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = (table & 1).astype(bool)
        table = (table >> np.uint32(1)) ^ np.where(odd, np.uint32(_POLYNOMIAL), np.uint32(0))
    return table


def _moves() -> NDArray[np.uint32]:
    moves = np.stack(
        [np.arange(256, dtype=np.uint32) << np.uint32(8 * place) for place in range(4)]
    )
    for _ in range(_PIECE_BYTES):
        moves = (moves >> np.uint32(8)) ^ _TABLE[moves & 0xFF]
    return moves


_TABLE = _table()
_MOVES = _moves()
