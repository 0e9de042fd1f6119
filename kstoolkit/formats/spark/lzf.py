"""LZF, in chunks, as Spark writes it where its codec is lzf.

::

    chunk     "ZV" · 00 · length (2) · bytes as they are
              "ZV" · 01 · packed length (2) · length (2) · packed
    packed    000nnnnn · n + 1 bytes as they are
              lllooooo · [more length (1), if lll is 111] · offset (1)
                  l + 2 bytes again, from o · 256 + offset + 1 bytes back; those may overlap

Lengths are big-endian (``com.ning.compress.lzf.LZFChunk``). There is no checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator


_LZF = b"ZV"
_HEAD, _PACKED_HEAD = 5, 7
_STORED, _PACKED = 0, 1
_LITERAL = 32
_LONG = 7
_LZF_CHUNK_BYTES = 1 << 20
_HINT = "The file is damaged, or was not written to its end."


def _lzf(raw: bytes) -> Iterator[bytes]:
    r"""Yield what a file of chunks holds, in pieces of a megabyte or so.

    Raises
    ------
    FormatError
        If a chunk is damaged, or the file ends within one.

    Examples
    --------
    >>> list(_lzf(b"ZV\x00\x00\x02ab" + b"ZV\x01\x00\x04\x00\x06\x00c\x60\x00"))
    [b'abcccccc']
    """
    at, pieces, size = 0, list[bytes](), 0
    while at < len(raw):
        piece, at = _lzf_chunk(raw, at)
        pieces.append(piece)
        size += len(piece)
        if size >= _LZF_CHUNK_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    yield b"".join(pieces)


def _lzf_chunk(raw: bytes, at: int) -> tuple[bytes, int]:
    """Return what a chunk holds, and where the next one begins."""
    kind = raw[at + 2 : at + 3]
    is_packed = kind == bytes([_PACKED])
    begin = at + (_PACKED_HEAD if is_packed else _HEAD)
    end = begin + int.from_bytes(raw[at + 3 : at + _HEAD], "big")
    if not raw.startswith(_LZF, at) or end > len(raw) or kind not in (b"\x00", b"\x01"):
        raise _lzf_fault(at)
    if not is_packed:
        return raw[begin:end], end
    length = int.from_bytes(raw[begin - 2 : begin], "big")
    try:
        found = _lzf_unpacked(raw[begin:end], length)
    except IndexError:
        found = b""
    if len(found) != length:
        raise _lzf_fault(at)
    return found, end


def _lzf_unpacked(packed: bytes, length: int) -> bytes:
    """Return what some bytes stand for: at most little more than ``length``, if they are wrong.

    Each step tells how long it is, so they are gone through one by one.
    """
    told, at = bytearray(), 0
    while at < len(packed) and len(told) <= length:
        control = packed[at]
        if control < _LITERAL:
            told += packed[at + 1 : at + control + 2]
            at += control + 2
            continue
        size, at = (control >> 5) + 2, at + 1
        if size == _LONG + 2:
            size, at = size + packed[at], at + 1
        back = ((control & 0x1F) << 8) + packed[at] + 1
        at += 1
        if back > len(told):
            raise IndexError
        again = told[-back:][:size]
        told += (again * -(-size // back))[:size]
    return bytes(told)


def _lzf_fault(at: int) -> FormatError:
    message = f"A file of state has no LZF chunk at byte {at:,}."
    return FormatError(message, hint=_HINT)
