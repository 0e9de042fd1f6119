"""A run or a consumer group, moved to other offsets: planned first, then done safely.

A consumer group is moved as Kafka's own tool does it. A run begins a new epoch: its state is empty,
and its counts replace the earlier ones. So a window of which all records are read again is counted
right, one of which none is read keeps its count; one of which a part is read gets too low a count.

Which these are, the timestamps of the records around the offsets tell, if the events of a partition
lie in the order of time, and records' timestamps are their events' times, as ``kstoolkit produce``
writes them: every window that ends after the first moment at which reading begins in a partition,
and starts before the last one up to which there are records that are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import CheckpointError, ConfigurationError, Option, naming
from kstoolkit.events.topics import where_given
from kstoolkit.kafka.cluster import Partition, check_offsets
from kstoolkit.kafka.groups import group_facts, move_group, streams_topics
from kstoolkit.kafka.reading import record_times
from kstoolkit.moments import moment_of
from kstoolkit.operations.lag import RunReader, reader_of
from kstoolkit.records import counted, rows_html
from kstoolkit.units import format_count

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd

    from kstoolkit.kafka.cluster import Cluster, Reach, TopicFacts
    from kstoolkit.kafka.groups import GroupFacts
    from kstoolkit.operations.lag import GroupReader
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import Settings
    from kstoolkit.windows import Window

HEADER = ("topic", "partition", "position", "new position", "read again", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a reset does to one partition.

    Parameters
    ----------
    position
        The offset of the next record to be read, before; ``None`` if there was none.
    target
        The same, after.
    again_records, skipped_records
        Records that were read before and are read again; that were not, and never will be. Offsets
        that compaction or transactions left empty count too.
    """

    topic: str
    partition: int
    position: int | None
    target: int
    again_records: int
    skipped_records: int

    @classmethod
    def of(cls, place: Partition, reach: Reach, position: int | None, target: int) -> Move:
        """Return the move of a partition, from where it is, if it is anywhere, to a target.

        Examples
        --------
        >>> from kstoolkit.kafka.cluster import Reach
        >>> from kstoolkit.kafka.cluster import Partition
        >>> Move.of(Partition("actions", 0), Reach(20, 90), 50, 20).again_records
        30
        """
        began = reach.first if position is None else position
        return cls(
            topic=place.topic,
            partition=place.number,
            position=position,
            target=target,
            again_records=max(min(began, reach.end) - target, 0),
            skipped_records=max(target - max(began, reach.first), 0),
        )

    def cells(self) -> list[str]:
        """Return the figures for people, in the order of :data:`HEADER`."""
        position = "none" if self.position is None else format_count(self.position)
        figures = (self.target, self.again_records, self.skipped_records)
        return [self.topic, str(self.partition), position, *map(format_count, figures)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWindows:
    """Windows of one kind that lie on both sides of where reading begins anew.

    Parameters
    ----------
    window
        Which kind: ``"1 hour"``.
    first_start_ms, last_end_ms
        When the first of them starts, and the last one ends: epoch ms UTC.
    """

    window: str
    first_start_ms: int
    last_end_ms: int

    def __str__(self) -> str:
        first, last = _moment_text(self.first_start_ms), _moment_text(self.last_end_ms)
        return f"{self.window}: from {first} to {last}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ResetPlan:
    """What a reset does, or has done; made by :func:`kstoolkit.reset`.

    Parameters
    ----------
    reader
        Who is moved: ``"run 'out'"`` or ``"group 'billing'"``.
    to
        Where to, in words.
    done
        Whether it is done, or only planned.
    in_part
        Of a run, windows read again in part, as records' timestamps tell; counts become too low.
    warnings
        What this costs, each in a sentence.
    refusal
        Why it can't be done at present; ``None`` if it can.

    Examples
    --------
    >>> move = Move(topic="actions", partition=0, position=500, target=0, again_records=500,
    ...             skipped_records=0)
    >>> ResetPlan(reader="run 'out'", to="earliest", done=False, moves=(move,))
    ResetPlan(run 'out' to earliest, not done yet: 500 records read again, 0 skipped)
    """

    reader: str
    to: str
    done: bool
    moves: tuple[Move, ...]
    in_part: tuple[PartWindows, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str | None = None

    @property
    def again_records(self) -> int:
        """Records that are read again, of all partitions."""
        return sum(each.again_records for each in self.moves)

    @property
    def skipped_records(self) -> int:
        """Records that are skipped, of all partitions."""
        return sum(each.skipped_records for each in self.moves)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values, as ``--json`` prints them."""
        sums = {"again_records": self.again_records, "skipped_records": self.skipped_records}
        return {**asdict(self), **sums}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a partition: the fields of :class:`Move`."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        return pd.DataFrame([asdict(each) for each in self.moves], columns=list(Move.__slots__))

    def sentence(self) -> str:
        """Return in a sentence what is moved, and what that comes to."""
        state = "done" if self.done else "not done yet"
        again, skipped = counted(self.again_records, "records"), format_count(self.skipped_records)
        return f"{self.reader} to {self.to}, {state}: {again} read again, {skipped} skipped"

    def remarks(self) -> list[str]:
        """Return what it costs, and why it can't be done if it can't, a sentence each."""
        return [*self.warnings, *([self.refusal] if self.refusal else [])]

    def __repr__(self) -> str:
        return f"ResetPlan({self.sentence()})"

    def _repr_html_(self) -> str:
        told = "".join(f"<li>{escape(each)}</li>" for each in self.remarks())
        table = rows_html(self.sentence(), HEADER, (each.cells() for each in self.moves))
        return f"{table}<ul>{told}</ul>"


def _moment_text(value_ms: int) -> str:
    """Return a moment as ISO 8601, which ``to`` takes."""
    precision = "milliseconds" if value_ms % 1_000 else "seconds"
    return f"{moment_of(value_ms).replace(tzinfo=None).isoformat(timespec=precision)}Z"


To = str | datetime | Mapping[int, int]
"""``"earliest"``, ``"latest"``, a time (an aware datetime or ISO 8601), or offsets by partition."""

_Where = str | datetime | dict[int, int]  # the same once it is checked


def _targets_of(
    to: _Where,
    cluster: Cluster,
    topic: str,
    reach: Mapping[int, Reach],
    positions: Mapping[int, int],
) -> dict[int, int]:
    """Return the offset that each partition goes to.

    Of partitions that offsets do not name, those that have a position keep it, as long as it is
    there; the others go to their beginning.
    """
    if to == "earliest":
        return {each: at.first for each, at in reach.items()}
    if to == "latest":
        return {each: at.end for each, at in reach.items()}
    if isinstance(to, datetime):
        return cluster.offsets_at(topic, sorted(reach), round(to.timestamp() * 1_000))
    named = {} if isinstance(to, str) else to
    check_offsets("to", named, topic, reach)
    kept = {n: min(max(positions.get(n, at.first), at.first), at.end) for n, at in reach.items()}
    return kept | named


def _to_in_words(to: _Where) -> str:
    if isinstance(to, datetime):
        return to.isoformat()
    if isinstance(to, str):
        return to
    (first, at), *others = sorted(to.items())
    more = "".join(f", {offset} of {each}" for each, offset in others)
    return f"offset {at} of partition {first}{more}"


def _reset_group(reader: GroupReader, to: _Where, *, dry_run: bool) -> ResetPlan:
    """Return what a reset of a consumer group does; do it, unless it is only planned."""
    facts = group_facts(reader.cluster, reader.group)
    topic = reader.topic or _only_topic(reader)
    plan = _planned_for_group(reader, facts, topic, to)
    if dry_run:
        return plan
    if plan.refusal is not None:
        message = f"The group {reader.group!r} is in use: {_members(facts)}."
        raise CheckpointError(message, hint="Stop its consumers first; then reset it.")
    targets = {Partition(each.topic, each.partition): each.target for each in plan.moves}
    move_group(reader.cluster, reader.group, targets)
    return replace(plan, done=True)


def _only_topic(reader: GroupReader) -> str:
    topics = reader.facts().topics
    if len(topics) == 1:
        return topics[0]
    message = f"Which topic? The group {reader.group!r} has read {len(topics)}."
    hint = "Give {topic}; it has: {topics}."
    told = naming(hint, topic=Option("topic", "..."), topics=", ".join(topics))
    raise ConfigurationError(message, hint=told)


def _planned_for_group(reader: GroupReader, facts: GroupFacts, topic: str, to: _Where) -> ResetPlan:
    reach = reader.cluster.facts(topic, committed=False).reach
    known = {each.number: at for each, at in facts.committed.items() if each.topic == topic}
    targets = _targets_of(to, reader.cluster, topic, reach, known)
    if isinstance(to, Mapping):  # the others stay as they are
        targets = {each: targets[each] for each in to}
    moves = tuple(
        Move.of(Partition(topic, each), reach[each], known.get(each), at)
        for each, at in sorted(targets.items())
    )
    busy = None if facts.is_inactive else f"It is in use ({_members(facts)}): stop it first."
    plan = ResetPlan(reader=reader.name, to=_to_in_words(to), done=False, moves=moves, refusal=busy)
    return replace(plan, warnings=tuple(_group_warnings(reader, topic, plan)))


def _group_warnings(reader: GroupReader, topic: str, plan: ResetPlan) -> Iterator[str]:
    if plan.again_records:
        yield (
            f"Whatever the group does with records, it does again with "
            f"{counted(plan.again_records, 'records')}."
        )
    if plan.skipped_records:
        yield f"The group will never see {counted(plan.skipped_records, 'records')}."
    if streams_topics(reader.cluster, reader.group):
        yield (
            f"{reader.group!r} is a Kafka Streams application: its state stores and the topics "
            f"that it made itself know what it has read of {topic!r}. Where they have to be made "
            "anew too, use Kafka's own kafka-streams-application-reset."
        )


def _members(facts: GroupFacts) -> str:
    return f"it is {facts.state}, with {counted(len(facts.members or ()), 'members')}"


def _cuts_of(
    cluster: Cluster, topic: str, reach: Mapping[int, Reach], targets: Mapping[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the moments at which reading begins, epoch ms, by partition, as far as records tell.

    From the first on records are read; up to the second there are, or were, records that are not
    read: nothing for partitions that are read whole.
    """
    places = {Partition(topic, each): at for each, at in targets.items()}
    there = {each: at for each, at in places.items() if at < reach[each.number].end}
    before = {each: at - 1 for each, at in places.items() if at > reach[each.number].first}
    begun, cut = record_times(cluster, there, before)
    begins = {place.number: moment_ms for place, moment_ms in begun.items()}
    cut_ms = {place.number: moment_ms + 1 for place, moment_ms in cut.items()}
    # Where all that came before is gone from the topic, it may have been as new as what is there.
    gone = {each for each, at in targets.items() if at == reach[each].first > 0}
    cut_ms |= {each: begins[each] for each in gone & begins.keys()}
    # Beyond the newest record, the next one comes later.
    begin_ms = {each: begins.get(each, cut_ms.get(each)) for each in targets}
    return {each: at for each, at in begin_ms.items() if at is not None}, cut_ms


def _windows_in_part(
    windows: Iterable[Window], begin_ms: Iterable[int], cut_ms: Iterable[int]
) -> Iterator[PartWindows]:
    """Return the windows that have records which are read, and others which are not."""
    first, last = min(begin_ms, default=0), max(cut_ms, default=0)
    for window in windows:
        # The first that ends after `first`, and the last that starts before `last`.
        start = window.first_of(first)
        newest = window.start_of(last - 1)
        if last > 0 and start <= newest:
            end = newest + window.size_ms
            yield PartWindows(window=window.label, first_start_ms=start, last_end_ms=end)


_IS_ANOTHER = (
    "The topic {!r} was deleted and made again since the run read it: its records may be other "
    "ones, or the same that were counted before."
)


def _reset_run(reader: RunReader, to: _Where, *, dry_run: bool) -> ResetPlan:
    """Return what a reset of a run does; do it, unless it is only planned."""
    folder = reader.folder
    refusal = "It is counting at present: stop it first." if folder.is_held() else None
    if dry_run:
        plan, _ = _planned_for_run(reader, to)
        return replace(plan, refusal=refusal)
    if refusal is not None:
        message = f"The run {str(folder.path)!r} is counting at present."
        raise CheckpointError(message, hint="Stop it first; then reset it, and start it again.")
    with folder.hold():
        folder.repair_epoch()
        plan, settings = _planned_for_run(reader, to)
        folder.begin_epoch(settings)
    return replace(plan, done=True)


def _planned_for_run(reader: RunReader, to: _Where) -> tuple[ResetPlan, Settings]:
    """Return the plan, and the settings that the run's folder gets by it."""
    facts, settings = reader.cluster.facts(reader.topic), reader.settings()
    known = {place.number: at for place, at in reader.positions(facts).items()}
    targets = _targets_of(to, reader.cluster, facts.name, facts.reach, known)
    plan = ResetPlan(
        reader=reader.name,
        to=_to_in_words(to),
        done=False,
        moves=tuple(
            Move.of(Partition(facts.name, each), facts.reach[each], known.get(each), at)
            for each, at in sorted(targets.items())
        ),
    )
    if settings.time == "event":
        plan = _with_windows(plan, reader, facts, settings)
    begun = replace(
        settings,
        epoch=settings.epoch + 1,
        was_live=False,
        topic_id=facts.topic_id,
        starting={str(each): at for each, at in sorted(targets.items())},
    )
    told = (*plan.warnings, *_run_warnings(plan, settings))
    if reader.is_another(facts):
        told = (_IS_ANOTHER.format(facts.name), *told)
    return replace(plan, warnings=told), begun


def _with_windows(
    plan: ResetPlan, reader: RunReader, facts: TopicFacts, settings: Settings
) -> ResetPlan:
    """Return the plan with the windows that are read in part, and what to do about them."""
    targets = {each.partition: each.target for each in plan.moves}
    begin_ms, cut_ms = _cuts_of(reader.cluster, facts.name, facts.reach, targets)
    windows = settings.cascade.windows
    in_part = tuple(_windows_in_part(windows, begin_ms.values(), cut_ms.values()))
    told = []
    if in_part:
        is_first = all(at == facts.reach[each].first for each, at in targets.items())
        told.append(_too_low(in_part, is_first=is_first))
    untold = sorted({each for each, at in targets.items() if at > 0} - cut_ms.keys())
    if untold:
        which = f"partition{'s' if len(untold) > 1 else ''} {', '.join(map(str, untold))}"
        told.append(f"No record of {which} tells a time: more windows may be read in part.")
    return replace(plan, in_part=in_part, warnings=tuple(told))


def _too_low(in_part: Sequence[PartWindows], *, is_first: bool) -> str:
    windows = "; ".join(map(str, in_part))
    begun = (
        "By the records' timestamps, these windows are read in part, and the counts of users who "
        f"come again in them become too low: {windows}."
    )
    if is_first:
        return f"{begun} What came before is gone from the topic."
    first = _moment_text(min(each.first_start_ms for each in in_part))
    return f"{begun} To count them right, reset to {first} or before, or to earliest."


def _run_warnings(plan: ResetPlan, settings: Settings) -> Iterator[str]:
    again = counted(plan.again_records, "records")
    if plan.again_records and settings.time == "processing":
        yield f"{again} are counted again, in the windows of the time when they are read again."
    if plan.again_records:
        yield (
            f"{again} count twice in the run's summary and metrics (events, late ones, dead "
            "letters), and findings may be reported again. Counts of windows are not added up: "
            "the newest one wins."
            if settings.time == "event"
            else f"{again} count twice in the run's summary and metrics, too."
        )
    if plan.skipped_records:
        yield f"{counted(plan.skipped_records, 'records')} will never be counted."
    if settings.was_live:
        yield (
            "What the live run held back by its flush interval is lost, unless its windows are "
            "read again."
        )


def reset(
    what: Run | str | os.PathLike[str],
    to: To,
    *,
    bootstrap: str | None = None,
    topic: str | None = None,
    dry_run: bool = True,
    options: Mapping[str, str] | None = None,
) -> ResetPlan:
    """Return what moving a run or a consumer group costs, and with ``dry_run=False`` do it.

    A run then begins anew at these offsets: the next one started on its folder has a new
    checkpoint, filed under a new epoch. The old one is kept beside, as ``checkpoint.epoch=<n>``, as
    is all that was counted. State starts empty, and the newest count of a window wins: a window
    read again whole is counted right, one read in part too low. The plan says which these are.

    A consumer group is moved as Kafka's own ``kafka-consumer-groups --reset-offsets`` does.

    Parameters
    ----------
    what, bootstrap, options
        As :func:`kstoolkit.lag` takes them.
    to
        ``"earliest"``, ``"latest"``, a time (an aware datetime or ISO 8601; the first records that
        are no older), or ``{partition: offset}``, where the other partitions stay as they are.
    topic
        Of a group: which topic; by default the only one that it reads.
    dry_run
        Whether to change nothing.

    Raises
    ------
    InputError
        If there is no such run, group or topic.
    ConfigurationError
        If ``to`` makes no sense, or the run reads no topic.
    CheckpointError
        If it is to be done, and the run is counting, or the group has members.
    KafkaError
        If no broker answers.

    Examples
    --------
    >>> reset("billing", to="yesterday", bootstrap="127.0.0.1:1")
    Traceback (most recent call last):
    ...
    kstoolkit.errors.ConfigurationError: to is 'yesterday'.
    Hint: Give 'earliest', 'latest', a time such as 2026-01-31T08:00Z, or {partition: offset}.
    """
    where = where_given(to, "to")
    if topic is not None and bootstrap is None:
        message = f"topic is {topic!r}, and the run's folder knows its topic."
        raise ConfigurationError(message, hint="Leave it out, or give bootstrap for a group.")
    reader = reader_of(what, bootstrap=bootstrap, topic=topic, options=options)
    if isinstance(reader, RunReader):
        return _reset_run(reader, where, dry_run=dry_run)
    return _reset_group(reader, where, dry_run=dry_run)
