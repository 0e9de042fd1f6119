"""Which keys a trial asks for: drawn evenly among those that were written so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


_KEPT = 65_536
_ABSENT = b"\x00absent"


class AskedKeys:
    r"""A sample of the keys written, and draws from it.

    Parameters
    ----------
    seed
        The same seed and keys give the same draws.
    absent_share
        Which share of the draws was never written.

    Notes
    -----
    The sample is even, in bounded memory: Vitter's algorithm R (ACM TOMS 11, 1985).

    Examples
    --------
    >>> asked = AskedKeys(seed=7, absent_share=0.5)
    >>> asked.take_in([b"a"])
    >>> sorted(set(asked.draw(100)))
    [b'a', b'a\x00absent']
    """

    def __init__(self, *, seed: int, absent_share: float) -> None:
        self._draws = np.random.default_rng([seed, 1])
        self._absent_share = absent_share
        self._kept: list[bytes] = []
        self._seen = 0

    def take_in(self, keys: Sequence[bytes]) -> None:
        """Remember some of these keys."""
        free = _KEPT - len(self._kept)
        self._kept.extend(keys[:free])
        self._seen += min(free, len(keys))
        rest = keys[free:]
        places = self._draws.integers(0, self._seen + np.arange(1, len(rest) + 1))
        self._seen += len(rest)
        for row in np.flatnonzero(places < _KEPT).tolist():
            self._kept[places[row]] = rest[row]

    def draw(self, number: int) -> list[bytes]:
        """Return keys to ask for; none as long as none were written."""
        if not self._kept:
            return []
        places = self._draws.integers(0, len(self._kept), number)
        absent = self._draws.random(number) < self._absent_share
        return [
            self._kept[place] + _ABSENT if gone else self._kept[place]
            for place, gone in zip(places, absent, strict=True)
        ]
