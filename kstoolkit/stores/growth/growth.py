"""Who takes a store's room, and what is past its time: asked of an open store, or of a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from kstoolkit.errors import ConfigurationError
from kstoolkit.moments import moment_ms
from kstoolkit.records import Records
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.discovery.places import real_path
from kstoolkit.stores.growth.fields import FieldTally, key_fields
from kstoolkit.stores.growth.files import StoreFiles, checkpoint_use, deletions_of
from kstoolkit.stores.growth.horizon import (
    ages_of,
    expired_of,
    fields_of,
    horizon_of,
    keys_of,
    num_windows,
    prefixes_of,
    segments_of,
    versions_of,
    why_no_ages,
    windows_of,
)
from kstoolkit.stores.growth.tallies import SegmentTally, Tallies
from kstoolkit.stores.growth.verdict import Growth
from kstoolkit.stores.opening import OpenedStore, open_store
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.spark.sparkstore import SparkStore
from kstoolkit.units import check_whole, parse_duration

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from kstoolkit.moments import Moment
    from kstoolkit.stores.discovery.found import FoundSegment, FoundStore
    from kstoolkit.stores.growth.fields import KeyFields
    from kstoolkit.stores.growth.records import CheckpointUse
    from kstoolkit.stores.rows.readable import RowSource
    from kstoolkit.units import Duration


def _measured_growth(
    store: HasRows | RowSource,
    *,
    found: FoundStore | None = None,
    opened: Iterable[Store] = (),
    retention: Duration | None = None,
    now: Moment | None = None,
    checkpoint: CheckpointUse | None = None,
    prefix_bytes: int | None = None,
    fields: KeyFields | None = None,
    top: int = 10,
) -> Growth:
    """Return what :func:`growth` does, of a store, or of where its rows lie.

    ``found`` is what its place says of it: its kind, segments and size. ``opened`` are its
    RocksDBs, one or one a segment, each looked at before the next is asked for; they tell of
    deletions. ``fields`` of Spark's keys are summed up by; without, keys are whole.
    """
    for name, value in {"top": top, "prefix_bytes": prefix_bytes}.items():
        if value is not None:
            check_whole(name, value, least=1, hint="Leave it out for a value that fits most.")
    source = cast("RowSource", getattr(store, "source", store))
    segments: Records[FoundSegment] = Records((), "segments") if found is None else found.segments
    now_ms = None if now is None else moment_ms(now)
    retention_ms = None if retention is None else parse_duration(retention)
    cut_ms = None if checkpoint is None else checkpoint.cut_ms
    starts_ms = np.array([each.start_ms for each in segments], dtype=np.int64)
    tallies = Tallies(
        None if found is None else found.engine,
        None if found is None else found.kind,
        SegmentTally(starts_ms),
        watermark_ms=cut_ms,
        prefix_bytes=prefix_bytes,
        fields=None if fields is None else FieldTally(fields),
    )
    for rows in source.read(Asked()):
        tallies.add(rows)
    horizon = horizon_of(tallies, retention_ms=retention_ms, now_ms=now_ms, checkpoint=checkpoint)
    files = [StoreFiles.of(each) for each in opened]
    uses = segments_of(tallies, horizon, segments, {each.path: each for each in files})
    return Growth(
        store=source.name,
        engine=tallies.engine,
        kind=tallies.kind,
        clock=None if tallies.clock is None else str(tallies.clock),
        horizon=horizon,
        expired=expired_of(tallies, horizon, uses, checkpoint),
        deletions=deletions_of(files, tallies.num_on_disk),
        versions=versions_of(tallies),
        segments=uses,
        windows=windows_of(tallies, horizon, top),
        prefixes=prefixes_of(tallies, top),
        keys=keys_of(tallies, top, getattr(store, "key_serde", None)),
        ages=ages_of(tallies, horizon, checkpoint),
        by=() if fields is None else fields.by,
        fields=fields_of(tallies, top),
        checkpoint=checkpoint,
        # Asked once the rows were read: only then some of it shows to be damaged.
        left_out=tuple(map(str, getattr(store, "left_out", ()))),
        num_rows=tallies.num_rows,
        data_bytes=tallies.data_bytes,
        num_untimed_rows=tallies.num_untimed,
        num_undecoded_rows=tallies.num_torn,
        num_keys=tallies.keys.num_keys,
        num_prefixes=tallies.prefixes.num_keys,
        num_windows=num_windows(tallies),
        num_without_fields=0 if tallies.fields is None else tallies.fields.num_without,
        size_bytes=None if found is None else found.size_bytes,
        disk_bytes=None if found is None else found.disk_bytes,
        unknown=_unknown(tallies, found, why_no_ages(tallies, horizon, checkpoint)),
    )


def _unknown(tallies: Tallies, found: FoundStore | None, why_no_ages: str | None) -> dict[str, str]:
    too_many = "there are more keys than are kept in mind"
    counted = {"num_keys": tallies.keys, "num_prefixes": tallies.prefixes}
    unknown = {name: too_many for name, each in counted.items() if each.num_keys is None}
    if num_windows(tallies) is None:
        no_windows = "its rows have no windows, or sessions in their place"
        unknown["num_windows"] = no_windows if tallies.clock else "there are no rows"
    if found is None:
        not_found = "only the rows were handed over, not where the store lies"
        unknown |= dict.fromkeys(("size_bytes", "disk_bytes"), not_found)
    return unknown | ({} if why_no_ages is None else {"ages": why_no_ages})


def growth(
    store: HasRows | str | os.PathLike[str],
    *,
    retention: Duration | None = None,
    now: Moment | None = None,
    prefix_bytes: int | None = None,
    by: str | Sequence[str] | None = None,
    top: int = 10,
) -> Growth:
    """Return who takes a store's room, what is past its time, and why the store does not shrink.

    All rows are read once, in memory that does not grow with them.

    Parameters
    ----------
    store
        What :func:`kstoolkit.open_store` returned, or the folder that it would take; or a changelog
        topic that :func:`kstoolkit.open_topic` read, of which only the rows tell.
    retention
        How long the store keeps rows; None infers it from the segments of a Kafka Streams store.
    now
        The moment to count back from; None is stream time, as far as the store shows it.
    prefix_bytes
        Length of key prefixes to sum rows by; None: the greatest of which there are few.
    by
        Which field of the keys of Spark's state to sum up by, as ``"user"``; of several, together.
        None takes all that every key has beside its window: of ``transformWithState`` the grouping
        key, of a join what it joins by; and each field alone, too.
    top
        How many keys, prefixes and windows to name.

    Raises
    ------
    ConfigurationError
        If ``top`` or ``prefix_bytes`` is below 1, or a duration or a moment is none; or if keys
        have no field ``by``.
    KstoolkitError
        If there is no store, or it can't be read.

    Examples
    --------
    >>> import tempfile
    >>> from rocksdict import Options, Rdict
    >>> folder = tempfile.mkdtemp()
    >>> written = Rdict(folder, Options(raw_mode=True))
    >>> for user in (b"anna", b"bo"):
    ...     written[user] = user * 50
    >>> written.close()
    >>> growth(folder).keys[0].key
    'anna'
    """
    if not isinstance(store, HasRows):
        with open_store(store) as opened:
            return growth(
                opened, retention=retention, now=now, prefix_bytes=prefix_bytes, by=by, top=top
            )
    return _measured_growth(
        store,
        found=_found(store) if isinstance(store, OpenedStore) else None,
        opened=_rocksdbs(store),
        retention=retention,
        now=now,
        checkpoint=checkpoint_use(store) if isinstance(store, SparkStore) else None,
        prefix_bytes=prefix_bytes,
        fields=_fields(store, by),
        top=top,
    )


def _fields(store: HasRows, by: str | Sequence[str] | None) -> KeyFields | None:
    """Return what to sum up by; None: by whole keys, as they are, or as somebody says."""
    if not isinstance(store, SparkStore):
        if by is None:
            return None
        field = by[0] if by and isinstance(by, list | tuple) else by
        name = store.source.name
        message = f"Only keys of Spark's state have fields, as {field!r}; {name} is none."
        raise ConfigurationError(message, hint="Leave it out: keys are summed up whole.")
    if by is None and store.read_as.key_serde is not None:
        return None
    mine = store.source.wanted
    # One of a join's stores, opened alone, has no families: its own name says what is in it.
    alone = [replace(each, name=store.name) if each.number is None else each for each in mine]
    return key_fields(alone, by)


def _found(store: OpenedStore) -> FoundStore | None:
    """Return what the store's place says of it, with the kind that its rows tell."""
    if isinstance(store, SparkStore):
        return _whole(store)
    real = real_path(store.path)
    for each in discover(store.path):
        is_segmented = isinstance(store, SegmentedStore) and each.store == store.name
        if is_segmented or real_path(each.path) == real:
            return replace(each, kind=store.kind)
    return None


def _whole(store: SparkStore) -> FoundStore | None:
    """Return all stores and partitions of an operator that are read, as one."""
    place = store.place
    folders = {place.operator.folder(at, name) for at in place.partitions for name in place.stores}
    parts = [each for each in discover(store.path) if Path(each.path) in folders]
    if not parts:
        return None
    return replace(
        parts[0],
        path=str(store.path),
        store=store.name,
        partition=place.partition,
        kind=store.kind,
        size_bytes=sum(each.size_bytes for each in parts),
        disk_bytes=sum(each.disk_bytes for each in parts),
    )


def _rocksdbs(store: HasRows) -> Iterable[Store]:
    if isinstance(store, SegmentedStore):
        return (segment for _, segment in store.segments.all_there())
    return [store] if isinstance(store, Store) else []
