"""Ranges of keys that were removed, to tell of a key whether it was."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field


@dataclass(slots=True)
class KeyRanges:
    """Ranges of keys; what overlaps or touches is one range.

    Examples
    --------
    >>> ranges = KeyRanges()
    >>> for first, last in [(b"b", b"d"), (b"x", b"y"), (b"c", b"f")]:
    ...     ranges.add(first, last)
    >>> b"b" in ranges, b"e" in ranges, b"f" in ranges, b"a" in ranges
    (True, True, False, False)
    """

    _firsts: list[bytes] = field(default_factory=list)
    _lasts: list[bytes] = field(default_factory=list)

    def add(self, first: bytes, last: bytes) -> None:
        """Add the keys from ``first`` on, and before ``last``."""
        begin, end = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end], self._lasts[begin:end] = [first], [last]

    def __contains__(self, key: bytes) -> bool:
        place = bisect_right(self._firsts, key) - 1
        return place >= 0 and key < self._lasts[place]
