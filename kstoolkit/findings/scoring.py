"""Rules over the counts of one kind of window: columns in, findings out.

Limits speak for themselves. How unusual a count is can be told only after those of earlier windows:
so there are *candidates*, which no limit of the budget's is too low for, and how surprising all
counts were, from which :mod:`~kstoolkit.findings.calibration` sees what surprise is worth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.findings.lasting import AS_IS, BLOCK, RISING
from kstoolkit.findings.peers import (
    FEWEST_PEERS,
    FEWEST_WINDOWS,
    POOLS_SCHEMA,
    floats,
    integers,
    never_null,
    of_kinds,
    places,
    streamed,
    streams_in,
)
from kstoolkit.findings.rhythm import busy_at
from kstoolkit.findings.rules import (
    Campaign,
    Ceiling,
    Comparing,
    Distinct,
    Drift,
    Learning,
    Longer,
    TooEven,
    exempted,
)
from kstoolkit.findings.tails import Peers, interval
from kstoolkit.formats.actions import parts_in, split

if TYPE_CHECKING:
    from kstoolkit.findings.peers import Flags, Floats, Integers, Waves
    from kstoolkit.findings.rules import Looking, RulesOn

_DAY_MS = 86_400_000

FIRST, YOUNG, KNOWN = range(3)
"""Which history a cell has: none, too little to be its own, enough."""

BINS_PER_DECADE, BINS = 10, 600
"""Surprise is the negative decimal logarithm of a probability: its bins are a tenth each."""

_SURPRISING = float(np.log(0.1))
LIGHTEST = 0.7
"""No surprise is worth more than it over this: no tail is taken to be lighter."""

CANDIDATES_SCHEMA = pa.schema(
    [
        *FINDINGS_SCHEMA,
        *never_null(pa.float64(), "surprise", "least_surprise", "before"),
        *never_null(pa.int64(), "history", "slot_ms"),
        *never_null(pa.bool_(), "is_open"),
    ]
)
"""Findings to be, with their surprise, the least that the budget lets through, how surprising the
same was before, and whether their window is not over yet; ``history`` is one of :data:`FIRST`,
:data:`YOUNG`, :data:`KNOWN`, or of :mod:`~kstoolkit.findings.lasting`; ``slot_ms`` is when the
window began, and of a session, the gap in which it did."""

SURPRISES_SCHEMA = pa.schema(never_null(pa.int64(), "window_start_ms", "history", "bin", "counts"))
"""How many counts of each closed window had a surprise in that bin, from 1 on."""

BUSY_SCHEMA = pa.schema(
    [*never_null(pa.int64(), "window_start_ms"), *never_null(pa.float64(), "factor", "rhythmic")]
)
"""How much more all do in a window than they usually do, and those with a rhythm than then."""

_EVIDENCE = ("expected_low", "expected_high", "baseline_windows", "peers")


@dataclass(frozen=True, slots=True, eq=False)
class Brief:
    """What is told of all users to whoever judges some counts of them.

    ``pools`` are what peers do, of :data:`~kstoolkit.findings.peers.POOLS_SCHEMA`; ``busy``
    (:data:`BUSY_SCHEMA`) are windows in which all do more than usual. Before ``warm_ms`` peers are
    known for less than a day, and windows are not judged by them.
    """

    pools: pa.Table
    busy: pa.Table
    warm_ms: int

    def encode(self) -> bytes:
        """Return it as bytes: Arrow IPC streams."""
        return streamed(self.pools, self.busy, pa.table({"warm_ms": [self.warm_ms]}), passing=True)

    @classmethod
    def decode(cls, block: bytes) -> Brief:
        """Read what :meth:`encode` wrote."""
        pools, busy, warm = streams_in(block)
        return cls(pools, busy, warm["warm_ms"][0].as_py())

    def factor(self, start_ms: Integers, rhythm: Waves) -> Floats:
        """Return how much more than usual all do in each window, or all who have a rhythm."""
        place = places(integers(self.busy, "window_start_ms"), start_ms)
        _, *told = (np.append(column.to_numpy(), 1.0)[place] for column in self.busy.columns)
        return np.where(rhythm == 0, *told)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """What rules say of some counts: findings of limits; candidates; how surprising all were.

    ``unjudged`` counts those that nothing could be said of, for want of peers or history.
    """

    findings: pa.Table = field(default_factory=FINDINGS_SCHEMA.empty_table)
    candidates: pa.Table = field(default_factory=CANDIDATES_SCHEMA.empty_table)
    surprises: pa.Table = field(default_factory=SURPRISES_SCHEMA.empty_table)
    unjudged: int = 0

    def encode(self) -> bytes:
        """Return what is not decided yet as bytes: Arrow IPC streams."""
        unjudged = pa.table({"unjudged": [self.unjudged]})
        return streamed(self.candidates, self.surprises, unjudged, passing=True)

    @classmethod
    def decode(cls, block: bytes) -> Scored:
        """Read what :meth:`encode` wrote."""
        candidates, surprises, unjudged = streams_in(block)
        told = unjudged["unjudged"][0].as_py()
        return cls(candidates=candidates, surprises=surprises, unjudged=told)


def score(
    material: pa.Table, brief: Brief | None, on: RulesOn, *, seen_ms: int | None = None
) -> Scored:
    """Return what rules say of some counts of the windows that they look at.

    ``material`` has ``window_start_ms``, ``user``, ``action``, ``count``; and, for rules that need
    a baseline, the columns of :class:`~kstoolkit.findings.baselines.Closed`, and ``is_open`` where
    windows are not over; of sessions, ``began_ms`` and ``end_ms``, too. Of actions of several
    parts, the schema's metadata names them. Without a ``brief`` of what is known of all users there
    are no findings but those of limits. It is looked at at ``seen_ms``, the batch's time, the same
    again in a replay; by default at the end of each window.

    >>> from kstoolkit.findings.rules import rules_on
    >>> counts = {"window_start_ms": [0, 0], "user": ["a", "b"], "action": ["x", "x"]}
    >>> material = pa.table(counts | {"count": [3, 101]})
    >>> told = score(material, None, rules_on([Ceiling("1 minute", 100)], "1 minute"))
    >>> told.findings["user"].to_pylist()
    ['b']
    """
    if not on.looking:
        return Scored()
    large = material.filter(pc.greater_equal(material["count"], on.floor))
    users = large["user"].cast(pa.string())
    began = large["began_ms" if "began_ms" in large.column_names else "window_start_ms"]
    large = large.filter(pc.invert(exempted(on.exempts, users, began, of=on.looking)))
    evidence = _Evidence(large, brief, on.watch.group)
    unusual = [rule for rule in on.looking if evidence.known and isinstance(rule, Comparing)]
    found = [
        _findings(rule, large, evidence, _limited(rule, large, evidence), seen_ms)
        for rule in on.looking
        if not isinstance(rule, Learning)
    ]
    candidates = [CANDIDATES_SCHEMA.empty_table()]
    for rule in unusual:
        may = evidence.judged & evidence.is_record & (evidence.count >= rule.min_count)
        candidates.append(_let_through(rule, large, (evidence, may), evidence.peers.cells, seen_ms))
    tables = (
        on.unexempted(pa.concat_tables([FINDINGS_SCHEMA.empty_table(), *found])),
        on.unexempted(pa.concat_tables(candidates)),
    )
    if not unusual:
        return Scored(*tables)
    least = min(rule.min_count for rule in unusual)
    return Scored(*tables, evidence.surprises(least), evidence.unjudged(least))


class _Evidence:
    """What is to be expected of each row, and how surprising it is; NaN where nothing is known."""

    def __init__(self, rows: pa.Table, brief: Brief | None, group: str | None = None) -> None:
        self.count, self.start_ms = integers(rows, "count"), integers(rows, "window_start_ms")
        self.known = brief is not None and "n" in rows.column_names
        self.surprise, self.before = np.zeros(len(self.count)), np.zeros(len(self.count))
        self.is_open = np.zeros(len(self.count), bool)
        if brief is None or not self.known:
            return
        names = ("sum", "sum_of_squares", "second", "cosine", "sine")
        total, squares, second, cosine, sine = (floats(rows, name) for name in names)
        self.n, rhythm = integers(rows, "n"), cosine + 1j * sine
        factor = brief.factor(self.start_ms, rhythm)
        if "is_open" in rows.column_names:
            self.is_open = np.asarray(rows["is_open"].to_numpy(), bool)
        self.history = np.where(self.n >= FEWEST_WINDOWS, KNOWN, np.where(self.n, YOUNG, FIRST))
        action = of_kinds(rows["user"], rows["action"], group)
        self.peers = Peers.at(brief.pools, self.start_ms, action, has_kinds=group is not None)
        busy = factor * busy_at(self.start_ms, rhythm)
        self.expected = self.peers.expect(self.n, total, squares, busy, rhythm)
        is_first = self.history == FIRST
        is_warm = self.start_ms >= brief.warm_ms
        is_warm &= ~is_first | (self.peers.firsts >= FEWEST_PEERS)
        self.judged = ~np.isnan(self.expected.mean) & (is_warm | (self.history == KNOWN))
        self.is_record = is_first | (self.count > factor * second)
        some = np.flatnonzero(~np.isnan(self.expected.mean) & (self.count > 0))
        rare, log_p = self.expected.take(some).rare(self.count[some], _SURPRISING)
        self.surprise[some[rare]] = np.maximum(-log_p / np.log(10), 1.0)

    def surprises(self, least: int) -> pa.Table:
        """Return how many of the counts from ``least`` on were how surprising."""
        some = (self.surprise >= 1) & (self.count >= least) & ~self.is_open
        bins = np.minimum(self.surprise[some] * BINS_PER_DECADE, BINS - 1).astype(np.int64)
        keys = {"window_start_ms": self.start_ms[some], "history": self.history[some], "bin": bins}
        told = pa.table(keys).group_by([*keys], use_threads=False).aggregate([([], "count_all")])
        return told.rename_columns(SURPRISES_SCHEMA.names).cast(SURPRISES_SCHEMA)

    def unjudged(self, least: int) -> int:
        """Return of how many counts from ``least`` on nothing can be said."""
        return int(((self.count >= least) & ~self.judged & ~self.is_open).sum())

    def columns(self, rows: Integers) -> dict[str, pa.Array]:
        """Return the expected range of some rows and what it rests on; null where unknown."""
        columns = np.zeros((len(_EVIDENCE), len(rows)), np.int64)
        known = np.zeros(len(rows), bool)
        if self.known:
            known = self.judged[rows]
            told = rows[known]
            is_first = self.history[told] == FIRST
            columns[:2, known] = self.expected.take(told).interval()
            columns[0, known] = np.maximum(columns[0, known], is_first)  # or it would be none
            columns[2, known] = self.n[told]
            peers = np.where(is_first, self.peers.firsts[told], self.peers.number[told])
            columns[3, known] = np.where(peers >= FEWEST_PEERS, peers, 0)
        return {
            name: pa.array(column, mask=~known)
            for name, column in zip(_EVIDENCE, columns, strict=True)
        }


class _Told:
    """What is to be expected of rows that bring it along, and how surprising they are."""

    def __init__(self, rows: pa.Table) -> None:
        self.start_ms, self.n = integers(rows, "window_start_ms"), integers(rows, "n")
        self.history, self.is_open = integers(rows, "history"), np.zeros(len(rows), bool)
        self.mean, self.dispersion = (floats(rows, name) for name in ("mean", "dispersion"))
        self.surprise, self.before = (floats(rows, name) for name in ("surprise", "before"))

    def columns(self, rows: Integers) -> dict[str, pa.Array]:
        """Return the expected range of some rows and what it rests on."""
        mean = self.mean[rows]
        low, high = interval(mean, mean + self.dispersion[rows] * mean * mean)
        told = (low, high, self.n[rows], np.zeros(len(rows), np.int64))
        return dict(zip(_EVIDENCE, map(pa.array, told), strict=True))


def _findings(
    rule: Looking,
    rows: pa.Table,
    evidence: _Evidence | _Told,
    chosen: Integers,
    seen_ms: int | None,
) -> pa.Table:
    """Return the chosen rows as findings of a rule."""
    picked = rows.take(pa.array(chosen))
    parts = parts_in(rows.schema)
    told: dict[str, Any] = {"rule": rule.name, "kind": type(rule).__name__}
    by = () if isinstance(rule, Distinct) else parts  # who touched what in all that is done
    told |= {} if by is None else {"by": json.dumps(list(by))}
    told |= {"window": rule.window.label, "window_ms": rule.window.size_ms}
    told |= {"ceiling": rule.count} if isinstance(rule, Ceiling) else {}
    ends = pc.add(picked["window_start_ms"], rule.window.size_ms)
    if "end_ms" in rows.column_names:
        ends = told["session_end_ms"] = picked["end_ms"]
    if "since_ms" in rows.column_names:
        told["since_ms"] = picked["since_ms"]
    told |= {name: picked[name] for name in ("user", "action", "count")}
    began = "began_ms" if "began_ms" in rows.column_names else "window_start_ms"
    seen = ends if seen_ms is None else seen_ms
    told |= {"window_start_ms": picked[began], "first_seen_ms": seen} | evidence.columns(chosen)
    columns = [_column(field, told.get(field.name), len(chosen)) for field in FINDINGS_SCHEMA]
    return pa.table(columns, schema=FINDINGS_SCHEMA)


def _column(field: pa.Field, told: Any, length: int) -> pa.Array:
    """Return a column of what is told of each row, or of all of them."""
    if isinstance(told, pa.Array | pa.ChunkedArray):
        return told.cast(field.type)
    return pa.repeat(pa.scalar(told, field.type), length)


def _limited(rule: Ceiling | Longer, rows: pa.Table, evidence: _Evidence) -> Integers:
    """Return the rows that are beyond a rule's limit."""
    if isinstance(rule, Longer):
        lasted_ms = integers(rows, "end_ms") - integers(rows, "began_ms")
        return np.flatnonzero(lasted_ms > rule.duration_ms)
    above: Flags = evidence.count > rule.count
    if rule.actions is not None:
        parts, texts = parts_in(rows.schema), rows["action"].cast(pa.string()).combine_chunks()
        told = texts if parts is None else split(texts, len(parts))[0]
        above &= np.asarray(pc.is_in(told, value_set=pa.array(rule.actions)))
    return np.flatnonzero(above)


def _let_through(
    rule: Learning,
    rows: pa.Table,
    told: tuple[_Evidence | _Told, Flags],
    cells: Integers,
    seen_ms: int | None,
    *,
    windows: int = 1,
) -> pa.Table:
    """Return the rows that may be let through, and that the budget of false alarms might.

    With N tests a day, flagging where p · N does not exceed the budget expects no more false
    alarms than that, if p is calibrated (Bonferroni). As many sessions as have room in a day are
    more than there are. Each test is of so many ``windows``.
    """
    evidence, may = told
    tests = np.maximum(cells * (_DAY_MS / (windows * rule.window.every_ms)), 1)
    least = np.log10(tests / (rule.false_alarms_per_day or 1))
    chosen = np.flatnonzero(may & (evidence.surprise >= np.maximum(LIGHTEST * least, 1)))
    found = _findings(rule, rows, evidence, chosen, seen_ms)
    numbers = (evidence.surprise, least, evidence.before)
    facts = (evidence.history, evidence.start_ms, evidence.is_open)
    columns = [pa.array(column[chosen]) for column in (*numbers, *facts)]
    return pa.table([*found.columns, *columns], schema=CANDIDATES_SCHEMA)


def score_lasting(
    rows: pa.Table, pools: pa.Table, on: RulesOn, *, seen_ms: int | None = None
) -> Scored:
    """Return what rules say of rows of :data:`~kstoolkit.findings.lasting.LASTING_SCHEMA`."""
    cells = Peers.at(pools, integers(rows, "window_start_ms"), rows["action"]).cells
    told = _Told(rows)
    candidates = [CANDIDATES_SCHEMA.empty_table()]
    for rule in on.looking:
        if isinstance(rule, Drift | TooEven):
            history, windows = (RISING, 1) if isinstance(rule, Drift) else (AS_IS, BLOCK)
            may = told.history == history
            found = _let_through(rule, rows, (told, may), cells, seen_ms, windows=windows)
            candidates.append(found)
    rising = told.history == RISING
    was = rising & (told.before >= 1)  # an excursion that goes higher is none that ended there
    surprise = np.concatenate([told.surprise[rising], told.before[was]])
    keys = {"window_start_ms": np.append(told.start_ms[rising], told.start_ms[was])}
    keys |= {"history": np.full(len(surprise), RISING)}
    keys |= {"bin": np.minimum(surprise * BINS_PER_DECADE, BINS - 1).astype(np.int64)}
    counts = np.repeat([1, -1], [rising.sum(), was.sum()])
    surprises = pa.table([*keys.values(), counts], schema=SURPRISES_SCHEMA)
    found = on.unexempted(pa.concat_tables(candidates))
    return Scored(candidates=found, surprises=surprises)


def score_newcomers(
    counts: pa.Table, actions: int, on: RulesOn, *, seen_ms: int | None = None
) -> Scored:
    """Return what rules say of how many users did each of the actions for the first time.

    ``counts`` are the ``material`` of :class:`~kstoolkit.findings.baselines.Closed`.
    """
    evidence = _Evidence(counts, Brief(POOLS_SCHEMA.empty_table(), BUSY_SCHEMA.empty_table(), 0))
    evidence.history = np.full(len(counts), AS_IS)
    cells = np.full(len(counts), actions)
    may = evidence.judged & evidence.is_record
    rules = [rule for rule in on.looking if isinstance(rule, Campaign)]
    told = [_let_through(rule, counts, (evidence, may), cells, seen_ms) for rule in rules]
    return Scored(candidates=pa.concat_tables([CANDIDATES_SCHEMA.empty_table(), *told]))
