"""Positions: up to where a store has seen its input topics.

::

    00 | topics (int32) | { length (int32) | topic | pairs (int32)
                            | { partition (int32) | offset (int64) } ... } ...

Kafka Streams reserves bits where it means bytes, so that many zero bytes follow, which stand for
nothing. (``PositionSerde`` of Kafka Streams 3.2; on disk in the column family ``offsets`` of 4.3.)
"""

from __future__ import annotations

from kstoolkit.errors import FormatError
from kstoolkit.formats.foreignversion import foreign_version
from kstoolkit.formats.streams.cursor import Cursor

Position = dict[tuple[str, int], int]
"""The offset of each topic and partition."""

_POSITION = "Position"
_TOPIC_BYTES = 8
_PAIR_BYTES = 12


def read_position(blob: bytes) -> Position:
    """Return the offset of each topic and partition.

    Raises
    ------
    FormatError
        If the bytes are no Position, or one of an unknown version.

    Examples
    --------
    >>> blob = "000000000100000002696e00000001000000000000000000000029"
    >>> read_position(bytes.fromhex(blob) + bytes(175))
    {('in', 0): 41}
    """
    cursor = Cursor(memoryview(blob), 0, len(blob))
    try:
        version = cursor.byte()
        if version:
            raise foreign_version(_POSITION, version, 0, "Kafka Streams")
        return dict(
            pair for _ in range(_count(cursor, _TOPIC_BYTES, "topics")) for pair in _pairs(cursor)
        )
    except FormatError as error:
        if error.hint:
            raise
        message = f"{len(blob):,} bytes that are no Position: {error.message}."
        raise FormatError(message, hint="They are damaged, or something else.") from error


def _pairs(cursor: Cursor) -> list[tuple[tuple[str, int], int]]:
    topic = cursor.text(cursor.sized())
    count = _count(cursor, _PAIR_BYTES, "partitions")
    return [((topic, cursor.int32()), cursor.int64()) for _ in range(count)]


def _count(cursor: Cursor, least_bytes: int, what: str) -> int:
    count = cursor.int32()
    if not 0 <= count <= cursor.left // least_bytes:
        message = f"{count} {what} in {cursor.left} bytes"
        raise FormatError(message)
    return count
