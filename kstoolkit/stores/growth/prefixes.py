"""How rows and bytes are spread over what keys begin with, at the length that tells most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kstoolkit.stores.growth.totals import Totals

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


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
