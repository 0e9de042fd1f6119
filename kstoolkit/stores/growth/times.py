"""How rows and bytes are spread over time, in as much memory as was set aside.

Each moment has its own sum as long as there are few moments, as there are of window starts. When
there are more, neighbouring ones are put together: spans of 2 ms, of 4 ms, and so on. Then a cut
through a span is exact but for what lies in that one span, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.stores.growth.totals import summed

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        return cls(known, summed(place, num_rows, count), summed(place, data_bytes, count))

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
