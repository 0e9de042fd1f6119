"""The one stateful operator: a bucket's cascade in Spark's state store.

A group is a bucket, its state one map of binary blocks, its input the shuffle's records, and its
output rows of a kind, a level and bytes. It runs without a time mode of Spark's: event time would
drop a whole CountBlock as one late row, and processing time never ends under ``availableNow``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import MutableMapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kstoolkit.counters.bucket import FOREVER, NEVER, Bucket, Changes, Reached
from kstoolkit.counters.counters import Counters
from kstoolkit.counters.distinct import OpenSketches, Touched
from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.calibration import Everyone
from kstoolkit.findings.lasting import NOTHING
from kstoolkit.findings.rules import exempted, item_of, rules_on
from kstoolkit.formats.actions import with_parts
from kstoolkit.formats.countblock import to_ipc
from kstoolkit.pipeline.datasources import FLUSH, TICK
from kstoolkit.pipeline.shuffle import (
    BLOCK,
    DEAD_LETTERS,
    END,
    ITEMS,
    REACHED,
    SESSION,
    admitted,
    items_kind,
    spare_collector,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd

    from kstoolkit.counters.bucket import Closing
    from kstoolkit.findings.lasting import Watch
    from kstoolkit.findings.rules import By, Rule
    from kstoolkit.windows import Cascade

OUTPUT_DDL = "bucket int, kind string, level int, now_ms long, payload binary"
"""Columns of what the operator hands to the sink."""

COUNTS, MATERIAL, STATISTICS = "counts", "material", "statistics"
GONE, CLOSED, REST = "gone", "closed ", "rest "

_BEGAN, _END = "began_ms", "end_ms"  # of sessions, in the columns that rules read


class _Kept(NamedTuple):
    """What a process remembers of a state that it stamped."""

    stamp: str
    blocks: dict[str, bytes]

    def size(self) -> int:
        """Return how many bytes these are."""
        return sum(map(len, self.blocks.values()))


_KEPT: dict[str, _Kept] = {}
_STAMP, _OWNER = re.compile("stamp/[0-9a-f]{32}/[0-9a-f]{32}"), len("stamp/") + 32
_MOST_KEPT_BYTES = 128 << 20
_WORTH_A_LOOK = 1 << 18
"""With so many counters, looking a bucket's users up by name costs little beside the rest."""


class StateBlocks(MutableMapping[str, bytes]):
    """Spark's map state of one bucket as blocks, in one micro-batch.

    Each question to it goes through a socket, where Java pickles bytes one by one: its keys are
    asked for once, what isn't among them not at all, and what was used stays in this process for
    the next micro-batch. That is used if the state's stamp is still the one that this process gave
    it, drawn anew by whoever changes the state: so nobody has, and no change of ours was undone.
    """

    def __init__(self, state: Any) -> None:
        self.state = state
        self.names = {row[0] for row in state.keys()}  # noqa: SIM118 - Spark's own method
        self._stamp = next(filter(_STAMP.fullmatch, self.names), "")
        self.names.discard(self._stamp)
        self._has_changed, self._used = False, dict[str, bytes]()
        kept = _KEPT.get(self._stamp[:_OWNER])
        self._known = dict(kept.blocks) if kept and kept.stamp == self._stamp else {}
        self._room_bytes = _MOST_KEPT_BYTES // 2

    def __getitem__(self, key: str) -> bytes:
        if key not in self.names:
            raise KeyError(key)
        block = self._used.get(key) or self._known.get(key)
        return self._keep(key, block or bytes(self.state.getValue((key,))[0]))

    def __setitem__(self, key: str, block: bytes) -> None:
        self._change()
        self.state.updateValue((key,), (block,))
        self.names.add(key)
        self._drop(key)
        self._keep(key, block)

    def __delitem__(self, key: str) -> None:
        self._change()
        self.names.remove(key)
        self.state.removeKey((key,))
        self._drop(key)

    def __iter__(self) -> Iterator[str]:
        return iter([*self.names])

    def __len__(self) -> int:
        return len(self.names)

    def _change(self) -> None:
        """Before the first change of a micro-batch: stamp the state anew."""
        if self._has_changed:
            return
        self._has_changed = True
        if self._stamp:
            self.state.removeKey((self._stamp,))
        owner = self._stamp[:_OWNER] or f"stamp/{uuid4().hex}"
        stamp = f"{owner}/{uuid4().hex}"
        self.state.updateValue((stamp,), (b"",))
        _KEPT.pop(owner, None)
        while sum(map(_Kept.size, _KEPT.values())) > _MOST_KEPT_BYTES // 2:
            del _KEPT[next(iter(_KEPT))]  # that was used longest ago
        _KEPT[owner] = _Kept(stamp, self._used)

    def _keep(self, key: str, block: bytes) -> bytes:
        if key not in self._used and len(block) <= self._room_bytes:
            self._room_bytes -= len(block)
            self._used[key] = block
        return block

    def _drop(self, key: str) -> None:
        self._known.pop(key, None)
        self._room_bytes += len(self._used.pop(key, b""))


def view_of(key: str) -> tuple[int, By]:
    """Return of which level a view is, and by which parts, told by the key of a block of it."""
    level, _, by = re.sub(r"\+\d+$", "", key).removeprefix("history/").partition("/")
    return int(level), tuple(json.loads(by)) if by else None


def view_key(level: int, by: By) -> str:
    """Return what a view is called: the key of the block that has its baselines."""
    return f"history/{level}" + ("" if by is None else f"/{json.dumps(by)}")


class View(NamedTuple):
    """What rules look at: counts of a level, by some parts of an action or each on its own.

    ``floor`` is the smallest count that any of them could flag; ``limit`` that of those which rest
    on no history, ``None`` where all do; ``baseline``, whether any does; ``watch``, what else is
    watched of windows that are closed.
    """

    level: int
    by: By
    floor: int
    limit: int | None
    baseline: bool
    watch: Watch = NOTHING

    @property
    def key(self) -> str:
        """The key of the block that has its baselines."""
        return view_key(self.level, self.by)

    @property
    def item(self) -> str | None:
        """Of which items these are counts; ``None`` if they are of actions."""
        return item_of(self.by)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the operator does for a run; ``cascade``, ``buckets`` and ``live`` are a ``Bucket``'s.

    ``views`` has what any rule looks at, ``rules`` who is exempt of them. If ``whole``, the
    changelog takes all counts of a user's window when one of them changes, and is told of windows
    that expire: as a topic does, whose compaction keeps the last record.
    """

    cascade: Cascade
    buckets: int
    live: bool
    views: tuple[View, ...]
    rules: tuple[Rule, ...] = ()
    processing_time: bool = False
    whole: bool = False

    @property
    def sums(self) -> bool:
        """Whether rules look at sums, for which all counts of a user's window are needed."""
        return any(view.by is not None and view.item is None for view in self.views)


class CascadeOperator(StatefulProcessor):
    """Spark's view of a bucket's cascade."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: one map from a block's key to its bytes."""
        spare_collector()
        state = handle.getMapState("blocks", "key string", "block binary")
        self.opened: Callable[[], MutableMapping[str, bytes]] = lambda: StateBlocks(state)

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - called by keyword
        self,
        key: tuple[Any, ...],
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803 - called by keyword
    ) -> Iterator[pd.DataFrame]:
        """Count what came for a bucket in one micro-batch."""
        number, self.blocks = int(key[0]) % self.plan.buckets, self.opened()
        arrivals, sessions, touched, feeds, dead, now_ms, kinds = _unpack(rows, number)
        if self.plan.processing_time:
            pane_ms = now_ms - now_ms % self.plan.cascade.pane_ms
            arrivals = replace(arrivals, start_ms=arrivals.start_ms * 0 + pane_ms)
            feeds = [Reached(pane_ms, 1, pane_ms) for _ in feeds]
        cascade = Bucket(
            self.plan.cascade,
            self.blocks,
            number,
            self.plan.buckets,
            live=self.plan.live,
            whole=self.plan.whole or self.plan.sums,
            told_closed={v.level for v in self.plan.views if v.baseline and v.item is None},
        )
        # Where anything comes, all buckets are told how far it is.
        is_last = not self.plan.live and (END in kinds or kinds <= {TICK, FLUSH})
        done = cascade.advance(
            arrivals,
            sessions=sessions,
            now_ms=now_ms,
            flush=FLUSH in kinds,
            quiet=kinds <= {TICK},  # else each bucket would have a micro-batch of its own begun
            last=is_last,
            feeds=feeds,
        )
        out = [(DEAD_LETTERS, -1, payload) for payload in dead]
        left_out: dict[int, int] = {}
        changed = {changes.level: changes for changes in done.changes}
        for changes in done.changes:
            out.extend(self._reported(changes, left_out))
            self._forget_stale(changes)
        for view in self.plan.views:
            seen, closing = changed.get(view.level), done.closing[view.level]
            if view.item is not None:
                came = touched.get(
                    items_kind(view.item, cascade.cascade.windows[view.level].size_ms)
                )
                out.extend(self._touched(cascade, view, came, closing, now_ms, is_last=is_last))
                continue
            seen_by = Counters.empty() if seen is None else _seen_by(view, seen)
            if view.baseline:
                out.extend(self._judged(cascade, view, seen_by, closing, is_last=is_last))
            else:
                out.extend(_limited(view, seen_by))
        for level, gone in done.gone.items() if self.plan.whole else ():
            out.extend((GONE, level, counters.encode(passing=True)) for counters in gone)
        told = {
            "bucket": number,
            "events": arrivals.total,
            "counters_in": len(arrivals),
            "late": done.late,
            "backlog": done.backlog,
            "changed": {changes.level: len(changes.counters) for changes in done.changes},
            "left_out": left_out,
            "as_of_ms": done.as_of_ms,
            "due_ms": done.due_ms,
            "reached_ms": max((each.latest_ms for each in done.closing.values()), default=NEVER),
            "now_ms": now_ms,
            "widest": done.widest,
            "is_last": is_last,
        }
        if is_last or FLUSH in kinds:
            self._forget_items()
        out.append((STATISTICS, -1, json.dumps(told).encode()))
        yield _output(number, now_ms, out)

    def _reported(
        self, changes: Changes, left_out: dict[int, int]
    ) -> Iterator[tuple[str, int, bytes]]:
        """Yield the changelog's part: latest counts, those below the minimum left out."""
        least = self.plan.cascade.min_count[changes.level]
        counters = changes.whole if self.plan.whole else changes.counters
        # A session that another swallowed has a count of 0, which replaces what was told of it.
        enough = (counters.count >= least) | (counters.count == 0)
        kept = counters if enough.all() else counters.take(enough)
        if len(kept) < len(counters):
            left_out[changes.level] = len(counters) - len(kept)
        if len(kept):
            yield COUNTS, changes.level, kept.encode(passing=True)

    def _forget_stale(self, changes: Changes) -> None:
        """Forget baselines that are not kept up."""
        views = self.plan.views
        kept = {each.key for each in views if each.level == changes.level and each.baseline}
        for key in list(self.blocks):
            is_of_level = key.startswith("history/") and view_of(key)[0] == changes.level
            if is_of_level and view_key(*view_of(key)) not in kept:
                del self.blocks[key]

    def _forget_items(self) -> None:
        """Forget what was touched of items that no rule looks at any more."""
        views = [view for view in self.plan.views if view.item is not None]
        kept = tuple(each for view in views for each in (_items_prefix(view), view.key))
        for key in list(self.blocks):
            is_learnt = key.startswith("history/") and item_of(view_of(key)[1]) is not None
            if (is_learnt or key.startswith(ITEMS)) and not key.startswith(kept):
                del self.blocks[key]

    def _touched(
        self,
        cascade: Bucket,
        view: View,
        came: Touched | None,
        closing: Closing,
        now_ms: int,
        *,
        is_last: bool,
    ) -> Iterator[tuple[str, int, bytes]]:
        """Keep what was touched in windows that are not closed, and judge those that are now."""
        length_ms = cascade.segments(view.level).length_ms
        held = OpenSketches(self.blocks, _items_prefix(view), length_ms)
        if came is not None:
            if self.plan.processing_time:
                size_ms = self.plan.cascade.windows[view.level].size_ms
                came = replace(came, start_ms=came.start_ms * 0 + now_ms // size_ms * size_ms)
            held.add(came.take(came.start_ms >= closing.from_ms), from_ms=closing.from_ms)

        def counts(from_ms: int, until_ms: int) -> Iterator[tuple[int, Counters]]:
            for end_ms, touched in held.between(from_ms, until_ms):
                yield end_ms, touched.counts(str(view.item), tuple(view.by or ()))

        parts = counts(closing.from_ms, closing.until_ms)
        closing = replace(closing, parts=parts, rest=counts(closing.until_ms, FOREVER))
        yield from self._judged(cascade, view, Counters.empty(), closing, is_last=is_last)
        held.drop(closing.until_ms)

    def _judged(
        self, cascade: Bucket, view: View, seen_by: Counters, closing: Closing, *, is_last: bool
    ) -> Iterator[tuple[str, int, bytes]]:
        """Yield what the rules need: counts, each with its user's baseline, and what all told.

        A run that has an end judges at its end, but for what comes for windows that were closed.
        """
        is_closing = is_last or closing.until_ms > closing.from_ms
        until_ms = closing.until_ms if self.plan.live else FOREVER
        is_now = (seen_by.start_ms >= closing.from_ms) & (seen_by.start_ms < until_ms)
        seen_by = self._judgeable(view, seen_by.take(~is_now & (seen_by.count >= view.floor)))
        if not is_closing and not seen_by:
            return
        baselines, told = self._baselines(cascade, view, closing.from_ms)
        material = []
        if is_closing:
            material += self._closed(view, baselines, (closing.parts, closing.until_ms), told)
            told.closed_ms[cascade.number] = closing.until_ms
            baselines.put(self.blocks, view.key)
            yield CLOSED + view.key, view.level, told.encode(passing=True)
        if is_last:
            rest = Everyone(baselines.every_ms)
            latest_ms = closing.latest_ms + self.plan.cascade.pane_ms
            until_ms = max(closing.until_ms, latest_ms)
            material += self._closed(view, baselines, (closing.rest, until_ms), rest)
            yield REST + view.key, view.level, rest.encode(passing=True)
        if seen_by:
            slots = _in_slots(seen_by, baselines.every_ms)
            seen = _as_it_was(baselines.compare(_columns(slots)), seen_by, baselines.every_ms)
            material.append(_of_view(seen, view, seen_by, is_open=True))
        if material := [each for each in material if len(each)]:
            whole = pa.concat_tables(material).replace_schema_metadata(material[0].schema.metadata)
            yield MATERIAL, view.level, to_ipc(whole)

    def _closed(
        self,
        view: View,
        baselines: Baselines,
        closing: tuple[Iterable[tuple[int, Counters]], int],
        told: Everyone,
    ) -> list[pa.Table]:
        """Close windows; return their counts that rules may flag, and add to what is told."""
        parts, until_ms = closing
        is_session, found, all_closed = baselines.size_ms <= 0, [], []
        for part_ms, counters in _together(parts):
            end_ms = min(part_ms, until_ms)
            is_whole = view.by is None or view.item is not None
            seen_by = self._judgeable(view, counters if is_whole else counters.by(view.by or ()))
            slots = _in_slots(seen_by, baselines.every_ms)
            closed = baselines.close(_columns(slots), end_ms, 1 if is_session else view.floor)
            all_closed.append(closed)
            seen = _as_it_was(closed.material, seen_by, baselines.every_ms)
            found.append(_of_view(seen, view, seen_by, is_open=False))
        if baselines.closed_ms < until_ms:
            all_closed.append(baselines.close(_columns(Counters.empty()), until_ms))
        names = ("moments", "facts", "lasting", "newcomers")
        told.add(*([getattr(each, name) for each in all_closed] for name in names))
        return found

    def _judgeable(self, view: View, counters: Counters) -> Counters:
        """Return the counters of users that are not exempt from all rules of a view."""
        on = rules_on(self.plan.rules, self.plan.cascade.levels[view.level], view.by)
        is_exempt = np.zeros(len(counters), bool)
        for rule in on.exempts:
            mine = np.asarray(exempted([rule], counters.users, of=on.looking), bool)[counters.user]
            is_exempt |= mine & (counters.start_ms < rule.until_ms)
        return counters.take(~is_exempt) if is_exempt.any() else counters

    def _baselines(self, cascade: Bucket, view: View, from_ms: int) -> tuple[Baselines, Everyone]:
        """Return a view's baselines, and what is told of those that are new.

        Of a rule that is new, they are learnt from the counts there were; so are those of a release
        that learnt otherwise.
        """
        window = self.plan.cascade.levels[view.level]
        told = Everyone(window.every_ms)
        known = Baselines.at(self.blocks, view.key, view.watch)
        if known is not None and known.closed_ms == from_ms:
            return known, told
        # It is a new rule, or was out while windows were closed.
        baselines = Baselines.empty(window.size_ms, window.every_ms, view.watch)
        earlier = cascade.closed(view.level, NEVER, from_ms) if view.item is None else ()
        self._closed(view, baselines, (earlier, from_ms), told)
        told.facts = told.facts.slice(0, 0)  # they were judged, or nobody looked
        told.lasting = told.lasting.slice(0, 0)
        return baselines, told


class _Came(NamedTuple):
    """What came: counts by pane, pieces of sessions, sketches of items by kind of record.

    And how far tasks are, dead letters, the batch's clock, all kinds of records.
    """

    arrivals: Counters
    sessions: dict[int, Counters]
    touched: dict[str, Touched]
    feeds: list[Reached]
    dead: list[bytes]
    now_ms: int
    kinds: set[str]


def _items_prefix(view: View) -> str:
    return f"{ITEMS}{view.level}/{view.item}/"


def _unpack(rows: Iterator[pd.DataFrame], bucket: int) -> _Came:
    blocks, feeds, dead, now_ms, kinds = defaultdict(list), [], [], 0, set()
    sketches, came = defaultdict(list), list[tuple[str, bytes]]()
    for frame in rows:
        now_ms = int(frame["now_ms"].iloc[0])
        came += zip(frame["kind"], frame["payload"], strict=True)
    for kind, payload in admitted(came, tells=bucket == 0):
        if kind == BLOCK or kind.startswith(SESSION):
            blocks[kind].append(Counters.decode(bytes(payload)))
        elif kind.startswith(ITEMS):
            sketches[kind].append(Touched.decode(bytes(payload)))
        elif kind == REACHED:
            feeds.append(Reached(*np.frombuffer(payload, np.int64).tolist()))
        elif kind == DEAD_LETTERS:
            dead.append(bytes(payload))
        kinds.add(kind)
    counters = {kind: Counters.merge(each) for kind, each in blocks.items()}
    arrivals = counters.pop(BLOCK, Counters.empty())
    sessions = {int(kind.removeprefix(SESSION)): each for kind, each in counters.items()}
    touched = {kind: Touched.merge(each) for kind, each in sketches.items()}
    return _Came(arrivals, sessions, touched, feeds, dead, now_ms, kinds)


def _output(bucket: int, now_ms: int, rows: list[tuple[str, int, bytes]]) -> pd.DataFrame:
    # Four processes of each run load this module for its names alone.
    import pandas as pd  # noqa: PLC0415 - a third of a second

    kinds, levels, payloads = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "bucket": np.full(len(rows), bucket, dtype=np.int32),
            "kind": list(kinds),
            "level": np.array(levels, dtype=np.int32),
            "now_ms": np.full(len(rows), now_ms, dtype=np.int64),
            "payload": list(payloads),
        }
    )


def _seen_by(view: View, changes: Changes) -> Counters:
    """Return what changed as a view has it: sums of which any part did."""
    if view.by is None:
        return changes.counters
    now = changes.whole.by(view.by)
    told, rows = Counters.join([replace(now, count=now.count * 0), changes.counters.by(view.by)])
    keys = told.user, told.start_ms, told.action
    same_as_next = np.logical_and.reduce([key[:-1] == key[1:] for key in keys])
    return now.take(np.sort(rows[np.flatnonzero(same_as_next)]))


def _of_view(seen: pa.Table, view: View, counters: Counters, *, is_open: bool) -> pa.Table:
    """Return counts that rules on a view may flag, with the parts that they are by."""
    told = with_parts(pa.schema([]), counters.parts, is_view=view.by is not None)
    large = seen.filter(pa.array(np.asarray(seen["count"]) >= view.floor))
    large = large.append_column("is_open", pa.repeat(is_open, len(large)))
    return large.replace_schema_metadata(told.metadata)


def _limited(view: View, counters: Counters) -> Iterator[tuple[str, int, bytes]]:
    """Yield what limits are held against: changed counts, without any history."""
    large = counters.take(counters.count >= (view.limit or 0))
    if view.limit is not None and len(large):
        columns = pa.Table.from_batches([_columns(large)])
        if _END in columns.column_names:
            columns = columns.append_column(_BEGAN, columns["window_start_ms"])
        told = with_parts(pa.schema([]), large.parts, is_view=view.by is not None)
        yield MATERIAL, view.level, to_ipc(columns.replace_schema_metadata(told.metadata))


def _together(parts: Iterable[tuple[int, Counters]]) -> Iterator[tuple[int, Counters]]:
    """Yield small parts as one: what learns from any looks all its users up by name."""
    small, rows, until_ms = list[Counters](), 0, NEVER
    for until_ms, counters in parts:
        small.append(counters)
        rows += len(counters)
        if rows >= _WORTH_A_LOOK:
            yield until_ms, Counters.merge(small)
            small, rows = [], 0
    if rows:
        yield until_ms, Counters.merge(small)


def _columns(counters: Counters) -> pa.RecordBatch:
    """Return counters as the columns that baselines read."""
    batch = counters.to_batch()
    count = pa.array(counters.count.astype(np.int64))
    names = ["window_start_ms", "user", "action", "count", *batch.schema.names[4:]]
    return pa.record_batch([*batch.columns[:3], count, *batch.columns[4:]], names)


def _in_slots(counters: Counters, every_ms: int) -> Counters:
    """Return sessions as if each began when the gap did that it began in; windows as they are.

    No two sessions of one key begin there, but for those that the longest has parted: what others
    swallowed is put together with them.
    """
    if counters.end_ms is None:
        return counters
    there = counters.take(counters.count > 0)
    slots = there.start_ms - there.start_ms % every_ms
    return there.moved(slots, np.asarray(there.end_ms))


def _as_it_was(material: pa.Table, counters: Counters, every_ms: int) -> pa.Table:
    """Return what baselines say of :func:`_in_slots` with when sessions began and ended."""
    if counters.end_ms is None:
        return material
    there = counters.take(counters.count > 0)
    slots = there.start_ms - there.start_ms % every_ms
    order = np.lexsort((there.action, slots, there.user))
    keys = there.user[order], slots[order], there.action[order]
    is_other = np.append(True, np.logical_or.reduce([np.diff(key) != 0 for key in keys]))
    place = np.cumsum(is_other[: len(there)]) - 1  # of two that a cut has put into one, the same
    told = material.take(pa.array(place))
    told = told.set_column(3, "count", pa.array(there.count[order].astype(np.int64)))
    told = told.append_column(_BEGAN, pa.array(there.start_ms[order]))
    return told.drop_columns([_END]).append_column(_END, pa.array(np.asarray(there.end_ms)[order]))
