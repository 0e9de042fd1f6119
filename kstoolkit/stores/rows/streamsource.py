"""Rows of a Kafka Streams store, from its one RocksDB or from all of its segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.rowcolumns import RowColumns
from kstoolkit.formats.streams.kinds import DEFAULT, STREAMS_FAMILIES, Kind, live_family
from kstoolkit.formats.streams.layouts import split
from kstoolkit.stores.rows.batching import row_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.rows.asking import Asked

__all__ = ["Part", "StreamSource"]

_ID_BYTES = 8
_KNOWN = STREAMS_FAMILIES | {DEFAULT}

_KEY_FIRST = {
    Kind.KEY_VALUE,
    Kind.TIMESTAMPED_KEY_VALUE,
    Kind.HEADERS_KEY_VALUE,
    Kind.WINDOW,
    Kind.TIMESTAMPED_WINDOW,
    Kind.HEADERS_WINDOW,
    Kind.SESSION,
    Kind.HEADERS_SESSION,
}
"""Kinds whose rows begin with the application's key, so that one key's stand beside each other."""

_SESSIONS = {
    Kind.SESSION,
    Kind.HEADERS_SESSION,
    Kind.TIME_ORDERED_SESSION,
    Kind.HEADERS_TIME_ORDERED_SESSION,
}


@dataclass(frozen=True, slots=True)
class Part:
    """A RocksDB that holds a store, or a segment of it.

    ``span_ms`` is the time that its windows begin in, or its sessions end in, epoch ms UTC; None if
    it is not a segment, or if it is not known how long the segments are.
    """

    store: Store
    span_ms: range | None = None


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Rows of a Kafka Streams store.

    Parameters
    ----------
    name
        The store's name.
    kind
        What kind of store it is.
    parts
        What it lies in, the earliest segment first.
    window_size_ms
        How long its windows are, which it doesn't tell itself; None leaves their ends unknown.
    family
        The one column family to read; None: those that Kafka Streams keeps rows in.
    """

    name: str
    kind: Kind
    parts: Sequence[Part]
    window_size_ms: int | None = None
    family: str | None = None

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows in parts of some thousands: at least those that are asked for."""
        for part in self.parts:
            if self._may_hold(part, asked):
                yield from self._of_part(part.store, asked)

    def _may_hold(self, part: Part, asked: Asked) -> bool:
        span = part.span_ms
        since, until = asked.since_ms, asked.until_ms
        if asked.window_start_ms is not None:
            since, until = asked.window_start_ms, asked.window_start_ms + 1
        if span is None or (since is not None and span.stop <= since):
            return span is None
        # A session lies where it ends, however long ago it began.
        return until is None or self.kind in _SESSIONS or span.start < until

    def _of_part(self, store: Store, asked: Asked) -> Iterator[RowColumns]:
        live = self.family or live_family(store.column_families)
        yield from self._of_family(store, live, asked)
        for older in store.column_families:
            if self.family is None and older != live and older in _KNOWN:
                yield from self._not_rewritten(store, older, live, asked)

    def _of_family(self, store: Store, family: str, asked: Asked) -> Iterator[RowColumns]:
        for keys, values in row_batches(self._rows(store, family, asked)):
            if family in _KNOWN:
                size_ms = self.window_size_ms
                yield split(self.kind, keys, values, window_size_ms=size_ms, family=family)
            else:  # somebody else's, or the offsets
                yield RowColumns.whole(keys, values)

    def _not_rewritten(
        self, store: Store, older: str, live: str, asked: Asked
    ) -> Iterator[RowColumns]:
        """Yield the rows that an upgrade left in the old column family: newer ones win."""
        for key, value in self._rows(store, older, asked):
            if store.get(key, cf=live) is None:
                cells = ByteColumn.of([key]), ByteColumn.of([value])
                yield split(self.kind, *cells, window_size_ms=self.window_size_ms, family=older)

    def _rows(self, store: Store, family: str, asked: Asked) -> Iterator[tuple[bytes, bytes]]:
        sought = asked.key if asked.key is not None else asked.prefix
        if sought and self.kind in _KEY_FIRST:
            return store.iter_rows(cf=family, prefix=sought)
        if sought and self.kind is Kind.VERSIONED:
            return _versions(store, family, sought)
        return store.iter_rows(cf=family)


def _versions(store: Store, family: str, sought: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of a key prefix from each of a versioned store's segments in turn.

    A row's key begins with its segment's number: from one segment the way leads to the next.
    """
    start: bytes | None = b""
    while start is not None:
        first = next(iter(store.iter_rows(cf=family, start=start)), None)
        if first is None:
            return
        segment = first[0][:_ID_BYTES]
        yield from store.iter_rows(cf=family, prefix=segment + sought)
        number = int.from_bytes(segment, "big") + 1
        start = number.to_bytes(_ID_BYTES, "big") if number < 1 << 8 * _ID_BYTES else None
