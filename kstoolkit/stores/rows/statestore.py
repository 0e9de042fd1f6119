"""A store in one RocksDB, whose rows can be read."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.evidence import MOST_ROWS
from kstoolkit.formats.streams.kinds import OFFSETS, live_family
from kstoolkit.formats.streams.recognising import Recognised, recognise
from kstoolkit.formats.streams.segments import segment_start_ms
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.rows.batching import row_batches
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.stores.rows.streamsource import Part, StreamSource

if TYPE_CHECKING:
    from kstoolkit.stores.rows.rowview import RowSource

__all__ = ["StateStore", "recognised_as"]


class StateStore(Store, HasRows):
    """A store in one RocksDB: its rows, and all that RocksDB tells of it.

    Made by :func:`kstoolkit.open_store`, closed by ``with``.
    """

    @property
    def name(self) -> str:
        """What it is called: the name of its folder, without a segment's start."""
        folder = self.path.absolute()
        return folder.name if self._segment_start_ms is None else folder.parent.name

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
    rows = islice(store.iter_rows(cf=live_family(families)), MOST_ROWS)
    nothing = ByteColumn.of([])
    keys, values = next(row_batches(rows), (nothing, nothing))  # fewer, if values are large
    return recognise(
        families,
        keys,
        values,
        place="store" if start_ms is None else "segment",
        segment_start_ms=start_ms,
        segment_interval_ms=interval_ms,
        told=told,
    )
