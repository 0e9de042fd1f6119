"""A whole application's state at one look: each store, what all may take, and what to do first.

Stores are opened one after the other, so that a checkup takes the memory of one. Each RocksDB gives
its advice; what several advise alike is one step. Rows are read of small stores alone. What grows
shows in the engine's metrics of two moments.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import InputError, KstoolkitError, Option, naming
from kstoolkit.events.topics import options_given
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.rocksdb.advice.advice import by_cause, said_of_cause
from kstoolkit.rocksdb.faults import DamagedStoreError, NoStoreError
from kstoolkit.rocksdb.lab.comparing import written_per_second
from kstoolkit.rocksdb.log.storelog import read_log
from kstoolkit.rocksdb.memory.planning import MemoryPlan, plans_in_all
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.growth.growth import growth
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.readable import LeftOutWarning
from kstoolkit.stores.views import HasViews
from kstoolkit.units import format_bytes, format_span

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from kstoolkit.kafka.cluster import Reach
    from kstoolkit.rocksdb.advice.advice import Advice, Circumstances
    from kstoolkit.rocksdb.advice.enginemetrics import EngineMetrics
    from kstoolkit.stores.discovery.discovering import FoundStores
    from kstoolkit.stores.discovery.found import FoundStore
    from kstoolkit.stores.opening import OpenedStore

_READ_BYTES = 16 << 20  # of larger stores, rows are not read for a verdict on their growth
_UNEVEN = 2.0
_LEAST_UNEVEN_BYTES = 64 << 20
_MOST_NAMES = 5
_WIKI = "https://github.com/facebook/rocksdb/wiki"
_STREAMS_SIZING = "https://docs.confluent.io/platform/current/streams/sizing.html"


@dataclass(frozen=True, slots=True)
class CheckedStore(Record):
    """What a checkup tells of one store.

    Parameters
    ----------
    store, task, path
        Its name, Kafka Streams' task or the partition, and its folder.
    kind
        What it is for.
    growth
        Why it does not shrink: the first sentence of :func:`kstoolkit.growth`'s verdict.
    memory_bytes
        What its writer may take for it at most, by the formula.
    errors, stalls
        What its log tells of since it was last opened.
    oldest_ms
        When the rows of its oldest segment begin, epoch ms UTC.
    offset, closed, is_locked
        How far of its changelog is in it, how it was closed, and whether a process has it open.
    end_offset, behind_records
        The next offset of its changelog topic, and how many before it are missing; those that
        transactions and compaction left empty count, too; a store that keeps no offset lacks all.
    restore_ms
        How long writing all its rows anew would take; by what its topic has, if servers are given.
    advice
        How many pieces of advice there are for it.
    """

    store: str
    task: str
    path: str
    kind: str | None = of_source(Source.STORE)
    size_bytes: int = of_source(Source.STORE)
    num_entries: int | None = of_source(Source.STORE)
    growth: str | None = of_source(Source.FORMULA)
    memory_bytes: int | None = of_source(Source.FORMULA)
    errors: int | None = of_source(Source.LOG)
    stalls: int | None = of_source(Source.LOG)
    oldest_ms: int | None = of_source(Source.STORE)
    offset: int | None = of_source(Source.STORE)
    closed: str | None = of_source(Source.STORE)
    is_locked: bool | None = of_source(Source.SYSTEM)
    end_offset: int | None = of_source(Source.METRICS)
    behind_records: int | None = of_source(Source.FORMULA)
    restore_ms: int | None = of_source(Source.FORMULA)
    advice: int = of_source(Source.FORMULA, 0)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step(Record):
    """Something to do: what is the matter, by which figures, what to change, and where that stands.

    ``stores`` are those that it is about, as ``task/store``; none: the application as a whole.
    ``command`` is what writes the change, if one does.
    """

    rule: str
    symptom: str
    evidence: tuple[str, ...]
    change: str
    link: str
    stores: tuple[str, ...] = ()
    is_urgent: bool = False
    command: str = ""

    def __str__(self) -> str:
        mark = "URGENT " if self.is_urgent else ""
        few, more = self.stores[:_MOST_NAMES], len(self.stores) - _MOST_NAMES
        where = f" in {', '.join(few)}" if few else ""
        where += f" and {more:,} more" if more > 0 else ""
        lines = [f"{mark}{self.rule}{where}: {self.symptom}"]
        lines += [f"  evidence: {each}" for each in self.evidence]
        run = [f"  run: {self.command}"] if self.command else []
        return "\n".join([*lines, f"  do: {self.change}", *run, f"  see: {self.link}"])


@dataclass(frozen=True, slots=True)
class Checkup(Record):
    """The state of an application: its stores, what they may take in all, and what to do.

    Parameters
    ----------
    path
        The folder that was looked at.
    stores
        What is told of each store.
    steps
        What to do, the most urgent first.
    memory_bytes, bound_bytes, plan
        What all may take at most, what they may have, and the formula.
    free_bytes
        What is free on their disk.
    restore_bytes_per_second, restore_rate_is
        How fast rows are written anew, and whether that was given or measured, and where.
    native_growth_bytes, disk_full_ms
        By how much the process grew beyond what its heap and RocksDB may have taken, and when the
        disk is full if stores go on growing so; both by metrics of two moments.
    unjudged
        Why rules could not judge, and which ones.

    Examples
    --------
    >>> found = checkup("data/stores/kafka-streams/small-main-4_3_1")
    >>> [each.store for each in found.stores], found.is_urgent
    (['actions-1m', 'user-count'], False)
    """

    path: str
    stores: Records[CheckedStore]
    steps: Records[Step]
    size_bytes: int = of_source(Source.STORE)
    memory_bytes: int | None = of_source(Source.FORMULA)
    bound_bytes: int | None = of_source(Source.GIVEN)
    free_bytes: int | None = of_source(Source.SYSTEM)
    restore_bytes_per_second: int | None = None
    restore_rate_is: str = ""
    native_growth_bytes: int | None = of_source(Source.METRICS, None)
    disk_full_ms: int | None = of_source(Source.METRICS, None)
    plan: MemoryPlan | None = None
    unjudged: dict[str, list[str]] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def is_urgent(self) -> bool:
        """Whether something can't wait: errors, damage, or more memory or disk than there is."""
        return any(each.is_urgent for each in self.steps)

    def __str__(self) -> str:
        head = f"{counted(len(self.stores), 'stores')} in {self.path}"
        silent = [f"{said_of_cause(why, rules)}." for why, rules in self.unjudged.items()]
        return "\n".join([head, *map(str, self.figures()), *self.to_do(), *silent])

    def to_do(self) -> list[str]:
        """Return what memory is for, and what to do, the most urgent first, for people."""
        told = [] if self.plan is None else [f"memory at most: {_of_all(self.plan)}"]
        told += [f"a restore writes {self.restore_rate_is}"] if self.restore_rate_is else []
        steps = [str(each) for each in self.steps]
        return told + (steps or ["Nothing to do, as far as could be judged."])


def checkup(
    path: str | os.PathLike[str],
    *,
    bound_bytes: int | None = None,
    restore_bytes_per_second: int | None = None,
    bootstrap: str | None = None,
    options: Mapping[str, str] | None = None,
    metrics_before: EngineMetrics | None = None,
    scratch: str | os.PathLike[str] | None = None,
    **circumstances: Any,
) -> Checkup:
    """Return what is the matter with the state of a whole application, and what to do first.

    Parameters
    ----------
    path
        A state directory of Kafka Streams, a checkpoint of Spark's, or any folder with stores.
    bound_bytes
        What RocksDB may take in memory, for all stores together.
    restore_bytes_per_second
        How fast a restore writes keys and values; None measures how fast RocksDB takes them on the
        disk where stores are read through, which leaves out the broker and the network.
    bootstrap, options
        Servers of Kafka to ask where changelog topics end, and settings of the connection; by
        default those of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names.
    metrics_before
        What the same process told earlier, best hours before ``metrics``: what grows shows.
    scratch
        Where to make the folders that stores are read through.
    circumstances
        What the folder doesn't tell, as :class:`~kstoolkit.rocksdb.advice.advice.Circumstances`.

    Raises
    ------
    InputError
        If there is no store.
    KafkaError
        If no broker answers.
    """
    found = discover(path, look=True)
    if not found:
        message = f"There is no store under {path}."
        raise InputError(message, hint="Give a state directory, a checkpoint, or a folder of them.")
    rate, how = restore_bytes_per_second, "was given"
    if rate is None:
        place = Path(scratch or tempfile.gettempdir())
        rate, how = written_per_second(place), f"RocksDB alone takes rows, measured in {place}"
    told: Circumstances = {"instances": 1, **circumstances}  # type: ignore[typeddict-item] # as named
    ends = _ends(found, bootstrap, options)
    change = _Change.between(metrics_before, told.get("metrics"))
    looks = [_look(each, scratch, told) for each in found]
    rows = [look.row(rate, ends) for look in looks]
    plans = [plan for look in looks for plan in look.plans]
    plan = plans_in_all(plans) if plans else None
    free = shutil.disk_usage(path).free
    steps = [*_damaged(looks, found), *_memory(found, plan, bound_bytes)]
    steps += [*_room_to_merge(found, free), *_bounds(plans), *_uneven(found), *_ahead(rows)]
    steps += [*_grown(change), *_filling(change, free), *_advised(looks)]
    return Checkup(
        str(path),
        Records(rows, "stores"),
        Records(sorted(steps, key=lambda step: not step.is_urgent), "steps"),
        size_bytes=sum(each.size_bytes for each in found),
        memory_bytes=None if plan is None or not plan.is_ceiling else plan.total_bytes,
        bound_bytes=bound_bytes,
        free_bytes=free,
        restore_bytes_per_second=rate,
        restore_rate_is=f"{format_bytes(rate)} a second: {how}",
        native_growth_bytes=change.native_bytes,
        disk_full_ms=change.full_ms(free),
        plan=plan,
        unjudged=_unjudged(looks, plans),
        unknown=_unknown(plan, bound_bytes) | change.unknown(),
    )


def _of_all(plan: MemoryPlan) -> str:
    """Return what of the memory is for what; nothing of what takes none."""
    terms = (each for each in plan.terms if each.total_bytes != 0)
    return ", ".join(f"{each.term} {format_bytes(each.total_bytes)}" for each in terms)


def _unknown(plan: MemoryPlan | None, bound_bytes: int | None) -> dict[str, str]:
    unknown = {} if bound_bytes is not None else {"bound_bytes": "none is given"}
    if plan is None or not plan.is_ceiling:
        lacking = {} if plan is None else plan.unknown
        unknown["memory_bytes"] = "; ".join(dict.fromkeys(lacking.values())) or "no store tells"
    return unknown


@dataclass(slots=True)
class _Look:
    """What is seen of one store while its RocksDB are looked at, one after the other."""

    found: FoundStore
    plans: list[MemoryPlan] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    unjudged: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    data_bytes: int | None = None
    growth: str | None = None

    def add(self, store: Store, circumstances: Circumstances) -> None:
        """Look at a RocksDB of the store."""
        plan, given = store.memory().plan, store.advice(**circumstances)
        self.plans += [] if plan is None else [plan]
        self.advice += given
        self.unjudged |= given.unjudged
        sizes = ((each.raw_key_bytes or 0) + (each.raw_value_bytes or 0) for each in store.ssts())
        self.data_bytes = (self.data_bytes or 0) + sum(sizes)

    def row(self, rate: int, ends: Mapping[str, Reach | str]) -> CheckedStore:
        """Return what is known of the store; rows are written anew at a rate, in bytes a second."""
        found, data = self.found, self.data_bytes
        whole = plans_in_all(self.plans) if self.plans else None
        stalls, why_no_stalls = _stalls(found)
        told = ends[found.path]
        end, behind, times = None, None, 1.0
        if not isinstance(told, str):  # of a store that keeps no offset, all that are there
            end = told.end
            behind = end - (told.first if found.offset is None else found.offset + 1)
            if found.num_entries:  # how many records a restore reads for each row
                times = (end - told.first) / found.num_entries
        starts_ms = [each.start_ms for each in found.segments if each.start_ms]
        no_topic = told if isinstance(told, str) else ""
        values: dict[str, Any] = {
            "growth": self.growth,
            "memory_bytes": whole.total_bytes if whole and whole.is_ceiling else None,
            "stalls": stalls,
            "oldest_ms": min(starts_ms, default=None),
            "end_offset": end,
            "behind_records": behind,
            "restore_ms": None if data is None else round(1000 * data * times / rate),
        }
        whys = {
            "growth": f"more than {format_bytes(_READ_BYTES)} are not read: kstoolkit growth does",
            "memory_bytes": "its options or its cache are not told",
            "stalls": why_no_stalls,
            "oldest_ms": "its segments are of no time",
            "end_offset": no_topic,
            "behind_records": no_topic,
            "restore_ms": next(iter(self.faults + self.unread), "it has no RocksDB that tells"),
        }
        unknown = {name: whys[name] for name, value in values.items() if value is None}
        if not found.segments:
            unknown.pop("oldest_ms", None)  # it has none: nothing is unknown
        unknown |= {name: why for name, why in found.unknown.items() if name in _FOUND}
        values |= {name: getattr(found, name) for name in _FOUND}
        return CheckedStore(
            found.store,
            _task(found),
            found.path,
            advice=len({(each.rule, each.option) for each in self.advice}),
            unknown=unknown,
            **values,
        )


_FOUND = ("kind", "size_bytes", "num_entries", "errors", "offset", "closed", "is_locked")


def _look(
    found: FoundStore, scratch: str | os.PathLike[str] | None, circumstances: Circumstances
) -> _Look:
    """Open a store, look at each of its RocksDB, and close it again."""
    look = _Look(found)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with open_store(found.path, scratch=scratch) as store:
                for one in _rocksdbs(store):
                    look.add(one, circumstances)
                if found.size_bytes <= _READ_BYTES:
                    look.growth = next(iter(growth(store).verdict), None)
        except (DamagedStoreError, NoStoreError) as error:
            look.faults.append(error.message)
        except KstoolkitError as error:
            look.unread.append(error.message)
    for each in said:
        if issubclass(each.category, LeftOutWarning):
            look.faults.append(str(each.message))
        else:
            warnings.warn(each.message, stacklevel=3)
    return look


def _task(found: FoundStore) -> str:
    return found.task or ("all" if found.partition is None else str(found.partition))


def _rocksdbs(store: OpenedStore) -> Iterator[Store]:
    if isinstance(store, HasViews):
        yield from (one for _, one in store.rocksdbs())
    elif isinstance(store, Store):
        yield store


def _stalls(found: FoundStore) -> tuple[int | None, str]:
    """Return how many stalls the logs of a store tell, and why that is unknown."""
    total, why = 0, "no log tells"
    for place in [Path(each.path) for each in found.segments] or [Path(found.path)]:
        try:
            told = read_log(place).stalls()
        except InputError as error:
            return None, error.message
        if told.unknown is not None:
            return None, told.unknown
        total += len(told)
    return total, why


def _damaged(looks: list[_Look], found: FoundStores) -> Iterator[Step]:
    """Yield what can't be read: a missing file, damage, a folder that may not be looked into."""
    faults = {_name(look.found): fault for look in looks for fault in look.faults}
    if faults:
        yield Step(
            "damaged",
            "some of it can't be read, and the engine may not open it",
            tuple(f"{name}: {fault}" for name, fault in faults.items()),
            "remove the folder of the store and let the engine restore it; look at the disk",
            f"{_WIKI}/RocksDB-FAQ",
            tuple(faults),
            is_urgent=True,
        )
    unread = {_name(look.found): why for look in looks for why in look.unread} | found.unreadable
    if unread:
        yield Step(
            "not readable",
            f"{counted(len(unread), 'folders')} could not be looked into",
            tuple(f"{folder}: {why}" for folder, why in unread.items()),
            "let this user read them, or ask as the user that the application runs as",
            f"{_WIKI}/RocksDB-FAQ",
        )


def _memory(found: FoundStores, plan: MemoryPlan | None, bound_bytes: int | None) -> Iterator[Step]:
    """Yield whether all may take more than there is."""
    if plan is None or bound_bytes is None or plan.total_bytes <= bound_bytes:
        return
    is_spark = {each.engine for each in found} == {"spark"}
    what = "settings of the query" if is_spark else "a class for rocksdb.config.setter"
    yield Step(
        "memory over the bound",
        f"all stores may take {format_bytes(plan.total_bytes)}, and there are"
        f" {format_bytes(bound_bytes)}",
        (f"by the formula, {_of_all(plan)}",),
        f"bound them together, by {what}",
        f"{_WIKI}/Memory-usage-in-RocksDB",
        is_urgent=True,
        command=f"kstoolkit profile bounded_memory --total {bound_bytes >> 20}MiB --stores"
        f" {plan.instances} --to {'spark' if is_spark else 'java'}",
    )


_BOUNDED = "a setter that does not bound all"
_NOT_TOLD = "none that a log tells"


def _objects(plans: list[MemoryPlan]) -> dict[str, Counter[str]]:
    """Return the caches and budgets by address, and of how many RocksDBs each is.

    Of several caches in one RocksDB the largest is meant: the others are of small column families.
    """
    found: dict[str, Counter[str]] = {"block cache": Counter(), "memtables": Counter()}
    for term in (term for plan in plans for term in plan.terms if term.term in found):
        objects = term.objects
        found[term.term][max(objects, key=objects.__getitem__, default=_NOT_TOLD)] += 1
    return found


def _bounds(plans: list[MemoryPlan]) -> Iterator[Step]:
    """Yield whether stores have caches or budgets apart, so that no setter bounds them all."""
    found = _objects(plans)
    if not _are_told(found) or all(len(o) == 1 and _NOT_TOLD not in o for o in found.values()):
        return
    yield Step(
        _BOUNDED,
        f"{counted(len(plans), 'RocksDBs')} have caches or budgets apart, by their logs",
        tuple(f"{term}: {_listed(of)}" for term, of in found.items()),
        "give all one cache and one WriteBufferManager: static fields of a RocksDBConfigSetter; in"
        " Spark spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage=true",
        f"{_WIKI}/Memory-usage-in-RocksDB",
    )


def _listed(objects: Counter[str]) -> str:
    told = [f"{name} of {number:,}" for name, number in objects.most_common(_MOST_NAMES)]
    more = [f"{len(objects) - _MOST_NAMES:,} more"] if len(objects) > _MOST_NAMES else []
    return ", ".join(told + more)


def _are_told(found: dict[str, Counter[str]]) -> bool:
    return any(objects.keys() - {_NOT_TOLD} for objects in found.values())


def _room_to_merge(found: FoundStores, free: int) -> Iterator[Step]:
    """Yield whether the disk lacks the room that a full compaction of the largest store takes."""
    sizes = [(part.size_bytes, each) for each in found for part in (each.segments or [each])]
    size, largest = max(sizes, key=lambda each: each[0])
    if free >= size:
        return
    yield Step(
        "disk nearly full",
        f"{format_bytes(free)} are free; to merge the largest RocksDB takes {format_bytes(size)}",
        (f"free_bytes: {format_bytes(free)}", f"size_bytes: {format_bytes(size)}"),
        "give the disk more room before its next full compaction",
        f"{_WIKI}/Universal-Compaction",
        (_name(largest),),
        is_urgent=True,
    )


def _uneven(found: FoundStores) -> Iterator[Step]:
    """Yield the stores of which one partition is far larger than most."""
    by_store: dict[tuple[str | None, str], list[FoundStore]] = defaultdict(list)
    for each in found:
        by_store[each.application, each.store].append(each)
    for parts in by_store.values():
        usual = median(each.size_bytes for each in parts)
        largest = max(parts, key=lambda each: each.size_bytes)
        if largest.size_bytes < max(_LEAST_UNEVEN_BYTES, _UNEVEN * usual):
            continue
        yield Step(
            "uneven partitions",
            f"one partition holds {format_bytes(largest.size_bytes)}, most {format_bytes(usual)}",
            tuple(f"{_name(each)}: {format_bytes(each.size_bytes)}" for each in parts),
            "look who takes its room: kstoolkit growth; give such keys a salt, or more partitions",
            _STREAMS_SIZING,
            (_name(largest),),
        )


def _ends(
    found: FoundStores, bootstrap: str | None, options: Mapping[str, str] | None
) -> dict[str, Reach | str]:
    """Return by folder how far the changelog topic of a store reaches, or why that is unknown."""
    if bootstrap is None:
        why = naming("give {bootstrap}", bootstrap=Option("bootstrap", "..."))
        return dict.fromkeys((each.path for each in found), why)
    cluster = Cluster(bootstrap, options_given(options, bootstrap))
    by_topic: dict[str, list[FoundStore]] = defaultdict(list)
    ends: dict[str, Reach | str] = {}
    for each in found:
        names = (each.application, each.topology, each.store, "changelog")
        if each.engine == "kafka-streams" and each.application and each.partition is not None:
            by_topic["-".join(name for name in names if name)].append(each)
        else:
            ends[each.path] = "it has no changelog topic of its own"
    for topic, stores in by_topic.items():
        there: dict[int, Reach] = {}
        if cluster.has(topic):
            there = cluster.reach(topic, cluster.partitions(topic), committed=False)
        without = f"there is no topic {topic!r} for it"
        ends |= {each.path: there.get(each.partition or 0, without) for each in stores}
    return ends


def _ahead(rows: list[CheckedStore]) -> Iterator[Step]:
    """Yield the stores that have applied more than their topic has: it is another one by now."""
    ahead = {
        f"{row.task}/{row.store}": f"offset {row.offset}, the topic ends at {row.end_offset}"
        for row in rows
        if row.behind_records is not None and row.behind_records < 0
    }
    if ahead:
        yield Step(
            "ahead of its changelog",
            "stores have applied offsets that their changelog topics do not have",
            tuple(f"{name}: {told}" for name, told in ahead.items()),
            "find out who deleted the topic: whoever restores from it loses what it lacks;"
            " kstoolkit diff tells what is in either",
            _STREAMS_SIZING,
            tuple(ahead),
        )


_TWO = {name: Option(name, "...") for name in ("metrics", "metrics_before")}
_RSS, _USED, _COMMITTED = "process-resident-memory-bytes", "jvm-heap-used", "jvm-heap-committed"
_CACHE = "block-cache-usage"
_OF_STORES = ("size-all-mem-tables", "estimate-table-readers-mem")
_LEAST_GROWTH_BYTES = 64 << 20
_DAY_MS = 86_400_000
_START, _AGE = "process-start-time-seconds", "age-seconds"
_WARM_S = 3_600  # a process that ran for so long has touched the whole of its heap


def _told(metrics: EngineMetrics) -> dict[str, float] | None:
    """Return what a process took: in all, of its heap, and in RocksDB; None if one is not told."""
    first = metrics[0].values if metrics else {}
    told = {name: first.get(name) for name in (_RSS, _USED, _COMMITTED, _AGE)}
    told |= {name: metrics.sum_of(name) for name in _OF_STORES}
    if metrics and metrics[0].read_at_ms and _START in first:
        told[_AGE] = metrics[0].read_at_ms / 1_000 - first[_START]
    told[_CACHE] = metrics.caches_bytes()
    known = {name: value for name, value in told.items() if value is not None}
    return known if len(known) == len(told) else None


def _files_bytes(metrics: EngineMetrics) -> float | None:
    streams = metrics.sum_of("total-sst-files-size")
    return metrics.sum_of("rocksdbSstFileSize") if streams is None else streams


@dataclass(frozen=True, slots=True)
class _Change:
    """What a process told of itself at two moments.

    ``terms`` is what it took more and, less than 0, what accounts for it; ``files_bytes``, by how
    much the stores' files grew. Each is empty or None where metrics lack it.
    """

    took_ms: int = 0
    terms: Mapping[str, int] = field(default_factory=dict)
    files_bytes: float | None = None
    why: str = ""

    @classmethod
    def between(cls, before: EngineMetrics | None, after: EngineMetrics | None) -> _Change:
        """Return the change from one moment to a later one."""
        if before is None or after is None:
            return cls(why=naming("give {metrics} and, of hours before, {metrics_before}", **_TWO))
        then, now = (max((row.read_at_ms or 0 for row in it), default=0) for it in (before, after))
        if not 0 < then < now:
            return cls(why=naming("{metrics_before} is not from before {metrics}", **_TWO))
        files = _files_bytes(before), _files_bytes(after)
        grown = None if files[0] is None or files[1] is None else files[1] - files[0]
        return cls(now - then, _terms(_told(before), _told(after)), grown)

    @property
    def native_bytes(self) -> int | None:
        """By how much at least the process grew beyond what its heap and RocksDB took."""
        return max(0, sum(self.terms.values())) if self.terms else None

    def full_ms(self, free: int) -> int | None:
        """Return when the disk is full at the rate at which the stores' files grew."""
        grown = self.files_bytes or 0
        return round(free / grown * self.took_ms) if grown > 0 else None

    def unknown(self) -> dict[str, str]:
        """Return why figures are unknown."""
        lacking = "the metrics lack those of process, heap and RocksDB"
        whys = {} if self.terms else {"native_growth_bytes": self.why or lacking}
        if not self.files_bytes or self.files_bytes < 0:
            none = self.files_bytes is None
            without = "the metrics lack the files' sizes" if none else "the stores did not grow"
            whys["disk_full_ms"] = self.why or without
        return whys


def _terms(then: dict[str, float] | None, now: dict[str, float] | None) -> dict[str, int]:
    """Of a young process's heap, all that was committed and not in use may be touched since."""
    if then is None or now is None:
        return {}
    is_warm = then[_AGE] >= _WARM_S
    heap = max(0, int(now[_COMMITTED] - then[_COMMITTED if is_warm else _USED]))
    stores = {name: int(then[name] - now[name]) for name in (*_OF_STORES, _CACHE)}
    return {_RSS: int(now[_RSS] - then[_RSS]), "heap at most": -heap} | stores


def _grown(change: _Change) -> Iterator[Step]:
    """Yield whether memory outside of the heap grows, of which RocksDB knows nothing."""
    grown = change.native_bytes
    if grown is None or grown < _LEAST_GROWTH_BYTES:
        return
    yield Step(
        "native memory grows",
        f"the process took {format_bytes(grown)} more in {format_span(change.took_ms / 1_000)}"
        " than its heap and RocksDB may have",
        tuple(f"{name}: {value:+,} bytes" for name, value in change.terms.items()),
        "close in the setter's close() each filter and cache that it made for a store, and make one"
        " cache for all; close iterators; set MALLOC_ARENA_MAX=2, or use jemalloc",
        f"{_WIKI}/Memory-usage-in-RocksDB",
    )


def _filling(change: _Change, free: int) -> Iterator[Step]:
    """Yield whether the disk is full within a day."""
    full_ms = change.full_ms(free)
    if full_ms is None or full_ms > _DAY_MS:
        return
    grown, span = round(change.files_bytes or 0), format_span(change.took_ms / 1_000)
    yield Step(
        "disk full within a day",
        f"as stores grow at present, their disk is full in {format_span(full_ms / 1_000)}",
        (f"free_bytes: {format_bytes(free)}", f"their files grew: {format_bytes(grown)} in {span}"),
        "give the disk more room; of each store that grows, kstoolkit growth says why",
        f"{_WIKI}/RocksDB-FAQ",
        is_urgent=True,
    )


def _name(found: FoundStore) -> str:
    return f"{_task(found)}/{found.store}"


_URGENT_RULES = {"errors in the log", "background errors"}
_OF_ALL = {"memory over the bound"}  # what is judged of all stores together


def _advised(looks: list[_Look]) -> Iterator[Step]:
    """Yield what rules advise, once for all stores that they advise alike; most stores first."""
    alike: dict[tuple[str, str, str], list[tuple[str, Advice]]] = defaultdict(list)
    for look in looks:
        for one in look.advice:
            alike[one.rule, one.option, one.direction].append((_name(look.found), one))
    for (rule, option, direction), given in sorted(alike.items(), key=lambda each: -len(each[1])):
        first = given[0][1]
        yield Step(
            rule,
            first.symptom,
            tuple(str(each) for each in first.evidence),
            f"{option}: {direction}; expect: {first.effect}; cost: {first.cost}",
            first.link,
            tuple(dict.fromkeys(name for name, _ in given)),
            is_urgent=rule in _URGENT_RULES,
        )


def _unjudged(looks: list[_Look], plans: list[MemoryPlan]) -> dict[str, list[str]]:
    """Return which rules could not be judged, by why; but for what is judged of all together."""
    found: dict[str, str] = {}
    for look in looks:
        found |= {rule: why for rule, why in look.unjudged.items() if rule not in _OF_ALL}
    if not _are_told(_objects(plans)):
        found[_BOUNDED] = "no log tells of caches and budgets: it takes level INFO"
    return by_cause(found)
