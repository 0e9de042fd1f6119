"""A bucket against a plain group-by, over any cascade, events, batches and modes."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from statistics import median_low
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kstoolkit.counters.bucket import FOREVER, NEVER, Advance, Bucket, Meta, Reached
from kstoolkit.counters.counters import Counters
from kstoolkit.errors import FormatError
from kstoolkit.windows import Cascade, Hop, Window

if TYPE_CHECKING:
    from collections.abc import Iterable

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
LONG_AFTER_MS = 10_000 * DAY_MS
Event = tuple[str, int, str]
Key = tuple[str, int, str]

SHAPES: list[tuple[str | Window, ...]] = [
    ("1 minute", "1 hour", "1 day"),
    ("10 seconds", "1 minute"),
    ("7 seconds",),
    ("1 minute", Hop("5 minutes", every="1 minute"), "1 hour"),
    ("1 minute", Hop("15 minutes", every="1 minute")),
    (Hop("1 hour", every="20 minutes"),),
    (Hop("90 seconds", every="30 seconds"), Hop("5 minutes", every="1 minute")),
    ("10 seconds", Hop("2 minutes", every="1 minute"), "1 minute", "2 hours"),
    (Hop("5 seconds", every="2 seconds"), "1 minute"),
    ("1 minute", Hop("7 minutes", every="2 minutes"), Hop("100 s", every="70 s"), "1 hour"),
]


@st.composite
def any_hop(draw: st.DrawFn) -> tuple[str | Window, ...]:
    """Draw a hop that divides nothing, and stands before or after other windows."""
    every_ms = draw(st.integers(151, 400_000))  # else the longest retention is short of the events
    hop = Window(every_ms + draw(st.integers(1, 12 * every_ms)), every_ms)
    assume(hop.size_ms not in {MINUTE_MS, HOUR_MS})
    levels: list[str | Window] = ["1 minute", "1 hour"]
    levels.insert(draw(st.integers(0, 2)), hop)
    return tuple(levels)


CASCADES = st.one_of(st.sampled_from(SHAPES), any_hop())
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["Anna", "Bo", "Čeněk"]),
        st.integers(-20, 1_200).map(lambda step: step * 10_007),  # some three hours, in any order
        st.sampled_from(["read", "write"]),
    ),
    max_size=20,
)
BATCHES = st.lists(EVENTS, max_size=6)
FEWER = settings(max_examples=60)  # each is a whole run


def counters_of(events: list[Event], pane_ms: int) -> Counters:
    times = np.array([time_ms for _, time_ms, _ in events], dtype=np.int64)
    users = pa.array([user for user, _, _ in events], pa.string())
    actions = pa.array([action for _, _, action in events], pa.string())
    return Counters.of(times - times % pane_ms, users, actions)


def windows_of(event: Event, window: Window) -> list[Key]:
    user, time_ms, action = event
    latest_ms = window.start_of(time_ms)
    starts = [latest_ms - back_ms for back_ms in range(0, window.size_ms, window.every_ms)]
    return [(user, start, action) for start in starts if start <= time_ms < start + window.size_ms]


def group_by(batches: list[list[Event]], window: Window) -> Counter[Key]:
    return Counter(key for batch in batches for event in batch for key in windows_of(event, window))


def rows_of(counters: Counters) -> list[Key]:
    starts, users, actions, _ = (column.to_pylist() for column in counters.to_batch().columns)
    return list(zip(users, starts, actions, strict=True))


@dataclass
class Watched:
    """A bucket whose every report is checked against the ones before."""

    cascade: Cascade
    live: bool = False
    number: int = 0
    buckets: int = 1
    blocks: dict[str, bytes] = field(default_factory=dict)
    now_ms: int = LONG_AFTER_MS
    latest: list[Counter[Key]] = field(default_factory=list)
    late: Counter[int] = field(default_factory=Counter)
    closed: list[Counter[Key]] = field(default_factory=list)
    until_ms: list[int] = field(default_factory=list)
    rest: list[Counter[Key]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.latest = [Counter() for _ in self.cascade.windows]
        self.closed = [Counter() for _ in self.cascade.windows]
        self.rest = [Counter() for _ in self.cascade.windows]
        self.until_ms = [NEVER for _ in self.cascade.windows]

    def take(self, events: list[Event], *, flush: bool = False, last: bool = False) -> Advance:
        bucket = Bucket(
            self.cascade,
            self.blocks,
            self.number,
            self.buckets,
            live=self.live,
            told_closed=range(9),
        )
        arrivals = counters_of(events, self.cascade.pane_ms)
        done = bucket.advance(arrivals, now_ms=self.now_ms, flush=flush, last=last)
        assert len({changes.level for changes in done.changes}) == len(done.changes)
        for changes in done.changes:
            latest = self.latest[changes.level]
            counts = changes.counters.count.tolist()
            for key, count in zip(rows_of(changes.counters), counts, strict=True):
                assert count > latest[key], "counts only grow"
                latest[key] = count
        self.late.update(done.late)
        self.check_closed(done)
        return done

    def check_closed(self, done: Advance) -> None:
        """Hold what closed against what closed before, and against what was told of it."""
        for level, closed in enumerate(self.closed):
            closing, parts = done.closing[level], [*done.closing[level].parts]
            assert closing.from_ms == self.until_ms[level] <= closing.until_ms
            for end_ms, part in parts:
                assert part.start_ms.max(initial=NEVER) < end_ms <= closing.until_ms
            found = counted(part for _, part in parts)
            assert not found.keys() & closed.keys(), "a window closes once"
            assert found == begun_in(self.latest[level], closing.from_ms, closing.until_ms)
            closed.update(found)
            self.until_ms[level] = closing.until_ms
            self.rest[level] = counted(part for _, part in closing.rest)

    def wait(self, milliseconds: int) -> Advance:
        self.now_ms += milliseconds
        return self.take([])

    def drain(self) -> None:
        """Wait until nothing is pending."""
        for _ in range(2_000):
            self.wait(DAY_MS)
            if not any(key.startswith("pending") for key in self.blocks):
                return
        pytest.fail("the backlog does not drain")

    def in_state(self, level: int) -> Counter[Key]:
        bucket = Bucket(self.cascade, self.blocks, live=self.live, told_closed=range(9))
        return counted(part for _, part in bucket.segments(level).between(NEVER, FOREVER))


def counted(parts: Iterable[Counters]) -> Counter[Key]:
    """Return the counts of parts that share no key."""
    found = Counter[Key]()
    for part in parts:
        assert not found.keys() & set(rows_of(part))
        found.update(dict(zip(rows_of(part), part.count.tolist(), strict=True)))
    return found


def begun_in(counts: Counter[Key], from_ms: int, until_ms: int) -> Counter[Key]:
    """Return the counts of windows that begin then."""
    return Counter({key: n for key, n in counts.items() if from_ms <= key[1] < until_ms})


def run(cascade: Cascade, batches: list[list[Event]], *, live: bool, every_ms: int) -> Watched:
    watched = Watched(cascade, live=live)
    for batch in batches:
        watched.take(batch)
        watched.now_ms += every_ms
    watched.drain()
    return watched


def late_on_arrival(cascade: Cascade, level: int, batches: list[list[Event]]) -> Counter[Key]:
    """Return what comes after its window's end and the level's lateness, by the stream's time."""
    window, lateness_ms = cascade.windows[level], cascade.lateness_ms[level]
    if lateness_ms is None:
        lateness_ms = max((cascade.retention[level] - 1) * window.every_ms, 10 * MINUTE_MS)
    stream_ms, late = -(10**18), Counter[Key]()
    for batch in batches:
        keys = [key for event in batch for key in windows_of(event, window)]
        late.update(key for key in keys if key[1] + window.size_ms + lateness_ms <= stream_ms)
        stream_ms = max(stream_ms, reached_by(batch, cascade.pane_ms))
    return late


def reached_by(batch: list[Event], pane_ms: int) -> int:
    """Return the latest pane that most users of a batch have; of two users, both."""
    latest: dict[str, int] = {}
    for user, time_ms, _ in batch:
        latest[user] = max(latest.get(user, time_ms), time_ms)
    return (
        median_low(time_ms - time_ms % pane_ms for time_ms in latest.values()) if batch else NEVER
    )


@FEWER
@given(CASCADES, BATCHES)
def test_a_bounded_run_counts_what_a_plain_group_by_counts(
    shape: tuple[str | Window, ...], batches: list[list[Event]]
) -> None:
    cascade = Cascade(*shape)
    watched = run(cascade, batches, live=False, every_ms=1)
    for level, window in enumerate(cascade.windows):
        assert watched.latest[level] == group_by(batches, window)
        assert watched.in_state(level) == watched.latest[level]
    assert not watched.late


@FEWER
@given(
    CASCADES,
    BATCHES,
    st.sampled_from([0, SECOND_MS, 20 * SECOND_MS, 10 * MINUTE_MS]),
    st.integers(1, 8),
    st.sampled_from([1, 7, 1_000]),
)
def test_a_live_run_counts_the_same_whatever_it_holds_back(
    shape: tuple[str | Window, ...],
    batches: list[list[Event]],
    every_ms: int,
    buckets: int,
    most: int,
) -> None:
    cascade = Cascade(*shape, retention=100_000, max_counters_per_flush=most)
    watched = Watched(cascade, live=True, number=buckets - 1, buckets=buckets)
    for batch in batches:
        done = watched.take(batch)
        # More goes at once only where as much would be left behind.
        assert all(
            len(changes.counters) <= most or done.backlog[changes.level] == most
            for changes in done.changes
        )
        assert all(waiting <= most for waiting in done.backlog.values())
        watched.now_ms += every_ms
    watched.drain()
    for level, window in enumerate(cascade.windows):
        assert watched.latest[level] == group_by(batches, window)
    assert not watched.late


@FEWER
@given(
    CASCADES,
    BATCHES,
    st.sampled_from([0, SECOND_MS, 20 * SECOND_MS, 10 * MINUTE_MS, -HOUR_MS]),
    st.integers(1, 8),
    st.sampled_from([1, 7, 1_000]),
)
def test_what_waits_is_told_with_as_of_when_windows_stand_and_is_flushed_when_it_is_due(
    shape: tuple[str | Window, ...],
    batches: list[list[Event]],
    every_ms: int,
    buckets: int,
    most: int,
) -> None:
    cascade = Cascade(*shape, retention=100_000, max_counters_per_flush=most)
    watched = Watched(cascade, live=True, number=buckets - 1, buckets=buckets)
    taken: list[tuple[int, list[Event]]] = []
    done = watched.wait(0)
    watched.now_ms += 1
    for batch in batches:
        done = watched.take(batch)
        taken.append((watched.now_ms, batch))
        for level, window in enumerate(cascade.windows):
            until_ms = done.as_of_ms.get(level, watched.now_ms)
            known = [each for clock_ms, each in taken if clock_ms <= until_ms]
            if every_ms > 0:  # else several batches have one time
                assert group_by(known, window) <= watched.latest[level]
            if level not in done.as_of_ms:
                assert watched.latest[level] == group_by(batches[: len(taken)], window)
        watched.now_ms += every_ms
    while done.due_ms is not None:
        watched.now_ms = done.due_ms
        done = watched.take([])
    for level, window in enumerate(cascade.windows):
        assert watched.latest[level] == group_by(batches, window)


@FEWER
@given(st.sampled_from(SHAPES), BATCHES, st.sampled_from([1, 1_000]))
def test_a_flush_of_all_leaves_nothing_waiting(
    shape: tuple[str | Window, ...], batches: list[list[Event]], most: int
) -> None:
    cascade = Cascade(*shape, retention=100_000, max_counters_per_flush=most)
    watched = Watched(cascade, live=True)
    for batch in batches:
        watched.take(batch)
    bucket = Bucket(cascade, watched.blocks, live=True)
    done = bucket.advance(Counters.empty(), now_ms=watched.now_ms, flush=True)
    assert (done.as_of_ms, done.due_ms, done.backlog) == ({}, None, {})
    for level, window in enumerate(cascade.windows):
        assert watched.in_state(level) == group_by(batches, window)


@FEWER
@given(
    st.sampled_from(SHAPES),
    BATCHES,
    st.sampled_from([0, 30 * SECOND_MS, 10 * MINUTE_MS]),
    st.booleans(),
)
def test_with_a_lateness_each_event_is_in_a_window_or_late_for_it(
    shape: tuple[str | Window, ...],
    batches: list[list[Event]],
    lateness_ms: int,
    live: bool,  # noqa: FBT001 - drawn
) -> None:
    at_once = dict.fromkeys(Cascade(*shape).windows, 0)
    cascade = Cascade(*shape, lateness=lateness_ms, flush=at_once)
    watched = run(cascade, batches, live=live, every_ms=SECOND_MS)
    for level, window in enumerate(cascade.windows):
        late = late_on_arrival(cascade, level, batches)
        assert watched.latest[level] == group_by(batches, window) - late
        assert watched.late[level] == late.total()


@FEWER
@given(
    CASCADES,
    BATCHES,
    st.sampled_from([0, SECOND_MS, 20 * SECOND_MS, 10 * MINUTE_MS]),
    st.sampled_from([1, 7, 1_000]),
    st.integers(1, 3),
    st.sampled_from([None, 0, 10 * SECOND_MS, 2 * HOUR_MS]),
)
def test_holding_back_makes_no_event_late_and_loses_none(  # noqa: PLR0917 - drawn
    shape: tuple[str | Window, ...],
    batches: list[list[Event]],
    every_ms: int,
    most: int,
    retention: int,
    lateness_ms: int | None,
) -> None:
    cascade = Cascade(
        *shape,
        retention=retention,
        lateness=lateness_ms,
        max_counters_per_flush=most,
        flush=dict.fromkeys(Cascade(*shape).windows, "1 minute"),
    )
    watched = run(cascade, batches, live=True, every_ms=every_ms)
    for level, window in enumerate(cascade.windows):
        everything, late = group_by(batches, window), late_on_arrival(cascade, level, batches)
        assert watched.latest[level].total() + watched.late[level] == everything.total()
        assert watched.late[level] <= late.total()
        timely = everything - late
        assert all(watched.latest[level][key] >= count for key, count in timely.items())


@FEWER
@given(
    CASCADES,
    st.lists(st.tuples(st.booleans(), EVENTS, st.sampled_from([0, 90 * SECOND_MS])), max_size=8),
    st.sampled_from([1, 4, 1_000]),
    st.integers(1, 3),
)
def test_runs_may_be_live_and_bounded_in_turn(
    shape: tuple[str | Window, ...],
    turns: list[tuple[bool, list[Event], int]],
    most: int,
    retention: int,
) -> None:
    cascade = Cascade(*shape, retention=retention, max_counters_per_flush=most)
    watched = Watched(cascade)
    for live, batch, pause_ms in turns:
        watched.live = live
        watched.take(batch)
        watched.now_ms += pause_ms
    watched.live = False
    watched.wait(0)
    batches = [batch for _, batch, _ in turns]
    for level, window in enumerate(cascade.windows):
        everything = group_by(batches, window)
        assert watched.latest[level].total() + watched.late[level] == everything.total()
        assert watched.latest[level] <= everything


def test_counts_are_exact_when_no_live_window_expired_before_a_bounded_run() -> None:
    watched = Watched(Cascade("1 minute", "1 hour"), live=True)
    watched.take([("a", 0, "x"), ("a", 30 * SECOND_MS, "x")])
    watched.live = False
    watched.take([("a", 10 * DAY_MS, "x")])
    watched.take([("a", 0, "x")])  # late in a live run; a bounded one takes all
    assert watched.latest[0]["a", 0, "x"] == watched.latest[1]["a", 0, "x"] == 3
    assert not watched.late


def test_an_event_of_an_expired_window_is_late_also_in_a_bounded_run() -> None:
    watched = Watched(Cascade("1 minute", "1 hour"), live=True)
    for minute in range(100):
        watched.take([("a", minute * MINUTE_MS, "x")])
    watched.drain()
    watched.live = False
    watched.take([("a", 0, "x")])
    assert watched.late == {0: 1}
    assert watched.latest[0]["a", 0, "x"] == 1
    assert watched.latest[1]["a", 0, "x"] == 61


def test_an_event_too_late_for_its_minute_still_counts_for_its_hour() -> None:
    watched = Watched(Cascade("1 minute", "1 hour", lateness={"1 minute": 0, "1 hour": "1 hour"}))
    watched.take([("a", 30 * MINUTE_MS, "x")])
    watched.take([("a", 0, "x")])
    assert watched.late == {0: 1}
    assert watched.latest[1] == {("a", 0, "x"): 2}


def test_an_event_too_late_for_a_hop_is_late_once_for_each_window_it_missed() -> None:
    watched = Watched(Cascade(Hop("5 minutes", every="1 minute"), lateness=0))
    watched.take([("a", 8 * MINUTE_MS, "x")])
    watched.take([("a", 5 * MINUTE_MS, "x")])  # of [1, 6) to [5, 10): three of these are over
    assert watched.late == {0: 3}
    starts = [start for (_, start, _), count in watched.latest[0].items() if count == 2]
    assert starts == [4 * MINUTE_MS, 5 * MINUTE_MS]


def test_an_event_in_time_is_not_late_because_a_finer_level_held_it_back() -> None:
    cascade = Cascade(
        "1 minute",
        "1 hour",
        lateness={"1 minute": "1 day", "1 hour": 0},
        flush={"1 minute": 60_000},
    )
    watched = Watched(cascade, live=True)
    watched.take([("a", 0, "x")])
    watched.now_ms += 10 * SECOND_MS
    watched.take([("a", 59 * MINUTE_MS, "x")])
    watched.now_ms += 10 * SECOND_MS
    watched.take([("a", 61 * MINUTE_MS, "x")])
    watched.drain()
    assert watched.latest[1]["a", 0, "x"] == 2
    assert not watched.late


def test_a_window_waits_for_what_a_finer_level_holds_back_before_it_expires() -> None:
    cascade = Cascade("1 minute", "1 hour", retention=1, flush={"1 minute": "10 minutes"})
    watched = Watched(cascade, live=True)
    watched.take([])
    watched.take([("a", 0, "x")])
    watched.take([("a", 5 * DAY_MS, "x")])
    watched.drain()
    assert watched.latest[1]["a", 0, "x"] == 1
    assert not watched.late


def test_each_hop_waits_for_what_a_finer_level_holds_back_before_it_expires() -> None:
    hop = Hop("7 minutes", every="2 minutes")
    cascade = Cascade("1 minute", hop, retention=1, flush={"1 minute": "10 minutes"})
    watched = Watched(cascade, live=True)
    watched.take([])
    watched.take([("a", 5 * MINUTE_MS, "x")])
    watched.take([("a", 5 * DAY_MS, "x")])
    watched.drain()
    starts = [start for _, start, _ in watched.latest[1] if start < DAY_MS]
    assert sorted(starts) == [0, 2 * MINUTE_MS, 4 * MINUTE_MS]
    assert not watched.late


def told(feeds: list[Counters]) -> list[Reached]:
    return [Reached.by_most(feed) for feed in feeds]


ONE_AHEAD = [("a", 480, "x"), *((f"user {n}", 0, "x") for n in range(9))]
"""Who does what in which minute: of ten users, one whose clock is eight hours ahead."""


@pytest.mark.parametrize("behind_ms", [0, 3_000 * DAY_MS], ids=["live", "old data again"])
def test_one_clock_that_is_ahead_makes_nobody_late(behind_ms: int) -> None:
    watched = Watched(Cascade("1 minute", "1 hour"), live=True)
    for minute in range(120):
        now_ms = LONG_AFTER_MS + minute * MINUTE_MS
        watched.now_ms = now_ms
        begin_ms = now_ms - behind_ms
        watched.take([(who, begin_ms + ahead * MINUTE_MS, what) for who, ahead, what in ONE_AHEAD])
    watched.drain()
    assert not watched.late
    assert sum(watched.latest[1].values()) == 1_200


def test_a_clock_that_is_ahead_alone_in_its_bucket_does_not_pass_the_batchs_own() -> None:
    watched = Watched(Cascade("1 minute"), live=True)
    watched.take([("a", LONG_AFTER_MS + 8 * HOUR_MS, "x")])
    watched.take([("b", LONG_AFTER_MS - 9 * MINUTE_MS, "x")])
    assert not watched.late


def test_two_feeds_four_minutes_apart_lose_nothing() -> None:
    watched = Watched(Cascade("1 minute"), live=True)
    for minute in range(60):
        watched.now_ms = LONG_AFTER_MS + minute * MINUTE_MS
        for user, behind in (("fast", 0), ("also fast", 0), ("slow", 4)):
            watched.take([(user, watched.now_ms - behind * MINUTE_MS, "x")])
    assert not watched.late
    assert sum(watched.latest[0].values()) == 180


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
def test_a_feed_that_catches_up_an_hour_behind_the_others_loses_nothing(share: float) -> None:
    bucket = Bucket(Cascade("1 minute", "1 hour"), {}, live=True)
    behind = round(100 * share)
    for minute in range(30):
        now_ms = LONG_AFTER_MS + minute * MINUTE_MS
        fast = [(f"user {n}", now_ms, "x") for n in range(behind, 100)]
        # It has caught up when half an hour is over, and is as far as the others.
        slow = [(f"user {n}", now_ms - (60 - 2 * minute) * MINUTE_MS, "x") for n in range(behind)]
        feeds = [counters_of(each, MINUTE_MS) for each in (fast, slow)]
        done = bucket.advance(Counters.merge(feeds), now_ms=now_ms, feeds=told(feeds))
        assert not done.late


def test_a_feed_of_hardly_any_users_holds_no_window_open() -> None:
    bucket = Bucket(Cascade("1 minute"), {}, live=True)
    for minute in range(60):
        now_ms = LONG_AFTER_MS + minute * MINUTE_MS
        feeds = [
            counters_of([(f"user {n}", now_ms, "x") for n in range(100)], MINUTE_MS),
            counters_of([("from 1970", minute * MINUTE_MS, "x")], MINUTE_MS),
        ]
        bucket.advance(Counters.merge(feeds), now_ms=now_ms, feeds=told(feeds))
    assert bucket.advance(feeds[1], now_ms=now_ms).late == {0: 1}


def test_a_feed_whose_clock_is_far_behind_holds_windows_open_for_a_day_at_most() -> None:
    cascade = Cascade("1 minute")
    bucket = Bucket(cascade, {}, live=True)
    for hour in range(72):
        now_ms = LONG_AFTER_MS + hour * HOUR_MS
        there = [(user, now_ms, "x") for user in ("a", "b")]
        feeds = [counters_of(each, MINUTE_MS) for each in (there, [("from 1970", 0, "x")])]
        bucket.advance(Counters.merge(feeds), now_ms=now_ms, feeds=told(feeds))
    kept = [counters.start_ms for _, counters in bucket.segments(0).between(NEVER, FOREVER)]
    assert min(starts.min() for starts in kept) > now_ms - 27 * HOUR_MS


def test_a_batch_whose_clock_jumps_puts_off_no_later_flush() -> None:
    watched = Watched(Cascade("1 minute", "1 hour", flush={"1 hour": "1 minute"}), live=True)
    flushed = []
    for step in range(12):
        jump_ms = {3: DAY_MS, 7: -DAY_MS}.get(step, 0)
        watched.now_ms = LONG_AFTER_MS + step * MINUTE_MS + jump_ms
        done = watched.take([("a", LONG_AFTER_MS + step * MINUTE_MS, "x")])
        flushed.append(1 in {changes.level for changes in done.changes})
    assert all(flushed)


def test_levels_are_flushed_at_their_intervals() -> None:
    cascade = Cascade("1 minute", "1 hour", flush={"1 minute": 0, "1 hour": "1 minute"})
    watched = Watched(cascade, live=True)
    watched.take([])
    flushed = []
    for step in range(13):
        watched.now_ms = LONG_AFTER_MS + step * 10 * SECOND_MS
        done = watched.take([("a", step * 10 * SECOND_MS, "x")])
        flushed.append([changes.level for changes in done.changes])
    assert [1 in levels for levels in flushed] == [step in {6, 12} for step in range(13)]
    assert all(0 in levels for levels in flushed)


def test_buckets_do_not_all_flush_a_level_in_one_batch() -> None:
    cascade = Cascade("1 minute", "1 hour", flush={"1 hour": "1 minute"})
    buckets = [Watched(cascade, live=True, number=number, buckets=8) for number in range(8)]
    for bucket in buckets:
        bucket.take([])
    flushes: list[list[int]] = []
    for step in range(1, 17):
        flushes.append([])
        for bucket in buckets:
            bucket.now_ms = LONG_AFTER_MS + step * 7_500
            done = bucket.take([("a", step * 7_500, "x")])
            flushes[-1] += [bucket.number for changes in done.changes if changes.level == 1]
    assert flushes == [[step % 8] for step in range(1, 17)]


def test_a_flush_that_is_not_due_leaves_the_state_alone() -> None:
    watched = Watched(Cascade("1 minute", "1 hour", flush={"1 hour": "1 hour"}), live=True)
    watched.take([("a", 0, "x")])
    watched.take([("a", 0, "x")])
    before = dict(watched.blocks)
    done = watched.wait(SECOND_MS)
    assert not done.changes
    changed = {key for key, block in watched.blocks.items() if before.get(key) != block}
    assert changed <= {"meta"}


def test_a_backlog_is_told_and_drains_the_earliest_windows_first() -> None:
    watched = Watched(Cascade("1 minute", max_counters_per_flush=2), live=True)
    done = watched.take([("a", minute * MINUTE_MS, "x") for minute in (4, 2, 0, 3, 1)])
    told = []
    while done.backlog:
        told.append(done.backlog[0])
        done = watched.wait(SECOND_MS)
    assert told == [2]  # no more waits than one flush hands on
    assert [start // MINUTE_MS for _, start, _ in watched.latest[0]] == [0, 1, 2, 3, 4]


def test_a_bounded_run_knows_no_backlog() -> None:
    watched = Watched(Cascade("1 minute", max_counters_per_flush=1))
    done = watched.take([("a", minute * MINUTE_MS, "x") for minute in range(5)])
    assert (done.backlog, len(watched.latest[0])) == ({}, 5)


def test_the_state_of_a_live_run_stays_bounded() -> None:
    watched = Watched(Cascade("1 minute", Hop("10 minutes", every="1 minute"), "1 hour"), live=True)
    blocks, rows = [], []
    for minute in range(0, 2_880, 8):
        watched.now_ms = LONG_AFTER_MS + minute * MINUTE_MS
        watched.take([(f"user {minute % 7}", minute * MINUTE_MS, "x")])
        blocks.append(len(watched.blocks))
        rows.append(watched.in_state(0).total() if minute % 64 == 0 else 0)
    half = len(blocks) // 2
    assert max(blocks[half:]) <= max(blocks[:half]) < 20
    assert max(rows) <= 60


def test_a_bounded_run_keeps_all_windows() -> None:
    watched = Watched(Cascade("1 minute", "1 hour"))
    for hour in range(50):
        watched.take([("a", hour * HOUR_MS, "x")])
    assert len(watched.in_state(0)) == len(watched.in_state(1)) == 50


def test_a_day_of_minutes_is_twenty_four_segments() -> None:
    watched = Watched(Cascade("1 minute", "1 hour", "1 day"))
    for hour in range(24):
        watched.take([("a", hour * HOUR_MS + minute * MINUTE_MS, "x") for minute in range(60)])
    keys = list(watched.blocks.keys())
    assert sum(key.startswith("counts/0/") for key in keys) == 24
    assert sum(key.startswith("counts/1/") for key in keys) == 1


def test_a_hop_without_a_longer_window_has_segments_as_long_as_itself() -> None:
    watched = Watched(Cascade("1 minute", Hop("1 hour", every="1 minute")))
    watched.take([("a", 59 * MINUTE_MS, "x")])
    assert sum(key.startswith("counts/1/") for key in watched.blocks) == 1


def test_a_replayed_batch_ends_in_the_same_state_and_report() -> None:
    cascade = Cascade("1 minute", "1 hour", flush={"1 hour": "1 minute"}, max_counters_per_flush=3)
    first = Watched(cascade, live=True)
    first.take([("a", minute * MINUTE_MS, "x") for minute in range(9)])
    second = Watched(cascade, live=True, blocks=dict(first.blocks))
    second.latest = [counts.copy() for counts in first.latest]
    second.until_ms = [*first.until_ms]
    for watched in (first, second):
        watched.now_ms = LONG_AFTER_MS + 70 * SECOND_MS
        watched.take([("b", 3 * MINUTE_MS, "x")])
    assert first.blocks == second.blocks
    assert first.latest == second.latest


def test_a_memory_reads_back() -> None:
    meta = Meta.new(3).at(1, flushed_ms=5, held_from_ms=-7, closed_ms=60_000)
    assert Meta.decode(meta.encode()) == meta


def test_a_memory_that_knows_of_no_closed_windows_is_read() -> None:
    meta = Meta.new(2).at(1, expired_ms=5)
    told = json.loads(meta.encode()[1:])
    del told["closed_ms"]
    assert Meta.decode(meta.encode()[:1] + json.dumps(told).encode()) == meta


def test_a_memory_of_another_version_is_refused() -> None:
    block = bytes([9]) + Meta.new(1).encode()[1:]
    with pytest.raises(FormatError, match=r"memory of version 9.* version 1"):
        Meta.decode(block)


@pytest.mark.parametrize("block", [b"", b"\x01", b"\x01{", b"\x01{}", b"\x01[]", b'\x01{"a": 1}'])
def test_a_damaged_memory_is_refused(block: bytes) -> None:
    with pytest.raises(FormatError):
        Meta.decode(block)


def test_a_live_bucket_tells_each_window_that_expires_once() -> None:
    cascade = Cascade("1 minute", retention=2)
    bucket = Bucket(cascade, {}, live=True, whole=True)
    gone: list[tuple[str, int]] = []
    for minute in range(200):
        came = Counters.of(
            np.array([minute * 60_000]), pa.array([f"user {minute % 3}"]), pa.array(["read"])
        )
        done = bucket.advance(came, now_ms=minute * 60_000)
        for part in done.gone.get(0, []):
            rows = part.to_table().to_pylist()
            gone.extend((row["user"], row["window_start_ms"]) for row in rows)

    kept = [
        (row["user"], row["window_start_ms"])
        for _, part in bucket.segments(0).between(NEVER, FOREVER)
        for row in part.to_table().to_pylist()
    ]
    every = [(f"user {minute % 3}", minute * 60_000) for minute in range(200)]
    assert sorted(gone + kept) == sorted(every)
    assert gone
    assert len(kept) < 70


def test_all_of_a_users_window_is_told_when_one_of_its_counts_changes() -> None:
    bucket = Bucket(Cascade("1 minute", "1 hour"), {}, whole=True)
    for action, start_ms in (("read", 0), ("write", 60_000), ("read", 120_000)):
        came = Counters.of(np.array([start_ms]), pa.array(["Ann"]), pa.array([action]))
        done = bucket.advance(came, now_ms=0)

    minutes, hours = (change.whole.to_table().to_pylist() for change in done.changes)
    assert [(row["action"], row["count"]) for row in minutes] == [("read", 1)]
    assert [(row["action"], row["count"]) for row in hours] == [("read", 2), ("write", 1)]
    assert [len(change.counters) for change in done.changes] == [1, 1]


@FEWER
@given(
    CASCADES,
    BATCHES,
    st.sampled_from([0, SECOND_MS, 20 * SECOND_MS, 10 * MINUTE_MS]),
    st.sampled_from([1, 7, 1_000]),
    st.sampled_from([None, 0, 30 * SECOND_MS, 2 * HOUR_MS]),
)
def test_a_live_window_closes_once_nothing_is_awaited_and_nothing_of_it_is_held_back(
    shape: tuple[str | Window, ...],
    batches: list[list[Event]],
    every_ms: int,
    most: int,
    lateness_ms: int | None,
) -> None:
    cascade = Cascade(*shape, retention=100_000, lateness=lateness_ms, max_counters_per_flush=most)
    watched, stream_ms, taken = Watched(cascade, live=True), NEVER, list[list[Event]]()
    wait_ms = 10 * MINUTE_MS if lateness_ms is None else lateness_ms
    for batch in [*batches, []]:
        taken.append(batch)
        done = watched.take(batch, flush=len(taken) > len(batches))
        stream_ms = max(stream_ms, reached_by(batch, cascade.pane_ms))
        for level, window in enumerate(cascade.windows):
            closing = done.closing[level]
            told = begun_in(watched.closed[level], closing.from_ms, closing.until_ms)
            came = begun_in(group_by(taken, window), closing.from_ms, closing.until_ms)
            assert told == came - late_on_arrival(cascade, level, taken)
            assert all(start + window.size_ms + wait_ms <= stream_ms for _, start, _ in told)
        watched.now_ms += every_ms
    for level, window in enumerate(cascade.windows if any(batches) else ()):  # all is flushed now
        next_end_ms = watched.until_ms[level] + window.size_ms
        assert next_end_ms - window.every_ms <= stream_ms - wait_ms < next_end_ms


def test_a_live_window_closes_ten_minutes_after_its_end_by_the_time_of_events() -> None:
    watched = Watched(Cascade("1 minute", "1 hour", flush={"1 hour": 0}), live=True)
    watched.take([("a", 0, "x")])
    assert watched.until_ms == [-10 * MINUTE_MS, -HOUR_MS]
    watched.wait(DAY_MS)
    watched.take([("a", 10 * MINUTE_MS, "x")])
    assert watched.closed == [{}, {}]
    watched.take([("a", 11 * MINUTE_MS, "x")])
    assert (watched.until_ms[0], watched.closed) == (MINUTE_MS, [{("a", 0, "x"): 1}, {}])
    watched.take([("a", 69 * MINUTE_MS, "x")])
    assert not watched.closed[1]
    watched.take([("a", 70 * MINUTE_MS, "x")])
    assert watched.closed[1] == {("a", 0, "x"): 3}


def test_a_window_of_which_anything_is_held_back_stays_open() -> None:
    cascade = Cascade("1 minute", "1 hour", flush={"1 minute": "10 minutes", "1 hour": 0})
    watched = Watched(cascade, live=True)
    watched.take([])
    watched.take([("a", 59 * MINUTE_MS, "x")])
    done = watched.take([("a", DAY_MS, "x")])
    assert done.as_of_ms.keys() == {0, 1}
    assert watched.until_ms == [59 * MINUTE_MS, 0]
    watched.wait(10 * MINUTE_MS)
    assert watched.closed == [{("a", 59 * MINUTE_MS, "x"): 1}, {("a", 0, "x"): 1}]
    assert watched.until_ms == [DAY_MS - 10 * MINUTE_MS, DAY_MS - HOUR_MS]


def test_each_hop_of_which_a_finer_window_holds_anything_back_stays_open() -> None:
    hop = Hop("7 minutes", every="2 minutes")
    watched = Watched(Cascade("1 minute", hop, flush={"1 minute": "10 minutes", hop: 0}), live=True)
    watched.take([])
    watched.take([("a", 5 * MINUTE_MS, "x")])
    watched.take([("a", DAY_MS, "x")])
    assert watched.until_ms == [5 * MINUTE_MS, 0]
    watched.wait(10 * MINUTE_MS)
    assert sorted(start // MINUTE_MS for _, start, _ in watched.closed[1]) == [0, 2, 4]


def test_closed_windows_come_segment_by_segment_each_with_up_to_when_it_goes() -> None:
    bucket = Bucket(Cascade("1 minute", "1 hour"), {}, live=True, told_closed=range(9))
    first = [("b", 0, "x"), *(("a", minute * MINUTE_MS, "x") for minute in (0, 59, 60, 61, 150))]
    done = bucket.advance(counters_of(first, MINUTE_MS), now_ms=LONG_AFTER_MS)
    assert not done.closing[0].parts
    second = counters_of([("a", 161 * MINUTE_MS, "x")], MINUTE_MS)
    done = bucket.advance(second, now_ms=LONG_AFTER_MS)
    told = [
        (end // MINUTE_MS, sorted(part.start_ms // MINUTE_MS))
        for end, part in done.closing[0].parts
    ]
    assert told == [(60, [0, 0, 59]), (120, [60, 61]), (151, [150])]


def test_windows_that_expire_with_the_batch_that_closes_them_are_told_before() -> None:
    cascade = Cascade("1 minute", "1 hour", retention=1, flush={"1 hour": 0})
    watched = Watched(cascade, live=True)
    watched.take([("a", 0, "x"), ("a", 1, "x")])
    assert watched.in_state(0) == {("a", 0, "x"): 2}
    watched.take([("a", 5 * DAY_MS, "x")])
    assert watched.in_state(0) == watched.in_state(1) == {("a", 5 * DAY_MS, "x"): 1}
    assert watched.closed == [{("a", 0, "x"): 2}, {("a", 0, "x"): 2}]


def test_what_comes_for_a_closed_window_counts_and_does_not_close_again() -> None:
    watched = Watched(Cascade("1 minute", retention=1_000), live=True)
    watched.take([("a", 0, "x")])
    watched.take([("a", HOUR_MS, "x")])
    watched.take([("a", 0, "x"), ("b", 2 * HOUR_MS, "x"), ("c", 2 * HOUR_MS, "x")])
    assert (watched.latest[0]["a", 0, "x"], watched.late) == (2, {})
    assert watched.closed[0] == {("a", 0, "x"): 1, ("a", HOUR_MS, "x"): 1}


@FEWER
@given(CASCADES, BATCHES)
def test_a_run_with_an_end_closes_all_windows_at_its_last_batch_and_none_before(
    shape: tuple[str | Window, ...], batches: list[list[Event]]
) -> None:
    cascade = Cascade(*shape)
    watched, stream_ms = Watched(cascade), NEVER
    for batch in batches:
        done = watched.take(batch)
        stream_ms = max(stream_ms, reached_by(batch, cascade.pane_ms))
        assert all(closing.until_ms == NEVER for closing in done.closing.values())
        assert not any(watched.rest)
    done = watched.take([], last=True)
    for level, window in enumerate(cascade.windows):
        right = group_by(batches, window)
        over_ms = stream_ms - 10 * MINUTE_MS - window.size_ms
        assert watched.closed[level] == {key: n for key, n in right.items() if key[1] <= over_ms}
        assert watched.rest[level] == {key: n for key, n in right.items() if key[1] > over_ms}


def test_windows_that_a_run_ends_in_close_for_good_in_the_one_that_goes_on() -> None:
    watched = Watched(Cascade("1 hour"))
    watched.take([("a", 0, "x"), ("a", HOUR_MS, "x")])
    watched.take([], last=True)
    assert (watched.closed, watched.rest) == ([{}], [{("a", 0, "x"): 1, ("a", HOUR_MS, "x"): 1}])
    watched.take([("a", HOUR_MS + 1, "x"), ("a", 3 * HOUR_MS, "x")])
    watched.take([], last=True)
    assert watched.closed == [{("a", 0, "x"): 1, ("a", HOUR_MS, "x"): 2}]
    assert watched.rest == [{("a", 3 * HOUR_MS, "x"): 1}]


def test_a_run_with_an_end_and_a_lateness_closes_windows_on_its_way() -> None:
    watched = Watched(Cascade("1 minute", lateness="30 seconds"))
    watched.take([("a", 0, "x")])
    watched.take([("a", 2 * MINUTE_MS, "x")])
    assert watched.closed[0] == {("a", 0, "x"): 1}
