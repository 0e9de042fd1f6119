"""One bucket's cascade: what comes in is counted, held and handed from level to level.

The state is a handful of binary blocks behind a small protocol (:class:`Blocks`), so this runs in
Spark's state store and in a plain dict alike.

======================  =====================================================================
key                     block
======================  =====================================================================
``meta``                :class:`Meta`: stream time, last flushes, what has expired
``pending/<level>``     CountBlock: deltas that the level has not flushed yet (live runs)
``counts/<level>/<t>``  CountBlock: the latest counts of the windows that begin in segment t
``history/<level>``     a user's baseline, kept by the caller's :class:`History`
======================  =====================================================================

A segment is up to sixty windows of a level, so that a day of minutes is 24 blocks, not 1,440.

How a batch goes through: each level judges what is late for it, holds the rest as pending, and,
when it is due, adds the pending deltas to its segments, reports the counters that changed with
their latest values, and hands the same deltas, coarsened, to the levels below. A counter that is
late for one level still goes to the coarser ones. In a bounded run every level is always due, so
nothing stays pending.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kstoolkit.counters.counters import Counters
from kstoolkit.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kstoolkit.windows import Cascade, Window

__all__ = ["Advance", "Blocks", "Bucket", "Changes", "Meta"]

WINDOWS_PER_SEGMENT = 60
_META_VERSION = 1
_NEVER = -(1 << 62)


class Blocks(Protocol):
    """Where a bucket's blocks lie: a mapping from short text to bytes."""

    def get(self, key: str) -> bytes | None:
        """Return the block, or ``None``."""

    def put(self, key: str, block: bytes) -> None:
        """Keep the block."""

    def remove(self, key: str) -> None:
        """Forget the block."""

    def keys(self) -> Iterator[str]:
        """Yield the keys of all blocks."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What a bucket remembers beside its counts.

    Parameters
    ----------
    stream_ms
        Stream time: the latest pane that any event of this bucket lay in.
    flushed_ms
        When each level was last flushed, by the batches' clock.
    expired_ms
        For each level, windows that begin before this are no longer in state.
    """

    stream_ms: int
    flushed_ms: tuple[int, ...]
    expired_ms: tuple[int, ...]

    @classmethod
    def new(cls, levels: int) -> Meta:
        """Return the memory of a bucket that has seen nothing."""
        return cls(_NEVER, (_NEVER,) * levels, (_NEVER,) * levels)

    def encode(self) -> bytes:
        """Return a version byte and JSON."""
        return bytes([_META_VERSION]) + json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, block: bytes) -> Meta:
        """Read what :meth:`encode` wrote.

        Examples
        --------
        >>> Meta.decode(Meta.new(2).encode()) == Meta.new(2)
        True
        """
        if block[0] != _META_VERSION:
            raise FormatError.version("bucket's memory", block[0], _META_VERSION)
        read = json.loads(block[1:])
        return cls(read["stream_ms"], tuple(read["flushed_ms"]), tuple(read["expired_ms"]))


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """The counters of one level that a flush changed: latest counts, and the ones before."""

    level: int
    counters: Counters
    old: NDArray[np.uint64]


@dataclass(slots=True)
class Advance:
    """What one batch did to a bucket."""

    changes: list[Changes] = field(default_factory=list)
    late: dict[int, int] = field(default_factory=dict)
    backlog: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Bucket:
    """The cascade of one bucket of users, over its blocks.

    Parameters
    ----------
    cascade
        The levels.
    blocks
        Where the state lies.
    number, buckets
        Which bucket this is, of how many: staggers the flushes of a live run.
    live
        Whether this is a run without an end: levels flush at intervals and expire.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from kstoolkit.windows import Cascade
    >>> bucket = Bucket(Cascade("1 minute", "1 hour"), DictBlocks())
    >>> came = Counters.of(np.array([0, 60_000]), pa.array(["a", "a"]), pa.array(["x", "x"]))
    >>> [change.counters.count.tolist() for change in bucket.advance(came, now_ms=0).changes]
    [[1, 1], [2]]
    """

    cascade: Cascade
    blocks: Blocks
    number: int = 0
    buckets: int = 1
    live: bool = False

    def advance(self, arrivals: Counters, *, now_ms: int) -> Advance:
        """Count what arrived, and return what changed.

        Parameters
        ----------
        arrivals
            Counts by pane, or by anything finer than the cascade's pane.
        now_ms
            The batch's clock; the same again when a batch is replayed.
        """
        meta, done = self._meta(), Advance()
        inbox: list[list[Counters]] = [[] for _ in self.cascade.windows]
        self._hand_down(None, arrivals, inbox)
        flushed = list(meta.flushed_ms)
        for level, window in enumerate(self.cascade.windows):
            came = Counters.merge(inbox[level]).coarsen(window)
            timely, late = self._judge(level, came, meta)
            if len(late):
                done.late[level] = late.total
                self._hand_down(level, late, inbox)
            due, rest = self._due(level, timely, meta, now_ms)
            if rest:
                done.backlog[level] = rest
            if due is not None and not rest:
                flushed[level] = now_ms
            if due is not None and len(due):
                done.changes.append(self._flush(level, due, meta.expired_ms[level]))
                self._hand_down(level, due, inbox)
        stream_ms = int(max(meta.stream_ms, arrivals.start_ms.max(initial=_NEVER)))
        meta = replace(meta, stream_ms=stream_ms, flushed_ms=tuple(flushed))
        self.blocks.put("meta", self._expire(meta).encode())
        return done

    def segments(self, level: int) -> Iterator[Counters]:
        """Yield the latest counts of a level, segment by segment, the earliest first."""
        for start in self._segment_starts(level):
            block = self.blocks.get(f"counts/{level}/{start}")
            if block is not None:
                yield Counters.decode(block)

    def _meta(self) -> Meta:
        block = self.blocks.get("meta")
        return Meta.new(len(self.cascade.windows)) if block is None else Meta.decode(block)

    def _hand_down(self, level: int | None, delta: Counters, inbox: list[list[Counters]]) -> None:
        for child in range(len(inbox)):
            if self.cascade.parent(child) == level and child != level:
                inbox[child].append(delta)

    def _judge(self, level: int, came: Counters, meta: Meta) -> tuple[Counters, Counters]:
        """Split into what this level still takes, and what is too late for it."""
        window, lateness_ms = self.cascade.windows[level], self._lateness_ms(level)
        late = came.start_ms < meta.expired_ms[level]
        if lateness_ms is not None:
            late |= came.start_ms + window.size_ms + lateness_ms <= meta.stream_ms
        return (came, Counters.empty()) if not late.any() else (came.take(~late), came.take(late))

    def _lateness_ms(self, level: int) -> int | None:
        lateness_ms = self.cascade.lateness_ms[level]
        if lateness_ms is None and self.live:
            return self._retained_ms(level)
        return lateness_ms

    def _retained_ms(self, level: int) -> int:
        """How long after its end a live run keeps a window: until enough later ones have begun."""
        return (self.cascade.retention[level] - 1) * self.cascade.windows[level].every_ms

    def _due(
        self, level: int, timely: Counters, meta: Meta, now_ms: int
    ) -> tuple[Counters | None, int]:
        """Return what the level flushes now (``None``: it is not due) and how much stays behind."""
        key = f"pending/{level}"
        block = self.blocks.get(key)
        pending = timely if block is None else Counters.merge([Counters.decode(block), timely])
        most = self.cascade.max_counters_per_flush if self.live else len(pending)
        is_due = not self.live or self._is_due(level, meta.flushed_ms[level], now_ms)
        if is_due and len(pending) <= most:
            if block is not None:
                self.blocks.remove(key)
            return pending, 0
        due, rest = _oldest(pending, most) if is_due else (None, pending)
        if len(rest) and (len(timely) or is_due):
            self.blocks.put(key, rest.encode())
        return due, len(rest) if is_due else 0

    def _is_due(self, level: int, flushed_ms: int, now_ms: int) -> bool:
        """Whether a flush time of this bucket lies between the last flush and now.

        Flush times are spread over the interval by bucket, so that not all buckets rewrite their
        long windows in the same micro-batch.
        """
        every_ms = self.cascade.flush_ms[level]
        if every_ms == 0:
            return True
        shift_ms = every_ms * self.number // self.buckets
        return (now_ms - shift_ms) // every_ms > (flushed_ms - shift_ms) // every_ms

    def _flush(self, level: int, due: Counters, expired_ms: int) -> Changes:
        changed, old = [], []
        for start, delta in due.by_segment(_segment_ms(self.cascade, level)):
            key = f"counts/{level}/{start}"
            block = self.blocks.get(key)
            known = Counters.empty() if block is None else Counters.decode(block)
            retained = known.take(known.start_ms >= expired_ms) if self.live else known
            now, segment_changed, segment_old = retained.add(delta)
            self.blocks.put(key, now.encode())
            changed.append(segment_changed)
            old.append(segment_old)
        if len(changed) == 1:
            return Changes(level, changed[0], old[0])
        counters, old_counts = _side_by_side(changed, old)
        return Changes(level, counters, old_counts)

    def _expire(self, meta: Meta) -> Meta:
        """Drop the segments of which a live run retains no window any more."""
        if not self.live:
            return meta
        expired = list(meta.expired_ms)
        for level, window in enumerate(self.cascade.windows):
            keep_ms = max(self._retained_ms(level), self._lateness_ms(level) or 0)
            before_ms = meta.stream_ms - keep_ms - window.size_ms + 1  # the first start still kept
            before_ms = min(before_ms, self._first_pending_ms(level))
            length_ms = _segment_ms(self.cascade, level)
            if before_ms // length_ms > expired[level] // length_ms:
                self._drop_segments(level, before_ms, length_ms)
            expired[level] = max(expired[level], before_ms)
        return replace(meta, expired_ms=tuple(expired))

    def _first_pending_ms(self, level: int) -> int:
        block = self.blocks.get(f"pending/{level}")
        return -_NEVER if block is None else int(Counters.decode(block).start_ms.min())

    def _drop_segments(self, level: int, before_ms: int, length_ms: int) -> None:
        for start in self._segment_starts(level):
            if start + length_ms <= before_ms:
                self.blocks.remove(f"counts/{level}/{start}")

    def _segment_starts(self, level: int) -> list[int]:
        prefix = f"counts/{level}/"
        return sorted(int(k.removeprefix(prefix)) for k in self.blocks.keys() if k.startswith(prefix))


@dataclass(slots=True)
class DictBlocks:
    """Blocks in memory: for trying out, and for tests."""

    held: dict[str, bytes] = field(default_factory=dict)

    def get(self, key: str) -> bytes | None:
        """Return the block, or ``None``."""
        return self.held.get(key)

    def put(self, key: str, block: bytes) -> None:
        """Keep the block."""
        self.held[key] = block

    def remove(self, key: str) -> None:
        """Forget the block."""
        self.held.pop(key, None)

    def keys(self) -> Iterator[str]:
        """Yield the keys of all blocks."""
        yield from list(self.held)


def _segment_ms(cascade: Cascade, level: int) -> int:
    """How long a segment is: as many windows as the next length has, but sixty at most.

    Examples
    --------
    >>> from kstoolkit.windows import Cascade
    >>> [_segment_ms(Cascade("1 minute", "1 hour", "1 day"), level) // 60_000 for level in range(3)]
    [60, 1440, 1440]
    """
    every_ms = cascade.windows[level].every_ms
    longer = [w.size_ms for w in cascade.windows if w.is_tumbling and w.size_ms > every_ms]
    ratio = min(longer, default=every_ms) // every_ms
    fitting = (count for count in range(min(ratio, WINDOWS_PER_SEGMENT), 0, -1) if ratio % count == 0)
    return every_ms * next(fitting, 1)


def _oldest(pending: Counters, most: int) -> tuple[Counters, Counters]:
    """Split off the counters of the earliest windows, ``most`` of them."""
    order = np.argsort(pending.start_ms, kind="stable")
    chosen = np.zeros(len(pending), dtype=bool)
    chosen[order[:most]] = True
    return pending.take(chosen), pending.take(~chosen)


def _side_by_side(
    changed: list[Counters], old: list[NDArray[np.uint64]]
) -> tuple[Counters, NDArray[np.uint64]]:
    """Join segments, which share no key, and their old counts, in one order."""
    counters = Counters.merge(changed)
    before = [replace(part, count=counts) for part, counts in zip(changed, old, strict=True)]
    return counters, Counters.merge(before).count
