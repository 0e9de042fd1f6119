"""The checksum that RocksDB writes before each record of its logs."""

from __future__ import annotations

from functools import cache

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, its bits reversed
_ALL = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes as RocksDB stores it: turned, and moved by a constant.

    A checksum of data that has checksums in it would be weak: hence the mask (RocksDB's
    ``util/crc32c.h``). Byte by byte: meant for a few hundred bytes.

    Examples
    --------
    >>> f"{masked_crc32c(b'123456789'):08x}"
    'c78ab0e5'
    """
    table, crc = _table(), _ALL
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= _ALL
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL


@cache
def _table() -> tuple[int, ...]:
    return tuple(_of_byte(byte) for byte in range(256))


def _of_byte(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ _POLYNOMIAL if crc & 1 else crc >> 1
    return crc
