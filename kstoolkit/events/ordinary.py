"""What ordinary users do: some much more than others, by day rather than by night, in bursts.

A user's rate falls with its rank (Zipf). Hour by hour it follows the user's own daily rhythm, times
a gamma factor of variance 1/2 that makes busy and idle hours. Actions follow a mix of the user's
own. The number of all events is given: they are shared out by these weights, which is what a
Poisson process is once its total is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.events.draws import pick

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.events.draws import Draws, Floats, Ints


HOUR_MS = 3_600_000

DAILY_RHYTHM = np.array(
    [3, 2, 1, 1, 1, 2, 4, 8, 14, 18, 20, 19, 16, 18, 20, 19, 17, 14, 12, 13, 14, 12, 8, 5], float
)
"""How busy the hours of a user's day are; a user's phase says when that day begins."""

HOME_PHASES = np.array([0, 0, 0, 1, 1, 2, 23, 5, 16, 18])
"""Hours that a user's day is ahead of UTC: most live near it, some far away."""

_FLATTENING_RANKS = 10
"""Rates fall as 1 / (rank + this), so that the busiest few do not make most of the events."""

_BURSTINESS_SHAPE = 2
_TASTE_SHAPE = 3
"""How much users differ in what they prefer: a gamma factor of variance 1/3 for each action."""

_USERS_AT_A_TIME = 65_536
"""Bounds the memory for weights of (user, hour) cells."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, from ``start_ms`` on and before ``end_ms``, cut into hours.

    Examples
    --------
    >>> Span(0, 5_400_000).widths_ms.tolist()
    [3600000, 1800000]
    """

    start_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        """How long it is."""
        return self.end_ms - self.start_ms

    @property
    def hour_starts_ms(self) -> Ints:
        """Where its hours begin, counted from its own start."""
        return np.arange(self.start_ms, self.end_ms, HOUR_MS, dtype=np.int64)

    @property
    def widths_ms(self) -> Ints:
        """How long its hours are: the last one may be cut short."""
        return np.minimum(HOUR_MS, self.end_ms - self.hour_starts_ms)


@dataclass(frozen=True, slots=True)
class Acts:
    """Events as columns: number of the user, time in epoch ms, number of the action."""

    user: Ints
    time_ms: Ints
    action: Ints

    @classmethod
    def joined(cls, parts: Iterable[Acts]) -> Acts:
        """Return the events of all ``parts``, in order of time; ties as they come."""
        parts = list(parts)
        times = np.concatenate([part.time_ms for part in parts])
        order = np.argsort(times, kind="stable")
        users = np.concatenate([part.user for part in parts])
        actions = np.concatenate([part.action for part in parts])
        return cls(users[order], times[order], actions[order])


@dataclass(frozen=True, slots=True)
class Habits:
    """How users spend their days: one row a user.

    Parameters
    ----------
    phase
        Hours that the user's day is ahead of UTC.
    mix
        Weight of each action.
    """

    phase: Ints
    mix: Floats


def rates(users: int) -> Floats:
    """Return each user's share of all events, the busiest user first.

    Examples
    --------
    >>> [round(float(share), 3) for share in rates(3)]
    [0.365, 0.331, 0.304]
    """
    weights = 1.0 / np.arange(_FLATTENING_RANKS, users + _FLATTENING_RANKS)
    shares: Floats = weights / np.cumsum(weights)[-1]
    return shares


def share_out(draws: Draws, number: int, shares: Floats) -> Ints:
    """Return how many of ``number`` events each user makes, at random by its share."""
    owners = pick(shares[np.newaxis, :], np.zeros(number, np.int64), draws.uniform(number))
    return np.bincount(owners, minlength=len(shares)).astype(np.int64)


def habits(draws: Draws, users: int, actions: int) -> Habits:
    """Return habits for ``users``; the k-th action is done 1/k as often as the first."""
    home = HOME_PHASES[draws.integers(0, len(HOME_PHASES), users)]
    taste = draws.gamma(_TASTE_SHAPE, users * actions).reshape(users, actions)
    return Habits(
        phase=(home + draws.integers(0, 2, users)) % 24,
        mix=taste / np.arange(1, actions + 1),
    )


def act(
    draws: Draws, counts: Ints, habits: Habits, span: Span, *, first_hours: Ints | None = None
) -> Acts:
    """Return the events of users who do as many things as ``counts`` says, by their habits.

    Parameters
    ----------
    counts
        Number of events of each user; users are numbered by their place here.
    first_hours
        For each user, the hour of the span that it starts in; by default the first.
    """
    first = np.zeros(len(counts), np.int64) if first_hours is None else first_hours
    blocks = []
    for low in range(0, len(counts), _USERS_AT_A_TIME):
        some = slice(low, low + _USERS_AT_A_TIME)
        own = Habits(habits.phase[some], habits.mix[some])
        block = _act(draws, counts[some], own, span, first[some])
        blocks.append(replace(block, user=block.user + low))
    return Acts.joined(blocks)


def _act(draws: Draws, counts: Ints, habits: Habits, span: Span, first_hours: Ints) -> Acts:
    rows = np.repeat(np.arange(len(counts)), counts)
    weights = _hour_weights(draws, habits.phase, span)
    weights[np.arange(weights.shape[1]) < first_hours[:, np.newaxis]] = 0.0
    hours = pick(weights, rows, draws.uniform(len(rows)))
    within = np.floor(draws.uniform(len(rows)) * span.widths_ms[hours]).astype(np.int64)
    actions = pick(habits.mix, rows, draws.uniform(len(rows)))
    return Acts(rows, span.hour_starts_ms[hours] + within, actions)


def _hour_weights(draws: Draws, phase: Ints, span: Span) -> Floats:
    of_day = span.hour_starts_ms // HOUR_MS
    rhythm = DAILY_RHYTHM[(of_day + phase[:, np.newaxis]) % len(DAILY_RHYTHM)]
    mood = draws.gamma(_BURSTINESS_SHAPE, rhythm.size).reshape(rhythm.shape)
    weights: Floats = rhythm * mood * span.widths_ms
    return weights
