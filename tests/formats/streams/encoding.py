"""Kafka Streams' bytes, written by hand for the tests: small, one row at a time, nothing shared."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HeaderPairs = list[tuple[str, bytes | None]]


def int32(number: int) -> bytes:
    return struct.pack(">i", number)


def int64(number: int) -> bytes:
    return struct.pack(">q", number)


def window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes:
    return key + int64(start_ms) + int32(sequence)


def session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    return key + int64(end_ms) + int64(start_ms)


def time_first_window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes:
    return b"\x00" + int64(start_ms) + key + int32(sequence)


def index_window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes:
    return b"\x01" + window_key(key, start_ms, sequence)


def time_first_session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    return b"\x00" + int64(end_ms) + int64(start_ms) + key


def index_session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    return b"\x01" + session_key(key, start_ms, end_ms)


def timestamped(value: bytes, timestamp_ms: int) -> bytes:
    return int64(timestamp_ms) + value


def varint(number: int) -> bytes:
    bits = (number << 1) ^ (number >> 31)
    found = b""
    while bits > 0x7F:
        found += bytes([bits & 0x7F | 0x80])
        bits >>= 7
    return found + bytes([bits])


def header_bytes(headers: HeaderPairs) -> bytes:
    if not headers:
        return b"\x00"
    inside = varint(len(headers))
    for name, value in headers:
        inside += varint(len(name.encode())) + name.encode()
        inside += varint(-1) if value is None else varint(len(value)) + value
    return varint(len(inside)) + inside


def sized(piece: bytes | None) -> bytes:
    return int32(-1) if piece is None else int32(len(piece)) + piece


def list_value(elements: Sequence[bytes | None]) -> bytes:
    return b"\x01" + int32(len(elements)) + b"".join(sized(each) for each in elements)


def pending_key(key: bytes, timestamp_ms: int, *, left: bool) -> bytes:
    return int64(timestamp_ms) + bytes([left]) + key


def combined_key(foreign_key: bytes, primary_key: bytes) -> bytes:
    return sized(foreign_key) + primary_key


def subscription(
    primary_key: bytes, *, instruction: int, hash16: bytes | None, partition: int | None
) -> bytes:
    version = 0 if partition is None else 1
    head = bytes([version | (0x80 if hash16 is None else 0), instruction])
    return head + (hash16 or b"") + primary_key + (b"" if partition is None else int32(partition))


def history(starts_ms: Sequence[int], values: Sequence[bytes | None]) -> bytes:
    """Return a history row; the last of the starts is until when the newest is valid."""
    assert all(first <= second for first, second in pairwise(starts_ms))
    sizes = [-1 if value is None else len(value) for value in values]
    heads = [int64(at) + int32(size) for at, size in zip(starts_ms[:-1], sizes, strict=True)]
    bodies = b"".join(value or b"" for value in values)
    return int64(starts_ms[-1]) + int64(starts_ms[0]) + b"".join(reversed(heads)) + bodies


def buffered(
    timestamp_ms: int,
    offset: int,
    topic: str,
    partition: int,
    *,
    headers: HeaderPairs,
    values: tuple[bytes | None, bytes | None, bytes | None],
) -> bytes:
    """Return a record that waits; an old value that is the prior one is not written twice."""
    prior, old, new = values
    context = int64(timestamp_ms) + int64(offset) + sized(topic.encode()) + int32(partition)
    pairs = b"".join(sized(name.encode()) + sized(value) for name, value in headers)
    as_prior = old is not None and old == prior
    return (
        context
        + int32(len(headers))
        + pairs
        + sized(prior)
        + (int32(-2) if as_prior else sized(old))
        + sized(new)
    )
