"""Whose a folder of state is, by its place alone: of which store, of which application or replica.

Stores lie so (``StateDirectory`` of Kafka Streams), and a replica's, which are its levels::

    <state.dir>/<application.id>/
        global/rocksdb/<store>                              a global store
        <sub-topology>_<partition>/rocksdb/<store>          a store of a task
        <sub-topology>_<partition>/<store>/<store>.<ms>     a segment of one
        __<topology>__/<sub-topology>_<partition>/…         the same of a named topology
    <anywhere>/<store>.<ms>                                 a segment of a copy
    <replica>/<window in ms>                                a level, in segments

A copy of a store may be called anything, but its segments still say whose they are: in ``copy``,
``counts.1700002800000`` is a segment of ``counts``. That is less certain than in ``counts``: others
put a time into the name of a folder, too.

So a store's changelog is known by its name: ``<application.id>-<store>-changelog``, or, of a named
topology, ``<application.id>-<topology>-<store>-changelog``
(``ProcessorStateManager.storeChangelogTopic``).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kstoolkit.errors import FormatError, Option, naming
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.kinds import DEFAULT, OFFSETS, STREAMS_FAMILIES, live_family
from kstoolkit.formats.streams.places import read_checkpoint, segment_interval_ms, segment_start_ms
from kstoolkit.formats.streams.recognising import recognise
from kstoolkit.records import Records
from kstoolkit.replica.replicafile import FILE, segment_span_ms
from kstoolkit.rocksdb.memory.planning import EngineUse
from kstoolkit.stores.discovery.found import FoundSegment, FoundStore, OnDisk, folder_bytes, on_disk
from kstoolkit.windows import length_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kstoolkit.formats.streams.recognising import Place
    from kstoolkit.rocksdb.store import Store

_Offset = TypeVar("_Offset", int, int | None)


def offsets_of(
    store: StreamsPlace | FoundStore, offsets: Mapping[tuple[str, int], _Offset], *, of_all: bool
) -> list[_Offset]:
    """Return the offsets of a store's changelog: of its partition, or of all."""
    changelog = _changelog_of(store, {topic for topic, _ in offsets})
    return [
        offset
        for (topic, partition), offset in offsets.items()
        if topic == changelog and (of_all or partition == store.partition)
    ]


def _changelog_of(store: StreamsPlace | FoundStore, topics: set[str]) -> str | None:
    """Return the topic that is a store's changelog; None if none of them is.

    In a folder that was renamed no topic begins with the folder's name, the application's: then the
    shortest that ends like the store's changelog is it.
    """
    of_topology = "" if store.topology is None else f"-{store.topology}"
    ending = f"{of_topology}-{store.store}-changelog"
    application = store.application
    if application is not None and any(each.startswith(f"{application}-") for each in topics):
        mine = f"{application}{ending}"
        return mine if mine in topics else None
    return min((each for each in topics if each.endswith(ending)), key=len, default=None)


BY_NAME_ALONE = 0.8
"""What is left of the confidence in a kind where only its own name says that it is a segment."""

_OWN = re.compile(r"(?P<store>.+)(?:[.:]-?[0-9]{1,19}|-[0-9]{12})")
_SHORTEST_MS = 60_000  # that a segment can be
_WHOLE_MS = 1_000  # of which the lengths of segments that people choose are multiples


@dataclass(frozen=True, slots=True)
class SegmentName:
    """What the name of a segment's folder says: its store, and where it begins."""

    store: str
    start_ms: int
    is_in_its_store: bool = True


def by_name_alone(store: str, folder: str) -> str:
    """Return what speaks for a store that only its segments name, in a folder of another name."""
    return f"its segments are named as those of {store!r}, though they lie in {folder!r}"


def segment_name(folder: Path) -> SegmentName | None:
    """Return what the name of an absolute path says of a segment; None if it is that of none.

    >>> segment_name(Path("/copy/counts.1700002800000")).store
    'counts'
    >>> segment_name(Path("/counts/counts.1700002800000")).is_in_its_store
    True
    >>> segment_name(Path("/counts/counts.old")) is None
    True
    """
    start_ms = segment_start_ms(folder.parent.name, folder.name)
    if start_ms is not None:
        return SegmentName(folder.parent.name, start_ms)
    match = _OWN.fullmatch(folder.name)
    start_ms = None if match is None else segment_start_ms(match["store"], folder.name)
    if match is None or start_ms is None:
        return None
    return SegmentName(match["store"], start_ms, is_in_its_store=False)


def are_segments(starts_ms: Iterable[int]) -> bool:
    """Return whether the starts that some names tell can be those of a store's segments.

    Segments begin at multiples of their length, and that is a minute at least.

    >>> are_segments([0, 90_000]), are_segments([1_700_002_800_000]), are_segments([1, 2])
    (True, True, False)
    """
    starts = list(starts_ms)
    length_ms = gcd(*starts)
    return length_ms >= _SHORTEST_MS and (len(starts) > 1 or length_ms % _WHOLE_MS == 0)


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return where a path leads to, through all links: names there are those that an engine gave.

    >>> real_path("/proc/self/root/x/../y").as_posix()
    '/y'
    """
    # Path.resolve raises RuntimeError at links that go in circles.
    return Path(os.path.realpath(path))


_TASK = re.compile(r"(\d+)_(\d+)")
_TOPOLOGY = re.compile(r"__(.+)__")
_GLOBAL = "global"
_WHOLE = "rocksdb"


@dataclass(frozen=True, slots=True)
class StreamsPlace:
    """Where in a state directory the folder of a store lies, or of its segments.

    ``application`` is None for segments that lie by themselves, as in a copy, ``subtopology`` and
    ``partition`` for a global store, ``segment_start_ms`` if the whole store lies here.
    """

    folder: Path
    task_folder: Path
    application: str | None
    store: str
    topology: str | None = None
    subtopology: int | None = None
    partition: int | None = None
    segment_start_ms: int | None = None
    is_by_name_alone: bool = False

    @property
    def is_global(self) -> bool:
        """Whether every instance of the application has all of this store."""
        return self.partition is None and not self.is_by_name_alone


def streams_place(folder: Path) -> StreamsPlace | None:
    """Return what the place of a RocksDB folder says; None if no Kafka Streams put it there.

    If the path, an absolute one, is a link, the place is that which it leads to.
    """
    real = real_path(folder)
    place = _place(real)
    if place is None or real == folder:
        return place
    # Whoever asks knows the store by the path that they gave.
    return replace(place, folder=folder if place.segment_start_ms is None else folder.parent)


def use_of_streams(store: Store) -> EngineUse:
    """Return what Kafka Streams does with a RocksDB's column families, if it is one of its own.

    It writes nothing to those that a newer kind of store took over.
    """
    names = {*store.column_families}
    families = names & STREAMS_FAMILIES
    if not families and OFFSETS not in names and streams_place(real_path(store.path)) is None:
        return EngineUse()
    older = frozenset({*families, DEFAULT} - {live_family(names)})
    return EngineUse("kafka_streams", unwritten=older, small=frozenset({OFFSETS}))


def _place(folder: Path) -> StreamsPlace | None:
    parent = folder.parent
    if parent.name == _WHOLE:
        return _of_task(parent.parent, folder, folder.name, None)
    named = segment_name(folder)
    if named is None:
        return None
    if named.is_in_its_store:
        return _of_task(parent.parent, parent, named.store, named.start_ms)
    return StreamsPlace(
        parent, parent, None, named.store, segment_start_ms=named.start_ms, is_by_name_alone=True
    )


def _of_task(task: Path, folder: Path, store: str, start_ms: int | None) -> StreamsPlace | None:
    match = _TASK.fullmatch(task.name)
    if match is None and task.name != _GLOBAL:
        # The names of segments are Kafka Streams' own, wherever somebody copied them to.
        if start_ms is None:
            return None
        return StreamsPlace(folder, task, None, store, segment_start_ms=start_ms)
    topology = _TOPOLOGY.fullmatch(task.parent.name)
    home = task.parent if topology is None else task.parent.parent
    return StreamsPlace(
        folder,
        task,
        application=home.name,
        store=store,
        topology=None if topology is None else topology[1],
        subtopology=None if match is None else int(match[1]),
        partition=None if match is None else int(match[2]),
        segment_start_ms=start_ms,
    )


_CERTAIN = 0.9
_CHECKPOINT = ".checkpoint"
_NO_CHECKPOINT = (
    "there is no checkpoint file: under exactly-once it goes when a store is opened and comes when "
    "it is closed; without it a restart restores the store from the start"
)
_LOOK = Option("look", "True")
_ASK_OFFSETS = naming(
    "there is no checkpoint file: {look} asks the column family offsets for it", look=_LOOK
)
_OPEN_IT = naming("only its rows tell: {look} opens it", look=_LOOK)
_NO_SIGN = "Kafka Streams before 4.3 leaves no sign of it"
_NOT_CLOSED = (
    f"{_NO_SIGN} but a checkpoint file, and there is none: it is running, was not closed cleanly, "
    "or its task has no changelog"
)


def streams_store(places: Sequence[tuple[Path, StreamsPlace]], root: Path) -> FoundStore:
    """Return the store that lies in one folder, or in several as its segments.

    If the ``root`` of the search is a segment, the others of the store are not asked for.
    """
    folders = [folder for folder, _ in places]
    is_alone = len(places) == 1 and places[0][1].is_by_name_alone
    place, held = places[0][1], on_disk(folders)
    starts = {at: each.segment_start_ms for at, each in places if each.segment_start_ms is not None}
    length_ms = _length_ms(starts)
    families = tuple(name for name in held.column_families if name != OFFSETS)
    kind, confidence, reasons = _kind(families, place)
    keeps_offsets = OFFSETS in held.column_families
    offset, no_offset = _offset(place, _ASK_OFFSETS if keeps_offsets else _NO_CHECKPOINT)
    has_checkpoint = (place.task_folder / _CHECKPOINT).exists()
    unknown = {"closed": _NO_SIGN if has_checkpoint else _NOT_CLOSED}
    if keeps_offsets:
        unknown["closed"] = _OPEN_IT
    if kind is None:
        unknown["kind"] = (
            _OPEN_IT if families else "there is no OPTIONS file that names its column families"
        )
    if offset is None:
        unknown["offset"] = no_offset
    if held.num_entries is None:
        unknown["num_not_rewritten"] = "a file of it does not tell"
    # Those that hold what the application put in.
    figures = held.figures({*(held.num_entries or {})} - {OFFSETS})
    figures["unknown"] = unknown | figures["unknown"]
    return FoundStore(
        str(folders[0] if is_alone or root in folders else place.folder),
        "kafka-streams",
        place.application,
        place.store,
        topology=place.topology,
        subtopology=place.subtopology,
        partition=place.partition,
        kind=kind,
        confidence=confidence,
        reasons=reasons,
        segments=_segments(
            starts, lambda start_ms: None if length_ms is None else start_ms + length_ms
        ),
        num_not_rewritten=_not_rewritten(held),
        offset=offset,
        **figures,
    )


def _kind(
    families: tuple[str, ...], place: StreamsPlace
) -> tuple[str | None, float | None, tuple[str, ...]]:
    """Return the kind, if the column families leave no doubt of it."""
    if not families:
        return None, None, ()
    nothing = ByteColumn.of([])
    lies: Place = "store" if place.segment_start_ms is None else "segment"
    guess = recognise(families, nothing, nothing, place=lies, store=place.store)
    if guess.confidence < _CERTAIN:
        return None, None, ()
    if not place.is_by_name_alone:
        return str(guess.kind), guess.confidence, guess.reasons
    why = by_name_alone(place.store, place.folder.name)
    return str(guess.kind), round(guess.confidence * BY_NAME_ALONE, 3), (*guess.reasons, why)


def _not_rewritten(held: OnDisk) -> int | None:
    """Return the entries in column families that a newer kind of store has taken over."""
    if held.num_entries is None:
        return None
    older = (STREAMS_FAMILIES | {DEFAULT}) - {live_family(held.column_families)}
    return sum(count for family, count in held.num_entries.items() if family in older)


def _length_ms(starts_ms: Mapping[Path, int]) -> int | None:
    """Return how long segments are at most; None if fewer than two, or minutes, tell of it."""
    to_the_ms = all(folder.name.endswith(str(start)) for folder, start in starts_ms.items())
    is_told = to_the_ms and len(starts_ms) > 1
    return segment_interval_ms(starts_ms.values()) if is_told else None


def _segments(
    starts_ms: Mapping[Path, int], end_ms: Callable[[int], int | None]
) -> Records[FoundSegment]:
    found = [
        FoundSegment(str(folder), start_ms, size_bytes, end_ms=end_ms(start_ms))
        for folder, start_ms in starts_ms.items()
        if (size_bytes := folder_bytes(folder)) is not None
    ]
    return Records(sorted(found, key=lambda each: each.start_ms), "segments")


def _offset(place: StreamsPlace, why: str) -> tuple[int | None, str]:
    """Return how far of the changelog is in a store, or why that is not known.

    ``why`` is so if there is no checkpoint file.
    """
    for name in (_CHECKPOINT, f"{_CHECKPOINT}_{place.store}"):
        path = place.task_folder / name
        if path.exists() and not path.is_file():
            why = f"what should be the checkpoint file is none: {name}"
            continue
        try:
            told = read_checkpoint(path.read_bytes())
        except OSError:
            continue
        except FormatError as error:
            why = error.message
            continue
        why = "the task's checkpoint does not name its changelog"
        for offset in offsets_of(place, told, of_all=place.is_global):
            return offset, "the checkpoint names it without an offset"
    return None, why


def is_replica_level(folder: Path) -> bool:
    """Return whether a folder is ``<replica>/<window in ms>``."""
    return _is_length(folder.name) and (folder.parent / FILE).is_file()


def is_replica_segment(folder: Path) -> bool:
    """Return whether a folder is a segment of a level: one that was set aside is none."""
    is_named = segment_start_ms(folder.parent.name, folder.name) is not None
    return is_named and is_replica_level(folder.parent)


def replica_levels(replica: Path) -> Iterator[FoundStore]:
    """Yield the levels of a replica, the shortest windows first."""
    levels = (each for each in replica.iterdir() if _is_length(each.name) and each.is_dir())
    yield from map(replica_level, sorted(levels, key=lambda each: int(each.name)))


def replica_level(level: Path, only: Path | None = None) -> FoundStore:
    """Return a level of a replica as a store, or the one segment of it that is asked for."""
    folders = sorted(level.iterdir()) if only is None else [only]
    window_ms = int(level.name)
    starts = {each: segment_start_ms(level.name, each.name) for each in folders}
    segments = {each: start_ms for each, start_ms in starts.items() if start_ms is not None}
    return FoundStore(
        str(only or level),
        "kstoolkit",
        level.parent.name,
        length_label(window_ms),
        kind="window",
        confidence=1.0,
        reasons=("a level of a replica",),
        segments=_segments(segments, lambda start_ms: segment_span_ms(window_ms, start_ms).stop),
        **on_disk(segments).figures(),
    )


def _is_length(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdigit()  # sessions are named by minus a gap
