"""The column family ``offsets``: how far a store is, and whether it was closed (Kafka Streams 4.3).

=========================  =====================================================================
key                        value
=========================  =====================================================================
``<topic>-<partition>``    int64: the last offset applied; of a global store the next to be read
``status``                 int64: 1 open, 0 closed
``position``               a Position
=========================  =====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kstoolkit.errors import FormatError
from kstoolkit.formats.streams.position import Position, read_position

if TYPE_CHECKING:
    from collections.abc import Iterable


_STATES: dict[int, Literal["open", "closed"]] = {0: "closed", 1: "open"}
_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class OffsetRows:
    """What the rows say.

    Parameters
    ----------
    offsets
        The offset of each topic and partition.
    status
        Whether the store was closed. Open on disk means that its process was killed, or still runs;
        None that nothing was ever flushed, or that the store is older than Kafka Streams 4.3.
    position
        How far its input was seen; None if there is no such row.
    problems
        Which rows could not be read, and why.
    """

    offsets: dict[tuple[str, int], int]
    status: Literal["open", "closed"] | None
    position: Position | None
    problems: tuple[str, ...]


def read_offsets(rows: Iterable[tuple[bytes, bytes]]) -> OffsetRows:
    """Return what the rows of the column family say.

    Examples
    --------
    >>> found = read_offsets([(b"a-changelog-3", (41).to_bytes(8)), (b"status", bytes(8))])
    >>> found.offsets, found.status, found.position
    ({('a-changelog', 3): 41}, 'closed', None)
    """
    offsets: dict[tuple[str, int], int] = {}
    status: Literal["open", "closed"] | None = None
    position: Position | None = None
    problems: list[str] = []
    for key, value in rows:
        try:
            if key == b"status":
                status = _status(value)
            elif key == b"position":
                position = read_position(value)
            else:
                offsets[_partition(key)] = _number(value)
        except FormatError as error:
            problems.append(f"{key[:200]!r}: {error.message}")
    return OffsetRows(offsets, status, position, tuple(problems))


def _status(value: bytes) -> Literal["open", "closed"]:
    number = _number(value)
    if number not in _STATES:
        message = f"the status {number} is neither 0 nor 1"
        raise FormatError(message)
    return _STATES[number]


def _partition(key: bytes) -> tuple[str, int]:
    topic, _, partition = key.rpartition(b"-")
    few_digits = len(partition) <= len("2147483647")
    if not (topic and partition.isdigit() and few_digits):
        message = "the key is no topic and partition"
        raise FormatError(message)
    try:
        return topic.decode(), int(partition)
    except UnicodeDecodeError as error:
        message = "the topic is no UTF-8"
        raise FormatError(message) from error


def _number(value: bytes) -> int:
    if len(value) != _NUMBER_BYTES:
        message = f"{len(value)} bytes where a number of {_NUMBER_BYTES} should be"
        raise FormatError(message)
    return int.from_bytes(value, "big", signed=True)
