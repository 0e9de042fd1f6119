"""What abnormal users do: five kinds, each with what it adds and a label that says so.

Examples
--------
>>> for kind in KINDS.values():
...     print(f"{kind.name}: {kind.description}")
burst: a user does one thing very often for some minutes
ramp: a user does one thing more and more often over hours, then stops
low-and-slow: an account does one thing at even distances, day and night, never often
new-user-flood: accounts that were never seen before each do one thing often, at about one time
shared-account: from some hour on, a second person with other habits uses the account too
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.events.ordinary import HOUR_MS, Acts, Habits, Span, act, habits

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.events.draws import Draws, Floats, Ints


MINUTE_MS = 60_000
NO_ACTION = -1
"""Stands for "several actions" among numbers of actions."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What abnormal users of one kind meet.

    Parameters
    ----------
    draws
        The kind's own stream of draws.
    span
        The time simulated.
    actions
        How many actions there are.
    hourly
        Events per hour that each of them makes anyway, on average; of an ordinary user for those
        that make none.
    phase
        Hours that each one's day is ahead of UTC, where it has one.
    """

    draws: Draws
    span: Span
    actions: int
    hourly: Floats
    phase: Ints

    @property
    def number(self) -> int:
        """How many abnormal users of the kind there are."""
        return len(self.hourly)

    def moments(self, low: float, high: float) -> Ints:
        """Return a time for each user, between two shares of the span."""
        shares = self.draws.between(low, high, self.number)
        return self.span.start_ms + np.floor(shares * self.span.length_ms).astype(np.int64)

    def lengths(self, low_ms: int, high_ms: int, at_most: float) -> Ints:
        """Return a length for each user, no more than a share of the span."""
        limit = int(self.span.length_ms * at_most)
        return self.draws.integers(min(low_ms, limit), min(high_ms, limit) + 1, self.number)

    def rare_actions(self) -> Ints:
        """Return an action for each user: any but the most frequent one, if there are more."""
        return self.draws.integers(min(1, self.actions - 1), self.actions, self.number)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What abnormal users of one kind add: a label's columns, and the events.

    Users are numbered by their place; ``action`` is ``NO_ACTION`` where there are several.
    """

    since_ms: Ints
    until_ms: Ints
    action: Ints
    acts: Acts

    @property
    def extra_events(self) -> Ints:
        """How many events each user adds."""
        return np.bincount(self.acts.user, minlength=len(self.since_ms)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of abnormal user.

    Parameters
    ----------
    name, description
        What people call it, and what such a user does.
    is_account
        Whether it is an account of its own; else an ordinary user goes astray.
    make
        Makes the extra events.
    """

    name: str
    description: str
    is_account: bool
    make: Callable[[Stage], Trouble]


def _burst(stage: Stage) -> Trouble:
    since = stage.moments(0.6, 0.9)
    until = since + stage.lengths(2 * MINUTE_MS, 5 * MINUTE_MS, 1 / 20)
    counts = 240 + _times(stage.hourly, 15) + stage.draws.integers(0, 160, stage.number)
    return _one_action(stage, since, until, counts, place=_evenly_at_random)


def _ramp(stage: Stage) -> Trouble:
    since = stage.moments(0.6, 0.75)
    until = since + stage.lengths(6 * HOUR_MS, 8 * HOUR_MS, 1 / 5)
    counts = 300 + _times(stage.hourly, 40) + stage.draws.integers(0, 100, stage.number)
    return _one_action(stage, since, until, counts, place=_more_and_more)


def _low_and_slow(stage: Stage) -> Trouble:
    since = np.full(stage.number, stage.span.start_ms)
    until = np.full(stage.number, stage.span.end_ms)
    distance = stage.draws.integers(4 * MINUTE_MS, 8 * MINUTE_MS, stage.number)
    counts = np.maximum(24, stage.span.length_ms // distance)
    return _one_action(stage, since, until, counts, place=_at_even_distances)


def _new_user_flood(stage: Stage) -> Trouble:
    """Make one campaign: all accounts begin within an hour, and do the same thing."""
    campaign = stage.moments(0.6, 0.9)[:1]
    since = campaign + stage.lengths(0, HOUR_MS, 1 / 40)
    until = since + stage.lengths(10 * MINUTE_MS, 20 * MINUTE_MS, 1 / 20)
    counts = 80 + _times(stage.hourly, 10) + stage.draws.integers(0, 80, stage.number)
    actions = np.repeat(stage.rare_actions()[:1], stage.number)
    return _one_action(stage, since, until, counts, place=_evenly_at_random, actions=actions)


def _shared_account(stage: Stage) -> Trouble:
    """Add a second person: another mix, and a day that begins half a day later."""
    own_start = stage.moments(0.5, 0.7)
    first_hours = (own_start - stage.span.start_ms) // HOUR_MS
    since = stage.span.hour_starts_ms[first_hours]
    hours_left = (stage.span.end_ms - since) / HOUR_MS
    counts = 300 + _times(stage.hourly * hours_left, 10)
    fresh = habits(stage.draws, stage.number, stage.actions)
    second = Habits((stage.phase + 12) % 24, fresh.mix)
    acts = act(stage.draws, counts, second, stage.span, first_hours=first_hours)
    until = np.full(stage.number, stage.span.end_ms)
    return Trouble(since, until, np.full(stage.number, NO_ACTION), acts)


def _times(hourly: Floats, factor: int) -> Ints:
    return np.floor(hourly * factor).astype(np.int64)


def _one_action(
    stage: Stage,
    since_ms: Ints,
    until_ms: Ints,
    counts: Ints,
    *,
    place: Callable[[Draws, Ints], Floats],
    actions: Ints | None = None,
) -> Trouble:
    actions = stage.rare_actions() if actions is None else actions
    users = np.repeat(np.arange(stage.number), counts)
    offsets = place(stage.draws, counts) * (until_ms - since_ms)[users]
    times = since_ms[users] + np.floor(offsets).astype(np.int64)
    return Trouble(since_ms, until_ms, actions, Acts(users, times, actions[users]))


def _evenly_at_random(draws: Draws, counts: Ints) -> Floats:
    return draws.uniform(int(counts.sum()))


def _more_and_more(draws: Draws, counts: Ints) -> Floats:
    # The root of a uniform draw has a density that grows from nothing in a straight line.
    return np.sqrt(draws.uniform(int(counts.sum())))


def _at_even_distances(draws: Draws, counts: Ints) -> Floats:
    """Put each event in its own slot, at most a tenth of a slot away from the middle."""
    total = int(counts.sum())
    slot = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    jitter = draws.between(0.4, 0.6, total)
    return (slot + jitter) / np.repeat(counts, counts)


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "burst",
            "a user does one thing very often for some minutes",
            is_account=False,
            make=_burst,
        ),
        Kind(
            "ramp",
            "a user does one thing more and more often over hours, then stops",
            is_account=False,
            make=_ramp,
        ),
        Kind(
            "low-and-slow",
            "an account does one thing at even distances, day and night, never often",
            is_account=True,
            make=_low_and_slow,
        ),
        Kind(
            "new-user-flood",
            "accounts that were never seen before each do one thing often, at about one time",
            is_account=True,
            make=_new_user_flood,
        ),
        Kind(
            "shared-account",
            "from some hour on, a second person with other habits uses the account too",
            is_account=False,
            make=_shared_account,
        ),
    )
}
"""All kinds by name."""
