"""Find every store under a folder: whose it is, what for, how large, and in which state."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import groupby, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from kstoolkit.errors import InputError
from kstoolkit.formats.streams.kinds import STREAMS_FAMILIES
from kstoolkit.stores.discovery.foundstore import FoundStore, FoundStores
from kstoolkit.stores.discovery.locks import Locks
from kstoolkit.stores.discovery.looking import looked_into
from kstoolkit.stores.discovery.ondisk import on_disk
from kstoolkit.stores.discovery.replicalevels import (
    is_replica_level,
    is_replica_segment,
    replica_level,
    replica_levels,
)
from kstoolkit.stores.discovery.segmentnames import are_segments, real_path
from kstoolkit.stores.discovery.streamsplace import StreamsPlace, streams_place
from kstoolkit.stores.discovery.streamsstore import streams_store
from kstoolkit.stores.discovery.walking import Layout, Walk
from kstoolkit.stores.spark.checkpoint import Checkpoint, checkpoint_of
from kstoolkit.stores.spark.finding import spark_stores

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator


_NO_PLACE = "its place is not one that an engine would choose: look=True looks at its rows"
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
    walk = Walk() if is_stopped is None else Walk(is_stopped)
    with Locks() as locks:
        # The one at which the walk ends may lack some of its segments: it is left out.
        found = takewhile(lambda _: not walk.is_stopped(), _found(walk, root))
        stores = [_with_lock(each, locks) for each in _counted_aloud(found, " stores", progress)]
    if look:
        told = _counted_aloud(stores, " stores opened", progress)
        stores = [each if walk.is_stopped() else looked_into(each) for each in told]
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


def _found(walk: Walk, root: Path) -> Iterator[FoundStore]:
    try:
        part = _part_of_a_whole(root)
    except OSError as error:
        walk.unreadable[str(root)] = error.strerror or str(error)
        return
    if part is not None:
        yield from part
        return
    places = ((folder, layout, _place(folder, layout)) for folder, layout in walk.below(root))
    for _, group in groupby(places, key=_same_store):
        together = list(group)
        streams = [(folder, place) for folder, _, place in together if place is not None]
        here = together[0][0]
        if _are_of_streams([place for _, place in streams]):
            yield streams_store(streams, root)
        elif together[0][1] is Layout.REPLICA:
            yield from _readable(replica_levels(here), here, walk)
        elif together[0][1] is Layout.SPARK:
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


def _readable(found: Iterator[FoundStore], folder: Path, walk: Walk) -> Iterator[FoundStore]:
    """Yield what is found in a folder, up to what can't be read, which is noted."""
    try:
        yield from found
    except OSError as error:
        walk.unreadable[str(error.filename or folder)] = error.strerror or str(error)


def _place(folder: Path, layout: Layout) -> StreamsPlace | None:
    return streams_place(folder) if layout is Layout.ROCKSDB else None


def _same_store(found: tuple[Path, Layout, StreamsPlace | None]) -> tuple[Path, str | None]:
    folder, _, place = found
    return (folder, None) if place is None else (place.folder, place.store)


def _plain(folder: Path) -> FoundStore:
    """Return a store of which no place says whose it is; its column families may."""
    held = on_disk([folder])
    counted = held.counted()
    return FoundStore(
        str(folder),
        "kafka-streams" if STREAMS_FAMILIES & {*held.column_families} else "rocksdb",
        None,
        folder.name,
        column_families=held.column_families,
        size_bytes=held.size_bytes,
        disk_bytes=held.disk_bytes,
        wal_bytes=held.wal_bytes,
        num_entries=counted.num_entries,
        num_deletions=counted.num_deletions,
        estimated_keys=counted.estimated_keys,
        format_versions=held.format_versions,
        unknown=counted.unknown | {"kind": _NO_PLACE},
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
    if True in told:
        return replace(found, is_locked=True)
    if None in told:
        return replace(found, unknown=found.unknown | {"is_locked": "the system does not tell"})
    return replace(found, is_locked=False)
