r"""Offset files beside the stores: ``.checkpoint``, ``.checkpoint_<store>``, ``<store>.position``.

::

    0                           version
    2                           how many lines follow
    <topic> <partition> <offset>

A task's checkpoint holds the last offset that was applied, the one of global stores the next to be
read. (``OffsetCheckpoint`` of ``org.apache.kafka.streams.state.internals``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kstoolkit.errors import FormatError
from kstoolkit.formats.foreignversion import foreign_version

_CHECKPOINT = "checkpoint file"
_VERSION = 0
_UNKNOWN = -4
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_HEAD_LINES = 2
_FIELDS = 3


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What an offset file says.

    Parameters
    ----------
    offsets
        The offset of each topic and partition; None where the store had none yet to tell.
    num_skipped
        How many lines have an offset that means nothing, which Kafka Streams skips as well.
    """

    offsets: dict[tuple[str, int], int | None]
    num_skipped: int = 0


def read_checkpoint(content: bytes) -> Checkpoint:
    r"""Return what an offset file says.

    Raises
    ------
    FormatError
        If it is none, is of an unknown version, or has more or fewer lines than it says.

    Examples
    --------
    >>> read_checkpoint(b"0\n2\nmy-store-changelog 0 41\nmy-other-changelog 0 -4\n").offsets
    {('my-store-changelog', 0): 41, ('my-other-changelog', 0): None}
    """
    lines = _lines(content)
    version, count = _whole_number(lines[0]), _whole_number(lines[1])
    if version != _VERSION:
        raise foreign_version(_CHECKPOINT, version, _VERSION, "Kafka Streams")
    entries = [_entry(line) for line in lines[_HEAD_LINES:]]
    if len(entries) != count:
        message = f"A checkpoint file that says {count} lines and has {len(entries)}."
        raise _damaged(message)
    told = {partition: offset for partition, offset in entries if offset >= 0 or offset == _UNKNOWN}
    offsets = {key: None if offset == _UNKNOWN else offset for key, offset in told.items()}
    skipped = sum(offset < 0 and offset != _UNKNOWN for _, offset in entries)
    return Checkpoint(offsets, skipped)


def _lines(content: bytes) -> list[str]:
    try:
        lines = re.split(r"\r\n|\n|\r", content.decode())
    except UnicodeDecodeError as error:
        message = f"A checkpoint file that is no text: byte {error.start} is no UTF-8."
        raise _damaged(message) from error
    if lines[-1] == "":
        lines.pop()
    if len(lines) < _HEAD_LINES:
        message = "A checkpoint file that ends before its count of lines."
        raise _damaged(message)
    return lines


def _entry(line: str) -> tuple[tuple[str, int], int]:
    fields = line.split()
    if len(fields) != _FIELDS:
        message = (
            f"A line of a checkpoint file has {len(fields)} fields, not {_FIELDS}: {line[:80]!r}."
        )
        raise _damaged(message)
    return (fields[0], _whole_number(fields[1])), _whole_number(fields[2])


def _whole_number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        message = f"{text[:40]!r} in a checkpoint file is no number."
        raise _damaged(message)
    return int(text)


def _damaged(message: str) -> FormatError:
    return FormatError(message, hint="It is damaged, or no checkpoint file.")
