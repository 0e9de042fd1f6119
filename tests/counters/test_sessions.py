"""Sessions against plain Python, which sorts all events of a user and looks at each pause."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.counters.bucket import FOREVER, NEVER, Advance, Bucket
from kstoolkit.counters.counters import Counters
from kstoolkit.counters.sessions import joined, pieces
from kstoolkit.errors import ConfigurationError, FormatError
from kstoolkit.formats import countblock
from kstoolkit.windows import Cascade, Session, as_window

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
Event = tuple[str, int, str]
Sessions = dict[tuple[str, int, str], tuple[int, int]]
"""By user, first event and action: the last event, and how many there are."""

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["Anna", "Bo", "Čeněk"]),
        # Pauses of exactly the gap, and a millisecond more, come often.
        st.builds(
            lambda minutes, more: minutes * MINUTE_MS + more,
            st.integers(-60, 600),
            st.sampled_from([0, 0, 1, -1, 30_000]),
        ),
        st.sampled_from(["read", "write"]),
    ),
    max_size=30,
)
BATCHES = st.lists(EVENTS, max_size=6)
SESSION = st.builds(
    lambda gap, by: Session(f"{gap} minutes", longest="1 day", by=by),
    st.integers(1, 60),
    st.sampled_from([None, []]),
)
FEWER = settings(max_examples=60)  # each is a whole run


def plainly(events: list[Event], session: Session) -> Sessions:
    """Find the sessions one event at a time."""
    found: Sessions = {}
    groups: dict[tuple[str, ...], list[Event]] = {}
    for event in sorted(events, key=lambda each: each[1]):
        user, _, action = event
        groups.setdefault((user,) if session.is_over_all else (user, action), []).append(event)
    for group in groups.values():
        breaks = [n for n, (a, b) in enumerate(pairwise(group), 1) if b[1] - a[1] > session.gap_ms]
        for first, end in pairwise([0, *breaks, len(group)]):
            of_one = group[first:end]
            for user, _, action in of_one:
                key = user, of_one[0][1], action
                found[key] = (of_one[-1][1], found.get(key, (0, 0))[1] + 1)
    return found


def pieces_of(events: list[Event], session: Session) -> Counters:
    users, times, actions = zip(*events, strict=True) if events else ((), (), ())
    texts = pa.array(users, pa.string()), pa.array(actions, pa.string())
    return pieces(np.array(times, np.int64), *texts, session)


def rows_of(counters: Counters) -> Sessions:
    """Return counters as plain values; each key must be there once."""
    batch = counters.to_batch()
    users, actions = batch.column("user").to_pylist(), batch.column("action").to_pylist()
    keys = list(zip(users, counters.start_ms.tolist(), actions, strict=True))
    assert len(keys) == len(set(keys))
    if counters.end_ms is None:
        assert not keys
        return {}
    values = zip(counters.end_ms.tolist(), counters.count.tolist(), strict=True)
    return dict(zip(keys, values, strict=True))


@dataclass
class Told:
    """A bucket with one kind of session, and what a reader of all its reports knows."""

    session: Session
    live: bool = False
    lateness: str | None = None
    blocks: dict[str, bytes] = field(default_factory=dict)
    latest: Sessions = field(default_factory=dict)

    @property
    def bucket(self) -> Bucket:
        cascade = Cascade("1 minute", self.session, lateness=self.lateness)
        return Bucket(cascade, self.blocks, live=self.live, told_closed=range(9))

    def take(self, events: list[Event], *, now_ms: int = 1 << 50, flush: bool = False) -> Advance:
        found = pieces_of(events, self.session)
        panes = Counters.empty()
        if len(found):
            columns = found.to_batch()
            minutes = found.start_ms // MINUTE_MS * MINUTE_MS
            panes = Counters.of(minutes, columns["user"], columns["action"], found.count)
        done = self.bucket.advance(panes, sessions={0: found}, now_ms=now_ms, flush=flush)
        for changes in done.changes:
            if changes.level == 1:
                self.learn(changes.counters)
        return done

    def learn(self, changed: Counters) -> None:
        assert changed.end_ms is not None
        self.latest |= rows_of(changed)
        self.latest = {key: told for key, told in self.latest.items() if told[1]}

    def held(self) -> Sessions:
        found: Sessions = {}
        for _, each in self.bucket.segments(1).between(NEVER, FOREVER):
            found |= rows_of(each)
        return found


@FEWER
@given(BATCHES, SESSION)
def test_in_any_order_they_are_those_of_all_events_at_once(
    batches: list[list[Event]], session: Session
) -> None:
    told = Told(session)
    for events in batches:
        assert not told.take(events).late
    right = plainly([event for events in batches for event in events], session)
    assert told.latest == told.held() == right


@FEWER
@given(EVENTS, SESSION, st.integers(1, 5))
def test_a_live_run_comes_to_the_same_when_events_are_late_by_less_than_was_said(
    events: list[Event], session: Session, batches: int
) -> None:
    told = Told(session, live=True, lateness="1 hour")
    ordered = sorted(
        events, key=lambda event: event[1] + crc32(repr(event).encode()) % HOUR_MS // 2
    )
    for number in range(batches):
        some = ordered[number * len(events) // batches : (number + 1) * len(events) // batches]
        now_ms = max((event[1] for event in ordered), default=0) + number * MINUTE_MS
        assert not told.take(some, now_ms=now_ms).late
    told.take([], now_ms=1 << 50, flush=True)
    assert told.latest == plainly(events, session)


@given(BATCHES, st.sampled_from([None, []]))
def test_none_is_longer_than_the_longest_and_every_event_is_in_one(
    batches: list[list[Event]], by: list[str] | None
) -> None:
    session = Session("1 hour", longest="90 minutes", by=by)
    told = Told(session)
    for events in batches:
        told.take(events)
    every = [event for events in batches for event in events]
    assert sum(count for _, count in told.held().values()) == len(every)
    assert told.latest == told.held()
    for (user, start_ms, action), (end_ms, _) in told.held().items():
        assert 0 <= end_ms - start_ms <= session.longest_ms
        times = [ms for who, ms, what in every if who == user and (by == [] or what == action)]
        assert start_ms in times
        assert end_ms in times


def test_one_that_reaches_the_longest_ends_there_and_what_follows_begins_anew() -> None:
    session = Session("10 minutes", longest="1 hour")
    told = Told(session)
    for minute in range(0, 150, 5):
        told.take([("a", minute * MINUTE_MS, "x")])
    spans = sorted(
        (start // MINUTE_MS, end // MINUTE_MS) for (_, start, _), (end, _) in told.held().items()
    )
    assert spans == [(0, 60), (65, 125), (130, 145)]


def test_a_late_event_prolongs_one_and_joins_two_which_is_told_with_a_count_of_0() -> None:
    session = Session("1 minute")
    told = Told(session)
    told.take([("a", 0, "x"), ("a", 120_000, "x")])
    done = told.take([("a", 60_000, "x")])
    (changes,) = [each for each in done.changes if each.level == 1]
    assert changes.counters.start_ms.tolist() == [0, 120_000]
    assert changes.counters.count.tolist() == [3, 0]
    assert told.held() == {("a", 0, "x"): (120_000, 3)}


def test_a_session_over_all_actions_counts_each_of_them() -> None:
    found = pieces_of(
        [("a", 0, "x"), ("a", 50_000, "y"), ("a", 100_000, "x")], Session("1 minute", by=[])
    )
    assert rows_of(found) == {("a", 0, "x"): (100_000, 2), ("a", 0, "y"): (100_000, 1)}


def test_a_live_bucket_lets_go_of_sessions_that_nothing_timely_can_touch() -> None:
    told = Told(Session("1 minute", longest="1 hour"), live=True)
    for minute in range(0, 900, 3):
        told.take([("a", minute * MINUTE_MS, "x")], now_ms=minute * MINUTE_MS)
    assert len(told.latest) > 270
    assert len(told.held()) < 100
    late = told.take([("a", 0, "x")], now_ms=900 * MINUTE_MS)
    assert late.late[1] == 1


@FEWER
@given(EVENTS, SESSION, st.integers(1, 5))
def test_a_live_session_closes_once_and_is_then_what_it_stays(
    events: list[Event], session: Session, batches: int
) -> None:
    told, closed = Told(session, live=True, lateness="1 hour"), Sessions()
    ordered = sorted(events, key=lambda event: event[1])
    for number in range(batches + 1):
        some = ordered[number * len(events) // batches : (number + 1) * len(events) // batches]
        some += [("later", DAY_MS * 3, "x")] * (number == batches)
        done = told.take(some, flush=number == batches)
        for until_ms, part in done.closing[1].parts:
            assert until_ms == done.closing[1].until_ms
            assert not rows_of(part).keys() & closed.keys()
            closed |= rows_of(part)
    assert closed == plainly(events, session)


def test_a_live_session_closes_when_the_longest_one_that_began_with_it_would_be_over() -> None:
    told = Told(Session("1 minute", longest="1 hour"), live=True)
    told.take([("a", 0, "x")])
    assert not closed_in(told.take([("a", 71 * MINUTE_MS - 1, "x")]))
    assert closed_in(told.take([("a", 72 * MINUTE_MS, "x")])) == {("a", 0, "x"): (0, 1)}


def closed_in(done: Advance) -> Sessions:
    ((_, part),) = done.closing[1].parts or [(0, Counters.empty())]
    return rows_of(part)


def test_all_sessions_close_at_the_last_batch_of_a_run_with_an_end_and_none_before() -> None:
    told = Told(Session("1 minute", longest="1 hour"))
    done = told.take([("a", 0, "x"), ("b", 3 * HOUR_MS, "x"), ("c", 3 * HOUR_MS, "x")])
    assert not closed_in(done)
    done = told.bucket.advance(Counters.empty(), now_ms=1 << 50, last=True)
    assert closed_in(done) == {("a", 0, "x"): (0, 1)}
    ((_, rest),) = done.closing[1].rest
    assert {user for user, _, _ in rows_of(rest)} == {"b", "c"}


def test_what_a_block_holds_is_read_as_it_was_written() -> None:
    found = pieces_of([("a", 0, "x"), ("b", 7, "y")], Session("1 minute"))
    assert rows_of(Counters.decode(found.encode())) == rows_of(found)
    older = bytes([6]) + countblock.to_ipc(found.to_batch())
    assert rows_of(Counters.decode(older)) == rows_of(found)
    with pytest.raises(FormatError):
        Counters.decode(bytes([1]) + older[1:])


@pytest.mark.parametrize(
    "session",
    [
        Session("30 minutes"),
        Session("30 minutes", longest="12 hours"),
        Session("90 s", by=[]),
        Session("1 hour", longest="1 hour", by=[]),
    ],
)
def test_a_label_is_read_as_the_sessions_that_it_names(session: Session) -> None:
    assert as_window(session.label) == session
    assert eval(repr(session), {"Session": Session}) == session  # noqa: S307 - of our own text
    cascade = Cascade("1 hour", session)
    assert cascade.index(f"session {session.gap_ms} ms") == 1
    assert cascade.labels == ("1 hour", session.label)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Session("1 day", longest="1 hour"), "has no pause of 1 day"),
        (lambda: Session("1 day", by=["region"]), "no sessions by region"),
        (lambda: Session("0 s"), "not positive"),
        (lambda: Cascade(Session("1 hour")), "no windows"),
        (lambda: Cascade("1 hour", Session("1 h"), Session("1 h", by=[])), "named twice"),
    ],
)
def test_what_makes_no_sessions_is_said(make: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()  # type: ignore[operator]


def test_no_events_have_no_sessions() -> None:
    assert len(joined(pieces_of([], Session("1 minute")), Session("1 minute"))) == 0
