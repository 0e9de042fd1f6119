"""Which task counts which bucket: the buckets spread evenly over the partitions of Spark's state.

Spark puts a group into the partition that its key's hash says. Sixteen buckets by their number
would come to seven and nine of two partitions, sixty-four to 37 of 64, and each
micro-batch would wait for the fullest. So a bucket's group has another key, its *lane*: the
smallest number that is the bucket modulo how many there are, and whose hash leads where it should.
"""

from __future__ import annotations

from itertools import count

_SEED = 42
_WORD = 0xFFFF_FFFF
_SIGN = 0x8000_0000


def lanes(buckets: int, partitions: int) -> list[int]:
    """Return the lane of each bucket, such that bucket b is counted in partition b mod partitions.

    Examples
    --------
    >>> [spark_partition(lane, 2) for lane in lanes(6, 2)]
    [0, 1, 0, 1, 0, 1]
    >>> [bucket_of(lane, 6) for lane in lanes(6, 2)]
    [0, 1, 2, 3, 4, 5]
    """
    return [
        next(
            lane
            for lane in count(bucket, buckets)
            if spark_partition(lane, partitions) == bucket % partitions
        )
        for bucket in range(buckets)
    ]


def bucket_of(lane: int, buckets: int) -> int:
    """Return the bucket whose lane this is."""
    return lane % buckets


def spark_partition(number: int, partitions: int) -> int:
    """Return the partition into which Spark shuffles an int: Murmur3 with seed 42, modulo.

    As ``HashPartitioning`` does it, with ``org.apache.spark.unsafe.hash.Murmur3_x86_32``.

    Examples
    --------
    >>> [spark_partition(number, 5) for number in range(8)]
    [1, 3, 4, 1, 2, 1, 4, 2]
    """
    mixed = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    hashed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    hashed ^= 4  # bytes in an int
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    return (hashed - (hashed & _SIGN) * 2) % partitions


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _WORD
