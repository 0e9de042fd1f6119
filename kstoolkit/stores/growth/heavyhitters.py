"""Which keys take most of a store, in bounded memory: sums by key, by prefix, and with an error.

Of many keys each one kept has a counter, and at most ``k`` are kept. When there are more, the
counters fall by the largest one that has to go, and those left with nothing go. What a key may have
lost is no more than all these falls together, and these are never more than all bytes / (k + 1).

Misra and Gries, "Finding repeated elements" (1982); with weights, and several rows at a time:
Agarwal et al., "Mergeable summaries" (2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Rows and bytes of some keys, each key once; one may be null."""

    keys: pa.Array
    num_rows: NDArray[np.int64]
    data_bytes: NDArray[np.int64]

    @classmethod
    def of(cls, keys: pa.Array, sizes_bytes: NDArray[np.int64]) -> Totals:
        """Return the totals of rows, by their keys and sizes."""
        return cls(keys, np.ones(len(keys), dtype=np.int64), sizes_bytes).regrouped(keys)

    def __len__(self) -> int:
        return len(self.keys)

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
    """Return the sums of numbers by their place, from 0 up to ``count``."""
    # Sums of doubles are exact up to 2**53: 8 PiB.
    return np.bincount(place, weights=numbers, minlength=count).astype(np.int64)


_LONGEST_BYTES = 32
_MOST_PREFIXES = 257
"""As many as one byte has values, and the empty key: prefixes of one byte always find room."""


class PrefixTally:
    """Rows and bytes by prefix, at the greatest length of which there are few prefixes.

    It begins with long ones; when there are more than a person would look through, all of them are
    cut shorter, and those that become equal are one. So the sums are exact at any moment.
    """

    error_rows = error_bytes = 0

    def __init__(self, *, most_prefixes: int = _MOST_PREFIXES) -> None:
        self.length_bytes = _LONGEST_BYTES
        self._most_prefixes = most_prefixes
        self._totals = _NOTHING

    def add(self, keys: pa.Array, sizes_bytes: NDArray[np.int64]) -> None:
        """Add rows by their keys and sizes."""
        fresh = self._cut(Totals.of(pc.binary_slice(keys, 0, self.length_bytes), sizes_bytes))
        known = self._totals.regrouped(pc.binary_slice(self._totals.keys, 0, self.length_bytes))
        self._totals = self._cut(Totals.joined([known, fresh]))

    @property
    def num_keys(self) -> int:
        """How many prefixes there are."""
        return len(self._totals)

    def top(self, count: int) -> Totals:
        """Return the ``count`` prefixes with the most bytes."""
        return self._totals.largest(count)

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

    With ``once`` no key comes twice, so that what was let go can't come back larger: all that is
    kept is exact. Else a key may have ``error_bytes`` and ``error_rows`` beyond what is told of it.
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
        self._kept, self._counters = _NOTHING, _NOTHING.data_bytes
        self._pending: list[Totals] = []
        self._pending_keys = self._pending_bytes = 0
        self._has_let_go = False

    def add(self, keys: pa.Array, sizes_bytes: NDArray[np.int64]) -> None:
        """Add rows by their keys, as Arrow large binary, and their sizes."""
        if not len(keys):
            return
        fresh = Totals.of(keys, sizes_bytes)
        self._pending.append(fresh)
        self._pending_keys += len(fresh)
        self._pending_bytes += fresh.keys.nbytes
        if self._pending_keys > self._most_keys or self._pending_bytes > self._most_key_bytes:
            self._settled()

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
        if not self._pending:
            return self._kept
        totals = Totals.joined([self._kept, *self._pending])
        self._pending, self._pending_keys, self._pending_bytes = [], 0, 0
        # Keys come out in the order in which they came in: those that were kept come first.
        fallen = np.zeros(len(totals), dtype=np.int64)
        fallen[: len(self._kept)] = self._kept.data_bytes - self._counters
        self._kept, self._counters = self._reduced(totals, totals.data_bytes - fallen)
        return self._kept

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
        if totals.keys.nbytes <= self._most_key_bytes:
            return self._most_keys
        lengths = np.asarray(pc.binary_length(totals.keys).fill_null(0))[order]
        within = int((np.cumsum(lengths) <= self._most_key_bytes).sum())
        return min(self._most_keys, within)


_NO_NUMBERS = np.zeros(0, dtype=np.int64)
_NOTHING = Totals(pa.nulls(0, pa.large_binary()), _NO_NUMBERS, _NO_NUMBERS)
