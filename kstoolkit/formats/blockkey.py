"""The key of a block in a changelog topic: which of a micro-batch's blocks it is.

::

    bucket (4) · epoch (4) · batch (8) · part (4) · minus the window size ms (8)

All signed, big-endian, and but for the last none below zero: 28 bytes, told from the key of one
user's window (:mod:`kstoolkit.formats.topickey`) by the last eight. The second part of bucket 5 in
batch 7 of epoch 1, with counts of minutes::

    00000005 00000001 0000000000000007 00000001 ffffffffffff15a0

No two batches share a key, so compaction leaves every block in place, and takes one of two if a
batch was written twice. Of one count in several blocks, that of the newest (epoch, batch) counts.
What is older than windows are kept goes by the topic's ``retention.ms``
(``cleanup.policy=compact,delete``) or by tombstones.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kstoolkit.errors import ConfigurationError, FormatError

_LAYOUT = Struct(">iiqiq")
LENGTH_BYTES = _LAYOUT.size
"""How long such a key is."""

_INT32, _INT64 = 2**31, 2**63
_LIMITS = (_INT32, _INT32, _INT64, _INT32, _INT64)


class BlockKey(NamedTuple):
    """Which block it is.

    Parameters
    ----------
    bucket
        Of which users it holds counts.
    epoch, batch
        Who wrote it.
    part
        Which one of those that this batch has of this bucket and window size.
    size_ms
        How long the windows are.
    """

    bucket: int
    epoch: int
    batch: int
    part: int
    size_ms: int

    def encode(self) -> bytes:
        """Return the key's bytes.

        Raises
        ------
        ConfigurationError
            If a number is below zero or too large for its place, or the size is zero.

        Examples
        --------
        >>> BlockKey(5, 1, 7, 1, 60_000).encode().hex(" ", -4)
        '00000005 00000001 00000000 00000007 00000001 ffffffff ffff15a0'
        """
        fits = all(0 <= number < limit for number, limit in zip(self, _LIMITS, strict=True))
        if not fits or not self.size_ms:
            message = f"{self} has no key: a number is below zero or too large, or the size zero."
            raise ConfigurationError(message)
        return _LAYOUT.pack(*self[:-1], -self.size_ms)

    @classmethod
    def decode(cls, key: bytes) -> BlockKey:
        """Read what :meth:`encode` wrote.

        Raises
        ------
        FormatError
            If the bytes are no such key.

        Examples
        --------
        >>> BlockKey.decode(BlockKey(5, 1, 7, 1, 60_000).encode())
        BlockKey(bucket=5, epoch=1, batch=7, part=1, size_ms=60000)
        """
        if len(key) != LENGTH_BYTES:
            raise _no_key(key)
        bucket, epoch, batch, part, minus_ms = _LAYOUT.unpack(key)
        if min(bucket, epoch, batch, part) < 0 or not -_INT64 < minus_ms < 0:
            raise _no_key(key)
        return cls(bucket, epoch, batch, part, -minus_ms)


def _no_key(key: bytes) -> FormatError:
    message = f"The key {key[:64].hex()} is not of a block of counts."
    return FormatError(message, hint="Give a topic that only kstoolkit writes to.")
