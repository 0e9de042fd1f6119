"""What a compressed file of a checkpoint holds, be it RocksDB's or the HDFS-backed one's.

::

    lz4     "LZ4Block" · token (1) · compressed length (4) · length (4) · checksum (4) · block · …
            numbers little-endian; a token of 0x10 and up: the block is as it is, 0x20: LZ4;
            the lower half gives the largest length; a length of 0 ends a stream
    snappy  82 "SNAPPY" 00 · version (4) · oldest reader (4) · length (4) · block · …
            numbers big-endian
    zstd    frames, as everywhere
    lzf     "ZV" · 00 · length (2) · bytes as they are
            "ZV" · 01 · packed length (2) · length (2) · packed
            lengths big-endian; no checksum; packed is
              000nnnnn · n + 1 bytes as they are
              lllooooo · [more length (1), if lll is 111] · offset (1)
                  l + 2 bytes again, from o · 256 + offset + 1 bytes back; those may overlap

The codec is told by the first bytes (``org.apache.spark.io.CompressionCodec``;
``net.jpountz.lz4.LZ4BlockOutputStream``; ``org.xerial.snappy.SnappyOutputStream``;
``com.ning.compress.lzf.LZFChunk``).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.checksums import xxhash32

if TYPE_CHECKING:
    from collections.abc import Iterator

_LZF = b"ZV"
_HEAD, _PACKED_HEAD = 5, 7
_STORED, _PACKED = b"\x00", b"\x01"
_LITERAL = 32
_LONG = 7
_HINT = "The file is damaged, or was not written to its end."


def _lzf(raw: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(raw):
        piece, at = _lzf_chunk(raw, at)
        yield piece


def _lzf_chunk(raw: bytes, at: int) -> tuple[bytes, int]:
    """Return what a chunk holds, and where the next one begins."""
    kind = raw[at + 2 : at + 3]
    is_packed = kind == _PACKED
    begin = at + (_PACKED_HEAD if is_packed else _HEAD)
    end = begin + int.from_bytes(raw[at + 3 : at + _HEAD], "big")
    if not raw.startswith(_LZF, at) or end > len(raw) or kind not in (_STORED, _PACKED):
        raise _no_block(at, "LZF chunk")
    if not is_packed:
        return raw[begin:end], end
    length = int.from_bytes(raw[begin - 2 : begin], "big")
    try:
        found = _lzf_unpacked(raw[begin:end], length)
    except IndexError:
        found = b""
    if len(found) != length:
        raise _no_block(at, "LZF chunk")
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


_LZ4, _SNAPPY, _ZSTD = b"LZ4Block", b"\x82SNAPPY\x00", b"\x28\xb5\x2f\xfd"
_LZ4_HEAD, _SNAPPY_HEAD = 21, 16
_LZ4_STORED, _LZ4_PACKED = 0x10, 0x20
_LZ4_SEED, _LZ4_CHECKSUM = 0x9747B28C, 0x0FFFFFFF
_LZ4_SMALLEST_LEVEL = 10
_LZ4_RATIO, _SNAPPY_RATIO, _ZSTD_RATIO = 255, 32, 256
_CHUNK_BYTES, _FREE_BYTES = 1 << 20, 16 << 20
_MOST_AT_ONCE = 256


def decompressed(raw: bytes) -> Iterator[bytes]:
    """Return what a compressed file holds, in pieces of a megabyte or so.

    A codec that is not known, a damaged block, an end that comes too soon, and more than 256 bytes
    that zstd makes of each are a FormatError.

    >>> list(decompressed(pa.Codec("zstd").compress(b"counts", asbytes=True)))
    [b'counts']
    """
    if raw.startswith(_LZ4):
        return _lz4(raw)
    if raw.startswith(_SNAPPY):
        return _together(_snappy(raw))
    if raw.startswith(_ZSTD):
        return _zstd(raw)
    if raw.startswith(_LZF):
        return _together(_lzf(raw))
    message = f"A file of state begins with {raw[:8].hex()!r}, as no codec of Spark's does."
    raise FormatError(message, hint=_HINT)


def _together(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces joined until they are a megabyte or so."""
    held, size = list[bytes](), 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _CHUNK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _lz4(raw: bytes) -> Iterator[bytes]:
    at, blocks, checksums, size = 0, list[bytes](), list[int](), 0
    while at < len(raw):
        block, checksum, at = _lz4_block(raw, at)
        blocks += [block] if block else []
        checksums += [checksum] if block else []
        size += len(block)
        if size >= _CHUNK_BYTES or len(blocks) >= _MOST_AT_ONCE or at >= len(raw):
            _check_lz4(blocks, checksums)
            yield b"".join(blocks)
            blocks, checksums, size = [], [], 0
    if not raw[-_LZ4_HEAD:].startswith(_LZ4):
        message = "A file of LZ4 blocks without the empty one that ends it."
        raise FormatError(message, hint=_HINT)


def _lz4_block(raw: bytes, at: int) -> tuple[bytes, int, int]:
    """Return a block, the checksum that it should have, and where the next one begins."""
    head = raw[at : at + _LZ4_HEAD]
    if len(head) < _LZ4_HEAD or not head.startswith(_LZ4):
        raise _no_block(at, "LZ4 block")
    token, packed, length, checksum = struct.unpack_from("<BIII", head, len(_LZ4))
    begin, end = at + _LZ4_HEAD, at + _LZ4_HEAD + packed
    largest = 1 << (_LZ4_SMALLEST_LEVEL + (token & 0x0F))
    is_stored = token & 0xF0 == _LZ4_STORED and packed == length
    is_whole = end <= len(raw) and length <= min(largest, packed * _LZ4_RATIO)
    if not is_whole or not (is_stored or token & 0xF0 == _LZ4_PACKED):
        raise _no_block(at, "LZ4 block")
    if is_stored:
        return raw[begin:end], checksum, end
    return _block("lz4_raw", raw[begin:end], length, at), checksum, end


def _check_lz4(blocks: list[bytes], checksums: list[int]) -> None:
    """Refuse blocks that are not what was compressed: LZ4 itself does not notice all of that."""
    expected = np.array(checksums, dtype=np.uint32)
    lengths = np.array([len(block) for block in blocks])
    for length in np.unique(lengths).tolist():
        alike = np.flatnonzero(lengths == length)
        joined = np.frombuffer(b"".join(blocks[n] for n in alike), dtype=np.uint8)
        found = xxhash32(joined.reshape(len(alike), length), _LZ4_SEED) & np.uint32(_LZ4_CHECKSUM)
        if (found != expected[alike]).any():
            message = "An LZ4 block that does not have the checksum it was written with."
            raise FormatError(message, hint=_HINT)


def _snappy(raw: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(raw):
        if raw.startswith(_SNAPPY, at):  # streams may follow each other, each with its own head
            at += _SNAPPY_HEAD
            continue
        packed = int.from_bytes(raw[at : at + 4], "big")
        begin, at = at + 4, at + 4 + packed
        length = _snappy_length(raw[begin : begin + 5])
        if at > len(raw) or length > packed * _SNAPPY_RATIO:
            raise _no_block(begin - 4, "Snappy block")
        yield _block("snappy", raw[begin:at], length, begin - 4)


def _snappy_length(head: bytes) -> int:
    """Return the length that a block of Snappy begins with, seven bits a byte."""
    length = 0
    for place, octet in enumerate(head):
        length |= (octet & 0x7F) << (7 * place)
        if octet < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            break
    return length


def _block(codec: str, packed: bytes, length: int, at: int) -> bytes:
    try:
        block: bytes = pa.Codec(codec).decompress(packed, length, asbytes=True)
    except (OSError, ValueError) as error:
        raise _no_block(at, f"{codec} block") from error
    return block


def _zstd(raw: bytes) -> Iterator[bytes]:
    most, size = _FREE_BYTES + _ZSTD_RATIO * len(raw), 0
    with pa.CompressedInputStream(pa.BufferReader(raw), "zstd") as stream:
        while chunk := _zstd_chunk(stream):
            size += len(chunk)
            if size > most:
                message = f"A file of {len(raw):,} bytes that holds more than {most:,} in zstd."
                raise FormatError(message, hint="It was not written by Spark.")
            yield chunk


def _zstd_chunk(stream: pa.CompressedInputStream) -> bytes:
    try:
        chunk: bytes = stream.read(_CHUNK_BYTES)
    except (OSError, ValueError) as error:
        message = f"A file of state that is no zstd: {error}."
        raise FormatError(message, hint=_HINT) from error
    return chunk


def _no_block(at: int, what: str) -> FormatError:
    message = f"A file of state has no {what} at byte {at:,}."
    return FormatError(message, hint=_HINT)
