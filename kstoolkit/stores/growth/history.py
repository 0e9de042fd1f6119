"""What only versioned stores have: which versions are history, and how long their segments are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.formats.columns import numbers_of
from kstoolkit.stores.growth.retention import Between

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns


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
