"""Rows of a Kafka Streams store, from its one RocksDB or from all of its segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kstoolkit.formats.columns import RowColumns
from kstoolkit.formats.streams.kinds import DEFAULT, STREAMS_FAMILIES, live_family
from kstoolkit.formats.streams.rows import split
from kstoolkit.stores.rows.batching import bounded, row_batches
from kstoolkit.stores.rows.seeking import SESSIONS, rows_sought

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.formats.columns import ByteColumn
    from kstoolkit.formats.streams.kinds import Kind
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.rows.asking import Asked


_KNOWN = STREAMS_FAMILIES | {DEFAULT}


class StorePart(Protocol):
    """A RocksDB that holds a store, or a segment of it."""

    @property
    def span_ms(self) -> range | None:
        """When its windows begin, or its sessions end, epoch ms UTC; None if that is not known."""
        ...

    def opened(self) -> Store | None:
        """Return it, open; None if it is gone."""
        ...

    def readable(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows of it, up to where they are damaged, if others come after them."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """A RocksDB that holds a store, or a segment of it.

    ``span_ms`` is the time that its windows begin in, or its sessions end in, epoch ms UTC; None if
    it is not a segment, or if it is not known how long the segments are.
    """

    store: Store
    span_ms: range | None = None

    def opened(self) -> Store:
        """Return the RocksDB."""
        return self.store

    def readable(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Return rows as they are: damage among them is raised."""
        return rows


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
    parts: Sequence[StorePart]
    window_size_ms: int | None = None
    family: str | None = None

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows in parts of some thousands: at least those that are asked for."""
        for part in self.parts:
            store = part.opened() if self._may_hold(part, asked) else None
            if store is not None:
                yield from self._of_part(part, store, asked)

    def estimated_rows(self) -> int | None:
        """Return about how many rows there are on disk, by RocksDB's estimates; None without."""
        opened = (part.opened() for part in self.parts)
        told = [
            store.summary(family).estimated_rows
            for store in opened
            if store is not None
            for family in self._families_of(store)
        ]
        return None if None in told else sum(each or 0 for each in told)

    def _may_hold(self, part: StorePart, asked: Asked) -> bool:
        span = part.span_ms
        since, until = asked.since_ms, asked.until_ms
        if asked.window_start_ms is not None:
            since, until = asked.window_start_ms, asked.window_start_ms + 1
        if span is None or (since is not None and span.stop <= since):
            return span is None
        return until is None or self.kind in SESSIONS or span.start < until

    def _families_of(self, store: Store) -> list[str]:
        """Return the column families that rows lie in, the one that they are written to first."""
        if self.family is not None:
            return [self.family]
        live = live_family(store.column_families)
        older = [each for each in store.column_families if each in _KNOWN and each != live]
        # An upgrade leads from default on: what is in neither is in none that is older still.
        return [live, *sorted(older, key=lambda each: each == DEFAULT)]

    def _of_part(self, part: StorePart, store: Store, asked: Asked) -> Iterator[RowColumns]:
        newer: list[str] = []
        for family in self._families_of(store):
            rows = self._rows(store, family, part.span_ms, asked)
            if newer:
                rows = _not_rewritten(rows, store, tuple(newer))
            for keys, values in row_batches(part.readable(rows)):
                yield from bounded(self._taken_apart(family, keys, values))
            newer.append(family)

    def _rows(
        self, store: Store, family: str, span: range | None, asked: Asked
    ) -> Iterator[tuple[bytes, bytes]]:
        if family in _KNOWN:
            return rows_sought(store, family, self.kind, asked, span)
        return store.iter_rows(cf=family, prefix=asked.key or asked.prefix or b"")

    def _taken_apart(self, family: str, keys: ByteColumn, values: ByteColumn) -> RowColumns:
        if family not in _KNOWN:  # somebody else's, or the offsets
            return RowColumns.whole(keys, values)
        return split(self.kind, keys, values, window_size_ms=self.window_size_ms, family=family)


def _not_rewritten(
    rows: Iterator[tuple[bytes, bytes]], store: Store, newer: tuple[str, ...]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows that an upgrade left in an old column family: newer ones win."""
    for key, value in rows:
        if all(store.get(key, cf=family) is None for family in newer):
            yield key, value
