"""A store in a checkpoint at one version: what the checkpoint says of it, and its state, opened."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kstoolkit.formats.spark.storelayout import layout_of
from kstoolkit.stores.spark.kinds import kind_of
from kstoolkit.stores.spark.partitionstate import PartitionState

if TYPE_CHECKING:
    from os import PathLike

    from kstoolkit.formats.spark.layouts import Family, StoreLayout
    from kstoolkit.formats.spark.offsetlog import OffsetLogEntry
    from kstoolkit.formats.spark.operatormetadata import OperatorMetadata
    from kstoolkit.formats.spark.schemafile import FamilySchema
    from kstoolkit.stores.spark.place import SparkPlace

__all__ = ["StoreVersion"]


class StoreVersion:
    """A store after a batch.

    Parameters
    ----------
    place
        The store in the checkpoint.
    number
        Which version: that of batch 6 is 7.

    Raises
    ------
    FormatError
        By what asks for a file that is missing, damaged, or newer than what is known.
    """

    def __init__(self, place: SparkPlace, number: int) -> None:
        self.place, self.number = place, number

    @property
    def batch(self) -> int:
        """The micro-batch that left it."""
        return self.number - 1

    @cached_property
    def log(self) -> OffsetLogEntry:
        """What was noted before the batch ran."""
        return self.place.operator.checkpoint.offset_log(self.batch)

    @cached_property
    def operator(self) -> OperatorMetadata:
        """What the operator says of itself."""
        return self.place.operator.metadata(self.batch)

    @cached_property
    def schema(self) -> list[FamilySchema]:
        """The columns of keys and values, of each column family."""
        return self.place.operator.schemas(self.place.store, self.batch)

    @property
    def kind(self) -> str:
        """What a person calls the store."""
        return kind_of(self.operator, self.place.store, self.schema)

    @cached_property
    def families(self) -> dict[str, Family]:
        """The column families by name.

        Their numbers are their places in the schema: on disk each partition has its own. There is
        none in a store without families.
        """
        numbers = {each.name: n for n, each in enumerate(self.schema) if each.encoder is not None}
        return {each.name: each for each in self.layout(numbers).families}

    def layout(self, numbers: dict[str, int]) -> StoreLayout:
        """Return how rows are taken apart, given the numbers of the families on disk."""
        return layout_of(self.schema, self.operator, self.place.store, self.log, numbers)

    def opened(self, partition: int, scratch: str | PathLike[str] | None) -> PartitionState:
        """Return the state of a partition, to be closed."""
        operator, store = self.place.operator, self.place.store
        return PartitionState(
            operator.folder(partition, store),
            self.number,
            operator.unique_id(partition, store, self.batch),
            self.layout({}).wrapping,
            scratch=scratch,
        )
