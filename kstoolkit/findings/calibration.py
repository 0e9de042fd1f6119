"""What surprise is worth, and what all users do: known of everyone, told by any number of buckets.

However a law is chosen, the world has another: counts that should come up once in 10,000 windows
come up once in a thousand. So it is counted how surprising they were, z = -log₁₀ p, apart for
first windows, for cells with too little history and for those with enough, and older windows count
for less. Up to where the tail of that falls to 0.2 %, at z₀ ≥ 1, it is known well; beyond, it is
taken to fall exponentially, at the rate that it has there:

    -log₁₀ P(Z ≥ z) = -log₁₀ P(Z ≥ z₀) + (z - z₀) / (e ln 10),   e = mean excess ≥ 0.7 / ln 10

and nowhere is it more than z / 0.7.

Each excess counts as the 80 % point of all at most: real bursts are among them, and would hide
others. Where fewer than 500 windows were seen, p is taken as it is, and nobody is judged by peers.

    Coles 2001, *An Introduction to Statistical Modeling of Extreme Values*, §4 (excesses of a
    threshold, here with shape 0)

A window is judged once all buckets have closed it, after all earlier ones, by what was known as it
began; how busy all were in it is its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.finding import FINDINGS_SCHEMA, KEY, as_stored, newest_rows, with_column
from kstoolkit.findings.lasting import AS_IS, LASTING_SCHEMA, NEWCOMERS, NEWCOMERS_SCHEMA
from kstoolkit.findings.peers import (
    FACTS_SCHEMA,
    FEWEST_PEERS,
    MOMENTS_SCHEMA,
    floats,
    integers,
    places,
    pools_of,
    streamed,
    streams_in,
    summed,
)
from kstoolkit.findings.rhythm import LEAST_BUSY, wave_at
from kstoolkit.findings.scoring import (
    BINS,
    BINS_PER_DECADE,
    BUSY_SCHEMA,
    KNOWN,
    LIGHTEST,
    Brief,
    Scored,
    score_lasting,
    score_newcomers,
)
from kstoolkit.formats.actions import with_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kstoolkit.findings.peers import Floats, Integers
    from kstoolkit.findings.rules import RulesOn

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_NEVER, _FOREVER = -(1 << 62), 1 << 62

_AGE_PER_HOUR, _OLDEST_AGE = 0.995, 0.98
_KNOWN_BELOW = 2e-3
_CENSORED_FROM = 0.8
_FEWEST_SEEN, _FEWEST_EXCESSES = 500, 5
_NOMINAL, _NOTHING = 1 / float(np.log(10)), 1e-300
_HISTORIES = AS_IS + 1
_AT_ONCE = 1 << 19  # rows


@dataclass(slots=True, eq=False)
class Calibration:
    """How surprising counts were, by history: how many in each bin, and how many windows in all.

    >>> calibration = Calibration()
    >>> calibration.surprise(np.array([9.0]), np.array([2])).tolist()  # as it is: nothing was seen
    [9.0]
    """

    counts: Floats = field(default_factory=lambda: np.zeros((_HISTORIES, BINS)))
    seen: Floats = field(default_factory=lambda: np.zeros(_HISTORIES))

    def surprise(self, told: Floats, history: Integers) -> Floats:
        """Return what surprise is worth: -log₁₀ of how often so much, or more, comes up.

        Where that is not known, it is what it seems for who has a history, else nothing.
        """
        seen_enough = self.seen >= _FEWEST_SEEN
        worth = np.where(seen_enough[history] | (history >= KNOWN), told, 0)
        for kind in np.intersect1d(np.flatnonzero(seen_enough), history):
            tail = np.maximum(np.cumsum(self.counts[kind][::-1])[::-1] / self.seen[kind], _NOTHING)
            first = max(int(np.argmax(tail <= _KNOWN_BELOW)), BINS_PER_DECADE)
            begin, rows = first / BINS_PER_DECADE, history == kind
            known = -np.log10(np.maximum(tail[: first + 1], 1 / self.seen[kind]))
            beyond = np.maximum(told[rows] - begin, 0) / self._mean_excess(int(kind), first)
            at = np.interp(told[rows], np.arange(first + 1) / BINS_PER_DECADE, known)
            worth[rows] = np.minimum(at + beyond * _NOMINAL, told[rows] / LIGHTEST)
        return worth

    def _mean_excess(self, kind: int, first: int) -> float:
        """Return by how much surprise beyond a bin exceeds it: as it does nominally, or more."""
        beyond = self.counts[kind, first:]
        if beyond.sum() < _FEWEST_EXCESSES:
            return _NOMINAL
        excess = (np.arange(len(beyond)) + 0.5) / BINS_PER_DECADE
        at = np.searchsorted(np.cumsum(beyond), _CENSORED_FROM * beyond.sum())
        most = excess[min(int(at), len(excess) - 1)]
        whole = beyond[excess <= most].sum()
        mean = (np.minimum(excess, most) * beyond).sum() / max(whole, 1)
        return max(float(mean), LIGHTEST * _NOMINAL)

    def learn(self, counts: Floats, seen: Floats, age: float) -> None:
        """Put in a window; all earlier ones are aged."""
        self.counts = np.maximum(self.counts * age + counts, 0)
        self.seen = self.seen * age + seen


@dataclass(slots=True, eq=False)
class Everyone:
    """What is known of all users, for one kind of window; kept from batch to batch.

    ``moments`` and ``facts`` are what buckets told, added up: of
    :data:`~kstoolkit.findings.peers.MOMENTS_SCHEMA` and
    :data:`~kstoolkit.findings.peers.FACTS_SCHEMA`; ``told`` are findings of windows that are not
    over. Where rules watch that, ``lasting`` and ``newcomers`` (see
    :mod:`~kstoolkit.findings.lasting`) are what buckets saw of windows that are not judged yet, and
    ``arrived`` how many newcomers each action usually has, as baselines' bytes. ``closed_ms`` is up
    to when each bucket has closed its windows; from ``since_ms`` to ``judged_ms`` they were judged.
    """

    every_ms: int
    moments: pa.Table = field(default_factory=MOMENTS_SCHEMA.empty_table)
    facts: pa.Table = field(default_factory=FACTS_SCHEMA.empty_table)
    told: pa.Table = field(default_factory=FINDINGS_SCHEMA.empty_table)
    lasting: pa.Table = field(default_factory=LASTING_SCHEMA.empty_table)
    newcomers: pa.Table = field(default_factory=NEWCOMERS_SCHEMA.empty_table)
    arrived: bytes = b""
    closed_ms: dict[int, int] = field(default_factory=dict)
    calibration: Calibration = field(default_factory=Calibration)
    since_ms: int | None = None
    judged_ms: int | None = None

    def add(
        self,
        moments: Sequence[pa.Table],
        facts: Sequence[pa.Table],
        lasting: Sequence[pa.Table] = (),
        newcomers: Sequence[pa.Table] = (),
    ) -> None:
        """Add what one bucket told of some windows, each of them once."""
        told = {"moments": moments, "facts": facts, "lasting": lasting, "newcomers": newcomers}
        for name, tables in told.items():
            setattr(self, name, pa.concat_tables([getattr(self, name), *tables]))
        starts = [integers(each, "window_start_ms") for each in (self.facts, self.moments)]
        known = [int(start.min()) for start in starts if len(start)]
        known += [] if self.since_ms is None else [self.since_ms]
        self.since_ms = min(known, default=None)

    def take_in(self, others: Iterable[Everyone]) -> None:
        """Add what others know, of other buckets or other windows, each when its turn comes.

        A bucket whose rule was out for a while tells again what it told before.
        """
        held = len(self.moments)
        for each in others:
            closed = (self.closed_ms.get(told, _NEVER) for told in each.closed_ms)
            is_new = pc.greater(each.moments["window_start_ms"], max([_NEVER, *closed]))
            self.closed_ms |= each.closed_ms
            told = (each.moments.filter(is_new), each.facts, each.lasting, each.newcomers)
            self.add(*([table] for table in told))
            # One behind the other, at once or not, the sums are the same to the last digit.
            if len(self.moments) >= held + max(held, _AT_ONCE):
                self.moments = summed([self.moments], MOMENTS_SCHEMA)
                held = len(self.moments)
        if len(self.moments) > held:
            self.moments = summed([self.moments], MOMENTS_SCHEMA)
        self.facts = summed([self.facts], FACTS_SCHEMA)

    def closed_by(self, buckets: int) -> int:
        """Return up to when so many buckets have closed their windows, all of them."""
        return min(self.closed_ms.get(bucket, _NEVER) for bucket in range(buckets))

    def still_open(self, found: pa.Table) -> pa.Table:
        """Return which findings are of windows that were not judged for good."""
        last_ms = _NEVER if self.judged_ms is None else self.judged_ms
        return found.filter(pc.greater(found["window_start_ms"], last_ms))

    def brief(self, until_ms: int) -> Brief:
        """Return what is told to whoever judges windows before then, and such that are not over."""
        pools = pools_of(self.moments)
        whole = pools.filter(pools["action"].is_null())
        facts = self.facts.filter(pc.less(self.facts["window_start_ms"], until_ms))
        start, clipped, rhythmic = (integers(facts, name) for name in FACTS_SCHEMA.names[:3])
        grid = np.searchsorted(integers(whole, "window_start_ms"), start, side="right") - 1
        names = [f"rhythmic_{name}" for name in ("cells", "level", "cosine", "sine")]
        cells, level, of_rhythm, mean, cosine, sine = (
            np.append(whole[name].to_numpy(), 0)[grid] for name in ("known_cells", "level", *names)
        )
        wave = wave_at(start)
        then = np.maximum(mean + cosine * wave.real + sine * wave.imag, LEAST_BUSY * mean)
        factor, other = _busier(clipped, level, cells), _busier(rhythmic, then, of_rhythm)
        busy = (factor > 1) | (other > 1)
        told = pa.table([start[busy], factor[busy], other[busy]], schema=BUSY_SCHEMA)
        return Brief(pools, told, _FOREVER if self.since_ms is None else self.since_ms + _DAY_MS)

    def watched(
        self,
        on: RulesOn,
        until_ms: int,
        *,
        parts: Sequence[str] | None = None,
        seen_ms: int | None = None,
    ) -> list[Scored]:
        """Return what rules say of what buckets saw of windows that begin before ``until_ms``.

        Of each window it is told once. ``parts`` is what those of actions are called, ``seen_ms``
        as of :func:`~kstoolkit.findings.scoring.score`.
        """
        if not (watch := on.watch):
            return []
        told, metadata = [], with_parts(pa.schema([]), parts).metadata
        is_over = pc.less(self.lasting["window_start_ms"], until_ms)
        rows = self.lasting.filter(is_over).replace_schema_metadata(metadata)
        self.lasting = self.lasting.filter(pc.invert(is_over))
        if len(rows):
            told.append(score_lasting(rows, pools_of(self.moments), on, seen_ms=seen_ms))
        if watch.newcomers and self.since_ms is not None:
            counts, actions = self._arrivals(until_ms)
            counts = counts.replace_schema_metadata(metadata)
            told.append(score_newcomers(counts, actions, on, seen_ms=seen_ms))
        return told

    def _arrivals(self, until_ms: int) -> tuple[pa.Table, int]:
        """Learn how many newcomers each action had; return that beside what was known before.

        On the first day everybody is one: that teaches nothing.
        """
        known = Baselines.decode(self.arrived) if self.arrived else Baselines.empty(self.every_ms)
        since_ms = max(known.closed_ms, (self.since_ms or 0) + _DAY_MS)
        start = self.newcomers["window_start_ms"]
        is_over = pc.less(start, until_ms)
        some = self.newcomers.filter(pc.and_(is_over, pc.greater_equal(start, since_ms)))
        self.newcomers = self.newcomers.filter(pc.invert(is_over))
        keys = ["window_start_ms", "action"]
        counts = some.group_by(keys).aggregate([("count", "sum")]).rename_columns([*keys, "count"])
        counts = counts.sort_by([(name, "ascending") for name in keys])  # in any order by threads
        counts = counts.append_column("user", pa.repeat(NEWCOMERS, len(counts)))
        closed = known.close(counts, until_ms)
        self.arrived = known.encode()
        return closed.material, len(known.cells.actions)

    def judge(self, scored: Sequence[Scored], until_ms: int) -> pa.Table:
        """Return the findings among candidates, and what is one no more, which has chance 1.

        ``scored`` is what was said of all counts of windows that begin before ``until_ms``, which
        all buckets have closed, and were not judged before; and of those that are not over.
        """
        some = (Scored(), *scored)
        candidates = pa.concat_tables(each.candidates for each in some)
        surprises = pa.concat_tables(each.surprises for each in some)
        is_open = np.asarray(candidates["is_open"].to_numpy(), bool)
        surprise, was = (floats(candidates, name) for name in ("surprise", "before"))
        history, start = (integers(candidates, name) for name in ("history", "slot_ms"))
        worth, earlier = np.zeros(len(start)), np.full(len(start), -np.inf)
        before = pc.less(self.facts["window_start_ms"], until_ms)
        slot = np.where(is_open, _NEVER, start)
        order = np.argsort(slot, kind="stable")
        for at, counts, seen, age in self._windows(self.facts.filter(before), surprises):
            begin, end = np.searchsorted(slot, [at, at + 1], sorter=order)
            rows = order[begin:end]
            if len(rows):
                worth[rows] = self.calibration.surprise(surprise[rows], history[rows])
                rows = rows[was[rows] >= 1]  # less is told of nobody
            if len(rows):
                earlier[rows] = self.calibration.surprise(was[rows], history[rows])
            self.calibration.learn(counts, seen, age)
            self.judged_ms = at
        worth[is_open] = self.calibration.surprise(surprise[is_open], history[is_open])
        self.facts = self.facts.filter(pc.invert(before))
        grids = integers(self.moments, "window_start_ms")
        newest = grids[grids <= until_ms].max(initial=_NEVER)
        self.moments = self.moments.filter(pa.array(grids >= newest))
        least = floats(candidates, "least_surprise")
        passes = (worth >= least) & (earlier < least)
        found = _with_chance(candidates, -worth).filter(pa.array(passes))
        return self._settled(found, pa.array(is_open[passes]), until_ms)

    def _settled(self, found: pa.Table, is_open: pa.Array, until_ms: int) -> pa.Table:
        """Return what was found, and of what was told before of windows now judged the rest."""
        is_over = pc.less(self.told["window_start_ms"], until_ms)
        closed = found.filter(pc.invert(is_open))
        gone, there = self.told.filter(is_over), set(_keys(closed))
        gone = gone.filter(pa.array([key not in there for key in _keys(gone)], pa.bool_()))
        still = found.filter(pc.greater_equal(found["window_start_ms"], until_ms))
        told = pa.concat_tables([self.told.filter(pc.invert(is_over)), still])
        self.told = told.take(newest_rows(told))
        return pa.concat_tables([found, _with_chance(gone, np.zeros(len(gone)))])

    def _windows(
        self, facts: pa.Table, surprises: pa.Table
    ) -> Iterator[tuple[int, Floats, Floats, float]]:
        """Yield each window: its start, surprises, tests, and how much earlier ones have aged."""
        if not len(facts):
            return
        start, firsts = (integers(facts, name) for name in ("window_start_ms", "firsts"))
        pools = pools_of(self.moments)
        whole = pools.filter(pools["action"].is_null())
        grid = np.searchsorted(integers(whole, "window_start_ms"), start, side="right") - 1
        names = ("cells", "known_cells", "firsts")
        cells, known, pooled = (np.append(integers(whole, name), 0)[grid] for name in names)
        young = np.where(np.append(whole["alpha"].to_numpy(), np.nan)[grid] > 0, cells - known, 0)
        firsts = np.where(pooled >= FEWEST_PEERS, firsts, 0)
        age = max(_AGE_PER_HOUR ** (self.every_ms / _HOUR_MS), _OLDEST_AGE)
        first_ms = start[:1] - self.every_ms if self.judged_ms is None else [self.judged_ms]
        passed = np.diff(start, prepend=first_ms) // self.every_ms
        row = places(start, integers(surprises, "window_start_ms"))
        order = np.argsort(row, kind="stable")
        ends = np.searchsorted(row[order], np.arange(len(start) + 1))
        names = ("history", "bin", "counts")
        kind, place, number = (integers(surprises, name)[order] for name in names)
        for each, at in enumerate(start.tolist()):
            mine = slice(ends[each], ends[each + 1])
            counts = np.zeros((_HISTORIES, BINS))
            np.add.at(counts, (kind[mine], place[mine]), number[mine])
            times = (1 - age ** passed[each]) / (1 - age)
            grown = known[each] * times
            seen = np.array([firsts[each], young[each] * times, grown, grown, 0])
            yield at, counts, seen, float(age ** passed[each])

    def encode(self, *, passing: bool = False) -> bytes:
        """Return it as bytes, to be kept or passed on: JSON, and Arrow IPC streams behind it."""
        names = ("every_ms", "closed_ms", "since_ms", "judged_ms")
        told = {name: getattr(self, name) for name in names}
        head = json.dumps(told | {"seen": self.calibration.seen.tolist()}).encode()
        kind, place = np.nonzero(self.calibration.counts)
        counts = {"history": kind, "bin": place, "counts": self.calibration.counts[kind, place]}
        arrived = pa.table({"arrived": pa.array([self.arrived], pa.binary())})
        known = (self.moments, self.facts, self.told, self.lasting, self.newcomers, arrived)
        tables = streamed(*known, pa.table(counts), passing=passing)
        return len(head).to_bytes(4, "big") + head + tables

    @classmethod
    def decode(cls, block: bytes) -> Everyone:
        """Read what :meth:`encode` wrote."""
        length = 4 + int.from_bytes(block[:4], "big")
        told = json.loads(block[4:length])
        *tables, bins = streams_in(block[length:])
        calibration = Calibration(seen=np.array(told.pop("seen")))
        calibration.counts[integers(bins, "history"), integers(bins, "bin")] = bins["counts"]
        told["closed_ms"] = {int(bucket): at for bucket, at in told["closed_ms"].items()}
        names = ("moments", "facts", "told", "lasting", "newcomers")
        told |= dict(zip(names, tables, strict=False)) | {"calibration": calibration}
        told["told"] = as_stored(told["told"])
        return cls(arrived=tables[-1]["arrived"][0].as_py(), **told)


def _busier(clipped: Integers, usual: Floats, cells: Integers) -> Floats:
    """Return how much more than usual so many cells do, where they are enough, or 1."""
    enough = (cells >= FEWEST_PEERS) & (usual > 0)
    return np.maximum(np.where(enough, clipped / np.where(enough, usual, 1), 1), 1)


def _keys(findings: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(findings[name].to_pylist() for name in KEY), strict=True)


def _with_chance(findings: pa.Table, log10: Floats) -> pa.Table:
    chance = pa.array(log10 + 0.0)
    return with_column(findings.select(FINDINGS_SCHEMA.names), "log10_probability", chance)
