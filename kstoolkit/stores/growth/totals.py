"""Rows and bytes, summed up by key: the sums that everything else here is built on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


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
            summed(place, self.num_rows, count),
            summed(place, self.data_bytes, count),
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


def summed(place: NDArray[np.integer], numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the sums of numbers by their place, from 0 up to ``count``.

    Examples
    --------
    >>> summed(np.array([0, 2, 0]), np.array([1, 2, 3]), 3).tolist()
    [4, 0, 2]
    """
    # Sums of doubles are exact up to 2**53: 8 PiB.
    return np.bincount(place, weights=numbers, minlength=count).astype(np.int64)
