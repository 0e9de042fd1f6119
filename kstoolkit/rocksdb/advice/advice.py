"""Advice: what was measured, what to set otherwise, what that brings and costs; and its grounds.

Rules look at facts, each with whose it is, and why some are missing. Some of them a store's folder
doesn't tell, and whoever asks for advice may know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from kstoolkit.errors import ConfigurationError, guessed
from kstoolkit.records import Figure, Record, Records, Source, counted
from kstoolkit.rocksdb.advice.enginemetrics import NO_METRICS, EngineMetrics
from kstoolkit.units import check_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kstoolkit.moments import Moment
    from kstoolkit.rocksdb.advice.enginemetrics import StoreMetrics
    from kstoolkit.rocksdb.files.options import OptionsSection
    from kstoolkit.rocksdb.files.place import Place
    from kstoolkit.rocksdb.files.sampling import LiveRows
    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.files.summary import StoreSummary
    from kstoolkit.rocksdb.log.jobs import Flush, LoggedError, LogRows, Stall
    from kstoolkit.rocksdb.log.lines import LogFile
    from kstoolkit.rocksdb.log.stats import WriteAmplification
    from kstoolkit.rocksdb.memory.measured import MemoryParts, ProcessMemory
    from kstoolkit.rocksdb.profiles.profile import Profile


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Advice(Record):
    """One piece of advice; there is none without evidence.

    Parameters
    ----------
    rule, symptom
        Which rule gives it; what is the matter, in a sentence.
    evidence
        The figures that show it, each with whose it is.
    option, direction
        What to set, in RocksDB's own terms, and which way.
    effect, cost, link
        What is to be expected of it, what it takes, and where that stands.
    column_family
        Whose options; None if they are the whole store's or process's.
    """

    rule: str
    symptom: str
    evidence: tuple[Figure, ...]
    option: str
    direction: str
    effect: str
    cost: str
    link: str
    column_family: str | None = None

    def figures(self) -> list[Figure]:
        """Return the evidence."""
        return list(self.evidence)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, as ``--json`` prints them."""
        evidence = [
            {"figure": each.name, "value": each.value, "source": str(each.source)}
            for each in self.evidence
        ]
        return Record.to_dict(self) | {"evidence": evidence}

    def __str__(self) -> str:
        whose = "" if self.column_family is None else f" (column family {self.column_family!r})"
        return "\n".join(
            (
                f"{self.rule}{whose}: {self.symptom}",
                *(f"  evidence: {each}" for each in self.evidence),
                f"  set: {self.option}: {self.direction}",
                f"  expect: {self.effect}",
                f"  cost: {self.cost}",
                f"  see: {self.link}",
            )
        )

    def __repr__(self) -> str:
        return f"Advice({self.rule}: {self.option}, {self.direction})"


NO_OPTIONS = "there is no OPTIONS file"
WIKI = "https://github.com/facebook/rocksdb/wiki"


class Shown(NamedTuple):
    """What shows a symptom, as far as it is known; what its words say beside; whose it is."""

    evidence: Iterable[Figure | None]
    said: Mapping[str, Any] = {}
    family: FamilyFacts | None = None


def figures_of(source: Source, **values: Any) -> list[Figure]:
    """Return figures that are all of one source."""
    return [Figure(*each, source) for each in values.items()]


@dataclass(frozen=True, slots=True)
class Rule:
    """What is said of a symptom; whom it decorates judges whether it is there.

    The words are formats: they name figures of the evidence, and what is said beside. What is said
    under the name of one of them stands instead of it.
    """

    name: str
    symptom: str
    _: KW_ONLY
    option: str
    direction: str
    effect: str
    cost: str
    link: str
    judge: Callable[[Facts], Iterable[Shown]] = lambda _: ()

    def __call__(self, judge: Callable[[Facts], Iterable[Shown]]) -> Rule:
        """Return the rule with who judges it."""
        return replace(self, judge=judge)

    def advice(self, facts: Facts) -> Iterator[Advice]:
        """Return what is to be said; a rule that can't judge raises why."""
        for evidence, said, family in self.judge(facts):
            told = tuple(each for each in evidence if each and each.value is not None)
            named = {each.name: each for each in told} | dict(said)
            words = {w: said.get(w, getattr(self, w)).format(**named) for w in _WORDS}
            whose = None if family is None else family.name
            yield Advice(rule=self.name, evidence=told, **words, column_family=whose)


_WORDS = ("symptom", "option", "direction", "effect", "cost", "link")


class Unjudged(Exception):  # noqa: N818 - of one rule; the others go on
    """Why a rule can't tell whether its symptom is there: its first argument."""


def by_cause(unjudged: Mapping[str, str]) -> dict[str, list[str]]:
    """Return which rules could not be judged, by why."""
    causes: dict[str, list[str]] = {}
    for rule, why in unjudged.items():
        causes.setdefault(why, []).append(rule)
    return causes


def said_of_cause(why: str, rules: Sequence[str]) -> str:
    """Return in a sentence which rules one cause keeps from being judged.

    >>> said_of_cause("there is no log", ["flush too small", "write amplification"])
    'Not judged: there is no log (2 rules: flush too small, write amplification)'
    """
    return f"Not judged: {why} ({counted(len(rules), 'rules')}: {', '.join(rules)})"


class AdviceList(Records[Advice]):
    """The advice there is, and which rules could not be judged.

    ``unjudged`` says of each rule that lacks a fact why; its silence says nothing.

    Examples
    --------
    >>> AdviceList([], {"write amplification": "there is no log"})
    AdviceList(no advice; 1 rule unjudged)
    """

    def __init__(self, rows: Sequence[Advice], unjudged: Mapping[str, str]) -> None:
        super().__init__(rows, "pieces of advice")
        self.unjudged = dict(unjudged)

    def __str__(self) -> str:
        silent = [said_of_cause(*each) for each in by_cause(self.unjudged).items()]
        return "\n".join([*map(str, self.rows), *silent])

    def __repr__(self) -> str:
        told = counted(len(self), self.kind) if self.rows else "no advice"
        return f"AdviceList({told}; {counted(len(self.unjudged), 'rules')} unjudged)"


_LEAST_ONE = {
    "bound_bytes": "Give what RocksDB may take on the host, in bytes: 1 << 30.",
    "instances": "Give how many stores like this one are open at once: 1 or more.",
    "pid": "Give the number of a process that runs.",
    "open_files_limit": "Give how many files the writer may open, as ulimit -n says it.",
}
_COUNTERS = "Give RocksDB's own names and counts: {'rocksdb.bloom.filter.useful': 12}."


class Circumstances(TypedDict, total=False):
    """What a store's folder doesn't tell, and whoever asks for advice may know.

    Parameters
    ----------
    bound_bytes, instances
        What RocksDB may take on the host, and how many stores like this one are open there at once.
    profile
        What the writer opens the store with, or the name of that; None: what the OPTIONS file
        tells, and for the block cache the log.
    tickers
        The writer's counters by RocksDB's names (``"rocksdb.bloom.filter.useful"``), from its
        metrics; None: those of the last dump of statistics in its log. Its sizes may be among
        them, such as ``"rocksdb.block-cache-usage"``: sums over all that is under the bound.
    pid
        The writer's process, on this machine.
    open_files_limit
        How many files the writer may open; None: what its metrics, or its process ``pid``, tell.
    metrics
        What the writer's engine tells, by ``kst.read_metrics`` or ``kst.read_progress``.
    client_config
        The writer's settings, by Kafka's names (``"max.poll.interval.ms"``).
    since
        From when on the log is judged, also LOG.old.*; None: the log that is written to.
    """

    since: Moment | None
    bound_bytes: int | None
    instances: int
    profile: Profile | str | None
    tickers: Mapping[str, int] | None
    pid: int | None
    open_files_limit: int | None
    metrics: EngineMetrics | None
    client_config: Mapping[str, str] | None


def check_circumstances(given: Circumstances) -> None:
    """Refuse what makes no sense."""
    known = list(Circumstances.__annotations__)
    for name in given.keys() - {*known}:
        message = f"advice() takes no {name}."
        hint = f"{guessed(name, known)}It takes: {', '.join(known)}."
        raise ConfigurationError(message, hint=hint)
    for name, value in given.items():
        if name in _LEAST_ONE and value is not None:
            check_whole(name, value, least=1, hint=_LEAST_ONE[name])
    tickers: object = {} if given.get("tickers") is None else given["tickers"]
    if not isinstance(tickers, Mapping):
        message = f"tickers is {tickers!r}, which is no mapping of names to counts."
        raise ConfigurationError(message, hint=_COUNTERS)
    for name, count in tickers.items():
        check_whole(f"tickers[{name!r}]", count, least=0, hint=_COUNTERS)
    metrics: object = given.get("metrics")
    if metrics is not None and not isinstance(metrics, EngineMetrics):
        message = f"metrics is a {type(metrics).__name__}."
        raise ConfigurationError(message, hint="Give kst.read_metrics(...), or kst.read_progress.")
    settings: object = given.get("client_config") or {}
    if not isinstance(settings, Mapping):
        message = "client_config is no mapping of settings."
        raise ConfigurationError(message, hint="Give {'max.poll.interval.ms': '300000'}.")


@dataclass(frozen=True, slots=True)
class FamilyFacts:
    """A column family; its rows are counted only if a rule needs that; ``keys`` are a few."""

    name: str
    profile: Profile | None
    ssts: Sequence[Sst]
    summary: StoreSummary
    live_rows: LiveRows | None = None
    why_not_counted: str | None = None
    keys: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class WriterTickers:
    """The writer's counters, or why there are none."""

    counts: Mapping[str, int]
    source: Source
    why_none: str = "these counters are not among the writer's"

    def of(self, *names: str) -> list[int]:
        """Return counters by name without ``rocksdb.``; without one of them nothing is judged."""
        if not self.has(*names):
            raise Unjudged(self.why_none)
        return [self.counts[f"rocksdb.{name}"] for name in names]

    def has(self, *names: str) -> bool:
        """Return whether all of some counters are told."""
        return all(f"rocksdb.{name}" in self.counts for name in names)

    def figures(self, *names: str) -> tuple[Figure, ...]:
        """Return counters as evidence."""
        whole = [f"rocksdb.{name}" for name in names]
        return tuple(Figure(each, self.counts.get(each), self.source) for each in whole)


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of a store, and of its circumstances."""

    families: Sequence[FamilyFacts]
    errors: LogRows[LoggedError]
    rotated: Sequence[LogFile]
    version: Figure | None
    options: Sequence[OptionsSection]
    stalls: LogRows[Stall]
    flushes: LogRows[Flush]
    writes: WriteAmplification
    tickers: WriterTickers
    memory: MemoryParts
    open_files_limit: Figure | None = None
    metrics: StoreMetrics | None = None
    why_no_metrics: str = NO_METRICS
    all_metrics: EngineMetrics | None = None
    settings: Mapping[str, str] | None = None
    place: Place | None = None
    profile: Profile | None = None
    process: ProcessMemory | None = None
    bound_bytes: int | None = None
    instances: int = 1

    def metric(self, *names: str) -> Figure | None:
        """Return the first of some figures of the metrics that there is."""
        return next(iter(self.told(*names)), None)

    def told(self, *names: str) -> tuple[Figure, ...]:
        """Return those of some figures that the metrics have."""
        return () if self.metrics is None else self.metrics.told(*names)

    def counters(self, *names: str) -> list[int]:
        """Return counters for which metrics could stand; without them nothing is judged."""
        if not self.tickers.has(*names):
            raise Unjudged(self.why_none)
        return self.tickers.of(*names)

    def needed(self, *names: str) -> Figure:
        """Return the same; without one nothing is judged."""
        found = self.metric(*names)
        if found is None:
            raise Unjudged(self.why_none)
        return found

    @property
    def why_none(self) -> str:
        """Why a figure of the metrics is not there."""
        return self.why_no_metrics if self.metrics is None else self.metrics.why_none

    def profiled(self) -> list[tuple[FamilyFacts, Profile]]:
        """Return the column families with their options; without any nothing is judged."""
        told = [(each, each.profile) for each in self.families if each.profile is not None]
        if not told:
            raise Unjudged(NO_OPTIONS)
        return told

    def setting(self, name: str, default: float | None = None) -> Figure | None:
        """Return a number among the writer's settings, or that Kafka takes if it says none."""
        try:
            return Figure(name, int((self.settings or {})[name]), Source.GIVEN)
        except (KeyError, ValueError):
            return None if default is None else Figure(f"{name} by default", default, Source.GIVEN)
