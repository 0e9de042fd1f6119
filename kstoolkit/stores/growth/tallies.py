"""One pass over a store's rows, part by part: what is summed up on the way, in bounded memory.

Rows and bytes, summed up by key: the sums that everything else here is built on.

How rows and bytes are spread over what keys begin with, at the length that tells most.

The keys that take most, among more keys than there is room for, with a bound on the error.

Each key kept has a counter, and at most ``k`` are kept. When there are more, the counters fall by
the largest one that has to go, and those that are left with nothing go. What a key may have lost is
no more than all these falls together, and these are never more than all bytes / (k + 1).

Misra and Gries, "Finding repeated elements" (1982); with weights, and several rows at a time:
Agarwal et al., "Mergeable summaries" (2012).

How rows and bytes are spread over time, in as much memory as was set aside.

Each moment has its own sum as long as there are few moments, as there are of window starts. When
there are more, neighbouring ones are put together: spans of 2 ms, of 4 ms, and so on. Then a cut
through a span is exact but for what lies in that one span, and says so.

What only versioned stores have: which versions are history, and how long their segments are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.formats.columns import numbers_of
from kstoolkit.formats.streams.keys import except_at
from kstoolkit.stores.growth.clock import (
    ONE_ROW_A_KEY,
    Between,
    Clock,
    clock_of,
    times_of,
    watermark_times_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.stores.growth.fields import FieldTally


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Rows and bytes of some keys, each key once.

    Parameters
    ----------
    keys
        The keys, as an Arrow array; one may be null.
    num_rows, data_bytes
        What each has.
    """

    keys: pa.Array
    num_rows: NDArray[np.int64]
    data_bytes: NDArray[np.int64]

    @classmethod
    def of(cls, keys: pa.Array, sizes_bytes: NDArray[np.int64]) -> Totals:
        """Return the totals of rows, of which each has a key and a size.

        Examples
        --------
        >>> totals = Totals.of(pa.array([b"a", b"b", b"a"]), np.array([5, 7, 1]))
        >>> totals.keys.to_pylist(), totals.num_rows.tolist(), totals.data_bytes.tolist()
        ([b'a', b'b'], [2, 1], [6, 7])
        """
        return cls(keys, np.ones(len(keys), dtype=np.int64), sizes_bytes).regrouped(keys)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def key_bytes(self) -> int:
        """What the keys themselves take in memory."""
        return int(self.keys.nbytes)

    def regrouped(self, keys: pa.Array) -> Totals:
        """Return the same totals under other keys, one given for each; equal ones are one."""
        encoded = keys.dictionary_encode("encode")
        place, count = np.asarray(encoded.indices), len(encoded.dictionary)
        return Totals(
            encoded.dictionary,
            _summed(place, self.num_rows, count),
            _summed(place, self.data_bytes, count),
        )

    def take(self, places: NDArray[np.intp]) -> Totals:
        """Return the totals at some places."""
        found = self.keys.take(pa.array(places))
        return Totals(found, self.num_rows[places], self.data_bytes[places])

    def largest(self, count: int) -> Totals:
        """Return the ``count`` that have the most bytes, the largest first."""
        return self.take(np.argsort(-self.data_bytes, kind="stable")[:count])

    @classmethod
    def joined(cls, parts: Sequence[Totals]) -> Totals:
        """Return the totals of several parts together; keys of one type."""
        keys = pa.concat_arrays([each.keys for each in parts])
        rows = np.concatenate([each.num_rows for each in parts])
        return cls(keys, rows, np.concatenate([each.data_bytes for each in parts])).regrouped(keys)


def _summed(
    place: NDArray[np.integer], numbers: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return the sums of numbers by their place, from 0 up to ``count``.

    Examples
    --------
    >>> _summed(np.array([0, 2, 0]), np.array([1, 2, 3]), 3).tolist()
    [4, 0, 2]
    """
    # Sums of doubles are exact up to 2**53: 8 PiB.
    return np.bincount(place, weights=numbers, minlength=count).astype(np.int64)


_LONGEST_BYTES = 32
_MOST_PREFIXES = 257
"""As many as one byte has values, and the empty key: prefixes of one byte always find room."""


class PrefixTally:
    """Rows and bytes by prefix, at the greatest length of which there are few prefixes.

    It begins with long ones; when there are more than a person would look through, all of them are
    cut shorter, and those that become equal are one. So the sums are exact at any moment.

    Attributes
    ----------
    length_bytes
        How long the prefixes are by now, for those keys that are as long.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> tally = PrefixTally(most_prefixes=2)
    >>> tally.add(pa.array([b"user-1", b"user-2", b"page-1"]), np.array([10, 20, 5]))
    >>> tally.length_bytes, tally.top(1).keys.to_pylist(), tally.top(1).data_bytes.tolist()
    (5, [b'user-'], [30])
    """

    def __init__(self, *, most_prefixes: int = _MOST_PREFIXES) -> None:
        self.length_bytes = _LONGEST_BYTES
        self._most_prefixes = most_prefixes
        self._totals: Totals | None = None

    def add(self, keys: pa.Array, sizes_bytes: NDArray[np.int64]) -> None:
        """Add rows, of which each has a key and a size."""
        fresh = self._cut(Totals.of(pc.binary_slice(keys, 0, self.length_bytes), sizes_bytes))
        if self._totals is not None:
            known = pc.binary_slice(self._totals.keys, 0, self.length_bytes)
            fresh = Totals.joined([self._totals.regrouped(known), fresh])
        self._totals = self._cut(fresh)

    @property
    def num_keys(self) -> int:
        """How many prefixes there are."""
        return 0 if self._totals is None else len(self._totals)

    def top(self, count: int) -> Totals | None:
        """Return the ``count`` prefixes with the most bytes; None if there were no rows."""
        return None if self._totals is None else self._totals.largest(count)

    def _cut(self, totals: Totals) -> Totals:
        while len(totals) > self._most_prefixes and self.length_bytes > 1:
            self.length_bytes -= 1
            totals = totals.regrouped(pc.binary_slice(totals.keys, 0, self.length_bytes))
        return totals


MOST_KEYS = 1 << 16
MOST_KEY_BYTES = 16 << 20
"""How many keys are kept, and how many bytes of them, if nobody says otherwise."""


class HeavyHitters:
    """The keys that take the most bytes.

    Parameters
    ----------
    most_keys, most_key_bytes
        How many keys are kept, and how many bytes these may have together.
    once
        Whether no key comes twice, so that what was let go can't come back larger: then all that
        is kept is exact.

    Attributes
    ----------
    error_bytes, error_rows
        What a key may have beyond what is told of it; 0 as long as all keys were kept.

    Examples
    --------
    >>> hitters = HeavyHitters(most_keys=2)
    >>> hitters.add(pa.array([b"a", b"b", b"a", b"c"]), np.array([9, 3, 5, 1]))
    >>> top = hitters.top(1)
    >>> top.keys.to_pylist(), top.data_bytes.tolist(), hitters.error_bytes
    ([b'a'], [14], 1)
    """

    def __init__(
        self,
        *,
        most_keys: int = MOST_KEYS,
        most_key_bytes: int = MOST_KEY_BYTES,
        once: bool = False,
    ) -> None:
        self.error_bytes = self.error_rows = 0
        self._most_keys, self._most_key_bytes, self._once = most_keys, most_key_bytes, once
        # The counters are bytes that have fallen; they decide who stays, and are not told.
        self._kept: tuple[Totals, NDArray[np.int64]] | None = None
        self._pending: list[Totals] = []
        self._pending_keys = self._pending_bytes = 0
        self._has_let_go = False

    def add(self, keys: pa.Array, sizes_bytes: NDArray[np.int64]) -> None:
        """Add rows, of which each has a key and a size; keys are of one Arrow type throughout."""
        if not len(keys):
            return
        fresh = Totals.of(keys, sizes_bytes)
        self._pending.append(fresh)
        self._pending_keys += len(fresh)
        self._pending_bytes += fresh.key_bytes
        if self._pending_keys > self._most_keys or self._pending_bytes > self._most_key_bytes:
            self._settle()

    def top(self, count: int) -> Totals:
        """Return the ``count`` keys that have the most bytes, with at least what they have."""
        return self._settled().largest(count)

    @property
    def num_keys(self) -> int | None:
        """How many keys there are; None if they were too many to tell."""
        totals = self._settled()
        return None if self._has_let_go else len(totals)

    @property
    def most_rows(self) -> int:
        """How many rows the key with the most of them has at least; 0 without keys."""
        return int(self._settled().num_rows.max(initial=0))

    def _settled(self) -> Totals:
        self._settle()
        return _NOTHING if self._kept is None else self._kept[0]

    def _settle(self) -> None:
        if not self._pending:
            return
        fresh = Totals.joined(self._pending)
        self._pending, self._pending_keys, self._pending_bytes = [], 0, 0
        totals, counters = fresh, fresh.data_bytes
        if self._kept is not None:
            totals, counters = _merged(*self._kept, fresh)
        self._kept = self._reduced(totals, counters)

    def _reduced(
        self, totals: Totals, counters: NDArray[np.int64]
    ) -> tuple[Totals, NDArray[np.int64]]:
        order = np.argsort(-counters, kind="stable")
        room = self._room(totals, order)
        if room >= len(totals):
            return totals, counters
        self._has_let_go = True
        if self._once:
            return totals.take(order[:room]), counters[order[:room]]
        fall = int(counters[order[room]])
        stays = counters > fall
        self.error_bytes += fall
        self.error_rows += int(totals.num_rows[~stays].max(initial=0))
        return totals.take(np.flatnonzero(stays)), counters[stays] - fall

    def _room(self, totals: Totals, order: NDArray[np.intp]) -> int:
        """Return for how many keys there is room, in an order."""
        if totals.key_bytes <= self._most_key_bytes:
            return self._most_keys
        lengths = np.asarray(pc.binary_length(totals.keys).fill_null(0))[order]
        within = int((np.cumsum(lengths) <= self._most_key_bytes).sum())
        return min(self._most_keys, within)


_BINARY = pa.large_binary()
_NOTHING = Totals(pa.array([], _BINARY), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def _merged(
    kept: Totals, counters: NDArray[np.int64], fresh: Totals
) -> tuple[Totals, NDArray[np.int64]]:
    both = Totals.joined([kept, fresh])
    # Keys come out in the order in which they came in: those that were kept are the first ones.
    fallen = np.zeros(len(both), dtype=np.int64)
    fallen[: len(kept)] = kept.data_bytes - counters
    return both, both.data_bytes - fallen


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
    """Rows and bytes by span of time.

    Parameters
    ----------
    number
        Which spans, in order; each begins at its number times the length.
    num_rows, data_bytes
        What lies in each.
    length_ms
        How long each span is.
    """

    number: NDArray[np.int64]
    num_rows: NDArray[np.int64]
    data_bytes: NDArray[np.int64]
    length_ms: int = 1

    @classmethod
    def of(
        cls, number: NDArray[np.int64], num_rows: NDArray[np.int64], data_bytes: NDArray[np.int64]
    ) -> Spans:
        """Return sums by number, each number once."""
        known, place = np.unique(number, return_inverse=True)
        count = len(known)
        return cls(known, _summed(place, num_rows, count), _summed(place, data_bytes, count))

    def __len__(self) -> int:
        return len(self.number)

    def lengthened(self, length_ms: int) -> Spans:
        """Return the same in longer spans: lengths are powers of 2."""
        if length_ms == self.length_ms:
            return self
        # A shift, as a division would be by more than an int64 can be, if times are far apart.
        shift = length_ms.bit_length() - self.length_ms.bit_length()
        wider = Spans.of(self.number >> shift, self.num_rows, self.data_bytes)
        return Spans(wider.number, wider.num_rows, wider.data_bytes, length_ms)

    def below(self, cut_ms: int) -> Below:
        """Return what lies before a moment.

        Examples
        --------
        >>> spans = Spans(np.array([0, 1]), np.array([3, 4]), np.array([30, 40]), length_ms=8)
        >>> spans.below(10)
        Below(num_rows=3, data_bytes=30, error_rows=4, error_bytes=40)
        """
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
    """Rows and bytes by time, added part by part.

    Parameters
    ----------
    most_spans
        How many spans are kept.

    Examples
    --------
    >>> tally = TimeTally(most_spans=2)
    >>> tally.add(np.array([0, 1, 6, 7]), np.array([1, 2, 3, 4]))
    >>> spans = tally.spans()
    >>> spans.length_ms, spans.number.tolist(), spans.data_bytes.tolist()
    (2, [0, 3], [3, 7])
    """

    def __init__(self, *, most_spans: int = _MOST_SPANS) -> None:
        self._most_spans = most_spans
        nothing = np.zeros(0, dtype=np.int64)
        self._spans = Spans(nothing, nothing, nothing)
        self._pending: list[Spans] = []
        self._num_pending = 0

    def add(self, times_ms: NDArray[np.int64], sizes_bytes: NDArray[np.int64]) -> None:
        """Add rows, of which each has a time and a size."""
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
        joined = Spans.of(number, rows, sizes)
        joined = Spans(joined.number, joined.num_rows, joined.data_bytes, length_ms)
        while len(joined) > self._most_spans:
            joined = joined.lengthened(joined.length_ms * 2)
        self._spans, self._pending, self._num_pending = joined, [], 0


_SHORTEST_MS = 2_000
_LONGEST_MS = 1 << 62


@dataclass(slots=True)
class History:
    """The versions of a versioned store.

    A version lies in the segment ``floor(valid to / interval)``. As the rows tell both numbers,
    each leaves the interval less room.

    Parameters
    ----------
    num_latest, num_past
        How many are the latest ones of their keys, and how many were valid once.
    past_bytes
        What the latter take.
    least_ms, most_ms
        What the interval is at least, and at most, by the rows so far.
    """

    num_latest: int = 0
    num_past: int = 0
    past_bytes: int = 0
    least_ms: int = _SHORTEST_MS
    most_ms: int = _LONGEST_MS

    def add(self, rows: RowColumns, sizes_bytes: NDArray[np.int64]) -> None:
        """Add some versions, of which each has a size."""
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
        """How long the segments are; None if no row tells, or if they contradict each other.

        Examples
        --------
        >>> History().interval is None
        True
        """
        if self.most_ms == _LONGEST_MS or self.least_ms > self.most_ms:
            return None
        return Between(self.least_ms, self.most_ms)


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
        self.data_bytes += _summed(place, sizes_bytes[within], count)
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
