"""A store at one version, or all stores of an operator as one: then each is a column family.

A stream-stream join of state formats 3 and 4 keeps in column families of one store what one of
formats 1 and 2 keeps in four stores; so they read alike.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from kstoolkit.stores.spark.kinds import kind_of
from kstoolkit.stores.spark.sparksource import Part
from kstoolkit.stores.spark.storeversion import StoreVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kstoolkit.formats.spark.logs import FamilySchema, OffsetLogEntry, OperatorMetadata
    from kstoolkit.formats.spark.rows import Family
    from kstoolkit.stores.spark.partitionstate import PartitionState
    from kstoolkit.stores.spark.place import SparkPlace


class StateVersion:
    """What a place in a checkpoint holds after a batch.

    Parameters
    ----------
    place
        The place.
    number
        Which version: that of batch 6 is 7.

    Raises
    ------
    FormatError
        By what asks for a file that is missing, damaged, or newer than what is known.
    """

    def __init__(self, place: SparkPlace, number: int) -> None:
        self.place, self.number = place, number
        self.stores = [StoreVersion(place.operator, name, number) for name in place.stores]

    @property
    def log(self) -> OffsetLogEntry:
        """What was noted before the batch ran."""
        return self.stores[0].log

    @property
    def operator(self) -> OperatorMetadata:
        """What the operator says of itself."""
        return self.stores[0].operator

    @property
    def name(self) -> str:
        """The store's name; of several stores, their operator's."""
        return self.stores[0].store if self._is_one else self.operator.name

    @property
    def kind(self) -> str:
        """What a person calls it."""
        if self._is_one:
            return self.stores[0].kind
        return kind_of(self.operator, "", self.schema)

    @property
    def schema(self) -> list[FamilySchema]:
        """The columns of keys and values, of each column family, or of each store."""
        if self._is_one:
            return self.stores[0].schema
        return [replace(schema, name=at.store) for at in self.stores for schema in at.schema]

    @cached_property
    def families(self) -> dict[str, Family]:
        """The column families by name; of several stores, each store is one."""
        if self._is_one:
            return self.stores[0].families
        return {
            at.store: replace(family, name=at.store, number=number)
            for number, at in enumerate(self.stores)
            for family in at.families.values()
        }

    def parts(
        self,
        opened: Callable[[StoreVersion, int], PartitionState],
        families: Sequence[Family],
    ) -> list[Part]:
        """Return where the rows of some families lie.

        Parameters
        ----------
        opened
            Returns the state of a store's partition, open.
        families
            The families.
        """
        wanted = {each.name: each for each in families}
        return [
            Part(partition, partial(opened, at, partition), at.layout, on_disk)
            for at in self.stores
            if (on_disk := self._on_disk(at, wanted))
            for partition in self.place.partitions
        ]

    @property
    def _is_one(self) -> bool:
        return len(self.stores) == 1

    def _on_disk(self, at: StoreVersion, wanted: dict[str, Family]) -> dict[str, Family]:
        """Return the wanted families of a store by the names that they have there."""
        if self._is_one:
            return wanted
        return {name: wanted[at.store] for name in at.families if at.store in wanted}
