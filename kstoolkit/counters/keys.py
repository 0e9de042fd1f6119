"""User, window start and action in one integer that sorts like the three."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_KEY_BITS = 63


@dataclass(frozen=True, slots=True, eq=False)
class PackedKeys:
    """One integer a row, and how to read it back: ``(user · spread + place) · width + action``.

    The place of a window start is its distance from ``origin_ms`` in steps of ``step_ms``. Where
    63 bits are too few for that, ``pairs`` numbers the (start, action) pairs that occur: there are
    never more of these than rows, so two 31-bit numbers always do.

    Examples
    --------
    >>> keys = PackedKeys.of(np.array([1, 0, 1]), np.array([5, 9, 5]), np.array([0, 0, 1]))
    >>> np.argsort(keys.packed).tolist()
    [1, 0, 2]
    >>> [column.tolist() for column in keys.unpack(keys.packed)]
    [[1, 0, 1], [5, 9, 5], [0, 0, 1]]
    """

    packed: NDArray[np.int64]
    origin_ms: int
    step_ms: int
    spread: int
    width: int
    pairs: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None

    @classmethod
    def of(
        cls, user: NDArray[np.int32], start_ms: NDArray[np.int64], action: NDArray[np.int32]
    ) -> PackedKeys:
        """Pack three columns of one length, which must not be empty."""
        packed = user.astype(np.int64)  # a copy, which becomes the key in place
        users, width = int(user.max()) + 1, int(action.max()) + 1
        origin_ms, step_ms = int(start_ms.min()), 1
        spread = int(start_ms.max()) - origin_ms + 1
        if not _fits(users, spread, width) and _fits(spread):
            step_ms = int(np.gcd.reduce(start_ms - origin_ms)) or 1
            spread = (spread - 1) // step_ms + 1
        if not _fits(users, spread, width):
            return cls._of_pairs(packed, start_ms, action)
        place = start_ms - origin_ms
        if step_ms > 1:
            place //= step_ms
        packed *= spread
        packed += place
        packed *= width
        packed += action
        return cls(packed, origin_ms, step_ms, spread, width)

    @classmethod
    def _of_pairs(
        cls, user: NDArray[np.int64], start_ms: NDArray[np.int64], action: NDArray[np.int32]
    ) -> PackedKeys:
        order = np.lexsort((action, start_ms))
        starts, actions = start_ms[order], action[order]
        fresh = np.r_[True, (np.diff(starts) != 0) | (np.diff(actions) != 0)]
        number = np.empty_like(user)
        number[order] = np.cumsum(fresh) - 1
        pairs = (starts[fresh], actions[fresh])
        return cls(user * len(pairs[0]) + number, 0, 1, 1, len(pairs[0]), pairs)

    def unpack(
        self, packed: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """Return user, window start and action of keys that were packed like these."""
        rest = packed // self.width  # with a product, cheaper than divmod
        low = packed - rest * self.width
        if self.pairs is not None:
            return rest.astype(np.int32), self.pairs[0][low], self.pairs[1][low]
        user = rest // self.spread
        start_ms = (rest - user * self.spread) * self.step_ms + self.origin_ms
        return user.astype(np.int32), start_ms, low.astype(np.int32)


def _fits(*sizes: int) -> bool:
    return sum(size.bit_length() for size in sizes) <= _KEY_BITS
