"""Which times are in keys: of windows and sessions, in the order of keys or of time.

::

    in a window store       key | start (int64) | sequence (int32)
    in a session store      key | end (int64) | start (int64)
    window, time first      00 | start | key | sequence
    window, index           01 | key | start | sequence
    session, time first     00 | end | start | key
    session, index          01 | key | end | start
    time-windowed serde     key | start (int64)
    session-windowed serde  key | end (int64) | start (int64)

The first six are stores' own (``WindowKeySchema``, ``SessionKeySchema``,
``PrefixedWindowKeySchemas``, ``PrefixedSessionKeySchemas`` of
``org.apache.kafka.streams.state.internals``). The last two are windowed keys as Kafka Streams'
serdes write them, in topics and in tables that have such keys (``TimeWindowedSerializer``,
``SessionWindowedSerializer`` of ``org.apache.kafka.streams.kstream``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from kstoolkit.formats.columns import ByteColumn, Decoded, except_at, said_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray


def integers_of(
    which: NDArray[np.bool_], column: ByteColumn, width: Literal[1, 2, 4, 8], *, at: int
) -> NDArray[np.int64]:
    """Return big-endian numbers of some rows, which must be long enough; 0 for the others."""
    numbers = np.zeros(len(column), dtype=np.int64)
    numbers[which] = column.take(which).integers(width, at=at)
    return numbers


def either(which: NDArray[np.bool_], column: ByteColumn, other: ByteColumn) -> ByteColumn:
    """Return some rows of one column and the rest of another; both are cut from the same bytes."""
    return ByteColumn(
        column.data,
        np.where(which, column.starts, other.starts),
        np.where(which, column.ends, other.ends),
        np.where(which, column.is_null, other.is_null),
    )


def spans(data: NDArray[np.uint8], found: Iterable[tuple[int, int] | None]) -> ByteColumn:
    """Return the pieces of some bytes that lie from one place up to another; None is null."""
    listed = list(found)
    ends = np.array([each or (0, 0) for each in listed], dtype=np.int64).reshape(-1, 2)
    is_null = np.array([each is None for each in listed], dtype=np.bool_)
    return ByteColumn(data, ends[:, 0], ends[:, 1], is_null)


def nullable(numbers: NDArray[np.int64], good: NDArray[np.bool_]) -> pa.Array:
    """Return numbers as Arrow int64, null in rows that are not good."""
    return pa.array(numbers, pa.int64(), mask=~good)


def known(column: pa.Array | None, good: NDArray[np.bool_]) -> pa.Array | None:
    """Return a column, if there is one, null in rows that are not good."""
    if column is None or good.all():
        return column
    return column.take(pa.array(np.arange(len(good)), mask=~good))


_WINDOW_BYTES = 12
_SESSION_BYTES = 16
_NO_SESSION = "the key is shorter than the 16 bytes of a session"


@dataclass(frozen=True, slots=True, eq=False)
class KeyParts:
    """What is in keys with times; of rows with a problem, nothing in particular.

    A session ends with its last event; windows' ends lie nowhere: ``end_ms`` is None. ``sequence``
    tells rows of a key and window apart; sessions have none. An index's rows are to find others.
    """

    key: ByteColumn
    start_ms: NDArray[np.int64]
    end_ms: NDArray[np.int64] | None
    sequence: NDArray[np.int64] | None
    is_index: NDArray[np.bool_]
    problems: dict[int, str]


def window_keys(keys: ByteColumn) -> KeyParts:
    """Return what is in the keys of a window store.

    >>> parts = window_keys(ByteColumn.of([bytes.fromhex("410000018bcfe5680000000000")]))
    >>> parts.key.to_list(), parts.start_ms.tolist(), parts.sequence.tolist()
    ([b'A'], [1700000000000], [0])
    """
    fits = keys.lengths >= _WINDOW_BYTES
    return KeyParts(
        keys.part(end=-_WINDOW_BYTES),
        integers_of(fits, keys, 8, at=-12),
        None,
        integers_of(fits, keys, 4, at=-4),
        np.zeros(len(keys), dtype=np.bool_),
        said_of(~fits, "the key is shorter than the 12 bytes of a window"),
    )


def session_keys(keys: ByteColumn) -> KeyParts:
    """Return what is in the keys of a session store."""
    fits = keys.lengths >= _SESSION_BYTES
    return KeyParts(
        keys.part(end=-_SESSION_BYTES),
        integers_of(fits, keys, 8, at=-8),
        integers_of(fits, keys, 8, at=-16),
        None,
        np.zeros(len(keys), dtype=np.bool_),
        said_of(~fits, _NO_SESSION),
    )


def time_ordered_window_keys(keys: ByteColumn) -> KeyParts:
    """Return what is in the keys of a window store that is ordered by time."""
    base, index, problems = _prefixes(keys, _WINDOW_BYTES + 1, "window")
    starts = integers_of(base, keys, 8, at=1) + integers_of(index, keys, 8, at=-12)
    return KeyParts(
        either(base, keys.part(9, -4), keys.part(1, -_WINDOW_BYTES)),
        starts,
        None,
        integers_of(base | index, keys, 4, at=-4),
        index,
        problems,
    )


def time_ordered_session_keys(keys: ByteColumn) -> KeyParts:
    """Return what is in the keys of a session store that is ordered by time."""
    base, index, problems = _prefixes(keys, _SESSION_BYTES + 1, "session")
    return KeyParts(
        either(base, keys.part(_SESSION_BYTES + 1), keys.part(1, -_SESSION_BYTES)),
        integers_of(base, keys, 8, at=9) + integers_of(index, keys, 8, at=-8),
        integers_of(base, keys, 8, at=1) + integers_of(index, keys, 8, at=-16),
        None,
        index,
        problems,
    )


def _prefixes(
    keys: ByteColumn, shortest: int, what: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], dict[int, str]]:
    """Return which keys begin with 00, which with 01, and what is wrong with the others."""
    first = keys.first_bytes()
    fits = keys.lengths >= shortest
    base, index = fits & (first == 0), fits & (first == 1)
    problems = said_of(fits & ~base & ~index, "the key begins with neither 00 nor 01")
    why = f"the key is shorter than the {shortest} bytes of a time-ordered {what}"
    return base, index, problems | said_of(~fits, why)


def time_windowed(cells: ByteColumn, inner: Callable[[ByteColumn], Decoded]) -> Decoded:
    """Return windows' keys, the one inside as ``inner`` reads it: ``key``, ``window_start_ms``."""
    why = "the key is shorter than the 8 bytes of its window's start"
    return _windowed(cells, inner, {"window_start_ms": -8}, why)


def session_windowed(cells: ByteColumn, inner: Callable[[ByteColumn], Decoded]) -> Decoded:
    """Return sessions' keys, the one inside as ``inner`` reads it, and the two ends of each."""
    places = {"window_start_ms": -8, "window_end_ms": -_SESSION_BYTES}
    return _windowed(cells, inner, places, _NO_SESSION)


def _windowed(
    cells: ByteColumn, inner: Callable[[ByteColumn], Decoded], places: dict[str, int], why: str
) -> Decoded:
    """Return keys with times behind them, each of 8 bytes; ``why`` is said of shorter cells."""
    behind = 8 * len(places)
    fits = cells.lengths >= behind
    bare = cells.part(end=-behind)
    starts, ends = (np.where(fits, each, 0) for each in (bare.starts, bare.ends))
    key = inner(ByteColumn(cells.data, starts, ends, cells.is_null | ~fits))
    problems = key.problems | said_of(~fits & ~cells.is_null, why)
    times = [integers_of(fits, cells, 8, at=at) for at in places.values()]
    good, names = fits & except_at(key.problems, len(cells)), ["key", *places]
    if not isinstance(key.values, list):
        columns = [key.values, *(pa.array(each) for each in times)]
        values = pa.StructArray.from_arrays(columns, names, mask=pa.array(~good))
        return Decoded(values, problems)
    rows = zip(key.values, *(each.tolist() for each in times), strict=True)
    found = [
        dict(zip(names, row, strict=True)) if fine else None
        for row, fine in zip(rows, good.tolist(), strict=True)
    ]
    return Decoded(found, problems)
