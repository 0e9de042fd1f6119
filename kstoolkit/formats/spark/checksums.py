"""The checksums that Spark put on rows, files and LZ4 blocks: of many of them at once.

CRC-32C (Castagnoli) is that of rows and files. A row is cut into pieces of 256 bytes, and each step
reads one byte of every piece. A CRC is linear, so the piece before the last is moved on by 256 zero
bytes, which is four look-ups, and added. So does the checksum of two rows, one behind the other,
follow from that of each.

XXH32 is the one inside LZ4 streams of Java. It is sequential within a block, but blocks of one
length know nothing of each other: each step is done for all of them
(https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.formats.columns import run_edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.columns import ByteColumn

_POLYNOMIAL = 0x82F63B78
_PIECE_BYTES, _PIECE_BIT, _INITIAL_BYTES, _LARGEST_BITS = 256, 8, 4, 63


def crc32c(rows: ByteColumn) -> NDArray[np.uint32]:
    """Return the checksum of each row; 0 of a null.

    >>> from kstoolkit.formats.columns import ByteColumn
    >>> [f"{value:08x}" for value in crc32c(ByteColumn.of([b"123456789", b"", b"a"]))]
    ['e3069283', '00000000', 'c1d04330']
    """
    count = -(-rows.lengths // _PIECE_BYTES)
    place = run_edges(count)
    pieces = _of_pieces(rows, count, place[:-1])
    found = np.zeros(len(rows), dtype=np.uint32)
    for step in range(int(count.max(initial=0))):
        alive = np.flatnonzero(count > step)
        found[alive] = _moved_on(found[alive], _PIECE_BIT) ^ pieces[place[alive] + step]
    return _finished(found, rows)


def crc32c_of_both(
    first: NDArray[np.uint32], second: NDArray[np.uint32], length: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return the checksum of two rows one behind the other, of which neither is looked at again.

    Given are the checksums of both, and how many bytes the second one has.

    >>> from kstoolkit.formats.columns import ByteColumn
    >>> one, two = crc32c(ByteColumn.of([b"1234", b"56789"]))[:, None]
    >>> [f"{value:08x}" for value in crc32c_of_both(one, two, np.array([5]))]
    ['e3069283']
    """
    moved = first.copy()
    for bit in range(int(length.max(initial=0)).bit_length()):
        odd = (length >> bit) & 1 == 1
        moved[odd] = _moved_on(moved[odd], bit)
    return moved ^ second


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
    for length in range(_INITIAL_BYTES):
        found[rows.lengths == length] ^= np.uint32(0xFFFFFFFF >> (8 * length))
    found = found ^ np.uint32(0xFFFFFFFF)
    found[rows.is_null] = 0
    return found


def _moved_on(found: NDArray[np.uint32], bit: int) -> NDArray[np.uint32]:
    """Return the CRCs of the same, followed by ``1 << bit`` zero bytes."""
    moved = np.zeros_like(found)
    for place in range(4):
        moved ^= _MOVES[bit][place, (found >> np.uint32(8 * place)) & 0xFF]
    return moved


def _table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = (table & 1).astype(bool)
        table = (table >> np.uint32(1)) ^ np.where(odd, np.uint32(_POLYNOMIAL), np.uint32(0))
    return table


_TABLE = _table()
_BYTES = np.stack([np.arange(256, dtype=np.uint32) << np.uint32(8 * place) for place in range(4)])
_MOVES = [(_BYTES >> np.uint32(8)) ^ _TABLE[_BYTES & 0xFF]]
"""By how many zero bytes, as a power of two: what each byte of a CRC becomes behind them."""

for _bit in range(_LARGEST_BITS - 1):
    _MOVES.append(_moved_on(_MOVES[_bit], _bit))  # twice as far is as far, twice

_P1, _P2, _P3, _P4, _P5 = (
    np.uint32(prime) for prime in (2654435761, 2246822519, 3266489917, 668265263, 374761393)
)
_STRIPE_BYTES, _WORD_BYTES = 16, 4


def xxhash32(blocks: NDArray[np.uint8], seed: int) -> NDArray[np.uint32]:
    """Return the hash of each row of ``blocks``.

    >>> [f"{value:08x}" for value in xxhash32(np.frombuffer(b"abc", np.uint8)[None, :], 0)]
    ['32d153ff']
    """
    count, length = blocks.shape
    start = np.uint32(seed)
    whole = length // _STRIPE_BYTES * _STRIPE_BYTES
    with np.errstate(over="ignore"):
        if whole:
            found = _of_stripes(_words(blocks[:, :whole]), start)
        else:
            found = np.full(count, start + _P5, dtype=np.uint32)
        found = _tail(found + np.uint32(length & 0xFFFFFFFF), blocks[:, whole:])
        found = (found ^ (found >> np.uint32(15))) * _P2  # the avalanche, as xxHash calls it
        found = (found ^ (found >> np.uint32(13))) * _P3
        return found ^ (found >> np.uint32(16))


def _of_stripes(words: NDArray[np.uint32], seed: np.uint32) -> NDArray[np.uint32]:
    first = np.array([seed + _P1 + _P2, seed + _P2, seed, seed - _P1], dtype=np.uint32)
    lanes = np.repeat(first[None, :], len(words), axis=0)
    for at in range(0, words.shape[1], 4):
        lanes += words[:, at : at + 4] * _P2
        lanes = _rotated(lanes, 13) * _P1
    turned = [_rotated(lanes[:, n], bits) for n, bits in enumerate((1, 7, 12, 18))]
    return np.asarray(turned[0] + turned[1] + turned[2] + turned[3])


def _tail(found: NDArray[np.uint32], rest: NDArray[np.uint8]) -> NDArray[np.uint32]:
    whole = rest.shape[1] // _WORD_BYTES * _WORD_BYTES
    for word in _words(rest[:, :whole]).T:
        found = _rotated(found + word * _P3, 17) * _P4
    for octet in rest[:, whole:].T:
        found = _rotated(found + octet.astype(np.uint32) * _P5, 11) * _P1
    return found


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _words(octets: NDArray[np.uint8]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(octets).view("<u4").astype(np.uint32, copy=False)
