"""How many counters events make, and where: many users by a law, in groups, none drawn alone.

::

    a law of users, or what a run counted ──▶ groups of pairs with one rate ──▶ distinct in a time
                                              the heaviest users ──▶ the largest partition

Events of a pair (a user and an action) come one by one and at random, so of a pair with ``r``
events a second, ``1 - exp(-r t)`` is the chance that it is seen within ``t`` seconds: the expected
number of counters is a sum over groups, however many users there are. People are not that even:
what comes in bursts makes fewer counters. So where counters were counted, these are what counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ALONE, _AN_OCTAVE = 1_024, 32
"""How many of the heaviest users are a group each, and how many groups twice as many are then."""
_MOST_PARTS, _MOST_PLACES = 8_192, 1 << 62
"""How many parts of users are put somewhere one by one, and how many places numbers allow."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Who does how much.

    ``numbers`` and ``rates`` are of groups of pairs of a user and an action, ``heaviest`` the
    largest shares of all events that a user has; ``measured``, by length in seconds, is how many
    counters an event changed, where that was counted.
    """

    numbers: Floats
    rates: Floats
    heaviest: Floats
    measured: dict[float, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Events a second."""
        return float(self.numbers @ self.rates)

    def counters(self, seconds: float) -> float:
        """Return how many counters a window of this length has: pairs that are seen in it.

        >>> round(zipf(1_000, users=1_000_000).counters(60))
        24616
        """
        return self.changes(seconds) * self.rate * seconds

    def changes(self, seconds: float) -> float:
        """Return how many counters an event changes, if those of so many seconds are added up.

        Between lengths where it was counted, and beyond, it is taken to go by a power of the
        length; below all of them, to be as at random, but for a part that grows from one second on.
        """
        if not self.measured:
            return self._at_random(seconds)
        length, known = np.array(sorted(self.measured.items())).T
        if seconds < length[0]:
            part = known[0] / self._at_random(length[0])
            way = np.log(max(seconds, 1)) / np.log(max(length[0], 1 + 1e-9))
            return float(min(self._at_random(seconds) * (1 + way * (part - 1)), 1.0))
        end = int(np.clip(np.searchsorted(length, seconds), 1, max(len(length) - 1, 1)))
        if len(length) == 1:
            return float(known[0])
        (x0, x1), (y0, y1) = np.log(length[end - 1 : end + 1]), np.log(known[end - 1 : end + 1])
        return float(np.exp(y0 + (np.log(seconds) - x0) * (y1 - y0) / (x1 - x0)))

    def _at_random(self, seconds: float) -> float:
        return float(self.numbers @ -np.expm1(-self.rates * seconds)) / (self.rate * seconds)

    def at(self, rate: float) -> Traffic:
        """Return the same at another rate, by more users of the kind."""
        return replace(self, numbers=self.numbers * (rate / self.rate))

    def largest_share(self, partitions: int, *, salt: int = 1, draws: int = 32) -> float:
        """Return which share of all events the largest partition has, the mean of some draws.

        The heaviest users are put somewhere each, in ``salt`` parts; the rest is spread evenly.
        """
        random, places = np.random.default_rng(partitions), min(partitions, _MOST_PLACES)
        heaviest = self.heaviest[: max(_MOST_PARTS // salt, 1)]
        rest = max(1 - float(heaviest.sum()), 0.0) / partitions
        if salt > _MOST_PARTS:  # how many of the heaviest user's parts fall on each
            some = (draws, min(partitions, _MOST_PARTS))
            parts = random.binomial(min(salt, _MOST_PLACES), 1 / partitions, some).max(axis=1)
            return rest + float(heaviest[0] * parts.mean() / min(salt, _MOST_PLACES))
        parts, loads = np.repeat(heaviest / salt, salt), []
        for each in random.integers(0, places, (draws, len(parts))):
            taken = np.unique(each, return_inverse=True)[1]
            loads.append(np.bincount(np.ravel(taken), parts).max())
        return rest + float(np.mean(loads))

    @classmethod
    def observed(cls, counts: NDArray[Any], of_user: NDArray[Any], seconds: float) -> Traffic:
        """Return the traffic that was counted in so many seconds, by pair and by user."""
        value, number = np.unique(counts, return_counts=True)
        users = np.sort(np.asarray(of_user, np.float64))[::-1]
        return cls(number.astype(np.float64), value / seconds, users[:_ALONE] / users.sum())


def zipf(rate: float, *, users: float, exponent: float = 1.0, actions: int = 1) -> Traffic:
    """Return traffic in which the n-th user does ``n ** -exponent`` as much as the first.

    There are ``rate`` events a second in all, and each user does each action as often. If there
    are no users, events or actions, it is a ConfigurationError.

    >>> traffic = zipf(50_000_000, users=1e9, actions=4)
    >>> f"{traffic.counters(60):,.0f} counters a minute, {traffic.changes(60):.3f} an event"
    '533,328,429 counters a minute, 0.178 an event'
    """
    if not (rate > 0 and users >= 1 and exponent >= 0 and actions >= 1):
        message = f"There is no traffic of {rate:g} events a second by {users:g} users."
        raise ConfigurationError(message, hint="Give a user or more, and a rate above 0.")
    users = float(np.rint(users))
    first = np.arange(1, min(users, _ALONE) + 1, dtype=np.float64)
    edges = _edges(users)
    low, high = edges[:-1] - 0.5, edges[1:] - 0.5
    power = 1 - exponent
    rest = np.log(high / low) if power == 0 else (high**power - low**power) / power
    weight = np.concatenate([first**-exponent, rest])
    number = np.concatenate([np.ones(len(first)), np.diff(edges)])
    each = weight / weight.sum() / number
    return Traffic(number * actions, each * rate / actions, each[: len(first)])


def _edges(users: float) -> Floats:
    """Return the ranks at which groups begin, from the first that is not alone to the last's end.

    A sum over ranks is taken for the integral from half a rank before to half a rank behind.
    """
    begin = min(users, _ALONE) + 1
    steps = np.ceil(_AN_OCTAVE * np.log2(max(users + 1, begin) / begin))
    return np.unique(np.floor(np.geomspace(begin, max(users + 1, begin), int(steps) + 1)))
