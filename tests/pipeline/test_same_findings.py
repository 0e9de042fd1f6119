"""The same events give the same findings, whatever way they take: buckets, batches, live or not.

The operator and the sink are those of a run; a dict stands in Spark's place.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.counters.bucket import Reached
from kstoolkit.counters.counters import Counters
from kstoolkit.counters.distinct import Touched
from kstoolkit.findings.stories import find_in_windows, merge_findings
from kstoolkit.pipeline import operator
from kstoolkit.pipeline.datasources import TICK
from kstoolkit.pipeline.operator import CLOSED, MATERIAL, REST, CascadeOperator
from kstoolkit.pipeline.pipeline import Pipeline, _operator_plan
from kstoolkit.pipeline.shuffle import BLOCK, REACHED, items_kind
from kstoolkit.pipeline.sink import Judging
from tests.pipeline.test_operator import over

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
START_MS = 20_500 * DAY_MS
RULES = (
    kst.Unusual("1 hour", 50),
    kst.Ceiling("1 hour", 60),
    kst.Drift("1 hour", false_alarms_per_day=40),
    kst.TooEven("1 hour", 1),
    kst.Campaign("1 hour", 1),
    kst.Drift("1 hour", 1.5, 40, by=[]),
    kst.Unusual("1 hour", 50, by=[], group="-[1-3]"),
    kst.Distinct("page", "1 hour", 50),
)
KINDS = {"Unusual": 5, "Drift": 5, "TooEven": 2, "Campaign": 1, "Distinct": 5}
"""How many findings there are of each kind, and more."""
HOURS = 84


class Events(NamedTuple):
    """Columns of events, one each."""

    time_ms: np.ndarray[Any, np.dtype[np.int64]]
    user: np.ndarray[Any, Any]
    action: np.ndarray[Any, Any]

    def take(self, rows: Any) -> Events:
        return Events(*(column[rows] for column in self))

    @property
    def pages(self) -> Touched:
        """What was touched by hour: of a hundred pages, each second another."""
        pages = [f"page {second}" for second in self.time_ms // 1_000 % 97]
        hours = self.time_ms // HOUR_MS * HOUR_MS
        return Touched.of(hours, pa.array(self.user), pa.array(pages))


class Told(NamedTuple):
    """What one bucket told in a batch, as a row of Spark's."""

    kind: str
    bucket: int
    level: int
    payload: bytes

    def __getitem__(self, name: Any) -> Any:
        return getattr(self, name)


def world(seed: int, users: int = 60, hours: int = HOURS) -> Events:
    """People of very different rates, some of whom do far more in an hour, in order of time.

    Half of them leave after 40 hours: stream time gets no further then. Others do four times as
    much from some hour on; some are machines, and forty are new at once.
    """
    draw = np.random.default_rng(seed)
    rate = draw.lognormal(0.5, 1, (users, 2)) / 2
    mean = rate[:, :, None] * draw.lognormal(0, 0.5, (users, 2, hours))
    for user in draw.choice(users, 12, replace=False):
        mean[user, draw.integers(2), draw.integers(26, hours)] += draw.uniform(15, 80)
    mean[: users // 2, :, 40:] = 0
    mean[-12:, :, 66:] *= 4
    count = draw.poisson(mean)
    count[users // 2 - 3 : users // 2, 0] = np.arange(4, 7)[:, None]
    newcomers = np.zeros((40, 2, hours), np.int64)
    newcomers[:, 1, 78] = 1
    newcomers[:2, 1, 60:65] = 1
    count = np.concatenate([count, newcomers])
    user, action, hour = np.nonzero(count)
    each = np.repeat(np.arange(len(user)), count[user, action, hour])
    time_ms = START_MS + hour[each] * HOUR_MS + draw.integers(0, HOUR_MS, len(each))
    order = np.argsort(time_ms, kind="stable")
    names = np.array([f"user-{number}" for number in range(len(count))])
    texts = np.array(["read", "write"])
    return Events(time_ms[order], names[user[each]][order], texts[action[each]][order])


class Way:
    """A run's operator and sink, one call a batch."""

    def __init__(self, folder: Path, buckets: int, *, live: bool, rules: Any = RULES) -> None:
        self.cascade = kst.Cascade("1 minute", "1 hour")
        pipeline = Pipeline(
            source=kst.simulate(event_count=10), cascade=self.cascade, buckets=buckets, rules=rules
        )
        self.rules, self.buckets, self.live = rules, buckets, live
        self.operators = []
        for _ in range(buckets):
            counting = CascadeOperator(_operator_plan(pipeline, rules, live=live))
            counting.opened = over({})
            self.operators.append(counting)
        self.folder, self.batch, self.found = folder, 0, list[pa.Table]()

    def count(self, events: Events | None, now_ms: int) -> None:
        """Count a batch; without events it has ticks alone."""
        records: dict[int, list[tuple[str, bytes]]] = {}
        if events is None:
            records = {bucket: [(TICK, b"")] for bucket in range(self.buckets)}
        else:
            panes = events.time_ms // MINUTE_MS * MINUTE_MS
            counters = Counters.of(panes, pa.array(events.user), pa.array(events.action))
            reached = np.array(Reached.by_most(counters)).tobytes()
            records = {bucket: [(REACHED, reached)] for bucket in range(self.buckets)}
            for bucket, part in counters.by_bucket(self.buckets):
                records[bucket].append((BLOCK, part.encode()))
            for bucket, touched in events.pages.by_bucket(self.buckets):
                records[bucket].append((items_kind("page", HOUR_MS), touched.encode()))
        told: list[Told] = []
        for bucket, each in records.items():
            kinds, payloads = zip(*each, strict=True)
            rows = pd.DataFrame({"kind": kinds, "payload": payloads, "now_ms": now_ms})
            for out in self.operators[bucket].handleInputRows((bucket,), iter([rows]), None):
                names = ("kind", "bucket", "level", "payload")
                told += map(Told._make, zip(*(out[name] for name in names), strict=True))
        self.found += self._judge(told, now_ms)
        self.batch += 1

    def _judge(self, told: Sequence[Told], now_ms: int) -> Iterable[pa.Table]:
        """Do as :meth:`kstoolkit.pipeline.sink.Sink._judge` does, in this process."""
        place, before = self._place(self.batch), self._place(self.batch - 1)
        material = []
        for number, row in enumerate(told):
            if row.kind == MATERIAL:
                path = place / f"given-{number}-{row.level}.arrow"
                path.write_bytes(row.payload)
                material.append((str(path), path.name))
        material += [(str(path), path.name) for path in sorted(before.glob("part-pending-*"))]
        everyone = defaultdict[str, list[str]](list)
        for number, row in enumerate(told):
            if row.kind.startswith((CLOSED, REST)):
                path = place / f"told-{number}"
                path.write_bytes(row.payload)
                everyone[row.kind].append(str(path))
        of = (tuple(self.rules), None, None, self.cascade.levels, self.buckets)
        judging = Judging(*of, now_ms, str(place), str(place))
        views = judging.gather(before / "part-everyone.parquet", everyone)
        scored: dict[str, list[str]] = {}
        numbers = pa.record_batch({"id": pa.array(np.arange(len(material)))})
        moves = []
        for batch in judging.scoring(material, views)(iter([numbers])):
            for row in batch.to_pylist():
                moves += json.loads(row["files"])
                scored.setdefault(row["view"], []).append(row["scored"])
        moves += judging.decide(views, scored)["files"]
        for hidden, name in moves:
            Path(hidden).rename(name)
            if Path(name).name != "part-everyone.parquet" and name.endswith(".parquet"):
                yield pq.read_table(name)

    def _place(self, batch: int) -> Path:
        place = self.folder / f"{self.buckets}-{self.live}-{batch}"
        place.mkdir(exist_ok=True, parents=True)
        return place

    def findings(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        return by_key(merge_findings(self.found))


def by_key(findings: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return findings by what they are known by, without when they were seen."""
    rows = findings.drop_columns(["first_seen_ms", "other_levels"]).to_pylist()
    names = ("rule", "user", "action", "window_start_ms")
    return {tuple(row[name] for name in names): row for row in rows}


def assert_same(one: dict[tuple[Any, ...], Any], other: dict[tuple[Any, ...], Any]) -> None:
    assert one.keys() == other.keys()
    for key, row in one.items():
        log10 = row["log10_probability"], other[key]["log10_probability"]
        assert log10[0] == (log10[1] if log10[1] is None else pytest.approx(log10[1], abs=1e-9))
        assert {**row, "log10_probability": 0} == {**other[key], "log10_probability": 0}


def assert_all_kinds(found: dict[tuple[Any, ...], Any]) -> None:
    kinds = Counter(key[0].split(" ", 1)[0] for key in found)
    assert all(kinds[kind] >= least for kind, least in KINDS.items()), kinds


def batches(events: Events, number: int, draw: np.random.Generator) -> list[Events]:
    """Split events, in their order, at any places."""
    cuts = np.sort(draw.integers(0, len(events.time_ms), number - 1))
    parts = [events.take(part) for part in np.split(np.arange(len(events.time_ms)), cuts)]
    return [part for part in parts if len(part.time_ms)]


def complete(events: Events) -> pa.Table:
    """Return the counts of all hours, added up in plain Python."""
    hours = (events.time_ms // HOUR_MS * HOUR_MS).tolist()
    counts = Counter(zip(hours, events.user.tolist(), events.action.tolist(), strict=True))
    rows = [(*key, count) for key, count in counts.items()]
    names = ("window_start_ms", "user", "action", "count")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def looked_for(events: Events) -> dict[tuple[Any, ...], Any]:
    """Return what a look at all counts finds; how many pages there were is a count like others."""
    rules = [rule for rule in RULES if not isinstance(rule, kst.Distinct)]
    found = by_key(find_in_windows({"1 hour": complete(events)}, rules).table)
    (distinct,) = (rule for rule in RULES if isinstance(rule, kst.Distinct))
    pages = events.pages.counts("page", ("",)).to_table().replace_schema_metadata(None)
    same = {"rule": distinct.name, "kind": "Distinct", "by": "[]"}
    for key, row in by_key(
        find_in_windows({"1 hour": pages}, [kst.Unusual("1 hour", 50)]).table
    ).items():
        found[distinct.name, *key[1:]] = row | same
    return found


@pytest.mark.parametrize(
    ("seed", "buckets", "number", "together"),
    [
        (1, 1, 1, None),
        pytest.param(2, 8, 4, 500, marks=pytest.mark.long),
        pytest.param(2, 8, 4, 1, marks=pytest.mark.long),
        pytest.param(3, 64, 2, 1, marks=pytest.mark.long),
    ],
)
def test_a_run_that_ends_finds_what_a_look_at_its_counts_does(  # noqa: PLR0917 - what differs
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    buckets: int,
    number: int,
    together: int | None,
) -> None:
    if together is not None:  # so many counters are closed at once, or the next more
        monkeypatch.setattr(operator, "_WORTH_A_LOOK", together)
    events, draw = world(seed), np.random.default_rng(seed)
    right = looked_for(events)
    assert_all_kinds(right)
    shuffled = events.take(draw.permutation(len(events.time_ms)))
    way, now_ms = Way(tmp_path, buckets, live=False), START_MS + 90 * DAY_MS
    for batch in batches(shuffled, number, draw):
        way.count(batch, now_ms)
    way.count(None, now_ms)
    assert_same(way.findings(), right)


@pytest.mark.parametrize(
    ("buckets", "number"),
    [
        (1, 30),
        pytest.param(8, 20, marks=pytest.mark.long),
        pytest.param(8, 80, marks=pytest.mark.long),
        pytest.param(64, 12, marks=pytest.mark.long),
    ],
)
def test_a_live_run_has_found_the_same_of_windows_that_are_over(
    tmp_path: Path, buckets: int, number: int
) -> None:
    events, draw = world(buckets), np.random.default_rng(number)
    until_ms = START_MS + (HOURS - 2) * HOUR_MS
    right = {key: row for key, row in looked_for(events).items() if key[3] < until_ms}
    assert_all_kinds(right)
    way = Way(tmp_path, buckets, live=True)
    came = events.time_ms + draw.integers(0, 8 * MINUTE_MS, len(events.time_ms))  # out of order
    for batch in batches(events.take(np.argsort(came)), number, draw):
        way.count(batch, int(batch.time_ms.max()) + 5_000)
    found = {key: row for key, row in way.findings().items() if key[3] < until_ms}
    assert_same(found, right)


def test_a_run_that_goes_on_has_found_the_same_at_its_end(tmp_path: Path) -> None:
    events = world(4)
    way, now_ms = Way(tmp_path, 8, live=False), START_MS + 90 * DAY_MS
    for part in np.array_split(np.arange(len(events.time_ms)), 3):
        way.count(events.take(part), now_ms)
        way.count(None, now_ms)
    assert_same(way.findings(), looked_for(events))
