"""How far a store is, and which time the folder of each of its segments covers.

How far it is, files beside the stores say, ``.checkpoint``, ``.checkpoint_<store>`` and
``<store>.position``, in lines of text (``OffsetCheckpoint`` of
``org.apache.kafka.streams.state.internals``)::

    0                             version
    2                             how many lines follow
    <topic> <partition> <offset>  the last that was applied; of global stores the next to be read

Since Kafka Streams 4.3 the store's column family ``offsets`` says so, and whether it was closed:

=========================  =====================================================================
key                        value
=========================  =====================================================================
``<topic>-<partition>``    int64: the last offset applied; of a global store the next to be read
``status``                 int64: 1 open, 0 closed
``position``               up to where it has seen its input topics; not read here
=========================  =====================================================================

A windowed store is cut into segments, and the name of a segment's folder tells from when on its
windows begin (``AbstractSegments`` of the same package as above):

======================  ===============================  ==============================
written by              folder                           the start is
======================  ===============================  ==============================
0.10.0                  ``yyyyMMddHHmm``                 a minute, UTC
0.10.1 to 0.11.0        ``<store>-yyyyMMddHHmm``         a minute, UTC
1.0.0                   ``<store>:<ms>``                 epoch ms
1.0.1 and newer         ``<store>.<ms>``                 epoch ms
======================  ===============================  ==============================
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from math import gcd
from typing import TYPE_CHECKING, Literal

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import foreign_version

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHECKPOINT = "checkpoint file"
_VERSION = 0
_UNKNOWN = -4
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_HEAD_LINES = 2
_FIELDS = 3


def read_checkpoint(content: bytes) -> dict[tuple[str, int], int | None]:
    r"""Return an offset file's offsets by topic and partition, None where none was there to tell.

    Lines with an offset that means nothing are skipped, as Kafka Streams does. A file that is none,
    is of an unknown version, or has not the lines that it says is a FormatError.

    >>> read_checkpoint(b"0\n2\nmy-store-changelog 0 41\nmy-other-changelog 0 -4\n")
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
    return {key: None if offset == _UNKNOWN else offset for key, offset in told.items()}


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
        has = f"has {len(fields)} fields, not {_FIELDS}"
        message = f"A line of a checkpoint file {has}: {line[:80]!r}."
        raise _damaged(message)
    return (fields[0], _whole_number(fields[1])), _whole_number(fields[2])


def _whole_number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        message = f"{text[:40]!r} in a checkpoint file is no number."
        raise _damaged(message)
    return int(text)


def _damaged(message: str) -> FormatError:
    return FormatError(message, hint="It is damaged, or no checkpoint file.")


_STATES: dict[bytes, Literal["open", "closed"]] = {bytes(8): "closed", (1).to_bytes(8): "open"}
_PARTITION = re.compile(rb"(.+)-([0-9]{1,10})", re.DOTALL)
_NUMBER_BYTES = 8


def read_offsets(
    rows: Iterable[tuple[bytes, bytes]],
) -> tuple[dict[tuple[str, int], int], Literal["open", "closed"] | None]:
    """Return offsets by topic and partition, and whether the store was closed.

    They are what the rows of the column family say; what means nothing is left out. Open on disk
    means that the store's process was killed, or still runs; None that nothing was ever flushed, or
    that the store is older than Kafka Streams 4.3.

    >>> read_offsets([(b"a-changelog-3", (41).to_bytes(8)), (b"status", bytes(8))])
    ({('a-changelog', 3): 41}, 'closed')
    """
    told = dict(rows)
    offsets: dict[tuple[str, int], int] = {}
    for key, value in told.items():
        partition = _PARTITION.fullmatch(key)
        offset = int.from_bytes(value, "big", signed=True)
        if partition and len(value) == _NUMBER_BYTES and offset >= 0:
            with suppress(UnicodeDecodeError):
                offsets[partition[1].decode(), int(partition[2])] = offset
    return offsets, _STATES.get(told.get(b"status", b""))


_MINUTE = re.compile(r"[0-9]{12}")
_LARGEST_INT64 = 2**63 - 1


def segment_start_ms(store: str, folder: str) -> int | None:
    """Return where a segment begins, epoch ms UTC; None if the folder is no segment of the store.

    >>> segment_start_ms("counts", "counts.1700002800000")
    1700002800000
    >>> segment_start_ms("counts", "counts-202311142300")
    1700002800000
    >>> segment_start_ms("counts", "counts.old") is None
    True
    """
    minute = folder.removeprefix(f"{store}-")
    if _MINUTE.fullmatch(minute):
        return _minute(minute)
    mark, rest = folder[len(store) : len(store) + 1], folder[len(store) + 1 :]
    if not folder.startswith(store) or mark not in {".", ":"} or not _NUMBER.fullmatch(rest):
        return None
    start_ms = int(rest)
    return start_ms if abs(start_ms) <= _LARGEST_INT64 else None


def segment_interval_ms(starts_ms: Iterable[int]) -> int | None:
    """Return how long a store's segments are, as far as their starts tell: in ms.

    It is the greatest number that divides all of them: of few segments it may be a multiple of the
    true one. None if there is no segment, or only the one from 0, which has no end.

    >>> segment_interval_ms([1700002800000, 1700006400000, 1700004600000])
    1800000
    """
    return gcd(*starts_ms) or None


def _minute(text: str) -> int | None:
    try:
        moment = datetime.strptime(text, "%Y%m%d%H%M").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp() * 1000)
