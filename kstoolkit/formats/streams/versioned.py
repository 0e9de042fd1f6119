"""Versioned stores: for each key its latest version, and those before it, segment by segment.

::

    key             segment (int64) | key; segment -1 holds the latest versions
    latest          valid from (int64) | value
    history         valid to of the newest (int64) | valid from of the oldest (int64)
                    | { valid from (int64), size (int32) }, newest first | values, oldest first

A size of -1 is a version without a value: the key was deleted. How many versions there are is not
stored: they end with the one that is valid from when the oldest is. (``RocksDBVersionedStore``,
``RocksDBVersionedStoreSegmentValueFormatter`` of Kafka Streams 3.5.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.rowcolumns import RowColumns
from kstoolkit.formats.streams.cursor import Cursor
from kstoolkit.formats.streams.masked import except_at, integers_of, nullable, said_of, spans

if TYPE_CHECKING:
    from numpy.typing import NDArray


LATEST = -1
"""The segment that holds the latest versions."""

_SEGMENT_BYTES = 8
_TIMESTAMP_BYTES = 8
_DELETED = -1


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a key: when it was valid, and where its value lies; None if it was deleted."""

    valid_from_ms: int
    valid_to_ms: int
    value: tuple[int, int] | None


def read_history(data: memoryview, start: int, end: int) -> list[Version]:
    """Return the versions in one history row, oldest first.

    A row whose one version was valid for no time holds its place alone, and gives no version.

    Parameters
    ----------
    data
        The bytes of all rows.
    start, end
        Where this row's lie.

    Raises
    ------
    FormatError
        If they are no history.

    Examples
    --------
    >>> row = bytes.fromhex(
    ...     "000000000000012c000000000000006400000000000000c8000000020000000000000064"
    ...     "00000001616262"
    ... )
    >>> for version in read_history(memoryview(row), 0, len(row)):
    ...     print(version.valid_from_ms, version.valid_to_ms, row[slice(*version.value)])
    100 200 b'a'
    200 300 b'bb'
    """
    cursor = Cursor(data, start, end)
    newest_to_ms = cursor.int64()
    heads = list(reversed(_heads(cursor, newest_to_ms, cursor.int64())))
    versions = [
        Version(valid_from, valid_to, None if size == _DELETED else cursor.span(size))
        for valid_from, valid_to, size in heads
    ]
    cursor.finish()
    return [each for each in versions if each.value or each.valid_from_ms < each.valid_to_ms]


def _heads(cursor: Cursor, newest_to_ms: int, oldest_from_ms: int) -> list[tuple[int, int, int]]:
    """Return (valid from, valid to, size) of each version, newest first."""
    heads: list[tuple[int, int, int]] = []
    valid_to_ms = newest_to_ms
    while not heads or valid_to_ms != oldest_from_ms:
        valid_from_ms, size = cursor.int64(), cursor.int32()
        if not oldest_from_ms <= valid_from_ms <= valid_to_ms or size < _DELETED:
            message = f"a version from {valid_from_ms} to {valid_to_ms} of {size} bytes"
            raise FormatError(message)
        heads.append((valid_from_ms, valid_to_ms, size))
        valid_to_ms = valid_from_ms
    return heads


def split_versioned(keys: ByteColumn, values: ByteColumn) -> RowColumns:
    """Return one row a version, of each key in a segment oldest first.

    ``timestamp_ms`` is from when a version is valid, and ``valid_to_ms`` until when. The column
    ``segment_id`` of the details is where it lay; -1 holds the latest ones.

    Examples
    --------
    >>> key, value = bytes.fromhex("ffffffffffffffff41"), bytes.fromhex("0000018bcfe56800") + b"v"
    >>> rows = split_versioned(ByteColumn.of([key]), ByteColumn.of([value]))
    >>> rows.key.to_list(), rows.value.to_list(), rows.timestamp_ms.to_pylist()
    ([b'A'], [b'v'], [1700000000000])
    """
    has_segment = keys.lengths >= _SEGMENT_BYTES
    segment = integers_of(has_segment, keys, 8, at=0)
    latest = has_segment & (segment == LATEST) & (values.lengths >= _TIMESTAMP_BYTES)
    history = _History.read(np.flatnonzero(has_segment & (segment >= 0)), values)
    bad = history.problems | _problems(has_segment, segment, latest)
    single = latest.copy()
    single[list(bad)] = True
    return _joined(keys, values, segment=segment, single=single, bad=bad, history=history)


def _problems(
    has_segment: NDArray[np.bool_], segment: NDArray[np.int64], latest: NDArray[np.bool_]
) -> dict[int, str]:
    short = said_of(~has_segment, "the key is shorter than the 8 bytes of a segment")
    below = said_of(segment < LATEST, "the key's segment is below -1")
    no_time = said_of(
        has_segment & (segment == LATEST) & ~latest, "the value is shorter than its 8 bytes of time"
    )
    return short | below | no_time


@dataclass(frozen=True, slots=True, eq=False)
class _History:
    """The versions in history rows, each with the row it lies in."""

    row: list[int] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)

    @classmethod
    def read(cls, rows: NDArray[np.intp], values: ByteColumn) -> _History:
        found, data = cls(), values.data.data
        for row in rows.tolist():
            try:
                versions = read_history(data, int(values.starts[row]), int(values.ends[row]))
            except FormatError as error:
                found.problems[row] = f"the value is no history of versions: {error.message}"
                continue
            found.row.extend([row] * len(versions))
            found.versions.extend(versions)
        return found


def _joined(
    keys: ByteColumn,
    values: ByteColumn,
    *,
    segment: NDArray[np.int64],
    single: NDArray[np.bool_],
    bad: dict[int, str],
    history: _History,
) -> RowColumns:
    """Return the rows that are one version, and those of the history, in the order on disk."""
    alone = np.flatnonzero(single)
    good = except_at(bad, len(keys))[alone]
    unsorted = np.concatenate([alone, np.array(history.row, dtype=np.intp)])
    order = np.argsort(unsorted, kind="stable")
    row = unsorted[order]
    of_history = order >= len(alone)
    is_good = np.concatenate([good, np.ones(len(history.row), dtype=np.bool_)])[order]

    latest = values.take(alone)
    from_ms = np.concatenate([integers_of(good, latest, 8, at=0), _numbers(history, "from")])
    to_ms = np.concatenate([np.zeros(len(alone), dtype=np.int64), _numbers(history, "to")])
    first = np.where(good, _TIMESTAMP_BYTES, 0)
    value = _chained(latest.part(first), spans(values.data, [v.value for v in history.versions]))
    return RowColumns(
        row,
        keys.take(row).part(np.where(is_good, _SEGMENT_BYTES, 0)),
        value.take(order),
        timestamp_ms=nullable(from_ms[order], is_good),
        valid_to_ms=nullable(to_ms[order], of_history),
        problems={int(at): bad[int(row[at])] for at in np.flatnonzero(~is_good)},
        details={"segment_id": pa.array(segment[row], mask=~is_good)},
    )


def _numbers(history: _History, which: str) -> NDArray[np.int64]:
    times = [
        each.valid_from_ms if which == "from" else each.valid_to_ms for each in history.versions
    ]
    return np.array(times, dtype=np.int64)


def _chained(first: ByteColumn, second: ByteColumn) -> ByteColumn:
    """Return the rows of two columns of the same bytes, one after the other."""
    return ByteColumn(
        first.data,
        np.concatenate([first.starts, second.starts]),
        np.concatenate([first.ends, second.ends]),
        np.concatenate([first.is_null, second.is_null]),
    )
