"""A store whose rows can be read, in one RocksDB or in a folder of segments."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Self

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.evidence import MOST_ROWS
from kstoolkit.formats.streams.kinds import OFFSETS, live_family
from kstoolkit.formats.streams.recognising import Recognised, recognise
from kstoolkit.formats.streams.segments import segment_interval_ms, segment_start_ms
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.stores.rows.streamsource import Part, StreamSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kstoolkit.stores.rows.readable import ReadAs
    from kstoolkit.stores.rows.rowview import RowSource

__all__ = ["SegmentedStore", "StateStore", "recognised_as"]


class StateStore(Store, HasRows):
    """A store in one RocksDB: its rows, and all that RocksDB tells of it.

    Made by :func:`kstoolkit.open_store`, closed by ``with``.
    """

    @property
    def name(self) -> str:
        """What it is called: the name of its folder, without a segment's start."""
        return self.path.name if self._segment_start_ms is None else self.path.parent.name

    @cached_property
    def recognised(self) -> Recognised:
        """What kind of store it is, how sure that is, and why."""
        return recognised_as(self, self.read_as.kind, start_ms=self._segment_start_ms)

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
            [Part(self)],
            window_size_ms=self.read_as.window_size_ms,
            family=self.read_as.column_family,
        )

    @property
    def _segment_start_ms(self) -> int | None:
        folder = self.path.absolute()
        return segment_start_ms(folder.parent.name, folder.name)


class SegmentedStore(HasRows):
    """A store in segments, each of which is a RocksDB of its own.

    Made by :func:`kstoolkit.open_store`, closed by ``with``.

    Parameters
    ----------
    path
        The folder that holds the segments; an attribute too.
    segments
        The segments, each with where it begins; closed with this store.
    read_as
        How to read them.
    """

    def __init__(self, path: Path, segments: Sequence[tuple[int, Store]], read_as: ReadAs) -> None:
        self.path, self.read_as = path, read_as
        self._segments = dict(sorted(segments, key=lambda each: each[0]))

    @property
    def name(self) -> str:
        """What it is called."""
        return self.path.name

    @property
    def segments(self) -> dict[int, Store]:
        """The segments by where they begin, epoch ms UTC: what RocksDB tells of each of them."""
        return dict(self._segments)

    @property
    def segment_interval_ms(self) -> int | None:
        """How long a segment is, as far as their starts tell: a multiple of it if they are few."""
        return segment_interval_ms(self._segments)

    @cached_property
    def recognised(self) -> Recognised:
        """What kind of store it is, how sure that is, and why; the largest segment tells."""
        start_ms, largest = max(self._segments.items(), key=lambda each: _entries(each[1]))
        interval_ms = self.segment_interval_ms
        return recognised_as(largest, self.read_as.kind, start_ms=start_ms, interval_ms=interval_ms)

    @property
    def kind(self) -> str:
        """What kind of store it is, as it was told or recognised."""
        return str(self.recognised.kind)

    @cached_property
    def source(self) -> StreamSource:
        """Where its rows lie."""
        interval_ms = self.segment_interval_ms
        parts = [
            Part(store, None if interval_ms is None else range(start_ms, start_ms + interval_ms))
            for start_ms, store in self._segments.items()
        ]
        return StreamSource(
            self.name,
            self.recognised.kind,
            parts,
            window_size_ms=self.read_as.window_size_ms,
            family=self.read_as.column_family,
        )

    def close(self) -> None:
        """Close all segments; a second time does nothing."""
        with ExitStack() as closing:
            for each in self._segments.values():
                closing.callback(each.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SegmentedStore({str(self.path)!r}, {len(self._segments)} segments)"


def recognised_as(
    store: Store,
    told: str | None,
    *,
    start_ms: int | None = None,
    interval_ms: int | None = None,
) -> Recognised:
    """Return what kind a RocksDB holds, by its column families, its place and its first rows.

    Parameters
    ----------
    store
        The store, or a segment of it.
    told
        What the user says that it is; None: nothing.
    start_ms, interval_ms
        Of a segment: where it begins, and how long it is, if that is known.

    Raises
    ------
    ConfigurationError
        If there is no kind as the user says.
    """
    families = [name for name in store.column_families if name != OFFSETS]
    rows = list(islice(store.iter_rows(cf=live_family(families)), MOST_ROWS))
    return recognise(
        families,
        ByteColumn.of([key for key, _ in rows]),
        ByteColumn.of([value for _, value in rows]),
        place="store" if start_ms is None else "segment",
        segment_start_ms=start_ms,
        segment_interval_ms=interval_ms,
        told=told,
    )


def _entries(store: Store) -> int:
    return sum(each.num_entries for each in store.ssts())
