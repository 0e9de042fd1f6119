"""A store of Spark's in a checkpoint, at one version, whose rows can be read.

All stores of an operator are read as one, each a column family: a stream-stream join of state
formats 3 and 4 keeps in column families of one store what one of 1 and 2 keeps in four stores.
How many keys there are is told as far as snapshots tell: Spark counts when it writes one.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, overload

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Record, Source, counted, of_source
from kstoolkit.rocksdb.faults import ColumnFamilyError, StoreClosedError
from kstoolkit.stores.rows.readable import HasRows, Readable, ReadAs, Rows
from kstoolkit.stores.spark.checkpoint import counted_keys, kind_of
from kstoolkit.stores.spark.rows import (
    FamilySerdes,
    PartitionRows,
    SparkSource,
    is_some_of_key,
    some_of_key,
)
from kstoolkit.stores.spark.state import NO_LOG, WHERE_IT_IS, StoreVersion, opened_snapshot
from kstoolkit.stores.views import HasViews
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from pathlib import Path

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.formats.spark.logs import FamilySchema, OperatorMetadata
    from kstoolkit.formats.spark.rows import Family
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.spark.checkpoint import Chain, SparkPlace
    from kstoolkit.stores.spark.state import PartitionState


@dataclass(frozen=True, slots=True, repr=False)
class KeyCount(Record):
    """How many keys a state had when its latest snapshots were written.

    Parameters
    ----------
    num_keys, num_internal_keys
        Keys of the user's (a list is one, however many rows it has), and the operator's own.
    version, is_current
        The version that was counted, of the oldest of the snapshots; whether all are of the version
        that was asked for: then nothing has changed since.

    Examples
    --------
    >>> KeyCount(1_234, 0, version=7, is_current=False)
    KeyCount(1,234 keys at version 7, and what changed since)
    """

    num_keys: int | None = of_source(Source.STORE)
    num_internal_keys: int | None = of_source(Source.STORE)
    version: int | None = of_source(Source.STORE)
    is_current: bool | None = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        if self.num_keys is None:
            return f"KeyCount(unknown: {self.unknown.get('num_keys', 'not told')})"
        since = "" if self.is_current else ", and what changed since"
        return f"KeyCount({format_count(self.num_keys)} keys at version {self.version}{since})"


def _unknown(why: str) -> KeyCount:
    names = ("num_keys", "num_internal_keys", "version", "is_current")
    return KeyCount(None, None, None, None, dict.fromkeys(names, why))


_NO_SNAPSHOT = "version {} of {} is made of changes alone, which count nothing"
_NO_COUNT = "{} does not count its keys: only RocksDB's snapshots do, unless told not to"


class SparkStore(HasViews, HasRows):
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
        self.place, self.path, self.version = place, place.path, place.chosen(version)
        self._stores = [StoreVersion(place.operator, name, self.version) for name in place.stores]
        self.read_as = read_as or ReadAs()
        self._scratch = scratch
        self._others: weakref.WeakSet[SparkStore] = weakref.WeakSet()
        self._held: dict[str, PartitionState] = {}
        self._is_closed = False

    @property
    def name(self) -> str:
        """What it is called: ``"default"`` if the operator has no other store."""
        return self._stores[0].store if self._is_one else self.operator.name

    @property
    def batch(self) -> int:
        """The micro-batch that left the state as it is here."""
        return self.version - 1

    @property
    def partitions(self) -> list[int]:
        """The partitions that are read."""
        return self.place.partitions

    @cached_property
    def versions(self) -> list[int]:
        """The versions that can be read, the oldest first."""
        return self.place.versions()

    @property
    def operator(self) -> OperatorMetadata:
        """What the operator says of itself."""
        return self._stores[0].operator

    @property
    def schema(self) -> list[FamilySchema]:
        """The columns of keys and values, of each column family, or of each store."""
        if self._is_one:
            return self._stores[0].schema
        return [replace(schema, name=at.store) for at in self._stores for schema in at.schema]

    @cached_property
    def families(self) -> dict[str, Family]:
        """The column families by name; ``"default"`` alone in a store without others.

        Of several stores, each store is one.
        """
        if self._is_one:
            return self._stores[0].families
        return {
            at.store: replace(family, name=at.store, number=number)
            for number, at in enumerate(self._stores)
            for family in at.families.values()
        }

    @property
    def kind(self) -> str:
        """What a person calls it, such as ``"windowed aggregation"``."""
        return kind_of(self.operator, self._stores[0].store if self._is_one else "", self.schema)

    @property
    def watermark_ms(self) -> int:
        """The watermark that the batch ran with, epoch ms UTC."""
        return self._stores[0].log.watermark_ms

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
        if internal:
            families = list(self.families.values())
            return self._readable(families).rows(**FamilySerdes(families).asked(asked))
        source, key = self.source, asked.get("key")
        if key is None or len(source.wanted) != 1 or not is_some_of_key(source.wanted[0], key):
            return super().rows(**source.serdes.asked(asked))
        rows = super().rows(**source.serdes.asked(asked | {"key": None}))
        some = some_of_key(source, source.wanted[0], key)
        return Rows(some, rows.asked, rows.key_serde, rows.value_serde, limit=rows.limit)

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
        if not self._stores[0].log.is_rocksdb:
            return f"{self.path} is of Spark's HDFS-backed state store, which knows no RocksDB."
        made = f"version {self.version} is made of changelogs alone"
        return f"No RocksDB of {self.path} is on disk: {made}. {WHERE_IT_IS}"

    @property
    def no_log(self) -> str:
        """Where its log is: never beside it."""
        of_rocksdb = f"There is no LOG in {self.path}. {NO_LOG}"
        return of_rocksdb if self._stores[0].log.is_rocksdb else str(self.no_rocksdb)

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

    def _source(self, families: list[Family]) -> SparkSource:
        wanted = {each.name: each for each in families}
        parts = [
            PartitionRows(partition, partial(self._opened, at, partition), at.layout, on_disk)
            for at in self._stores
            if (on_disk := self._on_disk(at, wanted))
            for partition in self.partitions
        ]
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

    @property
    def _is_one(self) -> bool:
        return len(self._stores) == 1

    def _on_disk(self, at: StoreVersion, wanted: dict[str, Family]) -> dict[str, Family]:
        """Return the wanted families of a store by the names that they have there."""
        if self._is_one:
            return wanted
        return {name: wanted[at.store] for name in at.families if at.store in wanted}

    def _key_count(self) -> KeyCount:
        """Return how many keys the version's snapshots have; changelogs count nothing."""
        keys = internal = 0
        oldest = self.version
        for (at, partition), chain in self._chains.items():
            if chain.snapshot is None:
                folder = at.folder.folder(partition, at.store)
                return _unknown(_NO_SNAPSHOT.format(self.version, folder))
            counted = counted_keys(chain.snapshot)
            if counted is None:
                return _unknown(_NO_COUNT.format(chain.snapshot))
            keys, internal = keys + counted[0], internal + counted[1]
            oldest = min(oldest, self.version - len(chain.changes))
        return KeyCount(keys, internal, oldest, is_current=oldest == self.version)

    @cached_property
    def _chains(self) -> dict[tuple[StoreVersion, int], Chain]:
        """What makes up the state of each store and partition."""
        parts = product(self._stores, self.partitions)
        return {(at, partition): at.chain(partition) for at, partition in parts}
