r"""What the place of a folder says of a Kafka Streams store.

::

    <state.dir>/<application.id>/
        global/rocksdb/<store>                              a global store
        <sub-topology>_<partition>/rocksdb/<store>          a store of a task
        <sub-topology>_<partition>/<store>/<store>.<ms>     a segment of one
        __<topology>__/<sub-topology>_<partition>/…         the same of a named topology
    <anywhere>/<store>.<ms>                                 a segment of a copy

(``StateDirectory`` of ``org.apache.kafka.streams.processor.internals``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kstoolkit.stores.discovery.segmentnames import real_path, segment_name

if TYPE_CHECKING:
    from pathlib import Path


_TASK = re.compile(r"(\d+)_(\d+)")
_TOPOLOGY = re.compile(r"__(.+)__")
_GLOBAL = "global"
_WHOLE = "rocksdb"


@dataclass(frozen=True, slots=True)
class StreamsPlace:
    """Where in a state directory a folder lies.

    Parameters
    ----------
    folder
        That of the store: the one that holds the segments, if it has such.
    task_folder
        That of the task, or the one of global stores.
    application
        The application's id; None for segments that lie by themselves, as in a copy.
    store
        The store's name.
    topology
        The topology's name, if it has one.
    subtopology, partition
        The task; None for a global store.
    segment_start_ms
        Where the segment that lies here begins, epoch ms UTC; None if the whole store does.
    is_by_name_alone
        Whether only the segment's own name says so: the folder that it lies in is called otherwise.
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

    Parameters
    ----------
    folder
        An absolute path; if it is a link, the place is that which it leads to.

    Examples
    --------
    >>> from pathlib import Path
    >>> place = streams_place(Path("/var/lib/app/1_7/counts/counts.1700002800000"))
    >>> place.application, place.store, place.partition, place.segment_start_ms
    ('app', 'counts', 7, 1700002800000)
    >>> streams_place(Path("/var/lib/app/global/rocksdb/config")).is_global
    True
    """
    real = real_path(folder)
    place = _place(real)
    if place is None or real == folder:
        return place
    # Whoever asks knows the store by the path that they gave.
    return replace(place, folder=folder if place.segment_start_ms is None else folder.parent)


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
        parent,
        parent,
        None,
        named.store,
        segment_start_ms=named.start_ms,
        is_by_name_alone=True,
    )


def _of_task(task: Path, folder: Path, store: str, start_ms: int | None) -> StreamsPlace | None:
    match = _TASK.fullmatch(task.name)
    if match is None and task.name != _GLOBAL:
        # The names of segments are Kafka Streams' own, wherever somebody copied them to.
        return (
            None
            if start_ms is None
            else StreamsPlace(folder, task, None, store, segment_start_ms=start_ms)
        )
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
