"""Asks against a plain computation, whatever the order and the batches that events come in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.counters.asks import Asks, moments
from kstoolkit.windows import Hop, Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.counters.counters import Counters

MINUTE_MS, DAY_MS = 60_000, 86_400_000
FIVE = Hop("5 minutes", every="1 minute")
Event = tuple[int, str, bool]  # when, who, and whether it is a pass
Decision = tuple[str, int]  # user, window start

EVENTS = st.lists(
    st.tuples(
        st.integers(-5, 80).map(lambda step: step * 15_000),
        st.sampled_from(["Anna", "Bo", "Čeněk"]),
        st.integers(0, 11).map(lambda number: number == 0),
    ),
    max_size=80,
)


@dataclass
class Followed:
    """Asks, and the latest that they decided."""

    asks: Asks
    latest: dict[Decision, bool] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)

    def take(self, events: Iterable[Event], horizon_ms: int = -DAY_MS) -> list[Decision]:
        """Take in a batch, and return what it decided."""
        came = list(events)
        requests = came_as([each for each in came if not each[2]], self.asks.window.pane_ms)
        passes = came_as([each for each in came if each[2]], 1)
        rows = self.asks.advance(requests, passes, horizon_ms=horizon_ms).to_pylist()
        decided = [(row["user"], row["window_start_ms"]) for row in rows]
        self.latest |= dict(zip(decided, [row["asked"] for row in rows], strict=True))
        self.counts += [row["count"] for row in rows]
        return decided


def came_as(events: list[Event], pane_ms: int) -> Counters:
    times = np.array([time for time, *_ in events], dtype=np.int64)
    return moments(times - times % pane_ms, pa.array([user for _, user, _ in events], pa.string()))


def following(window: Window = FIVE, at_least: int = 3, keep_ms: int = DAY_MS) -> Followed:
    return Followed(Asks(window, at_least, keep_ms, {}))


def by_hand(events: list[Event], window: Window, at_least: int) -> dict[Decision, bool]:
    counts: Counter[Decision] = Counter()
    for time, user, is_pass in events:
        if not is_pass:
            last = window.start_of(time)
            starts = [last - back for back in range(0, window.size_ms, window.every_ms)]
            counts.update((user, start) for start in starts if start + window.size_ms > time)
    passes = {user: time for time, user, is_pass in sorted(events) if is_pass}
    return {
        (user, start): passes.get(user, -DAY_MS) < start
        for (user, start), count in counts.items()
        if count >= at_least
    }


@given(
    events=EVENTS,
    at_least=st.integers(1, 4),
    window=st.sampled_from(
        [
            FIVE,
            Window(MINUTE_MS, MINUTE_MS),
            Hop("3 minutes", every="90 s"),
            Hop("50 s", every="20 s"),
        ]
    ),
    size=st.integers(1, 30),
    seed=st.integers(0, 9),
)
@settings(max_examples=60)
def test_the_latest_decisions_are_those_of_all_events_at_once(
    events: list[Event], at_least: int, window: Window, size: int, seed: int
) -> None:
    followed = following(window, at_least)
    shuffled = Random(seed).sample(events, len(events))
    for begin in range(0, len(events), size):
        decided = followed.take(shuffled[begin : begin + size])
        assert len(decided) == len(set(decided))
    assert followed.latest == by_hand(events, window, at_least)
    assert all(count >= at_least for count in followed.counts)


def test_an_event_from_before_makes_up_the_number_afterwards() -> None:
    followed = following(Window(MINUTE_MS, MINUTE_MS))
    followed.take([(10, "Anna", False), (90_000, "Anna", False)])
    followed.take([(30, "Anna", False), (5 * MINUTE_MS, "Bo", False)])
    assert followed.latest == {}
    assert followed.take([(20, "Anna", False)]) == [("Anna", 0)]


def test_a_decision_is_told_once_and_a_clearing_once() -> None:
    followed = following(Window(MINUTE_MS, MINUTE_MS))
    requests = [(each, "Anna", False) for each in range(3)]
    assert followed.take(requests) == [("Anna", 0)]
    assert followed.take(requests) == []
    assert followed.take([(5, "Anna", True)]) == [("Anna", 0)]
    assert followed.take([(6, "Anna", True), *requests]) == []
    assert followed.latest == {("Anna", 0): False}


@pytest.mark.parametrize(("pass_ms", "asked"), [(MINUTE_MS - 1, True), (MINUTE_MS, False)])
def test_a_pass_clears_windows_that_had_begun_by_then(pass_ms: int, *, asked: bool) -> None:
    followed = following(Window(MINUTE_MS, MINUTE_MS))
    followed.take([(pass_ms, "Anna", True)])
    followed.take([(MINUTE_MS + each, "Anna", False) for each in range(3)])
    assert followed.latest == {("Anna", MINUTE_MS): asked}


def test_what_no_event_can_change_any_more_leaves_the_state() -> None:
    followed = following(keep_ms=DAY_MS)
    blocks = followed.asks.blocks
    followed.take([*[(each, "Anna", False) for each in range(3)], (10, "Bo", True)])
    assert {"asks", "passes", "counts/0/0"} <= set(blocks.keys())

    followed.take([], horizon_ms=70 * MINUTE_MS)
    assert set(blocks.keys()) == {"asks"}
    followed.take([(DAY_MS, "Anna", True)], horizon_ms=DAY_MS)
    windows = [("Anna", -back * MINUTE_MS) for back in range(5)]
    assert followed.latest == dict.fromkeys(windows, False)


def test_an_ask_that_nobody_cleared_in_time_is_forgotten_as_it_stands() -> None:
    followed = following(Window(MINUTE_MS, MINUTE_MS), keep_ms=DAY_MS)
    followed.take([(each, "Anna", False) for each in range(3)])
    followed.take([], horizon_ms=MINUTE_MS + DAY_MS)
    assert "asks" not in set(followed.asks.blocks.keys())
    assert followed.take([(2 * DAY_MS, "Anna", True)], horizon_ms=MINUTE_MS + DAY_MS) == []
    assert followed.latest == {("Anna", 0): True}
