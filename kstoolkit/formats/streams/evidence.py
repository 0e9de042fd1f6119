"""How well a sample of rows fits a kind of store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.layouts import split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn
    from kstoolkit.formats.rowcolumns import RowColumns


MOST_ROWS = 1000
"""How many rows of a sample are looked at."""

_LATEST_MS = 2**63 - 1
_YEAR_MS = 366 * 86_400_000
_FROM_MS = 10 * _YEAR_MS
_TO_MS = 150 * _YEAR_MS
"""Between about 1980 and 2120 a time is believed to be one."""


class Fit(NamedTuple):
    """What share of the rows fits, and in what way."""

    share: float
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Some rows of a column family, and the times that they should lie in."""

    keys: ByteColumn
    values: ByteColumn
    family: str
    from_ms: int
    to_ms: int

    @classmethod
    def of(
        cls,
        keys: ByteColumn,
        values: ByteColumn,
        *,
        family: str,
        start_ms: int | None,
        interval_ms: int | None,
    ) -> Sample:
        """Return a sample, at most :data:`MOST_ROWS` rows of it, spread over them all."""
        count = min(len(keys), len(values))
        chosen = np.unique(np.linspace(0, max(count - 1, 0), min(count, MOST_ROWS)).astype(np.intp))
        from_ms, to_ms = _FROM_MS, _TO_MS
        # One segment from 0 that is alone has no end: it tells nothing of times.
        if start_ms is not None and (start_ms or interval_ms):
            length_ms = min(interval_ms or _YEAR_MS, _YEAR_MS)
            from_ms, to_ms = start_ms, min(start_ms + length_ms, _LATEST_MS)
        return cls(keys.take(chosen), values.take(chosen), family, from_ms, to_ms)

    def at_any_time(self) -> Sample:
        """Return the same rows, which may be of any time that is believed to be one."""
        return replace(self, from_ms=_FROM_MS, to_ms=_TO_MS)


def fits_as(kind: Kind, sample: Sample) -> Fit:
    """Return what share of the rows is as this kind of store has them.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> key = ByteColumn.of([bytes.fromhex("410000018bcfe5680000000000")])
    >>> sample = Sample.of(key, key, family="default", start_ms=1700000000000, interval_ms=60_000)
    >>> fits_as(Kind.WINDOW, sample)
    Fit(share=1.0, why='every window begins in the segment')
    >>> fits_as(Kind.SESSION, sample).share
    0.0
    """
    rows = split(kind, sample.keys, sample.values, family=sample.family)
    if not len(rows):
        return Fit(0.0, "no rows but those of an index")
    good = np.ones(len(rows), dtype=np.bool_)
    good[list(rows.problems)] = False
    good &= _plausible(kind, rows, sample)
    share = float(good.mean())
    return Fit(share, _WHY[kind] if share == 1 else f"{share:.1%} of the rows are so: {_WHY[kind]}")


def _plausible(kind: Kind, rows: RowColumns, sample: Sample) -> NDArray[np.bool_]:
    """Return which rows say what such rows can say, beside coming apart."""
    if rows.window_start_ms is not None:
        return _in_segment(rows, sample)
    if kind is Kind.FOREIGN_KEY_SUBSCRIPTION:
        # Key and value hold the primary key both; no other store's would by chance.
        own = rows.record_key.to_arrow()
        return _true(pc.equal(own, rows.details["subscriber_key"]))
    if kind is Kind.VERSIONED:
        # Its latest rows are a number, a key, a number and a value: so are many others'.
        return _between(rows.timestamp_ms, _FROM_MS, _TO_MS)
    return np.ones(len(rows), dtype=np.bool_)


def _in_segment(rows: RowColumns, sample: Sample) -> NDArray[np.bool_]:
    """Return which windows begin, and which sessions end, in the segment; and end after they begin.

    A session of more than a year is none: those are bytes of something else.
    """
    starts, ends = rows.window_start_ms, rows.window_end_ms
    if "sequence" in rows.details:
        sequences = rows.details["sequence"]
        return _between(starts, sample.from_ms, sample.to_ms) & _between(sequences, 0, 2**31)
    is_short = pc.and_(pc.less_equal(starts, ends), pc.greater(starts, pc.subtract(ends, _YEAR_MS)))
    return _between(ends, sample.from_ms, sample.to_ms) & _true(is_short)


def _between(numbers: pa.Array | None, first: int, after: int) -> NDArray[np.bool_]:
    return _true(pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, after)))


def _true(mask: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(mask, fill_value=False).to_numpy(zero_copy_only=False)
    return found


_WINDOWS = "every window begins in the segment"
_SESSIONS = "every session ends in the segment, after it begins"
_ORDERED = "the keys begin with their time"

_WHY = {
    Kind.KEY_VALUE: "keys and values of no special form",
    Kind.TIMESTAMPED_KEY_VALUE: "every value begins with a timestamp",
    Kind.HEADERS_KEY_VALUE: "every value begins with headers and a timestamp",
    Kind.WINDOW: _WINDOWS,
    Kind.TIMESTAMPED_WINDOW: _WINDOWS,
    Kind.HEADERS_WINDOW: _WINDOWS,
    Kind.TIME_ORDERED_WINDOW: f"{_WINDOWS}, and {_ORDERED}",
    Kind.HEADERS_TIME_ORDERED_WINDOW: f"{_WINDOWS}, and {_ORDERED}",
    Kind.SESSION: _SESSIONS,
    Kind.HEADERS_SESSION: _SESSIONS,
    Kind.TIME_ORDERED_SESSION: f"{_SESSIONS}, and {_ORDERED}",
    Kind.HEADERS_TIME_ORDERED_SESSION: f"{_SESSIONS}, and {_ORDERED}",
    Kind.VERSIONED: "every key begins with a segment, every value with times of versions",
    Kind.LIST_VALUE: "every key begins with a time and a side, every value is a list",
    Kind.FOREIGN_KEY_SUBSCRIPTION: "key and value hold the same primary key",
    Kind.GRACE_BUFFER: "every value is a record with its topic and offset",
}
