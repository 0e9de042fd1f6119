"""Which stores are under a folder: whose each is, what for, how large, and in which state.

The folders are walked one after the other, and none of them is opened; unless asked for, a look
into a store's rows tells its kind where its place does not, and how it was left.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from kstoolkit.errors import InputError, KstoolkitError, Option, naming
from kstoolkit.formats.streams.kinds import OFFSETS, STREAMS_FAMILIES
from kstoolkit.formats.streams.places import read_offsets, segment_interval_ms
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.rocksdb.files.place import Locks
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.stores.discovery.found import FoundStore, on_disk
from kstoolkit.stores.discovery.places import (
    StreamsPlace,
    are_segments,
    by_name_alone,
    is_replica_level,
    is_replica_segment,
    offsets_of,
    real_path,
    replica_level,
    replica_levels,
    streams_place,
    streams_store,
    use_of_streams,
)
from kstoolkit.stores.rows.statestore import doubted, recognised_as, recognised_at
from kstoolkit.stores.spark.checkpoint import Checkpoint, checkpoint_of, spark_place, spark_stores
from kstoolkit.stores.spark.sparkstore import SparkStore
from kstoolkit.stores.views import StoreRecords, memory_in_all
from kstoolkit.units import format_bytes, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kstoolkit.formats.streams.recognising import Recognised
    from kstoolkit.rocksdb.memory.measured import MemoryParts
    from kstoolkit.rocksdb.memory.planning import MemoryPlan
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.discovery.found import FoundSegment
    from kstoolkit.stores.views import MemoryInAll
    from kstoolkit.units import Duration


class FoundStores(Records[FoundStore]):
    """The stores under a folder, and the folders that could not be looked into.

    Parameters
    ----------
    root
        Where was looked.
    unreadable
        The folders that could not be read, this one or below it, and why.
    """

    def __init__(self, rows: list[FoundStore], root: Path, unreadable: dict[str, str]) -> None:
        super().__init__(rows, "stores")
        self.root, self.unreadable = root, unreadable

    def __repr__(self) -> str:
        size = format_bytes(sum(each.size_bytes for each in self))
        hidden = len(self.unreadable)
        missed = f", {counted(hidden, 'folders')} could not be read" if hidden else ""
        return f"FoundStores({counted(len(self), 'stores')} in {str(self.root)!r}, {size}{missed})"

    def memory(
        self,
        *,
        profile: Profile | str | None = None,
        pid: int | None = None,
        iterators: int | None = None,
        retention: Duration | None = None,
    ) -> StoreRecords[MemoryInAll]:
        """Return what the writer of each store needs, all its partitions and segments together.

        ``total`` is what one process with all of them needs.

        Parameters
        ----------
        profile, pid, iterators
            As in :meth:`kstoolkit.rocksdb.store.Store.memory`, of each RocksDB.
        retention
            How long stores in segments keep rows: as many segments as that makes at most are
            counted, and not just those that are there.

        Raises
        ------
        NoStoreError
            If none was found.
        """
        keeps_ms = None if retention is None else parse_duration(retention)
        told = {"profile": profile, "pid": pid, "iterators": iterators}
        parts: dict[str, list[MemoryParts]] = {}
        lost: dict[str, dict[str, str]] = {}
        for found in self:
            name = self.name_of(found)
            for path, instances in _instances(found, keeps_ms).items():
                try:
                    parts.setdefault(name, []).extend(_memory(found, path, instances, told))
                except KstoolkitError as error:
                    lost.setdefault(name, {})[path] = error.message.rstrip(".")
        if not parts and not lost:
            message = f"No store lies in {self.root}."
            raise NoStoreError(message, hint="Give a state directory, or a checkpoint.")
        each = {n: memory_in_all(Path(n), parts.get(n, []), lost.get(n)) for n in {**parts, **lost}}
        return StoreRecords(self.root, each)

    def memory_plan(self, *, iterators: int | None = None) -> MemoryPlan:
        """Return the memory that one process with all of these stores needs."""
        total = self.memory(iterators=iterators).total
        if total.plan is None:
            message = f"What the stores in {self.root} need is unknown."
            raise NoStoreError(message, hint=total.unknown["formula_bytes"])
        return total.plan  # type: ignore[no-any-return] # of a MemoryInAll

    def name_of(self, found: FoundStore) -> str:
        """Return a store's name, with whose it is where several applications were found."""
        several = len({each.application for each in self}) > 1
        return f"{found.application}/{found.store}" if several else found.store


_LEAST_SEGMENT_MS = 60_000


def most_segments(retention_ms: int, interval_ms: int | None) -> int:
    """Return how many segments a store of Kafka Streams has at most at a time.

    They are half as long as rows are kept, and a minute at least, unless told otherwise: names of
    those that are there tell a multiple. Live are those of now, and back to where rows are kept
    from (``AbstractSegments``, ``Stores.persistentWindowStore``).

    >>> most_segments(3_600_000, None), most_segments(3_600_000, 600_000)
    (3, 7)
    """
    length_ms = max(retention_ms // 2, _LEAST_SEGMENT_MS)
    return -(-retention_ms // min(length_ms, interval_ms or length_ms)) + 1


def _instances(found: FoundStore, keeps_ms: int | None) -> dict[str, int]:
    """Return as how many each RocksDB of a store counts: the last stands for segments to come."""
    paths = [each.path for each in found.segments] or [found.path]
    more = 0
    if found.segments and keeps_ms is not None and found.engine == "kafka-streams":
        interval_ms = segment_interval_ms(each.start_ms for each in found.segments)
        more = max(most_segments(keeps_ms, interval_ms) - len(paths), 0)
    return dict.fromkeys(paths, 1) | {paths[-1]: 1 + more}


def _memory(
    found: FoundStore, path: str, instances: int, told: dict[str, Any]
) -> list[MemoryParts]:
    """Return what the writer of a RocksDB needs; of those in Spark's checkpoint, of all at once."""
    if found.engine != "spark":
        with open_store(path, partly=True) as store:
            store.engine_use = use_of_streams(store)
            return [store.memory(**told, instances=instances)]
    place = spark_place(real_path(path))
    if place is None:
        message = f"{path} is gone."
        raise NoStoreError(message)
    with SparkStore(place) as snapshots:
        return list(snapshots.memory(**told))


_REPLICA = "replica.json"
_CHECKPOINT = {"state", "offsets"}  # folders that every checkpoint of a stateful query of Spark has


class _Layout(StrEnum):
    """How a folder keeps state."""

    ROCKSDB = "one RocksDB store"
    REPLICA = "a replica of kstoolkit's"
    SPARK = "a checkpoint of Spark's"


@dataclass(slots=True)
class _FolderWalk:
    """A walk through the folders under a path; links to folders are not followed.

    Whether ``is_stopped`` is asked before each folder. The ``unreadable`` ones are kept, with why.
    """

    is_stopped: Callable[[], bool] = bool  # which is never so
    unreadable: dict[str, str] = field(default_factory=dict)

    def below(self, root: Path) -> Iterator[tuple[Path, _Layout]]:
        """Yield each folder that holds state, none below one, in order of names, depth first."""
        waiting = [root]
        while waiting and not self.is_stopped():
            here = waiting.pop()
            names, folders = self._inside(here)
            layout = _layout(names, folders)
            if layout is not None:
                yield here, layout
            else:
                waiting += [here / name for name in sorted(folders, reverse=True)]

    def _inside(self, folder: Path) -> tuple[set[str], set[str]]:
        """Return the names in a folder, and which of them are folders."""
        try:
            with os.scandir(folder) as entries:
                found = {each.name: each.is_dir(follow_symlinks=False) for each in entries}
        except (FileNotFoundError, NotADirectoryError):  # it was removed meanwhile
            return set(), set()
        except OSError as error:
            self.unreadable[str(folder)] = error.strerror or str(error)
            return set(), set()
        return set(found), {name for name, is_folder in found.items() if is_folder}


def _layout(names: set[str], folders: set[str]) -> _Layout | None:
    if _REPLICA in names:
        return _Layout.REPLICA
    if folders >= _CHECKPOINT:
        return _Layout.SPARK
    # One that has lost its CURRENT is damaged, and is to be told of all the same.
    is_rocksdb = any(each == "CURRENT" or each.startswith("MANIFEST-") for each in names - folders)
    return _Layout.ROCKSDB if is_rocksdb else None


_ENDINGS = {"closed": "cleanly", "open": "not cleanly", None: "not cleanly"}
_IS_OPEN = "a process has it open"
_NO_OFFSET = "it has no changelog, or its engine had not written one when it ended"


def _looked_into(found: FoundStore) -> FoundStore:
    """Return what was found with what a look into its rows tells.

    One known by its place, as a replica, is left as it is; what can't be opened returns with why.
    """
    if found.engine in {"kstoolkit", "spark"}:
        return found
    segment = max(found.segments, key=lambda each: each.size_bytes, default=None)
    try:
        path = Path(found.path if segment is None else segment.path)
        with open_store(path, partly=True) as store:
            return _with_kind(found, store, segment)
    except KstoolkitError as error:
        why = f"it can't be opened: {error.message}"
        return replace(found, unknown=found.unknown | {"kind": why, "closed": why})


def _with_kind(found: FoundStore, store: Store, segment: FoundSegment | None) -> FoundStore:
    guess = _recognised(found, store, segment)
    told = replace(
        found,
        kind=str(guess.kind),
        confidence=guess.confidence,
        reasons=guess.reasons,
        column_families=store.column_families,
        unknown=_without(found.unknown, "kind"),
    )
    if segment is None and found.wal_bytes:
        told = _with_wal(told, store)
    return _with_ending(told, store) if OFFSETS in store.column_families else told


def _recognised(found: FoundStore, store: Store, segment: FoundSegment | None) -> Recognised:
    if segment is None:
        return recognised_at(store, real_path(found.path), None)[0]
    interval_ms = segment_interval_ms(each.start_ms for each in found.segments)
    guess = recognised_as(store, None, start_ms=segment.start_ms, interval_ms=interval_ms)
    folder = real_path(segment.path).parent.name
    return guess if folder == found.store else doubted(guess, by_name_alone(found.store, folder))


def _with_wal(found: FoundStore, store: Store) -> FoundStore:
    """Return what was found with an estimate that counts what lies in its WAL alone, too."""
    told = [store.summary(each).estimated_rows for each in store.column_families if each != OFFSETS]
    if None in told:
        return found
    keys = sum(each or 0 for each in told)
    return replace(found, estimated_keys=keys, unknown=_without(found.unknown, "estimated_keys"))


def _with_ending(found: FoundStore, store: Store) -> FoundStore:
    """Return what was found with what its column family ``offsets`` says."""
    offsets, status = read_offsets(store.iter_rows(cf=OFFSETS))
    # Of its changelog, or of the one topic that it is kept from.
    mine = offsets_of(found, offsets, of_all=found.partition is None)
    told = mine or (list(offsets.values()) if len(offsets) == 1 else [])
    offset = told[0] if told else found.offset
    closed = None if found.is_locked else _ENDINGS[status]
    unknown = _without(found.unknown, "closed", "offset")
    unknown |= {"closed": _IS_OPEN} if closed is None else {}
    unknown |= {"offset": _NO_OFFSET} if offset is None else {}
    return replace(found, closed=closed, offset=offset, unknown=unknown)


def _without(unknown: dict[str, str], *names: str) -> dict[str, str]:
    return {name: why for name, why in unknown.items() if name not in names}


_NO_PLACE = naming(
    "its place is not one that an engine would choose: {look} looks at its rows",
    look=Option("look", "True"),
)
_STOPPED = "the search was ended before all of it was looked into"


def discover(
    path: str | os.PathLike[str],
    *,
    look: bool = False,
    progress: bool = False,
    is_stopped: Callable[[], bool] | None = None,
) -> FoundStores:
    """Return every store under a folder, in the order of their paths.

    State directories of Kafka Streams, checkpoints of Spark, replicas of kstoolkit's, and plain
    RocksDB are told apart by their places and files; nothing is opened, and nothing written.

    Parameters
    ----------
    path
        The folder, or one above it.
    look
        Whether to open each store for a look, through a shadow of it, where only its rows tell of
        what kind it is, or how it was left.
    progress
        Whether to show on stderr how many there are by now.
    is_stopped
        Says whether to end the search: asked before each folder and each store. What was found by
        then is returned, and ``unreadable`` names the folder, with why.

    Raises
    ------
    InputError
        If there is no such folder.

    Examples
    --------
    >>> import tempfile
    >>> discover(tempfile.mkdtemp())
    FoundStores(0 stores in '...', 0 B)
    """
    root = Path(path).absolute()
    if not root.is_dir():
        message = f"There is no folder {str(path)!r}."
        raise InputError(message, hint="Give a state directory, a checkpoint, or a store's folder.")
    walk = _FolderWalk(is_stopped or bool)
    with closing(Locks()) as locks:
        # The one at which the walk ends may lack some of its segments: it is left out.
        found = takewhile(lambda _: not walk.is_stopped(), _found(walk, root))
        stores = [_with_lock(each, locks) for each in _counted_aloud(found, " stores", progress)]
    if look:
        told = _counted_aloud(stores, " stores opened", progress)
        stores = [each if walk.is_stopped() else _looked_into(each) for each in told]
    if walk.is_stopped():
        walk.unreadable[str(root)] = _STOPPED
    return FoundStores(stores, root, walk.unreadable)


def _counted_aloud(
    stores: Iterable[FoundStore],
    unit: str,
    progress: bool,  # noqa: FBT001 - handed on
) -> Iterable[FoundStore]:
    """Return stores, counted on stderr as they come; a bar that isn't shown has a thread, too."""
    return tqdm(stores, unit=unit, file=sys.stderr) if progress else stores


def _found(walk: _FolderWalk, root: Path) -> Iterator[FoundStore]:
    try:
        part = _part_of_a_whole(root)
    except OSError as error:
        walk.unreadable[str(root)] = error.strerror or str(error)
        return
    if part is not None:
        yield from part
        return
    places = (
        (folder, layout, streams_place(folder) if layout is _Layout.ROCKSDB else None)
        for folder, layout in walk.below(root)
    )
    for _, group in groupby(places, key=_same_store):
        together = list(group)
        streams = [(folder, place) for folder, _, place in together if place is not None]
        here = together[0][0]
        if _are_of_streams([place for _, place in streams]):
            yield streams_store(streams, root)
        elif together[0][1] is _Layout.REPLICA:
            try:
                yield from replica_levels(here)
            except OSError as error:
                walk.unreadable[str(error.filename or here)] = error.strerror or str(error)
        elif together[0][1] is _Layout.SPARK:
            yield from spark_stores(Checkpoint(here), here)
        else:
            yield from (_plain(folder) for folder, _, _ in together)


def _are_of_streams(places: list[StreamsPlace]) -> bool:
    """Return whether places are Kafka Streams': a number in a name may be somebody else's."""
    if not places or not places[0].is_by_name_alone:
        return bool(places)
    starts_ms = (each.segment_start_ms for each in places)
    return are_segments(each for each in starts_ms if each is not None)


def _part_of_a_whole(path: Path) -> list[FoundStore] | None:
    """Return what a folder inside of a replica or a checkpoint holds; None if it is in neither."""
    root = real_path(path)
    if is_replica_level(root):
        return [replica_level(root)]
    if is_replica_segment(root):
        return [replica_level(root.parent, only=root)]
    inside = checkpoint_of(root)
    if inside is None or (root / "CURRENT").exists():
        return None
    return list(spark_stores(inside, root))


def _same_store(found: tuple[Path, _Layout, StreamsPlace | None]) -> tuple[Path, str | None]:
    folder, _, place = found
    return (folder, None) if place is None else (place.folder, place.store)


def _plain(folder: Path) -> FoundStore:
    """Return a store of which no place says whose it is; its column families may."""
    held = on_disk([folder])
    figures = held.figures()
    figures["unknown"]["kind"] = _NO_PLACE
    return FoundStore(
        str(folder),
        "kafka-streams" if STREAMS_FAMILIES & {*held.column_families} else "rocksdb",
        None,
        folder.name,
        **figures,
    )


def _with_lock(found: FoundStore, locks: Locks) -> FoundStore:
    if found.engine == "spark":
        unknown = {
            "is_locked": "Spark puts no lock on a checkpoint",
            "num_deletions": "only the SST files in its snapshots tell",
        }
        if found.num_entries is None:
            unknown["estimated_keys"] = found.unknown.get("num_entries", "its files do not tell")
        return replace(found, estimated_keys=found.num_entries, unknown=found.unknown | unknown)
    folders = [Path(each.path) for each in found.segments] or [Path(found.path)]
    told = [locks.is_locked(folder) for folder in folders]
    if None in told and True not in told:
        return replace(found, unknown=found.unknown | {"is_locked": "the system does not tell"})
    return replace(found, is_locked=True in told)
