"""XXH32, the checksum inside LZ4 streams of Java: of many blocks of one length at once.

The algorithm is sequential within a block, but blocks know nothing of each other: so each step is
done for all of them (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_P1, _P2, _P3, _P4, _P5 = (
    np.uint32(prime) for prime in (2654435761, 2246822519, 3266489917, 668265263, 374761393)
)
_STRIPE_BYTES, _WORD_BYTES = 16, 4


def xxhash32(blocks: NDArray[np.uint8], seed: int) -> NDArray[np.uint32]:
    """Return the hash of each row of ``blocks``.

    Examples
    --------
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
        return _avalanche(found)


def _of_stripes(words: NDArray[np.uint32], seed: np.uint32) -> NDArray[np.uint32]:
    first = np.array([seed + _P1 + _P2, seed + _P2, seed, seed - _P1], dtype=np.uint32)
    lanes = np.repeat(first[None, :], len(words), axis=0)
    for at in range(0, words.shape[1], 4):
        lanes += words[:, at : at + 4] * _P2
        lanes = _rotated(lanes, 13) * _P1
    turned = [_rotated(lanes[:, n], bits) for n, bits in enumerate((1, 7, 12, 18))]
    total: NDArray[np.uint32] = turned[0] + turned[1] + turned[2] + turned[3]
    return total


def _tail(found: NDArray[np.uint32], rest: NDArray[np.uint8]) -> NDArray[np.uint32]:
    whole = rest.shape[1] // _WORD_BYTES * _WORD_BYTES
    for word in _words(rest[:, :whole]).T:
        found = _rotated(found + word * _P3, 17) * _P4
    for octet in rest[:, whole:].T:
        found = _rotated(found + octet.astype(np.uint32) * _P5, 11) * _P1
    return found


def _avalanche(found: NDArray[np.uint32]) -> NDArray[np.uint32]:
    found = (found ^ (found >> np.uint32(15))) * _P2
    found = (found ^ (found >> np.uint32(13))) * _P3
    return found ^ (found >> np.uint32(16))


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _words(octets: NDArray[np.uint8]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(octets).view("<u4").astype(np.uint32, copy=False)
