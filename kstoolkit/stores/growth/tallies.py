"""One pass over a store's rows, part by part: what is summed up on the way, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from kstoolkit.formats.columns import numbers_of
from kstoolkit.formats.streams.keys import except_at
from kstoolkit.stores.growth.clock import (
    ONE_ROW_A_KEY,
    Clock,
    clock_of,
    times_of,
    watermark_times_of,
)
from kstoolkit.stores.growth.heavyhitters import HeavyHitters
from kstoolkit.stores.growth.history import History
from kstoolkit.stores.growth.prefixes import PrefixTally
from kstoolkit.stores.growth.times import TimeTally
from kstoolkit.stores.growth.totals import summed

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.stores.growth.fieldtally import FieldTally


@dataclass(slots=True)
class SegmentTally:
    """Rows and bytes by segment: a row lies in the last one that begins at its time or before.

    Parameters
    ----------
    starts_ms
        Where the segments begin, in order.
    num_rows, data_bytes
        What lies in each.
    num_before_all
        How many rows are older than the first segment.
    longest_stay_ms
        How far behind the start of its segment a row lies at most.
    """

    starts_ms: NDArray[np.int64]
    num_rows: NDArray[np.int64] = field(init=False)
    data_bytes: NDArray[np.int64] = field(init=False)
    num_before_all: int = 0
    longest_stay_ms: int = 0

    def __post_init__(self) -> None:
        self.num_rows, self.data_bytes = (np.zeros_like(self.starts_ms) for _ in range(2))

    def add(self, times_ms: NDArray[np.int64], sizes_bytes: NDArray[np.int64]) -> None:
        """Add rows, of which each has a time and a size."""
        place = np.searchsorted(self.starts_ms, times_ms, side="right") - 1
        within = place >= 0
        self.num_before_all += int((~within).sum())
        place, count = place[within], len(self.starts_ms)
        if not len(place):
            return
        self.num_rows += np.bincount(place, minlength=count)
        self.data_bytes += summed(place, sizes_bytes[within], count)
        stay = int((times_ms[within] - self.starts_ms[place]).max())
        self.longest_stay_ms = max(self.longest_stay_ms, stay)


@dataclass(slots=True)
class Tallies:
    """What the rows of a store add up to; sizes are those of the application's keys and values.

    Parameters
    ----------
    engine, kind
        Whose store it is, and of what kind, as far as that is known.
    segments
        By segment; without any if the store has none.
    watermark_ms
        The watermark to hold rows against, if there is one.
    keys, prefixes
        By key, and by what keys begin with: the latter by a given length, or by the one that tells
        most.
    prefix_bytes
        The length of prefixes, if it was given.
    fields
        By fields of keys, if these have some; then a key is what they are.
    clock
        Which time of the rows decides; None before the first row.
    times
        By that time.
    ends
        By the end of the window, of rows that have one.
    are_expiries
        Whether the times of rows are when they expire, or when a timer fires.
    least_window_ms, most_window_ms
        How long the windows are whose ends are known; None as long as there are none.
    greatest_time_ms
        The greatest one of any row; of a versioned store, of any begin or end of a version.
    num_rows, data_bytes, num_untimed
        All rows that could be taken apart, and how many of them have no such time.
    num_torn
        How many rows could not be taken apart.
    num_below, below_bytes
        Those at or before the watermark.
    num_on_disk
        How many rows there are on disk, those for finding others among them.
    history
        What only versioned stores have.
    """

    engine: str | None
    kind: str | None
    segments: SegmentTally
    watermark_ms: int | None = None
    prefix_bytes: int | None = None
    fields: FieldTally | None = None
    keys: HeavyHitters = field(init=False)
    prefixes: HeavyHitters | PrefixTally = field(init=False)
    clock: Clock | None = None
    times: TimeTally = field(default_factory=TimeTally)
    ends: TimeTally = field(default_factory=TimeTally)
    are_expiries: bool = False
    least_window_ms: int | None = None
    most_window_ms: int | None = None
    greatest_time_ms: int | None = None
    num_rows: int = 0
    data_bytes: int = 0
    num_untimed: int = 0
    num_torn: int = 0
    num_below: int = 0
    below_bytes: int = 0
    num_on_disk: int = 0
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        once = self.kind in ONE_ROW_A_KEY
        self.keys = HeavyHitters(once=once) if self.fields is None else self.fields.keys
        self.prefixes = PrefixTally() if self.prefix_bytes is None else HeavyHitters()

    def add(self, rows: RowColumns) -> None:
        """Add some rows."""
        self.num_on_disk += len(np.unique(rows.row)) + rows.num_left_out
        if rows.problems:
            self.num_torn += len(rows.problems)
            rows = _whole(rows)
        if not len(rows):
            return
        sizes = rows.key.lengths + rows.value.lengths
        self.num_rows += len(rows)
        self.data_bytes += int(sizes.sum())
        self._add_keys(rows, sizes)
        self._add_times(rows, sizes)
        self._add_below(rows, sizes)

    def _add_keys(self, rows: RowColumns, sizes: NDArray[np.int64]) -> None:
        texts = None
        if self.fields is None:
            keys: pa.Array = rows.record_key.to_arrow()
            self.keys.add(keys, sizes)
        else:
            texts = self.fields.add(rows, sizes)
            keys = rows.record_key.to_arrow() if texts is None else texts.drop_null()
        if texts is not None:
            sizes = sizes[np.asarray(texts.is_valid())]
        if self.prefix_bytes is not None:
            keys = pc.binary_slice(keys, 0, self.prefix_bytes)
        self.prefixes.add(keys, sizes)

    def _add_times(self, rows: RowColumns, sizes: NDArray[np.int64]) -> None:
        if self.clock is None:
            self.clock = clock_of(self.engine, self.kind, rows)
        self.are_expiries |= "expires" in rows.details
        times, known = times_of(self.clock, rows)
        self._see(times[known])
        if self.clock is Clock.VALID_TO:
            valid_from, began = numbers_of(rows.timestamp_ms, len(rows))
            self._see(valid_from[began])
            self.history.add(rows, sizes)
        self.num_untimed += int((~known).sum())
        self.times.add(times[known], sizes[known])
        if self.clock is not Clock.VALID_TO:
            self._add_ends(rows, sizes)
        if len(self.segments.starts_ms):
            self.segments.add(times[known], sizes[known])

    def _add_ends(self, rows: RowColumns, sizes: NDArray[np.int64]) -> None:
        (starts, begun), (ends, ended) = (
            numbers_of(each, len(rows)) for each in (rows.window_start_ms, rows.window_end_ms)
        )
        known = begun & ended
        if not known.any():
            return
        self.ends.add(ends[known], sizes[known])
        lengths = ends[known] - starts[known]
        least, most = int(lengths.min()), int(lengths.max())
        if self.least_window_ms is not None and self.most_window_ms is not None:
            least, most = min(least, self.least_window_ms), max(most, self.most_window_ms)
        self.least_window_ms, self.most_window_ms = least, most

    def _see(self, times_ms: NDArray[np.int64]) -> None:
        if len(times_ms):
            greatest = int(times_ms.max())
            known = self.greatest_time_ms
            self.greatest_time_ms = greatest if known is None else max(known, greatest)

    def _add_below(self, rows: RowColumns, sizes: NDArray[np.int64]) -> None:
        if self.watermark_ms is None:
            return
        times, known = watermark_times_of(rows)
        below = known & (times <= self.watermark_ms)
        self.num_below += int(below.sum())
        self.below_bytes += int(sizes[below].sum())


def tallied(parts: Iterable[RowColumns], into: Tallies) -> Tallies:
    """Return the tallies with all rows of some parts added: the one pass over a store."""
    for rows in parts:
        into.add(rows)
    return into


def _whole(rows: RowColumns) -> RowColumns:
    """Return the rows that could be taken apart."""
    return rows.take(except_at(rows.problems, len(rows)))
