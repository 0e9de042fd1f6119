"""Why a store does not shrink, asked of an open store or of a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.discovery.segmentnames import real_path
from kstoolkit.stores.growth.checkpointuse import checkpoint_use
from kstoolkit.stores.growth.keyfields import key_fields
from kstoolkit.stores.growth.measuring import measured_growth
from kstoolkit.stores.rows.opening import OpenedStore, open_store
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.spark.sparkstore import SparkStore

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from kstoolkit.replica.records import Moment
    from kstoolkit.stores.discovery.foundstore import FoundStore
    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.growth.keyfields import KeyFields
    from kstoolkit.units import Duration


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
        How long the prefixes of keys are that rows are summed up by; None takes the greatest
        length of which there are few.
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
    return measured_growth(
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
        message = (
            f"Only keys of Spark's state have fields, as {field!r}; {store.source.name} is none."
        )
        raise ConfigurationError(message, hint="Leave it out: keys are summed up whole.")
    if by is None and store.read_as.key_serde is not None:
        return None
    told = store.read_as.column_family
    mine = [each for each in store.families.values() if not each.is_internal]
    if told is not None:
        store.family(told)  # which raises, if there is none
        mine = [store.families[told]]
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
