"""Rows of a Kafka Streams store, from its one RocksDB or from all of its segments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn, RowColumns
from kstoolkit.formats.streams.kinds import DEFAULT, OFFSETS, STREAMS_FAMILIES, live_family
from kstoolkit.formats.streams.recognising import MOST_ROWS, Recognised, recognise
from kstoolkit.formats.streams.rows import split
from kstoolkit.rocksdb.files.ssts import known_total
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.discovery.places import BY_NAME_ALONE, by_name_alone, real_path, segment_name
from kstoolkit.stores.rows.asking import SESSIONS, rows_sought
from kstoolkit.stores.rows.readable import HasRows, LeftOut, say_damage
from kstoolkit.stores.rows.rows import bounded, row_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kstoolkit.formats.streams.kinds import Kind
    from kstoolkit.stores.discovery.places import SegmentName
    from kstoolkit.stores.rows.asking import Asked, Row
    from kstoolkit.stores.rows.readable import RowSource

_KNOWN = STREAMS_FAMILIES | {DEFAULT}


@dataclass(frozen=True, slots=True)
class StorePart:
    """A RocksDB that holds a store, or a segment of it.

    ``opened`` returns it, open, or None if it is gone; ``readable`` yields rows of it, up to where
    they are damaged. ``span_ms`` is when its windows begin, or its sessions end, epoch ms UTC; None
    if that is not known.
    """

    opened: Callable[[], Store | None]
    readable: Callable[[Iterator[Row]], Iterator[Row]]
    span_ms: range | None = None


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Rows of a Kafka Streams store, which lies in ``parts``, the earliest segment first.

    How long its windows are, it doesn't tell itself; None leaves their ends unknown. Without a
    column ``family``, those are read that Kafka Streams keeps rows in.
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
        return known_total(
            store.summary(family).estimated_rows
            for store in opened
            if store is not None
            for family in self._families_of(store)
        )

    def _may_hold(self, part: StorePart, asked: Asked) -> bool:
        span, (since, until) = part.span_ms, asked.starts_ms
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
            if family in _KNOWN:
                rows = rows_sought(store, family, self.kind, asked, part.span_ms)
            else:
                rows = store.iter_rows(cf=family, prefix=asked.key or asked.prefix or b"")
            if newer:  # an upgrade left rows in an old family, of which the newer ones win
                rows = (
                    row for row in rows if all(store.get(row[0], cf=each) is None for each in newer)
                )
            for keys, values in row_batches(part.readable(rows)):
                yield from bounded(self._taken_apart(family, keys, values))
            newer.append(family)

    def _taken_apart(self, family: str, keys: ByteColumn, values: ByteColumn) -> RowColumns:
        if family not in _KNOWN:  # somebody else's, or the offsets
            return RowColumns.whole(keys, values)
        return split(self.kind, keys, values, window_size_ms=self.window_size_ms, family=family)


_FITS = 0.85
"""How sure it is that rows are a segment's which have such times; others are at most half so."""


class StateStore(Store, HasRows):
    """A store in one RocksDB: its rows, and all that RocksDB tells of it.

    Made by :func:`kstoolkit.open_store`, closed by ``with``. Rows of a damaged one are shown as
    far as they can be read, with a warning.
    """

    _said = ""

    @property
    def name(self) -> str:
        """What it is called: the name of its folder, without a segment's start."""
        named = self._found[1]
        return real_path(self.path).name if named is None else named.store

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What of it is damaged, as far as it was read, and not in its rows."""
        return () if self.damage is None else (LeftOut(self.path, self.damage),)

    def say_damage(self) -> None:
        """Warn of what is damaged; once, unless more has come to light."""
        self._said = say_damage(self.path, self.damage, self._said)

    def close(self) -> None:
        """Close the store, and remove what was made to read it; a second time does nothing.

        If it was read in part, and something of that was damaged, that is warned of.
        """
        try:
            self.say_damage()
        finally:
            super().close()

    @property
    def recognised(self) -> Recognised:
        """What kind of store it is, how sure that is, and why."""
        return self._found[0]

    @property
    def kind(self) -> str:
        """What kind of store it is, as it was told or recognised."""
        return str(self.recognised.kind)

    @cached_property
    def source(self) -> RowSource:
        """Where its rows lie."""
        return StreamSource(
            self.name,
            self.recognised.kind,
            [StorePart(lambda: self, self._as_far_as_readable)],
            window_size_ms=self.read_as.window_size_ms,
            family=self.read_as.column_family,
        )

    @cached_property
    def _found(self) -> tuple[Recognised, SegmentName | None]:
        return recognised_at(self, real_path(self.path), self.read_as.kind)

    def _as_far_as_readable(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield rows as far as they can be read; what is damaged is said at their end."""
        try:
            yield from rows
        except FormatError as error:
            self.pass_over(error)
        self.say_damage()


def recognised_at(
    store: Store, folder: Path, told: str | None
) -> tuple[Recognised, SegmentName | None]:
    """Return what kind a RocksDB holds, and of which store it is a segment; None if of none.

    The folder is without links: its name may be that of a segment. If nothing but that says so, its
    rows have to fit. What was ``told`` is right, unless it names no kind.
    """
    named = segment_name(folder)
    if named is None:
        return recognised_as(store, told), None
    found = recognised_as(store, told, start_ms=named.start_ms)
    if named.is_in_its_store:
        return found, named
    # A column family alone leaves no doubt of itself, but none either of its rows' times.
    if told is None and found.confidence < _FITS:
        return recognised_as(store, told), None
    why = by_name_alone(named.store, folder.parent.name)
    return doubted(found, why), named


def doubted(found: Recognised, why: str) -> Recognised:
    """Return what was recognised, less sure, as only the segments' own names say what they are."""
    share = 1 if found.confidence == 1 else BY_NAME_ALONE  # it was told, or recognised
    confidence = round(found.confidence * share, 3)
    return replace(found, confidence=confidence, reasons=(*found.reasons, why))


def recognised_as(
    store: Store, told: str | None, *, start_ms: int | None = None, interval_ms: int | None = None
) -> Recognised:
    """Return what kind a RocksDB holds, by its column families, place, first rows, and name.

    Its name is that of its folder, or of the store that the folder is a segment of; ``start_ms``
    and ``interval_ms`` are that segment's. What was ``told`` is right, unless it names no kind.
    """
    families = [name for name in store.column_families if name != OFFSETS]
    rows = islice(store.iter_rows(cf=live_family(families)), MOST_ROWS)
    nothing = ByteColumn.of([])
    keys, values = next(row_batches(rows), (nothing, nothing))  # fewer, if values are large
    folder = real_path(store.path)
    named = None if start_ms is None else segment_name(folder)
    return recognise(
        families,
        keys,
        values,
        place="store" if start_ms is None else "segment",
        segment_start_ms=start_ms,
        segment_interval_ms=interval_ms,
        store=folder.name if named is None else named.store,
        told=told,
    )
