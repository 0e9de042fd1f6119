"""Record headers as the bytes that stores keep in front of a value.

What :mod:`kstoolkit.formats.streams.headers` draws and reads, the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


RecordHeaders = list[tuple[str, bytes | None]] | None
"""A record's headers, names and values; None: it has none."""

_NONE = b"\x00"
_BITS, _MORE = 0x7F, 0x80


def headers_bytes(headers: Sequence[tuple[str, bytes | None]] | None) -> bytes:
    """Return headers as they stand in front of a value.

    Examples
    --------
    >>> headers_bytes(None).hex(), headers_bytes([("k", b"vv"), ("n", None)]).hex(" ")
    ('00', '12 04 02 6b 04 76 76 02 6e 01')
    """
    if not headers:
        return _NONE
    cells = b"".join(_sized(name.encode()) + _sized(value) for name, value in headers)
    return _sized(_varint(len(headers)) + cells)


def _sized(cell: bytes | None) -> bytes:
    return _varint(-1) if cell is None else _varint(len(cell)) + cell


def _varint(number: int) -> bytes:
    """Return a number in zig-zag base-128."""
    rest = number << 1 if number >= 0 else -1 - (number << 1)
    written = bytearray()
    while rest > _BITS:
        written.append(rest & _BITS | _MORE)
        rest >>= 7
    return bytes([*written, rest])
