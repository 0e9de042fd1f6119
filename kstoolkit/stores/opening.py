"""Open a store of any engine to look into it and read its rows, without touching it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.streams.kinds import DEFAULT, Kind, kinds_named
from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.files.finding import check_is_path
from kstoolkit.rocksdb.opening import opened_as
from kstoolkit.stores.discovery.places import (
    is_replica_level,
    is_replica_segment,
    real_path,
    use_of_streams,
)
from kstoolkit.stores.rows.counts import ReplicaLevel, ReplicaSegment
from kstoolkit.stores.rows.readable import ReadAs
from kstoolkit.stores.rows.segmentedstore import SegmentedStore, segment_folders
from kstoolkit.stores.rows.statestore import StateStore
from kstoolkit.stores.spark.checkpoint import spark_place
from kstoolkit.stores.spark.sparkstore import SparkStore
from kstoolkit.units import parse_duration
from kstoolkit.windows import length_label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from kstoolkit.stores.rows.readable import SerdeLike
    from kstoolkit.units import Duration

_LONGEST_MS = 253_402_300_799_999  # from 1970 to the end of the year 9999

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

    The store may be in use: neither its lock nor its writes are in the way. It shows the store of
    this moment, without what its writer holds in memory alone. Of a store in many segments, each is
    opened as its rows come, and shows how it was then. A segment that can't be read is left out,
    with a warning; of what is damaged, rows are shown as far as they can be read, with one too.

    Parameters
    ----------
    path
        The folder of a RocksDB, the one with a CURRENT file; the folder that holds the segments of
        a store, each of which is a RocksDB; that of a level of a replica; or, in a checkpoint of
        Spark's, that of a store's partition, ``state/<operator>/<partition>``, of all its
        partitions, ``state/<operator>/<store>``, or of an operator; the checkpoint itself, if it
        has only one. A link to a folder is as good.
    kind
        What kind of store it is, as ``"window"`` or ``"key-value"``; None recognises it.
    key_serde, value_serde
        How to read keys and values: the name of a serde, as ``"string"`` or ``"long"``, or a
        callable that is given the bytes; None guesses.
    window_size
        How long windows are, which Kafka Streams does not write down: without it ends are unknown.
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

    Warns
    -----
    LeftOutWarning
        If a part of the store is left out, as it is damaged or none of its segments.

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
    _check_names(kind=kind, column_family=column_family)
    if kind is not None:
        kinds_named(kind)
    read_as = ReadAs(kind, key_serde, value_serde, _size_ms(window_size), column_family)
    folder = _folder(path)
    told = {"kind": kind, "window_size": window_size}
    several = _opened_in_several(folder, read_as, scratch, told)
    if several is not None:
        return several
    real = real_path(folder)
    kind_of, there = (ReplicaSegment, real) if is_replica_segment(real) else (StateStore, folder)
    opened = opened_as(kind_of, there, scratch=scratch, other_folders=other_folders)
    opened.read_as, opened.engine_use = read_as, use_of_streams(opened)
    opened.say_damage()
    return opened


def open_several(path: str | PathLike[str]) -> SegmentedStore | ReplicaLevel | SparkStore | None:
    """Return a store that lies in several RocksDB, or may; None of a single one, or of none."""
    return _opened_in_several(_folder(path), ReadAs(), None, {})


def _opened_in_several(
    folder: Path, read_as: ReadAs, scratch: str | PathLike[str] | None, told: Mapping[str, object]
) -> SegmentedStore | ReplicaLevel | SparkStore | None:
    real = real_path(folder)  # the names that an engine gave are those there
    with translated(folder):
        place, is_level = spark_place(real), is_replica_level(real)
    if place is not None:
        _check_not_told(folder, told)
        return SparkStore(place, read_as=read_as, scratch=scratch)
    if is_level or is_replica_segment(real):
        _check_is_windows(folder, real if is_level else real.parent, read_as)
    if is_level:
        return ReplicaLevel(real, read_as)
    segments = segment_folders(folder)
    if segments is None:
        return None
    return SegmentedStore(folder, segments, read_as, scratch=scratch)


def _check_names(**names: object) -> None:
    for name, value in names.items():
        if not isinstance(value, str | None):
            message = f"{name}={value!r} is no text."
            raise ConfigurationError(message, hint="Give its name, or leave it out.")


def _size_ms(window_size: object) -> int | None:
    if window_size is None:
        return None
    if isinstance(window_size, bool) or not isinstance(window_size, str | int | timedelta):
        message = f"window_size={window_size!r} is no length of time."
        raise ConfigurationError(message, hint="Give text such as '1 minute', or whole ms.")
    size_ms = parse_duration(window_size)
    if size_ms > _LONGEST_MS:
        message = f"window_size={window_size!r} is longer than all of time until the year 10000."
        raise ConfigurationError(message, hint="Give the length of one window: '1 minute'.")
    return size_ms


def _folder(path: object) -> Path:
    try:
        folder = Path(path)  # type: ignore[arg-type] # what else it may be is said below
    except TypeError as error:
        message = f"{path!r} is no path."
        raise ConfigurationError(message, hint="Give the path of a store's folder.") from error
    check_is_path(folder)
    return folder


def _check_not_told(folder: Path, told: Mapping[str, object]) -> None:
    for name, value in told.items():
        if value is not None:
            message = f"{name}={value!r} is told of {folder}, where Spark's checkpoint tells it."
            raise ConfigurationError(message, hint="Leave it out.")


def _check_is_windows(folder: Path, level: Path, read_as: ReadAs) -> None:
    """Check that what is told of a replica's level is so: it tells all of it itself."""
    window_ms = int(level.name)
    wrong = None
    if read_as.kind is not None and Kind.WINDOW not in kinds_named(read_as.kind):
        wrong = f"kind={read_as.kind!r}"
    elif read_as.window_size_ms not in {None, window_ms}:
        wrong = f"window_size={length_label(read_as.window_size_ms or 0)!r}"
    elif read_as.column_family not in {None, DEFAULT}:
        wrong = f"column_family={read_as.column_family!r}"
    if wrong is not None:
        length = length_label(window_ms)
        message = f"{wrong} is told of {folder}, a level of a replica: windows of {length}."
        raise ConfigurationError(message, hint="Leave it out: the replica tells it.")
