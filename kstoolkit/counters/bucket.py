"""One bucket's cascade: what comes in is counted, held and handed from level to level.

The state is a handful of binary blocks, a mapping from short text to bytes, so this runs in Spark's
state store and in a plain dict alike.

======================  =====================================================================
key                     block
======================  =====================================================================
``meta``                :class:`Meta`, a version byte and JSON: stream time, last flushes, what
                        has expired, what is held back
``pending/<level>``     CountBlock: deltas that the level has not flushed yet (live runs)
``counts/<level>/<t>``  CountBlock: the counts of the windows that begin in segment t
``counts/…/<t>x<m>``    CountBlock: the same of m segments in a row, in each of which is little
``counts/…/…+<n>``      CountBlock: the n-th that came since for one of these, to be added to it
``history/<level>``     a user's baseline, kept by the operator
``items <level>/…``     what users touched: see :mod:`kstoolkit.counters.distinct`
======================  =====================================================================

A segment is up to sixty windows of a level, so that a day of minutes is 24 blocks, not 1,440. Where
little comes for a large one, it is laid beside it, and added to it once it is an eighth of it, or
when all its windows are closed: what is written follows what came, not what is held. The levels of
sessions come behind those of windows: see :mod:`kstoolkit.counters.sessions`.

How a batch goes through: each level judges what is late for it, holds the rest as pending, and,
when due, adds the pending deltas to its segments, reports the changed counters with their latest
values, and hands the same deltas, coarsened, to the levels below. A counter late for one level
still goes to the coarser ones. In a bounded run every level is due, so nothing stays pending.

What is late is told by the bucket's stream time, which no single user among others moves: it is
what most users of a batch have reached, in this bucket or another, and never beyond the batch's
clock. So a client whose clock is ahead makes nobody's events late, also while old data is counted
again. And it goes as far as the feed that is most behind, as a Kafka partition that catches up
after the others: none of them is late for what others brought, as long as it is a day behind at
most; but a feed with hardly any of the users holds back nobody.

What a level hands down is judged by the stream time at which the first of it came, and windows
that may still get some of it do not expire: holding deltas back makes no event late.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from kstoolkit.counters.counters import Counters
from kstoolkit.counters.sessions import rejoined
from kstoolkit.formats.countblock import check_version, damaged_block
from kstoolkit.windows import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence

    from numpy.typing import NDArray

    from kstoolkit.counters.counters import Widest
    from kstoolkit.windows import Cascade

Blocks: TypeAlias = "MutableMapping[str, bytes]"
"""Where a bucket's state lies."""

WINDOWS_PER_SEGMENT = 60

_LARGE, _SHARE, _MOST_BESIDE = 4096, 8, 16
"""From how many counters on a place has others beside it, up to what share of them, how often."""

_WIDE, _SMALL, _LONGEST_ROW = 4, 32_768, 128
"""What comes for more segments at once that are not held has several in a row share a block.

Up to so many counters are put in one, and so many segments; of twice as many, each is apart."""

MOST_ACTIONS = 10_000
"""A user with more different actions of several parts than this in a window is told of."""

_LIVE_LATENESS_MS = 600_000
"""How long a live run waits for events at least: two feeds of one user are minutes apart.

And how long after its end a window is closed, where no lateness is given."""

_HARDLY_ANY = 0.05
"""So few users has a feed that holds back no time, compared with the one that has the most."""

_LONGEST_HELD_MS = 24 * 3_600_000
"""So far any other may hold it back: of a clock that is years behind, windows would never end."""


def _segment_ms(cascade: Cascade, level: int) -> int:
    """Return how long a segment is: as many windows as the next length has, but sixty at most."""
    if level >= len(cascade.windows):
        return cascade.sessions[level - len(cascade.windows)].grain_ms
    every_ms, size_ms = cascade.windows[level].every_ms, cascade.windows[level].size_ms
    longer = [w.size_ms for w in cascade.windows if w.is_tumbling and w.size_ms > every_ms]
    ratio = min(longer, default=size_ms) // every_ms
    most = min(ratio, WINDOWS_PER_SEGMENT)
    fitting = (count for count in range(most, 0, -1) if ratio % count == 0)
    return every_ms * next(fitting, 1)


class _Dated(Protocol):
    """Rows of windows, as counters are."""

    @property
    def start_ms(self) -> NDArray[np.int64]: ...

    def take(self, chosen: NDArray[np.bool_], /) -> Self: ...


_Part = TypeVar("_Part", bound=_Dated)


@dataclass(frozen=True, slots=True, eq=False)
class Added:
    """What adding a delta did: the counters that changed, and what they were before (0 where new).

    ``whole`` has all counters of the users' windows that changed, ``gone`` those that were dropped,
    ``widest`` what has more actions of several parts than :data:`MOST_ACTIONS`.
    """

    changed: Counters
    old: NDArray[np.uint64]
    whole: Counters
    gone: Counters
    widest: Widest | None = None


class Place(NamedTuple):
    """Where a block is: at the segment that starts then, or at so many in a row.

    >>> str(Place(0)), str(Place(3_600_000, 24)), Place.of("3600000x24")
    ('0', '3600000x24', Place(start_ms=3600000, segments=24))
    """

    start_ms: int
    segments: int = 1

    @classmethod
    def of(cls, name: str) -> Place:
        """Return the place of a name."""
        start_ms, _, segments = name.partition("x")
        return cls(int(start_ms), int(segments or 1))

    def __str__(self) -> str:
        return f"{self.start_ms}" + f"x{self.segments}" * (self.segments > 1)


@dataclass(frozen=True, slots=True)
class Held(Generic[_Part]):
    """What is known of windows: blocks for the segments in which they begin, of ``length_ms``.

    A block's key is the ``prefix`` and its place.
    """

    blocks: Blocks
    prefix: str
    length_ms: int

    def at(self, place: Place) -> _Part:
        """Return what is known at a place."""
        raise NotImplementedError

    def between(self, from_ms: int, until_ms: int) -> Iterator[tuple[int, _Part]]:
        """Yield what is known of windows that begin then, the earliest place first.

        Beside each is up to when they go: the place's end, or ``until_ms``.
        """
        for place in self.places():
            end_ms = self.end_ms(place)
            if place.start_ms < until_ms and end_ms > from_ms:
                known = self.at(place)
                chosen = (known.start_ms >= from_ms) & (known.start_ms < until_ms)
                yield min(end_ms, until_ms), known.take(chosen)

    def drop(self, before_ms: int, *, whole: bool = False) -> list[_Part]:
        """Forget the places of which all windows begin before this; return them if ``whole``."""
        gone = []
        for place, number in self.places().items():
            if self.end_ms(place) <= before_ms:
                gone += [self.at(place)] if whole else []
                self._delete(place, range(number))
        return gone

    def places(self) -> dict[Place, int]:
        """Return what is held, the earliest place first, each with how many blocks it has."""
        keys = [key.removeprefix(self.prefix) for key in self.blocks if key.startswith(self.prefix)]
        names = Counter(key.partition("+")[0] for key in keys)
        return dict(sorted((Place.of(name), number) for name, number in names.items()))

    def end_ms(self, place: Place) -> int:
        """Return before when all windows of a place begin."""
        return place.start_ms + place.segments * self.length_ms

    def _key(self, place: Place, number: int = 0) -> str:
        return f"{self.prefix}{place}" + f"+{number}" * bool(number)

    def _delete(self, place: Place, numbers: Iterable[int]) -> None:
        for each in numbers:
            del self.blocks[self._key(place, each)]


class Segments(Held[Counters]):
    """The latest counts of a level, by segments."""

    __slots__ = ()

    def at(self, place: Place) -> Counters:
        """Return the latest counts at a place."""
        return Counters.merge(self._blocks_at(place))

    def fold(self, before_ms: int) -> None:
        """Have each place of which all windows begin before then in one block."""
        for place, number in self.places().items():
            if number > 1 and self.end_ms(place) <= before_ms:
                self._put(place, self.at(place), number)

    def _blocks_at(self, place: Place) -> list[Counters]:
        blocks = [counters_in(self.blocks, self._key(place))]
        while len(blocks[0]) >= _LARGE:  # else there are none beside it
            came = self.blocks.get(self._key(place, len(blocks)))
            if came is None:
                break
            blocks.append(Counters.decode(came))
        return blocks

    def _put(self, place: Place, now: Counters, number: int) -> None:
        """Write what is at a place, in so many blocks; each segment apart once it is much."""
        is_much = place.segments > 1 and len(now) >= 2 * _SMALL
        self._delete(place, range(0 if is_much else 1, number))
        parts = now.by_segment(self.length_ms) if is_much else [(place.start_ms, now)]
        for start_ms, part in parts:
            self.blocks[self._key(Place(start_ms) if is_much else place)] = part.encode()

    def _parted(self, delta: Counters) -> Iterator[tuple[Place, Counters]]:
        """Yield a delta by the places where it goes."""
        segment = delta.start_ms // self.length_ms
        first = segment.min()
        there, of_row = np.arange(first, segment.max() + 1), segment - first
        if len(there) > len(segment):
            there, of_row = np.unique(segment, return_inverse=True)
        rows = np.bincount(of_row, minlength=len(there))
        touched = np.flatnonzero(rows)
        starts = (there[touched] * self.length_ms).tolist()
        places, sizes = zip(*self._grouped(starts, rows[touched].tolist()), strict=True)
        if len(places) == 1:
            yield places[0], delta
            return
        # Short integers are sorted by their digits, in a tenth of the time.
        number = np.zeros(len(there), np.uint16 if len(places) < 1 << 16 else np.intp)
        number[touched] = np.repeat(np.arange(len(places)), sizes)
        order = np.argsort(number[of_row], kind="stable")
        edges = np.bincount(number[of_row]).cumsum()[:-1]
        for place, chosen in zip(places, np.split(order, edges), strict=True):
            yield place, delta.take(chosen)

    def _grouped(self, starts: list[int], rows: list[int]) -> Iterator[tuple[Place, int]]:
        """Yield where so many counters of segments go, and how many of the segments are there.

        What is held takes its own; what is new has a place of its own, unless much is at once.
        """
        held, at = list(self.places()), 0
        longest_ms = self.length_ms * (_LONGEST_ROW if len(starts) > _WIDE else 1)
        while at < len(starts):
            behind = bisect_right(held, Place(starts[at], _LONGEST_ROW))
            place = held[behind - 1] if behind else None
            if place is not None and starts[at] < self.end_ms(place):
                until = bisect_left(starts, self.end_ms(place))
            else:
                end_ms = min(
                    [starts[at] + longest_ms, *(each.start_ms for each in held[behind:][:1])]
                )
                until, room = at + 1, _SMALL - rows[at]
                while until < len(starts) and starts[until] < end_ms and rows[until] <= room:
                    room, until = room - rows[until], until + 1
                place = Place(starts[at], (starts[until - 1] - starts[at]) // self.length_ms + 1)
            yield place, until - at
            at = until

    def add(self, delta: Counters, *, from_ms: int | None = None, whole: bool = False) -> Added:
        """Add a delta, not empty; return the counters that it changed, and what they were before.

        Windows that begin before ``from_ms`` are dropped from the segments that are written anyway.
        ``whole`` asks for all counters of the windows that changed, too, and for those dropped.
        """
        changed, old, beside, gone = [], [], [], []
        wide: list[Widest | None] = []
        for place, part in self._parted(delta):
            blocks = self._blocks_at(place)
            came, large = sum(map(len, [*blocks[1:], part])), len(blocks[0])
            if large >= _LARGE and came * _SHARE <= large and len(blocks) <= _MOST_BESIDE:
                known = Counters.merge([each.of_users(part.users) for each in blocks])
                now, part_changed, part_old = known.add(part)
                self.blocks[self._key(place, len(blocks))] = part.encode()
            else:
                known = Counters.merge(blocks)
                retained = known if from_ms is None else known.take(known.start_ms >= from_ms)
                now, part_changed, part_old = retained.add(part)
                self._put(place, now, len(blocks))
                if whole and from_ms is not None:
                    gone.append(known.take(known.start_ms < from_ms))
            wide.append(now.widest(MOST_ACTIONS))
            changed.append(part_changed)
            old.append(part_old)
            if whole:
                beside.append(now.of_same_windows(part_changed))
        joined, was = changed[0], old[0]
        if len(changed) > 1:
            joined, order = Counters.join(changed)  # segments share no key
            was = np.concatenate(old)[order]
        widest = max(filter(None, wide), default=None)
        return Added(joined, was, Counters.merge(beside), Counters.merge(gone), widest)

    def join(
        self, came: Counters, session: Session, *, from_ms: int | None = None, whole: bool = False
    ) -> Added:
        """Join pieces of sessions, not none, with the sessions that they may touch.

        Parameters and result are those of :meth:`add`.
        """
        first_ms = int(came.start_ms.min()) - session.longest_ms - session.gap_ms
        last_ms = int((came.start_ms if came.end_ms is None else came.end_ms).max())
        near = range(first_ms - self.length_ms + 1, last_ms + session.gap_ms + 1)
        known = Counters.join([self.at(each) for each in self.places() if each.start_ms in near])[0]
        is_gone = known.start_ms < (NEVER if from_ms is None else from_ms)
        now, changed, old = rejoined(known.take(~is_gone), came, session)
        is_living = changed.count > 0
        now_by_segment = dict(now.by_segment(self.length_ms))
        for start_ms, _ in changed.by_segment(self.length_ms):
            key = f"{self.prefix}{start_ms}"
            if start_ms in now_by_segment:
                self.blocks[key] = now_by_segment[start_ms].encode()
            else:
                self.blocks.pop(key, None)
        beside = Counters.empty()
        if whole:  # and those that there are no more
            parts = [now.of_same_windows(changed.take(is_living)), changed.take(~is_living)]
            beside = Counters.join(parts)[0]
        return Added(changed, old, beside, known.take(is_gone))


def counters_in(blocks: Blocks, key: str) -> Counters:
    """Return the counters of a block; none if there is no such block."""
    block = blocks.get(key)
    return Counters.empty() if block is None else Counters.decode(block)


NEVER, FOREVER = -(1 << 62), 1 << 62  # before and after all times
_NAME = "bucket's memory"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Meta:
    """What a bucket remembers beside its counts; but for the first, one figure a level.

    ``stream_ms`` is stream time: the latest pane that most users of a batch reached, by its clock.
    A level was last flushed at ``flushed_ms``, by the batches' clock, which may have been ahead.
    Windows that begin before ``expired_ms`` are gone from state. Of its pending deltas, the first
    came at stream time ``held_since_ms``, the earliest window is ``held_from_ms``. Windows that
    begin before ``closed_ms`` are closed: what comes for them still counts, but what is usual is
    told without it. ``latest_ms`` is the latest pane of any event in any bucket.
    """

    stream_ms: int
    flushed_ms: tuple[int, ...]
    expired_ms: tuple[int, ...]
    held_since_ms: tuple[int, ...]
    held_from_ms: tuple[int, ...]
    closed_ms: tuple[int, ...]
    latest_ms: int = NEVER

    @classmethod
    def new(cls, levels: int) -> Meta:
        """Return the memory of a bucket that has seen nothing."""
        never, forever = (NEVER,) * levels, (FOREVER,) * levels
        return cls(NEVER, never, never, forever, forever, never)

    def at(self, level: int, **figures: int) -> Meta:
        """Return the same with other figures of one level."""
        changed: dict[str, Any] = {}
        for name, figure in figures.items():
            before = getattr(self, name)
            changed[name] = (*before[:level], figure, *before[level + 1 :])
        return replace(self, **changed)

    def encode(self) -> bytes:
        """Return a version byte and JSON."""
        return bytes([_VERSION]) + json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, block: bytes) -> Meta:
        """Read what :meth:`encode` wrote; damage and newer versions are a FormatError."""
        check_version(block, _NAME, _VERSION)
        try:
            read = json.loads(block[1:])
            stream_ms, latest_ms = int(read.pop("stream_ms")), int(read.pop("latest_ms", NEVER))
            read.setdefault("closed_ms", [NEVER] * len(read["flushed_ms"]))  # of earlier releases
            levels = {name: tuple(each) for name, each in read.items()}
            return cls(stream_ms, latest_ms=latest_ms, **levels)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise damaged_block(block, _NAME, error) from error


class Reached(NamedTuple):
    """How far a feed is: the latest pane that more than half of its users have, and their number.

    And the latest pane of any of them.

    >>> import pyarrow as pa
    >>> users, actions = pa.array(["a", "a", "b", "c"]), pa.array(["x"] * 4)
    >>> Reached.by_most(Counters.of(np.array([60_000, 0, 0, 60_000]), users, actions))
    Reached(pane_ms=60000, users=3, latest_ms=60000)
    """

    pane_ms: int
    users: int
    latest_ms: int

    @classmethod
    def by_most(cls, feed: Counters) -> Reached:
        """Return how far most users of a feed are, which has any."""
        is_last = np.r_[np.diff(feed.user) != 0, True]  # counters are sorted by user, then by pane
        latest = feed.start_ms[is_last]
        middle = (len(latest) - 1) // 2
        return cls(int(np.partition(latest, middle)[middle]), len(latest), int(latest.max()))

    @staticmethod
    def by_all(feeds: Iterable[Reached]) -> int:
        """Return the latest pane that all feeds have reached, but for those of hardly any users."""
        told = sorted(feeds)
        if not told:
            return NEVER
        users = np.array([each.users for each in told])
        on_the_whole = told[int(np.searchsorted(users.cumsum(), users.sum() / 2))]
        first = told[int(np.argmax(users > _HARDLY_ANY * users.max()))]
        return max(first.pane_ms, on_the_whole.pane_ms - _LONGEST_HELD_MS)


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """The counters of one level that a flush changed, with their latest counts.

    ``whole`` has all counters of the users' windows that changed, where that was asked for.
    """

    level: int
    counters: Counters
    whole: Counters = field(default_factory=Counters.empty)


@dataclass(frozen=True, slots=True)
class Closing:
    """The windows of a level that one batch closed: those that begin from then and before then.

    ``parts`` has their counters by segment, each with up to when it goes; ``rest``, in a run that
    ends, likewise those of windows that may go on in the next. No event is later than
    ``latest_ms``, in any bucket.
    """

    from_ms: int
    until_ms: int
    parts: Iterable[tuple[int, Counters]]
    rest: Iterable[tuple[int, Counters]]
    latest_ms: int


@dataclass(slots=True)
class Advance:
    """What one batch did to a bucket: what its flushed levels report, and figures by level.

    ``late`` counts events once for each window that missed them, ``backlog`` the counters that a
    level which was due had to leave, ``gone`` has those that expired, where that was asked for.
    ``as_of_ms`` tells, of a level that lacks what it or a finer one holds back, the clock of the
    last whole flush; ``due_ms``, at which clock the first of it is due, ``None`` if all is flushed.
    ``widest`` has more actions of several parts in a window than :data:`MOST_ACTIONS`, and
    ``closing`` has which windows of each level were closed.
    """

    changes: list[Changes] = field(default_factory=list)
    late: dict[int, int] = field(default_factory=dict)
    backlog: dict[int, int] = field(default_factory=dict)
    gone: dict[int, list[Counters]] = field(default_factory=dict)
    as_of_ms: dict[int, int] = field(default_factory=dict)
    due_ms: int | None = None
    widest: Widest | None = None
    closing: dict[int, Closing] = field(default_factory=dict)


_NO_SESSIONS: Mapping[int, Counters] = {}


@dataclass(slots=True)
class Bucket:
    """The cascade of one bucket of users, over the blocks in which its state lies.

    Its ``number`` among the ``buckets`` staggers the flushes of an endless ``live`` run: there
    levels flush at intervals and expire. A ``whole`` one tells, beside what changed, all counters
    of the same windows, and what expires. Windows of levels ``told_closed`` are told once closed.
    """

    cascade: Cascade
    blocks: Blocks
    number: int = 0
    buckets: int = 1
    live: bool = False
    whole: bool = False
    told_closed: Collection[int] = ()

    def advance(
        self,
        arrivals: Counters,
        *,
        sessions: Mapping[int, Counters] = _NO_SESSIONS,
        now_ms: int,
        flush: bool = False,
        quiet: bool = False,
        last: bool = False,
        feeds: Sequence[Reached] = (),
    ) -> Advance:
        """Count what arrived, and return what changed.

        ``arrivals`` are counts by pane, or by anything finer than the cascade's pane; ``sessions``,
        of the same events, the pieces of the cascade's sessions, by their number among these.
        ``feeds`` tell how far each task of the batch is; none told, ``arrivals`` are all there is.
        ``now_ms`` is the batch's clock, the same again when a batch is replayed. In a ``flush``
        every level is due, and hands on all that it holds; ``quiet``: each is due as nothing came,
        to any bucket; ``last``: a bounded run ends.
        """
        levels, block = len(self.cascade.levels), self.blocks.get("meta")
        meta = Meta.new(levels) if block is None else Meta.decode(block)
        turn = _Turn(meta, now_ms, [[] for _ in range(levels)], flush=flush, quiet=quiet)
        self._hand_down(None, arrivals, meta.stream_ms, turn)
        for number, came in sessions.items():
            turn.inbox[len(self.cascade.windows) + number].append((came, meta.stream_ms))
        for level in range(levels):
            self._pass(level, turn)
        told = feeds or ([Reached.by_most(arrivals)] if len(arrivals) else [])
        stream_ms = max(turn.meta.stream_ms, min(Reached.by_all(told), now_ms))
        latest_ms = max((turn.meta.latest_ms, *(each.latest_ms for each in told)))
        meta = replace(turn.meta, stream_ms=stream_ms, latest_ms=latest_ms)
        meta = self._close(meta, turn.done, last=last)
        meta = self._expire(meta, turn.done)
        self.blocks["meta"] = meta.encode()
        self._tell_waiting(meta, turn)
        return turn.done

    def segments(self, level: int) -> Segments:
        """Return the latest counts of a level, segment by segment, the earliest first."""
        return Segments(self.blocks, f"counts/{level}/", _segment_ms(self.cascade, level))

    def _hand_down(self, level: int | None, delta: Counters, clock_ms: int, turn: _Turn) -> None:
        for child in range(len(self.cascade.windows)):
            if self.cascade.parent(child) == level:
                turn.inbox[child].append((delta, clock_ms))

    def _pass(self, level: int, turn: _Turn) -> None:
        """Take a level's turn: judge, hold, flush, hand down."""
        timely, since_ms = self._take_in(level, turn)
        is_due = turn.flush or turn.quiet
        is_due = is_due or self._is_due(level, turn.meta.flushed_ms[level], turn.now_ms)
        if not is_due and not len(timely):
            return
        since_ms = min(since_ms, turn.meta.held_since_ms[level])
        due, rest = self._split(level, timely, is_due=is_due, flush=turn.flush)
        turn.meta = turn.meta.at(
            level,
            held_since_ms=since_ms if len(rest) else FOREVER,
            held_from_ms=int(rest.start_ms.min(initial=FOREVER)),
        )
        if is_due and len(rest):
            turn.done.backlog[level] = len(rest)
        elif is_due:
            turn.meta = turn.meta.at(level, flushed_ms=turn.now_ms)
        if len(due):
            from_ms = turn.meta.expired_ms[level] if self.live else None
            added = self._added(level, due, from_ms)
            turn.done.changes.append(Changes(level, added.changed, added.whole))
            turn.done.widest = max(filter(None, (turn.done.widest, added.widest)), default=None)
            self._tell_gone(level, added.gone, turn.done)
            self._hand_down(level, due, since_ms, turn)

    def _added(self, level: int, due: Counters, from_ms: int | None) -> Added:
        window = self.cascade.levels[level]
        if isinstance(window, Session):
            return self.segments(level).join(due, window, from_ms=from_ms, whole=self.whole)
        return self.segments(level).add(due, from_ms=from_ms, whole=self.whole)

    def _take_in(self, level: int, turn: _Turn) -> tuple[Counters, int]:
        """Return what the level takes of its inbox, and the stream time when the first came."""
        timely, since_ms, window = [], FOREVER, self.cascade.levels[level]
        for delta, clock_ms in turn.inbox[level]:
            came = delta if level >= len(self.cascade.windows) else delta.coarsen(window)
            is_late = self._is_late(level, came, clock_ms, turn.meta.expired_ms[level])
            if is_late.any():
                late, came = came.take(is_late), came.take(~is_late)
                turn.done.late[level] = turn.done.late.get(level, 0) + late.total
                self._hand_down(level, late, clock_ms, turn)
            if len(came):
                timely.append(came)
                since_ms = min(since_ms, clock_ms)
        return Counters.merge(timely), since_ms

    def _is_late(
        self, level: int, came: Counters, clock_ms: int, expired_ms: int
    ) -> NDArray[np.bool_]:
        late = came.start_ms < expired_ms
        if (lateness_ms := self._lateness_ms(level)) is not None:
            size_ms = self.cascade.levels[level].size_ms
            # The size of sessions is minus their gap: they may go on so long behind their ends.
            over_ms = came.start_ms + size_ms if came.end_ms is None else came.end_ms - size_ms
            late |= over_ms + lateness_ms <= clock_ms
        return late

    def _lateness_ms(self, level: int) -> int | None:
        lateness_ms = self.cascade.lateness_ms[level]
        if lateness_ms is None and self.live:
            return max(self._retained_ms(level), _LIVE_LATENESS_MS)
        return lateness_ms

    def _retained_ms(self, level: int) -> int:
        """How long after its end a live run keeps a window: until enough later ones have begun."""
        return (self.cascade.retention[level] - 1) * self.cascade.levels[level].every_ms

    def _is_due(self, level: int, flushed_ms: int, now_ms: int) -> bool:
        """Whether a flush time of this bucket lies between the last flush and now, or now and it.

        A clock that was ahead puts no flush off.
        """
        every_ms = self.cascade.flush_ms[level]
        if not self.live or every_ms == 0:
            return True
        return self._next_flush_ms(level, now_ms) != self._next_flush_ms(level, flushed_ms)

    def _next_flush_ms(self, level: int, after_ms: int) -> int:
        """Return the level's first flush time after another time.

        Spread over the interval by bucket, so that not all rewrite long windows in one micro-batch.
        """
        every_ms = self.cascade.flush_ms[level]
        shift_ms = every_ms * self.number // self.buckets
        return ((after_ms - shift_ms) // every_ms + 1) * every_ms + shift_ms

    def _split(
        self, level: int, timely: Counters, *, is_due: bool, flush: bool
    ) -> tuple[Counters, Counters]:
        """Return what the level flushes now, and what stays pending.

        No more stays than one flush hands on: where more comes than that, flushes grow, batches
        take longer, and nothing new is taken from the source meanwhile.
        """
        key = f"pending/{level}"
        before = counters_in(self.blocks, key)
        pending = Counters.merge([before, timely])
        most = len(pending)
        if self.live and not flush:
            at_once = self.cascade.max_counters_per_flush
            most = max(at_once, most - at_once)
        due, rest = _oldest(pending, most) if is_due else (Counters.empty(), pending)
        if len(rest):
            self.blocks[key] = rest.encode()
        elif len(before):
            del self.blocks[key]
        return due, rest

    def _tell_waiting(self, meta: Meta, turn: _Turn) -> None:
        """Tell which levels lack something that is held back, as of when they stand, till when."""
        since_ms: dict[int, int] = {}
        for level, flushed_ms in enumerate(meta.flushed_ms):
            above = self.cascade.parent(level)
            reached = [since_ms[above]] if above is not None and above in since_ms else []
            if meta.held_from_ms[level] != FOREVER:
                reached.append(flushed_ms)
                is_left = level in turn.done.backlog
                due_ms = turn.now_ms if is_left else self._next_flush_ms(level, flushed_ms)
                turn.done.due_ms = min(due_ms, turn.done.due_ms or due_ms)
            if reached:
                since_ms[level] = min(reached)
        turn.done.as_of_ms = since_ms

    def _tell_gone(self, level: int, gone: Counters, done: Advance) -> None:
        if self.whole and len(gone):
            done.gone.setdefault(level, []).append(gone)

    def _close(self, meta: Meta, done: Advance, *, last: bool) -> Meta:
        """Close the windows that nothing comes for any more, by stream time.

        Where no lateness is given, a run that has an end takes whatever comes until then.
        """
        for level, window in enumerate(self.cascade.levels):
            wait_ms, from_ms = self.cascade.lateness_ms[level], meta.closed_ms[level]
            until_ms = from_ms
            if wait_ms is not None or self.live or last:
                wait_ms = _LIVE_LATENESS_MS if wait_ms is None else wait_ms
                if isinstance(window, Session):
                    wait_ms += window.longest_ms + window.gap_ms
                open_ms = meta.stream_ms - wait_ms - max(window.size_ms, 0)
                open_ms = min(open_ms, self._first_held_ms(level, meta) - window.every_ms)
                until_ms = max((open_ms // window.every_ms + 1) * window.every_ms, from_ms)
            if until_ms > from_ms:
                self.segments(level).fold(until_ms)
            is_told = level in self.told_closed
            parts = Begun(self, level, from_ms, until_ms) if is_told and until_ms > from_ms else ()
            rest = Begun(self, level, until_ms, FOREVER) if is_told and last else ()
            # What expires with this batch is taken out of state below.
            closed = list(parts) if self.live else parts
            done.closing[level] = Closing(from_ms, until_ms, closed, rest, meta.latest_ms)
            meta = meta.at(level, closed_ms=until_ms)
        return meta

    def closed(self, level: int, from_ms: int, until_ms: int) -> Iterator[tuple[int, Counters]]:
        """Yield the counters of windows that begin then, in order, each part with its end."""
        parts = self.segments(level).between(from_ms, until_ms)
        if isinstance(self.cascade.levels[level], Session):  # whose gaps are parted by no segment
            yield until_ms, Counters.join([each for _, each in parts])[0]
        else:
            yield from parts

    def _expire(self, meta: Meta, done: Advance) -> Meta:
        """Drop the segments of which a live run retains no window any more."""
        if not self.live:
            return meta
        for level, window in enumerate(self.cascade.levels):
            keep_ms = max(self._retained_ms(level), self._lateness_ms(level) or 0)
            if isinstance(window, Session):  # whose piece is still timely may reach so far back
                keep_ms += window.grain_ms + 2 * window.gap_ms
            before_ms = meta.stream_ms - keep_ms - window.span_ms + 1  # the first start still kept
            before_ms = min(before_ms, self._first_held_ms(level, meta))
            segments = self.segments(level)
            if before_ms // segments.length_ms > meta.expired_ms[level] // segments.length_ms:
                gone = Counters.merge(segments.drop(before_ms, whole=self.whole))
                self._tell_gone(level, gone, done)
            meta = meta.at(level, expired_ms=max(meta.expired_ms[level], before_ms))
        return meta

    def _first_held_ms(self, level: int, meta: Meta) -> int:
        """Return the earliest window that is still to get what it or a finer level holds back."""
        window = self.cascade.levels[level]
        first_ms, above = meta.held_from_ms[level], self.cascade.parent(level)
        if isinstance(window, Session):
            return first_ms - window.longest_ms - window.gap_ms
        while above is not None:
            first_ms = min(first_ms, window.first_of(meta.held_from_ms[above]))
            above = self.cascade.parent(above)
        return first_ms


@dataclass(frozen=True, slots=True)
class Begun:
    """The counters of a level's windows that begin at some time, read as often as is asked for.

    For rules look at them by several parts of an action, one behind the other.
    """

    bucket: Bucket
    level: int
    from_ms: int
    until_ms: int

    def __iter__(self) -> Iterator[tuple[int, Counters]]:
        return self.bucket.closed(self.level, self.from_ms, self.until_ms)


@dataclass(slots=True)
class _Turn:
    """A batch on its way through the levels; beside each delta, the stream time when it came."""

    meta: Meta
    now_ms: int
    inbox: list[list[tuple[Counters, int]]]
    flush: bool = False
    quiet: bool = False
    done: Advance = field(default_factory=Advance)


def _oldest(pending: Counters, most: int) -> tuple[Counters, Counters]:
    """Split off the counters of the earliest windows, at most ``most`` of them."""
    if len(pending) <= most:
        return pending, Counters.empty()
    chosen = np.zeros(len(pending), dtype=bool)
    chosen[np.argsort(pending.start_ms, kind="stable")[:most]] = True
    return pending.take(chosen), pending.take(~chosen)
