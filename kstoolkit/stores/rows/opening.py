"""Open a store of any engine to look into it and read its rows, without touching it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.streams.kinds import kinds_named
from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.files.finding import check_is_path
from kstoolkit.rocksdb.opening import open_store as open_rocksdb
from kstoolkit.stores.discovery.replicalevels import is_replica_level, is_replica_segment
from kstoolkit.stores.rows.readable import ReadAs
from kstoolkit.stores.rows.replicalevel import ReplicaLevel, ReplicaSegment
from kstoolkit.stores.rows.segmentedstore import SegmentedStore, segment_folders
from kstoolkit.stores.rows.statestore import StateStore
from kstoolkit.stores.spark.place import spark_place
from kstoolkit.stores.spark.sparkstore import SparkStore
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from kstoolkit.stores.rows.readable import SerdeLike
    from kstoolkit.units import Duration

__all__ = ["OpenedStore", "open_store"]

OpenedStore = StateStore | SegmentedStore | ReplicaLevel | SparkStore
"""A store whose rows can be read; each is closed by ``with``."""


def open_store(
    path: str | PathLike[str],
    *,
    kind: str | None = None,
    key_serde: SerdeLike | None = None,
    value_serde: SerdeLike | None = None,
    window_size: Duration | None = None,
    column_family: str | None = None,
    scratch: str | PathLike[str] | None = None,
    other_folders: Sequence[str | PathLike[str]] | None = None,
) -> OpenedStore:
    """Return a store that can be looked into; its own folder is left as it is.

    The store may be in use: neither its lock nor its writes are in the way. What it shows is how
    the store was at this moment, without what its writer holds in memory alone. Of a store in many
    segments, each is opened when its rows are come to, and shows how it was then.

    Parameters
    ----------
    path
        The folder of a RocksDB, the one with a CURRENT file; the folder that holds the segments of
        a store, each of which is a RocksDB; that of a level of a replica; or, in a checkpoint of
        Spark's, that of a store's partition, ``state/<operator>/<partition>``, or of an operator.
    kind
        What kind of store it is, as ``"window"`` or ``"key-value"``; None recognises it.
    key_serde, value_serde
        How to read keys and values: the name of a serde, as ``"string"`` or ``"long"``, or a
        callable that is given the bytes; None guesses.
    window_size
        How long the windows of a window store are, which Kafka Streams does not write down: without
        it their ends are unknown.
    column_family
        The one column family to read rows of; None takes those that Kafka Streams writes to, and
        ``default`` of a store that is not its; of Spark's, those of the user's variables.
    scratch, other_folders
        Where to make the folder that the store is read through, and where else it has files: see
        :func:`kstoolkit.rocksdb.opening.open_store`.

    Raises
    ------
    ConfigurationError
        If there is no such kind, ``window_size`` is no length of time, or something is told that
        this engine's stores tell themselves.
    KstoolkitError
        If there is no store, or it can't be opened: one of :mod:`kstoolkit.rocksdb.faults`.

    Examples
    --------
    >>> import tempfile
    >>> from rocksdict import Options, Rdict
    >>> folder = tempfile.mkdtemp()
    >>> written = Rdict(folder, Options(raw_mode=True))
    >>> written[b"anna"] = (3).to_bytes(8, "big")
    >>> written.close()
    >>> with open_store(folder) as store:
    ...     for row in store.rows():
    ...         print(row)
    'anna': 3
    """
    if kind is not None:
        kinds_named(kind)
    size_ms = None if window_size is None else parse_duration(window_size)
    read_as = ReadAs(kind, key_serde, value_serde, size_ms, column_family=column_family)
    folder = Path(path)
    check_is_path(folder)
    with translated(folder):
        place, is_level = spark_place(folder.absolute()), is_replica_level(folder.absolute())
    if place is not None:
        _check_not_told(folder, kind=kind, window_size=window_size)
        return SparkStore(place, read_as=read_as, scratch=scratch)
    if is_level:
        return ReplicaLevel(folder.absolute(), read_as)
    segments = segment_folders(folder)
    if segments:
        return SegmentedStore.open(folder, segments, read_as, scratch=scratch)
    into = ReplicaSegment if is_replica_segment(folder.absolute()) else StateStore
    opened = open_rocksdb(folder, scratch=scratch, other_folders=other_folders, into=into)
    opened.read_as = read_as
    return opened


def _check_not_told(folder: Path, **told: object) -> None:
    for name, value in told.items():
        if value is not None:
            message = f"{name}={value!r} is told of {folder}, where Spark's checkpoint tells it."
            raise ConfigurationError(message, hint="Leave it out.")
