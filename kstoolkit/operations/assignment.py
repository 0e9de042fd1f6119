"""Who reads what for a consumer group, who has too much of it, and what it costs if one dies.

The brokers tell members and their partitions. Kafka Streams' own bytes among them tell tasks, and
which threads are one process; that process's id lies in its state directory, so that stores are
counted where they are in use, not where an earlier assignment left them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import Option, naming
from kstoolkit.kafka.groups import with_tasks
from kstoolkit.operations.lag import LagWatch, group_reader
from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.units import format_bytes, format_span

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kstoolkit.kafka.cluster import Partition
    from kstoolkit.kafka.groups import Member

HEADER = (
    *("instance", "host", "members", "partitions", "tasks", "standbys", "lag", "stores"),
    "the others restore in",
)


@dataclass(frozen=True, slots=True)
class Instance(Record):
    """What one process reads for a group: a consumer, or all threads of a Kafka Streams instance.

    Parameters
    ----------
    instance, host, members
        Its client id, where it runs, and the ids of its members.
    partitions
        What it reads, as Kafka writes it: ``"actions-0"``.
    tasks, standbys
        Of Kafka Streams: the tasks that it works on, and those that it keeps ready for others.
    lag_records
        Records of these partitions still to be read, as far as is known.
    store_bytes
        How long the files of its tasks' stores are; rows that are in memory alone are not in it.
    restore_seconds
        How long the others would restore if it died: its tasks spread over them by size, each of
        them as fast as was given; a task with a standby elsewhere costs nothing.
    """

    instance: str
    host: str
    members: tuple[str, ...]
    partitions: tuple[str, ...]
    tasks: tuple[str, ...] | None = None
    standbys: tuple[str, ...] | None = None
    lag_records: int | None = of_source(Source.METRICS, None)
    store_bytes: int | None = of_source(Source.STORE, None)
    restore_seconds: float | None = of_source(Source.FORMULA, None)
    unknown: dict[str, str] = field(default_factory=dict)

    def cells(self) -> list[str]:
        """Return the figures for people, in the order of :data:`HEADER`."""
        lag, size, wait = self.lag_records, self.store_bytes, self.restore_seconds
        why = {name: f"unknown ({reason})" for name, reason in self.unknown.items()}
        return [
            *(self.instance, self.host, str(len(self.members))),
            ", ".join(self.partitions) or "none",
            why["tasks"] if self.tasks is None else ", ".join(self.tasks) or "none",
            why["standbys"] if self.standbys is None else ", ".join(self.standbys) or "none",
            why["lag_records"] if lag is None else f"{lag:,}",
            why["store_bytes"] if size is None else format_bytes(size),
            why["restore_seconds"] if wait is None else format_span(wait),
        ]


@dataclass(frozen=True, slots=True)
class StateFolder(Record):
    """What one state directory holds: of which process, which tasks with stores, how much."""

    path: str
    process: str | None
    tasks: dict[str, int]
    stores: dict[str, tuple[str, ...]]

    @property
    def size_bytes(self) -> int:
        """How long the files of all its stores are."""
        return sum(self.tasks.values())


@dataclass(frozen=True, slots=True)
class Assignment(Record):
    """Who reads what for a group; made by :func:`kstoolkit.assignment`.

    Parameters
    ----------
    group, state
        Which, and what it is at present.
    instances
        Who reads; ``None`` if nobody tells that.
    unread
        Partitions that the group has read, and nobody reads now.
    remarks
        Who has too much, in sentences.
    folders
        What the state directories hold.
    lag_records
        Records still to be read, of all partitions of which it is known.
    restore_bytes_per_second
        How fast one instance restores, as was given.
    """

    group: str
    state: str
    instances: Records[Instance] | None
    unread: tuple[str, ...] | None
    remarks: tuple[str, ...]
    folders: Records[StateFolder]
    lag_records: int | None = of_source(Source.METRICS, None)
    restore_bytes_per_second: int | None = of_source(Source.GIVEN, None)
    unknown: dict[str, str] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """Return in sentences what it is, and who has too much."""
        lag = "unknown" if self.lag_records is None else counted(self.lag_records, "records")
        told = [f"group {self.group!r}, {self.state}: {lag} behind"]
        if self.unread:
            told.append(f"nobody reads {', '.join(self.unread)}")
        for each in self.folders if self.instances is None else ():
            tasks = ", ".join(each.tasks) or "no task with a store"
            told.append(f"{each.path} holds {tasks}: {format_bytes(each.size_bytes)}")
        return told + list(self.remarks)


def assignment(
    group: str,
    *,
    bootstrap: str,
    state_dirs: Sequence[str | os.PathLike[str]] = (),
    restore_bytes_per_second: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Assignment:
    """Return who reads what for a consumer group, and who has too much of it.

    Parameters
    ----------
    group
        Its name; of a Kafka Streams application, its ``application.id``.
    bootstrap, options
        Servers to ask first, as ``"host:port"``, with commas between; and settings of the
        connection, by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names.
    state_dirs
        Of Kafka Streams: state directories of its instances, or copies, as far as seen from here.
    restore_bytes_per_second
        How fast one instance restores; by default, no time is told.

    Raises
    ------
    InputError
        If there is no such group, or no such folder.
    KafkaError
        If no broker answers.
    """
    folders = [each for path in state_dirs for each in _folders(group, path)]
    reader = group_reader(group, bootstrap, None, options)
    facts = with_tasks(reader.cluster, reader.facts())
    lags = LagWatch(group, bootstrap=bootstrap, options=options).look()
    waiting = {f"{each.topic}-{each.partition}": each.lag_records for each in lags}
    found = Records(folders, "state directories")
    if facts.members is None:
        why = {"instances": facts.why, "unread": facts.why}
        told = (str(facts), None, None, (), found, lags.lag_records, restore_bytes_per_second, why)
        return Assignment(group, *told)
    held = {each.process: each.tasks for each in folders}
    rows = _instances(facts.members, _Seen(waiting, held, restore_bytes_per_second))
    read = {_text(each) for each in facts.assigned}
    return Assignment(
        group,
        str(facts),
        Records(rows, "instances"),
        tuple(sorted(waiting.keys() - read)),
        tuple(_remarks(rows, folders)),
        found,
        lags.lag_records,
        restore_bytes_per_second,
    )


def _text(place: Partition) -> str:
    return f"{place.topic}-{place.number}"


def _folders(group: str, path: str | os.PathLike[str]) -> Iterator[StateFolder]:
    """Return what the application's folders below a path hold."""
    tasks: defaultdict[Path, Counter[str]] = defaultdict(Counter)
    stores: defaultdict[Path, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for home in (Path(path).absolute(), Path(path).absolute() / group):
        if _process(home) is not None and home.name == group:  # also one without any store
            tasks[home] = Counter()
    for each in discover(path):
        above = Path(each.path).absolute().parents
        home = next((it for it in above if it.name == group), Path())
        if each.task is not None and each.application == group:
            tasks[home][each.task] += each.size_bytes
            stores[home][each.store].append(each.task)
    for home, sizes in tasks.items():
        names = {name: tuple(sorted(those)) for name, those in stores[home].items()}
        yield StateFolder(str(home), _process(home), dict(sorted(sizes.items())), names)


def _process(home: Path) -> str | None:
    try:
        return str(json.loads((home / "kafka-streams-process-metadata").read_bytes())["processId"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known beside of the members: lag, stores by process, and the rate of a restore."""

    waiting: Mapping[str, int | None]
    held: Mapping[str | None, Mapping[str, int]]
    rate: int | None

    def instance(self, own: Sequence[Member], ready: set[str], others: int) -> Instance:
        """Return one process; ``ready`` are the tasks that others keep ready."""
        first = own[0]
        places = sorted(_text(place) for each in own for place in each.partitions)
        known = [lag for each in places if (lag := self.waiting.get(each)) is not None]
        tasks = sorted({task for each in own for task in each.tasks})
        sizes, why = self._sizes(first, tasks)
        client = first.client_id
        if first.process is not None:  # of an instance of Kafka Streams without the thread's
            client = client.rpartition("-StreamThread-")[0] or client
        wait, why_wait = self._restore(sizes, why, ready, others)
        told = {
            "tasks": (tuple(tasks) if first.process else None, why),
            "standbys": (tuple(sorted(_standbys(own))) if first.process else None, why),
            "lag_records": (sum(known) if known or not places else None, "nothing is committed"),
            "store_bytes": (None if sizes is None else sum(sizes.values()), why),
            "restore_seconds": (wait, why_wait),
        }
        return Instance(
            instance=client,
            host=first.host,
            members=tuple(sorted(each.member_id for each in own)),
            partitions=tuple(places),
            **{name: value for name, (value, _) in told.items()},  # type: ignore[arg-type]
            unknown={name: reason for name, (value, reason) in told.items() if value is None},
        )

    def _sizes(self, member: Member, tasks: Sequence[str]) -> tuple[dict[str, int] | None, str]:
        if member.process is None:
            return None, "it does not say that it is Kafka Streams"
        if member.process not in self.held:
            return None, f"no state directory of process {member.process} is given"
        return {task: self.held[member.process].get(task, 0) for task in tasks}, ""

    def _restore(
        self, sizes: Mapping[str, int] | None, why: str, ready: set[str], others: int
    ) -> tuple[float | None, str]:
        if sizes is None or self.rate is None:
            rate = Option("restore_bytes_per_second", "...", "--restore-rate")
            return None, why or naming("give {rate}", rate=rate)
        lost = [size for task, size in sizes.items() if task not in ready]
        return _fullest(lost, max(others, 1)) / self.rate, ""


def _instances(members: Iterable[Member], seen: _Seen) -> list[Instance]:
    processes: defaultdict[str, list[Member]] = defaultdict(list)
    for each in members:
        processes[each.process or each.member_id].append(each)
    rows = []
    for own in processes.values():
        rest = [each for other in processes.values() if other is not own for each in other]
        rows.append(seen.instance(own, _standbys(rest), len(processes) - 1))
    return sorted(rows, key=lambda row: (row.instance, row.members))


def _standbys(members: Iterable[Member]) -> set[str]:
    return {task for each in members for task in each.standbys}


def _fullest(sizes: Iterable[int], others: int) -> int:
    """Return what the one gets that gets most, where the largest go to whoever has least so far."""
    loads = [0] * others
    for size in sorted(sizes, reverse=True):
        loads[loads.index(min(loads))] += size
    return max(loads)


_MUCH, _FEW_RECORDS = 1.5, 1_000
"""More than so many times an even share is much; a lag of fewer records is none."""


def _remarks(rows: Sequence[Instance], folders: Sequence[StateFolder]) -> Iterator[str]:
    """Return who has too much, or nothing, in sentences."""
    if len(rows) <= 1:  # nobody to compare with
        return
    for row in rows:
        yield from (f"{row.instance} has {what}" for what in _alone(row, rows, folders))
    parts = [len(row.partitions) for row in rows]
    for row, number in zip(rows, parts, strict=True):
        if number > min(parts) + 1:
            yield f"{row.instance} reads {number:,} of {counted(sum(parts), 'partitions')}"
    late = [row.lag_records for row in rows]
    if sum(each or 0 for each in late) >= _FEW_RECORDS:
        yield from _much(rows, late, "waiting records", "{:,}".format)
    yield from _much(rows, [row.store_bytes for row in rows], "stores", format_bytes)


def _alone(
    row: Instance, rows: Sequence[Instance], folders: Sequence[StateFolder]
) -> Iterator[str]:
    """Return the stores that one instance has alone, of all that have several partitions."""
    if not row.partitions:
        yield "nothing to read"
    mine, tasks = set(row.tasks or ()), {task for each in rows for task in each.tasks or ()}
    for name in sorted({name for each in folders for name in each.stores}):
        seen = {task for each in folders for task in each.stores.get(name, ())}
        begins = {_subtopology(task) for task in seen}
        whole = {task for task in tasks if _subtopology(task) in begins}
        if len(whole) > 1 and whole <= mine:
            yield f"all {len(whole)} partitions of the store {name!r}"


def _subtopology(task: str) -> str:
    return task.rpartition("_")[0]


def _much(
    rows: Sequence[Instance], values: Sequence[int | None], what: str, shown: Callable[[int], str]
) -> Iterator[str]:
    """Return who has much more than its share, if that of each is known."""
    known = [each for each in values if each is not None]
    if len(known) < len(rows):
        return
    for row, value in zip(rows, known, strict=True):
        if value * len(rows) > _MUCH * sum(known):
            yield f"{row.instance} has {shown(value)} of the {shown(sum(known))} of {what}"
