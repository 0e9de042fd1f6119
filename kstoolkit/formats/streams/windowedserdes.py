"""Windowed keys as Kafka Streams' serdes write them: in topics, and in tables that have such keys.

::

    time-windowed       key | start (int64)
    session-windowed    key | end (int64) | start (int64)

A window store's own keys have a number behind the start as well, and are no such keys: see
:mod:`kstoolkit.formats.streams.keys`. (``TimeWindowedSerializer``, ``SessionWindowedSerializer`` of
``org.apache.kafka.streams.kstream``.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.decoded import Decoded
from kstoolkit.formats.streams.keys import session_keys
from kstoolkit.formats.streams.masked import integers_of, said_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


_START_BYTES = 8
_NO_START = "the key is shorter than the 8 bytes of its window's start"


def time_windowed(cells: ByteColumn, inner: Callable[[ByteColumn], Decoded]) -> Decoded:
    """Return keys of windows: structs of ``key`` and ``window_start_ms``.

    Parameters
    ----------
    cells
        The windowed keys.
    inner
        What reads the key inside.

    Examples
    --------
    >>> cells = ByteColumn.of([b"Anna" + (60_000).to_bytes(8, "big"), b"?"])
    >>> found = time_windowed(cells, lambda keys: Decoded(keys.to_arrow()))
    >>> found.values.to_pylist(), found.problems
    ([{'key': b'Anna', 'window_start_ms': 60000}, None],
     {1: "the key is shorter than the 8 bytes of its window's start"})
    """
    fits = cells.lengths >= _START_BYTES
    start_ms = integers_of(fits, cells, 8, at=-_START_BYTES)
    problems = said_of(~fits & ~cells.is_null, _NO_START)
    key = _only(fits, cells.part(end=-_START_BYTES))
    return _with_times(inner(key), {"window_start_ms": start_ms}, fits, problems)


def session_windowed(cells: ByteColumn, inner: Callable[[ByteColumn], Decoded]) -> Decoded:
    """Return keys of sessions: structs of ``key``, ``window_start_ms`` and ``window_end_ms``.

    Parameters
    ----------
    cells
        The windowed keys.
    inner
        What reads the key inside.

    Examples
    --------
    >>> cells = ByteColumn.of([b"Anna" + (90).to_bytes(8, "big") + (60).to_bytes(8, "big")])
    >>> session_windowed(cells, lambda keys: Decoded(keys.to_arrow())).values.to_pylist()
    [{'key': b'Anna', 'window_start_ms': 60, 'window_end_ms': 90}]
    """
    parts = session_keys(cells)
    problems = {row: why for row, why in parts.problems.items() if not cells.is_null[row]}
    fits = np.ones(len(cells), dtype=np.bool_)
    fits[list(parts.problems)] = False
    times = {"window_start_ms": parts.start_ms}
    if parts.end_ms is not None:
        times["window_end_ms"] = parts.end_ms
    return _with_times(inner(_only(fits, parts.key)), times, fits, problems)


def _only(kept: NDArray[np.bool_], cells: ByteColumn) -> ByteColumn:
    """Return the cells, null where they are not kept."""
    starts, ends = (np.where(kept, places, 0) for places in (cells.starts, cells.ends))
    return ByteColumn(cells.data, starts, ends, cells.is_null | ~kept)


def _with_times(
    key: Decoded,
    times: dict[str, NDArray[np.int64]],
    fits: NDArray[np.bool_],
    short: dict[int, str],
) -> Decoded:
    good = fits.copy()
    good[list(key.problems)] = False
    problems = key.problems | short
    if isinstance(key.values, list):
        numbers = zip(*(each.tolist() for each in times.values()), strict=True)
        rows = zip(key.values, numbers, good.tolist(), strict=True)
        names = ("key", *times)
        found = [
            dict(zip(names, (inner, *at), strict=True)) if fine else None
            for inner, at, fine in rows
        ]
        return Decoded(found, problems)
    columns = [key.values, *(pa.array(each) for each in times.values())]
    values = pa.StructArray.from_arrays(columns, ["key", *times], mask=pa.array(~good))
    return Decoded(values, problems)
