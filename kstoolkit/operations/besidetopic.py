"""What a store of Kafka Streams tells of its changelog topic: the kind, the partition, the age."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.stores.comparing.folders import Together
from kstoolkit.stores.discovery.places import real_path, streams_place
from kstoolkit.stores.rows.folded import FoldedRecords
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.rows.statestore import StateStore, StreamSource

if TYPE_CHECKING:
    from kstoolkit.stores.rows.readable import HasRows
    from kstoolkit.stores.rows.rows import RowSource


def kind_of(store: HasRows) -> str | None:
    """Return what kind of store of Kafka Streams it is; None if it is none.

    Examples
    --------
    >>> from kstoolkit.stores.comparing.folders import listed
    >>> kind_of(listed("counts", [])) is None
    True
    """
    return store.kind if isinstance(store, FoldedRecords) else _kind_in(store.source)


def partition_of(store: HasRows) -> int | None:
    """Return the partition of the task in whose folder a store lies; None if it lies in none.

    Examples
    --------
    >>> from kstoolkit.stores.comparing.folders import listed
    >>> partition_of(listed("counts", [])) is None
    True
    """
    if isinstance(store, SegmentedStore):
        folders = list(store.segments.folders.values())
    else:
        folders = [store.path] if isinstance(store, StateStore) else []
    places = [streams_place(real_path(folder)) for folder in folders[:1]]
    return next((place.partition for place in places if place is not None), None)


def begins_ms(store: HasRows) -> int | None:
    """Return from when on a store has all its windows: where its first segment begins.

    What a topic has of before is expired in the store. Of several partitions, it is the latest.

    Returns
    -------
    int or None
        Epoch ms UTC; None of a store without segments.

    Examples
    --------
    >>> from kstoolkit.stores.comparing.folders import listed
    >>> begins_ms(listed("counts", [])) is None
    True
    """
    source = store.source
    sources = source.sources if isinstance(source, Together) else [source]
    spans = [
        [part.span_ms.start for part in each.parts if part.span_ms is not None]
        for each in sources
        if isinstance(each, StreamSource)
    ]
    return max((min(starts) for starts in spans if starts), default=None)


def _kind_in(source: RowSource) -> str | None:
    """Return the kind of a store, or of all the partitions that are taken together."""
    if isinstance(source, StreamSource):
        return str(source.kind)
    if not isinstance(source, Together):
        return None
    kinds = [kind for each in source.sources if (kind := _kind_in(each)) is not None]
    return max(kinds, key=kinds.count, default=None)  # one without rows may look like another
