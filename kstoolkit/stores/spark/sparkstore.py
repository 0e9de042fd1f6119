"""A store of Spark's in a checkpoint, at one version, whose rows can be read."""

from __future__ import annotations

import weakref
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import counted
from kstoolkit.rocksdb.faults import ColumnFamilyError, StoreClosedError
from kstoolkit.stores.rows.readable import HasRows, Readable, ReadAs, Rows
from kstoolkit.stores.spark.rows import (
    FamilySerdes,
    SomeOfKey,
    SparkRows,
    SparkSource,
    is_some_of_key,
)
from kstoolkit.stores.spark.state import (
    NO_LOG,
    WHERE_IT_IS,
    DescribedStore,
    KeyCount,
    opened_snapshot,
)
from kstoolkit.stores.views import HasViews

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from pathlib import Path

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.formats.spark.rows import Family
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.spark.checkpoint import SparkPlace
    from kstoolkit.stores.spark.state import PartitionState, StoreVersion


class SparkStore(DescribedStore, HasViews, HasRows):
    """A store of an operator of Spark's, of one partition or of all, as it was after a batch.

    Made by :func:`kstoolkit.open_store`, closed by ``with``. Keys and values are read by the
    schema in the checkpoint; the state is unpacked when rows are read first. Where a store has
    column families, rows are those of the user's variables, and each tells its ``family``: so
    are all stores of an operator that has several. Of all partitions, each tells its
    ``partition``.

    Parameters
    ----------
    place, version
        The store in the checkpoint, and the state's version: batch 6's is 7. None: the latest.
    read_as, scratch
        How to read keys and values instead, and where to make scratch folders.

    Raises
    ------
    CheckpointError
        If no batch is committed, or there is no such version.
    FormatError
        Also later: if files of the version are missing, damaged, or newer than what is known.
    """

    def __init__(
        self,
        place: SparkPlace,
        version: int | None = None,
        *,
        read_as: ReadAs | None = None,
        scratch: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(place, place.chosen(version))
        self.read_as = read_as or ReadAs()
        self._scratch = scratch
        self._others: weakref.WeakSet[SparkStore] = weakref.WeakSet()
        self._held: dict[str, PartitionState] = {}
        self._is_closed = False

    @cached_property
    def source(self) -> SparkSource:
        """Where the rows of the user's variables lie, or those of the one family that was told."""
        told = self.read_as.column_family
        if told is not None:
            return self._source(self._named(told))
        mine = [each for each in self.families.values() if not each.is_internal]
        return replace(self._source(mine), count=lambda: self._key_count().num_keys)

    @property
    def key_serde(self) -> Serde:
        """How keys are read: by the schema, if nobody says otherwise."""
        return self.source.serdes.read_as(self.read_as)[0]

    @property
    def value_serde(self) -> Serde:
        """How values are read."""
        return self.source.serdes.read_as(self.read_as)[1]

    def family(self, name: str) -> Readable:
        """Return the rows of one column family, the operator's own included, to ask or compare."""
        return self._readable(self._named(name))

    def rows(self, *, internal: bool = False, **asked: Any) -> Rows:
        """Return rows, as :meth:`kstoolkit.stores.rows.readable.HasRows.rows` does.

        Parameters
        ----------
        internal
            Whether to return also what operators keep for themselves: timers, counts, expiry.
        asked
            Which rows, and how to read them. ``key`` takes the values of the key's columns by name,
            of all columns or of some, which reads all rows; the value alone, if there is one
            column; or bytes, those of the key's row.

        Raises
        ------
        ConfigurationError
            As there, or if ``key`` or ``prefix`` is asked of several families, or a prefix is text.
        """
        if not internal:
            return self._rows(asked)
        families = list(self.families.values())
        rows = self._readable(families).rows(**FamilySerdes(families).asked(asked))
        return SparkRows(rows, self._source(families).extra_columns)

    @overload
    def count(self, *, exact: Literal[True]) -> int: ...

    @overload
    def count(self, *, exact: Literal[False] = False) -> KeyCount: ...

    def count(self, *, exact: bool = False) -> int | KeyCount:
        """Return how many keys Spark counted, or exactly how many rows :meth:`rows` gives.

        Parameters
        ----------
        exact
            Whether to read all rows and count them; else the latest snapshots tell.
        """
        self._check_open()
        return self.rows().count() if exact else self._key_count()

    def at(self, version: int | None = None, *, batch: int | None = None) -> SparkStore:
        """Return the store as it was at another version; closed with this one.

        Parameters
        ----------
        version, batch
            The version, or the micro-batch that left it, not both; None: the latest. One that there
            isn't is a CheckpointError.
        """
        if version is not None and batch is not None:
            message = f"Both version {version} and batch {batch} are asked for."
            raise ConfigurationError(message, hint="Give one: version 7 is the state of batch 6.")
        self._check_open()
        chosen = version if batch is None else batch + 1
        found = SparkStore(self.place, chosen, read_as=self.read_as, scratch=self._scratch)
        self._others.add(found)
        return found

    @cached_property
    def places(self) -> dict[str, Path]:
        """The snapshots that the state begins with, by where they lie below its folder."""
        return {str(each.relative_to(self.path)): each for each in self._snapshots}

    def rocksdbs(self) -> Iterator[tuple[str, Store]]:
        """Yield each snapshot as a RocksDB, open until the next; what changed since is not in it.

        One that is damaged is shown as far as it goes, with a warning.
        """
        self._check_open()
        for path, at in self._snapshots.items():
            with opened_snapshot(path, at.layout({}).wrapping.delimiter, self._scratch) as store:
                yield str(path.relative_to(self.path)), store

    @property
    def no_rocksdb(self) -> str | None:
        """Why there is no RocksDB to look into, and where one is; None if there is a snapshot."""
        if self.places:
            return None
        if not self._is_in_rocksdb:
            return f"{self.path} is of Spark's HDFS-backed state store, which knows no RocksDB."
        made = f"version {self.version} is made of changelogs alone"
        return f"No RocksDB of {self.path} is on disk: {made}. {WHERE_IT_IS}"

    @property
    def no_log(self) -> str:
        """Where its log is: never beside it."""
        of_rocksdb = f"There is no LOG in {self.path}. {NO_LOG}"
        return of_rocksdb if self._is_in_rocksdb else str(self.no_rocksdb)

    @property
    def not_shown(self) -> str | None:
        """What of the state is in no snapshot; None if all is."""
        lacking = sum(each.snapshot is None for each in self._chains.values())
        changes = sum(len(each.changes) for each in self._chains.values())
        if not changes:
            return None
        without = f", and {counted(lacking, 'partitions')} without one" if lacking else ""
        told = counted(changes, "changelogs")
        return f"Not in its snapshots: what {told} changed since{without}."

    def close(self) -> None:
        """Close it, and remove what was made to read it; a second time does nothing."""
        self._is_closed = True
        for other in self._others:
            other.close()
        for state in self._held.values():
            state.close()

    def __repr__(self) -> str:
        return f"SparkStore({str(self.path)!r}, {self.kind}, version {self.version})"

    @property
    def _is_in_rocksdb(self) -> bool:
        return self._stores[0].log.is_rocksdb

    @cached_property
    def _snapshots(self) -> dict[Path, StoreVersion]:
        """The snapshots that are a RocksDB, and of which store each is."""
        begins = {each.snapshot: at for (at, _), each in self._chains.items()}
        return {path: at for path, at in begins.items() if path and path.suffix == ".zip"}

    def _named(self, name: str) -> list[Family]:
        if name not in self.families:
            message = f"The store {self.path} has no column family {name!r}."
            raise ColumnFamilyError(message, hint=f"It has: {', '.join(self.families)}.")
        return [self.families[name]]

    def _rows(self, asked: dict[str, Any]) -> Rows:
        source, key = self.source, asked.get("key")
        if key is None or len(source.wanted) != 1 or not is_some_of_key(source.wanted[0], key):
            return SparkRows(super().rows(**source.serdes.asked(asked)), source.extra_columns)
        rows = super().rows(**source.serdes.asked(asked | {"key": None}))
        some = SomeOfKey(source, source.wanted[0], key)
        some.values  # noqa: B018 - which raises, if they are none of the columns
        found = Rows(some, rows.asked, rows.key_serde, rows.value_serde, limit=rows.limit)
        return SparkRows(found, source.extra_columns)

    def _source(self, families: list[Family]) -> SparkSource:
        parts = self._parts(self._opened, families)
        is_whole = self.place.partition is None
        return SparkSource(self.name, parts, tuple(families), is_whole)

    def _readable(self, families: list[Family]) -> Readable:
        source = self._source(families)
        key, value = source.serdes.read_as(self.read_as)
        return Readable(source, key_serde=key, value_serde=value)

    def _opened(self, at: StoreVersion, partition: int) -> PartitionState:
        self._check_open()
        if self.place.partition is None:
            return at.opened(partition, self._scratch)
        held = self._held.get(at.store)
        if held is None or held.is_let_go:
            self._held[at.store] = at.opened(partition, self._scratch)
        return self._held[at.store]

    def _check_open(self) -> None:
        if self._is_closed:
            message = f"The store {self.path} is closed."
            raise StoreClosedError(message, hint="Open it again.")
