"""How far a run or a consumer group is behind its topics, and when it will have caught up.

Who reads is a run, whose positions Spark's offset log has, or a consumer group, which commits
them. What waits in a partition, from its position to its end, is caught up with in
``waiting / (read a second - arriving a second)``. How fast records arrive is measured between two
looks; how fast they are read, a group's commits tell between them, and a run's newest batches.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, InputError, Option, naming
from kstoolkit.events.topics import address_of, options_given, options_of_folder, parse_address
from kstoolkit.kafka.cluster import Cluster, Partition, Reach
from kstoolkit.kafka.groups import GroupFacts, group_facts, groups_of, streams_topics
from kstoolkit.kafka.reading import record_times
from kstoolkit.pipeline.batches import told_after
from kstoolkit.pipeline.run import Run, load_run
from kstoolkit.pipeline.runfolder import newest_commit, offsets_reached
from kstoolkit.records import Viewed, counted, rows_html
from kstoolkit.units import format_count, format_span, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from kstoolkit.kafka.cluster import TopicFacts
    from kstoolkit.pipeline.batches import MicroBatch
    from kstoolkit.pipeline.runfolder import RunFolder, Settings
    from kstoolkit.units import Duration

HEADER = (
    *("topic", "partition", "position", "end", "lag", "lag in time"),
    *("read a second", "arriving a second", "caught up in"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagOfPartition:
    """How far a reader is behind the end of one partition.

    Parameters
    ----------
    end_offset
        The offset that the next record to arrive gets.
    position
        The offset of the next record to be read, as far as is committed.
    lag_records
        Records still to be read. Offsets that compaction or transactions left empty count too.
    gone_records
        Records that were removed before they were read.
    lag_seconds
        How much older the next record to be read is than the newest, by the records' timestamps.
    read_per_second, arriving_per_second
        The measured rates.
    catch_up_seconds
        How long it takes at these rates until nothing waits; ``None`` too if that is never.
    """

    topic: str
    partition: int
    end_offset: int | None = None
    position: int | None = None
    lag_records: int | None = None
    gone_records: int = 0
    lag_seconds: float | None = None
    read_per_second: float | None = None
    arriving_per_second: float | None = None
    catch_up_seconds: float | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    def cells(self) -> list[str]:
        """Return the figures for people, in the order of :data:`HEADER`."""
        gone = f" ({counted(self.gone_records, 'records')} gone)" if self.gone_records else ""
        return [
            self.topic,
            str(self.partition),
            self._text("position", "{:,.0f}"),
            self._text("end_offset", "{:,.0f}"),
            self._text("lag_records", "{:,.0f}") + gone,
            self._text("lag_seconds"),
            self._text("read_per_second", "{:,.1f}"),
            self._text("arriving_per_second", "{:,.1f}"),
            self._text("catch_up_seconds"),
        ]

    def _text(self, name: str, shown: str | None = None) -> str:
        value = getattr(self, name)
        if value is None:
            why = self.unknown.get(name, "not told")
            return why if why.startswith("never") else f"unknown ({why})"
        return format_span(value) if shown is None else shown.format(value)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TopicLag(Viewed):
    """How far a run or a consumer group is behind; made by :func:`kstoolkit.lag`.

    Parameters
    ----------
    reader
        Who reads: ``"run 'out'"`` or ``"group 'billing'"``.
    state
        Whether it reads at present, in words.
    at_ms
        When this was seen, epoch ms UTC.
    measured_seconds
        How long rates of arrival were measured; ``None`` if they were not.
    catch_up_seconds
        How long it takes until nothing waits anywhere; ``None`` if unknown, or never.
    why
        Why that is ``None``.

    Examples
    --------
    >>> one = LagOfPartition(topic="actions", partition=0, end_offset=500, position=380,
    ...                      lag_records=120, catch_up_seconds=4.0)
    >>> TopicLag(reader="run 'out'", state="counting", at_ms=0, partitions=(one,),
    ...          catch_up_seconds=4.0)
    TopicLag(run 'out', counting: 120 records behind in 1 partition, caught up in 4.0 s)
    """

    reader: str
    state: str
    at_ms: int
    partitions: tuple[LagOfPartition, ...]
    measured_seconds: float | None = None
    catch_up_seconds: float | None = None
    why: str | None = None

    @property
    def lag_records(self) -> int | None:
        """Records still to be read, of all partitions of which it is known; ``None`` if of none."""
        known = [each.lag_records for each in self.partitions if each.lag_records is not None]
        return sum(known) if known else None

    @property
    def lag_seconds(self) -> float | None:
        """The longest that any partition is behind; ``None`` if that of none is known."""
        known = [each.lag_seconds for each in self.partitions if each.lag_seconds is not None]
        return max(known, default=None)

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[LagOfPartition]:
        return iter(self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values, as ``--json`` prints them."""
        sums = {"lag_records": self.lag_records, "lag_seconds": self.lag_seconds}
        return {**asdict(self), **sums, "partitions": [asdict(each) for each in self]}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a partition: the fields of :class:`LagOfPartition`, less the reasons."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        columns = [name for name in LagOfPartition.__slots__ if name != "unknown"]
        rows = [[getattr(each, name) for name in columns] for each in self]
        return pd.DataFrame(rows, columns=columns)

    def sentence(self) -> str:
        """Return in a sentence how far it is behind, and how long that takes."""
        if self.lag_records is None:
            return f"{self.reader}, {self.state}: lag unknown ({self.why or 'not told'})"
        unknown = sum(each.lag_records is None for each in self)
        beside = f", unknown in {format_count(unknown)}" if unknown else ""
        behind = counted(self.lag_records, "records")
        since = "" if not self.lag_seconds else f" and {format_span(self.lag_seconds)}"
        where = counted(len(self) - unknown, "partitions")
        return (
            f"{self.reader}, {self.state}: {behind}{since} behind in {where}{beside}{self._end()}"
        )

    def _end(self) -> str:
        if self.lag_records == 0:
            return ""
        if self.catch_up_seconds is not None:
            return f", caught up in {format_span(self.catch_up_seconds)}"
        why = self.why or "not told"
        return f", caught up {why}" if why.startswith("never") else f", caught up: unknown ({why})"

    def __repr__(self) -> str:
        return f"TopicLag({self.sentence()})"

    def _repr_html_(self) -> str:
        return rows_html(self.sentence(), HEADER, (each.cells() for each in self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Where a reader is at one moment; ``at_seconds`` is of a clock that never goes back.

    A partition that is gone has no reach; why a position is not known, ``unknown`` says.
    """

    state: str
    reads: bool
    reach: Mapping[Partition, Reach | None]
    positions: Mapping[Partition, int]
    unknown: Mapping[Partition, str] = field(default_factory=dict)
    at_seconds: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class RunReader:
    """A run that reads a topic; ``given`` is its folder as it was given."""

    folder: RunFolder
    cluster: Cluster
    topic: str
    given: str

    @property
    def name(self) -> str:
        """Who it is, in words."""
        return f"run {self.given!r}"

    def look(self) -> Positions:
        """Return where it is now: after the newest batch that Spark has committed."""
        facts = self.cluster.facts(self.topic)
        positions = self.positions(facts)
        places = {Partition(self.topic, each): reach for each, reach in facts.reach.items()}
        reads = self.folder.is_held()
        return Positions(
            state="counting" if reads else "not counting at present",
            reads=reads,
            reach=places | {each: None for each in positions if each not in places},
            positions=positions,
            unknown=dict.fromkeys(places.keys() - positions.keys(), self._why(facts)),
        )

    def settings(self) -> Settings:
        """Return the run's settings; raise if there is no run any more."""
        return Run(self.folder).settings

    def positions(self, facts: TopicFacts) -> dict[Partition, int]:
        """Return the offset that comes next, of each partition where it is known."""
        if self.is_another(facts):
            return {}
        committed = newest_commit(self.folder.checkpoint)
        if committed is None:
            reached = self.settings().starting_offsets
        else:
            reached = offsets_reached(self.folder.checkpoint, committed, self.topic) or {}
        return {Partition(self.topic, each): at for each, at in reached.items()}

    def is_another(self, facts: TopicFacts) -> bool:
        """Whether the topic is not the one that the run has read, but one of the same name."""
        known = self.settings().topic_id
        return None not in {known, facts.topic_id} and known != facts.topic_id

    def _why(self, facts: TopicFacts) -> str:
        if self.is_another(facts):
            return "the topic was deleted and made again since; kstoolkit reset names a way on"
        if newest_commit(self.folder.checkpoint) is None:
            return "no batch is committed yet"
        return "the partition is new, and no batch has read from it yet"


@dataclass(frozen=True, slots=True)
class GroupReader:
    """A consumer group, and the only topic of interest; by default all that it reads."""

    cluster: Cluster
    group: str
    topic: str | None = None

    @property
    def name(self) -> str:
        """Who it is, in words."""
        return f"group {self.group!r}"

    def facts(self) -> GroupFacts:
        """Return what the group is; raise if there is none."""
        facts = group_facts(self.cluster, self.group)
        if facts.state == "dead" and not facts.committed:
            others = [each for each in groups_of(self.cluster) if each]
            message = f"No consumer group {self.group!r} at {self.cluster.bootstrap!r}."
            there = f"There are: {', '.join(others[:20])}." if others else "There is none at all."
            if streams_topics(self.cluster, self.group):
                there += " It has topics: a streams group is seen from its first commit on."
            raise InputError(message, hint=there)
        return facts

    def look(self) -> Positions:
        """Return where it is now: what it has committed, of all partitions of its topics."""
        facts = self.facts()
        names = facts.topics if self.topic is None else [self.topic]
        reach = {place: at for name in names for place, at in self._reach(name, facts).items()}
        positions = {place: at for place, at in facts.committed.items() if place in reach}
        return Positions(
            state=str(facts),
            reads=facts.members is None or bool(facts.members),
            reach=reach,
            positions=positions,
            unknown=dict.fromkeys(reach.keys() - positions.keys(), "nothing is committed"),
        )

    def _reach(self, topic: str, facts: GroupFacts) -> dict[Partition, Reach | None]:
        if topic != self.topic and not self.cluster.has(topic):
            return {each: None for each in facts.committed if each.topic == topic}
        # A consumer may read what is not committed, so open transactions hold nothing back.
        found = self.cluster.reach(topic, self.cluster.partitions(topic), committed=False)
        return {Partition(topic, each): at for each, at in found.items()}


def reader_of(
    what: Run | str | os.PathLike[str],
    *,
    bootstrap: str | None,
    topic: str | None,
    options: Mapping[str, str] | None,
) -> RunReader | GroupReader:
    """Return who reads: a run or its folder; with ``bootstrap``, a consumer group."""
    if options is None and isinstance(what, Run):
        options = what.options
    if bootstrap is not None:
        return group_reader(what, bootstrap, topic, options)
    run = _run(what)
    given = run.folder.shown if isinstance(what, Run) else os.fspath(what)
    address = parse_address(run.settings.source)
    if run.settings.feed != "topic" or address is None:
        message = f"The run {given!r} reads no topic: {run.settings.source!r}."
        hint = "A consumer group needs bootstrap='host:port' beside."
        raise ConfigurationError(message, hint=hint)
    settings = options_of_folder(options, address.bootstrap, given)
    return RunReader(run.folder, Cluster(address.bootstrap, settings), address.topic, given)


def _run(what: object) -> Run:
    if isinstance(what, Run):
        return what
    if isinstance(what, str | os.PathLike):
        return load_run(Path(what))
    message = f"{what!r} is no run, and no folder of one."
    raise ConfigurationError(message, hint="Give either, or a group's name and bootstrap.")


def group_reader(
    what: object, bootstrap: str, topic: str | None, options: Mapping[str, str] | None
) -> GroupReader:
    """Return a consumer group that reads."""
    if not isinstance(what, str) or not what:
        message = f"{what!r} is no name of a consumer group, and bootstrap is given."
        raise ConfigurationError(message, hint="Leave out bootstrap: a run knows its servers.")
    servers = address_of("any" if topic is None else topic, bootstrap).bootstrap
    return GroupReader(Cluster(servers, options_given(options, servers)), what, topic)


_BATCHES = 20  # the newest batches tell how fast a run is; older ones, how fast it was


@dataclass(frozen=True, slots=True)
class _Rates:
    """Records a second by partition, and why there is none."""

    per_second: Mapping[Partition, float]
    why: str | None = None

    @property
    def whole(self) -> float | None:
        """Of all partitions together; ``None`` if unknown."""
        return sum(self.per_second.values()) if self.per_second else None


_ONE_LOOK = _Rates({}, "not measured: it takes two looks")


def _arriving(before: Positions | None, now: Positions) -> _Rates:
    """Return how fast records came in between two looks."""
    if before is None or now.at_seconds <= before.at_seconds:
        return _ONE_LOOK
    apart = now.at_seconds - before.at_seconds
    found = {}
    for place, reach in now.reach.items():
        earlier = before.reach.get(place)
        if reach is not None and earlier is not None and reach.end >= earlier.end:
            found[place] = (reach.end - earlier.end) / apart
    return _Rates(found, None if found else "the topic was made again meanwhile")


def _commits_read(before: Positions | None, now: Positions) -> _Rates:
    """Return how fast a group went on between two looks, by its commits, if any came between."""
    if not now.reads:
        return _Rates(dict.fromkeys(now.positions, 0.0))
    if before is None or now.at_seconds <= before.at_seconds:
        return _ONE_LOOK
    apart = now.at_seconds - before.at_seconds
    moved = {
        place: (at - before.positions[place]) / apart
        for place, at in now.positions.items()
        if place in before.positions and at >= before.positions[place]
    }
    if not any(moved.values()):
        why = "no commit came within {seconds} s: look longer, {over}"
        return _Rates({}, naming(why, seconds=f"{apart:,.0f}", over=Option("over", "...")))
    return _Rates(moved)


def _batches_read(reader: RunReader) -> _Rates:
    """Return how fast a run is while a batch runs, by its newest batches and their offsets."""
    recent = told_after(reader.folder, reader.settings().epoch)[-_BATCHES:]
    newest = newest_commit(reader.folder.checkpoint)
    seconds, records = 0.0, Counter[Partition]()
    for told in recent:
        taken = _taken(reader, told) if newest is not None and told.batch <= newest else {}
        if any(taken.values()):
            seconds += told.seconds
            records.update(taken)
    if not seconds:
        return _Rates({}, "no batch tells how many records it took")
    return _Rates({place: number / seconds for place, number in records.items()})


def _taken(reader: RunReader, told: MicroBatch) -> dict[Partition, int]:
    """Return how many records a batch took of each partition; nothing where it is not told."""
    ended = offsets_reached(reader.folder.checkpoint, told.batch, reader.topic)
    began = offsets_reached(reader.folder.checkpoint, told.batch - 1, reader.topic)
    if ended is None or (began is None and told.batch):
        return {}
    if began is None:  # the first batch: from where a reset said, or from 0 if it took all since
        records = told.events + sum(told.dead_letters.values())
        began = reader.settings().starting_offsets
        began = began or (dict.fromkeys(ended, 0) if records == sum(ended.values()) else {})
    return {Partition(reader.topic, p): at - began[p] for p, at in ended.items() if p in began}


def _rate(value: float) -> str:
    return format_count(value) if value >= 10 else f"{value:.1f}"  # noqa: PLR2004 - digits


def _lag_of(reader: RunReader | GroupReader, before: Positions | None, now: Positions) -> TopicLag:
    """Return how far a reader is behind, with rates since it was looked at before, if it was."""
    read = _batches_read(reader) if isinstance(reader, RunReader) else _commits_read(before, now)
    arrives = _arriving(before, now)
    behind = _times_behind(reader, now)
    rows = [_row(place, now, read, arrives, behind) for place in sorted(now.reach)]
    waiting = [each.lag_records for each in rows if each.lag_records is not None]
    whole, why = _until(sum(waiting), read, arrives, read.whole, arrives.whole)
    if isinstance(reader, RunReader):  # a batch takes of all partitions in the same proportion
        rows = [_shared(each, whole, why) for each in rows]
    elif waiting:
        whole, why = _last_of(rows)
    if not waiting:
        whole, why = None, rows[0].unknown["lag_records"] if rows else "there is no partition"
    return TopicLag(
        reader=reader.name,
        state=now.state,
        at_ms=time.time_ns() // 1_000_000,
        partitions=tuple(rows),
        measured_seconds=None if before is None else now.at_seconds - before.at_seconds,
        catch_up_seconds=whole,
        why=why,
    )


def _row(
    place: Partition,
    now: Positions,
    read: _Rates,
    arrives: _Rates,
    behind: Mapping[Partition, float],
) -> LagOfPartition:
    reach, position = now.reach[place], now.positions.get(place)
    waiting, gone, why = _waiting(reach, position, now.unknown.get(place, "not told"))
    reads, comes = read.per_second.get(place), arrives.per_second.get(place)
    older = 0.0 if waiting == 0 else behind.get(place)
    told: dict[str, tuple[Any, str | None]] = {
        "end_offset": (None if reach is None else reach.end, why),
        "position": (position, why),
        "lag_records": (waiting, why),
        "lag_seconds": (older, why or "the records' timestamps do not tell"),
        "read_per_second": (reads, read.why or "nothing of it was read meanwhile"),
        "arriving_per_second": (comes, arrives.why or "the partition is new"),
        "catch_up_seconds": (None, why),
    }
    if waiting is not None:
        told["catch_up_seconds"] = _until(waiting, read, arrives, reads, comes)
    return LagOfPartition(
        topic=place.topic,
        partition=place.number,
        gone_records=gone,
        **{name: value for name, (value, _) in told.items()},
        unknown={name: str(reason) for name, (value, reason) in told.items() if value is None},
    )


def _waiting(reach: Reach | None, position: int | None, why: str) -> tuple[int | None, int, str]:
    """Return how many records wait, how many are gone unread, and why the former is unknown."""
    if reach is None:
        return None, 0, "the partition is gone"
    if position is None:
        return (0, 0, why) if reach.first == reach.end else (None, 0, why)
    if position > reach.end:
        return None, 0, "the position is past the end: the topic was deleted and made again"
    return reach.end - max(position, reach.first), max(reach.first - position, 0), ""


def _until(
    waiting: int, read: _Rates, arrives: _Rates, reads: float | None, comes: float | None
) -> tuple[float | None, str | None]:
    """Return in how many seconds nothing waits any more, or why that is not known, or never."""
    if not waiting:
        return 0.0, None
    if reads == 0:
        return None, "never at this rate: nothing is read"
    if reads is None or comes is None:
        return None, (read.why if reads is None else arrives.why) or "no rate is known of it"
    if reads > comes:
        return waiting / (reads - comes), None
    return None, f"never at this rate: {_rate(comes)} arrive a second, and {_rate(reads)} are read"


def _shared(row: LagOfPartition, whole: float | None, why: str | None) -> LagOfPartition:
    if not row.lag_records:
        return row
    unknown = {name: each for name, each in row.unknown.items() if name != "catch_up_seconds"}
    if whole is None:
        unknown["catch_up_seconds"] = str(why)
    return replace(row, catch_up_seconds=whole, unknown=unknown)


def _last_of(rows: list[LagOfPartition]) -> tuple[float | None, str | None]:
    """Return when the last partition is caught up with, or why that is not known, or never."""
    late = [each for each in rows if each.lag_records is not None]
    whys = [each.unknown["catch_up_seconds"] for each in late if each.catch_up_seconds is None]
    if whys:
        return None, next((why for why in whys if why.startswith("never")), whys[0])
    return max(each.catch_up_seconds or 0.0 for each in late), None


def _times_behind(reader: RunReader | GroupReader, now: Positions) -> dict[Partition, float]:
    """Return how much older the next record of each partition is than its newest, in seconds."""
    begins, ends = {}, {}
    for place, position in now.positions.items():
        reach = now.reach.get(place)
        if reach is not None and (at := max(position, reach.first)) < reach.end:
            begins[place], ends[place] = at, reach.end - 1
    begun, ended = record_times(reader.cluster, begins, ends)
    return {
        place: max(ended[place] - begun[place], 0) / 1_000 for place in begun.keys() & ended.keys()
    }


_KEPT_SECONDS = 60.0
"""Rates are of the last minute: consumers commit some seconds apart, and batches come in gusts."""


def lag(
    what: Run | str | os.PathLike[str],
    *,
    bootstrap: str | None = None,
    topic: str | None = None,
    over: Duration = "5 seconds",
    options: Mapping[str, str] | None = None,
) -> TopicLag:
    """Return how far a run or a consumer group is behind, by partition.

    Parameters
    ----------
    what
        A run that reads a topic, or its folder: its position is where the newest batch ended that
        Spark has committed. With ``bootstrap``, a consumer group; a Kafka Streams application is
        one, called as its ``application.id``: its position is what it has committed.
    bootstrap, options
        Of a group: servers to ask first, as ``"host:port"``, with commas between; and settings of
        the connection, by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names.
    topic
        Of a group: only this topic; by default all that it reads or has committed.
    over
        How long to measure rates, if anything waits: how fast records arrive, and how fast a group
        commits. How fast a run is, its batches tell. Longer than the time between two commits, or
        it is unknown: consumers commit every 5 seconds by default, Kafka Streams every 30. With 0,
        nothing is measured.

    Raises
    ------
    InputError
        If there is no such run, group or topic.
    ConfigurationError
        If the run reads no topic.
    KafkaError
        If no broker answers.

    Examples
    --------
    >>> lag("billing", bootstrap="127.0.0.1:1", over="soon")
    Traceback (most recent call last):
    ...
    kstoolkit.errors.ConfigurationError: 'soon' is not a duration.
    Hint: Write a number and a unit: '30 seconds', '5 minutes', '1 hour', '1 day'.
    """
    over_ms = parse_duration(over, allow_zero=True)
    watch = LagWatch(what, bootstrap=bootstrap, topic=topic, options=options)
    first = watch.look()
    if not over_ms or not first.lag_records:
        return first
    time.sleep(over_ms / 1_000)
    return watch.look()


class LagWatch:
    """Looks at the lag again and again, and measures rates from one look to another.

    It takes what :func:`lag` does. No such run is an InputError; no topic, a ConfigurationError.
    """

    def __init__(
        self,
        what: Run | str | os.PathLike[str],
        *,
        bootstrap: str | None = None,
        topic: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._reader = reader_of(what, bootstrap=bootstrap, topic=topic, options=options)
        self._looks: deque[Positions] = deque()

    def look(self) -> TopicLag:
        """Return the lag as it is now; rates are since the looks of the last minute.

        If the run, group or topic is gone, it is an InputError; if no broker answers, a KafkaError.
        """
        now = self._reader.look()
        while self._looks and now.at_seconds - self._looks[0].at_seconds > _KEPT_SECONDS:
            self._looks.popleft()
        before = self._looks[0] if self._looks else None
        self._looks.append(now)
        return _lag_of(self._reader, before, now)

    def __repr__(self) -> str:
        return f"LagWatch({self._reader.name})"
