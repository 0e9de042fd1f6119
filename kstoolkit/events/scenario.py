"""Who acts in a simulation: ordinary users, some of whom go astray, and abnormal accounts.

All of it is in numbers; names come later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.events.abnormal import KINDS, Kind, Stage, Trouble
from kstoolkit.events.draws import Draws
from kstoolkit.events.ordinary import HOUR_MS, Acts, Habits, Span, act, habits, rates, share_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.events.draws import Ints


_MIDDLE = (20, 2)
"""Users who go astray are among the busier half, but not among the busiest twentieth."""


@dataclass(frozen=True, slots=True)
class Part:
    """The abnormal users of one kind: their numbers, and the trouble that they make."""

    kind: str
    users: Ints
    trouble: Trouble

    @property
    def acts(self) -> Acts:
        """What they do beyond the ordinary."""
        own = self.trouble.acts
        return Acts(self.users[own.user], own.time_ms, own.action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A simulation in numbers.

    Users are numbered: ordinary ones first, the busiest at 0, then the abnormal accounts, kind by
    kind. Each purpose has its own stream of draws, so that another number of bursts, say, leaves
    ordinary users as they are.
    """

    event_count: int
    users: int
    actions: int
    span: Span
    seed: int
    abnormal: Mapping[str, int]

    @property
    def all_users(self) -> int:
        """How many users there are with the abnormal accounts."""
        return self.users + sum(self.abnormal.get(kind.name, 0) for kind in _kinds(accounts=True))

    def acts(self) -> Acts:
        """Return all events, in order of time."""
        counts = share_out(Draws(self.seed, "shares"), self.event_count, rates(self.users))
        ordinary = act(Draws(self.seed, "ordinary"), counts, self._habits(), self.span)
        return Acts.joined([ordinary, *(part.acts for part in self.parts())])

    def parts(self) -> list[Part]:
        """Return what is abnormal, kind by kind."""
        return [self._part(kind, self._who(kind)) for kind in KINDS.values() if self._number(kind)]

    def _part(self, kind: Kind, users: Ints) -> Part:
        hours = self.span.length_ms / HOUR_MS
        hourly = rates(self.users) * self.event_count / hours
        stage = Stage(
            draws=Draws(self.seed, kind.name),
            span=self.span,
            actions=self.actions,
            hourly=np.full(len(users), 1 / self.users * self.event_count / hours)
            if kind.is_account
            else hourly[users],
            phase=np.zeros(len(users), np.int64)
            if kind.is_account
            else self._habits().phase[users],
        )
        return Part(kind.name, users, kind.make(stage))

    def _who(self, kind: Kind) -> Ints:
        before = sum(self._number(other) for other in _kinds(accounts=kind.is_account, until=kind))
        some = slice(before, before + self._number(kind))
        return (
            np.arange(self.users, self.all_users)[some] if kind.is_account else self._pool()[some]
        )

    def _pool(self) -> Ints:
        """Return ordinary users in the order in which they go astray."""
        first, last = (self.users // share for share in _MIDDLE)
        wanted = sum(self._number(kind) for kind in _kinds(accounts=False))
        pool = np.arange(first, last) if last - first >= wanted else np.arange(self.users)
        return pool[Draws(self.seed, "astray").order(len(pool))]

    def _number(self, kind: Kind) -> int:
        return self.abnormal.get(kind.name, 0)

    def _habits(self) -> Habits:
        return habits(Draws(self.seed, "habits"), self.users, self.actions)


def _kinds(*, accounts: bool, until: Kind | None = None) -> list[Kind]:
    """Return the kinds that are accounts of their own, or are not, before the kind ``until``."""
    kinds = list(KINDS.values())
    return [
        kind
        for kind in kinds[: kinds.index(until) if until else None]
        if kind.is_account == accounts
    ]
