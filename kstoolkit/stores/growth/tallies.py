"""What the rows of a store add up to: one pass over them, part by part, in bounded memory.

Each moment has its own sum as long as there are few, as there are of window starts. When there are
more, neighbouring ones are put together: spans of 2 ms, of 4 ms, and so on. Then a cut through a
span is exact but for what lies in that one span, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from kstoolkit.formats.columns import except_at, numbers_of
from kstoolkit.stores.growth.clock import (
    ONE_ROW_A_KEY,
    Between,
    Clock,
    clock_of,
    times_of,
    watermark_times_of,
)
from kstoolkit.stores.growth.heavyhitters import HeavyHitters, PrefixTally, summed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.stores.growth.fields import FieldTally

_MOST_SPANS = 1 << 16
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Below:
    """What lies before a moment: at least so much, and at most the errors more."""

    num_rows: int = 0
    data_bytes: int = 0
    error_rows: int = 0
    error_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Rows and bytes by span of time; each span begins at its number times the length."""

    number: NDArray[np.int64]
    num_rows: NDArray[np.int64]
    data_bytes: NDArray[np.int64]
    length_ms: int = 1

    @classmethod
    def of(
        cls,
        number: NDArray[np.int64],
        num_rows: NDArray[np.int64],
        data_bytes: NDArray[np.int64],
        length_ms: int = 1,
    ) -> Spans:
        """Return sums by number, each number once."""
        known, place = np.unique(number, return_inverse=True)
        rows, sizes = (summed(place, each, len(known)) for each in (num_rows, data_bytes))
        return cls(known, rows, sizes, length_ms)

    def __len__(self) -> int:
        return len(self.number)

    def lengthened(self, length_ms: int) -> Spans:
        """Return the same in longer spans: lengths are powers of 2."""
        if length_ms == self.length_ms:
            return self
        # A shift, as a division would be by more than an int64 can be, if times are far apart.
        shift = length_ms.bit_length() - self.length_ms.bit_length()
        return Spans.of(self.number >> shift, self.num_rows, self.data_bytes, length_ms)

    def below(self, cut_ms: int) -> Below:
        """Return what lies before a moment."""
        last, inside = divmod(cut_ms, self.length_ms)
        last = min(max(last, int(_INT64.min)), int(_INT64.max))
        before, torn = self.number < last, self.number == last
        return Below(
            int(self.num_rows[before].sum()),
            int(self.data_bytes[before].sum()),
            int(self.num_rows[torn].sum()) if inside else 0,
            int(self.data_bytes[torn].sum()) if inside else 0,
        )


class TimeTally:
    """Rows and bytes by time, in ``most_spans`` spans or fewer."""

    def __init__(self, *, most_spans: int = _MOST_SPANS) -> None:
        self._most_spans = most_spans
        nothing = np.zeros(0, dtype=np.int64)
        self._spans = Spans(nothing, nothing, nothing)
        self._pending: list[Spans] = []
        self._num_pending = 0

    def add(self, times_ms: NDArray[np.int64], sizes_bytes: NDArray[np.int64]) -> None:
        """Add rows by their times and sizes."""
        fresh = Spans.of(times_ms, np.ones_like(sizes_bytes), sizes_bytes)
        self._pending.append(fresh)
        self._num_pending += len(fresh)
        if self._num_pending > self._most_spans:
            self._settle()

    def spans(self) -> Spans:
        """Return what was added so far."""
        self._settle()
        return self._spans

    def _settle(self) -> None:
        length_ms = self._spans.length_ms
        parts = [self._spans, *(each.lengthened(length_ms) for each in self._pending)]
        number, rows, sizes = (
            np.concatenate([getattr(each, name) for each in parts])
            for name in ("number", "num_rows", "data_bytes")
        )
        joined = Spans.of(number, rows, sizes, length_ms)
        while len(joined) > self._most_spans:
            joined = joined.lengthened(joined.length_ms * 2)
        self._spans, self._pending, self._num_pending = joined, [], 0


_SHORTEST_MS = 2_000
_LONGEST_MS = 1 << 62


@dataclass(slots=True)
class History:
    """The versions of a versioned store: how many are the latest of their keys, and how many were.

    A version lies in the segment ``floor(valid to / interval)``. As the rows tell both numbers,
    each leaves the interval less room: it is between ``least_ms`` and ``most_ms``.
    """

    num_latest: int = 0
    num_past: int = 0
    past_bytes: int = 0
    least_ms: int = _SHORTEST_MS
    most_ms: int = _LONGEST_MS

    def add(self, rows: RowColumns, sizes_bytes: NDArray[np.int64]) -> None:
        """Add versions by their sizes."""
        valid_to, is_past = numbers_of(rows.valid_to_ms, len(rows))
        self.num_past += int(is_past.sum())
        self.num_latest += int((~is_past).sum())
        self.past_bytes += int(sizes_bytes[is_past].sum())
        segment, has_segment = numbers_of(rows.details.get("segment_id"), len(rows))
        tells = is_past & has_segment & (segment > 0) & (valid_to > 0)
        if tells.any():
            times, numbers = valid_to[tells], segment[tells]
            self.least_ms = max(self.least_ms, int((times // (numbers + 1)).max()) + 1)
            self.most_ms = min(self.most_ms, int((times // numbers).min()))

    @property
    def interval(self) -> Between | None:
        """How long the segments are; None if no row tells, or if they contradict each other."""
        if self.most_ms == _LONGEST_MS or self.least_ms > self.most_ms:
            return None
        return Between(self.least_ms, self.most_ms)


@dataclass(slots=True)
class SegmentTally:
    """Rows and bytes by segment: a row lies in the last one that begins at its time or before.

    A row lies ``longest_stay_ms`` behind the start of its segment at most.
    """

    starts_ms: NDArray[np.int64]
    num_rows: NDArray[np.int64] = field(init=False)
    data_bytes: NDArray[np.int64] = field(init=False)
    longest_stay_ms: int = 0

    def __post_init__(self) -> None:
        self.num_rows, self.data_bytes = (np.zeros_like(self.starts_ms) for _ in range(2))

    def add(self, times_ms: NDArray[np.int64], sizes_bytes: NDArray[np.int64]) -> None:
        """Add rows by their times and sizes."""
        place = np.searchsorted(self.starts_ms, times_ms, side="right") - 1
        within = place >= 0
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

    ``clock`` is which time of the rows decides, None before the first row; ``times`` are sums by
    that time, ``ends`` by that of windows' ends. Rows ``num_below`` are at or before the watermark;
    ``num_on_disk`` counts those for finding others, too. ``greatest_time_ms`` is that of any row,
    of a versioned store of any begin or end of a version; ``are_expiries`` says whether times are
    when rows expire, or when a timer fires. With ``fields``, a key is what they are;
    ``prefix_bytes`` is the length of ``prefixes``, None for the one that tells most.
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
            rows = rows.take(except_at(rows.problems, len(rows)))
        if not len(rows):
            return
        sizes = rows.key.lengths + rows.value.lengths
        self.num_rows += len(rows)
        self.data_bytes += int(sizes.sum())
        self._add_keys(rows, sizes)
        self._add_times(rows, sizes)
        self._add_below(rows, sizes)

    def _add_keys(self, rows: RowColumns, sizes: NDArray[np.int64]) -> None:
        texts = None if self.fields is None else self.fields.add(rows, sizes)
        keys = rows.record_key.to_arrow() if texts is None else texts.drop_null()
        if self.fields is None:
            self.keys.add(keys, sizes)
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
        starts, begun = numbers_of(rows.window_start_ms, len(rows))
        ends, ended = numbers_of(rows.window_end_ms, len(rows))
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
