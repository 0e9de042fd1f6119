"""Varints, as protobuf writes them: seven bits a byte, the lowest first. Whole columns at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


LONGEST = 10
"""How many bytes 64 bits take at most."""

MORE = 0x80
"""The top bit of a byte that is not the last of its varint."""


def widths_of(numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many bytes each number takes.

    Examples
    --------
    >>> widths_of(np.array([0, 127, 128], np.uint64)).tolist()
    [1, 1, 2]
    """
    width = np.ones(len(numbers), np.int64)
    rest = numbers >> np.uint64(7)
    while rest.any():
        width += rest > 0
        rest >>= np.uint64(7)
    return width


def written(
    numbers: NDArray[np.uint64], width: NDArray[np.int64], begins: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the bytes of numbers, one behind the other.

    Parameters
    ----------
    numbers, width
        The numbers, and how many bytes each takes: see :func:`widths_of`.
    begins
        Where each one begins.

    Examples
    --------
    >>> written(np.array([1, 300], np.uint64), np.array([1, 2]), np.array([0, 1])).tobytes().hex()
    '01ac02'
    """
    data = np.empty(int(width.sum()), np.uint8)
    rest, left = numbers, width
    for place in range(LONGEST):
        more = left > place + 1
        data[begins + place] = (rest & np.uint64(0x7F)).astype(np.uint8) | (
            more.astype(np.uint8) << 7
        )
        if not more.any():
            break
        rest, begins, left = rest[more] >> np.uint64(7), begins[more], left[more]
    return data


def numbers_of(
    data: NDArray[np.uint8], width: NDArray[np.int64], begins: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the numbers that begin at some places, and are so wide.

    Examples
    --------
    >>> data = np.array([0x01, 0xAC, 0x02], np.uint8)
    >>> numbers_of(data, np.array([1, 2]), np.array([0, 1])).tolist()
    [1, 300]
    """
    numbers = np.zeros(len(width), np.uint64)
    chosen = np.arange(len(width))
    for place in range(int(width.max(initial=0))):
        chosen = chosen[width[chosen] > place]
        bits = (data[begins[chosen] + place] & 0x7F).astype(np.uint64)
        numbers[chosen] |= bits << np.uint64(7 * place)
    return numbers
