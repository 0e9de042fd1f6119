"""How many machines a stream of events needs, and what its state will weigh, term by term.

::

    a rate, windows, users ─┐
    (or a run of yours) ────┴─▶ counters an event ──▶ store operations, what saves them, stores
                                       ├──▶ the largest partition, time to catch up ──▶ machines
                                       └──▶ rows, disk, memory; changelog; restore; money

Each term says its formula, and where its value is from: given, assumed, published, measured in a
run of yours or by this project, or following from others. What is published is a rule of thumb: a
store takes 15,000 operations a second, an event is a get and a put for each of its windows, and so
50 million events a second in three windows want 20,000 stores.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.ledger import Ledger
from kstoolkit.operations.traffic import Traffic, zipf
from kstoolkit.pipeline.run import Run, load_run
from kstoolkit.records import Record, Records, Source, Viewed, counted, of_source
from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.rocksdb.memory.planning import plan_memory
from kstoolkit.units import (
    check_whole,
    format_bytes,
    format_count,
    format_duration,
    format_span,
    parse_count,
    parse_duration,
)
from kstoolkit.windows import Cascade

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

    from kstoolkit.units import Duration

GIVEN, ASSUMED, PUBLISHED, FOLLOWS = "given", "assumed", "published", "follows"
BENCHMARK = "measured by this project"
"""Where values come from; else they were measured in a run, or a lab, which is named."""

OPERATIONS_A_SECOND = 15_000.0
"""Of one store, by the published rule of thumb."""

_BLOCKS = 8
"""Rows of a bucket that a batch of a cascade touches: blocks of many counters."""
_LEAST_INTERVAL_S, _HOURS_A_MONTH = 60, 730
_RECORD_BYTES, _EVENT_BYTES, _BROKER_CPU_S = 53.0, 72.0, 0.4
"""Of a record of a compacted changelog; of an event as JSON; of a broker, for a million events."""
_COPIED, _PROCESS_BYTES = 100 << 20, 1.1 * (1 << 30)
"""Bytes a second that a machine copies from a checkpoint's storage; of processes, for a core."""
_TOPIC_KEEPS_S = 24 * 3_600
"""For how much longer than a store the changelog of its windows is kept by Kafka Streams."""
_KEY_BYTES, _VALUE_BYTES = 36, 16
_BUSY, _USERS = 0.77, 20
"""How busy cores were as CPU was measured; users for each event a second."""
_OF_A_CORE, _MORE_PARTITIONS = 8, (1, 1.25, 1.5, 2, 3, 4, 6, 8)
"""Into how many parts what wants a core is put; how many times the cores are tried as partitions.
"""
_ROUND_FROM, _MOST, _FEW = 100, 1e30, 1_000
_MAY_BE_ZERO = frozenset({"price", "exponent", "key_share"})
_NUMBERS = _MAY_BE_ZERO | {"rate", "users", "operations"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What counts events, and what that was measured to cost.

    ``event_s`` and ``record_s`` are CPU of all its processes, in steady state, for a million events
    and for a million records of their changelog, at ``measured_at`` events a second on two cores.
    ``row_bytes`` is what a counter takes at rest; ``restored`` how many rows a second a machine
    restores, None where it copies files. Where counters are ``in_rows``, each is a row in segments
    by time. ``peak`` is how many times what lives there a disk had to hold as files were merged.
    """

    title: str
    event_s: float
    record_s: float
    measured_at: float
    row_bytes: float
    row_of: str
    restored: float | None
    in_rows: bool
    compaction: str
    peak: float


_SPARK, _STREAMS = "spark", "kafka_streams"
ENGINES = {
    _SPARK: Engine(
        title="kstoolkit on Spark, topic to topic",
        event_s=4.02,
        record_s=5.6,
        measured_at=229_000,
        row_bytes=4.0,
        row_of="in a block, of 3.2 to 4.2",
        restored=None,
        in_rows=False,
        compaction="level",
        peak=1.7,
    ),
    _STREAMS: Engine(
        title="Kafka Streams, a large cache",
        event_s=16.7,
        record_s=2.26,
        measured_at=99_000,
        row_bytes=45.0,
        row_of="a key of 24 and its window's 12, less what the row before has of them, and 16 + 13",
        restored=273_000,
        in_rows=True,
        compaction="universal",
        peak=3.9,
    ),
}


@dataclass(frozen=True, slots=True, repr=False)
class CapacityTerm(Record):
    """One term of a plan: what it comes to, by which formula, and where that is from."""

    section: str
    term: str
    unit: str
    formula: str
    origin: str
    value: float = of_source(Source.FORMULA)

    @property
    def text(self) -> str:
        """The value for people, with its unit."""
        if self.unit.startswith("bytes"):
            return f"{format_bytes(self.value)}{self.unit.removeprefix('bytes')}"
        if self.unit == "seconds":
            return format_span(self.value)
        if self.unit == "share":
            return f"{100 * self.value:.3g} %"
        return f"{_figure(self.value)} {self.unit}".rstrip()

    @property
    def how(self) -> str:
        """How it is worked out, and where it is from."""
        return f"{self.formula} ({self.origin})" if self.formula else self.origin

    def __str__(self) -> str:
        return f"{self.term}: {self.text}; {self.how}"

    def __repr__(self) -> str:
        return f"CapacityTerm({self})"


@dataclass(frozen=True, slots=True)
class Saving(Record):
    """One step from an update for each event and window to few: what is left after it.

    Parameters
    ----------
    step, formula, origin
        What is done, how its operations are worked out, and where that is from.
    operations
        Store operations an event.
    stores
        How many stores that many take, by what one takes.
    saves
        How many times fewer operations than before it.
    """

    step: str
    formula: str
    origin: str
    operations: float = of_source(Source.FORMULA)
    stores: float = of_source(Source.FORMULA)
    saves: float = of_source(Source.FORMULA)

    def __str__(self) -> str:
        stores = counted(ceil(self.stores), "stores")
        told = f"{self.operations:,.3g} operations an event, work for {stores}"
        fewer = "" if self.saves == 1 else f", {self.saves:,.3g} times fewer"
        return f"{told}{fewer}; {self.formula} ({self.origin})"


@dataclass(frozen=True, slots=True, repr=False)
class CapacityPlan(Record):
    """What a stream of events needs; made by :func:`plan_capacity`.

    Parameters
    ----------
    terms, savings
        Each term, and what saves store operations, one after the other.
    machines, needed, limit
        How many, how many cores, disk and memory want, and which of them wants most.
    given
        What it was asked for, by the names of the parameters.
    """

    terms: Records[CapacityTerm]
    savings: Records[Saving]
    limit: str
    machines: int = of_source(Source.FORMULA)
    needed: dict[str, int] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict, compare=False)

    def __getitem__(self, term: str) -> float:
        """Return the value of a term, by its name."""
        found = {each.term: each.value for each in self.terms}
        if term not in found:
            message = f"There is no term {term!r}."
            raise ConfigurationError(message, hint=f"There are: {', '.join(found)}.")
        return found[term]

    def sweep(self, over: str, values: Sequence[float]) -> CapacitySweep:
        """Return the plans of other values of one parameter, ``"rate"`` or ``"partitions"`` say."""
        given = dict(self.given)
        numbers = len(values) and all(isinstance(each, (int, float)) for each in values)
        if over not in {*given, *_DEFAULTS} or not numbers:
            message = f"Nothing can be planned over {over!r}."
            raise ConfigurationError(message, hint="Give 'rate' or 'partitions', and numbers.")
        plans = tuple(plan_capacity(**{**given, over: each}) for each in values)
        return CapacitySweep(over, tuple(values), plans)

    @property
    def sentence(self) -> str:
        """The plan in one sentence."""
        stores = counted(ceil(self["stores needed"]), "stores")
        wanted = ", ".join(f"{number:,} for {what}" for what, number in self.needed.items())
        return (
            f"{_figure(self['events'])} events a second would keep {stores} busy, if each event "
            f"updated each of its windows. Added up first, they take "
            f"{counted(self.machines, 'machines')} ({wanted}): what decides is {self.limit}, "
            f"by what was measured at {ENGINES[self.given['engine']].measured_at:,.0f} a second."
            f"{self._too_few()}"
        )

    def _too_few(self) -> str:
        """Say what is to be done where one partition alone wants more than it has."""
        if self["cores it wants"] <= 1:
            return ""
        names = ("partitions that are enough", "salt that is enough")
        partitions, salt = (format_count(self[name]) for name in names)
        return (
            f" Of a topic keyed by user, the largest partition wants {self['cores it wants']:,.3g} "
            f"cores and has one: take {partitions} partitions, the biggest users in {salt} parts."
        )

    def __str__(self) -> str:
        width = max(len(each.term) for each in self.terms)
        size = max(len(each.text) for each in self.terms)
        steps = max(len(each.step) for each in self.savings)
        lines = [self.sentence]
        for section, terms in groupby(self.terms, key=lambda each: each.section):
            lines += ["", section]
            lines += [f"  {t.term:<{width}}  {t.text:<{size}}  {t.how}" for t in terms]
            if section == _STORES:
                lines += ["", "what saves store operations"]
                lines += [f"  {each.step:<{steps}}  {each}" for each in self.savings]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"CapacityPlan({self.sentence})"

    def _repr_html_(self) -> str:
        return Record._repr_html_(self) + self.savings._repr_html_() + self.terms._repr_html_()


@dataclass(frozen=True, slots=True, repr=False)
class CapacitySweep(Viewed):
    """Plans that differ in one figure; made by :meth:`CapacityPlan.sweep`."""

    over: str
    values: tuple[float, ...]
    plans: tuple[CapacityPlan, ...]

    def text(self, place: int) -> str:
        """Return what was varied, as of one of the plans, for people."""
        return f"{self.over} {format_count(self.values[place])}"

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a plan: what was varied, machines, for each resource, and stores."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        rows = [
            {
                self.over: value,
                "machines": plan.machines,
                "limit": plan.limit,
                **plan.needed,
                "largest partition, in cores": plan["cores it wants"],
                "stores needed": plan["stores needed"],
            }
            for value, plan in zip(self.values, self.plans, strict=True)
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return f"CapacitySweep({self.text(0)} to {format_count(self.values[-1])})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_pandas().to_html(escape=True, index=False)}"


_STORES = "store operations"
_DEFAULTS: dict[str, Any] = {
    "windows": ("1 minute", "1 hour", "1 day"),
    "partitions": 100,
    "salt": 1,
    "exponent": 1.0,
    "actions": 8,
    "batch": "10 seconds",
    "retention": "10 minutes",
    "cores": 8,
    "memory_bytes": 32 << 30,
    "disk_bytes": 500 << 30,
    "standbys": 0,
    "replication": 3,
    "outage": "30 minutes",
    "catch_up": "1 hour",
}


@dataclass(frozen=True, slots=True)
class _Basis:
    """What is counted by whom, where that is from, and what a counter was measured to take."""

    cascade: Cascade
    traffic: Traffic
    origin: str
    row_bytes: float | None = None
    event_bytes: float | None = None


def _assumed(given: Mapping[str, Any]) -> _Basis:
    told = {**_DEFAULTS, "users": max(_USERS * given["rate"], 1), **given}
    names = ("users", "exponent", "actions")
    cascade = Cascade(*told["windows"])
    if cascade.sessions:
        message = f"{cascade.sessions[0].label} can't be planned: how long it lasts is in no law."
        raise ConfigurationError(message, hint="Leave sessions out of the windows.")
    actions = check_whole("actions", told["actions"], least=1, hint="Give 1 or more.")
    traffic = zipf(told["rate"], users=told["users"], exponent=told["exponent"], actions=actions)
    known = [name for name in names if name in given]
    origin = f"{', '.join(known)} given, the rest assumed" if known else ASSUMED
    origin = GIVEN if len(known) == len(names) else origin
    return _Basis(cascade, traffic, origin)


def as_counted(run: Run, rate: float) -> _Basis:
    """Return the basis as a run counted it, with as many more users as the rate asks for."""
    cascade, told, changelog = run.settings.cascade, run.summary(), run.changelog
    windows = [window for window in cascade.windows if window.is_tumbling]
    counters = {window.size_ms / 1_000: changelog.counters(window.size_ms) for window in windows}
    span = changelog.span_ms(windows[0].size_ms) if windows else None
    if span is None:
        message = f"{run.folder.shown} has no counts of windows to plan by."
        raise InputError(message, hint="Give a run that has counted something.")
    seconds = (span[1] - span[0]) / 1_000 + min(counters)
    whole = counters[max(counters)]
    pairs = np.unique(np.stack([whole.user, whole.action]), axis=1, return_inverse=True)[1]
    count = whole.count.astype(np.float64)
    of_pair, of_user = np.bincount(np.ravel(pairs), count), np.bincount(whole.user, count)
    traffic = Traffic.observed(of_pair, of_user[of_user > 0], seconds)
    measured = {min(size, seconds): len(c) / whole.total for size, c in counters.items()}
    files_bytes = Ledger(run.folder.ledger).size_bytes()
    row_bytes = told.changelog_bytes / max(told.changelog_records, 1)
    is_told = run.settings.changelog is None and told.changelog_records >= _FEW
    left_out = ", its sessions left out" if cascade.sessions else ""
    return _Basis(
        cascade,
        replace(traffic, measured=measured).at(rate),
        f"measured in {run.folder.shown}{left_out}",
        row_bytes if is_told else None,
        files_bytes / told.events if files_bytes and told.events else None,
    )


class _Planner:
    """Works a plan out, section by section; ``given`` is what was asked for, by name."""

    def __init__(self, basis: _Basis, engine: Engine, given: Mapping[str, Any]) -> None:
        self.basis, self.engine, self.given = basis, engine, given
        self.terms: list[CapacityTerm] = []
        self.section, self.needed = "", dict[str, int]()
        self.rows, self.in_topics = 0.0, 0.0
        self.rate, self.partitions = float(given["rate"]), self.whole("partitions")
        self.batch_s, self.standbys = self.seconds("batch"), self.whole("standbys", least=0)
        self.levels, self.kept_s = basis.cascade.windows, self.seconds("retention")
        flushes = (each / 1_000 for each in basis.cascade.flush_ms[: len(self.levels)])
        self.flush_s = [self.batch_s if engine.in_rows else max(f, self.batch_s) for f in flushes]

    def whole(self, name: str, least: int = 1) -> int:
        value = self.given.get(name, _DEFAULTS.get(name))
        return check_whole(name, value, least=least, hint=f"Give {least} or more.")

    def seconds(self, name: str) -> float:
        value, may_be_none = self.given.get(name, _DEFAULTS[name]), {"retention", "outage"}
        return parse_duration(value, allow_zero=name in may_be_none) / 1_000

    def changes(self, flush_s: Sequence[float]) -> float:
        """Return how many counters of all windows an event changes, if these are added up first.

        A counter is of one window, so what is added up for longer is a counter of each of them.
        """
        pairs = zip(self.levels, flush_s, strict=True)
        seen = self.basis.traffic.changes
        return sum(w.copies * seen(min(each, w.size_ms / 1_000)) for w, each in pairs)

    def note(
        self, term: str, value: float, unit: str, formula: str, origin: str = FOLLOWS
    ) -> float:
        """Note a term of the section at hand, and return its value."""
        told = CapacityTerm(self.section, term, unit, formula, origin, float(value))
        self.terms.append(told)
        return told.value

    def plan(self) -> CapacityPlan:
        """Return all of it."""
        savings = Records([*self.stores()], "savings")
        for work in (self.machines, self.state, self.memory):
            work()
        limit = max(self.needed, key=self.needed.__getitem__)
        number = self.needed[limit]
        self.topics()
        self.restore(number)
        self.money(number)
        terms = Records(self.terms, "terms")
        return CapacityPlan(terms, savings, limit, number, self.needed, dict(self.given))

    def stores(self) -> Iterator[Saving]:
        """Work out how many stores take an update for each event and window, and with less."""
        self.section, before = _STORES, 2.0 * sum(each.copies for each in self.levels)
        origins = {"measure": "measured on this machine", "operations": GIVEN}
        asked = next((name for name in origins if name in self.given), "")
        operations = float(self.given.get(asked, OPERATIONS_A_SECOND))
        self.note("events", self.rate, "/s", "", GIVEN)
        self.note("operations a store takes", operations, "/s", "", origins.get(asked, PUBLISHED))
        self.note("operations an event", before, "", "a get and a put x windows")
        formula = "operations a store takes / operations an event"
        takes = self.note("events a store takes", operations / before, "/s", formula)
        formula = f"events / {counted(self.partitions, 'partitions')}"
        gets = self.note("events a partition gets", self.rate / self.partitions, "/s", formula)
        self.note("times too much", gets / takes, "times", "what one gets / what a store takes")
        self.note("stores needed", self.rate / takes, "", "events / events a store takes")
        for step, formula, of, left in self._steps(before):
            stores = self.rate * left / operations
            yield Saving(step, formula, of, operations=left, stores=stores, saves=before / left)
            before = left

    def _steps(self, first: float) -> Iterator[tuple[str, str, str, float]]:
        origin = self.basis.origin
        batch = format_duration(round(1_000 * self.batch_s))
        buffered = self.changes([self.batch_s] * len(self.flush_s))
        cascaded, events = self.changes(self.flush_s), self.rate * self.batch_s
        rows = _BLOCKS * self.partitions
        yield "an update for each event and window", "2 x windows", PUBLISHED, first
        formula = f"2 x windows x {2 * buffered / first:.3g} counters an event"
        yield f"events of {batch} are added up first", formula, origin, 2 * buffered
        if self.engine.in_rows:
            return
        formula = f"2 x {cascaded:.3g} counters an event"
        yield "long windows take what short ones changed", formula, origin, 2 * cascaded
        size = format_bytes(max(cascaded * events / rows, 1) * self.engine.row_bytes)
        formula = f"2 x {_BLOCKS} rows x partitions / events of {batch}; of {size}, so bytes decide"
        yield "a row is a block of counters", formula, BENCHMARK, 2 * min(rows / events, cascaded)

    def machines(self) -> None:
        """Work out what counting takes: cores, the largest partition, and time to catch up."""
        self.section, engine = "machines", self.engine
        late_s, catch_up_s = self.seconds("outage"), self.seconds("catch_up")
        formula = f"1 + {format_span(late_s)} of outage / {format_span(catch_up_s)} to make it good"
        room = self.note("room to catch up", 1 + late_s / catch_up_s, "times", formula)
        records = self.changes(self.flush_s)
        formula = f"{engine.title}: {engine.event_s} and {engine.record_s} x {records:.3g} records "
        formula += f"an event; at {engine.measured_at:,.0f} events/s on 2 cores"
        cpu_s = engine.event_s + engine.record_s * records
        each = self.note("CPU a million events", cpu_s, "s", formula, BENCHMARK)
        formula = "events / events as measured: so far the rest is extrapolated"
        self.note("times what was measured", self.rate / engine.measured_at, "times", formula)
        formula = f"events x CPU an event x room to catch up / {_BUSY}, as busy as cores came to be"
        self.cores = cores = self.note("cores", self.rate * each * room / _BUSY / 1e6, "", formula)
        by_standby = records * 2 / engine.restored if engine.restored else 0  # of two cores
        every = cores + self.standbys * self.rate * by_standby
        self.needed["cores"] = ceil(every / self.whole("cores"))
        salt, who, origin = self.whole("salt"), "the heaviest users, each", self.basis.origin
        if "key_share" in self.given:
            who, origin = "the biggest user", GIVEN
        formula = f"{who} in {counted(salt, 'parts')}, put at random, and its part of the rest"
        share = self._share(self.partitions, salt)
        self.note("the largest partition's share", share, "share", formula, origin)
        self.note("cores it wants", share * cores, "", "its share x cores; it has one")
        key = self.given.get("key_share", float(self.basis.traffic.heaviest[0]))
        salt = max(ceil(_OF_A_CORE * key * cores), 1)
        formula = f"{_OF_A_CORE} x the biggest user's share x cores"
        self.note("salt that is enough", salt, "", formula)
        some = (max(ceil(cores * more), 1) for more in _MORE_PARTITIONS)
        enough = next((n for n in some if self._share(n, salt) * cores <= 1), ceil(cores * 64))
        formula = "so many that with this salt the largest wants a core at most"
        self.note("partitions that are enough", enough, "", formula)

    def _share(self, partitions: int, salt: int) -> float:
        """Return the largest partition's share of all events."""
        traffic = self.basis.traffic
        if (key := self.given.get("key_share")) is not None:
            traffic = replace(traffic, heaviest=np.array([float(key)]))
        return traffic.largest_share(partitions, salt=salt)

    def state(self) -> None:
        """Work out what the counters of all windows weigh at rest, and on disk."""
        self.section, basis, engine = "state", self.basis, self.engine
        row_bytes, formula, origin = engine.row_bytes, engine.row_of, BENCHMARK
        if basis.row_bytes is not None and not engine.in_rows:
            row_bytes, formula, origin = basis.row_bytes, "of a changelog, in blocks", basis.origin
        self.note("a counter", row_bytes, "bytes", formula, origin)
        known_s = max(basis.traffic.measured, default=float("inf"))
        for window, least in zip(self.levels, basis.cascade.retention, strict=False):
            size_s, every_s = window.size_ms / 1_000, window.every_ms / 1_000
            kept_s = self.kept_s if engine.in_rows else max(self.kept_s, (least - 1) * every_s)
            number, interval_s, segments = (kept_s + size_s) / every_s, 0.0, ""
            if engine.in_rows:
                interval_s = max((size_s + kept_s) / 2, _LEAST_INTERVAL_S)
                segments = f", in {_segments(size_s + kept_s, every_s)} segments"
                number += interval_s / every_s
            origin = basis.origin
            if size_s > known_s:
                origin += f", extrapolated from {format_span(known_s)}"
            formula = f"counters of a window x {number:.3g} that are kept{segments}"
            each = basis.traffic.counters(size_s)
            self.rows += self.note(f"rows of {window.label}", each * number, "", formula, origin)
            longer = _TOPIC_KEEPS_S / every_s - interval_s / every_s if engine.in_rows else 0
            self.in_topics += each * (number + longer)
            if segments:
                part = each * min(max(interval_s / every_s, 1), number)
                formula = "what of these rows one segment holds: windows are put by their start"
                self.note(f"a segment of {window.label}", part * row_bytes, "bytes", formula)
        rest = self.note("state", self.rows * row_bytes, "bytes", "rows x a counter")
        copies = counted(1 + self.standbys, "copies")
        formula = f"state x {copies} x {engine.peak}, the peak of {engine.compaction} compaction"
        disk = rest * (1 + self.standbys) * engine.peak
        self.needed["disk"] = max(ceil(disk / self.whole("disk_bytes")), 1)
        self.note("disk", disk, "bytes", f"{formula} in the lab")

    def memory(self) -> None:
        """Work out what RocksDB may take in memory, and what all else took for each core."""
        stores: dict[str, Any] = {"profile": _SPARK, "partitions": self.partitions}
        if self.engine.in_rows:
            each = ((w.size_ms / 1_000, w.every_ms / 1_000) for w in self.levels)
            number = sum(_segments(size_s + self.kept_s, every_s) for size_s, every_s in each)
            keys = ceil(self.rows / number / self.partitions)
            stores |= {"profile": _STREAMS, "segments": number, "keys": keys}
            stores |= {"key_bytes": _KEY_BYTES, "value_bytes": _VALUE_BYTES}
        plan = plan_memory(**stores)
        formula = f"{counted(plan.instances, 'RocksDB instances')} at its defaults, all full"
        most = plan.total_bytes * (1 + self.standbys)
        size = self.note("RocksDB's memory", most, "bytes", formula, "plan_memory")
        formula = f"cores x {format_bytes(_PROCESS_BYTES)}, of Java and Python on 2 cores"
        all_cores = self.cores * _PROCESS_BYTES
        size += self.note("processes' memory", all_cores, "bytes", formula, BENCHMARK)
        self.needed["memory"] = max(ceil(size / self.whole("memory_bytes")), 1)

    def topics(self) -> None:
        """Work out what the changelog topics take in, and what brokers do for it."""
        self.section, origin = "changelog", self.basis.origin
        size, formula, of = self.basis.event_bytes, "events x {0:.3g} of a file each", origin
        if size is None:
            size, formula, of = _EVENT_BYTES, "events x {0:.3g} of JSON each", BENCHMARK
        self.note("events in", self.rate * size, "bytes/s", formula.format(size), of)
        each = self.changes(self.flush_s)
        formula = f"events x {each:.3g} counters that one changes, over all windows"
        records = self.note("records", self.rate * each, "/s", formula, origin)
        size = self.note("a record", _RECORD_BYTES, "bytes", "compressed", BENCHMARK)
        written = self.note("bytes", records * size, "bytes/s", "records x a record")
        copies = self.whole("replication")
        formula = f"bytes x {counted(copies, 'copies')}"
        self.note("brokers write", written * copies, "bytes/s", formula)
        what = "rows, if its retention is theirs,"
        if self.engine.in_rows:
            what = "counters of windows that are kept and of 24 hours more"
        formula = f"{what} x a record x {counted(copies, 'copies')}, once compacted"
        self.note("topics keep", self.in_topics * size * copies, "bytes", formula)
        formula = f"{_BROKER_CPU_S} CPU s a million events, of one broker that kept no copies"
        self.note("brokers' cores", self.rate * _BROKER_CPU_S / 1e6, "", formula, BENCHMARK)

    def restore(self, machines: int) -> None:
        """Work out how long it takes until what a lost machine held is there again."""
        self.section, engine = "restore", self.engine
        held = {each.term: each.value for each in self.terms}
        of = f"/ {counted(machines, 'machines')}"
        seconds, origin = held["state"] / machines / _COPIED, ASSUMED
        formula = f"state {of} / {format_bytes(_COPIED)} a second, from the checkpoint"
        if engine.restored is not None:
            seconds, origin = self.in_topics / machines / engine.restored, BENCHMARK
            formula = f"what topics keep, once {of} / {engine.restored:,.0f} a second, by 2 cores"
        self.note("without a standby", seconds, "seconds", formula, origin)
        formula = "what came since the last batch; to miss a machine takes longer"
        self.note("with one", self.batch_s, "seconds", formula)
        costs = held["disk"] / (1 + self.standbys)
        self.note("a standby's disk", costs, "bytes", "as much as the state itself takes")
        self.note("a standby's network", held["bytes"], "bytes/s", "what changelogs take in")
        if engine.restored is not None:
            cores = held["records"] * 2 / engine.restored
            formula = f"records / {engine.restored:,.0f} a second, as restored by 2 cores"
            self.note("a standby's cores", cores, "", formula, BENCHMARK)

    def money(self, machines: int) -> None:
        """Work out what the machines cost, if one has a price."""
        self.section = "money"
        if (price := self.given.get("price")) is not None:
            formula = (
                f"{counted(machines, 'machines')} x {price:g} x {_HOURS_A_MONTH} hours, no brokers"
            )
            self.note("a month", machines * price * _HOURS_A_MONTH, "", formula)


def _figure(value: float) -> str:
    return format_count(value) if value >= _ROUND_FROM else f"{value:.3g}"


def _segments(retention_s: float, every_s: float) -> int:
    """Return how many live segments have a window's start: see docs/facts/kafka_streams.md."""
    interval_s = max(retention_s / 2, _LEAST_INTERVAL_S)
    live = int(retention_s // interval_s) + 1
    return min(live, ceil(live * interval_s / every_s))


def plan_capacity(
    run: Run | str | os.PathLike[str] | None = None,
    *,
    rate: float | str,
    windows: Sequence[Duration] | str | None = None,
    partitions: int | None = None,
    key_share: float | None = None,
    salt: int | None = None,
    users: float | str | None = None,
    exponent: float | None = None,
    actions: int | None = None,
    batch: Duration | None = None,
    retention: Duration | None = None,
    engine: str = _SPARK,
    operations: float | str | None = None,
    measure: bool = False,
    cores: int | None = None,
    memory_bytes: int | None = None,
    disk_bytes: int | None = None,
    standbys: int | None = None,
    replication: int | None = None,
    outage: Duration | None = None,
    catch_up: Duration | None = None,
    price: float | None = None,
) -> CapacityPlan:
    """Return how many machines a stream of events needs, and what its state will weigh.

    What is not given is assumed, and each term that rests on it says so.

    Parameters
    ----------
    run
        A run of yours, or its folder: windows, users, who does how much, in what bursts, and what
        a counter takes are what it counted. More events are more users; the biggest keep shares.
    rate
        Events a second, as ``50_000_000`` or ``"50M"``.
    windows
        What is counted for each user and action: ``"1 minute, 1 hour, 1 day"``.
    partitions, salt
        100 partitions, or buckets; in how many parts the heaviest users are put, 1.
    key_share
        Which share of all events the biggest user has; else as the law of users, or the run, says.
    users, exponent, actions
        20 for each event a second, the n-th ``n ** -1.0`` as busy as the first; 8 actions, evenly.
    batch
        How long events are added up before the state is touched, a batch or commit: 10 seconds.
    retention
        For how long after its end a window is kept: 10 minutes; by this toolkit, the last three
        of each length at least, or as many as the run kept.
    engine
        ``"spark"``, which is this toolkit, or ``"kafka_streams"``.
    operations, measure
        How many a second a store takes: 15,000, as is published; or whether the lab is asked for
        how many it takes on this machine, which takes some seconds.
    cores, memory_bytes, disk_bytes, price
        What a machine has: 8 cores, 32 GiB, 500 GiB; and what it costs an hour.
    standbys, replication
        Copies of the state beside it, none; copies of each record of a topic, 3.
    outage, catch_up
        How long nothing is counted, 30 minutes, and within what time that is made good, 1 hour.

    Raises
    ------
    ConfigurationError
        If a figure makes no sense.
    InputError
        If there is no run, or it counted nothing.

    Examples
    --------
    >>> plan = plan_capacity(rate=50_000_000)
    >>> plan["events a store takes"], plan["events a partition gets"], plan["times too much"]
    (2500.0, 500000.0, 200.0)
    >>> plan["stores needed"]
    20000.0
    """
    told = locals().items()
    given = {name: each for name, each in told if each is not None and each is not False}
    given |= {name: _number(name, given.get(name)) for name in _NUMBERS & {"rate", *given}}
    if isinstance(windows, str):
        given["windows"] = [each.strip() for each in windows.split(",")]
    for message, hint in _faults(given):
        raise ConfigurationError(message, hint=hint)
    if measure is True:  # else it is what was measured already: plans of a sweep have one figure
        workload = Workload(writes=200_000, keys=100_000, value_bytes=16, reads_per_write=1)
        [trial] = compare_profiles(workload, [_STREAMS], progress=False)
        given["measure"] = (trial.writes + trial.gets) / (trial.put_s + trial.get_s)
    if run is None:
        basis = _assumed(given)
    else:
        basis = as_counted(run if isinstance(run, Run) else load_run(run), given["rate"])
    return _Planner(basis, ENGINES[engine], given).plan()


def _number(name: str, value: Any) -> float:
    try:
        number = parse_count(value) if isinstance(value, str) else float(value)
    except (TypeError, OverflowError):
        number = float("nan")
    if 0 < number <= _MOST or (number == 0 and name in _MAY_BE_ZERO):
        return number
    hint = f"Give a number {'from' if name in _MAY_BE_ZERO else 'above'} 0, {_MOST:g} at most."
    message = f"{name} is {value}."
    raise ConfigurationError(message, hint=hint)


def _faults(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what makes no sense, and what to give instead."""
    if given["engine"] not in ENGINES:
        yield f"There is no engine {given['engine']!r}.", f"There are {', '.join(ENGINES)}."
    large = [name for name, value in given.items() if isinstance(value, int) and value > _MOST]
    if large:
        yield f"{large[0]} is too large.", f"Give {_MOST:g} at most."
    if (share := given.get("key_share", 0)) > 1:
        yield f"key_share is {share}: it is no share.", "Give one from 0 to 1, such as 0.05."
    if {"operations", "measure"} <= given.keys():
        yield "operations and measure are both given.", "Give one of them."
    twice = sorted(given.keys() & {"windows", "users", "exponent", "actions"})
    if twice and "run" in given:
        told = f"{twice[0]} is given beside a run, which tells it."
        yield told, f"Leave {twice[0]} out, or the run."
