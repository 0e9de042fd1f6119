"""The one stateful operator: a bucket's cascade in Spark's state store.

A group is a bucket, its state one map of binary blocks, its input the shuffle's records, and its
output rows of a kind, a level and bytes. The operator runs without a time mode of Spark's: event
time would drop a whole CountBlock as one late row, and processing time never comes to an end under
``availableNow``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kstoolkit.counters.bucket import Bucket, Changes, Reached
from kstoolkit.counters.counters import Counters
from kstoolkit.findings.baselines import Baselines
from kstoolkit.formats.actions import with_parts
from kstoolkit.pipeline.shuffle import (
    BLOCK,
    DEAD_LETTERS,
    FLUSH,
    REACHED,
    SESSION,
    bucket_of,
    spare_collector,
    to_ipc,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from kstoolkit.findings.rules import By
    from kstoolkit.windows import Cascade


@dataclass(slots=True)
class StateBlocks:
    """Spark's map state as blocks."""

    state: Any

    def get(self, key: str) -> bytes | None:
        """Return the block, or ``None``."""
        row = self.state.getValue((key,))
        return None if row is None else bytes(row[0])

    def put(self, key: str, block: bytes) -> None:
        """Keep the block."""
        self.state.updateValue((key,), (block,))

    def remove(self, key: str) -> None:
        """Forget the block."""
        self.state.removeKey((key,))

    def keys(self) -> Iterator[str]:
        """Yield the keys of all blocks."""
        return iter([row[0] for row in self.state.keys()])  # noqa: SIM118 - Spark's own method


OUTPUT_DDL = "bucket int, kind string, level int, now_ms long, payload binary"
"""Columns of what the operator hands to the sink."""

COUNTS, MATERIAL, MOMENTS, STATISTICS = "counts", "material", "moments", "statistics"
GONE = "gone"

_END = "end_ms"  # of sessions, in the columns that rules read

_REMEMBERED_MS = 4 * 7 * 24 * 3_600_000
_REMEMBERED_WINDOWS = 28
"""A baseline that nothing was added to for four weeks is forgotten, and not before 28 windows."""


class View(NamedTuple):
    """What rules look at: counts of a level, by some parts of an action or each on its own.

    ``floor`` is the smallest count that any of them could flag; ``baseline``, whether one rests on
    a user's own history.
    """

    level: int
    by: By
    floor: int
    baseline: bool

    @property
    def key(self) -> str:
        """The key of the block that has its baselines."""
        told = "" if self.by is None else f"/{json.dumps(self.by)}"
        return f"history/{self.level}{told}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What the operator does for a run; ``cascade``, ``buckets`` and ``live`` are a ``Bucket``'s.

    ``views`` has what any rule looks at. If ``whole``, the changelog takes all counts of a user's
    window when one of them changes, and is told of windows that expire: as a topic does, whose
    compaction keeps the last record.
    """

    cascade: Cascade
    buckets: int
    live: bool
    views: tuple[View, ...]
    processing_time: bool = False
    whole: bool = False

    @property
    def sums(self) -> bool:
        """Whether rules look at sums, for which all counts of a user's window are needed."""
        return any(view.by is not None for view in self.views)


class CascadeOperator(StatefulProcessor):
    """Spark's view of a bucket's cascade."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state: one map from a block's key to its bytes."""
        spare_collector()
        self.blocks = StateBlocks(handle.getMapState("blocks", "key string", "block binary"))

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - called by keyword
        self,
        key: tuple[Any, ...],
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803 - called by keyword
    ) -> Iterator[pd.DataFrame]:
        """Count what came for a bucket in one micro-batch."""
        number = bucket_of(int(key[0]), self.plan.buckets)
        arrivals, sessions, feeds, dead, now_ms, kinds = _unpack(rows)
        if kinds == {REACHED}:
            return  # told to all buckets, whether anything else comes for them or not
        if self.plan.processing_time:
            pane_ms = now_ms - now_ms % self.plan.cascade.pane_ms
            arrivals, feeds = replace(arrivals, start_ms=arrivals.start_ms * 0 + pane_ms), []
        cascade = Bucket(
            self.plan.cascade,
            self.blocks,
            number,
            self.plan.buckets,
            live=self.plan.live,
            whole=self.plan.whole or self.plan.sums,
        )
        done = cascade.advance(
            arrivals, sessions=sessions, now_ms=now_ms, flush=FLUSH in kinds, feeds=feeds
        )
        out = [(DEAD_LETTERS, -1, payload) for payload in dead]
        left_out: dict[int, int] = {}
        for changes in done.changes:
            out.extend(self._reported(changes, left_out))
            self._forget_stale(changes)
            for view in self.plan.views:
                if view.level == changes.level:
                    out.extend(self._judged(cascade, view, changes))
        for level, gone in done.gone.items() if self.plan.whole else ():
            out.extend((GONE, level, counters.encode()) for counters in gone)
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
            "now_ms": now_ms,
            "widest": done.widest,
        }
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
            yield COUNTS, changes.level, kept.encode()

    def _forget_stale(self, changes: Changes) -> None:
        """Forget baselines that are not kept up."""
        views = self.plan.views
        kept = {each.key for each in views if each.level == changes.level and each.baseline}
        begin = f"history/{changes.level}"
        known = {begin, f"{begin}/[]"}  # all that there can be where an action is one column
        if changes.counters.parts is not None:
            known = {key for key in self.blocks.keys() if key.split("/[")[0] == begin}  # noqa: SIM118 - no dict
        for key in known - kept:
            self.blocks.remove(key)

    def _judged(
        self, cascade: Bucket, view: View, changes: Changes
    ) -> Iterator[tuple[str, int, bytes]]:
        """Yield what the rules need: changed counts, each with its user's baseline."""
        level, floor = changes.level, view.floor
        seen_by = _seen_by(view, changes)
        schema = _schema_of(view, changes)
        columns = _columns(seen_by)
        if not view.baseline:
            material = _without_history(columns, floor)
            yield MATERIAL, level, to_ipc(material.replace_schema_metadata(schema))
            return
        if not len(seen_by.counters):
            return
        baselines = self._baselines(cascade, view, changes)
        every_ms, starts = self.plan.cascade.levels[level].every_ms, changes.counters.start_ms
        remembered_ms = max(_REMEMBERED_MS, _REMEMBERED_WINDOWS * every_ms)
        baselines.evict(int(starts.min()) - remembered_ms)  # also of who comes back just now
        seen = baselines.observe(_columns(_in_slots(seen_by, every_ms)))
        baselines.evict(int(starts.max()) - remembered_ms)
        self.blocks.put(view.key, baselines.encode())
        material = _as_it_was(seen.material, seen_by.counters, every_ms)
        material = material.filter(pa.array(_at_least(material, floor)))
        if material.num_rows:
            yield MATERIAL, level, to_ipc(material.replace_schema_metadata(schema))
        yield MOMENTS, level, to_ipc(seen.moments.replace_schema_metadata(schema))

    def _baselines(self, cascade: Bucket, view: View, changes: Changes) -> Baselines:
        """Return a view's baselines; of a rule that is new, from the counts there were."""
        block = self.blocks.get(view.key)
        if block is not None:
            return Baselines.decode(block)
        window = self.plan.cascade.levels[changes.level]
        baselines = Baselines.empty(window.size_ms, window.every_ms)
        for before in _before(cascade.segments(changes.level), changes):
            if len(before):
                told = before if view.by is None else before.by(view.by)
                zeros = np.zeros(len(told), dtype=np.uint64)
                known = Changes(changes.level, told, zeros)
                baselines.observe(_columns(_in_slots(known, window.every_ms)))
        return baselines


def _unpack(
    rows: Iterator[pd.DataFrame],
) -> tuple[Counters, dict[int, Counters], list[Reached], list[bytes], int, set[str]]:
    """Return what came, sessions, how far tasks are, dead letters, the batch's clock, all kinds."""
    blocks, feeds, dead, now_ms, kinds = defaultdict(list), [], [], 0, set()
    for frame in rows:
        now_ms = int(frame["now_ms"].iloc[0])
        for kind, payload in zip(frame["kind"], frame["payload"], strict=True):
            if kind == BLOCK or kind.startswith(SESSION):
                blocks[kind].append(Counters.decode(bytes(payload)))
            elif kind == REACHED:
                feeds.append(Reached(*np.frombuffer(payload, np.int64).tolist()))
            elif kind == DEAD_LETTERS:
                dead.append(bytes(payload))
            kinds.add(kind)
    counters = {kind: Counters.merge(each) for kind, each in blocks.items()}
    arrivals = counters.pop(BLOCK, Counters.empty())
    sessions = {int(kind.removeprefix(SESSION)): each for kind, each in counters.items()}
    return arrivals, sessions, feeds, dead, now_ms, kinds


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


def _seen_by(view: View, changes: Changes) -> Changes:
    """Return changes as a view has them: sums that changed, and what they were before."""
    if view.by is None:
        return changes
    now = changes.whole.by(view.by)
    grown = replace(changes.counters, count=changes.counters.count - changes.old).by(view.by)
    told, rows = Counters.join([replace(now, count=now.count * 0), grown])
    same = np.flatnonzero(_same_as_next(told))
    place, growth = rows[same], told.count[same + 1]
    order = np.argsort(place)
    counters = now.take(place[order])
    return Changes(changes.level, counters, counters.count - growth[order])


def _same_as_next(counters: Counters) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which counters have the key of the one behind them."""
    keys = counters.user, counters.start_ms, counters.action
    return np.asarray(np.logical_and.reduce([key[:-1] == key[1:] for key in keys]))


def _schema_of(view: View, changes: Changes) -> dict[bytes, bytes] | None:
    """Return what the metadata of a view's columns says: the parts that they are by."""
    parts = changes.counters.parts if view.by is None else view.by
    told = with_parts(pa.schema([]), parts, is_view=view.by is not None)
    return told.metadata  # type: ignore[no-any-return]


def _columns(changes: Changes) -> pa.RecordBatch:
    """Return changes as the columns that baselines read."""
    batch = changes.counters.to_batch()
    columns = [
        *batch.columns[:3],
        pa.array(changes.old.astype(np.int64)),
        pa.array(changes.counters.count.astype(np.int64)),
    ]
    names = ["window_start_ms", "user", "action", "old", "count"]
    return pa.record_batch([*columns, *batch.columns[4:]], [*names, *batch.schema.names[4:]])


def _in_slots(changes: Changes, every_ms: int) -> Changes:
    """Return sessions as if each began when the gap did that it began in; windows as they are.

    No two sessions of one key begin there, but for those that the longest has parted: what others
    swallowed is put together with them.
    """
    counters = changes.counters
    if counters.end_ms is None:
        return changes
    slots = counters.start_ms - counters.start_ms % every_ms
    old = replace(counters, count=changes.old).moved(slots, counters.end_ms)
    return replace(changes, counters=counters.moved(slots, counters.end_ms), old=old.count)


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
    told = material.filter(pa.array(_at_least(material, 1))).take(pa.array(place))
    told = told.set_column(0, "window_start_ms", pa.array(there.start_ms[order]))
    told = told.set_column(3, "count", pa.array(there.count[order].astype(np.int64)))
    return told.append_column(_END, pa.array(np.asarray(there.end_ms)[order]))


def _without_history(columns: pa.RecordBatch, floor: int) -> pa.RecordBatch:
    chosen = columns.filter(pa.array(_at_least(columns, floor)))
    nothing = pa.array(np.zeros(chosen.num_rows))
    names = ["window_start_ms", "user", "action", "count", "n", "sum", "sum_of_squares"]
    kept = [chosen.column(name) for name in names[:4]]
    ends = [chosen.column(_END)] if _END in chosen.schema.names else []
    names += [_END] * len(ends)
    return pa.record_batch([*kept, nothing, nothing, nothing, *ends], names=names)


def _at_least(
    columns: pa.RecordBatch | pa.Table, floor: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(columns.column("count")) >= floor


def _before(segments: Iterable[Counters], changes: Changes) -> Iterator[Counters]:
    """Yield counts as they were before ``changes``: what a flush reported is in state already.

    Windows that expired with it come last: they are in state no more.
    """
    earlier = replace(changes.counters, count=changes.old)
    for known in segments:
        here = np.isin(earlier.start_ms, np.unique(known.start_ms))
        before = Counters.newest([known, earlier.take(here)])
        earlier = earlier.take(~here)
        yield before.take(before.count > 0)
    yield earlier.take(earlier.count > 0)
