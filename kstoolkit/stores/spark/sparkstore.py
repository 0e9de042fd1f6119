"""A store of Spark's in a checkpoint, at one version, whose rows can be read."""

from __future__ import annotations

import weakref
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.faults import ColumnFamilyError, StoreClosedError
from kstoolkit.stores.rows.readable import HasRows, Readable, ReadAs
from kstoolkit.stores.spark.familyserdes import FamilySerdes
from kstoolkit.stores.spark.sparksource import SparkSource
from kstoolkit.stores.spark.storeversion import StoreVersion

if TYPE_CHECKING:
    from os import PathLike

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.formats.spark.layouts import Family
    from kstoolkit.formats.spark.operatormetadata import OperatorMetadata
    from kstoolkit.formats.spark.schemafile import FamilySchema
    from kstoolkit.stores.rows.rowview import Rows
    from kstoolkit.stores.spark.partitionstate import PartitionState
    from kstoolkit.stores.spark.place import SparkPlace

__all__ = ["SparkStore"]


class SparkStore(HasRows):
    """A store of an operator of Spark's, of one partition or of all, as it was after a batch.

    Made by :func:`kstoolkit.open_store`, closed by ``with``. Keys and values are read by the
    schema in the checkpoint; the state is unpacked when rows are read first. Where a store has
    column families, rows are those of the user's variables, and each tells its ``family``.

    Parameters
    ----------
    place
        The store in the checkpoint.
    version
        Which version of the state: that of batch 6 is 7. None: that of the latest batch done.
    read_as
        How to read keys and values instead.
    scratch
        Where to make scratch folders; None is where temporary files go.

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
        self.place, self.path = place, place.path
        self.read_as = read_as or ReadAs()
        self._scratch = scratch
        self._others: weakref.WeakSet[SparkStore] = weakref.WeakSet()
        self._state: PartitionState | None = None
        self._is_closed = False
        self._at = StoreVersion(place, place.chosen(version))

    @property
    def name(self) -> str:
        """What it is called: ``"default"`` if the operator has no other."""
        return self.place.store

    @property
    def version(self) -> int:
        """Which version of the state it is."""
        return self._at.number

    @property
    def batch(self) -> int:
        """The micro-batch that left the state as it is here."""
        return self._at.batch

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
        return self._at.operator

    @property
    def schema(self) -> list[FamilySchema]:
        """The columns of keys and values, of each column family."""
        return self._at.schema

    @property
    def families(self) -> dict[str, Family]:
        """The column families by name; ``"default"`` alone in a store without others."""
        return self._at.families

    @property
    def kind(self) -> str:
        """What a person calls it, such as ``"windowed aggregation"``."""
        return self._at.kind

    @property
    def watermark_ms(self) -> int:
        """The watermark that the batch ran with, epoch ms UTC."""
        return self._at.log.watermark_ms

    @cached_property
    def source(self) -> SparkSource:
        """Where the rows of the user's variables lie, or those of the one family that was told."""
        told = self.read_as.column_family
        if told is not None:
            return self._source(self._named(told))
        return self._source([each for each in self.families.values() if not each.is_internal])

    @property
    def key_serde(self) -> Serde:
        """How keys are read: by the schema, if nobody says otherwise."""
        told = self.read_as.key_serde
        serdes = self.source.serdes
        return serdes.key if told is None else serdes.told(told)

    @property
    def value_serde(self) -> Serde:
        """How values are read."""
        told = self.read_as.value_serde
        serdes = self.source.serdes
        return serdes.value if told is None else serdes.told(told)

    def family(self, name: str) -> Readable:
        """Return the rows of one column family, the operator's own included, to ask or compare.

        Raises
        ------
        ColumnFamilyError
            If there is none of that name.
        """
        return self._readable(self._named(name))

    def rows(self, *, internal: bool = False, **asked: Any) -> Rows:
        """Return rows, as :meth:`kstoolkit.stores.rows.readable.HasRows.rows` does.

        Parameters
        ----------
        internal
            Whether to return also what operators keep for themselves: timers, counts, expiry.
        asked
            Which rows, and how to read them. ``key`` takes bytes, those of the key's row.

        Raises
        ------
        ConfigurationError
            As there, and if ``key`` or ``prefix`` is asked of several column families.
        """
        if not internal:
            return super().rows(**self.source.serdes.asked(asked))
        families = list(self.families.values())
        return self._readable(families).rows(**FamilySerdes(families).asked(asked))

    def at(self, version: int | None = None, *, batch: int | None = None) -> SparkStore:
        """Return the store as it was at another version; closed with this one.

        Parameters
        ----------
        version, batch
            The version, or the micro-batch that left it; None: the latest.

        Raises
        ------
        ConfigurationError
            If both are given.
        CheckpointError
            If there is no such version.
        """
        if version is not None and batch is not None:
            message = f"Both version {version} and batch {batch} are asked for."
            raise ConfigurationError(message, hint="Give one: version 7 is the state of batch 6.")
        self._check_open()
        chosen = version if batch is None else batch + 1
        found = SparkStore(self.place, chosen, read_as=self.read_as, scratch=self._scratch)
        self._others.add(found)
        return found

    def close(self) -> None:
        """Close it, and remove what was made to read it; a second time does nothing."""
        self._is_closed = True
        for each in self._others:
            each.close()
        if self._state is not None:
            self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SparkStore({str(self.path)!r}, {self.kind}, version {self.version})"

    def _named(self, name: str) -> list[Family]:
        if name not in self.families:
            message = f"The store {self.path} has no column family {name!r}."
            raise ColumnFamilyError(message, hint=f"It has: {', '.join(self.families)}.")
        return [self.families[name]]

    def _source(self, families: list[Family]) -> SparkSource:
        openers = [partial(self._held, partition) for partition in self.partitions]
        return SparkSource(self.name, openers, self._at.layout, tuple(families))

    def _readable(self, families: list[Family]) -> Readable:
        source = self._source(families)
        serdes, key, value = source.serdes, self.read_as.key_serde, self.read_as.value_serde
        return Readable(
            source,
            key_serde=serdes.key if key is None else serdes.told(key),
            value_serde=serdes.value if value is None else serdes.told(value),
        )

    def _held(self, partition: int) -> PartitionState:
        self._check_open()
        if len(self.partitions) > 1:
            return self._at.opened(partition, self._scratch)
        if self._state is None:
            self._state = self._at.opened(partition, self._scratch)
        return self._state

    def _check_open(self) -> None:
        if self._is_closed:
            message = f"The store {self.path} is closed."
            raise StoreClosedError(message, hint="Open it again.")
